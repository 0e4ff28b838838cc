//! The design step: one call before the fan-out, whose words are an instruction to all workers
//! (contract C26).
//!
//! What contains it is who may write to it: the model that the operator names for it, in one call of the
//! engine's, and nobody else. It is journaled as it was and never made again, so that every lane and every
//! resume reads the same. Never here: a lane's own words.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::base_files::{File, Shelf, failed, paths};
use super::layers::Layers;
use super::models::Models;
use super::run::Run;
use super::work::gate_commands;
use super::{Designs, PipelineError};
use crate::fence::Fencer;
use crate::journal::{Checkpoint, Entry};
use crate::model::chat::{Message, ModelRequest, Purpose, ReplyStop};
use crate::model::{Design, ModelRef, Plan, Stage, TreeId, clip};
use crate::patch::TreeStore;
use crate::prompt::{DesignSystem, DesignTask, Instructions, PromptContext, SynthFile, Templates};
use crate::provider::Provider;
use crate::repo::Store;

/// The most bytes of a plan.
const PLAN_BYTES: usize = 12 << 10;
/// The most bytes of files that the task names.
const FILES_BYTES: usize = 64 << 10;
/// The most of these files.
const MOST_FILES: usize = 8;
/// The shortest file name that is looked for in a task by itself, without its directory.
const SHORTEST_NAME: usize = 5;

/// Who plans.
pub struct DesignDesk {
    model: ModelRef,
    provider: Arc<dyn Provider>,
    templates: Templates,
    fencer: Fencer,
    store: Arc<Store>,
    plan: Plan,
    instructions: Instructions,
    cancel: CancellationToken,
}

/// Who plans, where the plan has somebody.
pub(super) fn design(
    plan: &Plan,
    layers: &Layers,
    models: &Models,
    fencer: &Fencer,
    (store, instructions): (&Arc<Store>, Instructions),
    cancel: &CancellationToken,
) -> Result<Option<Box<dyn Designs>>, PipelineError> {
    let Some(model) = &plan.design else { return Ok(None) };
    Ok(Some(Box::new(DesignDesk {
        model: model.clone(),
        provider: models.provider(model)?,
        templates: layers.templates.clone(),
        fencer: fencer.clone(),
        store: store.clone(),
        plan: plan.clone(),
        instructions,
        cancel: cancel.clone(),
    })))
}

impl DesignDesk {
    fn request(&self) -> Result<ModelRequest, PipelineError> {
        let render = |context: &dyn PromptContext| {
            let rendered = self.templates.render(context, &self.fencer);
            rendered.map(|prompt| prompt.text).map_err(|e| PipelineError::Config(e.to_string()))
        };
        Ok(ModelRequest::question(
            &self.model.model,
            render(&DesignSystem)?,
            vec![Message::user(render(&self.task()?)?)],
            self.plan.worker_limits.max_output_tokens,
            Purpose::Design,
        ))
    }

    fn task(&self) -> Result<DesignTask, PipelineError> {
        let task = self.plan.task.as_ref().map(|task| task.text.clone()).unwrap_or_default();
        let (paths, is_cut) = paths(&*self.store, self.store.base_tree())?;
        let files = named(&task, &paths, &*self.store, self.store.base_tree())?;
        let layout = paths.join("\n");
        let file = |(path, contents)| SynthFile { path, contents };
        Ok(DesignTask {
            layout_is_cut: is_cut || layout.len() > crate::prompt::LAYOUT_BYTES,
            layout,
            files: files.into_iter().map(file).collect(),
            task,
            instructions: self.instructions.clone(),
            gates: gate_commands(&self.plan.gates),
            dir: self.plan.gates.dir.clone(),
        })
    }

    async fn ask(&self) -> Result<Design, PipelineError> {
        let request = self.request()?;
        let (said, usage) = match self.provider.call(&request, &mut |_| {}, &self.cancel).await {
            Err(error) => (Err(format!("its model gave no answer: {error}")), error.usage()),
            Ok(reply) => {
                let whole = matches!(reply.stop, ReplyStop::EndTurn | ReplyStop::Other(_));
                let text = clip(reply.text().trim(), PLAN_BYTES).text;
                let said = (whole && !text.is_empty()).then_some(text);
                (said.ok_or_else(|| "its reply can't be used".to_owned()), reply.usage)
            }
        };
        let (text, why_none) = match said {
            Ok(text) => (Some(text), None),
            Err(why) => (None, Some(why)),
        };
        Ok(Design { model: self.model.to_string(), text, why_none, usage })
    }
}

impl Designs for DesignDesk {
    fn plan(&self) -> BoxFuture<'_, Result<Design, PipelineError>> {
        self.ask().boxed()
    }
}

/// Texts of the files that a task names, by their paths or by names that are not too common.
fn named(
    task: &str,
    paths: &[String],
    store: &dyn TreeStore,
    base: &TreeId,
) -> Result<Vec<File>, PipelineError> {
    let is_named = |path: &&String| {
        let name = path.rsplit('/').next().unwrap_or(path);
        let by_name = name.len() >= SHORTEST_NAME && name.contains('.');
        stands(task, path) || (by_name && stands(task, name))
    };
    let mut shelf = Shelf::new(FILES_BYTES, MOST_FILES);
    for path in paths.iter().filter(is_named).take(4 * MOST_FILES) {
        if let Some(text) = crate::gate::text_at(store, base, path).map_err(failed)? {
            shelf.put(path.clone(), text);
        }
    }
    Ok(shelf.files())
}

/// Whether a name stands in a text as a word of its own.
fn stands(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '/');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

impl Run<'_> {
    /// The plan for all workers: as the journal holds it, else made and journaled.
    pub(super) async fn design(&mut self) -> Result<Option<Arc<str>>, PipelineError> {
        let Some(designs) = &self.phases.design else { return Ok(None) };
        if self.cancelled(Checkpoint::Design) {
            return Ok(None);
        }
        let design = match self.memory.design() {
            Some(known) => known.clone(),
            // It was under way when the time was over.
            None if self.memory.is_replay() && self.cancelled(Checkpoint::Designed) => {
                return Ok(None);
            }
            None if self.memory.is_replay() => {
                self.memory.miss("the plan of the design step".to_owned());
                return Ok(None);
            }
            None => {
                self.begin_stage(Stage::Design, None)?;
                let design = designs.plan().await?;
                if self.cancelled(Checkpoint::Designed) {
                    return Ok(None);
                }
                self.dir.append(&Entry::Designed { design: design.clone() })?;
                design
            }
        };
        self.count("design", design.usage);
        if let Some(why) = &design.why_none {
            self.warn("no-design", format!("workers began without a plan: {why}"));
        }
        let text = design.text.as_deref().map(Arc::from);
        self.record.design = Some(design);
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_as_a_word() {
        assert!(stands("mend src/a.rs, please", "src/a.rs"));
        assert!(stands("(see parser.py)", "parser.py"));
        assert!(!stands("mend src/a.rs", "a.rs"), "the end of another path");
        assert!(!stands("my_parser.py", "parser.py") && !stands("parser.pyc", "parser.py"));
    }
}
