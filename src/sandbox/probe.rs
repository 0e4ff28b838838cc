//! The engine's side of the probes: plants what the attacks aim at, runs them as a real job, and
//! looks at what is left afterwards. A probe that could not run counts as not stopped.
//!
//! Never here: permits (`permit` makes them of a report).

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::advice;
use super::canary::{CANARY_ARGUMENT, DESCENDANT, Outcome, PROBES, Plan};
use super::job::{JobExit, JobSpec, Limits, Mount, Network, SandboxError};
use super::leftover;
use super::tier::Tier;
use super::warden::{self, Warden};
use crate::model::RunToken;

/// Where the bait is planted.
const DIR: &str = "/tmp";
/// How its directory's name begins.
const PREFIX: &str = "bakeoff-bait-";
/// Where the canary's program is in the strong tier's view.
const CANARY_PATH: &str = "/run/bakeoff-canary";
/// How long a killed descendant may take to vanish from the process table, on a machine that is busy.
const VANISH: Duration = Duration::from_secs(3);
/// How long the attacks may take together. They need milliseconds; it only guards against hanging.
const WALL: Duration = Duration::from_secs(120);

/// An attack that the sandbox has to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// A stable kebab-case name (`secret-file`, `tcp-connect`, …).
    pub name: String,
    /// Whether it was stopped. False, too, when it could not run.
    pub stopped: bool,
    /// What stopped it, or how it succeeded, or why it could not run.
    pub detail: String,
}

/// What the probes found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeReport {
    /// The strongest tier that this system has.
    pub tier: Tier,
    /// The probes of that tier.
    pub probes: Vec<Probe>,
    /// Why the strong tier can't be had, when it can't.
    pub trouble: Option<String>,
    /// Set by [`Warden::prove`] only, so that no other code can make a proof.
    proved: bool,
}

impl ProbeReport {
    /// Whether every attack on the strong tier was stopped.
    pub(super) fn is_proof(&self) -> bool {
        self.proved && self.tier == Tier::Namespaces
    }

    /// The probes that were not stopped, in words.
    pub fn failures(&self) -> String {
        let failed: Vec<String> = self
            .probes
            .iter()
            .filter(|probe| !probe.stopped)
            .map(|probe| format!("probe {} was not stopped ({})", probe.name, probe.detail))
            .collect();
        match (&self.trouble, failed.is_empty()) {
            (Some(trouble), _) => format!(
                "the strong tier can't be set up, so that none of its probes ({}) could run ({trouble})",
                PROBES.join(", ")
            ),
            (None, false) => failed.join(", "),
            (None, true) => "every probe was stopped".into(),
        }
    }

    /// What the operator can do, when there is no proof: the exact option of this system that gives
    /// the strong tier, and the flag that does without. Empty when there is a proof.
    pub fn advice(&self) -> String {
        if self.is_proof() { String::new() } else { advice::strong_tier(self.trouble.as_deref()) }
    }
}

impl Warden {
    /// Attacks the sandbox from inside with real jobs and reports what was stopped. Tries the strong
    /// tier first, then the weaker one; what is left is no sandbox at all.
    pub async fn prove(&self) -> ProbeReport {
        let trouble = match attack(self, Tier::Namespaces, Spoil::Nothing).await {
            Ok(probes) => {
                let proved = probes.iter().all(|probe| probe.stopped);
                return ProbeReport { tier: Tier::Namespaces, probes, trouble: None, proved };
            }
            Err(error) => Some(error.to_string()),
        };
        match attack(self, Tier::Landlock, Spoil::Nothing).await {
            Ok(probes) => ProbeReport { tier: Tier::Landlock, probes, trouble, proved: false },
            Err(error) => {
                let probes = PROBES.map(|name| failed(name, &format!("no sandbox: {error}")));
                ProbeReport { tier: Tier::None, probes: probes.into(), trouble, proved: false }
            }
        }
    }

    /// The probes of a tier, attacking a job that is spoiled on purpose: shows that they notice. Never
    /// a proof.
    ///
    /// # Errors
    /// When the job can't be run.
    #[doc(hidden)]
    pub async fn probe_spoiled(
        &self,
        tier: Tier,
        spoil: Spoil,
    ) -> Result<ProbeReport, SandboxError> {
        let probes = attack(self, tier, spoil).await?;
        Ok(ProbeReport { tier, probes, trouble: None, proved: false })
    }
}

/// What is wrong with a job that the probes must not find right.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    /// Nothing of the job itself.
    Nothing,
    /// It sees the bait.
    ShowsBait,
    /// It may write where the bait is.
    SharesBait,
    /// It has the host's network.
    HostNetwork,
}

fn failed(name: &str, detail: &str) -> Probe {
    Probe { name: name.into(), stopped: false, detail: detail.into() }
}

/// What is planted for the attacks; gone when dropped.
struct Bait {
    dir: tempfile::TempDir,
    tcp: TcpListener,
    path: UnixListener,
    named: UnixListener,
    plan: Plan,
}

