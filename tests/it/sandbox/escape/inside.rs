//! Attempts that no shell can make: the test's own program runs them as the job.

use std::io;
use std::net::TcpStream;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;

use super::Control::{self, Anyone, Never, Root};
use crate::sandbox::stage::PATIENCE;

/// An attempt: `Ok` when it succeeded.
type Attempt = fn() -> io::Result<()>;

/// Names the attempt to the program that is to make it.
pub const NAME: &str = "BAKEOFF_TEST_ATTEMPT";

/// The attempts with the rules of those of the shell.
pub const ATTEMPTS: &[(&str, Control, Attempt)] = &[
    ("connect to the engine", Anyone, || tcp("127.0.0.1")),
    ("connect to the engine by IPv6", Never, || tcp("::1")),
    ("connect to a named socket", Anyone, || {
        let address = SocketAddr::from_abstract_name(env("ABSTRACT"))?;
        UnixStream::connect_addr(&address).map(drop)
    }),
    ("connect to a socket file", Anyone, || UnixStream::connect(env("SOCKET")).map(drop)),
    ("reach the virtual machine's host", Never, || socket(libc::AF_VSOCK, libc::SOCK_STREAM)),
    ("open a raw socket", Root, || socket(libc::AF_INET, libc::SOCK_RAW)),
    ("open a packet socket", Root, || socket(libc::AF_PACKET, libc::SOCK_RAW)),
    ("use the kernel's ciphers", Never, || socket(libc::AF_ALG, libc::SOCK_SEQPACKET)),
    ("attach to the engine's shared memory", Anyone, shared_memory),
    ("open the engine's message queue", Anyone, message_queue),
    ("trace the init", Never, || trace(1)),
    ("trace its own child", Anyone, trace_child),
    ("read the init's memory", Never, || read_memory(1)),
    ("read the engine's memory", Never, || read_memory(engine())),
    ("take the init's descriptor", Never, || take_descriptor(1)),
    ("take the engine's descriptor", Never, || take_descriptor(engine())),
    ("use the kernel's keys", Never, || call(libc::SYS_keyctl, [0, -3, 0, 0])),
    ("use io_uring", Never, || with_zeroes(|at| call(libc::SYS_io_uring_setup, [8, at, 0, 0]))),
    ("load a program into the kernel", Never, || {
        with_zeroes(|at| call(libc::SYS_bpf, [0, at, 128, 0]))
    }),
    ("watch the whole file system", Root, || call(libc::SYS_fanotify_init, [0, 0, 0, 0])),
    ("catch page faults", Never, || call(libc::SYS_userfaultfd, [1, 0, 0, 0])),
    ("count events of the machine", Never, || {
        with_zeroes(|at| call(libc::SYS_perf_event_open, [at, -1, 0, -1]))
    }),
    ("open a file by its number", Never, by_handle),
    ("open a new file system", Root, || {
        call(libc::SYS_fsopen, [c"tmpfs".as_ptr() as i64, 0, 0, 0])
    }),
    ("copy the tree of mounts", Root, || {
        call(libc::SYS_open_tree, [libc::AT_FDCWD.into(), c"/".as_ptr() as i64, 1, 0])
    }),
    ("copy the tree of mounts by the newer call", Never, || {
        call(467, [libc::AT_FDCWD.into(), c"/".as_ptr() as i64, 1, 0])
    }),
    ("a user namespace by clone3", Anyone, clone3),
    ("a user namespace by the second set of numbers", Never, || {
        call(0x4000_0000 + 272, [libc::CLONE_NEWUSER.into(), 0, 0, 0])
    }),
    ("a higher limit", Root, || {
        let none = libc::RLIM_INFINITY;
        let limit = libc::rlimit { rlim_cur: none, rlim_max: none };
        // SAFETY: the structure is valid and outlives the call.
        said(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }.into())
    }),
    ("another host name", Never, || {
        call(libc::SYS_sethostname, [c"owned".as_ptr() as i64, 5, 0, 0])
    }),
    ("set the clock", Never, || {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is valid and outlives the calls.
        unsafe {
            libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now);
            said(libc::clock_settime(libc::CLOCK_REALTIME, &raw const now).into())
        }
    }),
    ("push into a terminal", Never, push_into_terminal),
    ("leave a set-user-id file, made so", Anyone, || made(libc::SYS_openat, 0o4755)),
    ("leave a set-group-id file, made so", Anyone, || made(libc::SYS_openat, 0o2755)),
    ("leave a set-user-id file, made by openat2", Anyone, || made(libc::SYS_openat2, 0o4755)),
    ("leave a set-user-id file without a name first", Anyone, nameless),
    ("leave a set-user-id file, made as a node", Anyone, || {
        powerful(|at| call(libc::SYS_mknodat, [libc::AT_FDCWD.into(), at, 0o104_755, 0]))
    }),
    ("leave a set-user-id file by fchmod", Anyone, || {
        changed(|file, _| call(libc::SYS_fchmod, [file, 0o4755, 0, 0]))
    }),
    ("leave a set-user-id file by fchmodat", Anyone, || {
        changed(|_, at| call(libc::SYS_fchmodat, [libc::AT_FDCWD.into(), at, 0o6755, 0]))
    }),
    // The call is of Linux 6.6.
    ("leave a set-user-id file by fchmodat2", Never, || {
        changed(|_, at| call(452, [libc::AT_FDCWD.into(), at, 0o4755, 0]))
    }),
    ("leave a file with capabilities", Root, || {
        // Version 2: `cap_sys_admin` permitted and effective.
        let all: [u32; 5] = [0x0200_0001, 1 << 21, 0, 0, 0].map(u32::to_le);
        let name = c"security.capability".as_ptr();
        changed(|file, _| {
            let (value, size) = (all.as_ptr(), size_of_val(&all));
            // SAFETY: the name is a C string, and the value outlives the call.
            said(unsafe { libc::syscall(libc::SYS_fsetxattr, file, name, value, size, 0) })
        })
    }),
];

