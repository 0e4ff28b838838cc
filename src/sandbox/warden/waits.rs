//! Whether a process of a job waits to read the job's input: the kernel shows in `/proc` in which call each thread is.
//!
//! A look, no proof: it is gone when it is known. Where something can't be seen nothing is said. Never here: what is
//! made of it.

use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use rustix::event::PollFlags;
use rustix::fs::{Stat, fstat, major, minor, stat};
use rustix::process::Pid;

use super::super::descent;

/// So many descriptors are looked at in one call that waits for several.
const MOST_WATCHED: usize = 4096;
/// What waits for others may stand in one that waits for others, so often.
const DEEPEST: u32 = 4;
/// The device number of `/dev/tty`, which is the terminal of whoever opens it.
const OWN_TERMINAL: (u32, u32) = (5, 0);
/// The kernel's flag of a thread that ends (`PF_EXITING`).
const ENDING: u64 = 4;

/// Where a job reads its input.
pub(super) struct Place(Stat);

/// What can't be seen.
#[derive(Debug)]
enum Blind {
    /// The thread is gone.
    Gone,
    /// It can't be told what it does.
    Unknown,
}

impl Place {
    /// That of an open end of a pipe, or of the job's side of a terminal.
    pub(super) fn of(end: BorrowedFd<'_>) -> Option<Self> {
        fstat(end).ok().map(Self)
    }

    /// Whether a process below `init` waits to read here; nothing where it can't be told.
    pub(super) fn is_awaited(&self, init: Pid) -> Option<bool> {
        // Where that one is not shown, others may not be either.
        let seen = std::fs::exists(format!("/proc/{init}/stat"));
        let mut told = seen.ok().filter(|seen| *seen).map(|_| false);
        for pid in descent::living_below(init) {
            let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
            for thread in threads.flatten() {
                let Ok(thread) = thread.file_name().into_string() else { continue };
                match self.awaited_by(&Thread { process: pid, id: thread }) {
                    Ok(true) => return Some(true),
                    Ok(false) | Err(Blind::Gone) => {}
                    Err(Blind::Unknown) => told = None,
                }
            }
        }
        told
    }

    fn awaited_by(&self, thread: &Thread) -> Result<bool, Blind> {
        let Some((call, given)) = thread.call()? else { return Ok(false) };
        let is_at = |fd: u64| self.is_at(thread, fd);
        #[cfg(target_arch = "x86_64")]
        match call {
            libc::SYS_poll => return self.polled(thread, given),
            libc::SYS_select => return self.selected(thread, given),
            libc::SYS_epoll_wait => return self.watched(thread, given[0], DEEPEST),
            _ => {}
        }
        match call {
            libc::SYS_read | libc::SYS_readv | libc::SYS_preadv2 | libc::SYS_splice => {
                is_at(given[0])
            }
            libc::SYS_sendfile => is_at(given[1]),
            libc::SYS_ppoll => self.polled(thread, given),
            libc::SYS_pselect6 => self.selected(thread, given),
            libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => {
                self.watched(thread, given[0], DEEPEST)
            }
            // A wait that was interrupted goes on: nobody says which.
            libc::SYS_restart_syscall => Err(Blind::Unknown),
            _ => Ok(false),
        }
    }

    /// Whether a descriptor of a thread is this place.
    fn is_at(&self, thread: &Thread, fd: u64) -> Result<bool, Blind> {
        let found = match stat(thread.path(&format!("fd/{fd}"))) {
            Ok(found) => found,
            // It is no open one, or the thread is gone.
            Err(rustix::io::Errno::NOENT) => return Ok(false),
            Err(_) => return Err(thread.blind()),
        };
        let terminal = (major(found.st_rdev), minor(found.st_rdev)) == OWN_TERMINAL;
        let same = (found.st_dev, found.st_ino) == (self.0.st_dev, self.0.st_ino);
        Ok(same || (terminal && self.0.st_rdev != 0))
    }

    /// The same of one that is waited for with others: that may be something that waits for others itself.
    fn is_behind(&self, thread: &Thread, fd: u64, depth: u32) -> Result<bool, Blind> {
        let name = std::fs::read_link(thread.path(&format!("fd/{fd}")));
        match name.is_ok_and(|name| name.as_os_str() == "anon_inode:[eventpoll]") {
            true => self.watched(thread, fd, depth),
            false => self.is_at(thread, fd),
        }
    }

