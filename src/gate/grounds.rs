//! Where a tree stands on disk while a gate runs: the engine's store in a run, a double in tests.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;

use crate::model::TreeId;
use crate::patch::TreeStore;
use crate::repo::{GateLayer, GateTree, RepoError, Store};
use crate::sandbox::{Mount, Tier};

/// What setup and the base's gates wrote, as a layer below later trees. Opaque to the gates.
pub type Layer = Arc<dyn Any + Send + Sync>;

/// A layer that was kept.
pub struct Kept {
    /// The layer.
    pub layer: Layer,
    /// Tracked files that the base's own run changed. Where there are any, the layer is empty.
    pub rewritten: Vec<String>,
}

/// Lays trees out.
pub trait Grounds: TreeStore {
    /// The base's tree.
    fn base(&self) -> TreeId;

    /// A throwaway copy of `tree`, over `layer` when there is one.
    ///
    /// # Errors
    /// When it can't be written.
    fn lay(
        &self,
        tree: &TreeId,
        layer: Option<&Layer>,
        tier: Tier,
    ) -> Result<Box<dyn Ground>, RepoError>;

    /// The same grounds as a store of objects.
    fn objects(&self) -> &dyn TreeStore;
}

/// A tree laid out. It goes when it is dropped.
pub trait Ground: Send + Sync {
    /// What a job needs to see it.
    fn mounts(&self) -> Vec<Mount>;

    /// Where a job works: `dir` below the tree's top, as the job sees it.
    fn cwd(&self, dir: &str) -> PathBuf;

    /// The directory of the host into which files can be put before the first job; none where a tree
    /// stands nowhere.
    fn host(&self) -> Option<PathBuf>;

    /// The id of the tree that really stands there.
    ///
    /// # Errors
    /// When it can't be read.
    fn verify(&self) -> Result<TreeId, RepoError>;

    /// Keeps it, with what was written on top, as a layer.
    ///
    /// # Errors
    /// When it can't be kept.
    fn into_layer(self: Box<Self>) -> Result<Kept, RepoError>;
}

impl Grounds for Store {
    fn base(&self) -> TreeId {
        self.base_tree().clone()
    }

    fn lay(
        &self,
        tree: &TreeId,
        layer: Option<&Layer>,
        tier: Tier,
    ) -> Result<Box<dyn Ground>, RepoError> {
        let layer = layer.and_then(|layer| layer.downcast_ref::<GateLayer>());
        Ok(Box::new(self.gate_tree(tree, layer, tier)?))
    }

    fn objects(&self) -> &dyn TreeStore {
        self
    }
}

impl Ground for GateTree {
    fn mounts(&self) -> Vec<Mount> {
        self.mounts()
    }

    fn cwd(&self, dir: &str) -> PathBuf {
        self.cwd(dir)
    }

    fn host(&self) -> Option<PathBuf> {
        self.mounts().into_iter().find_map(|mount| match mount {
            Mount::Overlay { upper, .. } => Some(upper),
            Mount::ReadWrite { from, .. } => Some(from),
            Mount::ReadOnly { .. } | Mount::Tmp { .. } => None,
        })
    }

    fn verify(&self) -> Result<TreeId, RepoError> {
        self.verify()
    }

    fn into_layer(self: Box<Self>) -> Result<Kept, RepoError> {
        let layer = GateTree::into_layer(*self)?;
        let rewritten = layer.rewritten().to_vec();
        Ok(Kept { layer: Arc::new(layer), rewritten })
    }
}
