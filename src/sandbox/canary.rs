//! The attacks of the probes. They run as a job, by the product's own program (`__canary PLAN`), so
//! that they need nothing of the system. Each says whether it was stopped.
//!
//! Never here: verdicts. What is not said here counts as not stopped (`probe`).

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::fs::CWD;
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};

use super::sys::{self, Forked};

/// The first argument that makes the product's program a canary.
pub(super) const CANARY_ARGUMENT: &str = "__canary";
/// The name in the warden's environment under which the secret stands.
pub(super) const SECRET_NAME: &str = "BAKEOFF_CANARY=";
/// How long a surviving descendant lives if nobody kills it, in seconds.
const DESCENDANT_SECONDS: u32 = 30;

/// How long the init's dropping of its capabilities is waited for. It takes microseconds.
const BARE: Duration = Duration::from_secs(5);

/// What the attacks aim at: planted by the engine, out of the job's reach if the sandbox works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub secret_file: PathBuf,
    pub outside_dir: PathBuf,
    pub tcp_port: u16,
    pub socket_path: PathBuf,
    pub abstract_name: String,
    /// In the command line of every process of the canary.
    pub nonce: String,
}

/// What one attack came to, one line of JSON each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub name: String,
    pub stopped: bool,
    pub detail: String,
}

/// The probe that only the engine can judge: whether what the job left behind is dead.
pub(super) const DESCENDANT: &str = "surviving-descendant";

/// What an attack answers: how it succeeded, or what stopped it.
type Attack = Result<String, String>;

/// The probes, in the order in which they are shown.
pub(super) const PROBES: [&str; 11] = [
    "secret-file",
    "caller-environment",
    "inherited-descriptor",
    "tcp-connect",
    "unix-path-connect",
    "unix-abstract-connect",
    "write-outside",
    "new-namespace",
    "mount",
    "privileges",
    DESCENDANT,
];

/// Runs every attack and prints the outcomes.
pub(super) fn main(plan: &str) -> ExitCode {
    // Looked at first, before this process opens anything itself.
    let descriptors = inherited_descriptor();
    let Ok(plan) = serde_json::from_str::<Plan>(plan) else { return ExitCode::from(2) };
    let attacks = [
        ("secret-file", secret_file(&plan)),
        ("caller-environment", caller_environment()),
        ("inherited-descriptor", descriptors),
        ("tcp-connect", tcp(&plan)),
        ("unix-path-connect", unix_path(&plan)),
        ("unix-abstract-connect", unix_abstract(&plan)),
        ("write-outside", write_outside(&plan)),
        ("new-namespace", new_namespace()),
        ("mount", mount()),
        ("privileges", privileges()),
    ];
    let mut text = String::new();
    for (name, attack) in attacks {
        let stopped = attack.is_err();
        let detail = attack.unwrap_or_else(|stopped_by| stopped_by);
        line(&mut text, Outcome { name: name.into(), stopped, detail });
    }
    // Here `stopped` only says that the descendant is alive now; the engine looks for it later.
    let left = leave_descendant();
    let detail = left.clone().unwrap_or_else(|error| error);
    line(&mut text, Outcome { name: DESCENDANT.into(), stopped: left.is_ok(), detail });
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn line(text: &mut String, outcome: Outcome) {
    if let Ok(json) = serde_json::to_string(&outcome) {
        text.push_str(&json);
        text.push('\n');
    }
}

/// The first success among `attempts`, or all that stopped them.
fn any(attempts: impl IntoIterator<Item = Attack>) -> Attack {
    let mut stopped_by = Vec::new();
    for attempt in attempts {
        match attempt {
            Ok(success) => return Ok(success),
            Err(reason) if stopped_by.contains(&reason) => {}
            Err(reason) => stopped_by.push(reason),
        }
    }
    Err(stopped_by.join("; "))
}

fn said<T, E: std::fmt::Display>(attempt: Result<T, E>, success: &str) -> Attack {
    attempt.map(|_| success.to_owned()).map_err(|error| error.to_string())
}

fn secret_file(plan: &Plan) -> Attack {
    let file = &plan.secret_file;
    let inside = file.strip_prefix("/").unwrap_or(file);
    let roots = ["/", "/proc/1/root", "/proc/self/root", "/proc/self/cwd/../../../../.."];
    any(roots.into_iter().chain(parents().iter().map(String::as_str)).map(|root| {
        let path = Path::new(root).join(inside);
        said(std::fs::read(&path), &format!("read {}", path.display()))
    }))
}

/// Roots of the processes above this one, as far as they can be seen.
fn parents() -> Vec<String> {
    let parent = rustix::process::getppid();
    parent.map(|pid| format!("/proc/{}/root", pid.as_raw_nonzero())).into_iter().collect()
}

/// The init drops its own capabilities while its program starts; until then nobody without them may
/// look into it, which would stop this attack for another reason than the one that lasts.
fn await_bare_init() {
    let bare = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("CapPrm:"))?.trim();
        Some(line.bytes().all(|digit| digit == b'0'))
    };
    let deadline = Instant::now() + BARE;
    while rustix::process::getppid() == Some(rustix::process::Pid::INIT)
        && std::fs::read_to_string("/proc/1/status").ok().and_then(bare) == Some(false)
        && Instant::now() < deadline
    {
        std::thread::yield_now();
    }
}

