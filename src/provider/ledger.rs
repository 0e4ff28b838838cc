//! The budget of a run, and of each of its workers.
//!
//! Before a call the most that it can cost is set aside; afterwards what it did cost is written down.
//! Lanes, judges, synthesizer and side calls share one ledger, so that its ceilings are hard; each lane has
//! an account of its own beside it. A call that may have been charged without being counted keeps what
//! was set aside for it. A call that would fit but for others under way waits for them. Workers leave the
//! last tenth of a ceiling alone: their last summaries are paid from it (contract R27), and the judges.
//! Where a model has no known price, its tokens are what is kept: under a budget that needs a ceiling of
//! tokens, too. The prompt's tokens are bounded from its JSON's bytes: a token is at least a byte for
//! every tokenizer in use, and prose, code and JSON take more than two bytes a token on average. So digits
//! and bytes outside ASCII, of which some tokenizers make a token each, count whole, and every other byte
//! counts half.
//! Never here: the wire.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::account::{Amount, Ceiling, Fit, LedgerTotals};
use super::prices::Pricing;
use super::{Ask, ErrorClass, Provider, ProviderError};
use crate::model::chat::{Delta, ModelReply, ModelRequest, Purpose, ToolChoice};
use crate::model::{LaneId, MicroUsd, Usage};

/// The ceilings of a ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ceilings {
    /// Of the whole run.
    pub run: Ceiling,
    /// Of each worker. Its tokens are counted by the worker itself, which knows when the next call would be
    /// too much; here they stand in for a price that is not known, and bound what nobody counted.
    pub lane: Ceiling,
    /// Of those workers that have another one.
    pub own: BTreeMap<LaneId, Ceiling>,
}

impl Ceilings {
    /// The ceiling of the worker that pays for a call; none where it is no worker's.
    fn of(&self, payer: Option<&LaneId>) -> Ceiling {
        payer.map_or_else(Ceiling::default, |lane| *self.own.get(lane).unwrap_or(&self.lane))
    }
}

/// The ledger of a run; clones are the same ledger.
#[derive(Clone, Debug)]
pub struct Ledger(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ceilings: Ceilings,
    accounts: Mutex<Accounts>,
    settled: Notify,
}

#[derive(Debug, Default)]
struct Accounts {
    run: LedgerTotals,
    lanes: BTreeMap<LaneId, LedgerTotals>,
}

impl Accounts {
    /// The run's account, and that of the call's lane if it is a worker's.
    fn of(&mut self, payer: Option<&LaneId>) -> impl Iterator<Item = &mut LedgerTotals> {
        let lane = payer.map(|lane| self.lanes.entry(lane.clone()).or_default());
        std::iter::once(&mut self.run).chain(lane)
    }
}

/// Which account a ceiling belongs to.
#[derive(Clone, Copy)]
enum Whose {
    Run,
    Lane,
}

/// A ceiling of the whole run that a call did not fit under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunCeiling {
    /// That of money.
    Money,
    /// That of tokens.
    Tokens,
}

/// How the refusal of a ceiling begins. Journals hold it, and a resume reads it there.
const REFUSES_MONEY: &str = "the budget of ";
const REFUSES_TOKENS: &str = "the ceiling of ";

impl RunCeiling {
    /// The run's ceiling that refused a call, by the message of its [`ErrorClass::Budget`] error; `None`
    /// where it was a worker's own, or a price that is not known.
    pub fn of(message: &str) -> Option<Self> {
        match message {
            _ if message.starts_with(REFUSES_MONEY) => Some(Self::Money),
            _ if message.starts_with(REFUSES_TOKENS) => Some(Self::Tokens),
            _ => None,
        }
    }
}

impl Ledger {
    /// A ledger with hard ceilings.
    pub fn new(ceilings: Ceilings) -> Self {
        Self(Arc::new(Inner { ceilings, accounts: Mutex::default(), settled: Notify::new() }))
    }

    /// Counts a call that was made before this ledger was: of a run that goes on. Where it is not known what it used,
    /// the most that it may have is held, as it was then.
    ///
    /// # Errors
    /// That of `most`.
    pub fn restore<E>(
        &self,
        purpose: &Purpose,
        usage: Option<&Usage>,
        most: impl FnOnce() -> Result<Amount, E>,
    ) -> Result<(), E> {
        let (spent, held) = match usage {
            Some(usage) if usage.tokens() > 0 && !usage.cost.partly_unknown => {
                (Amount::of(usage), Amount::default())
            }
            Some(usage) => counted(usage, most()?),
            None => (Amount::default(), most()?),
        };
        self.lock().of(payer(purpose).as_ref()).for_each(|account| {
            account.spent.add(spent);
            account.held.add(held);
        });
        Ok(())
    }

