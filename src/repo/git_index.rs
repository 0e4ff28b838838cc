//! The git index of a workspace: made with the stamps of the checked-out files, so that git reads none
//! of them again.
//!
//! Making one costs as much as the base is large. Workspaces over one base layer share the work, and
//! it is done when the first of them runs git. Never here: a worker's files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use git2::{Index, IndexEntry, IndexTime};

use super::error::{GitContext, IoContext, RepoError, Result};
use super::files::{self, PAST, Stamp};
use super::layer::Stack;
use super::objects::Item;

/// Writes an index of the items, with their stamps in the same order.
pub(crate) fn write(path: &Path, items: &[Item], stamps: &[Stamp]) -> Result<()> {
    let mut index = Index::open(path).doing("make an index")?;
    for (item, stamp) in items.iter().zip(stamps) {
        index.add(&entry(item, stamp)).doing("make an index")?;
    }
    index.write().doing("write an index")
}

/// The paths of the index in `file` where the repository says that another one stands (submodules). An index that is
/// not there holds none.
///
/// # Errors
/// When it can't be read: git may read it all the same, as one that is split or sparse.
pub fn gitlinks(file: &Path) -> Result<Vec<Vec<u8>>> {
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.is_file() => {}
        // The library would read a pipe for ever.
        Ok(_) => {
            let reason = "it is no regular file".to_owned();
            return Err(RepoError::Unsupported { path: file.to_owned(), reason });
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).at("read an index", file),
    }
    let index = Index::open(file).doing("read an index")?;
    let links = index.iter().filter(|entry| entry.mode == GITLINK);
    Ok(links.map(|entry| entry.path).collect())
}

/// The mode of an entry that names a commit of another repository.
const GITLINK: u32 = 0o160_000;

fn entry(item: &Item, stamp: &Stamp) -> IndexEntry {
    let known = stamp.ino != 0;
    IndexEntry {
        ctime: IndexTime::new(stamp.ctime.0 as i32, stamp.ctime.1 as u32),
        mtime: IndexTime::new(if known { PAST as i32 } else { 0 }, 0),
        dev: stamp.dev as u32,
        ino: stamp.ino as u32,
        mode: item.leaf.mode,
        uid: stamp.uid,
        gid: stamp.gid,
        file_size: stamp.size as u32,
        id: item.leaf.id,
        flags: 0,
        flags_extended: 0,
        path: item.path.clone(),
    }
}

/// The index of a base layer, made once and copied for each workspace over it.
#[derive(Debug)]
pub(crate) struct BaseIndex {
    items: Arc<[Item]>,
    stack: Arc<Stack>,
    /// Where it is kept.
    file: PathBuf,
    made: Mutex<bool>,
}

impl BaseIndex {
    /// One that is made in `file` when it is first wanted.
    pub(crate) fn new(items: Arc<[Item]>, stack: Arc<Stack>, file: PathBuf) -> Self {
        Self { items, stack, file, made: Mutex::new(false) }
    }

    /// Gives a workspace its index, unless it has one.
    pub(crate) fn put(&self, path: &Path) -> Result<()> {
        if path.exists() {
            return Ok(());
        }
        // Held for the copy, too: two commands of one worker may come at once.
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if path.exists() {
            return Ok(());
        }
        if !*made {
            self.make()?;
            *made = true;
        }
        let part = path.with_extension("part");
        let source = fs::File::open(&self.file).at("read", &self.file)?;
        let target = fs::File::create(&part).at("write", &part)?;
        files::copy_bytes(&source, &target).at("write", &part)?;
        fs::rename(&part, path).at("write", path)
    }

    fn make(&self) -> Result<()> {
        let stamps = self.stack.stamps(&self.items)?;
        files::remove(&self.file).at("remove", &self.file)?;
        write(&self.file, &self.items, &stamps)
    }
}
