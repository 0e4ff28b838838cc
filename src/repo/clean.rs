//! Cleaning the cache: what is too old, too much, half made or of another version goes, and nothing that
//! a live run uses, or that something kept lies on.
//!
//! Never here: runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::cache::{self, Kind};
use super::error::{IoContext, Result};
use super::files;

/// What may stay in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All of it together, in allocated bytes.
    pub max_bytes: u64,
    /// Since it was last used.
    pub max_age: Duration,
}

impl Limits {
    /// Nothing stays that is not in use.
    pub const NOTHING: Self = Self { max_bytes: 0, max_age: Duration::ZERO };
}

/// Something in the cache that goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// `base`, `objects`, `setup`, `carry`.
    pub kind: String,
    /// What it is of.
    pub of: String,
    /// The working tree that it was made for; empty where that is not known.
    pub top: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Files in it.
    pub files: u64,
    /// Their allocated bytes.
    pub bytes: u64,
    /// Seconds since it was last used.
    pub unused_seconds: u64,
    /// Why it goes, in a few words.
    pub why: &'static str,
    /// Whether a live run uses it, so that it stays.
    pub in_use: bool,
}

/// What a cleaning did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// What goes, dependents first.
    pub cleared: Vec<Cleared>,
    /// Entries that stay.
    pub kept: u64,
    /// Their allocated bytes.
    pub kept_bytes: u64,
}

/// One entry of the cache.
struct Entry {
    kind: Kind,
    key: String,
    of: String,
    top: String,
    complete: bool,
    used: SystemTime,
    files: u64,
    bytes: u64,
    below: Vec<String>,
}

impl Entry {
    fn name(&self) -> String {
        format!("{}/{}", self.kind.name(), self.key)
    }
}

/// Cleans the cache to its limits; with `dry` it only tells what would go.
///
/// # Errors
/// When the cache can't be read or the disk refuses.
pub fn clean(cache: &Path, limits: &Limits, dry: bool) -> Result<Cleaned> {
    let mut cleaned = Cleaned::default();
    old_versions(cache, dry, &mut cleaned)?;
    let entries = list(cache)?;
    let going = choose(&entries, limits);
    // What lies on others goes first, so that nothing is left without its ground.
    let mut stays = BTreeSet::new();
    for name in order(&entries, &going) {
        let entry = &entries[&name];
        let held = entries.values().any(|other| {
            other.below.contains(&name)
                && (stays.contains(&other.name()) || !going.contains_key(&other.name()))
        });
        let in_use = held || !take_away(cache, entry, dry)?;
        if in_use {
            stays.insert(name.clone());
        }
        cleaned.cleared.push(told(cache, entry, going[&name], in_use));
    }
    for entry in entries.values() {
        let name = entry.name();
        if !going.contains_key(&name) || stays.contains(&name) {
            cleaned.kept += 1;
            cleaned.kept_bytes += entry.bytes;
        }
    }
    if !dry {
        litter(cache)?;
    }
    Ok(cleaned)
}

/// Removes an entry, or only tries whether it could be; false when it is in use.
fn take_away(cache: &Path, entry: &Entry, dry: bool) -> Result<bool> {
    let root = cache.join(cache::VERSION).join(entry.kind.name());
    match dry {
        true => cache::is_free(&root, &entry.key),
        false => Ok(cache::remove(cache, entry.kind, &entry.key)?.is_some()),
    }
}

fn told(cache: &Path, entry: &Entry, why: &'static str, in_use: bool) -> Cleared {
    Cleared {
        kind: entry.kind.name().to_owned(),
        of: entry.of.clone(),
        top: entry.top.clone(),
        path: cache::dir_of(cache, entry.kind, &entry.key),
        files: entry.files,
        bytes: entry.bytes,
        unused_seconds: entry.used.elapsed().unwrap_or_default().as_secs(),
        why,
        in_use,
    }
}

/// All entries by their names.
fn list(cache: &Path) -> Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for kind in Kind::ALL {
        let root = cache.join(cache::VERSION).join(kind.name());
        for key in keys(&root)? {
            let dir = root.join(&key);
            let label = cache::read_label(&dir);
            let complete = label.is_some();
            let mut label = label.unwrap_or_default();
            if !complete {
                (label.files, label.bytes) = files::measure(&dir);
            }
            let used = cache::used(&root, &key);
            let entry = Entry {
                kind,
                key,
                of: label.of,
                top: label.top,
                complete,
                used,
                files: label.files,
                bytes: label.bytes,
                below: label.below,
            };
            entries.insert(entry.name(), entry);
        }
    }
    Ok(entries)
}

