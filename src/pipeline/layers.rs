//! Prompts and judges of a run: the built-in ones, the user's over them, a trusted repository's on top.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::PipelineError;
use super::survey::{OVERRIDES_DIR, Survey};
use crate::judge::{JudgeLayer, Judges};
use crate::model::JudgeId;
use crate::prompt::Templates;

/// The ending of a prompt's file.
const PROMPT: &str = ".md.j2";
/// The ending of a judge's file.
const JUDGE: &str = ".toml";

/// Everything that prompts and judges are taken from.
#[derive(Clone, Debug)]
pub struct Layers {
    /// The prompts.
    pub templates: Templates,
    /// The judges.
    pub judges: Judges,
}

impl Layers {
    /// Every definition by name, as `layer:sha256`, for the record.
    pub fn origins(&self) -> BTreeMap<String, String> {
        let prompts = self.templates.origins();
        let named = prompts.into_iter().map(|(name, origin)| (format!("prompt {name}"), origin));
        let judges = self.judges.origins();
        named
            .chain(judges.into_iter().map(|(name, origin)| (format!("judge {name}"), origin)))
            .collect()
    }
}

/// The files of one layer over the built-in definitions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayerFiles {
    /// `user` or `repository`.
    layer: String,
    /// Folder, file name and text.
    files: Vec<(String, String, String)>,
}

/// Reads every layer's files. `user` is the user's config directory.
///
/// # Errors
/// When a file can't be read: an override that is silently left out would be worse.
pub fn layer_files(
    survey: &Survey,
    user: &Path,
    trusted: bool,
) -> Result<Vec<LayerFiles>, PipelineError> {
    let mut layers = vec![LayerFiles { layer: "user".to_owned(), files: user_files(user)? }];
    if trusted {
        let files = repository_files(survey)?;
        layers.push(LayerFiles { layer: "repository".to_owned(), files });
    }
    Ok(layers)
}

/// Lays the files over the built-in definitions.
///
/// # Errors
/// When one can't be used.
pub fn lay(layers: &[LayerFiles]) -> Result<Layers, PipelineError> {
    let mut templates = Templates::embedded();
    let mut judges = Vec::new();
    for LayerFiles { layer, files } in layers {
        let mut own = JudgeLayer { layer: layer.clone(), files: Vec::new() };
        for (folder, name, text) in files {
            match (folder.as_str(), name.strip_suffix(PROMPT)) {
                ("prompts", Some(prompt)) => {
                    templates = templates.overridden(layer, prompt, text).map_err(config)?;
                }
                ("judges", _) if name.ends_with(JUDGE) => {
                    own.files.push((name.clone(), text.clone()));
                }
                _ => {}
            }
        }
        judges.push(own);
    }
    let judges = Judges::load(&judges, &templates).map_err(config)?;
    Ok(Layers { templates, judges })
}

/// Whether every judge of the plan is there, told before anything is paid.
///
/// # Errors
/// When a judge is not there, or a layer can't be read.
pub fn check_judges(
    survey: &Survey,
    user: &Path,
    trusted: bool,
    judges: &[JudgeId],
) -> Result<(), PipelineError> {
    let layers = lay(&layer_files(survey, user, trusted)?)?;
    layers.judges.select(judges).map(drop).map_err(config)
}

fn config(error: impl std::fmt::Display) -> PipelineError {
    PipelineError::Config(error.to_string())
}

/// Folder, file name and text of a trusted repository's overrides.
fn repository_files(survey: &Survey) -> Result<Vec<(String, String, String)>, PipelineError> {
    let mut found = Vec::new();
    for (path, bytes) in survey.trust_files()? {
        let Some(rest) = path.strip_prefix(OVERRIDES_DIR) else { continue };
        let Some((folder, name)) = rest.trim_start_matches('/').split_once('/') else { continue };
        let text = String::from_utf8(bytes)
            .map_err(|error| PipelineError::Config(format!("{path} is not UTF-8: {error}")))?;
        found.push((folder.to_owned(), name.to_owned(), text));
    }
    Ok(found)
}

/// Folder, file name and text of the user's overrides, sorted.
fn user_files(user: &Path) -> Result<Vec<(String, String, String)>, PipelineError> {
    let mut found = Vec::new();
    for folder in ["prompts", "judges"] {
        let dir = user.join(folder);
        let Ok(entries) = std::fs::read_dir(&dir) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            if !name.ends_with(PROMPT) && !name.ends_with(JUDGE) {
                continue;
            }
            let text = std::fs::read_to_string(&path).map_err(|error| {
                PipelineError::Config(format!("failed to read {}: {error}", path.display()))
            })?;
            found.push((folder.to_owned(), name.to_owned(), text));
        }
    }
    found.sort();
    Ok(found)
}
