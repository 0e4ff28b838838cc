//! What a base's gates stand on besides its checkout: carried snapshots, and what setup and the gates of
//! this or an earlier base wrote, kept between runs.
//!
//! Kept output is used again only for the same commands, tools, carried snapshots and place. Output of an
//! earlier base lies under a later one when every source in which the two differ can be given a time
//! after all of that output and before this run, so that no build tool takes what was made of the old
//! source for fresh. Never here: a command, and output of a candidate.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cache::{self, CacheEntry, Kind, Label};
use super::error::{IoContext, RepoError, Result, lossy};
use super::lease::Lease;
use super::listing::{self, GONE};
use super::objects::{self, Item, read_blob};
use super::output::{GateLayer, Part, caches_beside};
use super::snapshot::{self, Taken};
use super::store::Store;
use super::{files, layer};
use crate::model::TreeId;

/// What the base's gates need.
#[derive(Clone, Debug)]
pub struct Wish {
    /// Directories (or files) of the checkout to carry along, relative to its top.
    pub carry: Vec<String>,
    /// All that output depends on besides the base and what is carried: commands, environment, tools.
    pub made_by: Vec<u8>,
    /// Whether layers can be mounted.
    pub over: bool,
    /// How long a build that goes on in the checkout is waited for.
    pub patience: Duration,
}

/// A path that was not carried along as wished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotCarried {
    /// The path.
    pub path: String,
    /// Why not, or what is odd about it.
    pub reason: String,
    /// Whether it was carried all the same.
    pub carried: bool,
}

/// Whether output of another run is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reused {
    /// No.
    Nothing,
    /// That of the same base: setup need not run again. With its age in seconds.
    Same(u64),
    /// That of an earlier base.
    Earlier(TreeId),
}

/// What the base's gates stand on.
#[derive(Debug)]
pub struct Standing {
    /// The layers.
    pub layer: Option<GateLayer>,
    /// What is carried, alone and without files of secrets: what a worker may see, whatever the gates see.
    pub carried: GateLayer,
    /// Whether a file of secrets is carried along, because it was named itself.
    pub secret: bool,
    /// Where the output in them is from.
    pub reused: Reused,
    /// What was not carried along as wished.
    pub notes: Vec<NotCarried>,
    keep: Option<Keep>,
}

impl Standing {
    /// On the base alone.
    pub fn bare() -> Self {
        Self {
            layer: None,
            carried: GateLayer::default(),
            secret: false,
            reused: Reused::Nothing,
            notes: Vec::new(),
            keep: None,
        }
    }
}

/// How this base's output would be kept.
#[derive(Debug)]
struct Keep {
    family: String,
    key: String,
    /// What it lies on: `KIND/KEY`.
    below: Vec<String>,
}

/// What is written beside kept output.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    tree: String,
    family: String,
    /// Seconds since 1970: when it was kept.
    made: i64,
    /// And the newest of it, by its own times.
    newest: i64,
    sources: bool,
}

/// The names in an entry: the output, tools' caches beside it, the sources with newer times and their listing, the base's
/// listing, the note.
const UPPER: &str = "upper";
const CACHES: &str = "caches";
const SOURCES: &str = "sources";
const SOURCES_LIST: &str = "sources.list";
const TREE: &str = "tree";
const NOTE: &str = "setup.json";

/// The most layers of output: what lies deeper is made again.
const MOST_PARTS: usize = 6;
/// The most files in which an earlier base may differ.
const MOST_CHANGES: usize = 2000;
/// How many kept layers are looked at for the nearest one.
const LOOK_AT: usize = 4;

impl Store {
    /// Takes the snapshots of what is carried and finds what was kept of an earlier run.
    ///
    /// # Errors
    /// When the cache can't be written. What can't be carried is noted, and is no error.
    pub fn stand(&self, wish: &Wish) -> Result<Standing> {
        let mut standing = Standing::bare();
        let (mut names, mut whole) = (Vec::new(), GateLayer::default());
        for path in &wish.carry {
            let taken = self.snapshot(path, wish.patience, &mut standing.notes)?;
            let Some(entry) = taken else { continue };
            names.push(name_of(Kind::Carry, &entry));
            let part = Part::cached(snapshot::root(&entry), Arc::new(entry), None);
            whole.carry(path, Arc::clone(&part));
            match snapshot::is_secret_path(path) {
                true => standing.secret = true,
                false => standing.carried.carry(path, part),
            }
        }
        let over = |parts| GateLayer { parts, ..whole.clone() };
        if wish.over {
            let family = self.family(wish, &names);
            let key = digest(&[family.as_bytes(), self.base_tree().as_str().as_bytes()]);
            if let Some((parts, note)) = open(self.cache(), &key) {
                standing.layer = Some(over(parts));
                standing.reused = Reused::Same((now() - note.made).max(0).unsigned_abs());
                return Ok(standing);
            }
            let mut below = names;
            if let Some(earlier) = self.earlier(&family)? {
                standing.reused = Reused::Earlier(TreeId::new(earlier.note.tree));
                standing.layer = Some(over(earlier.parts));
                below = vec![format!("{}/{}", Kind::Setup.name(), earlier.key)];
            }
            standing.keep = Some(Keep { family, key, below });
        }
        if standing.layer.is_none() && !whole.parts.is_empty() {
            standing.layer = Some(whole);
        }
        Ok(standing)
    }

