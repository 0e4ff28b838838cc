//! The stage of one apply: a directory in the working tree, on its file system, in which all new files
//! are complete before the first old one is touched, and where old ones wait until all is done.

use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::super::error::{IoContext, RepoError, Result, lossy};
use super::super::files;
use super::super::objects::{EXECUTABLE, LINK, parents};
use super::swap::{Places, Step, Undo};

/// An apply under way. Dropped before [`Stage::keep`], it takes everything back.
pub(super) struct Stage<'a> {
    top: &'a Path,
    top_fd: OwnedFd,
    dir: PathBuf,
    dir_fd: OwnedFd,
    done: Vec<Undo>,
}

impl<'a> Stage<'a> {
    pub(super) fn open(top: &'a Path) -> Result<Self> {
        let dir = top.join(format!(".bakeoff-apply-{:016x}", fastrand::u64(..)));
        fs::create_dir(&dir).at("create", &dir)?;
        let opened = files::open_dir(top).at("open", top);
        let opened = opened.and_then(|t| Ok((t, files::open_dir(&dir).at("open", &dir)?)));
        match opened {
            Ok((top_fd, dir_fd)) => Ok(Self { top, top_fd, dir, dir_fd, done: Vec::new() }),
            Err(e) => {
                let _ = fs::remove_dir(&dir);
                Err(e)
            }
        }
    }

    /// Makes all steps, or none: the first that fails takes back those before it.
    pub(super) fn run(&mut self, steps: &[Step]) -> Result<()> {
        let Err(cause) = self.prepare(steps).and_then(|()| self.make(steps)) else {
            return Ok(());
        };
        match self.take_back() {
            Ok(()) => Err(cause),
            Err(reason) => Err(half(&cause, reason, &self.dir)),
        }
    }

    /// Writes all new files into the stage: a full disk shows here.
    fn prepare(&self, steps: &[Step]) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            let Some((mode, bytes)) = &step.new else { continue };
            let name = index.to_string();
            let shown = self.dir.join(&name);
            if *mode == LINK {
                rustix::fs::symlinkat(bytes.as_slice(), &self.dir_fd, name.as_str())
                    .at("write", &shown)?;
                continue;
            }
            let old = step.old.as_ref().filter(|old| old.mode != LINK);
            let file = self.create(&name, *mode).at("write", &shown)?;
            (&file).write_all(bytes).at("write", &shown)?;
            if old.is_some() {
                self.keep_permissions(&step.path, &file, *mode).at("write", &shown)?;
            }
            file.sync_all().at("write", &shown)?;
        }
        Ok(())
    }

    /// New files get what the user's umask leaves.
    fn create(&self, name: &str, mode: u32) -> Result<fs::File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(if mode == EXECUTABLE { 0o777 } else { 0o666 });
        rustix::fs::openat(&self.dir_fd, name, flags, mode).map(fs::File::from)
    }

    /// A changed file keeps its permissions but for the executable bits, which follow those to read.
    fn keep_permissions(&self, path: &[u8], file: &fs::File, mode: u32) -> std::io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let old = fs::symlink_metadata(self.top.join(std::ffi::OsStr::from_bytes(path)))?;
        let bits = old.permissions().mode() & 0o666;
        let bits = if mode == EXECUTABLE { bits | (bits & 0o444) >> 2 } else { bits };
        file.set_permissions(fs::Permissions::from_mode(bits))
    }

    fn make(&mut self, steps: &[Step]) -> Result<()> {
        for (index, step) in steps.iter().enumerate() {
            self.step(step, index.to_string()).map_err(|e| match e {
                Failed::Changed => RepoError::WouldOverwrite {
                    path: lossy(&step.path),
                    why: "changed while it was being replaced".into(),
                },
                Failed::System(Errno::EXIST) => RepoError::WouldOverwrite {
                    path: lossy(&step.path),
                    why: "appeared while the change was being applied".into(),
                },
                Failed::System(e) => RepoError::Io {
                    action: "write",
                    path: self.top.join(lossy(&step.path)),
                    source: e.into(),
                },
            })?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Step, staged: String) -> Result<(), Failed> {
        let path = step.path.clone();
        let places = Places { top: &self.top_fd, stage: &self.dir_fd };
        match (&step.old, &step.new) {
            (Some(seen), new) => {
                if new.is_some() {
                    places.swap(&path, &staged)?;
                    self.done.push(Undo::Swapped(path, staged.clone()));
                } else {
                    places.move_out(&path, &staged)?;
                    self.done.push(Undo::MovedOut(path, staged.clone()));
                }
                if !places.is_seen(&staged, seen) {
                    return Err(Failed::Changed);
                }
                if new.is_none() {
                    self.remove_empty(&step.path)?;
                }
            }
            (None, _) => {
                self.make_parents(&path)?;
                let places = Places { top: &self.top_fd, stage: &self.dir_fd };
                places.move_in(&path, &staged)?;
                self.done.push(Undo::Created(path, staged));
            }
        }
        Ok(())
    }

    fn make_parents(&mut self, path: &[u8]) -> Result<(), Errno> {
        let mut dirs: Vec<&[u8]> = parents(path).collect();
        dirs.reverse();
        for dir in dirs {
            let places = Places { top: &self.top_fd, stage: &self.dir_fd };
            if places.make_dir(dir, Mode::from_raw_mode(0o777))? {
                self.done.push(Undo::MadeDir(dir.to_vec()));
            }
        }
        Ok(())
    }

    fn remove_empty(&mut self, path: &[u8]) -> Result<(), Errno> {
        for dir in parents(path) {
            let places = Places { top: &self.top_fd, stage: &self.dir_fd };
            let Some(mode) = places.remove_dir(dir)? else { break };
            self.done.push(Undo::RemovedDir(dir.to_vec(), mode));
        }
        Ok(())
    }

    /// All is done: the old files go.
    pub(super) fn keep(mut self) -> Result<()> {
        self.done.clear();
        files::remove(&self.dir).at("remove", &self.dir)
    }

    /// Takes everything back, newest first.
    pub(super) fn take_back(&mut self) -> Result<(), Errno> {
        let places = Places { top: &self.top_fd, stage: &self.dir_fd };
        while let Some(step) = self.done.last() {
            places.undo(step)?;
            self.done.pop();
        }
        Ok(())
    }

    /// Takes everything back because of `cause`, which is the answer then.
    pub(super) fn abandon(mut self, cause: RepoError) -> RepoError {
        match self.take_back() {
            Ok(()) => cause,
            Err(reason) => half(&cause, reason, &self.dir),
        }
    }
}

