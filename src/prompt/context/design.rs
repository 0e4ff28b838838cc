//! What the design step is told: the task, and what of the base there is room for.

use super::worker::{GateCommand, Instructions};
use super::{Fields, LAYOUT_BYTES, SynthFile, base_file, inline, optional, trusted};
use crate::fence::{Boundary, FenceOptions, Keep, Untrusted};
use crate::prompt::{Field, PromptContext};

/// The system prompt of who plans.
#[derive(Clone, Copy, Debug, Default)]
pub struct DesignSystem;

impl PromptContext for DesignSystem {
    fn template(&self) -> &str {
        "design_system"
    }
}

/// The question for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DesignTask {
    /// The operator's task.
    pub task: String,
    /// The repository's instructions.
    pub instructions: Instructions,
    /// The gates, in their order.
    pub gates: Vec<GateCommand>,
    /// The directory in which the gates run; empty for the top.
    pub dir: String,
    /// Paths of the base, one a line: foreign.
    pub layout: String,
    /// Whether some were left out.
    pub layout_is_cut: bool,
    /// Files of the base that the task names.
    pub files: Vec<SynthFile>,
}

impl PromptContext for DesignTask {
    fn template(&self) -> &str {
        "design"
    }

    fn fields(&self) -> Fields {
        let (instructions, are_trusted) = self.instructions.fields();
        let layout = Untrusted::at(Boundary::Layout, "", &self.layout);
        let dir = Some(inline(&self.dir)).filter(|dir| !dir.is_empty());
        vec![
            ("task", trusted(self.task.trim())),
            ("instructions", instructions),
            ("instructions_are_trusted", are_trusted),
            ("gates", Field::List(self.gates.iter().map(GateCommand::fields).collect())),
            ("dir", optional(dir.as_deref())),
            ("layout", Field::Cut(layout, FenceOptions::cut(LAYOUT_BYTES, Keep::Head))),
            ("layout_is_cut", Field::Flag(self.layout_is_cut)),
            ("files", Field::List(self.files.iter().map(base_file).collect())),
        ]
    }
}
