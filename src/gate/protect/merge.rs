//! Files of both kinds: the base decides over what defines a gate, the candidate over the rest.

use serde_json::Value as Json;
use toml::{Table, Value};

use super::tsconfig;

/// Which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `Cargo.toml`.
    Cargo,
    /// `package.json`.
    Package,
    /// `pyproject.toml`.
    Pyproject,
    /// `tsconfig.json` and its variants.
    Tsconfig,
    /// `go.mod`.
    GoMod,
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
        Kind::Tsconfig => tsconfig::merge(&base, &now),
        Kind::GoMod => merge_go(&base, &now),
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
    let mut parts: Vec<String> =
        PATHS.iter().filter_map(|path| put_back(base, now, path)).collect();
    for path in dependency_tables(base) {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        parts.extend(sources(base, now, &path));
    }
    parts
}

/// Where a manifest of Cargo names dependencies.
fn dependency_tables(base: &Table) -> Vec<Vec<String>> {
    const KINDS: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let path = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    let mut found: Vec<Vec<String>> = KINDS.iter().map(|kind| path(&[kind])).collect();
    found.push(path(&["workspace", "dependencies"]));
    let targets = base.get("target").and_then(Value::as_table).into_iter().flat_map(Table::keys);
    found.extend(
        targets.flat_map(|target| KINDS.iter().map(|kind| path(&["target", target, kind]))),
    );
    found
}

/// A dependency that the base fetches, and that the candidate takes from elsewhere (a directory of the
/// repository, another package's name): what the tests of the base are written with is the base's.
fn sources(base: &Table, now: &mut Table, path: &[&str]) -> Vec<String> {
    let is_swapped = |old: &Value, new: &Value| {
        let key = |value: &Value, key: &str| value.get(key).cloned();
        ["path", "git", "registry", "registry-index", "package"]
            .iter()
            .any(|name| key(old, name).is_none() && key(new, name).is_some())
            || (key(old, "package") != key(new, "package"))
    };
    let (Some(old), Some(new)) = (lookup(base, path), lookup(now, path)) else { return Vec::new() };
    let (Some(old), Some(new)) = (old.as_table(), new.as_table()) else { return Vec::new() };
    let swapped: Vec<String> = old
        .iter()
        .filter(|(name, spec)| new.get(*name).is_some_and(|other| is_swapped(spec, other)))
        .map(|(name, _)| name.clone())
        .collect();
    let put = |name: &String| put_back(base, now, &[path, &[name.as_str()]].concat());
    swapped.iter().filter_map(put).collect()
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
    const COMMANDS: [&[&str]; 5] = [
        &["build-system", "backend-path"],
        &["tool", "hatch", "envs"],
        &["tool", "pdm", "scripts"],
        &["tool", "pdm", "plugins"],
        &["tool", "poetry", "plugins"],
    ];
    parts.extend(COMMANDS.iter().filter_map(|path| put_back(base, now, path)));
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
const PACKAGE: [&str; 24] = [
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
    "standard",
    "tsd",
    "nx",
    "wireit",
    "husky",
    "lint-staged",
    "playwright",
    "jasmine",
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
    parts.extend(replaced(&base, &mut now));
    if parts.is_empty() {
        return Some(Merged::Same);
    }
    let bytes = match now == base {
        true => text.as_bytes().to_vec(),
        false => serde_json::to_vec_pretty(&now).ok()?,
    };
    Some(Merged::Changed { bytes, parts })
}

/// Packages that the base takes from a registry, and the candidate from a directory or another name.
fn replaced(base: &Json, now: &mut Json) -> Vec<String> {
    const ELSEWHERE: [&str; 8] = ["file:", "link:", "portal:", "npm:", "git", "http", ".", "/"];
    let is_elsewhere = |spec: &Json| {
        spec.as_str().is_some_and(|spec| ELSEWHERE.iter().any(|word| spec.starts_with(word)))
    };
    let mut parts = Vec::new();
    for key in ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"] {
        let Some(old) = base.get(key).and_then(Json::as_object) else { continue };
        let Some(new) = now.get_mut(key).and_then(Json::as_object_mut) else { continue };
        for (name, spec) in old {
            if new.get(name).is_some_and(|other| other != spec && is_elsewhere(other)) {
                new.insert(name.clone(), spec.clone());
                parts.push(format!("{key}.{name}"));
            }
        }
    }
    parts
}

/// Directives of a `go.mod` that say what is built in place of what is required.
const GO_DIRECTIVES: [&str; 5] = ["replace", "exclude", "toolchain", "godebug", "ignore"];