fn half(cause: &RepoError, reason: Errno, dir: &Path) -> RepoError {
    RepoError::HalfApplied {
        cause: cause.to_string(),
        reason: reason.to_string(),
        kept: dir.to_owned(),
    }
}

/// Why a step failed.
enum Failed {
    /// The file is no longer the one that was checked.
    Changed,
    System(Errno),
}

impl From<Errno> for Failed {
    fn from(e: Errno) -> Self {
        Self::System(e)
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // When something can't be taken back, its original is in the stage and stays there.
        if self.take_back().is_ok() {
            let _ = files::remove(&self.dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::swap::Seen;
    use super::*;
    use crate::repo::objects::FILE;

    fn seen(text: &str) -> Option<Seen> {
        Some(Seen { mode: FILE, bytes: text.into(), crlf: false })
    }

    fn step(path: &str, old: Option<Seen>, new: Option<&str>) -> Step {
        Step { path: path.into(), old, new: new.map(|text| (FILE, text.into())) }
    }

    fn listed(top: &Path) -> Vec<(PathBuf, String)> {
        let mut all = Vec::new();
        let mut todo = vec![top.to_owned()];
        while let Some(path) = todo.pop() {
            if path.is_dir() {
                todo.extend(fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            all.push((path, text));
        }
        all.sort();
        all
    }

    #[test]
    fn a_step_that_fails_takes_back_those_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path();
        for (path, text) in [("gone/a", "a"), ("changed", "b"), ("late", "edited meanwhile")] {
            fs::create_dir_all(top.join(path).parent().unwrap()).unwrap();
            fs::write(top.join(path), text).unwrap();
        }
        let before = listed(top);
        let mut steps = vec![
            step("gone/a", seen("a"), None),
            step("changed", seen("b"), Some("new b")),
            step("fresh/dir/file", None, Some("new")),
            step("late", seen("as it was checked"), Some("new late")),
        ];
        let mut stage = Stage::open(top).unwrap();
        let failed = stage.run(&steps).unwrap_err();
        assert!(matches!(failed, RepoError::WouldOverwrite { ref path, .. } if path == "late"));
        drop(stage);
        assert_eq!(listed(top), before);
        steps[3] = step("late", seen("edited meanwhile"), Some("new late"));
        let mut stage = Stage::open(top).unwrap();
        stage.run(&steps).unwrap();
        drop(stage);
        assert_eq!(listed(top), before, "what is not kept is taken back");
        let mut stage = Stage::open(top).unwrap();
        stage.run(&steps).unwrap();
        stage.keep().unwrap();
        let names: Vec<_> = listed(top)
            .into_iter()
            .map(|(p, t)| (p.strip_prefix(top).unwrap().to_owned(), t))
            .collect();
        let expected = [
            ("", ""),
            ("changed", "new b"),
            ("fresh", ""),
            ("fresh/dir", ""),
            ("fresh/dir/file", "new"),
            ("late", "new late"),
        ];
        assert_eq!(names, expected.map(|(p, t)| (PathBuf::from(p), t.to_owned())));
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("new"), "the user's").unwrap();
        let mut stage = Stage::open(dir.path()).unwrap();
        let failed = stage.run(&[step("new", None, Some("ours"))]).unwrap_err();
        assert!(matches!(failed, RepoError::WouldOverwrite { .. }), "{failed}");
        drop(stage);
        assert_eq!(fs::read_to_string(dir.path().join("new")).unwrap(), "the user's");
    }
}
