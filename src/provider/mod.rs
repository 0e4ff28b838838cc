//! The wire: how a request reaches a model and how its answer comes back.
//!
//! Lives here: the `Provider` trait, its dialects (OpenAI chat, OpenAI responses, Anthropic messages,
//! scripted) and its decorators (retry, rate, circuit, budget, prices). A stack is built from the inside out:
//! `Retrying(Metered(connect(endpoint)))`, so that every single try is reserved and settled.
//! Never here: tools, git, prompts.

mod account;
mod anthropic;
mod bound;
mod circuit;
mod client;
mod counts;
mod endpoint;
mod error;
mod http;
mod ledger;
mod mask;
mod openai;
mod priced;
pub mod prices;
mod rate;
mod refusal;
mod responses;
mod retry;
pub mod scripted;
mod sse;
#[cfg(test)]
mod testing;

use std::path::Path;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use tokio_util::sync::CancellationToken;

pub use account::{Amount, Ceiling, LedgerTotals};
pub use circuit::{Breaker, Circuit, CircuitPolicy};
pub use endpoint::{Deadlines, Endpoint, OutputLimitField};
pub use error::{ErrorClass, ProviderError};
pub use ledger::{Ceilings, Ledger, Metered, RunCeiling};
pub use priced::Priced;
pub use prices::{Price, Pricing};
pub use rate::RateGate;
pub use retry::{RetryPolicy, Retrying};
pub use scripted::{Script, Scripted};

use crate::model::Wire;
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

    /// What a caller has instead of a call that it does not make, for `error`: the answer where one is known
    /// already, else the error. A journal keeps it, so that a replay ends the same way.
    ///
    /// # Errors
    /// `error`, or the one that the journal holds for this request.
    fn instead(
        &self,
        request: &ModelRequest,
        error: ProviderError,
    ) -> Result<ModelReply, ProviderError> {
        let _ = request;
        Err(error)
    }
}

/// A provider that is written as one async function, which is all that most of them are.
pub(crate) trait Ask: Send + Sync {
    /// As [`Provider::call`].
    fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> impl Future<Output = Result<ModelReply, ProviderError>> + Send;

    /// As [`Provider::instead`].
    fn instead_of(
        &self,
        _: &ModelRequest,
        error: ProviderError,
    ) -> Result<ModelReply, ProviderError> {
        Err(error)
    }
}

impl<T: Ask> Provider for T {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelReply, ProviderError>> {
        self.ask(request, sink, cancel).boxed()
    }

    fn instead(
        &self,
        request: &ModelRequest,
        error: ProviderError,
    ) -> Result<ModelReply, ProviderError> {
        self.instead_of(request, error)
    }
}

/// The bare wire to an endpoint: one try a call, no budget, cost unknown. For a scripted endpoint the
/// base URL is the path of the script file, which is read here.
///
/// # Errors
/// When the base URL, a header or the key can't be used, when the machine's trusted certificates
/// can't be read (for an `https` URL), or when a script is missing or malformed.
pub fn connect(endpoint: &Endpoint) -> Result<Arc<dyn Provider>, ProviderError> {
    Ok(match endpoint.wire {
        Wire::OpenaiChat => Arc::new(openai::OpenaiChat::new(endpoint)?),
        Wire::OpenaiResponses => Arc::new(responses::OpenaiResponses::new(endpoint)?),
        Wire::Anthropic => Arc::new(anthropic::Anthropic::new(endpoint)?),
        Wire::Scripted => {
            let script = Script::load(Path::new(&endpoint.base_url))
                .map_err(|error| ProviderError::new(ErrorClass::BadRequest, error.to_string()))?;
            Arc::new(Scripted::new(script))
        }
    })
}
