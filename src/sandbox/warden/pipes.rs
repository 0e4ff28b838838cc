//! Pipes between the warden and its jobs. The warden's ends never block.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

/// Which end of a pipe is the warden's, and so must not block.
pub(super) enum Side {
    /// The reading one.
    Reads,
    /// The writing one.
    Writes,
}

/// A pipe: the warden's end first.
pub(super) fn pipe(side: Side) -> Result<(OwnedFd, OwnedFd), String> {
    let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(no_pipe)?;
    let (ours, theirs) = match side {
        Side::Reads => (read, write),
        Side::Writes => (write, read),
    };
    rustix::io::ioctl_fionbio(&ours, true).map_err(no_pipe)?;
    Ok((ours, theirs))
}

/// The null device.
pub(super) fn null() -> rustix::io::Result<OwnedFd> {
    rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

fn no_pipe(error: Errno) -> String {
    format!("make a pipe: {error}")
}
