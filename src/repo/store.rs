//! The run's store: an engine-owned bare repository with the base tree and what the run adds to it.
//!
//! Once prepared it needs neither the user's repository nor the cache's pack. Never here: a write to
//! the user's repository.

use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use git2::{ObjectType, Oid, Repository};

use super::bare::{self, Base};
use super::dirty;
use super::edit::{self, edit_tree};
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files;
use super::git_index::BaseIndex;
use super::gitdiff;
use super::ignore_rules::IgnoreRules;
use super::layer::{self, Stack};
use super::lease::Lease;
use super::object_db::{ObjectStore, Objects};
use super::objects::{self, Item, oid, read_blob};
use super::pack;
use super::spaces::Spaces;
use super::user::{UserRepo, set_up_library};
use crate::model::{CommitId, TreeId};

/// How many ancestors of the base a workspace shows when nothing else is asked for: enough to see how
/// the project writes its changes.
pub const HISTORY: u32 = 50;

/// Where a store keeps its things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePaths {
    /// Kept between runs and shared by them.
    pub cache: PathBuf,
    /// The run's own directory; on one file system with `cache` copies can share blocks.
    pub run: PathBuf,
}

/// The run's own objects, base layer, workspaces and gate trees.
#[derive(Debug)]
pub struct Store {
    paths: StorePaths,
    git_dir: PathBuf,
    base: Base,
    base_tree: TreeId,
    tree: Oid,
    stack: Arc<Stack>,
    items: Arc<[Item]>,
    rules: OnceLock<IgnoreRules>,
    objects: Arc<ObjectStore>,
    gates: AtomicU64,
    spaces: Spaces,
    index: Arc<BaseIndex>,
    _own: Option<Lease>,
}

impl Store {
    /// As [`Store::prepare_with`], with the [default number](HISTORY) of ancestors.
    ///
    /// # Errors
    /// As there.
    pub fn prepare(
        user: &UserRepo,
        commit: &CommitId,
        dirty: bool,
        paths: &StorePaths,
    ) -> Result<Self> {
        Self::prepare_with(user, commit, dirty, HISTORY, paths)
    }

    /// Makes the store of a run: the objects of the base and of at most `history` of its ancestors, and
    /// a base layer, from the cache where they are there. With `dirty` the base is the working tree:
    /// tracked changes and untracked files, never ignored ones.
    ///
    /// # Errors
    /// When objects are missing, the base can't be checked out safely, or the disk refuses.
    pub fn prepare_with(
        user: &UserRepo,
        commit: &CommitId,
        dirty: bool,
        history: u32,
        paths: &StorePaths,
    ) -> Result<Self> {
        set_up_library();
        let paths = &lay_out(paths)?;
        let git_dir = paths.run.join("repo.git");
        let committed = oid(user.tree_of(commit)?.as_str())?;
        let head = if dirty { Some(user.resolve("HEAD")?) } else { None };
        if head.is_some_and(|head| head != *commit) {
            return Err(RepoError::DirtyNeedsHead);
        }
        let theirs = user.repo().commondir().to_owned();
        let top = lossy(user.top().as_os_str().as_bytes());
        // The checkout is written beside the packs, of the user's own objects. What goes wrong there is
        // tried again, and told, when the store is opened.
        let early = || early_layer(&paths.cache, &top, &theirs, committed).ok();
        let (base, early) = std::thread::scope(|scope| {
            let early = scope.spawn(early);
            let base = (|| {
                let commit_id = oid(commit.as_str())?;
                let packs = pack::enter(&paths.cache, &user.repo(), commit_id, history)?;
                packs.copy_to(&git_dir.join("objects"))?;
                let base = import_base(user, commit, dirty, committed, &git_dir)?;
                bare::complete(&git_dir, &base, &packs.border)?;
                Ok::<_, RepoError>(base)
            })();
            (base, early.join().ok().flatten())
        });
        Self::open(paths, git_dir, base?, early)
    }

    /// Opens the store of a run that was prepared before. It needs nothing of the user's repository.
    ///
    /// # Errors
    /// When the run has no complete store.
    pub fn reopen(paths: &StorePaths) -> Result<Self> {
        set_up_library();
        let paths = &lay_out(paths)?;
        let git_dir = paths.run.join("repo.git");
        let base = bare::read(&git_dir)?.ok_or_else(|| {
            RepoError::Mismatch(format!("{} holds no complete store", paths.run.display()))
        })?;
        Self::open(paths, git_dir, base, None)
    }

