//! The tools that a worker has, in registration order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::{Tool, ToolContext, ToolOutput, args};
use super::{
    apply_patch::ApplyPatch, bash_jobs::BashJobs, edit_file::EditFile, glob::Glob, grep::Grep,
    list_dir::ListDir, multi_edit::MultiEdit, read_file::ReadFile, run_bash::RunBash,
    submit::Submit, write_file::WriteFile,
};
use crate::model::chat::ToolSpec;
use crate::model::clip;
use crate::sandbox::toolchain::Git;

/// The most bytes of an answer, whatever the tool: its own cap is lower, this one is the backstop.
pub const MAX_OUTPUT: usize = 96 * 1024;
/// The tool by which a worker ends its work.
const SUBMIT: &str = "submit";
/// The most bytes of arguments that are read.
const MAX_ARGUMENTS: usize = 8 << 20;

/// The tools of a worker.
#[derive(Clone)]
pub struct Registry {
    tools: Vec<Arc<dyn Tool>>,
    specs: Arc<[ToolSpec]>,
}

impl Registry {
    /// The tools that need nothing but a context.
    pub fn standard() -> Self {
        Self::of(vec![
            Arc::new(ReadFile),
            Arc::new(ListDir),
            Arc::new(Glob),
            Arc::new(Grep),
            Arc::new(WriteFile),
            Arc::new(EditFile),
            Arc::new(MultiEdit),
            Arc::new(ApplyPatch),
            Arc::new(RunBash::default()),
            Arc::new(BashJobs),
            Arc::new(Submit),
        ])
    }

    /// No tools.
    pub fn empty() -> Self {
        Self::raw(Vec::new())
    }

    fn raw(tools: Vec<Arc<dyn Tool>>) -> Self {
        let specs = tools.iter().map(|tool| tool.spec()).collect();
        Self { tools, specs }
    }

    /// A registry in which tools that use others use these.
    fn of(tools: Vec<Arc<dyn Tool>>) -> Self {
        let raw = Self::raw(tools);
        let tools = raw.tools.iter().map(|tool| tool.within(&raw).unwrap_or_else(|| tool.clone()));
        Self { tools: tools.collect(), specs: raw.specs.clone() }
    }

    /// The same tools with one more before `submit`, the last.
    #[must_use]
    pub fn with(&self, tool: Arc<dyn Tool>) -> Self {
        let mut tools = self.tools.clone();
        let last = self.specs.iter().position(|spec| spec.name == SUBMIT);
        tools.insert(last.unwrap_or(tools.len()), tool);
        Self::of(tools)
    }

    /// The same tools, of which `run_bash` takes this git, or tells why there is none.
    #[must_use]
    pub fn with_git(&self, git: Result<Git, String>) -> Self {
        let run_bash: Arc<dyn Tool> = Arc::new(RunBash::with_git(git));
        let is_it = |spec: &ToolSpec| spec.name == "run_bash";
        let tools = self.tools.iter().zip(self.specs.iter());
        let tools = tools.map(|(tool, spec)| if is_it(spec) { &run_bash } else { tool });
        Self::of(tools.cloned().collect())
    }

    /// The same tools, each of which makes use of all of them.
    #[must_use]
    pub fn bound(&self) -> Self {
        Self::of(self.tools.clone())
    }

    /// The tools without the end of a worker's own turn.
    pub(super) fn without_submit(&self) -> Self {
        let tools = self.tools.iter().zip(self.specs.iter());
        let kept = tools.filter(|(_, spec)| spec.name != SUBMIT);
        Self::raw(kept.map(|(tool, _)| tool.clone()).collect())
    }

    /// The same tools without those of the named keys. An absent key means enabled (contract R33);
    /// `submit` stays, because a worker can't end without it.
    #[must_use]
    pub fn without<'n>(&self, keys: impl IntoIterator<Item = &'n str>) -> Self {
        let keys: Vec<&str> = keys.into_iter().collect();
        let kept = self.tools.iter().filter(|tool| {
            let key = tool.key();
            key == SUBMIT || !keys.contains(&key.as_str())
        });
        Self::of(kept.cloned().collect())
    }

    /// The same tools without those whose key is explicitly `false`.
    #[must_use]
    pub fn toggled(&self, toggles: &BTreeMap<String, bool>) -> Self {
        self.without(toggles.iter().filter(|(_, on)| !**on).map(|(key, _)| key.as_str()))
    }

    /// The keys that configuration may name, in registration order.
    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.tools.iter().map(|tool| tool.key()).collect();
        keys.dedup();
        keys
    }

    /// The tools as a model sees them; the same value for every request of a worker.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Calls a tool. Whatever is wrong with the call is an answer to the model.
    pub async fn call(&self, context: &ToolContext, name: &str, arguments: &str) -> ToolOutput {
        let Some(index) = self.specs.iter().position(|spec| spec.name == name) else {
            let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
            return ToolOutput::refused(format!(
                "there is no tool {name:?}; the tools are {}",
                names.join(", ")
            ));
        };
        let value = match read_arguments(&self.specs[index], arguments) {
            Ok(value) => value,
            Err(answer) => return answer,
        };
        if context.read_only && self.tools[index].writes() {
            return ToolOutput::refused("refused: the workspace is read-only for you");
        }
        let call = self.tools[index].call(context, value);
        let mut output = tokio::select! {
            biased;
            () = context.cancel.cancelled() => ToolOutput::refused("the run was stopped before the tool was done"),
            output = call => output,
        };
        if let Cow::Owned(text) = context.hidden.hide(&output.text) {
            output.text = text;
        }
        if output.text.len() > MAX_OUTPUT {
            output.text = clip(&output.text, MAX_OUTPUT).text;
        }
        output
    }

    /// The table of tools for the documentation, in registration order with their count.
    pub fn markdown(&self) -> String {
        let mut text = format!("{} tools, in registration order:\n\n", self.specs.len());
        text.push_str("| # | Tool | Key | Arguments | What it does |\n|---|---|---|---|---|\n");
        for (index, (tool, spec)) in self.tools.iter().zip(self.specs.iter()).enumerate() {
            let shape = args::shape(&spec.parameters).replace('|', "\\|");
            let what = spec.description.replace('\n', " ").replace('|', "\\|");
            let key = tool.key();
            // Writing to a string can't fail.
            let _ = writeln!(
                text,
                "| {} | `{}` | `{key}` | `{shape}` | {what} |",
                index + 1,
                spec.name
            );
        }
        text
    }
}

/// The arguments' JSON; nothing at all stands for no arguments.
fn read_arguments(spec: &ToolSpec, arguments: &str) -> Result<Value, ToolOutput> {
    if arguments.len() > MAX_ARGUMENTS {
        let what = format!("they have {} bytes, at most {MAX_ARGUMENTS} are read", arguments.len());
        return Err(args::wrong(&spec.name, &what, &spec.parameters));
    }
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(arguments).map_err(|error| {
        args::wrong(&spec.name, &format!("they are no valid JSON ({error})"), &spec.parameters)
    })
}
