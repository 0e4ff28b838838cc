//! One background job: what it is, its output, how it stands.
//!
//! Never here: tables, notices.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::backlog::Backlog;
use super::capture::Capture;
use super::keyboard::Keyboard;
use super::order::Alone;
use super::prompts::{Prompt, PromptKind};
use super::ring::Ring;
use super::watch::{Watch, WatchState};
use crate::model::{Card, CardKind, CardState, JobId, LeaseId};
use crate::sandbox::{JobStatus, Limits, Process};

/// A job's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobEnd {
    /// How; or why it could not be run.
    pub status: Result<JobStatus, String>,
    /// How long it took.
    pub elapsed: Duration,
    /// Why the engine ended it, where that is not for its owner to know already; or the limit that it may have reached.
    pub why: Option<String>,
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It runs.
    Running,
    /// It was told to end and has not yet.
    Stopping,
    /// It ended, and nothing of it is alive.
    Ended(JobEnd),
    /// It was killed, and of these that is not proven.
    Survived(Vec<String>),
}

impl JobState {
    /// Whether something of it is, or may be, alive.
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Ended(_))
    }

    /// In a few words, for lists, tool results and notices alike.
    pub fn words(&self) -> String {
        match self {
            Self::Running => "running".to_owned(),
            Self::Stopping => "stopping".to_owned(),
            Self::Survived(names) => format!("killed, but may be alive: {}", names.join(", ")),
            Self::Ended(end) => end.words(),
        }
    }
}

impl JobEnd {
    /// Its exit status as a shell gives it: 128 and the number of a signal, 124 when its time was over, and 125 when the
    /// engine ended it or could not run it.
    pub fn code(&self) -> i32 {
        match &self.status {
            Ok(JobStatus::Exited(code)) => *code,
            Ok(JobStatus::Signalled(signal)) => 128 + signal,
            Ok(JobStatus::TimedOut) => 124,
            Ok(JobStatus::DiskLimit { .. } | JobStatus::Killed) | Err(_) => 125,
        }
    }

    /// Why it did not end by itself, if it did not.
    pub fn reason(&self) -> Option<String> {
        match &self.status {
            Ok(JobStatus::Exited(_) | JobStatus::Signalled(_)) => None,
            _ => Some(self.words()),
        }
    }

    fn words(&self) -> String {
        match &self.status {
            Ok(JobStatus::Exited(code)) => format!("exit {code}"),
            Ok(JobStatus::Signalled(signal)) => format!("ended by signal {signal}{}", self.limit()),
            Ok(JobStatus::TimedOut) => {
                format!("ended: its time was over after {} s", self.elapsed.as_secs())
            }
            Ok(JobStatus::DiskLimit { held, left }) => {
                format!("ended: {}{}", JobStatus::disk_words(*held, *left), self.limit())
            }
            Ok(JobStatus::Killed) => match &self.why {
                Some(why) => format!("killed: {why}"),
                None => "killed".to_owned(),
            },
            Err(why) => format!("not run: {why}"),
        }
    }

    fn limit(&self) -> String {
        self.why.as_ref().map(|why| format!(", {why}")).unwrap_or_default()
    }
}

/// A job as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobView {
    /// Its id.
    pub id: JobId,
    /// Who started it: a lane, or a nested worker of one.
    pub owner: String,
    /// Its command line.
    pub label: String,
    /// How it stands.
    pub state: JobState,
    /// How long it ran, or has run so far.
    pub age: Duration,
    /// How much it wrote, in bytes, as far as it is kept: text and colours.
    pub written: u64,
    /// What it waits for an answer to.
    pub asks: Option<Prompt>,
    /// What became of its watch pattern, if it has one.
    pub watch: Option<WatchState>,
    /// What it is.
    pub kind: CardKind,
}

impl JobView {
    /// As lists of everything that is live show it.
    pub fn card(&self) -> Card {
        let state = match &self.state {
            JobState::Running => match &self.asks {
                Some(Prompt { kind, text }) => CardState::NeedsApproval {
                    prompt: text.clone(),
                    secret: *kind == PromptKind::Secret,
                },
                None => CardState::Running,
            },
            JobState::Stopping => CardState::Stopping { alive: Vec::new() },
            JobState::Survived(alive) => CardState::Stopping { alive: alive.clone() },
            JobState::Ended(end) => CardState::Ended { how: end.words() },
        };
        let (age, bytes) = (self.age.as_secs(), self.written);
        Card { state, age, bytes, kind: self.kind, ..Card::job(&self.id, &self.owner, &self.label) }
    }
}

