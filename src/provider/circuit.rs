//! The circuit of one endpoint: when call after call finds nobody who answers, nobody is asked for a while.
//!
//! It stands above the retries, so that what counts is a call that failed after all of its tries. While
//! it is open, new conversations are refused at once (a lane can go to its fallback), and one that has
//! answers to lose waits once for the next probe. After a rest one call goes first; its outcome closes
//! the circuit or opens it again. What the server said last is part of every refusal. Never here: rate
//! limits (`rate` waits for those), the wire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::{Ask, ErrorClass, Provider, ProviderError};
use crate::model::chat::{Delta, ModelReply, ModelRequest, Role};

/// When an endpoint counts as dead, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CircuitPolicy {
    /// Calls in a row, of whatever lanes, that found nobody who answers.
    pub failures: u32,
    /// How long nobody asks then.
    pub rest: Duration,
}

impl Default for CircuitPolicy {
    fn default() -> Self {
        Self { failures: 3, rest: Duration::from_secs(30) }
    }
}

/// What is known of an endpoint's life; clones are the same one. All providers of an endpoint must share it.
#[derive(Clone, Debug, Default)]
pub struct Breaker(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Notify,
}

/// A provider whose calls go through a circuit.
pub struct Circuit {
    name: String,
    inner: Arc<dyn Provider>,
    policy: CircuitPolicy,
    breaker: Breaker,
}

#[derive(Debug, Default)]
struct State {
    /// Failures in a row.
    failures: u32,
    /// What the last of them said.
    last: Option<(ErrorClass, String)>,
    /// The end of the rest; `None` while the circuit is closed.
    until: Option<Instant>,
    probing: bool,
}

enum Step {
    Go { probe: bool },
    Rest(Instant),
    Wait,
}

impl Circuit {
    /// A circuit around the calls of `inner`, which is told as `name`, with what others know of its endpoint.
    pub fn new(
        name: impl Into<String>,
        inner: Arc<dyn Provider>,
        policy: CircuitPolicy,
        breaker: Breaker,
    ) -> Self {
        Self { name: name.into(), inner, policy, breaker }
    }

    /// Waits until this request may go, or says why it may not.
    async fn pass(&self, request: &ModelRequest) -> Result<Passed<'_>, ProviderError> {
        // A conversation with answers has something to lose.
        let begun = request.messages.iter().any(|message| message.role == Role::Assistant);
        let mut rested = false;
        loop {
            // Registered before the state is read, so that no change is missed.
            let changed = self.breaker.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            match self.step() {
                Step::Go { probe } => return Ok(Passed { circuit: self, probe, closed: false }),
                Step::Rest(until) if begun && !rested => {
                    rested = true;
                    tokio::select! {
                        () = sleep_until(until) => {}
                        () = changed => {}
                    }
                }
                Step::Wait if begun => {
                    rested = true;
                    changed.await;
                }
                Step::Rest(_) | Step::Wait => return Err(self.refusal()),
            }
        }
    }

    fn step(&self) -> Step {
        let mut state = self.state();
        match state.until {
            None => Step::Go { probe: false },
            Some(_) if state.probing => Step::Wait,
            Some(until) if Instant::now() < until => Step::Rest(until),
            Some(_) => {
                state.probing = true;
                Step::Go { probe: true }
            }
        }
    }

    /// The error of a call that is not made. It has the class of what the server said last.
    fn refusal(&self) -> ProviderError {
        let state = self.state();
        let (class, said) = state.last.clone().unwrap_or((ErrorClass::Unreachable, String::new()));
        let left = state.until.map(|until| until.saturating_duration_since(Instant::now()));
        let again = match left.map(|left| left.as_secs_f64().ceil()) {
            Some(seconds) if seconds > 0.0 => format!("in {seconds} s"),
            _ => "now".to_owned(),
        };
        let message = format!(
            "{} was not asked: {} calls in a row got no answer, and one goes ahead again {again}; the \
             last one: {said}",
            self.name, state.failures
        );
        ProviderError::new(class, message)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.breaker.0.changed.notify_waiters();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic halfway, so that the state is good even after a poisoning.
        self.breaker.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nobody answers: no connection, no word in time, or a server that can't serve.
fn is_dead(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Unreachable | ErrorClass::Timeout | ErrorClass::Overloaded)
}

/// The right to ask once. A probe that is dropped without a word gives its place to the next one.
struct Passed<'a> {
    circuit: &'a Circuit,
    probe: bool,
    closed: bool,
}

impl Passed<'_> {
    /// The server has begun to answer. Later calls do nothing.
    fn answered(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.probe = false;
            self.circuit.change(|state| *state = State::default());
        }
    }

    fn failed(&mut self, error: &ProviderError) {
        let policy = self.circuit.policy;
        let probe = std::mem::take(&mut self.probe);
        self.circuit.change(|state| {
            state.failures = state.failures.saturating_add(1);
            state.last = Some((error.class, error.message.clone()));
            state.probing &= !probe;
            // Calls that were under way when it opened don't prolong the rest.
            if probe || state.until.is_none() && state.failures >= policy.failures {
                state.until = Some(Instant::now() + policy.rest);
                tracing::warn!(failures = state.failures, "a provider counts as dead: {error}");
            }
        });
    }
}

impl Drop for Passed<'_> {
    fn drop(&mut self) {
        if self.probe {
            self.circuit.change(|state| state.probing = false);
        }
    }
}

