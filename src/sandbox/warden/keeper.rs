//! The warden's care for its jobs: starts them, gathers their output, holds their time limits, ends
//! them, and says that one has ended only when its init was waited for.
//!
//! Nothing here blocks on a job of the strong tier. Never here: the engine's socket (`server`).

use std::collections::{HashSet, VecDeque};
use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::descent;
use super::super::identity::ProcessId;
use super::super::jail::{
    self, Filters, Group, KILL, Material, PROVEN, Report, Scratch, Sockets, TERMINATE,
};
use super::super::live::Feed;
use super::super::overlay::OverlayKind;
use super::super::tier::Tier;
use super::feed::take_reports;
use super::input::Input;
use super::meter::{Found, Meter};
use super::output::Output;
use super::pipes::{Side, null, pipe};
use super::proto::{Reply, Request, WireError, WireSpec, WireStatus};
use super::realm;
use super::table::{Cause, Entry, Kept, Reaped, Table, Waiting};

/// Time between the request to end and the kill (contract R9).
const GRACE: Duration = Duration::from_secs(2);
/// How long the init of a weaker tier may take to end its job, longer than it tries: then the warden
/// does it.
const TRUST: Duration = Duration::from_secs(25);
/// How long the death of killed jobs is waited for before they are named as survivors.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most output that is kept, whatever the job's limit: it has to fit into one frame.
const MAX_OUTPUT: usize = 256 << 20;
/// With less than so many bytes left on a disk a job is ended even if it holds nothing that can be seen.
const EMERGENCY: u64 = 64 << 20;
/// Read at once.
const CHUNK: usize = 64 << 10;

/// Something to say to the engine.
pub(super) struct Message {
    /// What.
    pub reply: Reply,
    /// A job's output.
    pub payload: Vec<u8>,
    /// Open files that go with it.
    pub files: Vec<OwnedFd>,
}

/// An overlay to mount.
struct Wanted<'a> {
    id: u64,
    kind: Option<OverlayKind>,
    lower: &'a [OsString],
    dir: &'a Path,
    memory: Option<u64>,
}

/// The jobs, and what is to be said of them to the engine.
pub(super) struct Keeper {
    /// The jobs.
    pub table: Table,
    /// Replies that wait for being sent.
    pub replies: Vec<Message>,
    /// The warden's own namespaces, or why there are none.
    realm: Result<OverlayKind, String>,
    namespaced: Result<Filters, String>,
    unconnected: Result<Filters, String>,
}

impl Keeper {
    /// Without jobs. Compiles the filters that every job shares, and tidies up after dead wardens.
    pub(super) fn new() -> Self {
        jail::sweep();
        Self {
            table: Table::default(),
            replies: Vec::new(),
            realm: realm::enter(),
            namespaced: Filters::compile(Sockets::Namespaced),
            unconnected: Filters::compile(Sockets::None),
        }
    }

    pub(super) fn reply(&mut self, reply: Reply, payload: Vec<u8>) {
        self.replies.push(Message { reply, payload, files: Vec::new() });
    }

    /// Does what the engine asks for.
    pub(super) fn handle(
        &mut self,
        request: Request,
        payload: Vec<u8>,
        arrived: &mut VecDeque<OwnedFd>,
    ) {
        match request {
            Request::Run { id, tier, spec } => {
                let label = spec.label.clone();
                let channel = if spec.channel { arrived.pop_front() } else { None };
                if let Err(step) = self.start(id, tier, spec, (payload, channel)) {
                    let step = if label.is_empty() { step } else { format!("{label}: {step}") };
                    self.reply(Reply::Failed { id, error: WireError::Setup(step) }, Vec::new());
                }
            }
            Request::Stop { id, force } => self.stop(id, force, Cause::Killed),
            Request::EndToken { id, token } => self.end_token(id, token),
            Request::EndJob { id, job } => self.end_job(id, job),
            Request::Feed { id, job, what } => self.feed(id, job, what, payload),
            Request::Allow { job, bytes } => {
                // One that has ended wrote all that it could.
                self.table.jobs.entry(job).and_modify(|entry| entry.allow(bytes));
            }
            Request::Mount { id, kind, lower, dir, memory } => {
                self.mount(Wanted { id, kind, lower: &lower, dir: dir.as_ref(), memory });
            }
            Request::Unmount { dir, memory } => jail::unmount_overlay(dir.as_ref(), memory),
        }
    }

