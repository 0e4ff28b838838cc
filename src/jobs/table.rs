//! The background jobs of one owner.
//!
//! Starts, lists, reads and ends them, and owns the one notice that each of them gives. Never here: other
//! owners' jobs, the words in which a model is told.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::backlog::{Backlog, WINDOW};
use super::capture::Capture;
use super::entry::{Entry, JobEnd, JobView, Output, lock};
use super::keyboard::Keyboard;
use super::notice::{KillReport, Notice};
use super::order::{Alone, JobLimits, Order, Viewer};
use super::ring::{Reading, Ring};
use super::veil::Veil;
use super::watch::{Matched, Watch, WatchState};
use crate::journal::Learnt;
use crate::model::{CardKind, CardSink, JobId, LaneId, LeaseId};
use crate::sandbox::{
    Feed, JobExit, JobStatus, Launch, Live, LiveEvent, LiveSink, Process, SandboxError,
};

/// The most notices of matches that wait at once.
const WAITING: usize = 32;
/// How long a proven end may take to be written down.
const SOON: Duration = Duration::from_secs(10);

/// What a job has as its input, when that stays open.
#[derive(Default)]
pub(super) struct Opening {
    pub feed: Feed,
    pub keyboard: Option<Keyboard>,
    /// Why nobody can answer when it asks for a secret, if so.
    pub alone: Alone,
    /// Who looks on from the beginning.
    pub viewer: Viewer,
}

/// The background jobs of one owner. Clones share it.
#[derive(Clone)]
pub struct JobTable(Arc<Inner>);

struct Inner {
    lane: LaneId,
    limits: JobLimits,
    cards: CardSink,
    kind: CardKind,
    secrets: Learnt,
    next: AtomicU32,
    closed: AtomicBool,
    entries: Mutex<Vec<Arc<Entry>>>,
    notices: Mutex<VecDeque<Notice>>,
    /// Woken by every notice and every end.
    wake: Notify,
}

impl std::fmt::Debug for JobTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("JobTable").field(&self.0.lane).finish()
    }
}

impl JobTable {
    /// An empty table for jobs of a kind, those of a lane's worker run or the operator's. How they stand at their
    /// beginnings and ends is shown to `cards`, and `secrets` are hidden in their outputs.
    pub(super) fn new(
        kind: CardKind,
        lane: LaneId,
        limits: JobLimits,
        cards: CardSink,
        secrets: Learnt,
    ) -> Self {
        Self(Arc::new(Inner {
            lane,
            limits,
            cards,
            kind,
            secrets,
            next: AtomicU32::new(1),
            closed: AtomicBool::new(false),
            entries: Mutex::default(),
            notices: Mutex::default(),
            wake: Notify::new(),
        }))
    }

    pub(super) fn downgrade(&self) -> WeakTable {
        WeakTable(Arc::downgrade(&self.0))
    }

    /// Starts a job and returns its id at once (contract C1). Its wall-clock limit is the table's ceiling
    /// at most.
    ///
    /// # Errors
    /// In words, when too many run or it can't be started. A job that can't be run is told as ended.
    pub fn start(&self, launch: &dyn Launch, order: Order) -> Result<JobId, String> {
        self.start_open(launch, order, Opening::default()).map(|entry| entry.id.clone())
    }

