//! What can go wrong in a prompt.

/// Why a prompt could not be made.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum PromptError {
    /// An override or a judge names a template that there is none of.
    #[error("there is no prompt template `{name}`; known are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The known names, separated by commas.
        known: String,
    },
    /// A template does not parse, or uses a field that its context does not have.
    #[error("prompt template `{name}` of the {layer} layer: {message}")]
    Template {
        /// The template.
        name: String,
        /// The layer it came from.
        layer: String,
        /// What is wrong, with the line.
        message: String,
    },
    /// A template changed a fenced text, so that its fence no longer holds.
    #[error(
        "prompt template `{name}` of the {layer} layer changes a fenced text: print such fields without filters"
    )]
    FenceBroken {
        /// The template.
        name: String,
        /// The layer it came from.
        layer: String,
    },
    /// A system prompt has to state the rule about untrusted text exactly once.
    #[error(
        "prompt template `{name}` of the {layer} layer states the rule about untrusted text {count} times: print `untrusted_rule` exactly once"
    )]
    Rule {
        /// The template.
        name: String,
        /// The layer it came from.
        layer: String,
        /// How often it does.
        count: usize,
    },
}