    fn snapshot(
        &self,
        path: &str,
        patience: Duration,
        notes: &mut Vec<NotCarried>,
    ) -> Result<Option<CacheEntry>> {
        let mut note = |reason: String, carried| {
            notes.push(NotCarried { path: path.to_owned(), reason, carried });
        };
        let bytes = path.trim_end_matches('/').as_bytes();
        if objects::find(self.items(), bytes).is_some() || objects::has_below(self.items(), bytes) {
            note("the base tracks it".to_owned(), false);
            return Ok(None);
        }
        match snapshot::take(self.cache(), &self.top(), path, patience)? {
            Taken::Absent => Ok(None),
            Taken::Refused(reason) => {
                note(reason, false);
                Ok(None)
            }
            Taken::Snapshot(entry) => {
                if let Some(lock) = self.other_lock(path)? {
                    note(format!("{lock} of the checkout is not the base's"), true);
                }
                Ok(Some(entry))
            }
        }
    }

    /// The lock file by which a carried directory was made, when the base has another.
    fn other_lock(&self, path: &str) -> Result<Option<String>> {
        use std::os::unix::ffi::OsStrExt;
        let Some(lock) = snapshot::lock_of(&self.top(), path) else { return Ok(None) };
        let bytes = lock.as_os_str().as_bytes();
        let Some(at) = objects::find(self.items(), bytes) else { return Ok(None) };
        let base = self.with_odb(|odb| read_blob(odb, self.items()[at].leaf.id))?;
        let theirs = fs::read(self.top().join(&lock)).unwrap_or_default();
        Ok((theirs != base).then(|| lossy(bytes)))
    }

    /// What output must have in common to lie under each other.
    fn family(&self, wish: &Wish, carried: &[String]) -> String {
        use std::os::unix::ffi::OsStrExt;
        let top = self.top();
        let user = rustix::process::geteuid().as_raw().to_le_bytes();
        let mut parts: Vec<&[u8]> =
            vec![b"setup 1", &wish.made_by, top.as_os_str().as_bytes(), &user];
        parts.extend(carried.iter().map(String::as_bytes));
        digest(&parts)
    }

    /// The nearest kept output of another base of the family, with the sources that differ made newer.
    fn earlier(&self, family: &str) -> Result<Option<Earlier>> {
        let time = now() - 1;
        let mut best: Option<(usize, String, Vec<Item>)> = None;
        let keys = cache::keys_of(self.cache(), Kind::Setup).into_iter();
        let of_family = keys.filter(|(_, label)| label.of.starts_with(family)).take(LOOK_AT);
        for (key, _) in of_family {
            let dir = cache::dir_of(self.cache(), Kind::Setup, &key);
            let Some(_) = read_note(&dir).filter(|note| note.newest < time) else { continue };
            let Ok(theirs) = listing::load(&dir.join(TREE)) else { continue };
            let changes = listing::changes(&theirs, self.items());
            if best.as_ref().is_none_or(|(least, _, _)| changes.len() < *least) {
                best = Some((changes.len(), key, changes));
            }
        }
        let Some((count, key, changes)) = best else { return Ok(None) };
        let Some((mut parts, note)) = open(self.cache(), &key) else { return Ok(None) };
        if count > MOST_CHANGES || parts.len() + 2 > MOST_PARTS {
            return Ok(None);
        }
        if !changes.is_empty() {
            parts.insert(0, self.newer_sources(changes, time)?);
        }
        let layer = GateLayer { parts, ..GateLayer::default() };
        if layer.check(self.items()).is_err() {
            return Ok(None);
        }
        Ok(Some(Earlier { key, parts: layer.parts, note }))
    }

    /// Files of the base with a later time, and marks for those that are gone, as a layer of the run's
    /// own.
    fn newer_sources(&self, sources: Vec<Item>, time: i64) -> Result<Arc<Part>> {
        let name = format!("s{}-{}", std::process::id(), self.next_gate());
        let target = format!("gates/{name}");
        let lease = Lease::take(self.run_dir(), &name, std::slice::from_ref(&target))?
            .ok_or_else(|| RepoError::Mismatch(format!("{target} is in use")))?;
        let dir = self.run_dir().join(target);
        files::make_private(&dir).at("create", &dir)?;
        let to = dir.join(SOURCES);
        let (there, gone): (Vec<Item>, Vec<Item>) =
            sources.iter().cloned().partition(|item| item.leaf.mode != GONE);
        layer::write(&to, self.git_dir(), &there, &gone, &files::times_at(time))?;
        Ok(Part::leased(to, lease, Some(sources)))
    }