async fn attack(warden: &Warden, tier: Tier, spoil: Spoil) -> Result<Vec<Probe>, SandboxError> {
    let bait = Bait::plant(warden)
        .map_err(|error| SandboxError::Setup(format!("plant the probes' bait: {error}")))?;
    let spec = bait.spoiled(bait.job(warden.program(), tier)?, spoil);
    let exit = warden.launch(spec, tier)?.ended().await?;
    Ok(bait.verdicts(&exit))
}

impl Bait {
    fn plant(warden: &Warden) -> std::io::Result<Self> {
        for left in leftover::of_the_dead(Path::new(DIR), PREFIX) {
            let _ = std::fs::remove_dir_all(left);
        }
        let dir = tempfile::Builder::new().prefix(&leftover::name(PREFIX, "")).tempdir_in(DIR)?;
        let nonce = warden::secret();
        let secret_file = dir.path().join("secret");
        std::fs::write(&secret_file, warden.planted_secret())?;
        let tcp = TcpListener::bind(("127.0.0.1", 0))?;
        tcp.set_nonblocking(true)?;
        let socket_path = dir.path().join("socket");
        let path = UnixListener::bind(&socket_path)?;
        path.set_nonblocking(true)?;
        let abstract_name = format!("bakeoff-{nonce}");
        let named = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?;
        named.set_nonblocking(true)?;
        let plan = Plan {
            secret_file,
            outside_dir: dir.path().to_owned(),
            tcp_port: tcp.local_addr()?.port(),
            socket_path,
            abstract_name,
            nonce,
        };
        Ok(Self { dir, tcp, path, named, plan })
    }

    fn job(&self, program: &Path, tier: Tier) -> Result<JobSpec, SandboxError> {
        let at = if tier.can_mount() { PathBuf::from(CANARY_PATH) } else { program.to_owned() };
        let plan = serde_json::to_string(&self.plan)
            .map_err(|error| SandboxError::Setup(format!("write the probes' plan: {error}")))?;
        Ok(JobSpec {
            token: RunToken::new(&self.plan.nonce),
            label: "canary".into(),
            argv: vec![at.clone().into(), CANARY_ARGUMENT.into(), plan.into()],
            env: Vec::new(),
            cwd: "/".into(),
            mounts: vec![Mount::ReadOnly { from: program.to_owned(), at }],
            network: Network::Off,
            limits: Limits { wall: WALL, ..Limits::default() },
            stdin: Vec::new(),
        })
    }

    fn spoiled(&self, mut spec: JobSpec, spoil: Spoil) -> JobSpec {
        let dir = || self.dir.path().to_owned();
        match spoil {
            Spoil::Nothing => {}
            Spoil::ShowsBait => spec.mounts.push(Mount::ReadOnly { from: dir(), at: dir() }),
            Spoil::SharesBait => spec.mounts.push(Mount::ReadWrite { from: dir(), at: dir() }),
            Spoil::HostNetwork => spec.network = Network::Host,
        }
        spec
    }

    fn verdicts(&self, exit: &JobExit) -> Vec<Probe> {
        let lines = exit.output.split(|byte| *byte == b'\n');
        let said: Vec<Outcome> =
            lines.filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let verdict = |name: &str| match said.iter().find(|outcome| outcome.name == name) {
            None => {
                failed(name, &format!("it did not run: the canary ended with {:?}", exit.status))
            }
            Some(outcome) => {
                let seen = outcome.stopped.then(|| self.seen_from_outside(name)).flatten();
                let died = outcome.stopped && name == DESCENDANT;
                let said =
                    if died { "it died with the job".into() } else { outcome.detail.clone() };
                Probe {
                    name: name.into(),
                    stopped: outcome.stopped && seen.is_none(),
                    detail: seen.unwrap_or(said),
                }
            }
        };
        PROBES.into_iter().map(verdict).collect()
    }

    /// What the engine itself sees of an attack's success, whatever the attack says.
    fn seen_from_outside(&self, name: &str) -> Option<String> {
        let connected = || Some("a connection came in".to_owned());
        match name {
            // What is not there is no bait.
            "secret-file" => std::fs::metadata(&self.plan.secret_file).err().map(|e| e.to_string()),
            "tcp-connect" => self.tcp.accept().is_ok().then(connected)?,
            "unix-path-connect" => self.path.accept().is_ok().then(connected)?,
            "unix-abstract-connect" => self.named.accept().is_ok().then(connected)?,
            "write-outside" => {
                let name = format!(".bakeoff-canary-{}", self.plan.nonce);
                self.dir.path().join(name).exists().then(|| "a file was written".to_owned())
            }
            DESCENDANT => survivor(&self.plan.nonce),
            _ => None,
        }
    }
}

/// A living process with the nonce in its command line, if there is one.
fn survivor(nonce: &str) -> Option<String> {
    let deadline = Instant::now() + VANISH;
    loop {
        let found = find_in_command_lines(nonce)?;
        if Instant::now() > deadline {
            return Some(format!("process {found} is alive"));
        }
        std::thread::yield_now();
    }
}

fn find_in_command_lines(nonce: &str) -> Option<u32> {
    let has_nonce = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.windows(nonce.len()).any(|part| part == nonce.as_bytes())
    };
    let entries = std::fs::read_dir("/proc").ok()?;
    let mut pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(has_nonce)
}
