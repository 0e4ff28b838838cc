//! Throwaway trees for the gates: the base with a candidate's changes, and nothing of a worker's.
//!
//! Where mounts can be made, a tree is an overlay over the user's repository path: the base layer,
//! perhaps the base gate's output on it, and a fresh upper directory with the changes. Elsewhere it is a
//! copy at a path of its own. Never here: a mount or a process.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use git2::Oid;

use super::edit::{self, Change, Edits, edit_tree, to_edits};
use super::error::{IoContext, RepoError, Result, lossy};
use super::files;
use super::lease::Lease;
use super::object_db::ObjectStore;
use super::objects::{self, Item, oid};
use super::output::{self, GateLayer, Part, caches_beside};
use super::scan::{Scan, Untracked};
use super::store::Store;
use super::{gate_copy, upper};
use crate::model::TreeId;
use crate::sandbox::{Mount, Tier};

/// A tree for one gate run after the other. Dropping it removes it.
#[derive(Debug)]
pub struct GateTree {
    /// The lease's directory.
    dir: PathBuf,
    place: Place,
    base: Arc<[Item]>,
    base_tree: Oid,
    tree: Oid,
    changes: Vec<Change>,
    objects: Arc<ObjectStore>,
    below: GateLayer,
    lease: Lease,
}

#[derive(Debug)]
enum Place {
    /// An overlay, mounted for each job at the user's repository path.
    Overlay { layers: Vec<PathBuf>, at: PathBuf },
    /// A directory of its own; where mounts can be made, jobs see it at the user's repository path, too.
    Copy { at: PathBuf },
}

impl Store {
    /// Makes a fresh tree for gates. What differs from the base is newer than all else; base files have
    /// one time in the past, so that build tools reuse `layer`'s output for them.
    ///
    /// # Errors
    /// When the tree is not in the store, can't be checked out safely, or the disk refuses.
    pub fn gate_tree(
        &self,
        tree: &TreeId,
        layer: Option<&GateLayer>,
        tier: Tier,
    ) -> Result<GateTree> {
        let name = format!("g{}-{}", std::process::id(), self.next_gate());
        let target = format!("gates/{name}");
        let lease = Lease::take(self.run_dir(), &name, std::slice::from_ref(&target))?
            .ok_or_else(|| RepoError::Mismatch(format!("{target} is in use")))?;
        let dir = self.run_dir().join(target);
        let tree = oid(tree.as_str())?;
        let changes = self.with_odb(|odb| edit::compare(odb, self.tree(), tree))?;
        check_paths(&changes)?;
        let place = if tier.can_mount() && !self.spaces().is_refused_on_disk() {
            self.make_overlay(&dir, tree, &changes)?
        } else {
            self.with_odb(|odb| gate_copy::make(odb, &dir.join("tree"), self, &changes, layer))?;
            let own = dir.join("tree");
            Place::Copy { at: if tier.can_mount() { self.seen_at(&own) } else { own } }
        };
        let (base, objects) = (self.shared_items(), self.objects());
        let below = layer.cloned().unwrap_or_default();
        Ok(GateTree {
            dir,
            place,
            base,
            base_tree: self.tree(),
            tree,
            changes,
            objects,
            below,
            lease,
        })
    }

    fn make_overlay(&self, dir: &Path, tree: Oid, changes: &[Change]) -> Result<Place> {
        for sub in ["upper", "work"] {
            let path = dir.join(sub);
            files::make_private(&path).at("create", &path)?;
        }
        let upper = dir.join("upper");
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&upper, fs::Permissions::from_mode(0o755)).at("create", &upper)?;
        self.with_odb(|odb| upper::write(odb, &upper, tree, changes))?;
        Ok(Place::Overlay { layers: self.stack().dirs(), at: self.top() })
    }
}

/// Whether all new paths of a candidate's tree may be written.
fn check_paths(changes: &[Change]) -> Result<()> {
    let unsafe_path = |change: &&Change| {
        change.new.is_some() && !change.path.split(|b| *b == b'/').all(objects::is_safe_name)
    };
    match changes.iter().find(unsafe_path) {
        Some(change) => Err(RepoError::UnsafePath { path: lossy(&change.path) }),
        None => Ok(()),
    }
}

impl GateTree {
    /// What a job must mount to see the tree.
    pub fn mounts(&self) -> Vec<Mount> {
        match &self.place {
            Place::Overlay { layers, at } => vec![Mount::Overlay {
                lower: self.below.dirs().map(Path::to_owned).chain(layers.clone()).collect(),
                upper: self.dir.join("upper"),
                work: self.dir.join("work"),
                at: at.clone(),
            }],
            Place::Copy { at } => {
                vec![Mount::ReadWrite { from: self.dir.join("tree"), at: at.clone() }]
            }
        }
    }