/// Makes one attempt when the process was started for that; else it proves nothing and does nothing.
#[test]
fn attempt_from_inside() {
    let Ok(name) = std::env::var(NAME) else { return };
    let (_, _, attempt) = ATTEMPTS.iter().find(|(known, _, _)| *known == name).unwrap();
    match attempt() {
        Ok(()) => println!("\nESCAPED"),
        Err(error) => println!("\nstopped: {error}"),
    }
    println!("RAN");
}

fn env(name: &str) -> String {
    std::env::var(name).unwrap()
}

fn engine() -> i32 {
    env("ENGINE").parse().unwrap()
}

fn said(answer: i64) -> io::Result<()> {
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn call(number: i64, arguments: [i64; 4]) -> io::Result<()> {
    let [a, b, c, d] = arguments;
    // SAFETY: every pointer among the arguments is to a static text or to a buffer of the caller.
    said(unsafe { libc::syscall(number, a, b, c, d) })
}

fn with_zeroes(attempt: impl FnOnce(i64) -> io::Result<()>) -> io::Result<()> {
    let zeroes = [0u8; 4096];
    attempt(zeroes.as_ptr() as i64)
}

fn tcp(host: &str) -> io::Result<()> {
    let address = (host, env("PORT").parse().unwrap());
    let address = std::net::ToSocketAddrs::to_socket_addrs(&address)?.next().unwrap();
    TcpStream::connect_timeout(&address, Duration::from_secs(PATIENCE.as_secs() / 10)).map(drop)
}

fn socket(family: i32, kind: i32) -> io::Result<()> {
    // SAFETY: the call takes any numbers.
    said(unsafe { libc::socket(family, kind, i32::from(family == libc::AF_INET)) }.into())
}

fn shared_memory() -> io::Result<()> {
    let id = env("SHM").parse().unwrap();
    // SAFETY: the address is only read when the kernel has mapped it, and holds the secret then.
    let text = unsafe {
        let at = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
        said(at as i64)?;
        std::slice::from_raw_parts(at.cast::<u8>(), 10)
    };
    if text == b"top-secret" { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
}

fn message_queue() -> io::Result<()> {
    let name = std::ffi::CString::new(format!("/{}", env("ABSTRACT"))).unwrap();
    // SAFETY: the name is a C string.
    said(unsafe { libc::mq_open(name.as_ptr(), libc::O_RDONLY) }.into())
}

fn trace(pid: i32) -> io::Result<()> {
    // SAFETY: PTRACE_SEIZE takes no pointers.
    said(unsafe { libc::ptrace(0x4206, pid, 0, 0) })
}

fn trace_child() -> io::Result<()> {
    let mut child = std::process::Command::new("sleep").arg("1000").spawn()?;
    let traced = trace(child.id().try_into().unwrap());
    child.kill()?;
    child.wait()?;
    traced
}

fn read_memory(pid: i32) -> io::Result<()> {
    let mut byte = 0u8;
    let here = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    // What is mapped there is nobody's business: EFAULT, unlike EPERM, means that it may be read.
    let there = libc::iovec { iov_base: 0x1000 as *mut _, iov_len: 1 };
    // SAFETY: the local part is one byte of this process.
    let answer = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    match said(answer as i64) {
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(()),
        other => other,
    }
}

fn take_descriptor(pid: i32) -> io::Result<()> {
    // SAFETY: the calls take numbers only.
    unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0);
        said(fd)?;
        said(libc::syscall(libc::SYS_pidfd_getfd, fd, 0, 0))
    }
}