    /// The most that a call can use; no money where its price is not known.
    pub fn most(pricing: &Pricing, request: &ModelRequest) -> Amount {
        let (money, tokens) = bound(pricing, request);
        Amount { money: money.unwrap_or_default(), tokens }
    }

    /// What it holds now.
    pub fn totals(&self) -> LedgerTotals {
        self.lock().run
    }

    /// Whether a call without a known price can be counted all the same, or under which budget it can't.
    fn counts_unpriced(&self, purpose: &Purpose) -> Result<(), Whose> {
        let run = self.0.ceilings.run;
        let lane = self.0.ceilings.of(payer(purpose).as_ref());
        if run.tokens.is_some() {
            return Ok(());
        }
        match (run.money, lane.money) {
            (Some(_), _) => Err(Whose::Run),
            (None, Some(_)) if lane.tokens.is_none() => Err(Whose::Lane),
            _ => Ok(()),
        }
    }

    /// Sets `most` aside, when need be after calls under way are settled.
    async fn reserve(
        &self,
        request: &ModelRequest,
        most: Amount,
    ) -> Result<Reservation, ProviderError> {
        loop {
            let settled = self.0.settled.notified();
            tokio::pin!(settled);
            settled.as_mut().enable();
            if let Some(reservation) = self.try_reserve(request, most)? {
                return Ok(reservation);
            }
            settled.await;
        }
    }

