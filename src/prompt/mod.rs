//! Prompts: templates, and one typed context for each.
//!
//! Lives here: the templates of `prompts/` (embedded; a user or a trusted repository may put another
//! one over each), their contexts, and the renderer, which fences every untrusted field itself.
//! Never here: network, files, the environment; layers are handed in as text.

mod context;
mod error;
mod fences;
mod field;
mod templates;
mod variation;

#[cfg(test)]
mod samples;
#[cfg(test)]
mod tests;

pub use context::{
    CandidateView, CapsuleSystem, CapsuleTask, DesignSystem, DesignTask, DuelSystem, DuelTask,
    DuelView, GateCommand, GateFailure, GateView, Instructions, JobNotices, JudgeRetry,
    JudgeSystem, JudgeTask, OperatorSteering, SkepticSystem, SkepticTask, Subtask, SubtaskResult,
    SynthBallot, SynthFile, SynthFix, SynthRetry, SynthSystem, SynthTask, TitleSystem, TitleTask,
    WorkerSystem, WorkerTask,
};
pub(crate) use context::{DIFF_BYTES, LAYOUT_BYTES, inline};
pub use error::PromptError;
pub use field::{Field, PromptContext};
pub use templates::{Rendered, Templates};
pub use variation::variation;