    /// Mounts an overlay in the warden's own namespaces, or for a trial in others.
    fn mount(&mut self, wanted: Wanted<'_>) {
        let Wanted { id, kind, lower, dir, memory } = wanted;
        let mounted = match (kind, &self.realm) {
            (Some(kind), own) if *own != Ok(kind) => {
                realm::mount_apart(kind, lower, dir, memory).map(|files| (kind, files))
            }
            (_, own) => own.clone().and_then(|own| {
                let user = own == OverlayKind::User;
                Ok((own, jail::mount_overlay(lower, dir, memory, user)?.into()))
            }),
        };
        match mounted {
            Ok((kind, files)) => {
                let reply = Reply::Mounted { id, kind };
                self.replies.push(Message { reply, payload: Vec::new(), files });
            }
            Err(step) => self.reply(Reply::NotMounted { id, step }, Vec::new()),
        }
    }

    fn start(
        &mut self,
        id: u64,
        tier: Tier,
        mut spec: WireSpec,
        (stdin, channel): (Vec<u8>, Option<OwnedFd>),
    ) -> Result<(), String> {
        if spec.channel != channel.is_some() {
            return Err("its channel did not arrive".into());
        }
        if self.table.ended_tokens.contains(&spec.token) {
            return Err("its run token has ended".into());
        }
        let scratch = match tier {
            Tier::Namespaces => None,
            Tier::Landlock | Tier::None => Some(Scratch::prepare(&mut spec, id)?),
        };
        let confined = tier == Tier::Namespaces || spec.host_network;
        let filters = if confined { &self.namespaced } else { &self.unconnected };
        let filters = filters.as_ref().map_err(Clone::clone)?;
        let (output_pipe, output) = match spec.feed {
            // The job's init opens its terminal, and hands the master over.
            Feed::Terminal(_) => {
                (None, null().map_err(|error| format!("open /dev/null: {error}"))?)
            }
            _ => pipe(Side::Reads).map(|(ours, theirs)| (Some(ours), theirs))?,
        };
        let (stdin, input) = Input::of(stdin, spec.feed)?;
        let group = Group::make(&spec, id);
        let meter = Meter::of(&spec, scratch.as_ref().map(Scratch::path));
        let material =
            Material { spec: &spec, tier, group: &group, filters, stdin, output, channel };
        let running = jail::spawn(material)?;
        if let Some(process) = ProcessId::of(running.pid.as_raw_nonzero().get()) {
            self.reply(Reply::Started { id, process }, Vec::new());
        }
        let started = Instant::now();
        let entry = Entry {
            token: spec.token,
            label: spec.label,
            tier,
            running,
            output: match spec.live {
                true => Kept::Live(Vec::new()),
                false => Kept::Here(Output::new(spec.output_bytes.min(MAX_OUTPUT))),
            },
            output_pipe,
            credit: spec.credit,
            input,
            started,
            // A limit too large for the clock is none.
            deadline: started.checked_add(spec.wall).unwrap_or(started + GRACE * 1_000_000),
            kill_at: None,
            killed: false,
            cause: None,
            meter,
            report: None,
            _scratch: scratch,
            group,
        };
        self.table.jobs.insert(id, entry);
        Ok(())
    }