/// The names of the directories below `root` that are entries.
fn keys(root: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(root) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.at("list", root)?,
    };
    let mut keys = Vec::new();
    for entry in entries {
        let entry = entry.at("list", root)?;
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if let (true, Ok(name)) = (is_dir, entry.file_name().into_string())
            && !name.ends_with(".gone")
        {
            keys.push(name);
        }
    }
    keys.sort();
    Ok(keys)
}

/// What goes, with the reason, and all that lies on it.
fn choose(entries: &BTreeMap<String, Entry>, limits: &Limits) -> BTreeMap<String, &'static str> {
    let mut going = BTreeMap::new();
    for (name, entry) in entries {
        if !entry.complete {
            going.insert(name.clone(), "half made");
        } else if entry.used.elapsed().unwrap_or_default() >= limits.max_age {
            going.insert(name.clone(), "not used for long");
        }
    }
    for name in going.keys().cloned().collect::<Vec<_>>() {
        for dependent in dependents(entries, name) {
            going.entry(dependent).or_insert("of no use alone");
        }
    }
    let mut by_use: Vec<&Entry> = entries.values().collect();
    by_use.sort_by_key(|entry| entry.used);
    let mut total: u64 =
        entries.values().filter(|e| !going.contains_key(&e.name())).map(|e| e.bytes).sum();
    for entry in by_use {
        if total <= limits.max_bytes {
            break;
        }
        for name in dependents(entries, entry.name()) {
            if !going.contains_key(&name) {
                total -= entries[&name].bytes;
                going.insert(name, "beyond the size");
            }
        }
    }
    going
}

/// An entry and all that lies on it.
fn dependents(entries: &BTreeMap<String, Entry>, name: String) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut todo = vec![name];
    while let Some(name) = todo.pop() {
        let on_it = entries.values().filter(|entry| entry.below.contains(&name));
        let names: Vec<String> = on_it.map(Entry::name).collect();
        if found.insert(name) {
            todo.extend(names);
        }
    }
    found
}

/// The names of what goes, each after all that lies on it.
fn order(entries: &BTreeMap<String, Entry>, going: &BTreeMap<String, &'static str>) -> Vec<String> {
    let mut names: Vec<&String> = going.keys().collect();
    names.sort_by_key(|name| (dependents(entries, (*name).clone()).len(), *name));
    names.into_iter().cloned().collect()
}

/// Entries of other versions of the layout, whose locks lie beside them as ours do.
fn old_versions(cache: &Path, dry: bool, cleaned: &mut Cleaned) -> Result<()> {
    for version in keys(cache)? {
        let is_other = version != cache::VERSION
            && version.strip_prefix('v').is_some_and(|n| n.parse::<u32>().is_ok());
        let root = cache.join(&version);
        for key in if is_other { keys(&root)? } else { Vec::new() } {
            let dir = root.join(&key);
            let used = cache::used(&root, &key).elapsed().unwrap_or_default();
            let (files, bytes) = files::measure(&dir);
            let free = match dry {
                true => cache::is_free(&root, &key)?,
                false => cache::remove_in(&root, &key)?.is_some(),
            };
            cleaned.cleared.push(Cleared {
                kind: version.clone(),
                of: key,
                top: String::new(),
                path: dir,
                files,
                bytes,
                unused_seconds: used.as_secs(),
                why: "of another version",
                in_use: !free,
            });
        }
        if is_other && !dry {
            // Goes only when nothing is left in it.
            let _ = fs::remove_dir(&root);
        }
    }
    Ok(())
}

