//! A job's pseudo terminal: opened by the job's init, so that in the strong tier it is one of the job's own
//! `/dev/pts`, and its name there is the one that the job sees.
//!
//! The warden gets the master; the program gets the other side as its controlling terminal (contract R13). Never
//! here: what is written to it.

use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::pty::OpenptFlags;
use rustix::termios::{InputModes, OptionalActions};

use super::super::live::TerminalSize;
use super::super::warden::winsize;
use super::view::AtStep;

/// A pseudo terminal.
pub(super) struct Terminal {
    /// The side of whoever looks at it.
    pub master: OwnedFd,
    /// The job's side. The init keeps it open, so that output has an end only when the job has.
    pub side: OwnedFd,
    /// The name of the job's side.
    pub path: PathBuf,
}

impl Terminal {
    /// Opens one of this size. It becomes nobody's controlling terminal by that.
    ///
    /// # Errors
    /// In words, where there is no `/dev/ptmx` that can be used.
    pub(super) fn open(size: TerminalSize) -> Result<Self, String> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let step = "open a pseudo terminal (/dev/ptmx)";
        let master = rustix::pty::openpt(flags).at_step(step)?;
        rustix::pty::unlockpt(&master).at_step(step)?;
        rustix::termios::tcsetwinsize(&master, winsize(size)).at_step(step)?;
        let mut modes = rustix::termios::tcgetattr(&master).at_step(step)?;
        // A whole character is erased, not a byte of it.
        modes.input_modes.insert(InputModes::IUTF8);
        rustix::termios::tcsetattr(&master, OptionalActions::Now, &modes).at_step(step)?;
        let name = rustix::pty::ptsname(&master, Vec::new()).at_step(step)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes())).to_owned();
        // By the master and not by its name: what stands at that name may be of another instance.
        let side = rustix::pty::ioctl_tiocgptpeer(&master, flags)
            .or_else(|_| {
                let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
                rustix::fs::open(&path, flags, Mode::empty())
            })
            .at_step("open the job's side of its pseudo terminal")?;
        Ok(Self { master, side, path })
    }
}
