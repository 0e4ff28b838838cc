//! Words that stand in what anybody can read: the engine's own prompts, tools and formats, and the names of a run's models.
//!
//! An environment may call such a word a secret (`APP_SECRET=placeholder`). Masked, it would take words out of every prompt
//! and names out of every record, so that neither could be read back, and would hide nothing. Never here: masking.

use std::fmt::Write as _;

use schemars::schema_for;

use crate::config::Config;
use crate::journal::Entry;
use crate::judge::Judges;
use crate::model::chat::{ModelReply, ModelRequest};
use crate::model::{ModelRef, RunRecord, Wire};
use crate::prompt::Templates;
use crate::tools::Registry;

/// All of them, as one text.
pub fn own_words(config: &Config) -> String {
    let mut words = Templates::embedded().texts().collect::<Vec<_>>().join("\n");
    Judges::embedded_texts().for_each(|text| words.push_str(text));
    let formats = (
        (schema_for!(Entry), schema_for!(RunRecord)),
        (schema_for!(ModelRequest), schema_for!(ModelReply), schema_for!(Wire)),
        Registry::standard().specs(),
    );
    words.push_str(&serde_json::to_string(&formats).unwrap_or_default());
    for (name, provider) in &config.providers {
        // A path may hold a key.
        let address = provider.shown_address();
        let host = address.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        let models = provider.default_models.value.iter().map(String::as_str);
        [name.as_str(), &host].into_iter().chain(models).for_each(|word| add(&mut words, word));
    }
    for (name, lane) in &config.lanes {
        add(&mut words, name);
        let models = lane.model.value.iter().chain(&lane.fallback.value);
        models.for_each(|model| add(&mut words, &model.to_string()));
    }
    let Config { judges, duels, design, side, .. } = config;
    let one = [&judges.synth, &duels.model, &design.model, &side.model];
    let models = one.into_iter().flat_map(|model| &model.value).chain(&judges.models.value);
    models.for_each(|model: &ModelRef| add(&mut words, &model.to_string()));
    words
}

/// Adds a name, unless it reads like a key: nobody calls a model so but by mistake.
fn add(words: &mut String, name: &str) {
    if !name.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).any(is_key) {
        let _ = writeln!(words, "\n{name}");
    }
}

/// Whether a part of a name is as long and as mixed as keys are.
fn is_key(part: &str) -> bool {
    let kinds: [fn(&u8) -> bool; 3] =
        [u8::is_ascii_digit, u8::is_ascii_uppercase, u8::is_ascii_lowercase];
    part.len() >= 20 && kinds.iter().all(|kind| part.bytes().any(|byte| kind(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_words_and_keys_are_none() {
        let key = "sk-Zq8vT3mN6pXr2LwK9dYb4HcJ";
        for (name, is_word) in [
            ("openai:gpt-6.1-terra-2026-11-01", true),
            ("openrouter:Qwen/Qwen3-Coder-480B-A35B-Instruct", false),
            ("https://eu.api.example.com:8443", true),
            (key, false),
            (&format!("local:{key}~v=1"), false),
            (&format!("https://h/v1/{key}/x"), false),
        ] {
            let mut words = String::new();
            add(&mut words, name);
            assert_eq!(words.contains(name), is_word, "{name}");
        }
    }
}