    /// Keeps the output of the base's gates for later runs, where it may be kept. What can't be moved
    /// into the cache stays with the run.
    ///
    /// # Errors
    /// When the cache can't be written.
    pub fn keep(&self, layer: GateLayer, standing: &Standing) -> Result<GateLayer> {
        let Some(keep) = &standing.keep else { return Ok(layer) };
        let Some(first) = layer.parts.first().map(|part| part.dir.clone()) else {
            return Ok(layer);
        };
        if self.is_dirty() || !layer.rewritten.is_empty() {
            return Ok(layer);
        }
        let own = layer.parts.get(1).filter(|part| part.dir.starts_with(self.run_dir()));
        let sources = own.and_then(|part| Some((part.dir.clone(), part.sources.clone()?)));
        let mut moved = false;
        let entry = CacheEntry::enter(self.cache(), Kind::Setup, &keep.key, |dir| {
            if cache::read_label(dir).is_none() {
                moved = self.move_in(dir, &first, sources.as_ref(), keep)?;
            }
            Ok(())
        })?;
        if !moved {
            return Ok(layer);
        }
        let entry = Arc::new(entry);
        let own = |name, sources| Part::cached(entry.dir().join(name), Arc::clone(&entry), sources);
        let mut parts = vec![own(UPPER, None)];
        parts.extend(sources.map(|(_, sources)| own(SOURCES, Some(sources))));
        parts.extend(layer.parts.into_iter().skip(parts.len()));
        Ok(GateLayer { parts, rewritten: Vec::new(), carried: layer.carried })
    }

    /// Moves the output into its entry; false where the cache lies on another file system.
    fn move_in(
        &self,
        dir: &Path,
        upper: &Path,
        sources: Option<&(PathBuf, Vec<Item>)>,
        keep: &Keep,
    ) -> Result<bool> {
        let note = Note {
            tree: self.base_tree().to_string(),
            family: keep.family.clone(),
            made: now(),
            newest: newest(upper).max(now()),
            sources: sources.is_some(),
        };
        let path = dir.join(NOTE);
        let text = serde_json::to_vec(&note).map_err(std::io::Error::from).at("write", &path)?;
        files::put(&path, &text).at("write", &path)?;
        listing::save(&dir.join(TREE), self.items()).at("write", dir)?;
        if let Some((_, sources)) = sources {
            listing::save(&dir.join(SOURCES_LIST), sources).at("write", dir)?;
        }
        let sources = sources.map(|(from, _)| (from.as_path(), SOURCES));
        let caches = caches_beside(upper);
        let caches = caches.is_dir().then_some((caches.as_path(), CACHES));
        for (from, to) in sources.into_iter().chain(caches).chain([(upper, UPPER)]) {
            let to = dir.join(to);
            files::remove(&to).at("remove", &to)?;
            match fs::rename(from, &to) {
                Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices => return Ok(false),
                other => other.at("move", from)?,
            }
        }
        let top = lossy(std::os::unix::ffi::OsStrExt::as_bytes(self.top().as_os_str()));
        let of = format!("{} tree {}", keep.family, note.tree);
        cache::label(dir, Label { top, of, below: keep.below.clone(), ..Label::default() })?;
        Ok(true)
    }
}

/// Output of an earlier base that may lie under this one's.
struct Earlier {
    key: String,
    parts: Vec<Arc<Part>>,
    note: Note,
}

fn name_of(kind: Kind, entry: &CacheEntry) -> String {
    format!("{}/{}", kind.name(), entry.key())
}

/// Kept output with all that it lies on, and its note; nothing when a part of it is not there.
fn open(cache: &Path, key: &str) -> Option<(Vec<Arc<Part>>, Note)> {
    let entry = Arc::new(CacheEntry::find(cache, Kind::Setup, key).ok()??);
    let label = cache::read_label(entry.dir())?;
    let note = read_note(entry.dir())?;
    let own = |name, sources| Part::cached(entry.dir().join(name), Arc::clone(&entry), sources);
    let mut parts = vec![own(UPPER, None)];
    if note.sources {
        parts.push(own(SOURCES, Some(listing::load(&entry.dir().join(SOURCES_LIST)).ok()?)));
    }
    for below in &label.below {
        match below.split_once('/')? {
            ("setup", key) => parts.extend(open(cache, key)?.0),
            (_, key) => {
                let entry = CacheEntry::find(cache, Kind::Carry, key).ok()??;
                parts.push(Part::cached(snapshot::root(&entry), Arc::new(entry), None));
            }
        }
    }
    parts.iter().all(|part| part.dir.is_dir()).then_some((parts, note))
}

fn read_note(dir: &Path) -> Option<Note> {
    serde_json::from_slice(&fs::read(dir.join(NOTE)).ok()?).ok()
}

fn digest(parts: &[&[u8]]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().iter().take(20).map(|byte| format!("{byte:02x}")).collect()
}

/// Seconds since 1970.
fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_secs().cast_signed()
}

/// The newest modification time below a directory, in seconds since 1970.
fn newest(dir: &Path) -> i64 {
    let mut newest = i64::MIN;
    let mut todo: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(dir) = todo.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            newest = newest.max(meta.mtime());
            if meta.is_dir() {
                todo.push(entry.path());
            }
        }
    }
    newest
}
