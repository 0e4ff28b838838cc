//! Judges' definitions.
//!
//! Lives here: the format of `judges/*.toml`, the layers over the built-in ones, and the check that a
//! judge's template exists. Never here: reading files; texts are handed in.

use std::collections::BTreeMap;

use include_dir::{Dir, include_dir};
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::model::{JudgeId, JudgeOrigin};
use crate::prompt::Templates;

static EMBEDDED: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/judges");

/// Why the judges could not be set up.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum JudgeError {
    /// A definition does not parse or breaks a rule.
    #[error("judge `{name}` of the {layer} layer: {message}")]
    Definition {
        /// The definition's file name.
        name: String,
        /// The layer.
        layer: String,
        /// What is wrong, with the line where there is one.
        message: String,
    },
    /// A judge was asked for that there is none of.
    #[error("there is no judge `{id}`; known are {known}")]
    Unknown {
        /// The id.
        id: String,
        /// The known ids, separated by commas.
        known: String,
    },
}

/// What of a candidate a judge is shown besides the engine's facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LooksAt {
    /// The operator's task.
    Task,
    /// The diff.
    Diff,
    /// The author's closing words.
    Answer,
    /// The author's claims.
    Claims,
    /// What the gates printed.
    Gates,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    id: String,
    title: String,
    looks_at: Vec<LooksAt>,
    template: String,
    role: String,
    weight: u32,
    criteria: Vec<String>,
    scale: String,
    veto: Option<String>,
}

/// A judge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    /// Its id.
    pub id: JudgeId,
    /// Its question.
    pub title: String,
    /// What it is shown.
    pub looks_at: Vec<LooksAt>,
    /// The template of its question.
    pub template: String,
    /// What its voice weighs, at least 1.
    pub weight: u32,
    /// What it goes by.
    pub criteria: Vec<String>,
    /// When a difference is large enough to choose.
    pub scale: String,
    /// When it may veto; `None` when it may not.
    pub veto: Option<String>,
    /// Where the definition came from, with the hash of its and its template's bytes.
    pub origin: JudgeOrigin,
}

impl Judge {
    /// Whether it is shown `part`.
    pub fn looks_at(&self, part: LooksAt) -> bool {
        self.looks_at.contains(&part)
    }
}

/// Definitions of one layer over the built-in ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgeLayer {
    /// `user` or `repository`.
    pub layer: String,
    /// File names and texts.
    pub files: Vec<(String, String)>,
}

/// All judges of a run.
#[derive(Clone, Debug)]
pub struct Judges {
    by_id: BTreeMap<JudgeId, Judge>,
}

impl Judges {
    /// The built-in definitions as they are written.
    pub fn embedded_texts() -> impl Iterator<Item = &'static str> {
        EMBEDDED.files().filter_map(|file| file.contents_utf8())
    }

    /// The built-in judges, and those of `layers` over them; a later layer wins.
    ///
    /// # Errors
    /// [`JudgeError::Definition`] for a definition that does not parse, or names a template that is
    /// not in `templates`.
    pub fn load(layers: &[JudgeLayer], templates: &Templates) -> Result<Self, JudgeError> {
        let builtin = EMBEDDED.files().filter_map(|file| {
            Some((file.path().to_string_lossy().into_owned(), file.contents_utf8()?.to_owned()))
        });
        let builtin = JudgeLayer { layer: "builtin".to_owned(), files: builtin.collect() };
        let mut by_id = BTreeMap::new();
        for layer in std::iter::once(&builtin).chain(layers) {
            for (name, text) in &layer.files {
                let judge = parse(text, &layer.layer, templates).map_err(|message| {
                    let (name, layer) = (name.clone(), layer.layer.clone());
                    JudgeError::Definition { name, layer, message }
                })?;
                by_id.insert(judge.id.clone(), judge);
            }
        }
        Ok(Self { by_id })
    }

    /// All judges in the order of their ids.
    pub fn all(&self) -> impl Iterator<Item = &Judge> {
        self.by_id.values()
    }

    /// The judges with these ids, each once, in the order asked for.
    ///
    /// # Errors
    /// [`JudgeError::Unknown`], with the known ids.
    pub fn select(&self, ids: &[JudgeId]) -> Result<Vec<Judge>, JudgeError> {
        let mut selected: Vec<Judge> = Vec::new();
        for id in ids {
            let judge = self.by_id.get(id).ok_or_else(|| self.unknown(id))?;
            if !selected.iter().any(|known| known.id == judge.id) {
                selected.push(judge.clone());
            }
        }
        Ok(selected)
    }

    fn unknown(&self, id: &JudgeId) -> JudgeError {
        let known: Vec<&str> = self.by_id.keys().map(JudgeId::as_str).collect();
        JudgeError::Unknown { id: id.to_string(), known: known.join(", ") }
    }

    /// Every definition as id to `layer:sha256`, for the record.
    pub fn origins(&self) -> BTreeMap<String, String> {
        let origin = |origin: &JudgeOrigin| format!("{}:{}", origin.layer, origin.sha256);
        self.by_id.iter().map(|(id, judge)| (id.to_string(), origin(&judge.origin))).collect()
    }
}

