//! Where a tree stands on disk while a gate runs: the engine's store in a run, a double in tests.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::model::TreeId;
use crate::patch::TreeStore;
use crate::repo::{GateLayer, GateTree, RepoError, Standing, Store, Wish};
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

    /// What the base's gates stand on: what is carried along, and output that earlier runs left.
    ///
    /// # Errors
    /// When it can't be read or written.
    fn stand(&self, _wish: &Wish) -> Result<Standing, RepoError> {
        Ok(Standing::bare())
    }

    /// Keeps the output of the base's gates for later runs, if it may be, and gives it back.
    ///
    /// # Errors
    /// When it can't be written.
    fn keep(&self, layer: Layer, _standing: &Standing) -> Result<Layer, RepoError> {
        Ok(layer)
    }

    /// The same grounds as a store of objects.
    fn objects(&self) -> &dyn TreeStore;
}

/// A tree laid out. It goes when it is dropped.
pub trait Ground: Send + Sync {
    /// What a job needs to see it.
    fn mounts(&self) -> Vec<Mount>;

    /// What a job must see at `at` as a tool's cache of build output: what the base's gates left in the
    /// cache of that name, and room for more. Nothing where it can't be laid over each other.
    ///
    /// # Errors
    /// When it can't be made.
    fn cache(&self, _name: &str, _at: &Path) -> Result<Option<Mount>, RepoError> {
        Ok(None)
    }

    /// Where a job works: `dir` below the tree's top, as the job sees it.
    fn cwd(&self, dir: &str) -> PathBuf;

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

    fn stand(&self, wish: &Wish) -> Result<Standing, RepoError> {
        Store::stand(self, wish)
    }

    fn keep(&self, layer: Layer, standing: &Standing) -> Result<Layer, RepoError> {
        match layer.downcast::<GateLayer>() {
            Ok(own) => Ok(Arc::new(Store::keep(self, (*own).clone(), standing)?)),
            Err(layer) => Ok(layer),
        }
    }

    fn objects(&self) -> &dyn TreeStore {
        self
    }
}

impl Ground for GateTree {
    fn mounts(&self) -> Vec<Mount> {
        self.mounts()
    }

    fn cache(&self, name: &str, at: &Path) -> Result<Option<Mount>, RepoError> {
        GateTree::cache(self, name, at)
    }

    fn cwd(&self, dir: &str) -> PathBuf {
        self.cwd(dir)
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