    fn stop(&mut self, id: u64, force: bool, cause: Cause) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        entry.cause.get_or_insert(cause);
        if force {
            match entry.killed {
                false => kill(entry),
                true => kill_without_init(entry),
            }
            entry.killed = true;
            entry.kill_at = Some(Instant::now() + TRUST);
        } else if entry.kill_at.is_none() {
            let _ = rustix::net::send(&entry.running.control, TERMINATE, SendFlags::NOSIGNAL);
            entry.kill_at = Some(Instant::now() + GRACE);
        }
    }

    fn end_token(&mut self, request: u64, token: String) {
        let open: HashSet<u64> = self.table.of_token(&token).into_iter().collect();
        self.table.ended_tokens.insert(token);
        for &id in &open {
            self.stop(id, true, Cause::Killed);
        }
        self.wait_for(request, open);
    }

    /// Ends one job; that it is over already is no error.
    fn end_job(&mut self, request: u64, job: u64) {
        let open = self.table.jobs.contains_key(&job).then_some(job).into_iter().collect();
        self.stop(job, false, Cause::Killed);
        self.wait_for(request, open);
    }

    fn wait_for(&mut self, request: u64, open: HashSet<u64>) {
        let deadline = Instant::now() + PATIENCE;
        self.table.waiting.push(Waiting { request, open, killed: 0, strays: Vec::new(), deadline });
        // What has nothing to wait for is answered at once.
        let done = self.table.gone(0, &[]);
        self.answer_waits(done);
    }

    fn answer_waits(&mut self, done: Vec<(u64, Reaped)>) {
        for (id, Reaped { killed, survivors }) in done {
            self.reply(Reply::TokenEnded { id, killed, survivors }, Vec::new());
        }
    }

    /// Reads what a job has written.
    pub(super) fn read_output(&mut self, id: u64) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        let most = entry.credit.map_or(CHUNK, |left| left.min(CHUNK as u64) as usize);
        let read = gather(entry, most, 1);
        entry.credit = entry.credit.map(|left| left.saturating_sub(read as u64));
        if let Some(bytes) = entry.output.take() {
            self.reply(Reply::Output { id }, bytes);
        }
    }

    /// Writes to a job what it can take.
    pub(super) fn write_input(&mut self, id: u64) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        // That the job closed its standard input is its own affair.
        let _ = entry.input.write();
    }

    /// Takes what a job's init says.
    pub(super) fn read_control(&mut self, id: u64) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        take_reports(entry);
    }

    /// The job's init is dead: waits for it, reads the rest, and tells the engine.
    pub(super) fn finish(&mut self, id: u64) {
        let Some(mut entry) = self.table.jobs.remove(&id) else { return };
        let waited = rustix::process::waitpid(Some(entry.running.pid), WaitOptions::empty());
        let ended = waited.ok().flatten().map(|(_, status)| status);
        let signal = ended.and_then(|status| status.terminating_signal());
        let proven = entry.tier == Tier::Namespaces
            || ended.and_then(|status| status.exit_status()) == Some(PROVEN);
        let strays = if proven { Vec::new() } else { self.kill_strays(&entry) };
        take_reports(&mut entry);
        // What is left in the pipe comes, allowed or not: it is no more than a pipe holds.
        gather(&mut entry, CHUNK, usize::MAX);
        if let Some(bytes) = entry.output.take() {
            self.reply(Reply::Output { id }, bytes);
        }
        let micros = u64::try_from(entry.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        match status(&entry, signal) {
            Ok(status) => {
                let (kept, dropped) = entry.output.finish();
                self.reply(Reply::Ended { id, status, dropped, micros }, kept);
            }
            Err(error) => self.reply(Reply::Failed { id, error }, Vec::new()),
        }
        let done = self.table.gone(id, &strays);
        self.answer_waits(done);
    }

    /// Kills children of the warden that are no job's init: what the init of a weaker tier left when
    /// its own job killed it. Answers what is still alive.
    fn kill_strays(&self, entry: &Entry) -> Vec<String> {
        entry.group.forbid_forks();
        let me = rustix::process::getpid();
        let inits: HashSet<Pid> = self.table.jobs.values().map(|entry| entry.running.pid).collect();
        let alive = descent::kill_below(me, &inits, descent::PATIENCE);
        alive.iter().map(|pid| format!("{} (process {pid})", entry.label)).collect()
    }

    /// Ends what is over its time, and names what does not die.
    pub(super) fn hold_deadlines(&mut self) {
        let now = Instant::now();
        let due = |entry: &Entry| entry.kill_at.unwrap_or(entry.deadline) <= now;
        let ids: Vec<u64> =
            self.table.jobs.iter().filter(|(_, entry)| due(entry)).map(|(id, _)| *id).collect();
        for id in ids {
            let asked = self.table.jobs.get(&id).is_some_and(|entry| entry.kill_at.is_some());
            self.stop(id, asked, Cause::TimedOut);
        }
        let done = self.table.overdue(now);
        self.answer_waits(done);
    }

    /// Looks at what one job has written, of those that are due: a walk is finished before the next
    /// begins.
    pub(super) fn measure(&mut self) {
        let now = Instant::now();
        let due = |entry: &Entry| entry.meter.as_ref().map(Meter::due).filter(|due| *due <= now);
        let jobs = self.table.jobs.iter().filter(|(_, entry)| entry.cause.is_none());
        let next = jobs.filter_map(|(&id, entry)| Some((due(entry)?, id))).min();
        let Some((_, id)) = next else { return };
        let meter = self.table.jobs.get_mut(&id).and_then(|entry| entry.meter.as_mut());
        let Some(meter) = meter else { return };
        match meter.look(now) {
            Found::Fine => {}
            Found::Over => {
                let cause = Cause::Disk { held: meter.held(), left: None };
                self.stop(id, true, cause);
            }
            Found::Low(left) => self.make_room(left),
        }
    }

    /// Ends the job that holds most, one at a time: what it held goes with its tree.
    fn make_room(&mut self, left: u64) {
        let ending = |entry: &Entry| matches!(entry.cause, Some(Cause::Disk { .. }));
        if self.table.jobs.values().any(ending) {
            return;
        }
        let held =
            |(&id, entry): (&u64, &Entry)| Some((entry.meter.as_ref()?.held(), entry.started, id));
        // What holds nothing that can be seen may hold files without a name.
        if let Some((held, _, id)) = self.table.jobs.iter().filter_map(held).max()
            && (held > 0 || left < EMERGENCY)
        {
            self.stop(id, true, Cause::Disk { held, left: Some(left) });
        }
    }

    /// Kills every job and waits for that: the engine is gone.
    pub(super) fn kill_everything(&mut self) {
        for entry in self.table.jobs.values() {
            kill(entry);
        }
        let deadline = Instant::now() + TRUST;
        for (_, entry) in self.table.jobs.drain() {
            if !has_ended_by(&entry, deadline) {
                kill_without_init(&entry);
            }
            let _ = rustix::process::waitpid(Some(entry.running.pid), WaitOptions::empty());
        }
        descent::kill_below(rustix::process::getpid(), &HashSet::new(), descent::PATIENCE);
    }
}