    /// The same with an input that may stay open.
    pub(super) fn start_open(
        &self,
        launch: &dyn Launch,
        order: Order,
        opening: Opening,
    ) -> Result<Arc<Entry>, String> {
        let Order { mut spec, lease, label, by, watch } = order;
        self.forget_old();
        self.room()?;
        spec.limits.wall = self.0.limits.ceiling;
        let number = self.0.next.fetch_add(1, Ordering::SeqCst);
        let id = JobId::new(format!("{}#{number}", self.0.lane));
        let Opening { feed, keyboard, alone, viewer } = opening;
        let secrets = keyboard.as_ref().map_or(&self.0.secrets, Keyboard::secrets).clone();
        let backlog = match viewer {
            Viewer::Nobody => None,
            Viewer::Text => Some(Backlog::of_text(Capture::new(secrets.clone()))),
            Viewer::Bytes => Some(Backlog::of_bytes(Veil::new(secrets.clone()))),
        };
        let (capture, credit) = (Capture::new(secrets), backlog.as_ref().map(|_| WINDOW));
        let output = Output { ring: Ring::new(self.0.limits.output), watch, capture, backlog };
        let output = Arc::new(Mutex::new(output));
        let sink = self.sink(id.clone(), output.clone());
        let terminal = matches!(feed, Feed::Terminal(_));
        let live = Live { feed, credit, ..Live::new(sink) };
        let limits = spec.limits;
        let process = launch.start_live(spec, live).map_err(|error| error.to_string())?;
        let process: Arc<dyn Process> = process.into();
        let entry = Arc::new(Entry {
            id: id.clone(),
            lease,
            label,
            by: AtomicU32::new(by),
            began: Instant::now(),
            process,
            output,
            stopping: AtomicBool::new(false),
            told: AtomicBool::new(false),
            end: OnceLock::new(),
            survivors: Mutex::default(),
            keyboard,
            terminal,
            alone,
            attended: AtomicUsize::new(0),
            why: OnceLock::new(),
            limits,
        });
        lock(&self.0.entries).push(entry.clone());
        self.tell(&entry);
        if entry.keyboard.is_some() {
            self.listen(&entry);
        }
        let (table, started) = (self.downgrade(), entry.clone());
        tokio::spawn(async move {
            let ending = entry.process.ended().await;
            match table.upgrade() {
                Some(table) => table.complete(&entry, ending),
                None => write_down(&entry, ending),
            }
        });
        Ok(started)
    }

    fn room(&self) -> Result<(), String> {
        if self.0.closed.load(Ordering::SeqCst) {
            return Err("the worker run is over".to_owned());
        }
        let live = self.live().count();
        if live < self.0.limits.running {
            return Ok(());
        }
        Err(match self.0.kind {
            CardKind::Shell => format!(
                "{live} commands run already, and no more are started; end one with `bakeoff stop ID` (`bakeoff jobs` \
                 lists them), or wait for one to end"
            ),
            _ => format!("{live} jobs run already; kill one, or wait for one to end"),
        })
    }

    fn live(&self) -> impl Iterator<Item = Arc<Entry>> {
        let entries = lock(&self.0.entries).clone();
        entries.into_iter().filter(|entry| entry.state().is_live())
    }

    /// Where a job's output goes. The table may be gone before the job is.
    fn sink(&self, id: JobId, output: Arc<Mutex<Output>>) -> LiveSink {
        let table = self.downgrade();
        Arc::new(move |event| {
            let LiveEvent::Output(bytes) = event else { return };
            let news = {
                let output = &mut *lock(&output);
                let text = output.take(bytes);
                output.watch.as_mut().map(|watch| look(watch, &text, false)).unwrap_or_default()
            };
            if let Some(table) = table.upgrade() {
                table.watched(&id, news);
                table.0.wake.notify_waiters();
            }
        })
    }

    /// Tells what a watch pattern found, and that it is off when it is.
    fn watched(&self, id: &JobId, (found, off): Watched) {
        let mut notices = lock(&self.0.notices);
        if self.0.closed.load(Ordering::SeqCst) {
            return;
        }
        let waiting = notices.iter().filter(|one| matches!(one, Notice::Matched { .. })).count();
        let found = found.into_iter().take(WAITING.saturating_sub(waiting));
        notices.extend(found.map(|matched| Notice::Matched { id: id.clone(), matched }));
        notices.extend(off.map(|state| Notice::Unwatched { id: id.clone(), state }));
    }

