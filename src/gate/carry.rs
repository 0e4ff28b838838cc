//! Carried directories: what the user's checkout has installed and git ignores (`node_modules`,
//! `.venv`), copied once into the base's tree, so that it lies below every candidate.
//!
//! A copy, never the directory itself: a checkout changes while gates run. Nothing that the base
//! tracks is carried, because a dirty checkout would take its place, and no build output of Cargo,
//! because Cargo would take what another branch compiled for fresh.

use std::fs::{self, File, FileTimes};
use std::io;
use std::path::{Path, PathBuf};

/// What came of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// It was copied.
    Copied,
    /// The checkout does not have it.
    Absent,
    /// It may not be carried, with the reason.
    Refused(String),
}

/// Copies `path` of the checkout at `top` to the same place below `into`. `is_tracked` tells whether
/// the base has something there.
///
/// # Errors
/// When something can't be read or written.
pub fn carry(top: &Path, into: &Path, path: &str, is_tracked: bool) -> io::Result<Carried> {
    if is_tracked {
        return Ok(Carried::Refused("the base tracks it".to_owned()));
    }
    if path.rsplit('/').next() == Some("target") {
        return Ok(Carried::Refused("build output of another tree can pass for fresh".to_owned()));
    }
    let from = top.join(path);
    match fs::symlink_metadata(&from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Carried::Absent),
        Err(error) => return Err(error),
        Ok(found) if !found.is_dir() => {
            return Ok(Carried::Refused("it is not a directory".to_owned()));
        }
        Ok(_) => {}
    }
    let to = into.join(path);
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    copy_dir(&from, &to)?;
    Ok(Carried::Copied)
}

/// Copies a directory with its modes and times. Symbolic links stay links; sockets and the like are
/// left out.
fn copy_dir(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, source, target) = (entry.file_type()?, entry.path(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy_dir(&source, &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(&source)?, &target)?;
        } else if kind.is_file() {
            copy_file(&source, &target)?;
        }
    }
    let found = fs::metadata(from)?;
    fs::set_permissions(to, found.permissions())?;
    set_times(&File::open(to)?, &found)
}

/// The system shares the blocks where its file system can.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    fs::copy(from, to)?;
    // A file without write permission can still be given times through a descriptor for reading.
    set_times(&File::open(to)?, &fs::metadata(from)?)
}

fn set_times(file: &File, like: &fs::Metadata) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(like.modified()?))
}

/// Directories of carried paths that hold programs, below `root` as a job sees it.
pub fn program_dirs(root: &Path, carried: &[String]) -> Vec<PathBuf> {
    let bin = |path: &String| match path.rsplit('/').next() {
        Some(".venv" | "venv" | "env") => Some(root.join(path).join("bin")),
        Some("node_modules") => Some(root.join(path).join(".bin")),
        _ => None,
    };
    carried.iter().filter_map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_installed_things_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let (top, into) = (dir.path().join("top"), dir.path().join("into"));
        fs::create_dir_all(top.join("a/node_modules/.bin")).unwrap();
        fs::create_dir_all(&into).unwrap();
        fs::write(top.join("a/node_modules/x.js"), "x").unwrap();
        std::os::unix::fs::symlink("../x.js", top.join("a/node_modules/.bin/x")).unwrap();
        let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        let times = FileTimes::new().set_modified(old);
        File::options()
            .write(true)
            .open(top.join("a/node_modules/x.js"))
            .unwrap()
            .set_times(times)
            .unwrap();

        let path = "a/node_modules";
        assert_eq!(carry(&top, &into, path, false).unwrap(), Carried::Copied);
        assert_eq!(fs::read_to_string(into.join("a/node_modules/.bin/x")).unwrap(), "x");
        let copied = fs::metadata(into.join("a/node_modules/x.js")).unwrap();
        assert_eq!(copied.modified().unwrap(), old);
        assert_eq!(carry(&top, &into, "none", false).unwrap(), Carried::Absent);
        assert!(matches!(carry(&top, &into, "a", true).unwrap(), Carried::Refused(_)));
        fs::create_dir(top.join("target")).unwrap();
        assert!(matches!(carry(&top, &into, "target", false).unwrap(), Carried::Refused(_)));
        assert_eq!(
            program_dirs(Path::new("/w"), &[path.to_owned()]),
            [Path::new("/w/a/node_modules/.bin")]
        );
    }
}
