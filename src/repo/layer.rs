//! The base layer: a checkout of the base tree with exact bytes, modes and one past time, from the
//! engine's own objects, without filters.
//!
//! It is a stack of directories: a whole checkout of some earlier base, and on it what later bases
//! changed, each as the upper directory of an overlay. Each directory is complete or not there, and
//! nobody writes to it after. Never here: a mount.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};
use rustix::fs::{AtFlags, FileType, Mode, Timestamps};

use super::cache::{self, CacheEntry, Kind, Label};
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files::{self, Stamp};
use super::listing::{self, GONE};
use super::object_db::Objects;
use super::objects::{self, GITLINK, Item};
use super::scan::{Scan, Untracked};
use super::{lease, parallel};

/// The most directories of a stack: each costs the kernel a look-up at every miss.
const MOST_DIRS: usize = 6;
/// How many cached layers are looked at for the nearest one.
const LOOK_AT: usize = 6;

/// A base's checkout.
#[derive(Debug)]
pub(crate) struct Stack {
    /// The topmost first; the last is a whole checkout.
    dirs: Vec<Part>,
    /// Hold what lies in the cache.
    _entries: Vec<CacheEntry>,
}

/// One directory of a stack.
#[derive(Debug)]
struct Part {
    dir: PathBuf,
    /// The paths that it has, sorted; all of them in a whole checkout.
    has: Option<Vec<Vec<u8>>>,
}

impl Stack {
    /// The directories as an overlay takes them, the topmost first.
    pub(crate) fn dirs(&self) -> Vec<PathBuf> {
        self.dirs.iter().map(|part| part.dir.clone()).collect()
    }

