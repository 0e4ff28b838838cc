//! The warden's loop: one thread, one `poll`, every spawn.
//!
//! It reads requests, starts jobs, gathers their output, holds their time limits, and says that a job
//! has ended only when its init was waited for. It ends when the engine's socket ends. It never
//! blocks on a job or on the engine.

use std::collections::{HashSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::descent;
use super::super::jail::{self, Filters, Material, Report, Running, Scratch, Sockets, TERMINATE};
use super::super::tier::Tier;
use super::output::Output;
use super::proto::{self, Reply, Request, WireError, WireSpec, WireStatus};
use super::table::{Cause, Entry, Reaped, Table, Waiting};

/// Time between the request to end and the kill (contract R9).
const GRACE: Duration = Duration::from_secs(2);
/// How long the death of killed jobs is waited for before they are named as survivors.
const PATIENCE: Duration = Duration::from_secs(10);
/// Read at once.
const CHUNK: usize = 64 << 10;

/// Runs the warden on its standard input, which is the engine's socket, until that ends.
pub(crate) fn serve() -> ExitCode {
    let Ok(mut server) = Server::new() else { return ExitCode::from(4) };
    while server.turn().is_ok() {}
    server.kill_everything();
    ExitCode::SUCCESS
}

struct Server {
    engine: OwnedFd,
    received: Vec<u8>,
    to_send: VecDeque<u8>,
    table: Table,
    namespaced: Result<Filters, String>,
    unconnected: Result<Filters, String>,
}

/// The engine is gone, or speaks nonsense.
struct Over;

/// What a polled descriptor belongs to.
#[derive(Clone, Copy)]
enum Source {
    Engine,
    Output(u64),
    Input(u64),
    Control(u64),
    End(u64),
}

impl Server {
    fn new() -> rustix::io::Result<Self> {
        let engine = rustix::io::fcntl_dupfd_cloexec(std::io::stdin(), 3)?;
        rustix::io::ioctl_fionbio(&engine, true)?;
        // A job's init inherits the standard descriptors: the engine's socket must not be one.
        super::super::sys::put_at(null()?, 0)?;
        // Orphans of a weaker tier come here when their init died.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        Ok(Self {
            engine,
            received: Vec::new(),
            to_send: VecDeque::new(),
            table: Table::default(),
            namespaced: Filters::compile(Sockets::Namespaced),
            unconnected: Filters::compile(Sockets::None),
        })
    }

    /// Waits for something to happen and handles it.
    fn turn(&mut self) -> Result<(), Over> {
        for (source, events) in self.wait() {
            match source {
                Source::Engine => self.speak(events)?,
                Source::Output(id) => self.read_output(id),
                Source::Input(id) => self.write_input(id),
                Source::Control(id) => self.read_control(id),
                Source::End(id) => self.finish(id),
            }
        }
        self.hold_deadlines();
        self.flush()
    }

    fn wait(&self) -> Vec<(Source, PollFlags)> {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        let mut add = |source, fd, events| {
            sources.push(source);
            fds.push(PollFd::from_borrowed_fd(fd, events));
        };
        let sending = if self.to_send.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        add(Source::Engine, self.engine.as_fd(), PollFlags::IN | sending);
        for (&id, job) in &self.table.jobs {
            let entries: [(Source, Option<BorrowedFd<'_>>, PollFlags); 4] = [
                (Source::Output(id), job.output_pipe.as_ref().map(AsFd::as_fd), PollFlags::IN),
                (Source::Input(id), job.input.as_ref().map(|(fd, _)| fd.as_fd()), PollFlags::OUT),
                (
                    Source::Control(id),
                    job.report.is_none().then(|| job.running.control.as_fd()),
                    PollFlags::IN,
                ),
                (Source::End(id), Some(job.running.pidfd.as_fd()), PollFlags::IN),
            ];
            for (source, fd, events) in entries {
                if let Some(fd) = fd {
                    add(source, fd, events);
                }
            }
        }
        let due = self.table.next_due(Instant::now()).map(|due| Timespec {
            tv_sec: due.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: due.subsec_nanos().into(),
        });
        if rustix::event::poll(&mut fds, due.as_ref()).is_err() {
            return Vec::new();
        }
        let ready = sources.into_iter().zip(fds.iter().map(PollFd::revents));
        ready.filter(|(_, events)| !events.is_empty()).collect()
    }

    fn speak(&mut self, events: PollFlags) -> Result<(), Over> {
        if events == PollFlags::OUT {
            return Ok(());
        }
        let mut chunk = vec![0; CHUNK];
        loop {
            match rustix::net::recv(&self.engine, &mut chunk[..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Over),
                Ok((_, length)) => self.received.extend(&chunk[..length]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Over),
            }
        }
        while let Some((request, payload)) =
            proto::decode::<Request>(&mut self.received).map_err(|_| Over)?
        {
            self.handle(request, payload);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Over> {
        while !self.to_send.is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match rustix::net::send(&self.engine, self.to_send.as_slices().0, flags) {
                Ok(length) => drop(self.to_send.drain(..length)),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Over),
            }
        }
        Ok(())
    }

    fn reply(&mut self, reply: &Reply, payload: &[u8]) {
        if let Ok(frame) = proto::encode(reply, payload) {
            self.to_send.extend(frame);
        }
    }

    fn handle(&mut self, request: Request, payload: Vec<u8>) {
        match request {
            Request::Run { id, tier, spec } => {
                let label = spec.label.clone();
                if let Err(step) = self.start(id, tier, spec, payload) {
                    let step = if label.is_empty() { step } else { format!("{label}: {step}") };
                    self.reply(&Reply::Failed { id, error: WireError::Setup(step) }, &[]);
                }
            }
            Request::Stop { id, force } => self.stop(id, force, Cause::Killed),
            Request::EndToken { id, token } => self.end_token(id, token),
        }
    }

    fn start(
        &mut self,
        id: u64,
        tier: Tier,
        mut spec: WireSpec,
        stdin: Vec<u8>,
    ) -> Result<(), String> {
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
        let (output_pipe, output) = pipe(Side::Reads).map_err(no_pipe)?;
        let (stdin, input) = input_of(stdin).map_err(no_pipe)?;
        let running = jail::spawn(Material { spec: &spec, tier, filters, stdin, output })?;
        let started = Instant::now();
        let entry = Entry {
            token: spec.token,
            label: spec.label,
            tier,
            running,
            output: Output::new(spec.output_bytes),
            output_pipe: Some(output_pipe),
            input,
            started,
            // A limit too large for the clock is none.
            deadline: started.checked_add(spec.wall).unwrap_or(started + GRACE * 1_000_000),
            kill_at: None,
            cause: None,
            report: None,
            _scratch: scratch,
        };
        self.table.jobs.insert(id, entry);
        Ok(())
    }

    fn stop(&mut self, id: u64, force: bool, cause: Cause) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        entry.cause.get_or_insert(cause);
        if force {
            kill(entry.tier, &entry.running);
            entry.kill_at = Some(Instant::now() + PATIENCE);
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
        let deadline = Instant::now() + PATIENCE;
        self.table.waiting.push(Waiting { request, open, killed: 0, deadline });
        // A token without jobs is answered at once.
        let done = self.table.gone(0);
        self.answer_waits(done);
    }

    fn answer_waits(&mut self, done: Vec<(u64, Reaped)>) {
        for (id, Reaped { killed, survivors }) in done {
            self.reply(&Reply::TokenEnded { id, killed, survivors }, &[]);
        }
    }

    fn read_output(&mut self, id: u64) {
        if let Some(entry) = self.table.jobs.get_mut(&id) {
            gather(entry, 1);
        }
    }

    fn write_input(&mut self, id: u64) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        let Some((pipe, bytes)) = &mut entry.input else { return };
        match rustix::io::write(pipe, bytes.as_slices().0) {
            Ok(length) => drop(bytes.drain(..length)),
            Err(Errno::AGAIN | Errno::INTR) => return,
            // The job closed its standard input: that is its own affair.
            Err(_) => bytes.clear(),
        }
        if bytes.is_empty() {
            entry.input = None;
        }
    }

    fn read_control(&mut self, id: u64) {
        let Some(entry) = self.table.jobs.get_mut(&id) else { return };
        take_report(entry);
    }

    /// The job's init is dead: waits for it, reads the rest, and tells the engine.
    fn finish(&mut self, id: u64) {
        let Some(mut entry) = self.table.jobs.remove(&id) else { return };
        let _ = rustix::process::waitpid(Some(entry.running.pid), WaitOptions::empty());
        if entry.tier != Tier::Namespaces {
            self.kill_strays();
        }
        take_report(&mut entry);
        gather(&mut entry, usize::MAX);
        let micros = u64::try_from(entry.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        match status(&entry) {
            Ok(status) => {
                let (kept, dropped) = entry.output.finish();
                self.reply(&Reply::Ended { id, status, dropped, micros }, &kept);
            }
            Err(error) => self.reply(&Reply::Failed { id, error }, &[]),
        }
        let done = self.table.gone(id);
        self.answer_waits(done);
    }

    /// Kills children of the warden that are no job's init: what a dead init of a weaker tier left.
    fn kill_strays(&self) {
        let me = rustix::process::getpid();
        let inits: HashSet<Pid> = self.table.jobs.values().map(|entry| entry.running.pid).collect();
        let strays = || descent::below_except(me, &inits);
        descent::kill_until_gone(strays, descent::PATIENCE);
    }

    fn hold_deadlines(&mut self) {
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

    fn kill_everything(&mut self) {
        for entry in self.table.jobs.values() {
            kill(entry.tier, &entry.running);
        }
        for (_, entry) in self.table.jobs.drain() {
            let _ = rustix::process::waitpid(Some(entry.running.pid), WaitOptions::empty());
        }
        descent::kill_below(rustix::process::getpid(), descent::PATIENCE);
    }
}

/// Kills a job. In the strong tier the kernel kills all of it with its init.
fn kill(tier: Tier, running: &Running) {
    if tier != Tier::Namespaces {
        descent::kill_below(running.pid, descent::PATIENCE);
    }
    let _ = rustix::process::pidfd_send_signal(&running.pidfd, Signal::KILL);
}

fn take_report(entry: &mut Entry) {
    let mut packet = vec![0; CHUNK];
    let got = rustix::net::recv(&entry.running.control, &mut packet[..], RecvFlags::DONTWAIT);
    if let Ok((_, length)) = got
        && length > 0
    {
        entry.report = serde_json::from_slice(&packet[..length]).ok();
    }
}

fn status(entry: &Entry) -> Result<WireStatus, WireError> {
    match (&entry.report, entry.cause) {
        (Some(Report::Failed(error)), _) => Err(error.clone()),
        (_, Some(Cause::TimedOut)) => Ok(WireStatus::TimedOut),
        (_, Some(Cause::Killed)) => Ok(WireStatus::Killed),
        (Some(Report::Exited(code)), None) => Ok(WireStatus::Exited(*code)),
        (Some(Report::Signalled(signal)), None) => Ok(WireStatus::Signalled(*signal)),
        (None, None) => Err(WireError::Setup("the job's init ended unexpectedly".into())),
    }
}

/// Reads at most `chunks` chunks of output, as far as there is any.
fn gather(entry: &mut Entry, chunks: usize) {
    let Some(pipe) = &entry.output_pipe else { return };
    let mut chunk = vec![0; CHUNK];
    for _ in 0..chunks {
        match rustix::io::read(pipe, &mut chunk) {
            Ok(0) => return entry.output_pipe = None,
            Ok(length) => entry.output.push(&chunk[..length]),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

/// Which end of a pipe is the warden's, and so must not block.
enum Side {
    Reads,
    Writes,
}

/// A pipe: the warden's end first.
fn pipe(side: Side) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (ours, theirs) = match side {
        Side::Reads => (read, write),
        Side::Writes => (write, read),
    };
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

type Input = Option<(OwnedFd, VecDeque<u8>)>;

/// The standard input of a job, and what is to be written to it.
fn input_of(bytes: Vec<u8>) -> rustix::io::Result<(OwnedFd, Input)> {
    if bytes.is_empty() {
        return Ok((null()?, None));
    }
    let (ours, theirs) = pipe(Side::Writes)?;
    Ok((theirs, Some((ours, bytes.into()))))
}

fn null() -> rustix::io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn no_pipe(error: Errno) -> String {
    format!("make a pipe: {error}")
}
