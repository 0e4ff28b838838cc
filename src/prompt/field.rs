//! What a template may be given.
//!
//! Lives here: the kinds of a prompt's fields. There is no bare string: whoever fills a context says
//! of every text whether it is the engine's and the operator's, or foreign. Never here: rendering.

use crate::fence::{FenceOptions, Untrusted};

/// A field of a prompt's context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// Text of the engine or the operator, put in as it is.
    Trusted(String),
    /// Foreign text: the renderer fences it.
    Untrusted(Untrusted),
    /// Foreign text that is cut, and then fenced, as the options say.
    Cut(Untrusted, FenceOptions),
    /// A number.
    Number(i64),
    /// A yes or no, for conditions.
    Flag(bool),
    /// Nothing: false in a condition.
    Absent,
    /// A list of objects.
    List(Vec<Vec<(&'static str, Field)>>),
}

/// The context of one template.
pub trait PromptContext {
    /// The template's name: its file in `prompts/` without `.md.j2`.
    fn template(&self) -> &str;

    /// Every field of the template, each once: none, unless there are some.
    fn fields(&self) -> Vec<(&'static str, Field)> {
        Vec::new()
    }
}