    /// The stamps of the base's files, in the order of `items`.
    pub(crate) fn stamps(&self, items: &[Item]) -> Result<Vec<Stamp>> {
        let open = |part: &Part| files::open_dir(&part.dir).at("open", &part.dir);
        let roots = self.dirs.iter().map(open).collect::<Result<Vec<_>>>()?;
        let stamp = |item: &Item| {
            let at = self.source(&item.path);
            let stat =
                rustix::fs::statat(&roots[at], item.path.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
            stat.map(|stat| Stamp::of(&stat)).at("read", &self.dirs[at].dir)
        };
        items.iter().map(stamp).collect()
    }

    /// The index of the directory that a path of the base is seen from.
    fn source(&self, path: &[u8]) -> usize {
        let has = |part: &Part| {
            let paths = part.has.as_ref();
            paths.is_none_or(|paths| paths.binary_search_by(|p| p.as_slice().cmp(path)).is_ok())
        };
        self.dirs.iter().position(has).unwrap_or(0)
    }
}

/// Finds or makes the layer of a tree: on the nearest one that is cached, when there is one.
pub(crate) fn enter(
    cache: &Path,
    top: &str,
    git_dir: &Path,
    tree: Oid,
    items: &[Item],
) -> Result<Stack> {
    let mut below = None;
    let entry = CacheEntry::enter(cache, Kind::Layer, &tree.to_string(), |dir| {
        if let Some(found) = intact(cache, dir)? {
            below = found;
            return Ok(());
        }
        for name in [LAYER, cache::LABEL] {
            cache::put_aside(&dir.join(name))?;
        }
        below = nearest(cache, items);
        make(dir, git_dir, below.as_ref(), items)?;
        let lower = below.iter().map(|near| format!("{}/{}", Kind::Layer.name(), near.key));
        let label = Label {
            top: top.to_owned(),
            of: format!("tree {tree}"),
            below: lower.collect(),
            ..Label::default()
        };
        cache::label(dir, label)
    })?;
    let own = listing::load(&entry.dir().join(OWN)).at("read", entry.dir())?;
    Ok(stack(entry.dir().join(LAYER), own, below, Some(entry)))
}

/// The name of the checkout in its entry, of its listing, and of the whole tree's.
const LAYER: &str = "layer";
const OWN: &str = "own";
const TREE: &str = "tree";

/// A cached layer that another may be made on.
struct Near {
    key: String,
    stack: Stack,
    items: Vec<Item>,
}

/// Writes into `dir` what `items` have and the layer below does not.
fn make(dir: &Path, git_dir: &Path, below: Option<&Near>, items: &[Item]) -> Result<()> {
    let own = match below {
        Some(near) => listing::changes(&near.items, items),
        None => items.to_vec(),
    };
    listing::save(&dir.join(OWN), &own).at("write", dir)?;
    listing::save(&dir.join(TREE), items).at("write", dir)?;
    let making = dir.join("layer.tmp");
    files::remove(&making).at("remove", &making)?;
    let (there, gone): (Vec<Item>, Vec<Item>) =
        own.into_iter().partition(|item| item.leaf.mode != GONE);
    let stamps = write(&making, git_dir, &there, &gone, &files::past())?;
    save_stamps(dir, &stamps)?;
    let layer = dir.join(LAYER);
    fs::rename(&making, &layer).at("complete", &layer)
}

fn stack(dir: PathBuf, own: Vec<Item>, below: Option<Near>, entry: Option<CacheEntry>) -> Stack {
    let mut dirs = vec![Part { dir, has: None }];
    let mut entries: Vec<CacheEntry> = entry.into_iter().collect();
    if let Some(near) = below {
        dirs[0].has = Some(own.into_iter().map(|item| item.path).collect());
        dirs.extend(near.stack.dirs);
        entries.extend(near.stack._entries);
    }
    Stack { dirs, _entries: entries }
}

/// A layer of a base with uncommitted changes, in a directory of its own: on the commit's.
pub(crate) fn on(
    dir: &Path,
    git_dir: &Path,
    committed: (Stack, Vec<Item>),
    items: &[Item],
) -> Result<Stack> {
    let (stack_below, below_items) = committed;
    let near = Near { key: String::new(), stack: stack_below, items: below_items };
    make(dir, git_dir, Some(&near), items)?;
    let own = listing::load(&dir.join(OWN)).at("read", dir)?;
    Ok(stack(dir.join(LAYER), own, Some(near), None))
}

/// The cached layer that differs least, where a difference on it costs less than a whole checkout.
fn nearest(cache: &Path, items: &[Item]) -> Option<Near> {
    let mut best: Option<(usize, String, Vec<Item>)> = None;
    for (key, _) in cache::keys_of(cache, Kind::Layer).into_iter().take(LOOK_AT) {
        let dir = cache::dir_of(cache, Kind::Layer, &key);
        let Ok(theirs) = listing::load(&dir.join(TREE)) else { continue };
        let count = listing::changes(&theirs, items).len();
        if best.as_ref().is_none_or(|(least, _, _)| count < *least) {
            best = Some((count, key, theirs));
        }
    }
    let (count, key, theirs) = best.filter(|(count, _, _)| *count <= (items.len() / 4).max(64))?;
    let found = open(cache, &key).ok()??;
    if found.dirs.len() < MOST_DIRS {
        return Some(Near { key, stack: found, items: theirs });
    }
    // The whole checkout at the bottom, while it is near enough.
    let bottom = found._entries.last()?.key().to_owned();
    let theirs = listing::load(&cache::dir_of(cache, Kind::Layer, &bottom).join(TREE)).ok()?;
    let far = listing::changes(&theirs, items).len();
    if far > (items.len() / 4).max(64) + count {
        return None;
    }
    Some(Near { stack: open(cache, &bottom).ok()??, key: bottom, items: theirs })
}

/// A complete and intact layer with all that it lies on.
fn open(cache: &Path, key: &str) -> Result<Option<Stack>> {
    let Some(entry) = CacheEntry::find(cache, Kind::Layer, key)? else { return Ok(None) };
    let Some(below) = intact(cache, entry.dir())? else { return Ok(None) };
    let own = listing::load(&entry.dir().join(OWN)).at("read", entry.dir())?;
    Ok(Some(stack(entry.dir().join(LAYER), own, below, Some(entry))))
}

/// What an entry lies on, when it is complete and still holds exactly what it should, all the way
/// down; nothing otherwise.
fn intact(cache: &Path, dir: &Path) -> Result<Option<Option<Near>>> {
    let Some(label) = cache::read_label(dir) else { return Ok(None) };
    let Ok(own) = listing::load(&dir.join(OWN)) else { return Ok(None) };
    if !is_intact(dir, own)? {
        return Ok(None);
    }
    let Some(below) = label.below.first() else { return Ok(Some(None)) };
    let key = below.rsplit('/').next().unwrap_or_default().to_owned();
    let Some(found) = open(cache, &key)? else { return Ok(None) };
    Ok(Some(Some(Near { key, stack: found, items: Vec::new() })))
}

/// Writes items into a directory that is not there yet, with one time, and marks for what is gone.
pub(crate) fn write(
    making: &Path,
    objects: &Path,
    items: &[Item],
    gone: &[Item],
    times: &Timestamps,
) -> Result<Vec<Stamp>> {
    fs::create_dir(making).at("create", making)?;
    let root = files::open_dir(making).at("open", making)?;
    let all: Vec<Item> = items.iter().chain(gone).cloned().collect();
    let dirs = objects::directories(&all);
    files::make_dirs(root.as_fd(), &dirs).at("create", making)?;
    let open = || Repository::open_bare(objects).doing("open the object store");
    let stamps = parallel::map(items.len(), open, |repo, index| {
        let item = &items[index];
        let bytes = leaf_bytes(&Objects::of(repo)?, item)?;
        let shown = || making.join(lossy(&item.path));
        files::write_leaf(root.as_fd(), &item.path, item.leaf.mode, &bytes, Some(times))
            .map_err(|source| RepoError::Io { action: "write", path: shown(), source })
    })?;
    for item in gone {
        let none = Mode::empty();
        rustix::fs::mknodat(&root, item.path.as_slice(), FileType::CharacterDevice, none, 0)
            .at("mark as deleted in", making)?;
    }
    for dir in dirs.iter().rev().map(Vec::as_slice).chain([&b"."[..]]) {
        rustix::fs::utimensat(&root, dir, times, AtFlags::empty()).at("write", making)?;
    }
    Ok(stamps)
}

/// A leaf's bytes; a submodule has none of its own.
pub(crate) fn leaf_bytes(odb: &Objects<'_>, item: &Item) -> Result<Vec<u8>> {
    if item.leaf.mode == GITLINK { Ok(Vec::new()) } else { objects::read_blob(odb, item.leaf.id) }
}

/// Whether a directory still holds exactly what it should. What kept its stamp since this boot is not
/// read.
fn is_intact(dir: &Path, own: Vec<Item>) -> Result<bool> {
    let layer = dir.join(LAYER);
    let Ok(root) = files::open_dir(&layer) else { return Ok(false) };
    let (items, gone): (Vec<Item>, Vec<Item>) =
        own.into_iter().partition(|item| item.leaf.mode != GONE);
    let is_marked = |item: &Item| {
        let stat = rustix::fs::statat(&root, item.path.as_slice(), AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
        })
    };
    if !gone.iter().all(is_marked) {
        return Ok(false);
    }
    let stamps = load_stamps(dir, items.len());
    let scan = Scan { items: &items, stamps: stamps.as_deref(), untracked: Untracked::All };
    let intact = scan.run(root.as_fd())?.is_empty();
    if intact && stamps.is_none() {
        save_stamps(dir, &read_stamps(&layer, &items)?)?;
    }
    Ok(intact)
}