    /// `None` when it would fit once the calls under way cost less than they might.
    fn try_reserve(
        &self,
        request: &ModelRequest,
        most: Amount,
    ) -> Result<Option<Reservation>, ProviderError> {
        let payer = payer(&request.purpose);
        let payer = payer.as_ref();
        let lane = self.0.ceilings.of(payer);
        let bounds = [(Whose::Run, self.0.ceilings.run), (Whose::Lane, lane)];
        let is_work = payer.is_some() && request.tool_choice == ToolChoice::Auto;
        let mut accounts = self.lock();
        for (account, (whose, whole)) in accounts.of(payer).zip(bounds) {
            let ceiling = if is_work { whole.for_work() } else { whole };
            // A worker counts its own tokens, but for those of calls that nobody counted.
            let itself = matches!(whose, Whose::Lane) && account.held.tokens == 0;
            let ceiling = if itself { Ceiling { tokens: None, ..ceiling } } else { ceiling };
            match account.fit(most, ceiling) {
                Fit::Now => {}
                Fit::Later => return Ok(None),
                Fit::NoMoney => return Err(no_money(whose, whole, most, account)),
                Fit::NoTokens => return Err(no_tokens(whose, whole, most, account)),
            }
        }
        accounts.of(payer).for_each(|account| account.reserved.add(most));
        let payer = payer.cloned();
        Ok(Some(Reservation { ledger: self.clone(), payer, most, open: true }))
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        // Nothing in here can panic halfway, so that the sums are good even after a poisoning.
        self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The worker run that a call is counted for: what it handed on is its own affair.
fn payer(purpose: &Purpose) -> Option<LaneId> {
    match purpose {
        Purpose::Worker { lane, .. } => Some(lane.worker_run()),
        _ => None,
    }
}

fn no_money(whose: Whose, ceiling: Ceiling, most: Amount, account: &LedgerTotals) -> ProviderError {
    let (what, advice) = match whose {
        Whose::Run => (REFUSES_MONEY, "raise `--budget`"),
        // What a worker may use holds as long as its run does, also when that goes on.
        Whose::Lane => (
            "the worker's budget of ",
            "begin a new run with a higher `--lane-budget` or `budget_usd` of the lane",
        ),
    };
    let held = match account.held.money {
        MicroUsd(0) => String::new(),
        held => format!(", up to {held} of calls whose cost is not known"),
    };
    let message = format!(
        "{what}{} does not allow a call that may cost {}: {} are spent{held}; {advice}, or lower \
         the largest answer",
        ceiling.money.unwrap_or_default(),
        most.money,
        account.spent.money
    );
    ProviderError::new(ErrorClass::Budget, message)
}

fn no_tokens(
    whose: Whose,
    ceiling: Ceiling,
    most: Amount,
    account: &LedgerTotals,
) -> ProviderError {
    let (what, advice) = match whose {
        Whose::Run => (REFUSES_TOKENS, "raise `--max-tokens`"),
        Whose::Lane => (
            "the worker's ceiling of ",
            "begin a new run with a higher `--lane-tokens` or `max_tokens` of the lane",
        ),
    };
    let held = match account.held.tokens {
        0 => String::new(),
        held => format!(", up to {held} of calls that nobody counted"),
    };
    let message = format!(
        "{what}{} tokens does not allow a call that may use {}: {} are used{held}; {advice}, or lower the \
         largest answer",
        ceiling.tokens.unwrap_or_default(),
        most.tokens,
        account.spent.tokens
    );
    ProviderError::new(ErrorClass::Budget, message)
}

/// What is set aside for one call. Dropped without a word, it counts as possibly spent.
#[derive(Debug)]
struct Reservation {
    ledger: Ledger,
    payer: Option<LaneId>,
    most: Amount,
    open: bool,
}

impl Reservation {
    /// Writes down what was spent, and what may have been.
    fn settle(mut self, spent: Amount, held: Amount) {
        self.close(spent, held);
    }

    fn close(&mut self, spent: Amount, held: Amount) {
        if !std::mem::take(&mut self.open) {
            return;
        }
        let mut accounts = self.ledger.lock();
        accounts.of(self.payer.as_ref()).for_each(|account| {
            account.reserved.take(self.most);
            account.spent.add(spent);
            account.held.add(held);
        });
        drop(accounts);
        self.ledger.0.settled.notify_waiters();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.close(Amount::default(), self.most);
    }
}

/// A provider whose calls are counted in a ledger. It stands under the retries, so that every try is reserved by
/// itself, and above whatever prices and records them: a call that waits for its reservation has not begun.
pub struct Metered {
    inner: Arc<dyn Provider>,
    ledger: Ledger,
    pricing: Pricing,
}

impl Metered {
    /// Counts the calls of `inner` in `ledger`; these prices say what is to be set aside for them.
    pub fn new(inner: Arc<dyn Provider>, ledger: Ledger, pricing: Pricing) -> Self {
        Self { inner, ledger, pricing }
    }

    /// The most that a call can cost.
    fn most(&self, request: &ModelRequest) -> Result<Amount, ProviderError> {
        let (money, tokens) = bound(&self.pricing, request);
        if money.is_none() {
            self.ledger
                .counts_unpriced(&request.purpose)
                .map_err(|whose| self.price_unknown(&request.model, whose))?;
        }
        Ok(Amount { money: money.unwrap_or_default(), tokens })
    }

    fn price_unknown(&self, model: &str, whose: Whose) -> ProviderError {
        let name = self.pricing.provider();
        let (budget, tokens) = match whose {
            Whose::Run => ("--budget", "--max-tokens"),
            Whose::Lane => ("--lane-budget", "--lane-tokens"),
        };
        let message = format!(
            "the price of {model} is unknown, so that the budget can't be kept; state it in the \
             config under `[providers.{name}.prices]` as `\"{model}\" = {{ input = USD, output = \
             USD }}` per million tokens, set a ceiling of tokens with `{tokens}`, or run without `{budget}`"
        );
        ProviderError::new(ErrorClass::Budget, message)
    }
}

/// What an answer is known to have cost, and what it may have cost beyond that. A price that is not
/// known at all is nothing that can be held.
fn counted(usage: &Usage, most: Amount) -> (Amount, Amount) {
    let (mut spent, mut held) = (Amount::of(usage), Amount::default());
    if usage.cost.partly_unknown {
        (spent.money, held.money) = (MicroUsd(0), most.money);
    }
    if spent.tokens == 0 {
        held.tokens = most.tokens;
    }
    (spent, held)
}

impl Ask for Metered {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let most = self.most(request)?;
        let reservation = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled()),
            reservation = self.ledger.reserve(request, most) => reservation?,
        };
        let result = self.inner.call(request, sink, cancel).await;
        match &result {
            Ok(reply) => {
                let (spent, held) = counted(&reply.usage, most);
                reservation.settle(spent, held);
            }
            Err(error) if error.maybe_charged => reservation.settle(Amount::default(), most),
            Err(_) => reservation.settle(Amount::default(), Amount::default()),
        }
        result
    }
}

