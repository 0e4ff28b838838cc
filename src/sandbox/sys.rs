//! System calls for which rustix has no safe function. All unsafe code of the sandbox stands here.
//!
//! Never here: policy. Each function is one call with its errors.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, Result};
use rustix::process::Pid;

fn check(answer: libc::c_long) -> Result<libc::c_long> {
    if answer < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(answer)
}

/// What [`fork_into`] answers.
pub(super) enum Forked {
    /// This is the new process.
    Child,
    /// This is the caller; the new process has this id.
    Parent(Pid),
}

/// Forks the calling process into the new namespaces that `flags` (`CLONE_NEW…`) name; 0 is a plain fork.
///
/// The raw call skips the C library's fork handlers, which is sound here alone: only the warden and
/// the processes that it forks call it, and they have one thread, so that no lock can be held.
pub(super) fn fork_into(flags: libc::c_int) -> Result<Forked> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    // SAFETY: without CLONE_VM and with a null stack, clone has the meaning of fork.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) })?;
    Ok(match Pid::from_raw(i32::try_from(pid).unwrap_or(0)) {
        Some(pid) => Forked::Parent(pid),
        None => Forked::Child,
    })
}

/// Ends the calling process at once: no destructors, no flush of buffers shared with the parent.
pub(super) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes any number and never returns.
    unsafe { libc::_exit(code) }
}

/// Executes a program in place of the calling process. Returns only on failure.
pub(super) fn execve(program: &CStr, argv: &[CString], env: &[CString]) -> Errno {
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both arrays end in a null pointer and outlive the call.
    unsafe { libc::execve(program.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Marks every descriptor from 3 on to be closed at the next `execve`.
pub(super) fn close_others_on_exec() -> Result<()> {
    let flags = libc::c_long::from(libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: the call only changes flags of descriptors.
    check(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_long::from(u32::MAX), flags) })?;
    Ok(())
}

/// Closes every descriptor from `first` on.
///
/// # Safety
/// The caller must own no value that refers to such a descriptor, or never use or drop it again.
pub(super) unsafe fn close_from(first: i32) -> Result<()> {
    // SAFETY: promised by the caller.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, libc::c_long::from(u32::MAX), 0) })?;
    Ok(())
}

/// Which attributes [`mount_setattr`] sets on a detached mount and all that lies under it.
#[derive(Clone, Copy)]
pub(super) struct MountAttributes {
    /// Writes are refused.
    pub read_only: bool,
    /// Device files are refused.
    pub no_devices: bool,
}

/// Sets attributes of a mount, and of every mount below it with `recursive`. Set-user-id bits are
/// switched off always.
pub(super) fn mount_setattr(
    mount: BorrowedFd<'_>,
    attributes: MountAttributes,
    recursive: bool,
) -> Result<()> {
    #[repr(C)]
    struct MountAttr {
        set: u64,
        clear: u64,
        propagation: u64,
        userns_fd: u64,
    }
    const RDONLY: u64 = 1;
    const NOSUID: u64 = 2;
    const NODEV: u64 = 4;
    let mut set = NOSUID;
    if attributes.read_only {
        set |= RDONLY;
    }
    if attributes.no_devices {
        set |= NODEV;
    }
    let attr = MountAttr { set, clear: 0, propagation: 0, userns_fd: 0 };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string and the structure has the size that is passed.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    })?;
    Ok(())
}

/// Switches on the loopback device of the calling process's network namespace.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> Result<()> {
    // SAFETY: an all-zero ifreq is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request outlives the call and holds a C string as its name.
    let answer = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    check(answer.into())?;
    Ok(())
}

/// Blocks SIGCHLD and returns a descriptor that is readable when a child has changed its state.
pub(super) fn child_events() -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the set is initialised by sigemptyset before it is read, and the descriptor is new.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()).into())?;
        let fd = check(
            libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK).into(),
        )?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)))
    }
}

