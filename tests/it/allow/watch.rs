//! Executing a job on the bare host and telling what it did, by the kernel's own words.

use std::os::unix::process::ExitStatusExt;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use bakeoff::sandbox::{JobSpec, Mount};

/// The system calls that are looked at.
const CALLS: &str = "execve,execveat,open,openat,openat2,creat,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,\
rmdir,link,linkat,symlink,symlinkat,truncate,mknod,mknodat,chmod,fchmodat,chown,fchownat,utimensat,connect,bind,sendto";

/// Where the loader finds libraries, and what it opens besides.
const LIBRARIES: &[&str] = &["/usr/lib/", "/usr/lib64/", "/usr/local/lib/", "/lib/", "/lib64/"];
const LOADED: &[&str] = &["/etc/ld.so.cache"];

/// What the C library reads of a language and of a time zone.
const LOCALES: &[&str] = &[
    "/usr/lib/locale/",
    "/usr/share/locale/",
    "/usr/share/zoneinfo/",
    "/etc/localtime",
    "/etc/locale.alias",
];

/// What a program looks up by itself: names of users, the number of cores and the memory, a random name. Nobody else may
/// read it, and none of them when a word of its command line names it.
const LOOKED_UP: &[(&str, &[&str])] = &[
    ("ls", &["/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/proc/filesystems"]),
    (
        "sort",
        &[
            "/proc/meminfo",
            "/proc/self/cgroup",
            "/sys/devices/system/cpu/",
            "/sys/fs/cgroup/",
            "/dev/urandom",
        ],
    ),
    ("grep", &["/proc/self/maps"]),
    (
        "git",
        &[
            "/etc/passwd",
            "/etc/group",
            "/etc/nsswitch.conf",
            "/dev/urandom",
            "/sys/devices/system/cpu/",
        ],
    ),
];

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
                let paths = self.named(call, rest);
                let inside = !paths.is_empty() && paths.iter().all(|path| self.may_write(path));
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
        // It holds nothing; the watched command's own input is it.
        if path == Path::new("/dev/null") {
            return true;
        }
        let begins = |with: &[&str]| with.iter().any(|prefix| text.starts_with(prefix));
        let library = begins(LIBRARIES)
            && path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
        let gconv = begins(LIBRARIES) && text.contains("/gconv/");
        let own = LOOKED_UP.iter().filter(|(program, _)| *program == self.program);
        let looked_up = own.into_iter().any(|(_, paths)| begins(paths) || self.is_its_maps(&text));
        let by_itself = library || gconv || begins(LOADED) || begins(LOCALES) || looked_up;
        by_itself && !self.is_asked_for(path)
    }

    /// What grep's library for stack overflows reads: `/proc/self` is told by its number.
    fn is_its_maps(&self, text: &str) -> bool {
        let number = text.strip_prefix("/proc/").and_then(|rest| rest.strip_suffix("/maps"));
        self.program == "grep"
            && number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Whether a word of the command line leads there: as it is, behind `=`, or behind a short option's letter.
    fn is_asked_for(&self, path: &Path) -> bool {
        let words = self.job.argv.iter().skip(1).map(|word| word.to_string_lossy());
        words.into_iter().any(|word| {
            let behind = word.split_once('=').map(|(_, value)| value.to_owned());
            let short = word.starts_with('-').then(|| word.chars().skip(2).collect::<String>());
            let named = [Some(word.into_owned()), behind, short];
            named.into_iter().flatten().filter(|name| !name.is_empty()).any(|name| {
                // `self` there is another process here.
                let of_processes = [Path::new(&name), path].map(|path| path.starts_with("/proc"));
                if of_processes == [true; 2] && Path::new(&name).file_name() == path.file_name() {
                    return true;
                }
                let place = self.job.cwd.join(name).canonicalize();
                place.is_ok_and(|place| !place.starts_with(self.top) && path == place)
            })
        })
    }

    /// All paths that a call changes, made absolute: `AT_FDCWD</dir>, "name"`, `"name"`, or a file by its descriptor alone.
    fn named(&self, call: &str, rest: &str) -> Vec<PathBuf> {
        let (mut found, mut base, mut strings) = (Vec::new(), None, 0);
        let mut left = rest;
        while let Some(at) = left.find(['<', '"']) {
            let is_string = left.as_bytes()[at] == b'"';
            let (inner, after) = match is_string {
                true => quoted(&left[at + 1..]),
                false => left[at + 1..].split_once('>').unwrap_or((&left[at + 1..], "")),
            };
            left = after;
            if !is_string {
                base = Some(inner);
                continue;
            }
            strings += 1;
            // What a symbolic link holds is a text; where it is made is the second.
            if call.starts_with("symlink") && strings == 1 {
                continue;
            }
            let dir = base.take().map_or(self.job.cwd.as_path(), Path::new);
            found.push(plain(&dir.join(inner)));
        }
        // By its descriptor.
        if strings == 0 {
            found.extend(base.map(PathBuf::from));
        }
        found
    }
}

/// A string up to its end, and what follows.
fn quoted(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '"' if !escaped => return (&text[..at], &text[at + 1..]),
            _ => escaped = c == '\\' && !escaped,
        }
    }
    (text, "")
}

/// A path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