/// Requirements and the module's own name are the candidate's; what is replaced is the base's.
fn merge_go(base: &str, now: &str) -> Option<Merged> {
    let (old, _) = go_parts(base);
    let (new, kept) = go_parts(now);
    let mut differing: Vec<String> = Vec::new();
    for line in old.iter().chain(&new) {
        let word = line.split_whitespace().next().unwrap_or("").to_owned();
        if old.contains(line) != new.contains(line) && !differing.contains(&word) {
            differing.push(word);
        }
    }
    if differing.is_empty() {
        return Some(Merged::Same);
    }
    let merged = format!("{}\n{}\n", kept.trim_end(), old.join("\n"));
    let same = go_parts(&merged) == go_parts(base);
    let bytes = if same { base.as_bytes().to_vec() } else { merged.into_bytes() };
    Some(Merged::Changed { bytes, parts: differing })
}

/// Directives of those kinds, each on one line, and the rest of the file.
fn go_parts(text: &str) -> (Vec<String>, String) {
    let (mut found, mut rest, mut block) = (Vec::new(), String::new(), None);
    for line in text.lines() {
        let code = line.split("//").next().unwrap_or("").trim();
        let words = code.split_whitespace().collect::<Vec<_>>().join(" ");
        let word = GO_DIRECTIVES.into_iter().find(|word| {
            code.strip_prefix(word).is_some_and(|rest| rest.starts_with([' ', '\t', '(']))
        });
        match (block, word) {
            (Some(_), _) if code == ")" => block = None,
            (Some(word), _) if !code.is_empty() => found.push(format!("{word} {words}")),
            (Some(_), _) => {}
            (None, Some(word)) if code.ends_with('(') => block = Some(word),
            (None, Some(_)) => found.push(words),
            (None, None) => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    (found, rest.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(kind: Kind, base: &str, now: &str) -> (String, Vec<String>) {
        match merge(kind, base.as_bytes(), now.as_bytes()) {
            Merged::Changed { bytes, parts } => (String::from_utf8(bytes).unwrap(), parts),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_dependency_of_the_base_is_not_taken_from_elsewhere() {
        let base = "[package]\nname = \"x\"\n\n[dev-dependencies]\nproptest = \"1\"\nown = { path = \"own\" }\n";
        let evil = base.replace("\"1\"", "{ path = \"evil\" }");
        let told = changed(Kind::Cargo, base, &evil);
        assert_eq!(told, (base.to_owned(), vec!["dev-dependencies.proptest".to_owned()]));
        let renamed = base.replace("\"1\"", "{ version = \"1\", package = \"evil\" }");
        assert_eq!(changed(Kind::Cargo, base, &renamed).0, base);
        let honest = base.replace("\"1\"", "\"2\"").replace("\"own\" }", "\"moved\" }");
        assert_eq!(merge(Kind::Cargo, base.as_bytes(), honest.as_bytes()), Merged::Same);

        let base = r#"{"devDependencies": {"jest": "^30"}}"#;
        let evil = r#"{"devDependencies": {"jest": "file:./fake", "x": "1"}}"#;
        let (text, parts) = changed(Kind::Package, base, evil);
        assert!(text.contains("\"^30\"") && text.contains("\"x\""), "{text}");
        assert_eq!(parts, ["devDependencies.jest"]);
    }

    #[test]
    fn what_a_go_module_replaces_is_the_bases() {
        let base = "module x\n\ngo 1.22\n\nrequire a.com/b v1.0.0\n";
        let more = base.replace("v1.0.0", "v1.1.0");
        assert_eq!(merge(Kind::GoMod, base.as_bytes(), more.as_bytes()), Merged::Same);
        for evil in ["replace a.com/b => ./evil\n", "replace (\n\ta.com/b => ./evil // x\n)\n"] {
            let told = changed(Kind::GoMod, base, &format!("{base}\n{evil}"));
            assert_eq!(told, (base.to_owned(), vec!["replace".to_owned()]));
        }
        let own = format!("{base}\nreplace a.com/b => ../b\n");
        assert_eq!(changed(Kind::GoMod, &own, base).0, own);
        let both = changed(Kind::GoMod, &own, &more);
        assert!(both.0.contains("v1.1.0") && both.0.contains("=> ../b"), "{}", both.0);
    }

    #[test]
    fn scripts_of_packaging_tools_are_the_bases() {
        let base = "[project]\nname = \"x\"\n";
        let evil = format!("{base}\n[tool.hatch.envs.default.scripts]\ntest = \"true\"\n");
        let (text, parts) = changed(Kind::Pyproject, base, &evil);
        assert_eq!(parts, ["tool.hatch.envs"]);
        assert!(!text.contains("scripts"), "{text}");
        let honest = format!("{base}dependencies = [\"a\"]\n");
        assert_eq!(merge(Kind::Pyproject, base.as_bytes(), honest.as_bytes()), Merged::Same);
    }
}
