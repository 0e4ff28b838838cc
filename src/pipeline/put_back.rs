//! What was masked of the operator's words, put back where a run goes on: no mask is told to a worker.
//!
//! Never here: how a mask is undone (`journal`), the frame, which puts itself back.

use super::PipelineError;
use super::memory::Memory;
use crate::journal::{Artifacts, Masker};
use crate::model::chat::{Block, Message, Role};

impl Memory {
    /// Puts back what was masked of the operator's words, by the secrets that this engine knows of.
    ///
    /// # Errors
    /// When none of them makes them what they were.
    pub fn restore_steers(&mut self, masker: &Masker) -> Result<(), PipelineError> {
        for steer in &mut self.steers {
            let Some(whole) = steer.whole.take() else { continue };
            let masked = serde_json::to_vec(&steer.text).unwrap_or_default();
            let text = masker.unmasked(&masked, |bytes| Artifacts::plain_name(bytes) == whole);
            let text = text.and_then(|text| serde_json::from_slice::<String>(&text).ok());
            let text = text.ok_or_else(|| {
                PipelineError::Config(format!(
                    "what the operator said to {} ({}) holds a secret, which no record keeps, and what this environment \
                     holds does not fit there; set it as it was then, or begin a new run",
                    steer.lane, steer.id
                ))
            })?;
            let masked = std::mem::replace(&mut steer.text, text.clone());
            self.restored.push((masked, text));
        }
        Ok(())
    }

    /// The operator's words in a conversation as they were.
    pub(super) fn unmask(&self, message: &mut Message) {
        for block in &mut message.blocks {
            let Block::Text { text } = block else { continue };
            for (masked, whole) in self.restored.iter().filter(|_| message.role == Role::User) {
                *text = text.replace(masked, whole);
            }
        }
    }
}
