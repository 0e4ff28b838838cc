//! Private directories for the tiers without mounts: a job's empty directories are made in a
//! folder of its own, and its paths are rewritten to them.
//!
//! `/tmp` counts as an empty directory that every job has. Never here: the strong tier.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use super::super::leftover;
use super::super::warden::proto::{WireMount, WireSpec};
use super::view::AtStep;

/// Where the folders are made.
const DIR: &str = "/tmp";
/// How their names begin.
const PREFIX: &str = "bakeoff-job-";

/// Removes the folders of wardens that were killed before they could.
pub(in super::super) fn sweep() {
    for dir in leftover::of_the_dead(Path::new(DIR), PREFIX) {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// A job's private folder. It is removed when dropped.
#[derive(Debug)]
pub(in super::super) struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Scratch {
    /// Makes the folder and rewrites `spec` to it: what the job would see at another path than the
    /// host's is made available inside the folder, or refused.
    ///
    /// # Errors
    /// In words, when a mount can't be had without mounting.
    pub(in super::super) fn prepare(spec: &mut WireSpec, id: u64) -> Result<Self, String> {
        let top = Self(Path::new(DIR).join(leftover::name(PREFIX, &id.to_string())));
        std::fs::DirBuilder::new().mode(0o700).create(&top.0).at_step("make a private folder")?;
        let mut moved = vec![("/tmp".into(), top.0.join("tmp"))];
        make(&moved[0].1)?;
        let mut kept = vec![tmp_at(&moved[0].1)];
        for mount in std::mem::take(&mut spec.mounts) {
            kept.push(top.take(mount, &mut moved)?);
        }
        spec.mounts = kept;
        rewrite(spec, &moved);
        Ok(top)
    }

    /// Where it is.
    pub(in super::super) fn path(&self) -> &Path {
        &self.0
    }

    fn take(
        &self,
        mount: WireMount,
        moved: &mut Vec<(PathBuf, PathBuf)>,
    ) -> Result<WireMount, String> {
        match &mount {
            WireMount::Tmp { at, .. } => {
                let here = match translate(Path::new(at), moved) {
                    Some(inside) => inside,
                    None => self.0.join(format!("dir{}", moved.len())),
                };
                make(&here)?;
                moved.push((at.into(), here.clone()));
                Ok(tmp_at(&here))
            }
            WireMount::ReadOnly { from, at } | WireMount::ReadWrite { from, at } => {
                let there = Path::new(from);
                there.metadata().at_step(format_args!("show {}", there.display()))?;
                link(there, Path::new(at), moved)?;
                if from == at {
                    // By its own path it stays where it is, even below a directory that moved.
                    moved.push((at.into(), from.into()));
                }
                Ok(mount)
            }
            WireMount::Covered { at } => Err(format!(
                "keep {} from the job: the weaker tier has no mounts",
                Path::new(at).display()
            )),
            WireMount::Overlay { at, .. } => Err(format!(
                "overlay at {}: the weaker tier has no mounts, take a copy of the tree",
                Path::new(at).display()
            )),
        }
    }
}

fn tmp_at(path: &Path) -> WireMount {
    WireMount::Tmp { at: path.as_os_str().to_owned(), bytes: 0 }
}

fn make(path: &Path) -> Result<(), String> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .at_step(format_args!("make {}", path.display()))
}

/// Shows `from` inside a private folder by a link, when `at` lies in one.
fn link(from: &Path, at: &Path, moved: &[(PathBuf, PathBuf)]) -> Result<(), String> {
    let Some(here) = translate(at, moved) else {
        if from == at {
            return Ok(());
        }
        return Err(format!(
            "show {} at {}: the weaker tier has no mounts",
            from.display(),
            at.display()
        ));
    };
    if here == from {
        return Ok(());
    }
    make(here.parent().unwrap_or(&here))?;
    symlink(from, &here).at_step(format_args!("link {}", here.display()))
}

/// Where a path of the job's view is, when it lies in a private directory.
fn translate(path: &Path, moved: &[(PathBuf, PathBuf)]) -> Option<PathBuf> {
    let inside = |(at, here): &(PathBuf, PathBuf)| {
        let rest = path.strip_prefix(at).ok()?;
        // Joining nothing would add a slash, which a file can't bear.
        Some(if rest.as_os_str().is_empty() { here.clone() } else { here.join(rest) })
    };
    moved.iter().rev().find_map(inside)
}

fn rewrite(spec: &mut WireSpec, moved: &[(PathBuf, PathBuf)]) {
    let swap = |text: &OsStr| translate(Path::new(text), moved).map(PathBuf::into_os_string);
    if let Some(cwd) = swap(&spec.cwd) {
        spec.cwd = cwd;
    }
    for word in &mut spec.argv {
        if let Some(new) = swap(word) {
            *word = new;
        }
    }
    for (_, value) in &mut spec.env {
        let parts = value.as_bytes().split(|&byte| byte == b':').map(|part| {
            let part = OsStr::from_bytes(part);
            swap(part).unwrap_or_else(|| part.to_owned()).into_vec()
        });
        *value = OsString::from_vec(parts.collect::<Vec<_>>().join(&b':'));
    }
}
