//! Side calls: a run's title, and the capsule that hands it over.
//!
//! They are made after the decision, when no worker is in a conversation (contract R29), by a model of
//! their own, and change nothing of what was decided. Never here: whether they may be made.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::layers::Layers;
use super::models::Models;
use super::{Aside, PipelineError, Side};
use crate::fence::Fencer;
use crate::model::chat::{Message, ModelRequest, Purpose, ReplyStop, SideCall};
use crate::model::printable::line;
use crate::model::{ModelRef, Plan, clip};
use crate::prompt::{CapsuleSystem, CapsuleTask, PromptContext, Templates, TitleSystem, TitleTask};
use crate::provider::Provider;

/// The largest answer of a side call, in tokens; reasoning is part of it.
const MAX_OUTPUT_TOKENS: u32 = 4096;
/// The most characters of a title.
const TITLE_CHARS: usize = 80;
/// The most bytes of a capsule.
const CAPSULE_BYTES: usize = 4 << 10;

/// Who makes the side calls.
pub struct SideDesk {
    /// The model.
    pub model: ModelRef,
    /// Who answers; ledger and journal are around it.
    pub provider: Arc<dyn Provider>,
    /// The prompts.
    pub templates: Templates,
    /// The run's fences.
    pub fencer: Fencer,
    /// The largest answer that the plan allows.
    pub max_output_tokens: u32,
    /// Ends a call.
    pub cancel: CancellationToken,
}

/// Who makes the side calls, where the plan has any.
pub(super) fn side(
    plan: &Plan,
    layers: &Layers,
    models: &Models,
    fencer: &Fencer,
    cancel: &CancellationToken,
) -> Result<Option<Box<dyn Side>>, PipelineError> {
    let Some(model) = &plan.side else { return Ok(None) };
    Ok(Some(Box::new(SideDesk {
        model: model.clone(),
        provider: models.provider(model)?,
        templates: layers.templates.clone(),
        fencer: fencer.clone(),
        max_output_tokens: plan.worker_limits.max_output_tokens,
        cancel: cancel.clone(),
    })))
}

impl SideDesk {
    fn request(
        &self,
        call: SideCall,
        system: &dyn PromptContext,
        question: &dyn PromptContext,
    ) -> Result<ModelRequest, PipelineError> {
        let render = |context: &dyn PromptContext| {
            let rendered = self.templates.render(context, &self.fencer);
            rendered.map(|prompt| prompt.text).map_err(|e| PipelineError::Config(e.to_string()))
        };
        Ok(ModelRequest::question(
            &self.model.model,
            render(system)?,
            vec![Message::user(render(question)?)],
            MAX_OUTPUT_TOKENS.min(self.max_output_tokens),
            Purpose::Side { call },
        ))
    }

    async fn ask(&self, call: SideCall, request: ModelRequest) -> Aside {
        match self.provider.call(&request, &mut |_| {}, &self.cancel).await {
            Err(error) => Aside { said: Err(error.to_string()), usage: error.usage() },
            Ok(reply) => {
                let whole = matches!(reply.stop, ReplyStop::EndTurn | ReplyStop::Other(_));
                let said = if whole { read(call, &reply.text()) } else { None };
                let said = said.ok_or_else(|| "its reply can't be used".to_owned());
                Aside { said, usage: reply.usage }
            }
        }
    }
}

impl Side for SideDesk {
    fn title<'a>(&'a self, task: &'a str) -> BoxFuture<'a, Result<Aside, PipelineError>> {
        let task = TitleTask { task: task.to_owned() };
        let request = self.request(SideCall::Title, &TitleSystem, &task);
        async move { Ok(self.ask(SideCall::Title, request?).await) }.boxed()
    }

    fn capsule(&self, of: CapsuleTask) -> BoxFuture<'_, Result<Aside, PipelineError>> {
        let request = self.request(SideCall::Capsule, &CapsuleSystem, &of);
        async move { Ok(self.ask(SideCall::Capsule, request?).await) }.boxed()
    }
}

/// What a reply says, without what models put around it; nothing where it says nothing.
fn read(call: SideCall, text: &str) -> Option<String> {
    let said = match call {
        SideCall::Title => {
            let first = text.lines().find(|line| !line.trim().is_empty())?;
            let bare = first.trim().trim_start_matches(['#', '*', ' ']);
            let bare = bare.trim_matches(['"', '*', '`', '“', '”', ' ']).trim_end_matches('.');
            line(bare).chars().take(TITLE_CHARS).collect()
        }
        SideCall::Capsule => clip(text.trim(), CAPSULE_BYTES).text,
    };
    Some(said).filter(|said| !said.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_bare_line_of_bounded_length() {
        let title = |text: &str| read(SideCall::Title, text);
        assert_eq!(title("\n\"Mend the parser.\"\nmore"), Some("Mend the parser".to_owned()));
        assert_eq!(title("# **Mend** the parser"), Some("Mend** the parser".to_owned()));
        assert_eq!(title(" \n\"\"\n"), None);
        assert_eq!(title(&"x".repeat(500)).unwrap().chars().count(), TITLE_CHARS);
        assert!(!title("red \u{1b}[31m").unwrap().contains('\u{1b}'));
    }
}
