//! `tsconfig.json`: what is checked, and how strictly, is the base's; how it is compiled, and which files
//! and packages are checked beside those of the base, is the candidate's.

use serde_json::{Map, Value};

use super::jsonc;
use super::merge::Merged;

/// Options that change what comes out of the compiler, never what it objects to in the base's sources.
const OUTPUT: [&str; 28] = [
    "declaration",
    "declarationDir",
    "declarationMap",
    "downlevelIteration",
    "emitBOM",
    "emitDeclarationOnly",
    "emitDecoratorMetadata",
    "experimentalDecorators",
    "importHelpers",
    "incremental",
    "inlineSourceMap",
    "inlineSources",
    "jsx",
    "jsxFactory",
    "jsxFragmentFactory",
    "jsxImportSource",
    "listEmittedFiles",
    "mapRoot",
    "newLine",
    "outDir",
    "preserveConstEnums",
    "preserveWatchOutput",
    "removeComments",
    "resolveJsonModule",
    "sourceMap",
    "sourceRoot",
    "stripInternal",
    "tsBuildInfoFile",
];

/// Settings of other programs, which no check reads.
const OTHERS: [&str; 5] = ["$schema", "display", "watchOptions", "typedocOptions", "compileOnSave"];

/// Lists to which a candidate may add, and from which it may take nothing.
const LISTS: [&str; 3] = ["include", "files", "references"];

/// The base's file with what is the candidate's to say.
pub fn merge(base: &str, now: &str) -> Option<Merged> {
    let (old, new) = (jsonc::parse(base)?, jsonc::parse(now)?);
    let wanted = combine(old.as_object()?, new.as_object()?);
    let parts = differing(&wanted, new.as_object()?);
    if parts.is_empty() {
        return Some(Merged::Same);
    }
    let bytes = match Value::Object(wanted) {
        wanted if wanted == old => base.as_bytes().to_vec(),
        wanted => serde_json::to_vec_pretty(&wanted).ok()?,
    };
    Some(Merged::Changed { bytes, parts })
}

fn combine(old: &Map<String, Value>, new: &Map<String, Value>) -> Map<String, Value> {
    let mut wanted = old.clone();
    put_all(&mut wanted, new, &OTHERS);
    for key in LISTS {
        // A list that the base does not have means all, or nothing: it may not begin.
        if let (Some(Value::Array(list)), Some(Value::Array(more))) =
            (wanted.get_mut(key), new.get(key))
        {
            let added: Vec<Value> =
                more.iter().filter(|one| !list.contains(one)).cloned().collect();
            list.extend(added);
        }
    }
    let options = new.get("compilerOptions").and_then(Value::as_object);
    if let Some(options) = options {
        let own = wanted.entry("compilerOptions").or_insert_with(|| Value::Object(Map::new()));
        if let Some(own) = own.as_object_mut() {
            put_all(own, options, &OUTPUT);
        }
    }
    wanted
}

/// Makes `wanted` say of these keys what `new` says.
fn put_all(wanted: &mut Map<String, Value>, new: &Map<String, Value>, keys: &[&str]) {
    for key in keys {
        match new.get(*key) {
            Some(value) => wanted.insert((*key).to_owned(), value.clone()),
            None => wanted.shift_remove(*key),
        };
    }
}

/// The keys of which the candidate's file says something else, options by their own name.
fn differing(wanted: &Map<String, Value>, new: &Map<String, Value>) -> Vec<String> {
    let empty = Map::new();
    let options = |map: &'_ Map<String, Value>| -> Map<String, Value> {
        map.get("compilerOptions").and_then(Value::as_object).unwrap_or(&empty).clone()
    };
    let sorted = |value: Option<&Value>| -> Option<Value> {
        // The order of a list means nothing.
        let mut value = value?.clone();
        if let Value::Array(list) = &mut value {
            list.sort_by_key(Value::to_string);
        }
        Some(value)
    };
    let of = |left: &Map<String, Value>, right: &Map<String, Value>, prefix: &str| -> Vec<String> {
        let mut keys: Vec<&String> = left.keys().chain(right.keys()).collect();
        keys.sort();
        keys.dedup();
        keys.into_iter()
            .filter(|key| {
                *key != "compilerOptions" && sorted(left.get(*key)) != sorted(right.get(*key))
            })
            .map(|key| format!("{prefix}{key}"))
            .collect()
    };
    let mut found = of(wanted, new, "");
    found.extend(of(&options(wanted), &options(new), "compilerOptions."));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "{\n  // strict\n  \"compilerOptions\": {\"strict\": true, \"noEmit\": true},\n  \"include\": [\"src\"],\n}\n";

    fn changed(now: &str) -> (String, Vec<String>) {
        match merge(BASE, now) {
            Some(Merged::Changed { bytes, parts }) => (String::from_utf8(bytes).unwrap(), parts),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_checked_is_the_bases() {
        for (now, part) in [
            (
                r#"{"compilerOptions": {"strict": false, "noEmit": true}, "include": ["src"]}"#,
                "compilerOptions.strict",
            ),
            (
                r#"{"compilerOptions": {"strict": true, "noEmit": true, "skipLibCheck": true}, "include": ["src"]}"#,
                "compilerOptions.skipLibCheck",
            ),
            (
                r#"{"compilerOptions": {"strict": true, "noEmit": true, "paths": {"x": ["y"]}}, "include": ["src"]}"#,
                "compilerOptions.paths",
            ),
            (r#"{"compilerOptions": {"strict": true, "noEmit": true}, "include": []}"#, "include"),
            (
                r#"{"compilerOptions": {"strict": true, "noEmit": true}, "include": ["src"], "files": []}"#,
                "files",
            ),
            (
                r#"{"compilerOptions": {"strict": true, "noEmit": true}, "include": ["src"], "exclude": ["src/a.ts"]}"#,
                "exclude",
            ),
            (
                r#"{"extends": "./loose.json", "compilerOptions": {"strict": true, "noEmit": true}, "include": ["src"]}"#,
                "extends",
            ),
            ("{}", "include"),
        ] {
            let (text, parts) = changed(now);
            assert_eq!(text, BASE, "{now}");
            assert_eq!(parts[0], part);
        }
        assert_eq!(merge(BASE, "{"), None);
    }

    #[test]
    fn the_rest_is_the_candidates() {
        let now = r#"{"compilerOptions": {"strict": true, "noEmit": true, "jsx": "react-jsx"}, "include": ["src", "more"]}"#;
        assert_eq!(merge(BASE, now), Some(Merged::Same));
        let both = r#"{"compilerOptions": {"strict": false, "noEmit": true, "outDir": "d"}, "include": ["more"]}"#;
        let (text, parts) = changed(both);
        assert_eq!(parts, ["include", "compilerOptions.strict"]);
        assert!(text.contains("\"strict\": true") && text.contains("\"outDir\": \"d\""), "{text}");
        assert!(text.contains("\"src\"") && text.contains("\"more\""), "{text}");
    }
}