/// The number of the root directory is known; only the handle's kind must fit.
fn by_handle() -> io::Result<()> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        handle: [u32; 2],
    }
    let handle = Handle { bytes: 8, kind: 1, handle: [2, 0] };
    let at = std::fs::File::open("/usr")?;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&at);
    call(libc::SYS_open_by_handle_at, [fd.into(), (&raw const handle) as i64, 0, 0])
}

/// Whether a call on a name in the shared directory leaves a file with more power than its user's there.
fn powerful(make: impl FnOnce(i64) -> io::Result<()>) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let path = format!("{}/power{}", env("SHARED"), std::process::id());
    let name = std::ffi::CString::new(path.as_str()).unwrap();
    make(name.as_ptr() as i64)?;
    let mode = std::fs::metadata(&path)?.mode();
    let capable = {
        // SAFETY: the names are C strings, and nothing is written through the null pointer.
        unsafe {
            libc::getxattr(name.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0)
                > 0
        }
    };
    std::fs::remove_file(&path)?;
    if mode & 0o6000 != 0 || capable { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Makes a file with this mode by `openat` or `openat2`.
fn made(number: i64, mode: u64) -> io::Result<()> {
    let flags = libc::O_CREAT | libc::O_WRONLY;
    powerful(|at| {
        if number == libc::SYS_openat2 {
            let how = [flags as u64, mode, 0];
            let (how, size) = (how.as_ptr() as i64, 24);
            return call(number, [libc::AT_FDCWD.into(), at, how, size]);
        }
        call(number, [libc::AT_FDCWD.into(), at, flags.into(), mode.try_into().unwrap()])
    })
}

/// Makes a file without a name, and gives it one.
fn nameless() -> io::Result<()> {
    let dir = std::ffi::CString::new(env("SHARED")).unwrap();
    powerful(|at| {
        let flags = libc::O_TMPFILE | libc::O_WRONLY;
        // SAFETY: the names are C strings.
        unsafe {
            let file = libc::open(dir.as_ptr(), flags, 0o4755);
            said(file.into())?;
            let own = std::ffi::CString::new(format!("/proc/self/fd/{file}")).unwrap();
            let here = libc::AT_FDCWD;
            said(
                libc::linkat(here, own.as_ptr(), here, at as *const _, libc::AT_SYMLINK_FOLLOW)
                    .into(),
            )
        }
    })
}

/// Makes a plain file, whose descriptor and name the change gets.
fn changed(change: impl FnOnce(i64, i64) -> io::Result<()>) -> io::Result<()> {
    powerful(|at| {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::open(at as *const _, libc::O_CREAT | libc::O_RDWR, 0o644) };
        said(file.into())?;
        change(file.into(), at)
    })
}

fn clone3() -> io::Result<()> {
    let mut args = [0u64; 8];
    args[0] = libc::CLONE_NEWUSER as u64;
    args[4] = libc::SIGCHLD as u64;
    // SAFETY: with a null stack the call has the meaning of fork, and the new process ends at once.
    unsafe {
        let pid = libc::syscall(libc::SYS_clone3, args.as_ptr(), size_of_val(&args));
        if pid == 0 {
            libc::_exit(0);
        }
        said(pid)
    }
}

fn push_into_terminal() -> io::Result<()> {
    let mut master = 0;
    // SAFETY: the new process only makes a system call and ends.
    unsafe {
        let null = std::ptr::null_mut();
        let pid = libc::forkpty(&raw mut master, null, null.cast(), null.cast());
        if pid == 0 {
            let pushed = libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr());
            libc::_exit(if pushed == 0 { 7 } else { 0 });
        }
        said(pid.into())?;
        let mut status = 0;
        libc::waitpid(pid, &raw mut status, 0);
        if libc::WEXITSTATUS(status) == 7 {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}
