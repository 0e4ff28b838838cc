//! A gate tree without mounts: a copy of the base layer with the changes, and the base gate's output
//! copied in beside it.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Timespec, Timestamps};

use super::edit::Change;
use super::error::{IoContext, Result};
use super::object_db::Objects;
use super::objects::{self, Item};
use super::output::GateLayer;
use super::store::Store;
use super::{files, layer};

/// Makes the copy in a directory that is not there yet.
pub(crate) fn make(
    odb: &Objects<'_>,
    to: &Path,
    store: &Store,
    changes: &[Change],
    below: Option<&GateLayer>,
) -> Result<()> {
    files::make_private(to).at("create", to)?;
    let changed = |item: &&Item| find(changes, &item.path).is_none();
    let kept: Vec<Item> = store.items().iter().filter(changed).cloned().collect();
    layer::copy(store.stack(), to, &kept)?;
    let root = files::open_dir(to).at("open", to)?;
    let new: Vec<Item> = changes.iter().filter_map(new_item).collect();
    for dir in objects::directories(&new) {
        match files::make_dirs(root.as_fd(), &[dir]) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            other => other.at("create", to)?,
        }
    }
    for item in &new {
        let bytes = layer::leaf_bytes(odb, item)?;
        files::write_leaf(root.as_fd(), &item.path, item.leaf.mode, &bytes, None)
            .at("write", to)?;
    }
    below.map_or(Ok(()), |below| bring(below, to))
}

/// Copies build output and carried directories in beside what is there.
pub(crate) fn bring(below: &GateLayer, to: &Path) -> Result<()> {
    for part in below.parts.iter().filter(|part| part.sources.is_none()) {
        merge(&part.dir, to).at("copy build output to", to)?;
    }
    Ok(())
}

fn new_item(change: &Change) -> Option<Item> {
    change.new.map(|leaf| Item { path: change.path.clone(), leaf })
}

fn find<'a>(changes: &'a [Change], path: &[u8]) -> Option<&'a Change> {
    changes.binary_search_by(|c| c.path.as_slice().cmp(path)).ok().map(|at| &changes[at])
}

/// The listing of the tree that the changes make of the base.
pub(crate) fn listing(base: &[Item], changes: &[Change]) -> Vec<Item> {
    let kept = base.iter().filter(|item| find(changes, &item.path).is_none()).cloned();
    let mut items: Vec<Item> = kept.chain(changes.iter().filter_map(new_item)).collect();
    items.sort_by(|a, b| a.path.cmp(&b.path));
    items
}

/// The tracked paths at which nothing is any more.
pub(crate) fn missing(root: &Path, items: &[Item]) -> Result<Vec<Vec<u8>>> {
    let fd = files::open_dir(root).at("open", root)?;
    let is_gone = |item: &&Item| {
        rustix::fs::statat(&fd, item.path.as_slice(), AtFlags::SYMLINK_NOFOLLOW).is_err()
    };
    Ok(items.iter().filter(is_gone).map(|item| item.path.clone()).collect())
}

/// Copies what `to` does not have yet, with its times.
fn merge(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let there = fs::symlink_metadata(&target).ok();
        let kind = entry.file_type()?;
        match there {
            Some(there) if there.is_dir() && kind.is_dir() => merge(&source, &target)?,
            Some(_) => {}
            None if kind.is_dir() => {
                fs::create_dir(&target)?;
                merge(&source, &target)?;
                fs::set_permissions(&target, fs::metadata(&source)?.permissions())?;
                copy_times(&source, &target)?;
            }
            None if kind.is_file() => {
                let output = fs::File::create_new(&target)?;
                let input = fs::File::open(&source)?;
                files::copy_bytes(&input, &output)?;
                output.set_permissions(input.metadata()?.permissions())?;
                copy_times(&source, &target)?;
            }
            None if kind.is_symlink() => {
                std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
                copy_times(&source, &target)?;
            }
            None => {}
        }
    }
    Ok(())
}

fn copy_times(from: &Path, to: &Path) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let meta = fs::symlink_metadata(from)?;
    let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    let times = Timestamps {
        last_access: time(meta.atime(), meta.atime_nsec()),
        last_modification: time(meta.mtime(), meta.mtime_nsec()),
    };
    let path = to.as_os_str().as_bytes();
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}
