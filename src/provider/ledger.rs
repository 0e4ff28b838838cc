//! The budget of a run.
//!
//! Before a call the most that it can cost is set aside; afterwards what it did cost is written down.
//! Lanes, judges and synthesizer share one ledger, so that its ceiling is hard. A call that may have
//! been charged without being counted keeps what was set aside for it. A call that would fit but for
//! others under way waits for them. The prompt's tokens are bounded by half its JSON's bytes: no
//! tokenizer in use makes more than one token of two bytes of prose, code or JSON on average (single
//! characters of rare scripts can, so that such a prompt may pass the ceiling by its own excess).
//! Never here: the wire.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::{BoxFuture, FutureExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::prices::Pricing;
use super::{ErrorClass, Provider, ProviderError};
use crate::model::MicroUsd;
use crate::model::chat::{Delta, ModelReply, ModelRequest};

/// What a ledger holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerTotals {
    /// What calls cost.
    pub spent: MicroUsd,
    /// The most that calls can have cost whose cost is not known: broken off, or not counted.
    pub held: MicroUsd,
    /// The most that calls under way can cost.
    pub reserved: MicroUsd,
}

/// The ledger of a run; clones are the same ledger.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ceiling: Option<MicroUsd>,
    totals: Mutex<LedgerTotals>,
    settled: Notify,
}

impl Ledger {
    /// A ledger with a hard ceiling, or with none.
    pub fn new(ceiling: Option<MicroUsd>) -> Self {
        let totals = Mutex::new(LedgerTotals::default());
        Self(Arc::new(Inner { ceiling, totals, settled: Notify::new() }))
    }

    /// The ceiling.
    pub fn ceiling(&self) -> Option<MicroUsd> {
        self.0.ceiling
    }

    /// What it holds now.
    pub fn totals(&self) -> LedgerTotals {
        *self.lock()
    }

    /// Sets `most` aside, when need be after calls under way are settled.
    async fn reserve(&self, most: MicroUsd) -> Result<Reservation, ProviderError> {
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if let Some(reservation) = self.try_reserve(most)? {
                return Ok(reservation);
            }
            settled.await;
        }
    }

    /// `None` when it would fit once the calls under way cost less than they might.
    fn try_reserve(&self, most: MicroUsd) -> Result<Option<Reservation>, ProviderError> {
        let mut totals = self.lock();
        if let Some(ceiling) = self.0.ceiling {
            let gone = totals.spent.0.saturating_add(totals.held.0).saturating_add(most.0);
            if gone > ceiling.0 {
                return Err(exhausted(ceiling, most, &totals));
            }
            if gone.saturating_add(totals.reserved.0) > ceiling.0 {
                return Ok(None);
            }
        }
        totals.reserved.0 = totals.reserved.0.saturating_add(most.0);
        Ok(Some(Reservation { ledger: self.clone(), most, open: true }))
    }

    fn lock(&self) -> MutexGuard<'_, LedgerTotals> {
        // Nothing in here can panic halfway, so that the sums are good even after a poisoning.
        self.0.totals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn exhausted(ceiling: MicroUsd, most: MicroUsd, totals: &LedgerTotals) -> ProviderError {
    let held = match totals.held {
        MicroUsd(0) => String::new(),
        held => format!(", up to {held} of calls whose cost is not known"),
    };
    let message = format!(
        "the budget of {ceiling} does not allow a call that may cost {most}: {} are spent{held}; \
         raise `--budget` or lower the largest answer",
        totals.spent
    );
    ProviderError::new(ErrorClass::Budget, message)
}

/// Money set aside for one call. Dropped without a word, it counts as possibly spent.
#[derive(Debug)]
struct Reservation {
    ledger: Ledger,
    most: MicroUsd,
    open: bool,
}

impl Reservation {
    fn settle(mut self, write: impl FnOnce(&mut LedgerTotals, MicroUsd)) {
        self.close(write);
    }

    fn close(&mut self, write: impl FnOnce(&mut LedgerTotals, MicroUsd)) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let mut totals = self.ledger.lock();
        totals.reserved.0 = totals.reserved.0.saturating_sub(self.most.0);
        write(&mut totals, self.most);
        drop(totals);
        self.ledger.0.settled.notify_waiters();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.close(hold);
    }
}

fn hold(totals: &mut LedgerTotals, most: MicroUsd) {
    totals.held.0 = totals.held.0.saturating_add(most.0);
}

/// A provider whose calls are priced and counted in a ledger. It stands under the retries, so that
/// every try is reserved by itself.
pub struct Metered {
    inner: Arc<dyn Provider>,
    ledger: Ledger,
    pricing: Pricing,
}

impl Metered {
    /// Counts the calls of `inner` in `ledger` at these prices.
    pub fn new(inner: Arc<dyn Provider>, ledger: Ledger, pricing: Pricing) -> Self {
        Self { inner, ledger, pricing }
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let output = u64::from(request.max_output_tokens);
        let most = self.pricing.most(&request.model, prompt_tokens_bound(request), output);
        if most.is_none() && self.ledger.ceiling().is_some() {
            return Err(self.price_unknown(&request.model));
        }
        let reservation = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled()),
            reservation = self.ledger.reserve(most.unwrap_or_default()) => reservation?,
        };
        let mut result = self.inner.call(request, sink, cancel).await;
        match &mut result {
            Ok(reply) => {
                reply.usage.cost = self.pricing.cost(&request.model, &reply.usage);
                let cost = reply.usage.cost;
                reservation.settle(|totals, most| match cost.partly_unknown {
                    true => hold(totals, most),
                    false => totals.spent.0 = totals.spent.0.saturating_add(cost.known.0),
                });
            }
            Err(error) if error.maybe_charged => reservation.settle(hold),
            Err(_) => reservation.settle(|_, _| {}),
        }
        result
    }

    fn price_unknown(&self, model: &str) -> ProviderError {
        let name = self.pricing.provider();
        let message = format!(
            "the price of {model} is unknown, so that the budget can't be kept; state it in the \
             config under `[providers.{name}.prices]` as `\"{model}\" = {{ input = USD, output = \
             USD }}` per million tokens, or run without `--budget`"
        );
        ProviderError::new(ErrorClass::Budget, message)
    }
}

impl Provider for Metered {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<ModelReply, ProviderError>> {
        self.ask(request, sink, cancel).boxed()
    }
}

/// The most tokens that a request's prompt is taken to have: half of its JSON's bytes.
pub(super) fn prompt_tokens_bound(request: &ModelRequest) -> u64 {
    let mut bytes = Counter(0);
    // Counting can't fail: nothing is written anywhere.
    serde_json::to_writer(&mut bytes, request).ok();
    bytes.0.div_ceil(2)
}

struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