/// Kills a job. In the strong tier the kernel kills all of it with its init; in the weaker tiers only
/// the init can prove that nothing is left.
fn kill(entry: &Entry) {
    if entry.tier == Tier::Namespaces {
        let _ = rustix::process::pidfd_send_signal(&entry.running.pidfd, Signal::KILL);
    } else {
        entry.group.forbid_forks();
        let _ = rustix::net::send(&entry.running.control, KILL, SendFlags::NOSIGNAL);
    }
}

/// Kills a job whose init does not answer: it may have been stopped by its own job.
fn kill_without_init(entry: &Entry) {
    if entry.tier != Tier::Namespaces {
        descent::kill_below(entry.running.pid, &HashSet::new(), descent::PATIENCE);
    }
    let _ = rustix::process::pidfd_send_signal(&entry.running.pidfd, Signal::KILL);
}

/// Waits for the end of a job's init; false when it has not come by `deadline`.
fn has_ended_by(entry: &Entry, deadline: Instant) -> bool {
    loop {
        let mut fds = [PollFd::from_borrowed_fd(entry.running.pidfd.as_fd(), PollFlags::IN)];
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec {
            tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        match rustix::event::poll(&mut fds, Some(&left)) {
            Err(Errno::INTR) => {}
            answer => return answer == Ok(1),
        }
    }
}

/// How a job ended, from what its init said and from the signal that ended the init, if one did.
fn status(entry: &Entry, signal: Option<i32>) -> Result<WireStatus, WireError> {
    match (&entry.report, entry.cause) {
        (_, Some(Cause::TimedOut)) => Ok(WireStatus::TimedOut),
        (_, Some(Cause::Disk { held, left })) => Ok(WireStatus::DiskLimit { held, left }),
        (_, Some(Cause::Killed)) => Ok(WireStatus::Killed),
        (Some(Report::Failed(error)), None) => Err(error.clone()),
        (Some(Report::Exited(code)), None) => Ok(WireStatus::Exited(*code)),
        (Some(Report::Signalled(signal)), None) => Ok(WireStatus::Signalled(*signal)),
        (Some(Report::Terminal), None) => {
            Err(WireError::Setup("the job's init said nothing of its end".into()))
        }
        // From outside, or for want of memory: a job of the strong tier can't do that to itself.
        (None, None) => signal
            .map(WireStatus::Signalled)
            .ok_or_else(|| WireError::Setup("the job's init ended unexpectedly".into())),
    }
}

/// Reads at most `chunks` chunks of output of at most `most` bytes, as far as there is any; gives how much it was.
fn gather(entry: &mut Entry, most: usize, chunks: usize) -> usize {
    let mut read = 0;
    let Some(pipe) = &entry.output_pipe else { return read };
    let mut chunk = vec![0; most];
    for _ in 0..chunks {
        match rustix::io::read(pipe, &mut chunk) {
            // A terminal whose other side is closed says so by an error (contract R18).
            Ok(0) | Err(Errno::IO) => {
                entry.output_pipe = None;
                return read;
            }
            Ok(length) => {
                entry.output.push(&chunk[..length]);
                read += length;
            }
            Err(Errno::INTR) => {}
            Err(_) => return read,
        }
    }
    read
}
