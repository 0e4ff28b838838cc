//! Where the attacks are staged: a thread with the credentials and the system calls of one kind of
//! machine, a warden started from it, and ways to see from outside what is alive.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bakeoff::model::RunToken;
use bakeoff::sandbox::{
    JobExit, JobSpec, JobStatus, Launch, Launcher, Limits, Mount, Network, Permit, SandboxError,
    Tier, Warden, WardenOptions,
};
use tokio_util::sync::CancellationToken;

/// The longest that anything here is waited for. Nothing needs it unless it hangs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// On which kind of system a test stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum System {
    /// As it is, as the user that runs the tests.
    Here,
    /// As an ordinary user: when the tests run as root, user 65534.
    Ordinary,
    /// Namespaces and mounts are refused, as in a default container.
    NoNamespaces,
    /// The same for an ordinary user.
    OrdinaryNoNamespaces,
    /// Landlock is refused, too.
    Nothing,
    /// As it is, but a protection of the sandbox is taken away: the kernel says that it did what it was
    /// asked for, and has not.
    Broken(Protection),
}

/// What the kernel only pretends to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Closing what a job must not inherit.
    ClosedDescriptors,
    /// Hiding the init from the job.
    HiddenInit,
    /// Filters of system calls.
    Filters,
    /// Filters, and the dropping of capabilities.
    FiltersAndCapabilities,
    /// The dropping of capabilities.
    Capabilities,
    /// Making somebody the reaper of orphans.
    Reaper,
}

impl Protection {
    /// The calls, each with the first argument of interest where only that one is pretended.
    fn calls(self) -> Vec<(i64, Option<i32>)> {
        let capabilities = [
            (libc::SYS_capset, None),
            (libc::SYS_prctl, Some(libc::PR_SET_SECUREBITS)),
            (libc::SYS_prctl, Some(libc::PR_CAPBSET_DROP)),
        ];
        let filters = (libc::SYS_seccomp, None);
        match self {
            Self::ClosedDescriptors => vec![(libc::SYS_close_range, None)],
            Self::HiddenInit => vec![(libc::SYS_prctl, Some(libc::PR_SET_DUMPABLE))],
            Self::Filters => vec![filters],
            Self::Capabilities => capabilities.into(),
            Self::FiltersAndCapabilities => capabilities.into_iter().chain([filters]).collect(),
            Self::Reaper => vec![(libc::SYS_prctl, Some(libc::PR_SET_CHILD_SUBREAPER))],
        }
    }
}

/// Those with the strong tier.
pub const STRONG: [System; 2] = [System::Here, System::Ordinary];
/// All.
pub const ALL: [System; 5] = [
    System::Here,
    System::Ordinary,
    System::NoNamespaces,
    System::OrdinaryNoNamespaces,
    System::Nothing,
];
/// Those without it.
pub const WEAK: [System; 3] = [System::NoNamespaces, System::OrdinaryNoNamespaces, System::Nothing];

/// The product's own program, where an ordinary user can execute it.
pub fn program() -> PathBuf {
    env!("CARGO_BIN_EXE_bakeoff").into()
}

/// Runs `body` on a thread of its own that is confined to `system`: credentials and filters belong
/// to threads, and what it starts inherits them.
pub fn on<F, T>(system: System, body: impl FnOnce() -> F + Send + 'static) -> T
where
    F: Future<Output = T>,
    T: Send + 'static,
{
    let run = move || {
        enter(system);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(body())
    };
    match std::thread::spawn(run).join() {
        Ok(value) => value,
        Err(panic) => {
            eprintln!("on the system {system:?}:");
            std::panic::resume_unwind(panic)
        }
    }
}

fn enter(system: System) {
    match system {
        System::Here => {}
        System::Ordinary => become_ordinary(),
        System::NoNamespaces => refuse(&[]),
        System::OrdinaryNoNamespaces => {
            become_ordinary();
            refuse(&[]);
        }
        System::Nothing => refuse(&[
            libc::SYS_landlock_create_ruleset,
            libc::SYS_landlock_add_rule,
            libc::SYS_landlock_restrict_self,
        ]),
        System::Broken(protection) => pretend(protection),
    }
}

/// Answers 0 to the calls of a protection, without doing anything.
fn pretend(protection: Protection) {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (call, argument) in protection.calls() {
        let when = argument.map(|value| {
            let value = u64::from(value.unsigned_abs());
            let is = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value);
            SeccompRule::new(vec![is.unwrap()]).unwrap()
        });
        rules.entry(call).or_default().extend(when);
    }
    answer(rules, 0);
}

/// Gives the calls of the rules this error number, in this thread and in what it starts.
fn answer(rules: BTreeMap<i64, Vec<seccompiler::SeccompRule>>, errno: i32) {
    use seccompiler::{SeccompAction, SeccompFilter};
    let action = SeccompAction::Errno(errno.unsigned_abs());
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// User 65534 instead of root; everybody else is ordinary already.
fn become_ordinary() {
    use rustix::process::{Gid, Uid};
    if rustix::process::geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(65534), Gid::from_raw(65534));
        rustix::thread::set_thread_groups(&[]).unwrap();
        rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
        rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
    }
}

