//! Asking again, when that can help.
//!
//! By the error's class, with growing waits and jitter, never shorter than the server asked for, within
//! a number of tries and a sum of waits. A try that may have been charged marks the reply's cost as
//! partly unknown. Never here: the wire, money.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::rate::{Passed, RateGate};
use super::{Ask, ErrorClass, Provider, ProviderError};
use crate::model::chat::{Delta, ModelReply, ModelRequest, Purpose};

/// How often and how long to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most tries of one call, the first included. Broken connections and answers get at most 3
    /// of them, passed deadlines at most 2.
    pub max_tries: u32,
    /// The first wait; each further one is twice as long, plus up to as much again by chance.
    pub first_wait: Duration,
    /// The longest wait that is not asked for by the server.
    pub longest_wait: Duration,
    /// The most time that one call may spend waiting, the server's own wishes included.
    pub total_wait: Duration,
    /// The seed of the chance in waits, which differ from question to question all the same; `None`
    /// draws one.
    pub seed: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_tries: 6,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            total_wait: Duration::from_secs(300),
            seed: None,
        }
    }
}

impl RetryPolicy {
    fn tries(&self, class: ErrorClass) -> u32 {
        match class {
            ErrorClass::Timeout => self.max_tries.min(2),
            ErrorClass::Unreachable | ErrorClass::Protocol => self.max_tries.min(3),
            class if class.is_retryable() => self.max_tries,
            _ => 1,
        }
    }

    fn waits(&self, purpose: &Purpose) -> impl Iterator<Item = Duration> + Send + use<> {
        let builder = ExponentialBuilder::new()
            .with_min_delay(self.first_wait)
            .with_max_delay(self.longest_wait)
            .without_max_times()
            .with_jitter();
        match self.seed {
            Some(seed) => builder.with_jitter_seed(mixed(seed, purpose)).build(),
            None => builder.build(),
        }
    }
}

/// A seed of this question's own, so that lanes with one seed don't wait in step.
fn mixed(seed: u64, purpose: &Purpose) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, format!("{purpose:?}")).hash(&mut hasher);
    hasher.finish()
}

/// A provider that asks again. All lanes of an endpoint must share one, or at least its gate.
pub struct Retrying {
    inner: Arc<dyn Provider>,
    policy: RetryPolicy,
    gate: RateGate,
}

/// What one call has been through.
struct Tried {
    tries: u32,
    waited: Duration,
    charged: bool,
    begun: Instant,
}

impl Retrying {
    /// Asks `inner` again under `policy`, with a rate gate of its own.
    pub fn new(inner: Arc<dyn Provider>, policy: RetryPolicy) -> Self {
        Self::with_gate(inner, policy, RateGate::default())
    }

    /// The same with a gate that other providers of the same endpoint share.
    pub fn with_gate(inner: Arc<dyn Provider>, policy: RetryPolicy, gate: RateGate) -> Self {
        Self { inner, policy, gate }
    }

    /// Waits at the gate, but not longer than the policy allows.
    async fn pass(
        &self,
        tried: &mut Tried,
        cancel: &CancellationToken,
    ) -> Result<Passed, ProviderError> {
        let left = self.policy.total_wait.saturating_sub(tried.waited);
        let begun = Instant::now();
        let passed = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled().charged(tried.charged)),
            passed = self.gate.pass(begun + left) => passed,
        };
        tried.waited += begun.elapsed();
        passed.ok_or_else(|| {
            let message = "the server asks everybody to wait for longer than a call may wait; \
                           lower `--max-parallel` or try again later";
            ProviderError::new(ErrorClass::RateLimited, message).charged(tried.charged)
        })
    }

    /// Whether to ask again; the reason when not.
    fn may_go_on(
        &self,
        error: &ProviderError,
        wait: Duration,
        tried: &Tried,
    ) -> Result<(), Option<String>> {
        if !error.class.is_retryable() {
            return Err(None);
        }
        if tried.waited + wait > self.policy.total_wait {
            return Err(Some(format!("waiting {wait:.1?} more would be too long")));
        }
        if tried.tries >= self.policy.tries(error.class) {
            return Err(Some("that was the last try".to_owned()));
        }
        Ok(())
    }
}