/// What a cleaner that was killed, or a spoilt entry that was made again, left behind.
fn litter(cache: &Path) -> Result<()> {
    for kind in Kind::ALL {
        let root = cache.join(cache::VERSION).join(kind.name());
        for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "gone") {
                files::remove(&path).at("remove", &path)?;
            } else if path.is_dir() {
                cache::clear_aside(&root, &path)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::cache::{CacheEntry, Label};
    use super::*;

    fn put(
        cache: &Path,
        kind: Kind,
        key: &str,
        below: &[&str],
        age: u64,
        bytes: u64,
    ) -> CacheEntry {
        let entry = CacheEntry::enter(cache, kind, key, |dir| {
            fs::write(dir.join("data"), "x").unwrap();
            let below = below.iter().map(|name| (*name).to_owned()).collect();
            let label = Label { of: key.into(), files: 1, bytes, below, ..Label::default() };
            cache::label(dir, label)
        })
        .unwrap();
        let lock = cache.join(cache::VERSION).join(kind.name()).join(format!("{key}.use"));
        let then = SystemTime::now() - Duration::from_secs(age);
        fs::File::options().write(true).open(lock).unwrap().set_modified(then).unwrap();
        entry
    }

    fn names(cleaned: &Cleaned) -> Vec<String> {
        let shown = |c: &Cleared| {
            format!("{} {} {}{}", c.kind, c.of, c.why, if c.in_use { " (in use)" } else { "" })
        };
        cleaned.cleared.iter().map(shown).collect()
    }

    const AGE: Duration = Duration::from_secs(1000);

    #[test]
    fn the_old_and_the_much_go_with_what_lies_on_them_and_never_what_is_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        put(cache, Kind::Layer, "a", &[], 2000, 10);
        put(cache, Kind::Layer, "b", &["base/a"], 10, 10);
        put(cache, Kind::Layer, "c", &[], 500, 10);
        let held = put(cache, Kind::Carry, "held", &[], 3000, 10);
        put(cache, Kind::Pack, "new", &[], 5, 10);
        CacheEntry::enter(cache, Kind::Setup, "torn", |_| Ok(())).unwrap();
        let limits = Limits { max_bytes: 10, max_age: AGE };
        let expected = [
            "carry held not used for long (in use)",
            "base b of no use alone",
            "base c beyond the size",
            "setup  half made",
            "base a not used for long",
        ];
        for dry in [true, false] {
            let cleaned = clean(cache, &limits, dry).unwrap();
            let mut told = names(&cleaned);
            let mut all = expected.map(str::to_owned).to_vec();
            assert!(
                told.iter().position(|n| n.contains(" b "))
                    < told.iter().position(|n| n.contains(" a "))
            );
            told.sort();
            all.sort();
            assert_eq!(told, all, "{dry}");
            assert_eq!(cleaned.kept, 2);
            assert_eq!(cache.join("v2/base/a").exists(), dry);
        }
        assert!(held.dir().join("data").exists() && cache.join("v2/objects/new/data").exists());
        drop(held);
        assert_eq!(clean(cache, &Limits::NOTHING, false).unwrap().kept, 0);
        let left = fs::read_dir(cache.join("v2"))
            .unwrap()
            .flat_map(|d| fs::read_dir(d.unwrap().path()).unwrap());
        assert_eq!(left.count(), 0, "not even a lock");
    }

    #[test]
    fn what_something_in_use_lies_on_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        put(cache, Kind::Layer, "a", &[], 5000, 10);
        let on_it = put(cache, Kind::Layer, "b", &["base/a"], 5000, 10);
        let cleaned = clean(cache, &Limits::NOTHING, false).unwrap();
        assert!(cleaned.cleared.iter().all(|cleared| cleared.in_use));
        assert!(cache.join("v2/base/a/data").exists());
        drop(on_it);
    }

    #[test]
    fn another_version_and_litter_go() {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path();
        fs::create_dir_all(cache.join("v1/tree/layer")).unwrap();
        fs::create_dir_all(cache.join("mine")).unwrap();
        let entry = put(cache, Kind::Layer, "a", &[], 5, 10);
        fs::create_dir_all(cache.join("v2/base/b.gone/x")).unwrap();
        fs::create_dir_all(entry.dir().join("layer.01234567.bad")).unwrap();
        let limits = Limits { max_bytes: 100, max_age: AGE };
        let cleaned = clean(cache, &limits, false).unwrap();
        assert_eq!(names(&cleaned), ["v1 tree of another version"]);
        assert!(entry.dir().join("layer.01234567.bad").exists(), "somebody may be reading it");
        drop(entry);
        clean(cache, &limits, false).unwrap();
        assert!(!cache.join("v2/base/a/layer.01234567.bad").exists());
        assert!(!cache.join("v1").exists() && !cache.join("v2/base/b.gone").exists());
        assert!(cache.join("mine").exists() && cache.join("v2/base/a/data").exists());
    }
}