fn bound(pricing: &Pricing, request: &ModelRequest) -> (Option<MicroUsd>, u64) {
    let (input, output) = (prompt_tokens_bound(request), u64::from(request.max_output_tokens));
    (pricing.most(&request.model, input, output), input.saturating_add(output))
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

    use super::super::Priced;
    use super::super::prices::Price;
    use super::super::testing::{Fake, Played, bad, good, request};
    use super::*;

    /// A dollar per million tokens: a token costs a millionth of a dollar.
    fn priced(inner: Arc<dyn Provider>, ledger: Ledger, pricing: Pricing) -> Metered {
        let inner = Arc::new(Priced::new(inner, pricing.clone()));
        Metered::new(inner, ledger, pricing)
    }

    fn pricing() -> Pricing {
        let price = Price { input: 1.0, output: 1.0, cache_read: None, cache_write: None };
        Pricing::new("p").with_price("m", price)
    }

    async fn ask(metered: &Metered) -> Result<ModelReply, ProviderError> {
        put(metered, &judge()).await
    }

    async fn put(metered: &Metered, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
        metered.call(request, &mut |_| {}, &CancellationToken::new()).await
    }

    /// A request of no worker: nothing of a ceiling is kept from it.
    fn judge() -> ModelRequest {
        ModelRequest { purpose: Purpose::Synthesizer { attempt: 0 }, ..request() }
    }

    fn money(most: u64) -> Ledger {
        let run = Ceiling { money: Some(MicroUsd(most)), tokens: None };
        Ledger::new(Ceilings { run, ..Ceilings::default() })
    }

    fn tokens(most: u64) -> Ceiling {
        Ceiling { money: None, tokens: Some(most) }
    }

    /// The most that the test's request can cost.
    fn most() -> u64 {
        prompt_tokens_bound(&judge()) + 1000
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_is_reserved_then_settled_at_what_it_cost() {
        let ledger = money(2 * most());
        let seen = ledger.clone();
        let fake = Fake::new(move |_| {
            assert_eq!(seen.totals().reserved.money, MicroUsd(most()));
            good(30, 12)
        });
        let reply = ask(&priced(fake, ledger.clone(), pricing())).await.unwrap();
        assert_eq!(reply.usage.cost.known, MicroUsd(42));
        assert!(!reply.usage.cost.partly_unknown);
        let spent = Amount { money: MicroUsd(42), tokens: 42 };
        assert_eq!(ledger.totals(), LedgerTotals { spent, ..Default::default() });
    }

    #[tokio::test(start_paused = true)]
    async fn no_number_of_lanes_passes_the_ceiling_and_what_fits_is_not_refused() {
        // Every call costs all that it may, and the ceiling has room for five of twenty.
        let fake =
            Fake::new(|_| Played { takes: Duration::from_secs(1), ..good(most() - 1000, 1000) });
        let ledger = money(5 * most() + most() / 2);
        let metered = priced(fake.clone(), ledger.clone(), pricing());
        let results = join_all((0..20).map(|_| ask(&metered))).await;
        let good_ones = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!((good_ones, fake.asked().len()), (5, 5));
        let error = results.into_iter().find_map(Result::err).unwrap();
        assert_eq!(error.class, ErrorClass::Budget);
        assert!(error.message.contains("--budget"), "{error}");
        assert_eq!(ledger.totals().spent.money, MicroUsd(5 * most()));
        // Cheap calls all pass in the end, though not all could be reserved at once.
        let fake = Fake::new(|_| Played { takes: Duration::from_secs(1), ..good(1, 1) });
        let ledger = money(2 * most());
        let metered = priced(fake, ledger.clone(), pricing());
        let results = join_all((0..20).map(|_| ask(&metered))).await;
        assert!(results.iter().all(Result::is_ok));
        assert_eq!(ledger.totals().spent.money, MicroUsd(40));
    }

    #[tokio::test(start_paused = true)]
    async fn what_may_have_been_charged_stays_held() {
        let ledger = money(10 * most());
        let held = |ledger: &Ledger| ledger.totals().held.money.0 / most();
        let metered = |played: fn() -> Played| {
            priced(Fake::new(move |_| played()), ledger.clone(), pricing())
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
        assert_eq!(
            (held(&ledger), ledger.totals().reserved),
            (3, Amount::default()),
            "a dropped call"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_unknown_price_is_refused_under_a_budget_and_unknown_without() {
        let fake = Fake::new(|_| good(1, 1));
        let ledger = money(u64::MAX);
        let metered = priced(fake.clone(), ledger, Pricing::new("local"));
        let error = ask(&metered).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::Budget);
        assert!(error.message.contains("price of m is unknown"), "{error}");
        assert!(error.message.contains("providers.local.prices"), "{error}");
        assert!(fake.asked().is_empty());
        let metered = priced(fake, Ledger::new(Ceilings::default()), Pricing::new("local"));
        let cost = ask(&metered).await.unwrap().usage.cost;
        assert!(cost.partly_unknown, "{cost}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_ceiling_of_tokens_stands_in_for_a_price_that_is_not_known() {
        let fake = Fake::new(|_| good(most() - 1000, 1000));
        let run = Ceiling { money: Some(MicroUsd(1)), ..tokens(2 * most() + most() / 2) };
        let ledger = Ledger::new(Ceilings { run, ..Ceilings::default() });
        let metered = priced(fake.clone(), ledger.clone(), Pricing::new("local"));
        for _ in 0..2 {
            let cost = ask(&metered).await.unwrap().usage.cost;
            assert!(cost.partly_unknown, "it is unknown, and not 0: {cost}");
        }
        let error = ask(&metered).await.unwrap_err();
        assert_eq!((error.class, fake.asked().len()), (ErrorClass::Budget, 2));
        assert!(error.message.contains("--max-tokens"), "{error}");
        assert_eq!(ledger.totals().spent.tokens, 2 * most());
        // Answers that nobody counted keep all that they may have used.
        let run = tokens(2 * most());
        let ledger = Ledger::new(Ceilings { run, ..Ceilings::default() });
        let metered = priced(Fake::new(|_| good(0, 0)), ledger.clone(), pricing());
        ask(&metered).await.unwrap();
        assert_eq!(ledger.totals().held.tokens, most());
    }

    #[tokio::test(start_paused = true)]
    async fn each_worker_has_a_budget_of_its_own() {
        let fake = Fake::new(|_| good(most() - 1000, 1000));
        let lane = Ceiling { money: Some(MicroUsd(2 * most())), tokens: None };
        let ledger = Ledger::new(Ceilings { lane, ..Ceilings::default() });
        let metered = priced(fake, ledger.clone(), pricing());
        let of = |lane: &str| ModelRequest {
            purpose: Purpose::Worker { lane: LaneId::of(lane, 1), turn: 0 },
            ..request()
        };
        put(&metered, &of("fast")).await.unwrap();
        let error = put(&metered, &of("fast")).await.unwrap_err();
        assert!(error.message.contains("--lane-budget"), "{error}");
        put(&metered, &of("slow")).await.unwrap();
        put(&metered, &judge()).await.unwrap();
        let unpriced = priced(Fake::new(|_| good(1, 1)), ledger, Pricing::new("local"));
        let error = put(&unpriced, &of("fast")).await.unwrap_err();
        assert!(error.message.contains("--lane-tokens"), "{error}");
        put(&unpriced, &judge()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_worker_may_have_another_budget_and_shares_it_with_those_it_hands_work_to() {
        let fake = Fake::new(|_| good(most() - 1000, 1000));
        let times =
            |n: u64| Ceiling { money: Some(MicroUsd(n * most() + most() / 2)), tokens: None };
        let own = BTreeMap::from([(LaneId::of("rich", 1), times(3))]);
        let ledger = Ledger::new(Ceilings { lane: times(1), own, ..Ceilings::default() });
        let metered = priced(fake, ledger, pricing());
        let of =
            |lane: LaneId| ModelRequest { purpose: Purpose::Worker { lane, turn: 0 }, ..request() };
        for (lane, allowed) in [("rich", 3), ("poor", 1)] {
            let lane = LaneId::of(lane, 1);
            let asked = [lane.clone(), lane.nested(1), lane.nested(2), lane.nested(1).nested(1)];
            let mut paid = 0;
            for lane in asked {
                paid += u32::from(put(&metered, &of(lane)).await.is_ok());
            }
            assert_eq!(paid, allowed, "{lane}");
        }
    }

    // contract R27
    #[tokio::test(start_paused = true)]
    async fn a_workers_last_summary_is_paid_from_a_reserve() {
        let fake = Fake::new(|_| good(1, 1));
        let last = ModelRequest {
            tool_choice: ToolChoice::Forbidden,
            max_output_tokens: 100,
            ..request()
        };
        let summary = prompt_tokens_bound(&last) + 100;
        let most = prompt_tokens_bound(&request()) + 1000;
        for of_lane in [false, true] {
            let ceiling = Ceiling { money: Some(MicroUsd(most + most / 20)), tokens: None };
            let ledger = Ledger::new(match of_lane {
                true => Ceilings { lane: ceiling, ..Ceilings::default() },
                false => Ceilings { run: ceiling, ..Ceilings::default() },
            });
            let metered = priced(fake.clone(), ledger.clone(), pricing());
            assert!(summary < most);
            let error = put(&metered, &request()).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::Budget, "work leaves the reserve alone");
            put(&metered, &last).await.unwrap();
            assert_eq!(ledger.totals().spent.money, MicroUsd(2));
        }
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
        let metered = priced(fake, money(most()), pricing());
        let cancel = CancellationToken::new();
        let (asking, mut ignore) = (judge(), |_| {});
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
