//! Prompts and judges of a run: the built-in ones, the user's over them, a trusted repository's on top.

use std::collections::BTreeMap;
use std::path::Path;

use super::PipelineError;
use super::survey::{OVERRIDES_DIR, Survey};
use crate::judge::Judges;
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
        named.chain(judges.into_iter().map(|(name, origin)| (format!("judge {name}"), origin))).collect()
    }
}

/// Reads every layer. `user` is the user's config directory.
///
/// # Errors
/// When a file can't be read or used: an override that is silently left out would be worse.
pub fn load_layers(survey: &Survey, user: &Path, trusted: bool) -> Result<Layers, PipelineError> {
    let mut layers = Layers { templates: Templates::embedded(), judges: Judges::embedded() };
    for (folder, name, text) in user_files(user)? {
        layers.put("user", &folder, &name, &text)?;
    }
    if trusted {
        for (path, bytes) in survey.trust_files()? {
            let Some(rest) = path.strip_prefix(OVERRIDES_DIR) else { continue };
            let Some((folder, name)) = rest.trim_start_matches('/').split_once('/') else { continue };
            let text = String::from_utf8(bytes)
                .map_err(|error| PipelineError::Config(format!("{path} is not UTF-8: {error}")))?;
            layers.put("repository", folder, name, &text)?;
        }
    }
    Ok(layers)
}

impl Layers {
    fn put(&mut self, layer: &str, folder: &str, name: &str, text: &str) -> Result<(), PipelineError> {
        let failed = |error: &dyn std::fmt::Display| {
            PipelineError::Config(format!("{layer} {folder}/{name}: {error}"))
        };
        match folder {
            "prompts" => {
                let Some(name) = name.strip_suffix(PROMPT) else { return Ok(()) };
                let templates = self.templates.clone().overridden(layer, name, text);
                self.templates = templates.map_err(|error| failed(&error))?;
            }
            "judges" => {
                let Some(name) = name.strip_suffix(JUDGE) else { return Ok(()) };
                let judges = self.judges.clone().with(layer, name, text);
                self.judges = judges.map_err(|error| failed(&error))?;
            }
            _ => {}
        }
        Ok(())
    }
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