fn read_stamps(layer: &Path, items: &[Item]) -> Result<Vec<Stamp>> {
    let root = files::open_dir(layer).at("open", layer)?;
    let nofollow = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let stamp = |item: &Item| {
        let stat = rustix::fs::statat(&root, item.path.as_slice(), nofollow);
        stat.at("read", layer).map(|stat| Stamp::of(&stat))
    };
    items.iter().map(stamp).collect()
}

/// One stamp's size on disk: six numbers of eight bytes.
const STAMP_BYTES: usize = 48;

fn save_stamps(dir: &Path, stamps: &[Stamp]) -> Result<()> {
    let mut out = lease::boot_id().into_bytes();
    out.push(b'\n');
    for s in stamps {
        let owner = u64::from(s.uid) << 32 | u64::from(s.gid);
        for number in [s.dev, s.ino, owner, s.size, s.ctime.0.cast_unsigned(), s.ctime.1] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
    let path = dir.join("layer.stamps");
    files::put(&path, &out).at("write", &path)
}

/// The stamps of this boot's layer; nothing when they are of another boot or another number.
fn load_stamps(dir: &Path, count: usize) -> Option<Vec<Stamp>> {
    let bytes = fs::read(dir.join("layer.stamps")).ok()?;
    let body = bytes.strip_prefix(lease::boot_id().as_bytes())?.strip_prefix(b"\n")?;
    if body.len() != count * STAMP_BYTES {
        return None;
    }
    let stamps = body.chunks_exact(STAMP_BYTES).map(|chunk| {
        let number = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&chunk[at * 8..at * 8 + 8]);
            u64::from_le_bytes(word)
        };
        Stamp {
            dev: number(0),
            ino: number(1),
            uid: (number(2) >> 32) as u32,
            gid: number(2) as u32,
            size: number(3),
            ctime: (number(4).cast_signed(), number(5)),
        }
    });
    Some(stamps.collect())
}