    /// The one place where an end is written down and becomes a notice (contract R6).
    fn complete(&self, entry: &Entry, ending: Result<JobExit, SandboxError>) {
        let (written, news) = {
            let output = &mut *lock(&entry.output);
            let text = output.finish();
            let Output { ring, watch, .. } = output;
            let news = watch.as_mut().map(|watch| look(watch, &text, true)).unwrap_or_default();
            (ring.written(), news)
        };
        self.watched(&entry.id, news);
        // Both under one lock: who sees that it ended finds the notice.
        let mut notices = lock(&self.0.notices);
        write_down(entry, ending);
        let silent = entry.told.load(Ordering::SeqCst)
            || self.0.closed.load(Ordering::SeqCst)
            // Nobody is told of the operator's own (contract S2).
            || self.0.kind == CardKind::Shell;
        if !silent {
            notices.push_back(Notice::Ended {
                id: entry.id.clone(),
                label: self.0.secrets.hide(&entry.label).into_owned(),
                state: entry.state(),
                written,
            });
        }
        drop(notices);
        self.tell(entry);
        self.0.wake.notify_waiters();
    }

    fn tell(&self, entry: &Entry) {
        self.0.cards.send(self.view(entry).card());
    }

    /// Something of a job changed that is neither its beginning nor its end: who waits is woken. Of the operator's own it
    /// is shown, too; a worker's are events of the run, and this is none.
    pub(super) fn changed(&self, entry: &Entry) {
        if self.0.kind == CardKind::Shell && entry.end.get().is_none() {
            self.tell(entry);
        }
        self.0.wake.notify_waiters();
    }

    /// Marks an end as told and takes its notice back.
    fn told(&self, entry: &Entry) {
        let mut notices = lock(&self.0.notices);
        entry.told.store(true, Ordering::SeqCst);
        notices.retain(|one| !matches!(one, Notice::Ended { id, .. } if *id == entry.id));
    }

    /// Takes out ended jobs that were kept long enough or are too many (contracts R7 and S8). One whose
    /// notice waits goes, too: the notice stands for itself.
    fn forget_old(&self) {
        let limits = self.0.limits;
        let mut entries = lock(&self.0.entries);
        let expired = |at: Instant| at.elapsed() >= limits.retention;
        entries.retain(|entry| !entry.ended_at().is_some_and(expired));
        let mut ends: Vec<Instant> = entries.iter().filter_map(|entry| entry.ended_at()).collect();
        ends.sort();
        if let Some(last) = ends.len().checked_sub(limits.ended + 1).map(|at| ends[at]) {
            entries.retain(|entry| entry.ended_at().is_none_or(|at| at > last));
        }
    }

    /// Takes out every ended job (contract S8).
    pub(super) fn forget_ended(&self) {
        lock(&self.0.entries).retain(|entry| entry.ended_at().is_none());
    }

    fn find(&self, id: &JobId) -> Option<Arc<Entry>> {
        lock(&self.0.entries).iter().find(|entry| entry.id == *id).cloned()
    }

    /// Every job, oldest first.
    pub fn list(&self) -> Vec<JobView> {
        self.entries().iter().map(|entry| self.view(entry)).collect()
    }

    /// The same as they stand in the table.
    pub(super) fn entries(&self) -> Vec<Arc<Entry>> {
        self.forget_old();
        lock(&self.0.entries).clone()
    }

    /// A job as lists show it.
    pub(super) fn view(&self, entry: &Entry) -> JobView {
        let view = entry.view(self.0.lane.as_str(), self.0.kind);
        // A secret may have been known before, and become known since.
        JobView { label: self.0.secrets.hide(&view.label).into_owned(), ..view }
    }

    /// Whose table it is.
    pub(super) fn lane(&self) -> &LaneId {
        &self.0.lane
    }

    /// Whether no further job can be started.
    pub(super) fn is_closed(&self) -> bool {
        self.0.closed.load(Ordering::SeqCst)
    }

    /// Those of one workspace.
    pub(super) fn of_lease(&self, lease: &LeaseId) -> Vec<JobView> {
        self.forget_old();
        let mut entries = lock(&self.0.entries).clone();
        entries.retain(|entry| entry.lease == *lease);
        entries.iter().map(|entry| self.view(entry)).collect()
    }

