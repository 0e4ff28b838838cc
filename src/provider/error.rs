//! What can go wrong between a request and its answer.

use std::time::Duration;

use crate::model::{Cost, Usage};

/// The kind of a provider error, as records name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// No key is set, or the server refused it (401, 403).
    Auth,
    /// The account can't pay (402, `insufficient_quota`).
    Payment,
    /// The server does not know the model (404).
    UnknownModel,
    /// Too many requests (429).
    RateLimited,
    /// The server is overloaded or broken (5xx, 529).
    Overloaded,
    /// No connection could be made, or it broke.
    Unreachable,
    /// A deadline passed: connect, first byte, idle or whole.
    Timeout,
    /// The conversation is longer than the model's context window.
    ContextOverflow,
    /// The server refused the request's form or contents (other 4xx).
    BadRequest,
    /// The answer broke the protocol: a truncated stream, bad JSON, a missing end.
    Protocol,
    /// The answer is longer than any that was asked for can be. Asking again would be paid again, and the
    /// server has shown that it does not keep to what it is asked for.
    TooLong,
    /// The run's budget does not allow the call.
    Budget,
    /// The run was cancelled.
    Cancelled,
}

impl ErrorClass {
    /// The stable kebab-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::Payment => "payment",
            Self::UnknownModel => "unknown-model",
            Self::RateLimited => "rate-limited",
            Self::Overloaded => "overloaded",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::ContextOverflow => "context-overflow",
            Self::BadRequest => "bad-request",
            Self::Protocol => "protocol",
            Self::TooLong => "too-long",
            Self::Budget => "budget",
            Self::Cancelled => "cancelled",
        }
    }

    /// The class of that name, as scripts write it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }

    /// Every class.
    pub const ALL: [Self; 13] = [
        Self::Auth,
        Self::Payment,
        Self::UnknownModel,
        Self::RateLimited,
        Self::Overloaded,
        Self::Unreachable,
        Self::Timeout,
        Self::ContextOverflow,
        Self::BadRequest,
        Self::Protocol,
        Self::TooLong,
        Self::Budget,
        Self::Cancelled,
    ];

    /// Whether asking the same again can help.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::Unreachable
                | Self::Timeout
                | Self::Protocol
        )
    }
}

/// A request that got no whole answer. The message never holds a key.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ProviderError {
    /// Its class.
    pub class: ErrorClass,
    /// What the server or the network said, and what to do next.
    pub message: String,
    /// How long the server asked to wait.
    pub retry_after: Option<Duration>,
    /// Whether the server may charge for what it did until then: it had begun to answer, or nobody
    /// can know whether it had.
    pub maybe_charged: bool,
    /// Whether the journal holds it in these words. One that was made or reworded above the journal is not.
    pub kept: bool,
}

impl ProviderError {
    /// An error without a wait.
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            retry_after: None,
            maybe_charged: false,
            kept: false,
        }
    }

    /// What is known of what the call used: nothing, and whether that is all.
    pub fn usage(&self) -> Usage {
        let cost = if self.maybe_charged { Cost::UNKNOWN } else { Cost::default() };
        Usage { cost, ..Usage::default() }
    }

    /// The error of a cancelled call.
    pub(super) fn cancelled() -> Self {
        Self::new(ErrorClass::Cancelled, "the run was cancelled before the model had answered")
    }

    /// The same error for a request that the server may charge for.
    pub fn charged(mut self, maybe: bool) -> Self {
        self.maybe_charged |= maybe;
        self
    }
}
