//! The job's init: process 1 of the job's namespace.
//!
//! It sets the view up, forks for the program, reaps, passes a request to end on, and reports how
//! the program ended. It dies with the warden (parent-death signal, and the end of the control
//! socket), and the kernel kills every process of the namespace with it. In the weaker tiers it is
//! only a subreaper: it stays until it has ended the job's processes, whoever asked for that, and
//! outlives a dead warden for as long as that takes. Never here: output, time limits.

use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::{PollFd, PollFlags};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, WaitOptions};

use super::super::descent;
use super::super::live::Feed;
use super::super::sys;
use super::super::tier::Tier;
use super::super::warden::files;
use super::super::warden::proto::{WireError, WireSpec};
use super::terminal::Terminal;
use super::view::{AtStep, ViewPlan};
use super::{GO, KILL, Material, PROVEN, Report, limits, start, view};

/// Runs as the init, in a process that was just forked. Never returns.
pub(super) fn main(material: Material<'_>, control: OwnedFd, user_namespace: bool) -> ! {
    // A panic must not unwind into the warden's copy of its own loop.
    let run = std::panic::AssertUnwindSafe(|| run(material, control, user_namespace));
    let code = std::panic::catch_unwind(run).unwrap_or(70);
    sys::exit_now(code)
}

/// What the parts of the init share.
pub(super) struct Init<'a> {
    pub spec: &'a WireSpec,
    pub tier: Tier,
    pub filters: &'a super::Filters,
    pub control: OwnedFd,
}

fn run(material: Material<'_>, control: OwnedFd, user_namespace: bool) -> i32 {
    let Material { spec, tier, filters, stdin, output, channel, .. } = material;
    let kept = [control, stdin, output].into_iter().chain(channel).collect();
    let Ok(kept) = sys::keep_only(kept) else { return 71 };
    let mut kept = kept.into_iter();
    let (Some(control), Some(stdin), Some(output)) = (kept.next(), kept.next(), kept.next()) else {
        return 71;
    };
    let channel = kept.next();
    if tier == Tier::Namespaces {
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    }
    let init = Init { spec, tier, filters, control };
    if !init.released() {
        return 0;
    }
    match init.set_up(user_namespace).map_err(WireError::Setup).and_then(|()| {
        let events = sys::child_events().at_step("watch children").map_err(WireError::Setup)?;
        let terminal = init.terminal().map_err(WireError::Setup)?;
        let streams = match &terminal {
            None => start::Streams {
                stdin: &stdin,
                output: &output,
                channel: channel.as_ref(),
                terminal: None,
            },
            Some((side, path)) => start::Streams {
                stdin: side,
                output: side,
                channel: channel.as_ref(),
                terminal: Some(path),
            },
        };
        let program = start::fork_program(&init, &streams)?;
        Ok((events, program, terminal))
    }) {
        Ok((events, program, _terminal)) => {
            drop((stdin, output, channel));
            init.serve(&events, program)
        }
        Err(error) => {
            init.report(&Report::Failed(error));
            72
        }
    }
}

impl Init<'_> {
    /// Waits until the warden has mapped the ids; false when the warden is gone.
    fn released(&self) -> bool {
        let mut word = [0; 8];
        let got = rustix::net::recv(&self.control, &mut word[..], RecvFlags::empty());
        matches!(got, Ok((_, length)) if word.get(..length) == Some(GO))
    }

    fn set_up(&self, user_namespace: bool) -> Result<(), String> {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
        if self.tier != Tier::Namespaces {
            return rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
                .at_step("become the reaper of the job");
        }
        // From here on no process of the job may look into this one, whose environment is the warden's.
        let hidden = rustix::process::DumpableBehavior::NotDumpable;
        rustix::process::set_dumpable_behavior(hidden).at_step("hide the init")?;
        // Refused to an ordinary user's namespace, whose groups stay without a mapping.
        let _ = rustix::thread::set_thread_groups(&[]);
        rustix::system::sethostname(b"bakeoff").at_step("set the host name")?;
        if !self.spec.host_network {
            loopback_up().at_step("switch the loopback device on")?;
        }
        view::enter(&ViewPlan {
            mounts: &self.spec.mounts,
            user_namespace,
            host_network: self.spec.host_network,
            process_limit: pids_are_limited_by_namespace().then_some(self.spec.processes),
        })
    }

    /// The job's side of its terminal with its name, when it is to have one; the warden gets the other.
    fn terminal(&self) -> Result<Option<(OwnedFd, PathBuf)>, String> {
        let Feed::Terminal(size) = self.spec.feed else { return Ok(None) };
        let Terminal { master, side, path } = Terminal::open(size)?;
        let packet = serde_json::to_vec(&Report::Terminal).at_step("hand the terminal over")?;
        files::send(&self.control, &packet, &[master], SendFlags::NOSIGNAL)
            .at_step("hand the terminal over")?;
        Ok(Some((side, path)))
    }

    /// Reaps until the program has ended, or the warden wants the end.
    fn serve(&self, events: &OwnedFd, program: Pid) -> i32 {
        if self.tier != Tier::None && limits::drop_privileges().is_err() {
            return 73;
        }
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN),
            ];
            let _ = rustix::event::poll(&mut fds, None);
            let wanted = !fds[1].revents().is_empty();
            let mut sink = [0; 1024];
            let _ = rustix::io::read(events, &mut sink);
            if let Some(report) = reap(program) {
                self.report(&report);
                return self.leave();
            }
            if wanted && !self.obey() {
                return self.leave();
            }
        }
    }

    /// Ends the init. In the strong tier that ends the job.
    fn leave(&self) -> i32 {
        if self.tier == Tier::Namespaces || descent::end_children(descent::PATIENCE) {
            PROVEN
        } else {
            74
        }
    }

    /// Takes a word of the warden; false when the warden wants the end or is gone.
    fn obey(&self) -> bool {
        let mut word = [0; 8];
        match rustix::net::recv(&self.control, &mut word[..], RecvFlags::DONTWAIT) {
            Ok((_, 0)) => false,
            Ok((_, length)) if word.get(..length) == Some(KILL) => false,
            Ok(_) => {
                self.terminate();
                true
            }
            Err(error) => matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR),
        }
    }

    /// Asks every process of the job to end; a stopped one is woken to hear it.
    fn terminate(&self) {
        if self.tier == Tier::Namespaces {
            sys::signal_all(libc::SIGTERM);
            sys::signal_all(libc::SIGCONT);
        } else {
            descent::signal_below(rustix::process::getpid(), Signal::TERM);
            descent::signal_below(rustix::process::getpid(), Signal::CONT);
        }
    }

    fn report(&self, report: &Report) {
        if let Ok(packet) = serde_json::to_vec(report) {
            let _ = rustix::net::send(&self.control, &packet, SendFlags::NOSIGNAL);
        }
    }
}

/// Reaps every dead child; answers how the program ended, once it has.
fn reap(program: Pid) -> Option<Report> {
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == program {
            return Some(match status.terminating_signal() {
                Some(signal) => Report::Signalled(signal),
                None => Report::Exited(status.exit_status().unwrap_or(-1)),
            });
        }
    }
    None
}

fn loopback_up() -> rustix::io::Result<()> {
    let socket = rustix::net::socket_with(
        AddressFamily::INET,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    sys::loopback_up(socket.as_fd())
}

/// Since Linux 6.14 `pid_max` belongs to the process namespace. Before that it is the whole
/// machine's and must not be touched.
fn pids_are_limited_by_namespace() -> bool {
    let name = rustix::system::uname();
    let release = name.release().to_string_lossy();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 14))
}
