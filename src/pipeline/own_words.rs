//! Words that stand in what anybody can read: the engine's own prompts, tools and formats, and the names of a run's models.
//!
//! An environment may call such a word a secret (`APP_SECRET=placeholder`). Masked, it would take words out of every prompt
//! and names out of every record, so that neither could be read back, and would hide nothing. Never here: masking.

use std::fmt::Write as _;

use schemars::schema_for;

use crate::config::Config;
use crate::journal::Entry;
use crate::judge::Judges;
use crate::model::RunRecord;
use crate::model::chat::{ModelReply, ModelRequest};
use crate::prompt::Templates;
use crate::tools::Registry;

/// All of them, as one text.
pub fn own_words(config: &Config) -> String {
    let mut words = Templates::embedded().texts().collect::<Vec<_>>().join("\n");
    Judges::embedded_texts().for_each(|text| words.push_str(text));
    let formats = (
        (schema_for!(Entry), schema_for!(RunRecord)),
        (schema_for!(ModelRequest), schema_for!(ModelReply)),
        Registry::standard().specs(),
    );
    words.push_str(&serde_json::to_string(&formats).unwrap_or_default());
    for (name, provider) in &config.providers {
        let _ = writeln!(words, "\n{name} {}", provider.shown_address());
        provider.default_models.value.iter().for_each(|model| words.push_str(&format!(" {model}")));
    }
    for (name, lane) in &config.lanes {
        let _ = writeln!(words, "\n{name}");
        let models = lane.model.value.iter().chain(&lane.fallback.value);
        models.for_each(|model| words.push_str(&format!(" {model}")));
    }
    words
}
