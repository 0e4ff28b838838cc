//! Files of both kinds: the base decides over what defines a gate, the candidate over the rest.

use serde_json::Value as Json;
use toml::{Table, Value};

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Cargo.toml`.
    Cargo,
    /// `package.json`.
    Package,
    /// `pyproject.toml`.
    Pyproject,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The candidate changed nothing that defines a gate.
    Same,
    /// The base's parts in the candidate's file.
    Changed {
        /// The file's new contents.
        bytes: Vec<u8>,
        /// The parts that were put back.
        parts: Vec<String>,
    },
    /// One of them can't be read.
    Unreadable,
}

/// Puts the base's parts into the candidate's file. An empty base has none.
pub fn merge(kind: Kind, base: &[u8], now: &[u8]) -> Merged {
    let (base, now) = (String::from_utf8_lossy(base), String::from_utf8_lossy(now));
    let merged = match kind {
        Kind::Cargo => merge_toml(&base, &now, cargo),
        Kind::Pyproject => merge_toml(&base, &now, pyproject),
        Kind::Package => merge_package(&base, &now),
    };
    merged.unwrap_or(Merged::Unreadable)
}

fn merge_toml(
    text: &str,
    now: &str,
    put_back: fn(&Table, &mut Table) -> Vec<String>,
) -> Option<Merged> {
    let base: Table = text.parse().ok()?;
    let mut now: Table = now.parse().ok()?;
    let parts = put_back(&base, &mut now);
    if parts.is_empty() {
        return Some(Merged::Same);
    }
    // The base's own text where nothing else is left, so that the tree is the base's again.
    let text = if now == base { text.to_owned() } else { toml::to_string(&now).ok()? };
    Some(Merged::Changed { bytes: text.into_bytes(), parts })
}

/// Lints, profiles, replaced dependencies, build scripts, and which targets are tested.
fn cargo(base: &Table, now: &mut Table) -> Vec<String> {
    const PATHS: [&[&str]; 19] = [
        &["lints"],
        &["patch"],
        &["replace"],
        &["profile"],
        &["cargo-features"],
        &["test"],
        &["bench"],
        &["workspace", "lints"],
        &["workspace", "exclude"],
        &["workspace", "default-members"],
        &["package", "build"],
        &["package", "autotests"],
        &["package", "autobenches"],
        &["package", "workspace"],
        &["package", "forced-target"],
        &["lib", "test"],
        &["lib", "doctest"],
        &["lib", "harness"],
        &["lib", "bench"],
    ];
    PATHS.iter().filter_map(|path| put_back(base, now, path)).collect()
}

/// The settings of every tool but those that only manage dependencies and packaging.
fn pyproject(base: &Table, now: &mut Table) -> Vec<String> {
    const PACKAGING: [&str; 11] = [
        "poetry",
        "uv",
        "pdm",
        "hatch",
        "setuptools",
        "setuptools_scm",
        "setuptools-scm",
        "flit",
        "maturin",
        "commitizen",
        "towncrier",
    ];
    let names = |table: &Table| -> Vec<String> {
        let tools = table.get("tool").and_then(Value::as_table);
        tools.map(|tools| tools.keys().cloned().collect()).unwrap_or_default()
    };
    let mut tools = names(base);
    tools.extend(names(now));
    tools.sort();
    tools.dedup();
    tools.retain(|tool| !PACKAGING.contains(&tool.as_str()));
    let mut parts: Vec<String> =
        tools.iter().filter_map(|tool| put_back(base, now, &["tool", tool])).collect();
    parts.extend(put_back(base, now, &["build-system", "backend-path"]));
    parts.extend(put_back(base, now, &["project", "entry-points", "pytest11"]));
    parts
}

/// Makes `now` say at `path` what `base` says there; gives the path when that was a change.
fn put_back(base: &Table, now: &mut Table, path: &[&str]) -> Option<String> {
    let wanted = lookup(base, path).cloned();
    if lookup(now, path) == wanted.as_ref() {
        return None;
    }
    let (last, above) = path.split_last()?;
    let mut at = now;
    for part in above {
        let next = at.entry(*part).or_insert_with(|| Value::Table(Table::new()));
        if !next.is_table() {
            *next = Value::Table(Table::new());
        }
        at = next.as_table_mut()?;
    }
    match wanted {
        Some(value) => at.insert((*last).to_owned(), value),
        None => at.remove(*last),
    };
    Some(path.join("."))
}

fn lookup<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    if rest.is_empty() { Some(value) } else { lookup(value.as_table()?, rest) }
}

/// What of a `package.json` defines a gate: scripts, test runners' settings, replaced dependencies.
const PACKAGE: [&str; 16] = [
    "scripts",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "tap",
    "nyc",
    "c8",
    "babel",
    "eslintConfig",
    "overrides",
    "resolutions",
    "pnpm",
    "config",
    "packageManager",
    "xo",
];

fn merge_package(text: &str, now: &str) -> Option<Merged> {
    let text = if text.is_empty() { "{}" } else { text };
    let base: Json = serde_json::from_str(text).ok()?;
    let mut now: Json = serde_json::from_str(now).ok()?;
    let mut parts = Vec::new();
    for key in PACKAGE {
        if base.get(key) == now.get(key) {
            continue;
        }
        let object = now.as_object_mut()?;
        match base.get(key) {
            Some(value) => object.insert(key.to_owned(), value.clone()),
            None => object.shift_remove(key),
        };
        parts.push(key.to_owned());
    }
    if parts.is_empty() {
        return Some(Merged::Same);
    }
    let bytes = match now == base {
        true => text.as_bytes().to_vec(),
        false => serde_json::to_vec_pretty(&now).ok()?,
    };
    Some(Merged::Changed { bytes, parts })
}