    fn polled(&self, thread: &Thread, [list, count, ..]: [u64; 6]) -> Result<bool, Blind> {
        let wanted = PollFlags::IN | PollFlags::RDNORM | PollFlags::RDBAND;
        let list = thread.memory(list, count, size_of::<libc::pollfd>())?;
        for one in list.chunks_exact(size_of::<libc::pollfd>()) {
            let (fd, events) = one.split_at(4);
            let (Ok(fd), Ok(events)) = (fd.try_into(), events[..2].try_into()) else { continue };
            let events = PollFlags::from_bits_retain(u16::from_ne_bytes(events));
            if let Ok(fd) = u64::try_from(i32::from_ne_bytes(fd))
                && events.intersects(wanted)
                && self.is_behind(thread, fd, DEEPEST)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn selected(&self, thread: &Thread, [count, set, ..]: [u64; 6]) -> Result<bool, Blind> {
        if set == 0 {
            return Ok(false);
        }
        let words = thread.memory(set, count.div_ceil(64), 8)?;
        let words = words.chunks_exact(8).filter_map(|word| word.try_into().ok());
        for (at, word) in (0..).zip(words.map(u64::from_ne_bytes)) {
            for fd in (0..64).filter(|bit| word >> bit & 1 == 1).map(|bit| at * 64 + bit) {
                if fd < count && self.is_behind(thread, fd, DEEPEST)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// What an epoll waits for stands in `/proc`: `tfd: 0 events: 19 …`.
    fn watched(&self, thread: &Thread, epoll: u64, depth: u32) -> Result<bool, Blind> {
        let deeper = depth.checked_sub(1).ok_or(Blind::Unknown)?;
        let info = std::fs::read_to_string(thread.path(&format!("fdinfo/{epoll}")));
        let info = info.map_err(|_| thread.blind())?;
        for line in info.lines().filter_map(|line| line.strip_prefix("tfd:")) {
            let mut words = line.split_ascii_whitespace();
            let (fd, events) = (words.next(), words.nth(1));
            let fd = fd.and_then(|fd| fd.parse().ok()).ok_or(Blind::Unknown)?;
            let events = events.and_then(|bits| u32::from_str_radix(bits, 16).ok());
            let events = events.ok_or(Blind::Unknown)?;
            let wanted = (libc::EPOLLIN | libc::EPOLLRDNORM | libc::EPOLLRDBAND).cast_unsigned();
            if events & wanted != 0 && self.is_behind(thread, fd, deeper)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A thread of a job.
struct Thread {
    process: Pid,
    id: String,
}

impl Thread {
    fn path(&self, name: &str) -> String {
        format!("/proc/{}/task/{}/{name}", self.process, self.id)
    }

    /// Why something of it can't be seen.
    fn blind(&self) -> Blind {
        match std::fs::read_to_string(self.path("stat")) {
            Ok(stat) if is_ending(&stat) => Blind::Gone,
            Err(error) if error.kind() == ErrorKind::NotFound => Blind::Gone,
            _ => Blind::Unknown,
        }
    }

    /// The call in which it is and what that was given, where it waits in one.
    fn call(&self) -> Result<Option<(i64, [u64; 6])>, Blind> {
        let text = std::fs::read_to_string(self.path("syscall")).map_err(|_| self.blind())?;
        parse(&text).ok_or(Blind::Unknown)
    }

    /// A list in its memory, of so many of this size.
    fn memory(&self, at: u64, count: u64, size: usize) -> Result<Vec<u8>, Blind> {
        let count = usize::try_from(count).ok().filter(|count| *count <= MOST_WATCHED);
        let mut bytes = vec![0; count.ok_or(Blind::Unknown)? * size];
        let read = File::open(self.path("mem")).and_then(|file| file.read_exact_at(&mut bytes, at));
        read.map(|()| bytes).map_err(|_| self.blind())
    }
}

/// Whether a thread is on its way out, by its line in `/proc`: it may not be looked into any more, by nobody.
fn is_ending(stat: &str) -> bool {
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(6));
    flags.and_then(|flags| flags.parse::<u64>().ok()).is_some_and(|flags| flags & ENDING != 0)
}

/// From `/proc/PID/syscall`: `running`, `-1` with two addresses for who waits in no call, or its number, what it was given
/// and the two addresses.
fn parse(text: &str) -> Option<Option<(i64, [u64; 6])>> {
    let mut words = text.split_ascii_whitespace();
    let first = words.next()?;
    if matches!(first, "running" | "-1") {
        return Some(None);
    }
    let mut given = [0; 6];
    for one in &mut given {
        *one = u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok()?;
    }
    Some(Some((first.parse().ok()?, given)))
}

/// The job's side of a terminal, by its master.
pub(super) fn side(master: BorrowedFd<'_>) -> Option<Place> {
    use rustix::pty::OpenptFlags;
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let side = rustix::pty::ioctl_tiocgptpeer(master, flags).ok()?;
    Place::of(side.as_fd())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_does_is_read_as_the_kernel_writes_it() {
        assert!(matches!(parse("running\n"), Some(None)));
        assert!(matches!(parse("-1 0x7ffd 0x7f12\n"), Some(None)));
        let told = parse("0 0x3 0x7ffd1 0x400 0x0 0x8 0x0 0x7ffd 0x7f12\n");
        assert_eq!(told, Some(Some((0, [3, 0x7ffd1, 0x400, 0, 8, 0]))));
        assert_eq!((parse(""), parse("0 0x3"), parse("0 three")), (None, None, None));
        assert!(is_ending("9 (a) b) R 6 9 9 0 -1 4194316 1604 61"));
        assert!(!is_ending("9 (a) b) R 6 9 9 0 -1 4194304 1604 61") && !is_ending("9 (a"));
    }
}