fn caller_environment() -> Attack {
    await_bare_init();
    let me = std::process::id();
    let entries = std::fs::read_dir("/proc").map_err(|error| error.to_string())?;
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    any(numbers.filter(|pid: &u32| *pid != me).map(|pid| {
        let text = std::fs::read(format!("/proc/{pid}/environ"));
        let text = text.map_err(|error| error.to_string())?;
        let found = text.windows(SECRET_NAME.len()).any(|part| part == SECRET_NAME.as_bytes());
        if found {
            Ok(format!("read the environment of process {pid}"))
        } else {
            Err("no environment with the secret".into())
        }
    }))
}

fn inherited_descriptor() -> Attack {
    match (3..1024).find(|number| sys::is_open(*number)) {
        Some(number) => Ok(format!("descriptor {number} is open")),
        None => Err("no descriptor but the standard ones".into()),
    }
}

fn tcp(plan: &Plan) -> Attack {
    let address = ([127, 0, 0, 1], plan.tcp_port).into();
    said(TcpStream::connect_timeout(&address, Duration::from_secs(2)), "connected")
}

fn unix_path(plan: &Plan) -> Attack {
    said(UnixStream::connect(&plan.socket_path), "connected")
}

fn unix_abstract(plan: &Plan) -> Attack {
    let connect = SocketAddr::from_abstract_name(&plan.abstract_name)
        .and_then(|address| UnixStream::connect_addr(&address));
    said(connect, "connected")
}

fn write_outside(plan: &Plan) -> Attack {
    let name = format!(".bakeoff-canary-{}", plan.nonce);
    let dirs = [plan.outside_dir.as_path(), Path::new("/usr"), Path::new("/etc"), Path::new("/")];
    any(dirs.into_iter().map(|dir| {
        let path = dir.join(&name);
        let written = std::fs::write(&path, "x");
        if written.is_ok() && dir != plan.outside_dir {
            let _ = std::fs::remove_file(&path);
        }
        said(written, &format!("wrote {}", path.display()))
    }))
}

fn new_namespace() -> Attack {
    let enter = || {
        let file = std::fs::File::open("/proc/1/ns/mnt").map_err(|error| error.to_string())?;
        let kind = Some(LinkNameSpaceType::Mount);
        let entered = rustix::thread::move_into_link_name_space(file.as_fd(), kind);
        said(entered, "entered the init's mount namespace")
    };
    let clone3 = sys::try_clone3(libc::CLONE_NEWUSER as u64);
    any([
        said(clone3, "made a user namespace with clone3"),
        enter(),
        said(sys::try_unshare(libc::CLONE_NEWNS), "made a mount namespace"),
        said(sys::try_unshare(libc::CLONE_NEWUSER), "made a user namespace"),
    ])
}

/// Each is only tried when the one before was stopped, and none would do harm on its own.
fn mount() -> Attack {
    use rustix::mount::{FsOpenFlags, MountFlags, UnmountFlags};
    let attempts: [fn() -> Attack; 4] = [
        || said(rustix::mount::fsopen("tmpfs", FsOpenFlags::empty()), "opened a file system"),
        || said(rustix::process::chroot("/tmp"), "changed the root"),
        || said(rustix::mount::unmount("/dev/shm", UnmountFlags::DETACH), "unmounted"),
        || {
            said(
                rustix::mount::mount("none", "/tmp", "tmpfs", MountFlags::empty(), None),
                "mounted",
            )
        },
    ];
    any(attempts.into_iter().map(|attempt| attempt()))
}

fn privileges() -> Attack {
    let capabilities = rustix::thread::capabilities(None).map_err(|error| error.to_string())?;
    if !capabilities.permitted.is_empty() {
        return Ok("has capabilities".into());
    }
    if !rustix::thread::no_new_privs().unwrap_or(false) {
        return Ok("may gain privileges".into());
    }
    let node = rustix::fs::mknodat(
        CWD,
        "/tmp/canary-disk",
        rustix::fs::FileType::BlockDevice,
        rustix::fs::Mode::RUSR,
        rustix::fs::makedev(8, 0),
    );
    any([
        said(node, "made a device file"),
        said(sys::try_ptrace(1), "traced the init"),
        said(open_to_write("/proc/sys/kernel/core_pattern"), "may write a sysctl"),
    ])
}

fn open_to_write(path: &str) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().write(true).open(path)
}

/// Leaves a daemon behind that ignores requests to end: its own session, orphaned on purpose.
fn leave_descendant() -> Result<String, String> {
    let (read, write) = rustix::pipe::pipe().map_err(|error| error.to_string())?;
    let say = |error: rustix::io::Errno| error.to_string();
    if let Forked::Child = sys::fork_into(0).map_err(say)? {
        let _ = rustix::process::setsid();
        if let Ok(Forked::Child) = sys::fork_into(0) {
            sys::outlive(DESCENDANT_SECONDS, || {
                let _ = rustix::io::write(&write, b"alive");
            });
        }
        sys::exit_now(0);
    }
    drop(write);
    let mut word = [0; 5];
    match rustix::io::read(&read, &mut word) {
        Ok(5) => Ok("left a daemon".into()),
        Ok(_) => Err("the daemon did not start".into()),
        Err(error) => Err(error.to_string()),
    }
}