impl Ask for Circuit {
    async fn ask(
        &self,
        request: &ModelRequest,
        sink: &mut (dyn FnMut(Delta) + Send),
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ProviderError> {
        let mut probe = tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(ProviderError::cancelled()),
            passed = self.pass(request) => passed?,
        };
        let mut opening = |delta| {
            probe.answered();
            sink(delta);
        };
        let result = self.inner.call(request, &mut opening, cancel).await;
        match &result {
            Err(error) if is_dead(error.class) => probe.failed(error),
            Err(error) if matches!(error.class, ErrorClass::Cancelled | ErrorClass::Budget) => {}
            // Any other word of the server is a sign of life.
            _ => probe.answered(),
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::super::testing::{Fake, Played, bad, good, request};
    use super::*;
    use crate::model::chat::{Block, Message};

    const REST: Duration = Duration::from_secs(30);

    fn circuit(inner: Arc<dyn Provider>) -> Circuit {
        Circuit::new("test", inner, CircuitPolicy::default(), Breaker::default())
    }

    async fn ask(circuit: &Circuit, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
        circuit.call(request, &mut |_| {}, &CancellationToken::new()).await
    }

    fn unasked(error: &ProviderError) -> bool {
        error.message.contains("was not asked")
    }

    /// A conversation that has an answer to lose.
    fn begun() -> ModelRequest {
        let mut request = request();
        let blocks = vec![Block::text("x")];
        request.messages.push(Message { role: Role::Assistant, blocks });
        request
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_calls_in_a_row_that_found_nobody_and_says_what_was_said() {
        for class in ErrorClass::ALL {
            let fake = Fake::new(move |_| bad(class));
            let circuit = circuit(fake.clone());
            for _ in 0..5 {
                assert_eq!(ask(&circuit, &request()).await.unwrap_err().class, class);
            }
            let opens = is_dead(class);
            assert_eq!(fake.asked().len(), if opens { 3 } else { 5 }, "{class:?}");
            let error = ask(&circuit, &request()).await.unwrap_err();
            assert_eq!(unasked(&error), opens, "{class:?}");
            let told = "test was not asked: 3 calls in a row got no answer, and one goes ahead again \
                        in 30 s; the last one: no";
            assert!(!opens || error.message == told, "{error}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_answer_between_them_begins_the_count_anew() {
        let fake = Fake::new(|nth| match nth % 3 {
            2 => bad(ErrorClass::BadRequest),
            _ => bad(ErrorClass::Unreachable),
        });
        let circuit = circuit(fake.clone());
        for _ in 0..12 {
            ask(&circuit, &request()).await.unwrap_err();
        }
        assert_eq!(fake.asked().len(), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_rest_one_call_goes_first_and_the_others_follow_its_answer() {
        let fake = Fake::new(|nth| match nth {
            0..3 => bad(ErrorClass::Timeout),
            _ => Played { takes: Duration::from_secs(5), ..good(1, 1) },
        });
        let circuit = circuit(fake.clone());
        for _ in 0..3 {
            ask(&circuit, &request()).await.unwrap_err();
        }
        let begun = begun();
        let lanes = join_all((0..5).map(|_| ask(&circuit, &begun))).await;
        assert!(lanes.iter().all(Result::is_ok), "{lanes:?}");
        let asked = fake.asked();
        assert!(asked[3..].iter().all(|at| *at >= REST), "{asked:?}");
        // The probe's answer had begun at once, and nobody waited for its end.
        assert!(asked[7] - asked[3] < Duration::from_secs(1), "{asked:?}");
        assert!(ask(&circuit, &request()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_probe_opens_it_again_and_those_who_waited_are_told() {
        let fake = Fake::new(|_| bad(ErrorClass::Overloaded));
        let circuit = circuit(fake.clone());
        for _ in 0..3 {
            ask(&circuit, &request()).await.unwrap_err();
        }
        let begun = begun();
        let lanes = join_all((0..4).map(|_| ask(&circuit, &begun))).await;
        assert_eq!(fake.asked().len(), 4, "one probe for all of them");
        let refused = lanes.iter().filter(|end| end.as_ref().is_err_and(unasked));
        assert_eq!(refused.count(), 3);
        assert!(unasked(&ask(&circuit, &request()).await.unwrap_err()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_cancelled_gives_its_place_to_the_next() {
        let fake = Fake::new(|nth| match nth {
            0..3 => bad(ErrorClass::Unreachable),
            3 => Played { pieces: 0, takes: Duration::from_secs(1000), ..good(1, 1) },
            _ => good(1, 1),
        });
        let circuit = circuit(fake.clone());
        for _ in 0..3 {
            ask(&circuit, &request()).await.unwrap_err();
        }
        let cancel = CancellationToken::new();
        let begun = begun();
        let mut ignore = |_| {};
        let first = circuit.call(&begun, &mut ignore, &cancel);
        let second = async {
            tokio::time::sleep(REST + Duration::from_secs(1)).await;
            let stop = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                cancel.cancel();
            };
            tokio::join!(ask(&circuit, &begun), stop).0
        };
        let (first, second) = tokio::join!(first, second);
        assert_eq!(first.unwrap_err().class, ErrorClass::Cancelled);
        assert!(second.is_ok());
        // And a wait ends with a cancellation.
        let dead = Fake::new(|_| bad(ErrorClass::Unreachable));
        let circuit = {
            let policy = CircuitPolicy { failures: 1, rest: REST };
            Circuit::new("test", dead, policy, Breaker::default())
        };
        ask(&circuit, &begun).await.unwrap_err();
        let cancel = CancellationToken::new();
        let waiting = circuit.call(&begun, &mut ignore, &cancel);
        let stop = async { cancel.cancel() };
        let (end, ()) = tokio::join!(waiting, stop);
        assert_eq!(end.unwrap_err().class, ErrorClass::Cancelled);
    }
}
