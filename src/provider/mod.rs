//! The wire: how a request reaches a model and how its answer comes back.
//!
//! Lives here: the `Provider` trait, its dialects (OpenAI chat, Anthropic messages, scripted) and its
//! decorators (retry, rate, budget, prices). Never here: tools, git, prompts.

mod error;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

pub use error::{ErrorClass, ProviderError};

use crate::model::chat::{Delta, ModelReply, ModelRequest};

/// Something that answers model requests. Decorators (retry, budget, journal) are providers too.
pub trait Provider: Send + Sync {
    /// Asks and waits for the whole answer; pieces go to `sink` as they stream in.
    ///
    /// # Errors
    /// A [`ProviderError`] whose class says whether asking again can help. A stream that ends early
    /// is an error, never a short answer.
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelReply, ProviderError>>;
}
