//! A job's standard input as the warden holds it: what waits to be written, and where.
//!
//! A pipe, or the master of a pseudo terminal. What a terminal may not echo is written with its echo off. Never
//! here: who asks, output.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::pty::OpenptFlags;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Winsize};

use super::super::live::{Feed, InputState, TerminalModes, TerminalSize};
use super::pipes::{Side, null, pipe};
use super::waits::{self, Place};

/// So many bytes may wait for a job to read them.
const MOST_WAITING: usize = 1 << 20;

/// A job's standard input.
#[derive(Debug)]
pub(super) struct Input {
    /// Where it is written; `None` once it is closed, and while a terminal has not come yet.
    to: Option<OwnedFd>,
    kind: Feed,
    pending: VecDeque<Piece>,
    /// No more is taken.
    closed: bool,
    /// Whether a terminal is at the beginning of a line, where its end-of-file character means that.
    fresh_line: bool,
}

/// Bytes that were given at once.
#[derive(Debug)]
struct Piece {
    bytes: VecDeque<u8>,
    /// A terminal's echo is off while they are written.
    hidden: bool,
    /// That was done for them, and the terminal's echo was on.
    echoed: bool,
}

impl Input {
    /// The input of a job, and the end of it that the job gets.
    pub(super) fn of(first: Vec<u8>, kind: Feed) -> Result<(OwnedFd, Self), String> {
        let mut input = Self {
            to: None,
            kind,
            pending: VecDeque::new(),
            closed: kind == Feed::Nothing,
            fresh_line: true,
        };
        let piped = kind == Feed::Pipe || (kind == Feed::Nothing && !first.is_empty());
        let theirs = if piped {
            let (ours, theirs) = pipe(Side::Writes)?;
            input.to = Some(ours);
            theirs
        } else {
            null().map_err(|error| format!("open /dev/null: {error}"))?
        };
        input.push(first, false);
        Ok((theirs, input))
    }

    /// The terminal is there.
    pub(super) fn attach(&mut self, master: OwnedFd) {
        self.to = Some(master);
    }

    /// Where something can be written, when something waits.
    pub(super) fn wants(&self) -> Option<BorrowedFd<'_>> {
        self.to.as_ref().filter(|_| !self.pending.is_empty()).map(AsFd::as_fd)
    }

    /// Takes bytes; they are written as far as the job reads.
    pub(super) fn take(&mut self, bytes: Vec<u8>, hidden: bool) -> Result<(), String> {
        if self.closed {
            return Err("its input is closed".to_owned());
        }
        if self.waiting() + bytes.len() > MOST_WAITING {
            return Err(format!(
                "{} bytes of input wait already for the job to read them, and at most {MOST_WAITING} may",
                self.waiting()
            ));
        }
        self.push(bytes, hidden);
        self.write()
    }

    fn push(&mut self, bytes: Vec<u8>, hidden: bool) {
        if let Some(last) = bytes.last() {
            self.fresh_line = matches!(last, b'\n' | b'\r');
            self.pending.push_back(Piece { bytes: bytes.into(), hidden, echoed: false });
        }
    }

    /// No more comes: what waits is still written.
    pub(super) fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        match self.kind {
            Feed::Terminal(_) => {
                let code = self.to.as_ref().and_then(|fd| rustix::termios::tcgetattr(fd).ok());
                let code = code.map_or(4, |modes| modes.special_codes[SpecialCodeIndex::VEOF]);
                // Within a line the first one only hands the line on.
                let times = if self.fresh_line { 1 } else { 2 };
                self.push(vec![code; times], false);
            }
            _ if self.pending.is_empty() => self.to = None,
            _ => {}
        }
        // What can't be written was for a job that reads no more.
        let _ = self.write();
    }

    /// Writes what the job can take.
    pub(super) fn write(&mut self) -> Result<(), String> {
        let terminal = matches!(self.kind, Feed::Terminal(_));
        while let (Some(to), Some(piece)) = (&self.to, self.pending.front_mut()) {
            if terminal && let Err(error) = piece.darken(to) {
                // Better not written at all than shown.
                self.pending.clear();
                return Err(format!("the terminal's echo can't be switched off: {error}"));
            }
            match rustix::io::write(to, piece.bytes.as_slices().0) {
                Ok(length) => drop(piece.bytes.drain(..length)),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                // The job closed its standard input, or is gone.
                Err(_) => {
                    self.pending.clear();
                    (self.closed, self.to) = (true, None);
                    return Err("the job has closed its input".to_owned());
                }
            }
            if piece.bytes.is_empty() {
                if piece.echoed {
                    lighten(to);
                }
                self.pending.pop_front();
            }
        }
        if self.pending.is_empty() && self.closed && !terminal {
            self.to = None;
        }
        Ok(())
    }

    /// Gives the terminal another size.
    pub(super) fn resize(&self, size: TerminalSize) -> Result<(), String> {
        let (Feed::Terminal(_), Some(master)) = (self.kind, &self.to) else {
            return Err("it has no terminal".to_owned());
        };
        rustix::termios::tcsetwinsize(master, winsize(size))
            .map_err(|error| format!("the terminal can't be given another size: {error}"))
    }

    fn waiting(&self) -> usize {
        self.pending.iter().map(|piece| piece.bytes.len()).sum()
    }

    /// Where the job reads it.
    pub(super) fn place(&self) -> Option<Place> {
        let end = self.to.as_ref()?.as_fd();
        match self.kind {
            Feed::Terminal(_) => waits::side(end),
            _ => Place::of(end),
        }
    }

    /// How it stands.
    pub(super) fn state(&self) -> InputState {
        let terminal = match (self.kind, &self.to) {
            (Feed::Terminal(_), Some(master)) => rustix::termios::tcgetattr(master).ok(),
            _ => None,
        };
        let modes = terminal.map(|modes| TerminalModes {
            echo: modes.local_modes.contains(LocalModes::ECHO),
            canonical: modes.local_modes.contains(LocalModes::ICANON),
        });
        InputState {
            open: !self.closed,
            terminal: modes,
            waiting: self.waiting() as u64,
            awaited: None,
        }
    }
}

impl Piece {
    /// Switches a terminal's echo off before the first hidden byte is written.
    fn darken(&mut self, master: &OwnedFd) -> rustix::io::Result<()> {
        if !self.hidden {
            return Ok(());
        }
        let mut modes = rustix::termios::tcgetattr(master)?;
        if modes.local_modes.contains(LocalModes::ECHO) {
            modes.local_modes.remove(LocalModes::ECHO);
            rustix::termios::tcsetattr(master, OptionalActions::Now, &modes)?;
            self.echoed = true;
        }
        Ok(())
    }
}

/// Switches the echo on again that was switched off for a piece. The terminal takes what was written in
/// the kernel's own time; a look at the job's side of it waits for that.
fn lighten(master: &OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let Ok(peer) = rustix::pty::ioctl_tiocgptpeer(master, flags) else { return };
    let mut fds = [PollFd::new(&peer, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = rustix::event::poll(&mut fds, Some(&now));
    if let Ok(mut modes) = rustix::termios::tcgetattr(master) {
        modes.local_modes.insert(LocalModes::ECHO);
        let _ = rustix::termios::tcsetattr(master, OptionalActions::Now, &modes);
    }
}

/// A size as the system takes it; how many pixels that are nobody knows.
pub(in super::super) fn winsize(size: TerminalSize) -> Winsize {
    Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 }
}
