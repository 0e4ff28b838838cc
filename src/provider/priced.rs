//! What an answer cost, by the prices of its model.
//!
//! Never here: ceilings (`ledger`).

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::prices::Pricing;
use super::{Ask, Provider, ProviderError};
use crate::model::chat::{Delta, ModelReply, ModelRequest};

/// A provider whose answers say what they cost.
pub struct Priced {
    inner: Arc<dyn Provider>,
    pricing: Pricing,
}

impl Priced {
    /// Prices the answers of `inner`.
    pub fn new(inner: Arc<dyn Provider>, pricing: Pricing) -> Self {
        Self { inner, pricing }
    }
}

impl Ask for Priced {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let mut reply = self.inner.call(request, sink, cancel).await?;
        reply.usage.cost = self.pricing.cost(&request.model, &reply.usage);
        Ok(reply)
    }
}