    /// A job of this table with what it wrote from `from` on. An end that is shown here is told by that.
    pub fn read(&self, id: &JobId, from: u64) -> Option<(JobView, Reading)> {
        self.forget_old();
        let entry = self.find(id)?;
        let view = self.view(&entry);
        if !view.state.is_live() {
            self.told(&entry);
        }
        let reading = lock(&entry.output).ring.read(from, !view.state.is_live());
        Some((view, reading))
    }

    /// Waits until a job has ended, or has written more than `beyond` bytes; at most for `patience`.
    pub async fn wait(&self, id: &JobId, beyond: u64, patience: Duration) {
        let Some(entry) = self.find(id) else { return };
        let _ = tokio::time::timeout(patience, self.written_beyond(&entry, beyond)).await;
    }

    /// Waits until a job has ended, or has written more than `beyond` bytes.
    pub(super) async fn written_beyond(&self, entry: &Entry, beyond: u64) {
        loop {
            let woken = self.0.wake.notified();
            if !entry.state().is_live() || lock(&entry.output).ring.written() > beyond {
                return;
            }
            woken.await;
        }
    }

    /// Waits until a job has ended, or has written something that its viewer has not read yet, or has read and not
    /// allowed again: what was written need not have become text. What is held back of it comes in part after a pause.
    pub(super) async fn due(&self, entry: &Entry) {
        loop {
            let woken = self.0.wake.notified();
            let (due, later) = match &lock(&entry.output).backlog {
                Some(backlog) => (backlog.is_due(Instant::now()), backlog.lets_on()),
                None => (true, None),
            };
            if due || !entry.state().is_live() {
                return;
            }
            match later {
                // It may be woken before.
                Some(later) => drop(tokio::time::timeout_at(later, woken).await),
                None => woken.await,
            }
        }
    }

    /// Ends a job with all its processes: TERM, 2 s, KILL (contracts C3 and R9). `None` when there is no
    /// such job here.
    pub async fn kill(&self, id: &JobId) -> Option<KillReport> {
        let entry = self.find(id)?;
        let report = self.end(&entry).await;
        if !matches!(report, KillReport::Survivors(_)) {
            self.told(&entry);
        }
        Some(report)
    }

    /// Ends a job in the same way and leaves its notice to its owner: the operator ended it.
    pub(super) async fn end(&self, entry: &Entry) -> KillReport {
        if !entry.state().is_live() {
            return KillReport::Over(entry.state());
        }
        entry.stopping.store(true, Ordering::SeqCst);
        self.changed(entry);
        // A warden that is gone took every job with it.
        let survivors = entry.process.end().await.map(|reaped| reaped.survivors);
        let survivors = survivors.unwrap_or_default();
        lock(&entry.survivors).clone_from(&survivors);
        if !survivors.is_empty() {
            self.changed(entry);
            return KillReport::Survivors(survivors);
        }
        self.settled(entry).await;
        KillReport::Proven(entry.state())
    }

    /// Waits until a proven end is written down.
    async fn settled(&self, entry: &Entry) {
        let written_down = async {
            while entry.end.get().is_none() {
                let woken = self.0.wake.notified();
                if entry.end.get().is_none() {
                    woken.await;
                }
            }
        };
        let _ = tokio::time::timeout(SOON, written_down).await;
    }

    /// The notices for one worker of the run, which are not given again.
    pub fn take_notices(&self, by: u32) -> Vec<Notice> {
        let mut notices = lock(&self.0.notices);
        let (own, rest): (Vec<Notice>, Vec<Notice>) =
            notices.drain(..).partition(|one| self.owner_of(one.id()) == by);
        *notices = rest.into();
        own
    }

    /// Takes back the notices of ends that `text` tells of: what was told before a resume.
    pub fn told_in(&self, text: &str) {
        let entries = lock(&self.0.entries).clone();
        for entry in entries.iter().filter(|entry| text.contains(&mention(&entry.id))) {
            self.told(entry);
        }
    }

