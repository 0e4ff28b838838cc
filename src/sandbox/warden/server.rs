//! The warden's loop: one thread, one `poll`, the engine's socket. It ends when that socket ends, and
//! never blocks on the engine. Never here: how a job is started or ended (`keeper`).

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::files;
use super::keeper::{Keeper, Message};
use super::pipes::null;
use super::proto::{self, Request};
use super::table::Kept;

/// Read at once.
const CHUNK: usize = 64 << 10;
/// With so much waiting for the engine, live jobs are not read: they wait, too.
const BACKLOG: usize = 4 << 20;

/// Runs the warden on its standard input, which is the engine's socket, until that ends.
pub(crate) fn serve() -> ExitCode {
    let Ok(mut server) = Server::new() else { return ExitCode::from(4) };
    while server.turn().is_ok() {}
    server.keeper.kill_everything();
    ExitCode::SUCCESS
}

struct Server {
    engine: OwnedFd,
    received: Vec<u8>,
    arrived: VecDeque<OwnedFd>,
    to_send: VecDeque<Frame>,
    keeper: Keeper,
}

/// What is left of a frame to be sent, and the open files that go with its first byte.
struct Frame {
    bytes: VecDeque<u8>,
    files: Vec<OwnedFd>,
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
            arrived: VecDeque::new(),
            to_send: VecDeque::new(),
            keeper: Keeper::new(),
        })
    }

    /// Waits for something to happen and handles it.
    fn turn(&mut self) -> Result<(), Over> {
        for (source, events) in self.wait() {
            match source {
                Source::Engine => self.speak(events)?,
                Source::Output(id) => self.keeper.read_output(id),
                Source::Input(id) => self.keeper.write_input(id),
                Source::Control(id) => self.keeper.read_control(id),
                Source::End(id) => self.keeper.finish(id),
            }
        }
        self.keeper.hold_deadlines();
        self.keeper.measure();
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
        let choked = self.to_send.iter().map(|frame| frame.bytes.len()).sum::<usize>() > BACKLOG;
        for (&id, job) in &self.keeper.table.jobs {
            let waits = job.is_held() || (choked && matches!(job.output, Kept::Live(_)));
            let output = job.output_pipe.as_ref().filter(|_| !waits);
            let entries: [(Source, Option<BorrowedFd<'_>>, PollFlags); 4] = [
                (Source::Output(id), output.map(AsFd::as_fd), PollFlags::IN),
                (Source::Input(id), job.input.wants(), PollFlags::OUT),
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
        let due = self.keeper.table.next_due(Instant::now()).map(|due| Timespec {
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
            // The socket does not block.
            match files::receive(&self.engine, &mut chunk, &mut self.arrived) {
                Ok(0) => return Err(Over),
                Ok(length) => self.received.extend(&chunk[..length]),
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return Err(Over),
            }
        }
        while let Some((request, payload)) =
            proto::decode::<Request>(&mut self.received).map_err(|_| Over)?
        {
            self.keeper.handle(request, payload, &mut self.arrived);
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Over> {
        for Message { reply, payload, files } in self.keeper.replies.drain(..) {
            let bytes = proto::encode(&reply, &payload).map_err(|_| Over)?.into();
            self.to_send.push_back(Frame { bytes, files });
        }
        while let Some(frame) = self.to_send.front_mut() {
            match frame.send(&self.engine) {
                Ok(()) if frame.bytes.is_empty() => drop(self.to_send.pop_front()),
                Ok(()) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => return Err(Over),
            }
        }
        Ok(())
    }
}

impl Frame {
    /// Sends as much as the engine's socket takes.
    fn send(&mut self, engine: &OwnedFd) -> rustix::io::Result<()> {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let length = files::send(engine, self.bytes.as_slices().0, &self.files, flags)?;
        self.bytes.drain(..length);
        self.files.clear();
        Ok(())
    }
}
