//! From the init to the job's program: descriptors, limits, privileges, filters, `execve`.
//!
//! Every step that fails is told to the init through a pipe that `execve` closes. Never here: mounts.

use std::ffi::{CString, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use rustix::process::Pid;

use super::super::sys::{self, Forked};
use super::super::tier::Tier;
use super::super::warden::proto::WireError;
use super::init::Init;
use super::view::AtStep;
use super::{landlock, limits};

/// Where programs are looked for when the job has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What the program is to have open.
pub(super) struct Streams<'a> {
    /// Its standard input.
    pub stdin: &'a OwnedFd,
    /// Its standard output and error.
    pub output: &'a OwnedFd,
    /// A socket, under the number that it has in the init.
    pub channel: Option<&'a OwnedFd>,
    /// The name of the terminal that these streams are, when they are one.
    pub terminal: Option<&'a Path>,
}

/// Forks and executes the program; answers once `execve` has succeeded or failed.
pub(super) fn fork_program(init: &Init<'_>, streams: &Streams<'_>) -> Result<Pid, WireError> {
    let setup = WireError::Setup;
    let (read, write) =
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC).at_step("make a pipe").map_err(setup)?;
    match sys::fork_into(0).at_step("fork for the program").map_err(setup)? {
        Forked::Parent(pid) => {
            drop(write);
            answer(&read).map_or(Ok(pid), Err)
        }
        Forked::Child => {
            let error = become_program(init, streams);
            let text = serde_json::to_vec(&error).unwrap_or_default();
            let _ = rustix::io::write(&write, &text);
            sys::exit_now(127)
        }
    }
}

/// The error that the child wrote, or `None` when the pipe was closed by `execve`.
fn answer(pipe: &OwnedFd) -> Option<WireError> {
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        match rustix::io::read(pipe, &mut chunk) {
            Ok(0) => break,
            Ok(length) => text.extend(&chunk[..length]),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    if text.is_empty() {
        return None;
    }
    let broken = || WireError::Setup("start the program: its report can't be read".into());
    Some(serde_json::from_slice(&text).unwrap_or_else(|_| broken()))
}

/// Confines the calling process and executes the program. Returns only on failure.
fn become_program(init: &Init<'_>, streams: &Streams<'_>) -> WireError {
    match confine(init, streams) {
        Err(step) => WireError::Setup(step),
        Ok(()) => execute(init),
    }
}

fn confine(init: &Init<'_>, streams: &Streams<'_>) -> Result<(), String> {
    rustix::process::setsid().at_step("start a session")?;
    sys::put_at(streams.stdin, 0)
        .and_then(|()| sys::put_at(streams.output, 1))
        .and_then(|()| sys::put_at(streams.output, 2))
        .and_then(|()| sys::close_others_on_exec())
        .and_then(|()| streams.channel.map_or(Ok(()), keep_on_exec))
        .at_step("set the descriptors")?;
    if streams.terminal.is_some() {
        rustix::process::ioctl_tiocsctty(streams.stdin).at_step("take the terminal")?;
    }
    let cwd = Path::new(&init.spec.cwd);
    rustix::process::chdir(cwd)
        .at_step(format_args!("enter the working directory {}", cwd.display()))?;
    limits::apply(init.spec)?;
    if init.tier == Tier::Landlock {
        landlock::restrict(init.spec, streams.terminal)?;
    }
    if init.tier != Tier::None {
        limits::drop_privileges()?;
    }
    sys::default_signals();
    if init.tier != Tier::None {
        init.filters.apply()?;
    }
    Ok(())
}

fn keep_on_exec(channel: &OwnedFd) -> rustix::io::Result<()> {
    rustix::io::fcntl_setfd(channel, rustix::io::FdFlags::empty())
}

fn execute(init: &Init<'_>) -> WireError {
    let program = init.spec.argv.first().map_or(OsStr::new(""), |program| program.as_os_str());
    let failed = |reason: String| WireError::Start {
        program: program.to_string_lossy().into_owned(),
        reason,
    };
    let argv = init.spec.argv.iter().map(|word| c_string(word.as_bytes()));
    let env = init
        .spec
        .env
        .iter()
        .map(|(name, value)| c_string(&[name.as_bytes(), b"=", value.as_bytes()].concat()));
    let (Ok(argv), Ok(env)) =
        (argv.collect::<Result<Vec<_>, _>>(), env.collect::<Result<Vec<_>, _>>())
    else {
        return failed("an argument or a variable holds a zero byte".into());
    };
    let path = init.spec.env.iter().find(|(name, _)| name == "PATH");
    let path = path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value.as_os_str());
    let mut worst = Errno::NOENT;
    for candidate in candidates(program, path) {
        match sys::execve(&candidate, &argv, &env) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => worst = Errno::ACCESS,
            error => return failed(error.to_string()),
        }
    }
    failed(match worst {
        Errno::NOENT => format!("not found in the sandbox (PATH is {})", path.display()),
        other => other.to_string(),
    })
}

fn c_string(bytes: &[u8]) -> Result<CString, std::ffi::NulError> {
    CString::new(bytes)
}

fn candidates(program: &OsStr, path: &OsStr) -> Vec<CString> {
    if program.as_bytes().contains(&b'/') || program.is_empty() {
        return c_string(program.as_bytes()).into_iter().collect();
    }
    std::env::split_paths(path)
        .filter_map(|dir| c_string(dir.join(program).as_os_str().as_bytes()).ok())
        .collect()
}