/// Copies a layer's files into an empty directory, in parallel, and gives the copies' stamps: those of
/// files written too late to be told from later changes are void.
pub(crate) fn copy(stack: &Stack, to: &Path, items: &[Item]) -> Result<Vec<Stamp>> {
    let open = |part: &Part| files::open_dir(&part.dir).at("open", &part.dir);
    let from = stack.dirs.iter().map(open).collect::<Result<Vec<_>>>()?;
    let to_fd = files::open_dir(to).at("open", to)?;
    files::make_dirs(to_fd.as_fd(), &objects::directories(items)).at("create", to)?;
    let mut stamps = parallel::map(
        items.len(),
        || Ok(()),
        |(), index| {
            let item = &items[index];
            let from = from[stack.source(&item.path)].as_fd();
            files::copy_leaf(from, to_fd.as_fd(), &item.path, item.leaf.mode).map_err(|source| {
                RepoError::Io { action: "copy", path: to.join(lossy(&item.path)), source }
            })
        },
    )?;
    let fence = files::fence(to).at("write", to)?;
    for stamp in stamps.iter_mut().filter(|stamp| stamp.ctime >= fence) {
        stamp.ino = 0;
    }
    Ok(stamps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo::edit::{Edits, edit_tree};
    use crate::repo::objects::{EXECUTABLE, FILE, LINK, Leaf, list, write_tree};
    use git2::{ObjectType, Oid};

    fn sample(dir: &Path) -> (Repository, Vec<Item>) {
        let repo = Repository::init_bare(dir).unwrap();
        let items = {
            let odb = Objects::of(&repo).unwrap();
            let leaf = |mode, text: &[u8]| {
                Some(Leaf { mode, id: odb.write(ObjectType::Blob, text).unwrap() })
            };
            let sub = Some(Leaf { mode: GITLINK, id: Oid::from_bytes(&[7; 20]).unwrap() });
            let edits: Edits = [
                ("a.txt", leaf(FILE, b"one\r\ntwo")),
                ("bin/run", leaf(EXECUTABLE, b"#!/bin/sh\n")),
                ("bin/link", leaf(LINK, b"../a.txt")),
                ("vendor/sub", sub),
            ]
            .map(|(path, leaf)| (path.as_bytes().to_vec(), leaf))
            .into();
            let empty = write_tree(&odb, Vec::new()).unwrap();
            list(&odb, edit_tree(&odb, empty, &edits).unwrap()).unwrap()
        };
        (repo, items)
    }

    fn only(cache: &Path, repo: &Repository, items: &[Item], tree: u8) -> Stack {
        let tree = Oid::from_bytes(&[tree; 20]).unwrap();
        enter(cache, "top", repo.path(), tree, items).unwrap()
    }

    #[test]
    fn a_layer_is_exact_and_a_spoilt_one_is_made_again() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let (repo, items) = sample(&dir.path().join("git"));
        let cache = dir.path().join("cache");
        let made = || only(&cache, &repo, &items, 1).dirs()[0].clone();
        let layer = made();
        assert_eq!(fs::read(layer.join("a.txt")).unwrap(), b"one\r\ntwo");
        assert_eq!(fs::metadata(layer.join("a.txt")).unwrap().mtime(), files::PAST);
        assert_eq!(
            fs::metadata(layer.join("bin/run")).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert_eq!(fs::read_link(layer.join("bin/link")).unwrap(), Path::new("../a.txt"));
        assert!(layer.join("vendor/sub").is_dir());
        let before = fs::metadata(&layer).unwrap().ino();
        made();
        assert_eq!(fs::metadata(&layer).unwrap().ino(), before, "an intact layer stays");
        fs::write(layer.join("a.txt"), "one\r\ntwX").unwrap();
        rustix::fs::utimensat(
            rustix::fs::CWD,
            layer.join("a.txt"),
            &files::past(),
            AtFlags::empty(),
        )
        .unwrap();
        made();
        assert_eq!(fs::read(layer.join("a.txt")).unwrap(), b"one\r\ntwo");
        fs::write(layer.join("extra"), "").unwrap();
        made();
        assert!(!layer.join("extra").exists());
    }

    #[test]
    fn a_later_base_lies_on_the_nearest_one_until_the_stack_is_deep() {
        let dir = tempfile::tempdir().unwrap();
        let (repo, first) = sample(&dir.path().join("git"));
        let cache = dir.path().join("cache");
        assert_eq!(only(&cache, &repo, &first, 1).dirs().len(), 1);
        let odb = Objects::of(&repo).unwrap();
        let mut items = first.clone();
        let mut deepest = 1;
        for n in 2..12 {
            // A file changes and one comes every time, a directory becomes a file, and one goes away.
            items[0].leaf.id = odb.write(ObjectType::Blob, &[n]).unwrap();
            items.push(Item { path: format!("z{n:02}").into_bytes(), leaf: items[0].leaf });
            if n == 3 {
                items.retain(|item| !item.path.starts_with(b"bin/"));
                let leaf = items[0].leaf;
                items.insert(1, Item { path: b"bin".to_vec(), leaf });
            }
            if n == 4 {
                items.retain(|item| item.path != b"vendor/sub");
            }
            let stack = only(&cache, &repo, &items, n);
            deepest = deepest.max(stack.dirs().len());
            let to = dir.path().join(format!("copy{n}"));
            fs::create_dir(&to).unwrap();
            copy(&stack, &to, &items).unwrap();
            assert_eq!(fs::read(to.join("a.txt")).unwrap(), [n]);
            assert_eq!(to.join("bin").is_file(), n >= 3);
            let again = only(&cache, &repo, &items, n);
            assert_eq!(again.dirs(), stack.dirs());
        }
        assert_eq!(deepest, MOST_DIRS);
        // A spoilt directory below spoils what lies on it.
        let bottom = only(&cache, &repo, &first, 1).dirs()[0].clone();
        fs::remove_file(bottom.join("a.txt")).unwrap();
        let stack = only(&cache, &repo, &items, 11);
        let to = dir.path().join("mended");
        fs::create_dir(&to).unwrap();
        copy(&stack, &to, &items).unwrap();
        assert_eq!(fs::read(to.join("a.txt")).unwrap(), [11]);
    }
}
