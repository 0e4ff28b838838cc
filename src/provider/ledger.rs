//! The budget of a run.
//!
//! Before a call the most that it can cost is set aside; afterwards what it did cost is written down.
//! Lanes, judges and synthesizer share one ledger, so that its ceiling is hard. A call that may have
//! been charged without being counted keeps what was set aside for it. A call that would fit but for
//! others under way waits for them. The prompt's tokens are bounded from its JSON's bytes: a token is at
//! least a byte for every tokenizer in use, and prose, code and JSON take more than two bytes a token on
//! average. So digits and bytes outside ASCII, of which some tokenizers make a token each, count whole,
//! and every other byte counts half.
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

    /// Counts what calls cost that were made before this ledger was: those of a run that goes on.
    pub fn restore(&self, spent: MicroUsd) {
        let mut totals = self.lock();
        totals.spent.0 = totals.spent.0.saturating_add(spent.0);
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

/// The most tokens that a request's prompt is taken to have.
pub(super) fn prompt_tokens_bound(request: &ModelRequest) -> u64 {
    let mut halves = HalfTokens(0);
    // Counting can't fail: nothing is written anywhere.
    serde_json::to_writer(&mut halves, request).ok();
    halves.0.div_ceil(2)
}

struct HalfTokens(u64);

impl io::Write for HalfTokens {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let whole = bytes.iter().filter(|byte| byte.is_ascii_digit() || !byte.is_ascii()).count();
        self.0 += (bytes.len() + whole) as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::future::join_all;

    use super::super::prices::Price;
    use super::super::testing::{Fake, Played, bad, good, request};
    use super::*;

    /// A dollar per million tokens: a token costs a millionth of a dollar.
    fn pricing() -> Pricing {
        let price = Price { input: 1.0, output: 1.0, cache_read: None, cache_write: None };
        Pricing::new("p").with_price("m", price)
    }

    async fn ask(metered: &Metered) -> Result<ModelReply, ProviderError> {
        metered.call(&request(), &mut |_| {}, &CancellationToken::new()).await
    }

    /// The most that the test's request can cost.
    fn most() -> u64 {
        prompt_tokens_bound(&request()) + 1000
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_reserved_then_settled_at_what_it_cost() {
        let ledger = Ledger::new(Some(MicroUsd(2 * most())));
        let seen = ledger.clone();
        let fake = Fake::new(move |_| {
            assert_eq!(seen.totals().reserved, MicroUsd(most()));
            good(30, 12)
        });
        let reply = ask(&Metered::new(fake, ledger.clone(), pricing())).await.unwrap();
        assert_eq!(reply.usage.cost.known, MicroUsd(42));
        assert!(!reply.usage.cost.partly_unknown);
        assert_eq!(ledger.totals(), LedgerTotals { spent: MicroUsd(42), ..Default::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_lanes_passes_the_ceiling_and_what_fits_is_not_refused() {
        // Every call costs all that it may, and the ceiling has room for five of twenty.
        let fake =
            Fake::new(|_| Played { takes: Duration::from_secs(1), ..good(most() - 1000, 1000) });
        let ledger = Ledger::new(Some(MicroUsd(5 * most() + most() / 2)));
        let metered = Metered::new(fake.clone(), ledger.clone(), pricing());
        let results = join_all((0..20).map(|_| ask(&metered))).await;
        let good_ones = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!((good_ones, fake.asked().len()), (5, 5));
        let error = results.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.class, ErrorClass::Budget);
        assert!(error.message.contains("--budget"), "{error}");
        assert_eq!(ledger.totals().spent, MicroUsd(5 * most()));
        // Cheap calls all pass in the end, though not all could be reserved at once.
        let fake = Fake::new(|_| Played { takes: Duration::from_secs(1), ..good(1, 1) });
        let ledger = Ledger::new(Some(MicroUsd(2 * most())));
        let metered = Metered::new(fake, ledger.clone(), pricing());
        let results = join_all((0..20).map(|_| ask(&metered))).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(ledger.totals().spent, MicroUsd(40));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_charged_stays_held() {
        let ledger = Ledger::new(Some(MicroUsd(10 * most())));
        let held = |ledger: &Ledger| ledger.totals().held.0 / most();
        let metered = |played: fn() -> Played| {
            Metered::new(Fake::new(move |_| played()), ledger.clone(), pricing())
        };
        ask(&metered(|| bad(ErrorClass::RateLimited))).await.unwrap_err();
        assert_eq!(held(&ledger), 0, "a refusal costs nothing");
        let broken = || {
            let mut played = bad(ErrorClass::Protocol);
            played.result = played.result.map_err(|error| error.charged(true));
            played
        };
        ask(&metered(broken)).await.unwrap_err();
        assert_eq!(held(&ledger), 1);
        let uncounted = ask(&metered(|| good(0, 0))).await.unwrap();
        assert!(uncounted.usage.cost.partly_unknown);
        assert_eq!(held(&ledger), 2, "an answer that nobody counted");
        let never = metered(|| Played { takes: Duration::from_secs(9999), ..good(1, 1) });
        let dropped = tokio::time::timeout(Duration::from_secs(1), ask(&never)).await;
        assert!(dropped.is_err());
        assert_eq!((held(&ledger), ledger.totals().reserved), (3, MicroUsd(0)), "a dropped call");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_price_is_refused_under_a_budget_and_unknown_without() {
        let fake = Fake::new(|_| good(1, 1));
        let ledger = Ledger::new(Some(MicroUsd(u64::MAX)));
        let metered = Metered::new(fake.clone(), ledger, Pricing::new("local"));
        let error = ask(&metered).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Budget);
        assert!(error.message.contains("price of m is unknown"), "{error}");
        assert!(error.message.contains("providers.local.prices"), "{error}");
        assert!(fake.asked().is_empty());
        let metered = Metered::new(fake, Ledger::new(None), Pricing::new("local"));
        let cost = ask(&metered).await.unwrap().usage.cost;
        assert!(cost.partly_unknown, "{cost}");
    }

    #[test]
    fn a_prompts_bound_counts_digits_and_rare_scripts_whole() {
        let bound = |text: &str| {
            let mut request = request();
            request.messages.push(crate::model::chat::Message::user(text));
            prompt_tokens_bound(&request)
        };
        let empty = bound("");
        assert_eq!(bound(&"word".repeat(100)) - empty, 200);
        assert_eq!(bound(&"1234".repeat(100)) - empty, 400);
        assert_eq!(bound(&"漢字".repeat(100)) - empty, 600);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_money_can_be_cancelled() {
        let fake = Fake::new(|_| Played { takes: Duration::from_secs(60), ..good(1, 1) });
        let metered = Metered::new(fake, Ledger::new(Some(MicroUsd(most()))), pricing());
        let cancel = CancellationToken::new();
        let (asking, mut ignore) = (request(), |_| {});
        let waiting = metered.call(&asking, &mut ignore, &cancel);
        let stop = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            cancel.cancel();
        };
        let (first, second, ()) = tokio::join!(ask(&metered), waiting, stop);
        assert!(first.is_ok());
        let error = second.unwrap_err();
        assert_eq!((error.class, error.maybe_charged), (ErrorClass::Cancelled, false));
    }
}