    /// What a job must mount at `at` for a tool's cache of build output that lies outside the tree. Below it
    /// is what the base's gates left there; what this tree's gates write goes with the tree.
    /// Nothing for a tree that is a copy.
    ///
    /// # Errors
    /// When its directories can't be made.
    pub fn cache(&self, name: &str, at: &Path) -> Result<Option<Mount>> {
        if matches!(self.place, Place::Copy { .. }) {
            return Ok(None);
        }
        let dir = caches_beside(&self.dir.join("upper")).join(name);
        let [upper, work, bottom] = ["upper", "work", "bottom"].map(|part| dir.join(part));
        for path in [&upper, &work, &bottom] {
            files::make_private(path).at("create", path)?;
        }
        let lower = self.below.caches(name).chain([bottom]).collect();
        Ok(Some(Mount::Overlay { lower, upper, work, at: at.to_owned() }))
    }

    /// The tree's top as a job sees it, or a directory below it.
    pub fn cwd(&self, dir: &str) -> PathBuf {
        let top = match &self.place {
            Place::Overlay { at, .. } | Place::Copy { at } => at.clone(),
        };
        if dir.is_empty() || dir == "." { top } else { top.join(dir) }
    }

    /// Reads back what is on disk and proves that its tracked files are those of the admitted tree,
    /// whose id it gives. Call it before a gate runs: a gate may write what it likes.
    ///
    /// # Errors
    /// [`RepoError::Mismatch`] naming what differs.
    pub fn verify(&self) -> Result<TreeId> {
        let edits = match &self.place {
            Place::Overlay { .. } => {
                self.below.check(&self.base)?;
                upper::read(&self.dir.join("upper"), &self.base, &self.changes)?
            }
            Place::Copy { .. } => self.read_copy()?,
        };
        let differ = self.objects.with(|odb| {
            let on_disk = edit_tree(odb, self.base_tree, &edits)?;
            // Modes of old trees are not canonical; what counts is what they mean.
            edit::compare(odb, self.tree, on_disk)
        })?;
        if let Some(first) = differ.first() {
            let (path, count) = (lossy(&first.path), differ.len());
            return Err(RepoError::Mismatch(format!("{path:?} and {} more", count - 1)));
        }
        Ok(TreeId::new(self.tree.to_string()))
    }

    fn read_copy(&self) -> Result<Edits> {
        let root = self.dir.join("tree");
        let fd = files::open_dir(&root).at("open", &root)?;
        let items = gate_copy::listing(&self.base, &self.changes);
        let scan = Scan { items: &items, stamps: None, untracked: Untracked::None };
        let found = scan.run(fd.as_fd())?;
        let mut edits = to_edits(&self.changes);
        edits.extend(found.into_iter().map(|f| (f.change.path, f.change.new)));
        Ok(edits)
    }

    /// Keeps what the gates wrote beside the base's tracked files, for the candidates. For the base's own
    /// tree, after its gates ran and ended.
    ///
    /// # Errors
    /// When the output can't be cleaned.
    pub fn into_layer(self) -> Result<GateLayer> {
        let upper = match &self.place {
            Place::Overlay { .. } => self.dir.join("upper"),
            Place::Copy { .. } => self.dir.join("tree"),
        };
        let items = gate_copy::listing(&self.base, &self.changes);
        // A tree of its own holds what was below it. Where the base has nothing, a file that is removed
        // from an overlay leaves no mark.
        let GateLayer { parts, carried, .. } = self.below;
        let (written, below) = match &self.place {
            Place::Overlay { .. } => (gate_copy::listing(&[], &self.changes), parts),
            Place::Copy { .. } => (items.clone(), Vec::new()),
        };
        let missing = gate_copy::missing(&upper, &written)?;
        let mut rewritten = upper::strip(&upper, &items, !below.is_empty())?;
        rewritten.extend(missing);
        if !rewritten.is_empty() {
            files::remove(&upper).at("clean", &upper)?;
            files::make_private(&upper).at("create", &upper)?;
        }
        let work = self.dir.join("work");
        files::remove(&work).at("clean", &work)?;
        output::tidy_caches(&upper, !rewritten.is_empty())?;
        let rewritten = rewritten.iter().map(|path| lossy(path)).collect();
        let parts = [Part::leased(upper, self.lease, None)].into_iter().chain(below).collect();
        Ok(GateLayer { parts, rewritten, carried })
    }
}
