//! The base layer: a checkout of the base tree with exact bytes, modes and one past time, from the
//! engine's own objects, without filters. It is complete or not there, and nobody writes to it after.

use std::fs;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use git2::{Odb, Repository};

use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files::{self, Stamp};
use super::objects::{self, GITLINK, Item};
use super::scan::{Scan, Untracked};
use super::{lease, parallel};

/// Makes sure that `dir` holds the layer of these items: checks one that is there, else writes it.
/// The caller holds the lock on `dir`.
pub(crate) fn fill(dir: &Path, objects: &Path, items: &[Item]) -> Result<PathBuf> {
    let layer = dir.join("layer");
    if layer.is_dir() {
        if is_intact(dir, &layer, items)? {
            return Ok(layer);
        }
        // Another run may be reading it: it goes out of the way and stays until the cache is cleaned.
        let aside = dir.join(format!("layer.{:08x}.bad", fastrand::u32(..)));
        fs::rename(&layer, &aside).at("move", &layer)?;
    }
    let making = dir.join("layer.tmp");
    files::remove(&making).at("remove", &making)?;
    let stamps = write(&making, objects, items)?;
    save_stamps(dir, &stamps)?;
    fs::rename(&making, &layer).at("complete", &layer)?;
    Ok(layer)
}

fn write(making: &Path, objects: &Path, items: &[Item]) -> Result<Vec<Stamp>> {
    fs::create_dir(making).at("create", making)?;
    let root = files::open_dir(making).at("open", making)?;
    let dirs = objects::directories(items);
    files::make_dirs(root.as_fd(), &dirs).at("create", making)?;
    let times = files::past();
    let open = || Repository::open_bare(objects).doing("open the object store");
    let stamps = parallel::map(items.len(), open, |repo, index| {
        let item = &items[index];
        let bytes = leaf_bytes(&repo.odb().doing("open the object store")?, item)?;
        let shown = || making.join(lossy(&item.path));
        files::write_leaf(root.as_fd(), &item.path, item.leaf.mode, &bytes, Some(&times))
            .map_err(|source| RepoError::Io { action: "write", path: shown(), source })
    })?;
    for dir in dirs.iter().rev().map(Vec::as_slice).chain([&b"."[..]]) {
        rustix::fs::utimensat(&root, dir, &times, rustix::fs::AtFlags::empty())
            .at("write", making)?;
    }
    Ok(stamps)
}

/// A leaf's bytes; a submodule has none of its own.
pub(crate) fn leaf_bytes(odb: &Odb<'_>, item: &Item) -> Result<Vec<u8>> {
    if item.leaf.mode == GITLINK { Ok(Vec::new()) } else { objects::read_blob(odb, item.leaf.id) }
}

/// Whether a layer still holds exactly its tree. What kept its stamp since this boot is not read.
fn is_intact(dir: &Path, layer: &Path, items: &[Item]) -> Result<bool> {
    let stamps = load_stamps(dir, items.len());
    let root = files::open_dir(layer).at("open", layer)?;
    let scan = Scan { items, stamps: stamps.as_deref(), untracked: Untracked::All };
    let intact = scan.run(root.as_fd())?.is_empty();
    if intact && stamps.is_none() {
        save_stamps(dir, &read_stamps(layer, items)?)?;
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
    files::replace(&path, &out).at("write", &path)
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

/// Copies a layer into an empty directory, files in parallel, and gives the copies' stamps: those of
/// files written too late to be told from later changes are void.
pub(crate) fn copy(layer: &Path, to: &Path, items: &[Item]) -> Result<Vec<Stamp>> {
    let (from_fd, to_fd) =
        (files::open_dir(layer).at("open", layer)?, files::open_dir(to).at("open", to)?);
    files::make_dirs(to_fd.as_fd(), &objects::directories(items)).at("create", to)?;
    let mut stamps = parallel::map(
        items.len(),
        || Ok(()),
        |(), index| {
            let item = &items[index];
            files::copy_leaf(from_fd.as_fd(), to_fd.as_fd(), &item.path, item.leaf.mode).map_err(
                |source| RepoError::Io { action: "copy", path: to.join(lossy(&item.path)), source },
            )
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
            let odb = repo.odb().unwrap();
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

    #[test]
    fn a_layer_is_exact_and_a_spoilt_one_is_made_again() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let (repo, items) = sample(&dir.path().join("git"));
        let cache = dir.path().join("cache");
        fs::create_dir(&cache).unwrap();
        let layer = fill(&cache, repo.path(), &items).unwrap();
        assert_eq!(fs::read(layer.join("a.txt")).unwrap(), b"one\r\ntwo");
        assert_eq!(fs::metadata(layer.join("a.txt")).unwrap().mtime(), files::PAST);
        assert_eq!(
            fs::metadata(layer.join("bin/run")).unwrap().permissions().mode() & 0o777,
            0o755
        );
        assert_eq!(fs::read_link(layer.join("bin/link")).unwrap(), Path::new("../a.txt"));
        assert!(layer.join("vendor/sub").is_dir());
        let before = fs::metadata(&layer).unwrap().ino();
        fill(&cache, repo.path(), &items).unwrap();
        assert_eq!(fs::metadata(&layer).unwrap().ino(), before, "an intact layer stays");
        fs::write(layer.join("a.txt"), "one\r\ntwX").unwrap();
        rustix::fs::utimensat(
            rustix::fs::CWD,
            layer.join("a.txt"),
            &files::past(),
            rustix::fs::AtFlags::empty(),
        )
        .unwrap();
        fill(&cache, repo.path(), &items).unwrap();
        assert_eq!(fs::read(layer.join("a.txt")).unwrap(), b"one\r\ntwo");
        fs::write(layer.join("extra"), "").unwrap();
        fill(&cache, repo.path(), &items).unwrap();
        assert!(!layer.join("extra").exists());
    }
}
