//! The warden's jobs: what each is, how it is to end, and who waits for that.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::super::jail::{Group, Report, Running, Scratch};
use super::super::tier::Tier;
use super::input::Input;
use super::meter::Meter;
use super::output::Output;

/// What ending the jobs of a token came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reaped {
    /// Jobs that were running and were killed, proven dead.
    pub killed: u32,
    /// Jobs of which something may still be alive, by label and process id.
    pub survivors: Vec<String>,
}

/// Why a job ends before its program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Its time was over.
    TimedOut,
    /// It held so much on disk; with what was left, when that was the reason.
    Disk { held: u64, left: Option<u64> },
    /// The engine wanted it.
    Killed,
}

/// What becomes of a job's output.
#[derive(Debug)]
pub(super) enum Kept {
    /// It is kept until the end.
    Here(Output),
    /// It is handed on; this is what was read last.
    Live(Vec<u8>),
}

impl Kept {
    /// Adds what was read.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Here(output) => output.push(bytes),
            Self::Live(pending) => pending.extend(bytes),
        }
    }

    /// What is to be handed on now.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Live(pending) if !pending.is_empty() => Some(std::mem::take(pending)),
            _ => None,
        }
    }

    /// What was kept, and how much was dropped from its middle.
    pub(super) fn finish(self) -> (Vec<u8>, u64) {
        match self {
            Self::Here(output) => output.finish(),
            Self::Live(_) => (Vec::new(), 0),
        }
    }
}

/// A job in the warden's table.
#[derive(Debug)]
pub(super) struct Entry {
    pub token: String,
    pub label: String,
    pub tier: Tier,
    pub running: Running,
    pub output: Kept,
    /// The reading end of its output; gone at its end of file.
    pub output_pipe: Option<OwnedFd>,
    /// So many bytes of it may still be read; `None` for all.
    pub credit: Option<u64>,
    /// Its standard input.
    pub input: Input,
    pub started: Instant,
    /// When its time is over.
    pub deadline: Instant,
    /// When it is killed, once it was asked to end.
    pub kill_at: Option<Instant>,
    /// Whether it was killed once already.
    pub killed: bool,
    pub cause: Option<Cause>,
    /// Looks after what it writes.
    pub meter: Option<Meter>,
    pub report: Option<Report>,
    /// Removed with the entry.
    pub _scratch: Option<Scratch>,
    /// Removed with the entry.
    pub group: Group,
}

impl Entry {
    /// Whether its output waits until more of it is allowed.
    pub(super) fn is_held(&self) -> bool {
        self.credit == Some(0)
    }

    /// Allows more of it, or all.
    pub(super) fn allow(&mut self, bytes: Option<u64>) {
        self.credit = self.credit.zip(bytes).map(|(left, more)| left.saturating_add(more));
    }
}

/// Somebody waits for the end of a token's jobs.
#[derive(Debug)]
pub(super) struct Waiting {
    pub request: u64,
    pub open: HashSet<u64>,
    pub killed: u32,
    /// What outlived a job that is over.
    pub strays: Vec<String>,
    pub deadline: Instant,
}

/// All jobs of the warden.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub jobs: HashMap<u64, Entry>,
    pub waiting: Vec<Waiting>,
    pub ended_tokens: HashSet<String>,
}

impl Table {
    /// The ids of a token's jobs.
    pub(super) fn of_token(&self, token: &str) -> Vec<u64> {
        let of = |(id, entry): (&u64, &Entry)| (entry.token == token).then_some(*id);
        self.jobs.iter().filter_map(of).collect()
    }

    /// The time until something is due, if anything is.
    pub(super) fn next_due(&self, now: Instant) -> Option<Duration> {
        let jobs = self.jobs.values().map(|entry| entry.kill_at.unwrap_or(entry.deadline));
        let waits = self.waiting.iter().map(|waiting| waiting.deadline);
        let meters = self.jobs.values().filter(|entry| entry.cause.is_none());
        let meters = meters.filter_map(|entry| Some(entry.meter.as_ref()?.due()));
        jobs.chain(waits).chain(meters).min().map(|due| due.saturating_duration_since(now))
    }

    /// Says that job `id` is gone but for `strays`; answers the waits that are over with that.
    pub(super) fn gone(&mut self, id: u64, strays: &[String]) -> Vec<(u64, Reaped)> {
        for waiting in &mut self.waiting {
            if waiting.open.remove(&id) {
                waiting.killed += u32::from(strays.is_empty());
                waiting.strays.extend_from_slice(strays);
            }
        }
        self.take_waits(|waiting| waiting.open.is_empty())
    }

    /// The waits whose patience is over; what they still wait for is named.
    pub(super) fn overdue(&mut self, now: Instant) -> Vec<(u64, Reaped)> {
        self.take_waits(|waiting| waiting.deadline <= now)
    }

    fn take_waits(&mut self, over: impl Fn(&Waiting) -> bool) -> Vec<(u64, Reaped)> {
        let (done, open) = std::mem::take(&mut self.waiting).into_iter().partition(over);
        self.waiting = open;
        let done: Vec<Waiting> = done;
        done.into_iter().map(|waiting| (waiting.request, self.outcome(&waiting))).collect()
    }

    fn outcome(&self, waiting: &Waiting) -> Reaped {
        let name = |id: &u64| {
            let entry = self.jobs.get(id)?;
            Some(format!("{} (process {})", entry.label, entry.running.pid.as_raw_nonzero()))
        };
        let mut survivors: Vec<String> =
            waiting.open.iter().filter_map(name).chain(waiting.strays.iter().cloned()).collect();
        survivors.sort();
        Reaped { killed: waiting.killed, survivors }
    }
}