fn parse(text: &str, layer: &str, templates: &Templates) -> Result<Judge, String> {
    let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
    let Some(template) = templates.text(&file.template) else {
        let known = templates.names().collect::<Vec<_>>().join(", ");
        return Err(format!("there is no template `{}`; known are {known}", file.template));
    };
    check(&file)?;
    let hash = Sha256::new().chain_update(text).chain_update(template).finalize();
    let sha256 = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Judge {
        id: JudgeId::new(file.id),
        title: file.title,
        looks_at: file.looks_at,
        template: file.template,
        weight: file.weight,
        criteria: file.criteria,
        scale: file.scale,
        veto: file.veto,
        origin: JudgeOrigin { layer: layer.to_owned(), sha256 },
    })
}

fn check(file: &File) -> Result<(), String> {
    let is_id = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if file.id.is_empty() || !file.id.chars().all(is_id) {
        return Err("`id` has to be of a-z, 0-9 and -".to_owned());
    }
    if !(1..=100).contains(&file.weight) {
        return Err("`weight` has to be from 1 to 100".to_owned());
    }
    if file.role != "judge" {
        return Err(format!("there is no model role `{}`; known is judge", file.role));
    }
    if file.criteria.is_empty() || !file.looks_at.contains(&LooksAt::Diff) {
        return Err("a judge needs `criteria`, and `diff` among what it looks at".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_judges_load_and_name_existing_templates() {
        let judges = Judges::load(&[], &Templates::embedded()).unwrap();
        let ids: Vec<&str> = judges.all().map(|judge| judge.id.as_str()).collect();
        assert_eq!(ids, ["correctness", "maintainability", "scope", "security", "tests"]);
        assert!(judges.all().all(|judge| judge.origin.sha256.len() == 64));
        assert_eq!(judges.all().filter(|judge| judge.veto.is_some()).count(), 3);
    }

    #[test]
    fn a_layer_replaces_by_id_and_mistakes_are_told() {
        let templates = Templates::embedded();
        let text = "id = 'scope'\ntitle = 'T'\nlooks_at = ['diff']\ntemplate = 'judge'\nrole = 'judge'\nweight = 9\ncriteria = ['c']\nscale = 's'\n";
        let load = |text: &str| {
            let files = vec![("scope.toml".to_owned(), text.to_owned())];
            Judges::load(&[JudgeLayer { layer: "user".to_owned(), files }], &templates)
        };
        let judges = load(text).unwrap();
        let scope = &judges.select(&[JudgeId::new("scope"), JudgeId::new("scope")]).unwrap()[0];
        assert_eq!((scope.weight, scope.origin.layer.as_str()), (9, "user"));
        let error = judges.select(&[JudgeId::new("taste")]).unwrap_err();
        assert!(error.to_string().contains("correctness, maintainability"), "{error}");
        for (from, to, told) in [
            ("weight = 9", "weight = 0", "from 1 to 100"),
            ("'judge'\nrole", "'jugde'\nrole", "no template `jugde`"),
            ("['diff']", "['dif']", "line 3"),
            ("scale =", "scael =", "scael"),
            ("role = 'judge'", "role = 'king'", "no model role"),
        ] {
            let error = load(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(told) && error.contains("scope.toml"), "{error}");
        }
    }
}