impl Ask for Retrying {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let mut waits = self.policy.waits(&request.purpose);
        let begun = Instant::now();
        let mut tried = Tried { tries: 0, waited: Duration::ZERO, charged: false, begun };
        loop {
            let mut passed = self.pass(&mut tried, cancel).await?;
            tried.tries += 1;
            let mut shown = false;
            let mut opening = |delta| {
                passed.open();
                shown = true;
                sink(delta);
            };
            let error = match self.inner.call(request, &mut opening, cancel).await {
                Ok(mut reply) => {
                    passed.open();
                    reply.usage.cost.partly_unknown |= tried.charged;
                    return Ok(reply);
                }
                Err(error) => error,
            };
            tried.charged |= error.maybe_charged;
            let own = waits.next().unwrap_or(self.policy.longest_wait);
            // Never shorter than asked for, and a little longer by chance.
            let asked = error.retry_after.filter(|asked| !asked.is_zero());
            let wait = asked.map_or(own, |asked| asked.max(own.min(asked * 2)));
            settle(passed, &error, wait);
            if let Err(why) = self.may_go_on(&error, wait, &tried) {
                return Err(tried.describe(error, why));
            }
            tracing::info!(class = error.class.name(), ?wait, "asking again: {}", error.message);
            if shown {
                sink(Delta::Restarted);
            }
            tried.waited += wait;
            pause(wait, cancel).await.map_err(|error| error.charged(tried.charged))?;
        }
    }
}

impl Tried {
    fn describe(&self, mut error: ProviderError, why: Option<String>) -> ProviderError {
        if let Some(why) = why {
            let (tries, seconds) = (self.tries, self.begun.elapsed().as_secs_f64());
            let times = if tries == 1 { "once" } else { "times" };
            let tries = if tries == 1 { String::new() } else { format!("{tries} ") };
            error.message =
                format!("{} (asked {tries}{times} in {seconds:.1} s; {why})", error.message);
            error.kept = false;
        }
        error.charged(self.charged)
    }
}

/// Tells the gate how the try ended.
fn settle(mut passed: Passed, error: &ProviderError, wait: Duration) {
    let asked_to_wait = error.class == ErrorClass::RateLimited
        || (error.class == ErrorClass::Overloaded && error.retry_after.is_some());
    if asked_to_wait {
        passed.shut(wait);
    } else if !error.class.is_retryable() && error.class != ErrorClass::Cancelled {
        // An answer of another kind: the rate is not what is wrong.
        passed.open();
    }
}

