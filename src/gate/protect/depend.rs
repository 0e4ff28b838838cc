//! Dependencies that a candidate's manifests name and the base's do not: what of them is missing on this
//! machine is nobody's failure.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use toml::{Table, Value};

/// Whether a file is a list of requirements.
pub fn is_requirements(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.starts_with("requirements") && name.ends_with(".txt")
}

/// The names that only the candidate's file has, as [`root`] writes them.
pub fn added(path: &str, base: &[u8], now: &[u8]) -> BTreeSet<String> {
    let (base, now) = (String::from_utf8_lossy(base), String::from_utf8_lossy(now));
    let read: fn(&str) -> BTreeSet<String> = match path.rsplit('/').next().unwrap_or(path) {
        "package.json" => package,
        "pyproject.toml" => pyproject,
        "go.mod" => go_mod,
        name if is_requirements(name) => requirements,
        _ => return BTreeSet::new(),
    };
    read(&now).difference(&read(&base)).cloned().collect()
}

/// A module's or package's root in one form: `@a/b/c` is `@a/b`, `Foo_Bar.baz` is `foo-bar`.
pub fn root(module: &str) -> String {
    let parts: Vec<&str> = module.split('/').collect();
    let name = match parts.as_slice() {
        [scope, name, ..] if scope.starts_with('@') => format!("{scope}/{name}"),
        [host, ..] if host.contains('.') && parts.len() > 1 => module.to_owned(),
        [first, ..] => first.split('.').next().unwrap_or(first).to_owned(),
        [] => String::new(),
    };
    name.to_lowercase().replace('_', "-")
}

fn package(text: &str) -> BTreeSet<String> {
    let Ok(json) = serde_json::from_str::<Json>(text) else { return BTreeSet::new() };
    ["dependencies", "devDependencies", "optionalDependencies", "peerDependencies"]
        .iter()
        .filter_map(|key| json.get(key)?.as_object())
        // Types of a package are asked for when the package is imported.
        .flat_map(|table| table.keys().map(|name| root(name.trim_start_matches("@types/"))))
        .collect()
}

fn pyproject(text: &str) -> BTreeSet<String> {
    let Ok(table) = text.parse::<Table>() else { return BTreeSet::new() };
    let mut found = BTreeSet::new();
    let project = table.get("project").and_then(Value::as_table);
    if let Some(project) = project {
        texts(project.get("dependencies"), &mut found);
        groups(project.get("optional-dependencies"), &mut found);
    }
    groups(table.get("dependency-groups"), &mut found);
    let poetry = table.get("tool").and_then(|tool| tool.get("poetry")).and_then(Value::as_table);
    for key in ["dependencies", "dev-dependencies"] {
        let names = poetry.and_then(|poetry| poetry.get(key)).and_then(Value::as_table);
        found.extend(names.into_iter().flat_map(|table| table.keys().map(|name| root(name))));
    }
    found
}

fn groups(value: Option<&Value>, found: &mut BTreeSet<String>) {
    for list in value.and_then(Value::as_table).into_iter().flat_map(Table::values) {
        texts(Some(list), found);
    }
}

fn texts(value: Option<&Value>, found: &mut BTreeSet<String>) {
    let list = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    found.extend(list.iter().filter_map(Value::as_str).filter_map(requirement));
}

fn requirements(text: &str) -> BTreeSet<String> {
    text.lines().filter_map(requirement).collect()
}

/// The name before extras, versions and markers: `foo[x]>=1; python_version > "3"`.
fn requirement(line: &str) -> Option<String> {
    let end = line.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '.')));
    let name = &line.trim_start()[..end.unwrap_or(line.len()).min(line.trim_start().len())];
    (!name.is_empty() && !name.starts_with('-')).then(|| root(&name.replace('.', "-")))
}

fn go_mod(text: &str) -> BTreeSet<String> {
    let module = |line: &str| {
        let line = line.trim().trim_start_matches("require ").trim();
        let (name, version) = line.split_once(' ')?;
        (name.contains('.') && version.starts_with('v')).then(|| root(name))
    };
    text.lines().filter_map(module).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str, base: &str, now: &str) -> Vec<String> {
        added(path, base.as_bytes(), now.as_bytes()).into_iter().collect()
    }

    #[test]
    fn new_names_are_found_in_each_manifest() {
        let base = r#"{"dependencies": {"a": "1"}}"#;
        let now =
            r#"{"dependencies": {"a": "2"}, "devDependencies": {"@s/b": "1", "@types/c": "1"}}"#;
        assert_eq!(names("web/package.json", base, now), ["@s/b", "c"]);
        let base = "[project]\ndependencies = [\"a>=1\"]\n";
        let now = "[project]\ndependencies = [\"a>=2\", \"Foo_Bar[x] ~= 1\"]\n[dependency-groups]\ndev = [\"z\"]\n";
        assert_eq!(names("pyproject.toml", base, now), ["foo-bar", "z"]);
        assert_eq!(names("requirements-dev.txt", "a==1\n", "a==2\nb\n# c\n-r x.txt\n"), ["b"]);
        let now = "module x\n\nrequire (\n\texample.com/y/z v1.2.3\n)\n";
        assert_eq!(names("go.mod", "module x\n", now), ["example.com/y/z"]);
        assert!(names("Cargo.toml", "", "[dependencies]\na = \"1\"\n").is_empty());
        assert_eq!([root("@a/b/c"), root("x.y"), root("lodash/fp")], ["@a/b", "x", "lodash"]);
    }
}
