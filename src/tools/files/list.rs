//! Listing one directory.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};

use super::path::is_dot_git;
use super::{FileError, Files, RelPath};

/// What an entry of a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file, with its size in bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link and where it says it leads.
    Link(PathBuf),
    /// A FIFO, a socket or a device.
    Special,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

impl Files<'_> {
    /// The entries of a directory by name, git's own left out; at most `most` are looked at, and the
    /// flag says whether there are more.
    ///
    /// # Errors
    /// When it is not there, not a directory, or leaves the workspace.
    pub fn list(&self, path: &RelPath, most: usize) -> Result<(Vec<Entry>, bool), FileError> {
        let path = self.resolve(path)?;
        let failed = |errno| FileError::from_errno(&path.display(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let directory = self.open_at(&path, flags, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." || is_dot_git(&name) {
                continue;
            }
            if entries.len() == most {
                return Ok((sorted(entries), true));
            }
            // What went away meanwhile is not there.
            let Ok(stat) = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let kind = match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => EntryKind::File(u64::try_from(stat.st_size).unwrap_or(0)),
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => {
                    EntryKind::Link(self.link_target(&path, &name).unwrap_or_default())
                }
                _ => EntryKind::Special,
            };
            entries.push(Entry { name, kind });
        }
        Ok((sorted(entries), false))
    }
}

fn sorted(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries
}
