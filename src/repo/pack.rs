//! The objects of a base and of its history as packs, kept between runs.
//!
//! A later base's entry holds only what the newest of its cached ancestors lacks, and lies beside that
//! ancestor's packs. Only ancestors are built on, so that no object of a later commit or of another
//! branch gets into a run. Never here: the user's configuration.

use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{Odb, Oid, Repository};
use serde::{Deserialize, Serialize};

use super::cache::{self, CacheEntry, Kind, Label};
use super::error::{GitContext, IoContext, RepoError, Result, lossy};
use super::files;
use super::history::{self, Window};
use super::object_db::Objects;
use super::pack_file;

/// How many packs may lie beside each other before the oldest alone is built on.
const MOST_PACKS: usize = 16;

/// What stands in a pack's entry beside the objects.
#[derive(Serialize, Deserialize)]
struct Note {
    /// The commits whose parents are not there.
    border: Vec<String>,
}

/// The packs of a base, in use.
pub(crate) struct Packs {
    entries: Vec<CacheEntry>,
    /// The commits that are shown without their parents.
    pub(crate) border: Vec<String>,
}

/// Finds or makes the packs of `commit` with at most `most` ancestors.
pub(crate) fn enter(cache: &Path, repo: &Repository, commit: Oid, most: u32) -> Result<Packs> {
    let (mut below, mut border) = (Vec::new(), Vec::new());
    let entry = CacheEntry::enter(cache, Kind::Pack, &key_of(commit, most), |dir| {
        if let Some((found, note)) = complete(cache, dir) {
            (below, border) = (found, note.border);
            return Ok(());
        }
        let odb = Objects::of(repo)?;
        let window = history::window(&odb, commit, most)?;
        below = ancestor(cache, &window, most);
        let note = fill(dir, repo, window, &below)?;
        let lower =
            below.iter().take(1).map(|entry| format!("{}/{}", Kind::Pack.name(), entry.key()));
        let label = Label {
            top: lossy(repo.workdir().unwrap_or(repo.path()).as_os_str().as_bytes()),
            of: format!("commit {commit}"),
            below: lower.collect(),
            ..Label::default()
        };
        cache::label(dir, label)?;
        border = note.border;
        Ok(())
    })?;
    let entries = [entry].into_iter().chain(below).collect();
    Ok(Packs { entries, border })
}

/// The packs of the newest ancestor that has some; those of the oldest alone when they are many.
fn ancestor(cache: &Path, window: &Window, most: u32) -> Vec<CacheEntry> {
    let ancestors = window.commits.iter().skip(1);
    let mut found = ancestors.filter_map(|id| open(cache, &key_of(*id, most)));
    let mut below = found.next().unwrap_or_default();
    if below.len() >= MOST_PACKS {
        below.drain(..below.len() - 1);
    }
    below
}

fn key_of(commit: Oid, most: u32) -> String {
    format!("{commit}-{most}")
}

/// A complete entry and all that it adds to, the newest first; nothing when one of them is not there.
fn open(cache: &Path, key: &str) -> Option<Vec<CacheEntry>> {
    let entry = CacheEntry::find(cache, Kind::Pack, key).ok()??;
    let (below, _) = complete(cache, entry.dir())?;
    Some([entry].into_iter().chain(below).collect())
}

/// What a complete entry adds to, and its note.
fn complete(cache: &Path, dir: &Path) -> Option<(Vec<CacheEntry>, Note)> {
    let label = cache::read_label(dir)?;
    let note = serde_json::from_slice(&fs::read(dir.join(NOTE)).ok()?).ok()?;
    let below = match label.below.first().and_then(|name| name.rsplit('/').next()) {
        Some(key) => open(cache, key)?,
        None => Vec::new(),
    };
    Some((below, note))
}

/// The file with the [`Note`].
const NOTE: &str = "packs.json";

/// The pack directory of an entry.
fn packs_in(dir: &Path) -> PathBuf {
    dir.join("objects/pack")
}

/// Packs what the window needs and `below` does not have.
fn fill(dir: &Path, repo: &Repository, mut window: Window, below: &[CacheEntry]) -> Result<Note> {
    let odb = Objects::of(repo)?;
    let theirs = Odb::new().doing("open the cache")?;
    for entry in below {
        let objects = entry.dir().join("objects");
        theirs.add_disk_alternate(&objects.to_string_lossy()).doing("open the cache")?;
    }
    let have = |id| !below.is_empty() && theirs.exists_ext(id, git2::OdbLookupFlags::NO_REFRESH);
    let new = window.gather(&odb, &have)?;
    let making = dir.join("objects.tmp");
    files::remove(&making).at("remove", &making)?;
    let packs = making.join("pack");
    files::make_private(&packs).at("create", &packs)?;
    if !new.is_empty() {
        // The library packs on one core, and looks for deltas that a run has no use for: its packs are read
        // more often than they are moved.
        pack_file::write(repo.path(), &new, &packs).map_err(of_base)?;
    }
    let done = dir.join("objects");
    // One whose own base was taken away may still be read: it stays until the cache is cleaned.
    cache::put_aside(&done)?;
    fs::rename(&making, &done).at("complete", &done)?;
    let note = Note { border: window.border.iter().map(Oid::to_string).collect() };
    let path = dir.join(NOTE);
    let text = serde_json::to_vec(&note).map_err(std::io::Error::from).at("write", &path)?;
    files::replace(&path, &text).at("write", &path)?;
    Ok(note)
}

fn of_base(error: RepoError) -> RepoError {
    match error {
        RepoError::MissingObject { id, .. } => {
            RepoError::MissingObject { id, what: "the base tree".into() }
        }
        other => other,
    }
}

impl Packs {
    /// Copies the packs into a run's object directory: a run holds on when the cache goes away.
    pub(crate) fn copy_to(&self, objects: &Path) -> Result<()> {
        for entry in &self.entries {
            let from = packs_in(entry.dir());
            let mut names: Vec<_> = fs::read_dir(&from)
                .at("list", &from)?
                .filter_map(|entry| entry.ok().map(|e| e.file_name()))
                .collect();
            // The pack before its index, so that an index never stands for nothing.
            names.sort_by_key(|name| Path::new(name).extension().is_some_and(|e| e == "idx"));
            for name in names {
                copy_one(&from.join(&name), &objects.join("pack").join(&name))?;
            }
        }
        Ok(())
    }
}

fn copy_one(source: &Path, target: &Path) -> Result<()> {
    if target.exists() {
        return Ok(());
    }
    let making = target.with_extension("tmp");
    files::remove(&making).at("remove", &making)?;
    let input = File::open(source).at("read", source)?;
    let output = File::create(&making).at("write", &making)?;
    files::copy_bytes(&input, &output).at("write", &making)?;
    fs::rename(&making, target).at("complete", target)
}