/// Gives every signal its default action and blocks none, as a program expects at its start.
pub(super) fn default_signals() {
    // SAFETY: signal numbers out of range are refused by the call; the set is initialised.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// Sends a signal to every process that the caller may signal, except itself and process 1. In a
/// process namespace of its own that is the whole job.
pub(super) fn signal_all(signal: libc::c_int) {
    // SAFETY: kill takes any numbers. It fails when there is no process to signal, which is fine.
    unsafe { libc::kill(-1, signal) };
}

/// Duplicates `from` onto the standard descriptor `to` (0, 1 or 2).
pub(super) fn put_at(from: impl AsFd, to: i32) -> Result<()> {
    // SAFETY: dup2 onto a standard descriptor replaces what no value of this process owns.
    check(unsafe { libc::dup2(from.as_fd().as_raw_fd(), to) }.into())?;
    Ok(())
}

/// A file in memory that survives `execve`: the probes plant one to see that a job can't reach it.
pub(super) fn inheritable_memory(name: &CStr) -> Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the name is a C string, and the descriptor is new.
    unsafe {
        let fd = check(libc::memfd_create(name.as_ptr(), 0).into())?;
        Ok(OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)))
    }
}

/// Tries to enter new namespaces with clone3, as an attack does; a new process ends at once.
pub(super) fn try_clone3(flags: u64) -> Result<()> {
    let mut args = [0u64; 8];
    args[0] = flags;
    args[4] = libc::SIGCHLD as u64;
    // SAFETY: the structure holds a null stack, so that the call has the meaning of fork.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args)) })?;
    if pid == 0 {
        exit_now(0);
    }
    Ok(())
}

/// Tries to attach to process `pid` with ptrace, as an attack does.
pub(super) fn try_ptrace(pid: i32) -> Result<()> {
    // SAFETY: PTRACE_SEIZE takes no pointers.
    let answer = unsafe { libc::ptrace(0x4206, pid, 0usize, 0usize) };
    check(answer)?;
    Ok(())
}

/// Leaves the calling process, just forked, with its standard descriptors and with `kept`, which
/// come back in the same order as numbers from 3 on. Everything else that its parent had open is closed.
///
/// Values of the parent that refer to closed descriptors are still in memory, so the caller must
/// never return into the parent's code: it ends in [`exit_now`] or in [`execve`].
pub(super) fn keep_only(kept: Vec<OwnedFd>) -> Result<Vec<OwnedFd>> {
    use std::os::fd::{FromRawFd, IntoRawFd};
    // Out of the way first, so that none is overwritten while another is put at its place.
    let high = kept
        .iter()
        .map(|from| Ok(rustix::io::fcntl_dupfd_cloexec(from, 64)?.into_raw_fd()))
        .collect::<Result<Vec<_>>>()?;
    std::mem::forget(kept);
    let end = 3 + i32::try_from(high.len()).unwrap_or(0);
    for (to, from) in (3..end).zip(high) {
        // SAFETY: what was at those numbers belonged to the parent's values, which are never used again.
        check(unsafe { libc::dup3(from, to, libc::O_CLOEXEC) }.into())?;
    }
    // SAFETY: as above; the descriptors are new and owned by nobody else.
    unsafe {
        close_from(end)?;
        Ok((3..end).map(|number| OwnedFd::from_raw_fd(number)).collect())
    }
}

/// Ignores polite signals, calls `ready`, and stays for `seconds`. Never returns.
pub(super) fn outlive(seconds: u32, ready: impl FnOnce()) -> ! {
    // SAFETY: ignoring a signal and sleeping touch no memory of this process.
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGPIPE] {
            libc::signal(signal, libc::SIG_IGN);
        }
        ready();
        libc::alarm(seconds);
        loop {
            libc::pause();
        }
    }
}

/// Whether descriptor `number` is open.
pub(super) fn is_open(number: i32) -> bool {
    // SAFETY: F_GETFD only asks.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

/// Leaves namespaces for new ones.
pub(super) fn try_unshare(flags: libc::c_int) -> Result<()> {
    // SAFETY: the caller has one thread, and the flags name no shared memory or descriptors.
    check(unsafe { libc::unshare(flags) }.into())?;
    Ok(())
}
