//! Writing: a temporary file beside the target and a rename over it, all beneath the root.

use std::ffi::OsStr;
use std::io::Write;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, fchmod, fstat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::open::check_regular;
use super::{FileError, Files, RelPath};

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The file is new.
    Created,
    /// It was there and has new contents.
    Replaced,
}

impl Files<'_> {
    /// Puts `bytes` at `path`, whole or not at all; missing directories are made. An existing file
    /// keeps its permission bits; `executable` overrides its execute bits.
    ///
    /// # Errors
    /// When the path leaves the workspace, is a link, a directory or special, or the disk refuses.
    pub fn write(
        &self,
        path: &RelPath,
        bytes: &[u8],
        executable: Option<bool>,
    ) -> Result<Written, FileError> {
        let (directory, path) = self.open_parent(path, true)?;
        let name = path.name().unwrap_or_default();
        let old = self.writable(&directory, &path, name)?;
        let mode = match executable {
            Some(true) => old.unwrap_or(0o644) | 0o111,
            Some(false) => old.unwrap_or(0o644) & !0o111,
            None => old.unwrap_or(0o644),
        };
        replace(&directory, name, bytes, Mode::from_raw_mode(mode)).map_err(|error| {
            FileError::System { path: path.display(), reason: error.to_string() }
        })?;
        Ok(if old.is_some() { Written::Replaced } else { Written::Created })
    }

    /// Removes a regular file (or a link as such).
    ///
    /// # Errors
    /// When it is not there, leaves the workspace, or is a directory or special.
    pub fn remove(&self, path: &RelPath) -> Result<(), FileError> {
        let (directory, path) = self.open_parent(path, false)?;
        let failed = |errno| FileError::from_errno(&path.display(), errno);
        unlinkat(&directory, path.name().unwrap_or_default(), AtFlags::empty()).map_err(failed)
    }

    /// The permission bits of the regular file at `path`; `None` when nothing is there.
    ///
    /// # Errors
    /// When what is there may not be written.
    pub fn mode(&self, path: &RelPath) -> Result<Option<u32>, FileError> {
        match self.open_parent(path, false) {
            Ok((directory, path)) => {
                self.writable(&directory, &path, path.name().unwrap_or_default())
            }
            Err(FileError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The open directory that holds `path`, and `path` with its directory's links resolved.
    fn open_parent(&self, path: &RelPath, make: bool) -> Result<(OwnedFd, RelPath), FileError> {
        let Some(parent) = path.parent() else {
            return Err(FileError::IsDirectory { path: path.display() });
        };
        let parent = self.resolve(&parent)?;
        let full = parent.join(path.name().unwrap_or_default())?;
        if make {
            self.make_directories(&parent)?;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok((self.open_at(&parent, flags, Mode::empty())?, full))
    }

    /// Makes `path` and what is missing above it.
    fn make_directories(&self, path: &RelPath) -> Result<(), FileError> {
        let mut done = RelPath::top();
        for name in path.as_path().iter() {
            let parent = self.open_at(&done, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
            done = done.join(name)?;
            match mkdirat(&parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(FileError::from_errno(&done.display(), errno)),
            }
        }
        Ok(())
    }

    /// Refuses what must not be replaced; the permission bits of what is there.
    fn writable(
        &self,
        directory: &OwnedFd,
        path: &RelPath,
        name: &OsStr,
    ) -> Result<Option<u32>, FileError> {
        let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(FileError::from_errno(&path.display(), errno)),
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            let target = path.parent().and_then(|parent| self.link_target(&parent, name));
            return Err(FileError::LinkWrite {
                path: path.display(),
                target: target.unwrap_or_default().to_string_lossy().into_owned(),
            });
        }
        check_regular(path, &stat)?;
        Ok(Some(stat.st_mode & 0o777))
    }
}

/// Writes a temporary file in `directory` and renames it to `name`.
fn replace(directory: &OwnedFd, name: &OsStr, bytes: &[u8], mode: Mode) -> std::io::Result<()> {
    let temporary = format!(".bakeoff-{:016x}.tmp", fastrand::u64(..));
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, &temporary, flags, Mode::from_raw_mode(0o600))?;
    let done = fill(file, bytes, mode)
        .and_then(|()| renameat(directory, &temporary, directory, name).map_err(Into::into));
    if done.is_err() {
        // Best effort: what failed is told, and the leftover is in the workspace alone.
        let _ = unlinkat(directory, &temporary, AtFlags::empty());
    }
    done
}

fn fill(file: OwnedFd, bytes: &[u8], mode: Mode) -> std::io::Result<()> {
    let mut file = std::fs::File::from(file);
    file.write_all(bytes)?;
    fchmod(&file, mode)?;
    // Some file systems report a full disk only here.
    fstat(&file)?;
    Ok(())
}