async fn pause(wait: Duration, cancel: &CancellationToken) -> Result<(), ProviderError> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(ProviderError::cancelled()),
        () = sleep(wait) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::super::testing::{Fake, Played, bad, good, request};
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy { seed: Some(7), ..RetryPolicy::default() }
    }

    async fn ask(provider: &Retrying) -> Result<ModelReply, ProviderError> {
        provider.call(&request(), &mut |_| {}, &CancellationToken::new()).await
    }

    fn limited(wait: Duration) -> Played {
        let mut played = bad(ErrorClass::RateLimited);
        if let Err(error) = &mut played.result {
            error.retry_after = Some(wait);
        }
        played
    }

    #[tokio::test(start_paused = true)]
    async fn tries_follow_the_class() {
        for class in ErrorClass::ALL {
            let fake = Fake::new(move |_| bad(class));
            let error = ask(&Retrying::new(fake.clone(), policy())).await.unwrap_err();
            let tries = match class {
                ErrorClass::RateLimited | ErrorClass::Overloaded => 6,
                ErrorClass::Unreachable | ErrorClass::Protocol => 3,
                ErrorClass::Timeout => 2,
                _ => 1,
            };
            assert_eq!(fake.asked().len(), tries, "{class:?}");
            assert_eq!(error.message.contains("asked"), tries > 1, "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_with_jitter_and_a_seed_repeats_them() {
        let mut runs = Vec::new();
        for seed in [7, 7, 8] {
            let fake = Fake::new(|_| bad(ErrorClass::Overloaded));
            let policy = RetryPolicy { seed: Some(seed), ..policy() };
            ask(&Retrying::new(fake.clone(), policy)).await.unwrap_err();
            let asked = fake.asked();
            for (nth, pair) in asked.windows(2).enumerate() {
                let wait = pair[1] - pair[0];
                let least = Duration::from_millis(500 << nth);
                assert!(wait >= least && wait <= least * 2, "{nth}: {wait:?}");
            }
            runs.push(asked);
        }
        assert_eq!(runs[0], runs[1]);
        assert_ne!(runs[0], runs[2]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_servers_wait_is_kept_or_the_call_given_up_at_once() {
        let asked = Duration::from_secs(70);
        let fake = Fake::new(move |nth| if nth == 0 { limited(asked) } else { good(1, 1) });
        ask(&Retrying::new(fake.clone(), policy())).await.unwrap();
        assert!(fake.asked()[1] >= asked && fake.asked()[1] < asked * 2);
        // Longer than a call may wait: nobody waits for nothing.
        let fake = Fake::new(|_| limited(Duration::from_secs(3600)));
        let provider = Retrying::new(fake.clone(), policy());
        let begun = Instant::now();
        for _ in 0..2 {
            let error = ask(&provider).await.unwrap_err();
            assert_eq!(error.class, ErrorClass::RateLimited);
        }
        assert_eq!((begun.elapsed(), fake.asked().len()), (Duration::ZERO, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_begun_try_is_told_as_possibly_charged() {
        let broken = || {
            let mut played = bad(ErrorClass::Protocol);
            played.result = played.result.map_err(|error| error.charged(true));
            played
        };
        let fake = Fake::new(move |nth| if nth == 0 { broken() } else { good(1, 1) });
        let provider = Retrying::new(fake, policy());
        assert!(ask(&provider).await.unwrap().usage.cost.partly_unknown);
        let fake =
            Fake::new(move |nth| if nth == 0 { broken() } else { bad(ErrorClass::Unreachable) });
        assert!(ask(&Retrying::new(fake, policy())).await.unwrap_err().maybe_charged);
    }

    #[tokio::test(start_paused = true)]
    async fn who_watches_is_told_that_an_answer_begins_anew() {
        let fake = Fake::new(|nth| match nth {
            0 => Played { pieces: 2, ..bad(ErrorClass::Protocol) },
            1 => bad(ErrorClass::Overloaded),
            _ => good(1, 1),
        });
        let mut seen = Vec::new();
        let (provider, cancel) = (Retrying::new(fake, policy()), CancellationToken::new());
        provider.call(&request(), &mut |delta| seen.push(delta), &cancel).await.unwrap();
        let text = || Delta::Text("x".into());
        assert_eq!(seen, [text(), text(), Delta::Restarted, text()]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_waits_and_all_wait_and_one_goes_first() {
        // Two refusals, then good answers that take a second and begin at once.
        let fake = Fake::new(|nth| match nth {
            0 | 1 => limited(Duration::from_secs(10)),
            _ => Played { takes: Duration::from_secs(1), ..good(1, 1) },
        });
        let provider = Retrying::new(fake.clone(), policy());
        let lanes = (0..20).map(|_| ask(&provider));
        let first = async {
            ask(&provider).await.unwrap();
        };
        let others = async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert!(join_all(lanes).await.iter().all(Result::is_ok));
        };
        tokio::join!(first, others);
        let asked: Vec<_> = fake.asked().iter().map(Duration::as_secs_f64).collect();
        assert_eq!(asked.len(), 2 + 21, "nobody is refused but the probes");
        assert_eq!(asked[0], 0.0);
        assert!(asked[1] >= 10.0, "{asked:?}");
        assert!(asked[2] >= asked[1] + 10.0, "{asked:?}");
        assert!(asked[22] - asked[2] < 0.1, "the rest follow once it has begun: {asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_probe_gives_its_place_to_the_next() {
        let fake = Fake::new(|nth| match nth {
            0 => limited(Duration::from_secs(1)),
            1 => Played { pieces: 0, takes: Duration::from_secs(1000), ..good(1, 1) },
            _ => good(1, 1),
        });
        let provider = Retrying::new(fake.clone(), policy());
        let cancel = CancellationToken::new();
        let asking = request();
        let mut ignore = |_| {};
        let first = provider.call(&asking, &mut ignore, &cancel);
        let second = async {
            while fake.asked().len() < 2 {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let waiting = ask(&provider);
            let stop = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                cancel.cancel();
            };
            tokio::join!(waiting, stop).0
        };
        let (first, second) = tokio::join!(first, second);
        assert_eq!(first.unwrap_err().class, ErrorClass::Cancelled);
        assert!(second.is_ok());
        assert!(fake.asked()[2] < Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn cancelling_ends_a_wait() {
        let fake = Fake::new(|_| bad(ErrorClass::Overloaded));
        let provider = Retrying::new(fake.clone(), policy());
        let cancel = CancellationToken::new();
        let (asking, mut ignore) = (request(), |_| {});
        let call = provider.call(&asking, &mut ignore, &cancel);
        let stop = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            cancel.cancel();
        };
        let begun = Instant::now();
        let (result, ()) = tokio::join!(call, stop);
        assert_eq!(result.unwrap_err().class, ErrorClass::Cancelled);
        assert!(begun.elapsed() < Duration::from_millis(200));
    }
}
