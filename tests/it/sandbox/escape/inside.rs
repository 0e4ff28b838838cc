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