    fn owner_of(&self, id: &JobId) -> u32 {
        self.find(id).map_or(0, |entry| entry.by.load(Ordering::SeqCst))
    }

    /// Whether a worker of the run has a job that runs.
    pub fn has_live(&self, by: u32) -> bool {
        self.live().any(|entry| entry.by.load(Ordering::SeqCst) == by)
    }

    /// Waits until there is a notice for a worker of the run; false when none can come any more.
    pub async fn noticed(&self, by: u32) -> bool {
        loop {
            let woken = self.0.wake.notified();
            // In this order: a job that is seen to have ended has left its notice.
            let live = self.has_live(by);
            let waiting = lock(&self.0.notices).clone();
            if waiting.iter().any(|one| self.owner_of(one.id()) == by) {
                return true;
            }
            if !live {
                return false;
            }
            woken.await;
        }
    }

    /// Hands the jobs of one worker of the run over to another, and names those that run.
    pub fn hand_over(&self, from: u32, to: u32) -> Vec<JobView> {
        let entries = lock(&self.0.entries).clone();
        let mine = entries.iter().filter(|entry| entry.by.load(Ordering::SeqCst) == from);
        let mut live = Vec::new();
        for entry in mine {
            entry.by.store(to, Ordering::SeqCst);
            live.extend(Some(self.view(entry)).filter(|view| view.state.is_live()));
        }
        live
    }

    /// Ends the jobs of one worker of the run; nobody is told.
    pub async fn kill_of(&self, by: u32) -> Vec<(JobId, KillReport)> {
        let entries: Vec<_> =
            self.live().filter(|entry| entry.by.load(Ordering::SeqCst) == by).collect();
        let end = async |entry: &Arc<Entry>| Some((entry.id.clone(), self.kill(&entry.id).await?));
        let ends = futures_util::future::join_all(entries.iter().map(end)).await;
        ends.into_iter().flatten().collect()
    }

    /// No further job, and nobody is told any more.
    pub(super) fn close(&self) {
        self.0.closed.store(true, Ordering::SeqCst);
        lock(&self.0.notices).clear();
        self.0.wake.notify_waiters();
    }
}

/// How a notice names a job, so that it can be found in a text again.
pub(super) fn mention(id: &JobId) -> String {
    format!("job {id} ended")
}

/// Keeps how a job ended.
/// What a watch pattern found, and why it is off if that is new.
type Watched = (Vec<Matched>, Option<WatchState>);

/// Looks for a pattern in what a job wrote; `whole` when that is the end of it.
fn look(watch: &mut Watch, text: &str, whole: bool) -> Watched {
    let (before, now) = (watch.state(), Instant::now().into_std());
    let mut found = watch.take(text.as_bytes(), now);
    if whole {
        found.extend(watch.finish(now));
    }
    (found, Some(watch.state()).filter(|state| *state != before))
}

fn write_down(entry: &Entry, ending: Result<JobExit, SandboxError>) {
    let why = entry.why.get().cloned();
    if let Some(keyboard) = &entry.keyboard {
        keyboard.over(matches!(&ending, Ok(exit) if exit.status == JobStatus::Exited(0)));
    }
    let end = match ending {
        Ok(exit) => {
            let why = why.or_else(|| entry.limit_of(&exit.status));
            JobEnd { status: Ok(exit.status), elapsed: exit.elapsed, why }
        }
        Err(error) => {
            JobEnd { status: Err(error.to_string()), elapsed: entry.began.elapsed(), why }
        }
    };
    let _ = entry.end.set((end, Instant::now()));
}

/// A table that its owner may have let go.
pub(super) struct WeakTable(Weak<Inner>);

impl WeakTable {
    pub(super) fn upgrade(&self) -> Option<JobTable> {
        self.0.upgrade().map(JobTable)
    }
}

#[cfg(test)]
mod tests;