/// A job in a table.
pub(super) struct Entry {
    pub id: JobId,
    pub lease: LeaseId,
    pub label: String,
    /// Which worker of the run it belongs to: 0 is the top.
    pub by: AtomicU32,
    pub began: Instant,
    pub process: Arc<dyn Process>,
    pub output: Arc<Mutex<Output>>,
    pub stopping: AtomicBool,
    /// Whether its end was told already.
    pub told: AtomicBool,
    /// How it ended, and when. The process is asked whether it lives; this says only how it ended.
    pub end: OnceLock<(JobEnd, Instant)>,
    pub survivors: Mutex<Vec<String>>,
    /// The way to its input, when it has an open one.
    pub keyboard: Option<Keyboard>,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Why nobody can answer when it asks for a secret, if so, as long as nobody attaches who can.
    pub alone: Alone,
    /// Terminals that are attached to it.
    pub attended: AtomicUsize,
    /// Why the engine ended it.
    pub why: OnceLock<String>,
    /// What it is held to.
    pub limits: Limits,
}

impl Entry {
    /// The limit that may have ended it, in words. The operator's own commands have limits that nobody meets by chance.
    pub(super) fn limit_of(&self, status: &JobStatus) -> Option<String> {
        let limit = match status {
            JobStatus::Signalled(9) => {
                let most = self.limits.memory_bytes >> 20;
                format!("perhaps for want of memory, of which each process has {most} MiB")
            }
            JobStatus::DiskLimit { left: None, .. } => {
                format!("and {} MiB are the most", self.limits.disk_bytes >> 20)
            }
            _ => return None,
        };
        self.keyboard.is_none().then_some(limit)
    }
}

/// What a job wrote, and the pattern that is looked for in it.
pub(super) struct Output {
    pub ring: Ring,
    pub watch: Option<Watch>,
    pub capture: Capture,
    /// What waits for the viewer for whom it was started, as long as there is one.
    pub backlog: Option<Backlog>,
}

impl Output {
    /// Takes what the job wrote; gives the text that is kept of it by now.
    pub(super) fn take(&mut self, bytes: &[u8]) -> String {
        let text = self.capture.take(bytes);
        self.ring.push(text.as_bytes());
        if let Some(backlog) = &mut self.backlog {
            backlog.push(bytes, Instant::now());
        }
        text
    }

    /// The job writes nothing more; gives the rest of the text.
    pub(super) fn finish(&mut self) -> String {
        let text = self.capture.finish();
        self.ring.push(text.as_bytes());
        if let Some(backlog) = &mut self.backlog {
            backlog.finish();
        }
        text
    }
}

impl Entry {
    /// How it stands: derived from the process, not from a stored copy (contract R8).
    pub(super) fn state(&self) -> JobState {
        let survivors = lock(&self.survivors);
        match self.end.get() {
            _ if !survivors.is_empty() => JobState::Survived(survivors.clone()),
            Some((end, _)) => JobState::Ended(end.clone()),
            // Its end is proven, and is being written down.
            None if !self.process.is_live() => JobState::Stopping,
            None if self.stopping.load(Ordering::SeqCst) => JobState::Stopping,
            None => JobState::Running,
        }
    }

    pub(super) fn view(&self, lane: &str, kind: CardKind) -> JobView {
        let by = self.by.load(Ordering::SeqCst);
        let (written, watch) = {
            let output = lock(&self.output);
            (output.ring.written(), output.watch.as_ref().map(Watch::state))
        };
        JobView {
            id: self.id.clone(),
            owner: if by == 0 { lane.to_owned() } else { format!("{lane} subtask {by}") },
            label: self.label.clone(),
            state: self.state(),
            age: self.end.get().map_or_else(|| self.began.elapsed(), |(end, _)| end.elapsed),
            written,
            watch,
            asks: self.keyboard.as_ref().and_then(Keyboard::asks),
            kind,
        }
    }

    /// Whether whoever started it looks on.
    pub(super) fn has_viewer(&self) -> bool {
        lock(&self.output).backlog.is_some()
    }

    /// When it ended, if nothing of it can be alive.
    pub(super) fn ended_at(&self) -> Option<Instant> {
        self.end.get().filter(|_| lock(&self.survivors).is_empty()).map(|(_, at)| *at)
    }
}

/// A lock whose owner panicked guards data that is whole: nothing here is changed in two steps.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