/// Refuses what a default container refuses, and `more`, to this thread and what it starts.
fn refuse(more: &[i64]) {
    use seccompiler::{SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompRule};
    let new = |flag: i32| {
        let flag = flag as u32 as u64;
        let operator = SeccompCmpOp::MaskedEq(flag);
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, flag).unwrap();
        SeccompRule::new(vec![condition]).unwrap()
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    rules.insert(libc::SYS_clone, vec![new(libc::CLONE_NEWUSER), new(libc::CLONE_NEWNS)]);
    for call in [libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_open_tree] {
        rules.insert(call, vec![]);
    }
    for &call in more {
        rules.insert(call, vec![]);
    }
    answer(rules, libc::EPERM);
}

/// A warden of this thread.
pub fn warden() -> Warden {
    Warden::start(&WardenOptions { program: program() }).unwrap()
}

/// A launcher with the best permit that this thread's system gives.
pub async fn launcher() -> Launcher {
    let warden = warden();
    let report = warden.prove().await;
    Launcher::new(warden, Permit::grant(&report, true).unwrap())
}

/// A shell script as a job.
pub fn sh(script: &str) -> JobSpec {
    JobSpec {
        token: RunToken::new("test"),
        label: "test".into(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin".into())],
        cwd: "/".into(),
        mounts: Vec::new(),
        network: Network::Off,
        limits: Limits { wall: PATIENCE, ..Limits::default() },
        stdin: Vec::new(),
    }
}

/// A directory of the host that the job may write, at its own path.
pub fn shared(dir: &Path) -> Mount {
    Mount::ReadWrite { from: dir.into(), at: dir.into() }
}

/// Adds a variable.
pub fn with_env(mut spec: JobSpec, name: &str, value: impl Into<OsString>) -> JobSpec {
    spec.env.push((name.into(), value.into()));
    spec
}

/// Runs a job to its end, without cancelling it.
pub async fn run(launcher: &Launcher, spec: JobSpec) -> Result<JobExit, SandboxError> {
    launcher.run(spec, &CancellationToken::new()).await
}

/// The output of a job that has to exit with 0.
pub async fn output(launcher: &Launcher, spec: JobSpec) -> String {
    let exit = run(launcher, spec).await.unwrap();
    let text = String::from_utf8_lossy(&exit.output).into_owned();
    assert_eq!(exit.status, JobStatus::Exited(0), "{text}");
    text
}

/// A directory that this thread's user owns, gone when dropped.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/tmp").unwrap()
}

/// A secret word that no other test's processes carry.
pub fn nonce() -> String {
    bakeoff::jobs::mint_token().as_str().to_owned()
}

/// A pipe with a name in `dir`, through which a job says that it has come to a point.
pub struct Signpost(PathBuf);

impl Signpost {
    /// Makes one.
    pub fn new(dir: &Path) -> Self {
        let path = dir.join("signpost");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        Self(path)
    }

    /// Where a job writes to it.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Waits until a job has written a line; answers it.
    pub async fn reached(&self) -> String {
        use tokio::io::AsyncBufReadExt;
        // Open for writing, too, so that there is no end of file before the job comes.
        let pipe =
            tokio::net::unix::pipe::OpenOptions::new().read_write(true).open_receiver(&self.0);
        let mut line = String::new();
        let mut reader = tokio::io::BufReader::new(pipe.unwrap());
        tokio::time::timeout(PATIENCE, reader.read_line(&mut line))
            .await
            .expect("the job did not come to its signpost")
            .unwrap();
        line
    }
}

/// Every living process that carries `nonce` in its command line or its environment.
pub fn alive(nonce: &str) -> Vec<String> {
    let carries = |path: String| {
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(nonce.len()).any(|part| part == nonce.as_bytes())
    };
    let me = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid == me || !pid.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        if carries(format!("/proc/{pid}/cmdline")) || carries(format!("/proc/{pid}/environ")) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            found.push(format!("{pid}: {}", String::from_utf8_lossy(&line)));
        }
    }
    found
}

/// Asserts that nothing with `nonce` is alive at this instant.
pub fn nothing_alive(nonce: &str) {
    let found = alive(nonce);
    assert!(found.is_empty(), "alive: {found:#?}");
}

/// Asserts that everything with `nonce` dies soon, when nobody could be asked to wait for it.
pub fn all_die(nonce: &str) {
    let deadline = Instant::now() + PATIENCE;
    while !alive(nonce).is_empty() {
        assert!(Instant::now() < deadline, "alive: {:#?}", alive(nonce));
        std::thread::yield_now();
    }
}

/// Whether python3 is among the system's programs.
pub fn python() -> bool {
    let paths = ["/usr/bin/python3", "/usr/local/bin/python3", "/bin/python3"];
    there("python3 among the system's programs", paths.iter().any(|path| Path::new(path).exists()))
}

/// Whether a tool is on the `PATH`.
pub fn has(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    there(tool, std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}

/// Says so when something is missing; where everything was installed for the tests, that is a failure.
fn there(what: &str, is_there: bool) -> bool {
    let all = std::env::var_os("BAKEOFF_TEST_TOOLS").is_some_and(|value| value == "all");
    assert!(is_there || !all, "no {what}, and BAKEOFF_TEST_TOOLS says that all tools are there");
    if !is_there {
        let said = format!("no {what}: not tried\n");
        std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
    }
    is_there
}

/// Asserts the tier that a system has.
pub fn expected_tier(system: System) -> Tier {
    match system {
        System::Here | System::Ordinary | System::Broken(_) => Tier::Namespaces,
        System::NoNamespaces | System::OrdinaryNoNamespaces => Tier::Landlock,
        System::Nothing => Tier::None,
    }
}