    /// Opens the store of a run that is only read: what is written goes into `scratch` and away with it.
    ///
    /// # Errors
    /// As [`Store::reopen`].
    pub fn reopen_aside(paths: &StorePaths, scratch: &Path) -> Result<Self> {
        set_up_library();
        let theirs = paths.run.canonicalize().at("resolve", &paths.run)?.join("repo.git");
        let paths = &lay_out(&StorePaths { run: scratch.to_owned(), cache: paths.cache.clone() })?;
        let git_dir = paths.run.join("repo.git");
        let base = bare::borrow(&git_dir, &theirs)?.ok_or_else(|| {
            RepoError::Mismatch(format!("{} holds no complete store", theirs.display()))
        })?;
        Self::open(paths, git_dir, base, None)
    }

    fn open(
        paths: &StorePaths,
        git_dir: PathBuf,
        base: Base,
        early: Option<Stack>,
    ) -> Result<Self> {
        let tree = oid(&base.tree)?;
        let objects = Arc::new(ObjectStore::open(&git_dir)?);
        let (committed, items, listed) = {
            let repo = Repository::open_bare(&git_dir).doing("open the run's store")?;
            let odb = Objects::of(&repo)?;
            let committed =
                repo.find_commit(oid(&base.user_commit)?).doing("read the base commit")?;
            let items = objects::list(&odb, tree)?;
            let committed = committed.tree_id();
            let listed =
                if committed == tree { None } else { Some(objects::list(&odb, committed)?) };
            (committed, items, listed)
        };
        let top = lossy(&base.top);
        let of_commit = listed.as_ref().unwrap_or(&items);
        let stack = match early {
            Some(stack) => stack,
            None => layer::enter(&paths.cache, &top, &git_dir, committed, of_commit)?,
        };
        let (stack, own) = match listed {
            None => (stack, None),
            Some(listed) => {
                let (stack, lease) = own_layer(paths, &git_dir, (stack, listed), &items)?;
                (stack, Some(lease))
            }
        };
        let items: Arc<[Item]> = items.into();
        let stack = Arc::new(stack);
        let index = BaseIndex::new(items.clone(), stack.clone(), paths.run.join("base.index"));
        Ok(Self {
            paths: paths.clone(),
            git_dir,
            base_tree: TreeId::new(base.tree.clone()),
            base,
            tree,
            spaces: Spaces::copies(),
            index: index.into(),
            stack,
            items,
            rules: OnceLock::new(),
            objects,
            gates: AtomicU64::new(0),
            _own: own,
        })
    }

    /// The same store, with workspaces made in another way than by copying.
    #[must_use]
    pub fn with_spaces(self, spaces: Spaces) -> Self {
        Self { spaces, ..self }
    }

    /// How workspaces are made.
    pub fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// The base tree: with uncommitted changes where they were asked for.
    pub fn base_tree(&self) -> &TreeId {
        &self.base_tree
    }

    /// The commit that a workspace's `HEAD` names: the user's own, or one with the uncommitted changes
    /// on top of it, which only this store has.
    pub fn base_commit(&self) -> CommitId {
        CommitId::new(self.base.commit.clone())
    }

    /// The user's commit under the base.
    pub fn user_commit(&self) -> CommitId {
        CommitId::new(self.base.user_commit.clone())
    }

    /// Whether the base holds uncommitted changes.
    pub fn is_dirty(&self) -> bool {
        self.base.dirty
    }

    /// The path of the user's working tree, over which gate trees are mounted.
    pub fn top(&self) -> PathBuf {
        path_of(self.base.top.clone())
    }

    /// The difference between two trees of the store as a git-format diff.
    ///
    /// # Errors
    /// When an object is missing.
    pub fn diff_trees(&self, old: &TreeId, new: &TreeId) -> Result<Vec<u8>> {
        let (old, new) = (oid(old.as_str())?, oid(new.as_str())?);
        self.with_odb(|odb| {
            gitdiff::print(&edit::compare(odb, old, new)?, &|leaf| read_blob(odb, leaf.id))
        })
    }

    /// Brings the objects of a tree of the user's repository into the store.
    pub(crate) fn import_tree(&self, user: &UserRepo, tree: Oid) -> Result<()> {
        let repo = user.repo();
        let from = Objects::of(&repo)?;
        self.with_odb(|odb| copy_tree(&from, odb, tree))
    }

