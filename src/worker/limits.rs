//! The limits of one worker run. They are checked in one place, [`Limits::reached`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::{Limit, Usage, WorkerLimits};
use crate::provider::ErrorClass;

/// The time kept back for the last summary is this fraction of the whole, at most 30 seconds.
pub const SUMMARY_RESERVE_DIVISOR: u32 = 10;
const SUMMARY_RESERVE_MOST: Duration = Duration::from_secs(30);

/// The largest last summary, in tokens. Small, so that a nearly spent budget can still pay for it.
pub const SUMMARY_TOKENS: u32 = 1024;

/// The turns that the workers of a run may take together; clones count in one place.
#[derive(Clone, Debug, Default)]
pub struct Turns(Option<Arc<AtomicU64>>);

impl Turns {
    /// At most so many, or any number.
    pub fn new(most: Option<u64>) -> Self {
        Self(most.map(|most| Arc::new(AtomicU64::new(most))))
    }

    /// Whether none is left.
    pub(super) fn are_used_up(&self) -> bool {
        self.0.as_ref().is_some_and(|left| left.load(Ordering::SeqCst) == 0)
    }

    /// Takes one, unless none is left.
    pub fn take(&self) -> bool {
        let less = |left: u64| left.checked_sub(1);
        let Some(left) = &self.0 else { return true };
        left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less).is_ok()
    }
}

/// Waits until a moment, or for ever where there is none.
pub(super) async fn comes(until: Option<Instant>) {
    match until {
        Some(until) => tokio::time::sleep_until(until).await,
        None => std::future::pending().await,
    }
}

/// When a worker has to stop.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    rounds: u32,
    tokens: Option<u64>,
    /// The end of ordinary work.
    pub work_until: Option<Instant>,
    /// The end of everything, the last summary included.
    pub end: Option<Instant>,
}

/// What a worker used so far.
#[derive(Clone, Debug, Default)]
pub struct Spent {
    /// Tool rounds.
    pub rounds: u32,
    /// All calls.
    pub usage: Usage,
    /// The last call's tokens: what the next one will cost at the least.
    pub last_call: u64,
    /// Whether the turns of all workers together are used up.
    pub no_turns: bool,
    /// A refusal of the last call that is a limit in truth: the budget's or the context window's.
    pub refused: Option<ErrorClass>,
    /// What was said with that refusal.
    pub said: Option<String>,
}

impl Limits {
    /// The limits of a worker that begins at `now`. `whole` is the longest time of all, from which
    /// the reserve for the last summary is taken.
    pub fn new(limits: &WorkerLimits, whole: Option<Duration>, now: Instant) -> Self {
        let reserve = |whole: Duration| (whole / SUMMARY_RESERVE_DIVISOR).min(SUMMARY_RESERVE_MOST);
        Self {
            rounds: limits.max_tool_iterations,
            tokens: limits.max_tokens,
            work_until: whole.and_then(|whole| now.checked_add(whole - reserve(whole))),
            end: whole.and_then(|whole| now.checked_add(whole)),
        }
    }

    /// The limit that has been reached, if any. Where several are, the first of iterations, time,
    /// cost and context is named (contract R24). No limit set means unbounded (contract R25).
    pub fn reached(&self, spent: &Spent, now: Instant) -> Option<Limit> {
        // The next call and the last summary cost no less than the last call did.
        let tokens = spent.usage.tokens().saturating_add(spent.last_call.saturating_mul(2));
        if spent.rounds >= self.rounds || spent.no_turns {
            Some(Limit::Iterations)
        } else if self.work_until.is_some_and(|until| now >= until) {
            Some(Limit::Time)
        } else if spent.refused == Some(ErrorClass::Budget)
            || (spent.last_call > 0 && self.tokens.is_some_and(|most| tokens > most))
        {
            Some(Limit::Cost)
        } else if spent.refused == Some(ErrorClass::ContextOverflow) {
            Some(Limit::Context)
        } else {
            None
        }
    }

    /// Whether the cap of rounds has been reached, and no other limit.
    pub(super) fn are_rounds_alone(&self, spent: &Spent, now: Instant) -> bool {
        let others = Self { rounds: u32::MAX, ..*self };
        spent.rounds >= self.rounds && others.reached(spent, now).is_none()
    }

    /// How many rounds there are beyond a cap.
    pub(super) fn beyond(&self, cap: u32) -> u32 {
        self.rounds.saturating_sub(cap)
    }

    /// Raises the cap of rounds.
    pub(super) fn extend(&mut self, rounds: u32) {
        self.rounds = self.rounds.saturating_add(rounds);
    }

