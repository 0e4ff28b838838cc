//! Executing a job on the bare host and telling what it did, by the kernel's own words.

use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use bakeoff::sandbox::{JobSpec, Mount};

/// The system calls that are looked at.
const CALLS: &str = "execve,execveat,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,\
rmdir,link,linkat,symlink,symlinkat,truncate,mknod,mknodat,chmod,fchmodat,chown,fchownat,utimensat,connect,bind,sendto";

/// Where programs and their libraries lie.
const SYSTEM: &[&str] = &[
    "/usr/",
    "/lib/",
    "/lib64/",
    "/bin/",
    "/etc/ld.so.cache",
    "/dev/null",
    "/etc/localtime",
    "/etc/locale.alias",
];

/// What the C library and git look up by themselves: names of users, the number of cores, themselves.
const LOOKED_UP: &[&str] = &[
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/proc/self/",
    "/proc/filesystems",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/sys/fs/cgroup",
];

/// Programs that read nothing but their operands: what they open of the system, somebody named.
const READERS: &[&str] = &["cat", "head", "tail", "wc", "uniq", "grep", "echo", "pwd", "true"];

/// What a job did that it must not.
pub struct Watched {
    pub faults: Vec<String>,
}

/// Runs a job in its workspace and reads what was traced. One that does not end (`tail -f`) is ended.
pub fn run(job: &JobSpec, top: &Path) -> Watched {
    let trace = tempfile::NamedTempFile::new().unwrap();
    let status = Command::new("timeout")
        .args([
            "-s",
            "KILL",
            "4",
            "strace",
            "-f",
            "--seccomp-bpf",
            "-qq",
            "-y",
            "-s",
            "4096",
            "-e",
            "signal=none",
        ])
        .arg(format!("-etrace={CALLS}"))
        .arg("-o")
        .arg(trace.path())
        .arg("--")
        .args(&job.argv)
        .current_dir(&job.cwd)
        .env_clear()
        .envs(job.env.iter().cloned())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let text = std::fs::read(trace.path()).unwrap();
    let text = String::from_utf8_lossy(&text);
    let judge = Judge { job, top, program: job.argv[0].to_string_lossy().into_owned() };
    let lines: Vec<&str> = text.lines().collect();
    assert!(!lines.is_empty() || status.signal().is_some(), "nothing was traced: {:?}", job.argv);
    // The first line is the program itself.
    Watched { faults: lines.iter().skip(1).filter_map(|line| judge.fault(line)).collect() }
}

struct Judge<'a> {
    job: &'a JobSpec,
    top: &'a Path,
    program: String,
}

impl Judge<'_> {
    /// What is wrong with a traced call, if anything.
    fn fault(&self, line: &str) -> Option<String> {
        let line = line.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
        let (call, rest) = line.split_once('(')?;
        let (_, result) = rest.rsplit_once(" = ")?;
        // A call that failed did nothing; an unfinished one is told again.
        if result.starts_with('-') || result.starts_with('?') {
            return None;
        }
        match call {
            "execve" | "execveat" => Some(format!("executed: {line}")),
            "connect" | "bind" | "sendto" => Some(format!("connected: {line}")),
            "open" | "openat" | "openat2" | "creat" => self.opened(call, rest, result, line),
            _ => {
                let inside = self.named(rest).is_some_and(|path| self.may_write(&path));
                (!inside).then(|| format!("wrote: {line}"))
            }
        }
    }

    fn opened(&self, call: &str, rest: &str, result: &str, line: &str) -> Option<String> {
        let path = PathBuf::from(result.split_once('<')?.1.rsplit_once('>')?.0);
        let writes = call == "creat"
            || ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC"].iter().any(|flag| rest.contains(flag));
        if writes && path != Path::new("/dev/null") && !self.may_write(&path) {
            return Some(format!("wrote: {line}"));
        }
        (!self.may_read(&path)).then(|| format!("read: {line}"))
    }

    /// The job's own writable mounts.
    fn may_write(&self, path: &Path) -> bool {
        self.job.mounts.iter().any(|mount| match mount {
            Mount::ReadWrite { from, .. } => path.starts_with(from),
            _ => false,
        })
    }

    fn may_read(&self, path: &Path) -> bool {
        let text = path.to_string_lossy();
        if let Ok(inside) = path.strip_prefix(self.top) {
            let hidden =
                inside.starts_with(".git") || inside.file_name().is_some_and(|name| name == ".env");
            return self.program == "git" || !hidden;
        }
        let own = LOOKED_UP.iter().any(|prefix| text.starts_with(prefix))
            || (text.starts_with("/proc/") && self.program == "git");
        // What grep's library for stack overflows and git's for names of temporary files ask for.
        let asked =
            (self.program == "grep" && text.starts_with("/proc/") && text.ends_with("/maps"))
                || (self.program == "git" && text == "/dev/urandom");
        asked
            || SYSTEM.iter().any(|prefix| text.starts_with(prefix))
            || (own && !READERS.contains(&self.program.as_str()))
    }

    /// The path that a call names first, made absolute: `AT_FDCWD</dir>, "name"`, or `"name"`.
    fn named(&self, rest: &str) -> Option<PathBuf> {
        let base = rest.split_once('<').filter(|(before, _)| !before.contains('"'));
        let base = base.and_then(|(_, after)| Some(after.split_once('>')?.0));
        let name = rest.split('"').nth(1)?;
        let joined = Path::new(base.map_or(self.job.cwd.to_str()?, |base| base)).join(name);
        let mut path = PathBuf::new();
        for part in joined.components() {
            match part {
                Component::ParentDir => {
                    path.pop();
                }
                other => path.push(other),
            }
        }
        Some(path)
    }
}