    /// Runs `work` on the objects, with a handle of its own.
    pub(crate) fn with_odb<T>(&self, work: impl FnOnce(&Objects<'_>) -> Result<T>) -> Result<T> {
        self.objects.with(work)
    }

    /// All objects of the run.
    pub(crate) fn objects(&self) -> Arc<ObjectStore> {
        Arc::clone(&self.objects)
    }

    pub(crate) fn rules(&self) -> Result<&IgnoreRules> {
        if let Some(rules) = self.rules.get() {
            return Ok(rules);
        }
        let rules = self.with_odb(|odb| IgnoreRules::of(odb, &self.items))?;
        Ok(self.rules.get_or_init(|| rules))
    }

    pub(crate) fn tree(&self) -> Oid {
        self.tree
    }

    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    pub(crate) fn shared_items(&self) -> Arc<[Item]> {
        Arc::clone(&self.items)
    }

    /// The base's checkout.
    pub(crate) fn stack(&self) -> &Stack {
        &self.stack
    }

    pub(crate) fn base_index(&self) -> Arc<BaseIndex> {
        Arc::clone(&self.index)
    }

    pub(crate) fn cache(&self) -> &Path {
        &self.paths.cache
    }

    pub(crate) fn run_dir(&self) -> &Path {
        &self.paths.run
    }

    pub(crate) fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    pub(crate) fn next_gate(&self) -> u64 {
        self.gates.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

/// The path of the user's working tree that a run's directory was made on; none without a complete store.
pub fn top_of(run: &Path) -> Option<PathBuf> {
    bare::read(&run.join("repo.git")).ok().flatten().map(|base| path_of(base.top))
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

/// Makes the directories and resolves their paths.
fn lay_out(paths: &StorePaths) -> Result<StorePaths> {
    let resolve = |dir: &Path| {
        files::make_private(dir).at("create", dir)?;
        dir.canonicalize().at("resolve", dir)
    };
    let paths = StorePaths { cache: resolve(&paths.cache)?, run: resolve(&paths.run)? };
    bare::lay_out(&paths.run.join("repo.git"))?;
    Ok(paths)
}

/// The layer of a commit's tree, of the objects of the user's repository.
fn early_layer(cache: &Path, top: &str, git_dir: &Path, tree: Oid) -> Result<Stack> {
    let repo = Repository::open_bare(git_dir).doing("open the repository")?;
    let items = objects::list(&Objects::of(&repo)?, tree)?;
    layer::enter(cache, top, git_dir, tree, &items)
}

/// The layer of a base with uncommitted changes belongs to the process that opened the store and goes
/// away with it; it holds only those changes, and lies on the commit's.
fn own_layer(
    paths: &StorePaths,
    git_dir: &Path,
    committed: (Stack, Vec<Item>),
    items: &[Item],
) -> Result<(Stack, Lease)> {
    let name = format!("base-{}-{:08x}", std::process::id(), fastrand::u32(..));
    let lease = Lease::take(&paths.run, &name, std::slice::from_ref(&name))?
        .ok_or_else(|| RepoError::Mismatch(format!("{name} is in use")))?;
    let dir = paths.run.join(&name);
    files::make_private(&dir).at("create", &dir)?;
    Ok((layer::on(&dir, git_dir, committed, items)?, lease))
}

/// Writes the base commit into the store, and with `dirty` the working tree's changes as a commit on
/// top of it.
fn import_base(
    user: &UserRepo,
    commit: &CommitId,
    dirty: bool,
    committed: Oid,
    git_dir: &Path,
) -> Result<Base> {
    let repo = Repository::open_bare(git_dir).doing("open the run's store")?;
    let odb = Objects::of(&repo)?;
    let user_commit = oid(commit.as_str())?;
    let (tree, top_commit) = if dirty {
        let put = |bytes: &[u8]| odb.write(ObjectType::Blob, bytes);
        let tree = edit_tree(&odb, committed, &dirty::edits(user, &put)?)?;
        let unchanged = tree == committed;
        (tree, if unchanged { user_commit } else { commit_on(&odb, tree, user_commit)? })
    } else {
        (committed, user_commit)
    };
    let base = Base {
        tree: tree.to_string(),
        commit: top_commit.to_string(),
        user_commit: user_commit.to_string(),
        dirty: tree != committed,
        top: user.top().as_os_str().as_bytes().to_vec(),
    };
    Ok(base)
}

/// A commit with the uncommitted changes. Its name depends on nothing but them and the commit under it.
fn commit_on(odb: &Objects<'_>, tree: Oid, parent: Oid) -> Result<Oid> {
    let who = "bakeoff <bakeoff@localhost> 0 +0000";
    let text = format!(
        "tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n\nUncommitted changes\n"
    );
    odb.write(ObjectType::Commit, text.as_bytes())
}

/// Copies a tree and what it needs; a subtree that is there already is not walked.
pub(crate) fn copy_tree(from: &Objects<'_>, to: &Objects<'_>, tree: Oid) -> Result<()> {
    if to.exists(tree) {
        return Ok(());
    }
    for entry in objects::read_tree(from, tree)? {
        match objects::canonical(entry.mode) {
            objects::TREE => copy_tree(from, to, entry.id)?,
            objects::GITLINK => {}
            _ if to.exists(entry.id) => {}
            _ => {
                let bytes = read_blob(from, entry.id)?;
                to.write(ObjectType::Blob, &bytes)?;
            }
        }
    }
    // Last, so that a tree that is there is whole.
    let bytes = from.read(tree, ObjectType::Tree)?;
    to.write(ObjectType::Tree, &bytes).map(drop)
}