    /// Why a worker that this limit ended could do no more, and what allows more. Limits of a worker hold as long
    /// as its run does, also when that goes on: more of them takes a new run.
    pub fn words(&self, limit: Limit, spent: &Spent) -> String {
        let own = |what: &str, flag: &str, key: &str| {
            format!("{what} used up; a new run with `{flag}` or the lane's `{key}` allows more")
        };
        match (limit, &spent.said) {
            (Limit::Iterations, _) if spent.no_turns && spent.rounds < self.rounds => {
                "the turns of all workers are used up; a new run with `--max-turns` allows more"
                    .to_owned()
            }
            (Limit::Iterations, _) => own("its turns are", "--lane-turns", "turns"),
            (Limit::Time, _) => own("its time is", "--lane-seconds", "seconds"),
            (Limit::Cost | Limit::Context, Some(said)) => said.clone(),
            (Limit::Cost, None) => own("its tokens are", "--lane-tokens", "tokens"),
            (Limit::Context, None) => {
                "the conversation is longer than the model's context".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(rounds: u32, tokens: Option<u64>) -> WorkerLimits {
        WorkerLimits {
            max_tool_iterations: rounds,
            max_seconds: None,
            max_tokens: tokens,
            budget: None,
            max_output_tokens: 100,
        }
    }

    // contract R24
    #[test]
    fn the_limiting_factor_is_named_in_order() {
        let now = Instant::now();
        let all = Limits::new(&limits(2, Some(10)), Some(Duration::ZERO), now);
        let mut spent = Spent { rounds: 2, refused: Some(ErrorClass::Budget), ..Spent::default() };
        assert_eq!(all.reached(&spent, now), Some(Limit::Iterations));
        spent.rounds = 1;
        let out = Spent { no_turns: true, ..spent.clone() };
        assert_eq!(
            all.reached(&out, now),
            Some(Limit::Iterations),
            "those of all workers together"
        );
        assert_eq!(all.reached(&spent, now), Some(Limit::Time));
        let untimed = Limits::new(&limits(2, Some(10)), None, now);
        assert_eq!(untimed.reached(&spent, now), Some(Limit::Cost));
        spent.refused = Some(ErrorClass::ContextOverflow);
        assert_eq!(untimed.reached(&spent, now), Some(Limit::Context));
        spent.refused = None;
        assert_eq!(untimed.reached(&spent, now), None);
    }

    #[test]
    fn every_limit_says_what_allows_more() {
        let limits = Limits::new(&limits(2, Some(10)), None, Instant::now());
        let none = Spent::default();
        let refused = Spent { said: Some("the server said no".to_owned()), ..Spent::default() };
        let all = Spent { no_turns: true, ..Spent::default() };
        for (limit, spent, want) in [
            (Limit::Iterations, &none, "--lane-turns"),
            (Limit::Iterations, &all, "--max-turns"),
            (Limit::Time, &refused, "--lane-seconds"),
            (Limit::Cost, &none, "--lane-tokens"),
            (Limit::Cost, &refused, "the server said no"),
            (Limit::Context, &refused, "the server said no"),
        ] {
            let words = limits.words(limit, spent);
            assert!(words.contains(want), "{words}");
        }
    }

    // contract R25 together: no cap is unbounded
    #[test]
    fn no_cap_is_unbounded_and_a_cap_keeps_the_next_call_back() {
        let now = Instant::now();
        let usage = Usage { input_tokens: 1_000_000_000, ..Usage::default() };
        let spent = Spent { usage, last_call: 1_000_000_000, ..Spent::default() };
        assert_eq!(Limits::new(&limits(90, None), None, now).reached(&spent, now), None);
        let capped = Limits::new(&limits(90, Some(250)), None, now);
        let used = |all: u64, last: u64| Spent {
            usage: Usage { input_tokens: all, ..Usage::default() },
            last_call: last,
            ..Spent::default()
        };
        assert_eq!(capped.reached(&used(50, 100), now), None, "that call, and the last summary");
        assert_eq!(capped.reached(&used(51, 100), now), Some(Limit::Cost));
    }

    #[test]
    fn the_summary_has_a_part_of_the_time() {
        let now = Instant::now();
        let limits = Limits::new(&limits(90, None), Some(Duration::from_secs(100)), now);
        assert_eq!(limits.work_until, Some(now + Duration::from_secs(90)));
        assert_eq!(limits.end, Some(now + Duration::from_secs(100)));
    }
}
