//! The engine's side of the warden: starts it, sends requests, hands replies to who waits.
//!
//! Nothing here forks a job. The warden is started with an empty environment but for a secret that
//! the probes try to find. Never here: permits (`launcher` asks for one).

use std::collections::{HashMap, VecDeque};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::SendFlags;
use tokio::sync::oneshot;

use super::super::identity::ProcessId;
use super::super::job::{JobExit, JobSpec, SandboxError};
use super::super::live::{Feed, Feeding, InputState, LiveEvent, LiveSink};
use super::super::overlay::{Overlay, OverlayKind, OverlaySpec};
use super::super::sys;
use super::super::tier::Tier;
use super::WARDEN_ARGUMENT;
use super::files;
use super::proto::{self, Reply, Request};
use super::table::Reaped;
use crate::model::RunToken;

/// How to start a warden.
#[derive(Clone, Debug)]
pub struct WardenOptions {
    /// A program that calls [`warden_main`](super::super::warden_main) when its first argument is
    /// `__warden`: the product's own executable.
    pub program: PathBuf,
}

/// A job's end, or why it could not be run.
pub(crate) type Ending = Result<JobExit, SandboxError>;

/// A running warden. Clones share it; when the last one is dropped it ends, with every job.
#[derive(Clone, Debug)]
pub struct Warden(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    program: PathBuf,
    socket: UnixStream,
    writer: Mutex<()>,
    waiters: Arc<Mutex<Waiters>>,
    next: AtomicU64,
    secret: String,
    identity: Option<ProcessId>,
}

#[derive(Default)]
struct Waiters {
    jobs: HashMap<u64, Waiter>,
    tokens: HashMap<u64, oneshot::Sender<Reaped>>,
    feeds: HashMap<u64, oneshot::Sender<Result<InputState, String>>>,
    mounts: HashMap<u64, mpsc::Sender<Result<Arrived, String>>>,
    gone: Option<String>,
    observer: Option<Observer>,
}

type Observer = Box<dyn Fn(Life<'_>) + Send>;

/// A turn in a job's life, as the reap journal notes it.
#[derive(Clone, Copy, Debug)]
pub enum Life<'a> {
    /// The job with this number has this process as its init.
    Born(u64, &'a ProcessId),
    /// Nothing of it is alive.
    Gone(u64),
}

/// Who waits for a job's end, and who hears its output meanwhile.
struct Waiter {
    ending: oneshot::Sender<Ending>,
    sink: Option<LiveSink>,
}

impl std::fmt::Debug for Waiter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiter")
    }
}

/// An overlay as it comes from the warden: its top and its upper directory.
type Arrived = (OverlayKind, OwnedFd, OwnedFd);

/// A mount in the warden's namespaces. Dropping it takes it away.
#[derive(Debug)]
pub struct Mounted {
    dir: PathBuf,
    memory: bool,
    warden: Warden,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let dir = std::mem::take(&mut self.dir).into();
        let _ = self.warden.send(&Request::Unmount { dir, memory: self.memory }, &[]);
    }
}

/// A started job, not yet ended. Dropping it kills the job.
#[derive(Debug)]
pub(crate) struct Started {
    id: u64,
    warden: Warden,
    ending: oneshot::Receiver<Ending>,
    over: bool,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }
}

impl Warden {
    /// Starts a warden. Blocks for a few milliseconds; needs no runtime.
    ///
    /// # Errors
    /// [`SandboxError::WardenGone`] when the program can't be started.
    pub fn start(options: &WardenOptions) -> Result<Self, SandboxError> {
        let gone = |error: &dyn std::fmt::Display| {
            SandboxError::WardenGone(format!("{}: {error}", options.program.display()))
        };
        let secret = secret();
        let (ours, theirs) = UnixStream::pair().map_err(|error| gone(&error))?;
        let reading = ours.try_clone().map_err(|error| gone(&error))?;
        let child = spawn(options, theirs, &secret).map_err(|error| gone(&error))?;
        let identity = i32::try_from(child.id()).ok().and_then(ProcessId::of);
        let waiters = Arc::new(Mutex::new(Waiters::default()));
        let for_thread = Arc::clone(&waiters);
        std::thread::Builder::new()
            .name("warden-replies".into())
            .spawn(move || listen(reading, child, &for_thread))
            .map_err(|error| gone(&error))?;
        Ok(Self(Arc::new(Shared {
            program: options.program.clone(),
            socket: ours,
            writer: Mutex::new(()),
            waiters,
            next: AtomicU64::new(1),
            secret,
            identity,
        })))
    }

    /// The program that it runs.
    pub(crate) fn program(&self) -> &std::path::Path {
        &self.0.program
    }

    /// The secret that stands in the warden's environment and in a descriptor that it inherited.
    pub(crate) fn planted_secret(&self) -> &str {
        &self.0.secret
    }

    /// Starts a job. Permits are the caller's duty.
    pub(crate) fn launch(&self, spec: JobSpec, tier: Tier) -> Result<Started, SandboxError> {
        let (id, ending) = self.begin(spec, tier, None, (&[], Feed::Nothing, None))?;
        Ok(Started { id, warden: self.clone(), ending, over: false })
    }

    /// Asks for a job; with a sink it is a live one, which may be given a channel and an open input.
    pub(super) fn begin(
        &self,
        spec: JobSpec,
        tier: Tier,
        sink: Option<LiveSink>,
        (channel, feed, credit): (&[OwnedFd], Feed, Option<u64>),
    ) -> Result<(u64, oneshot::Receiver<Ending>), SandboxError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, ending) = oneshot::channel();
        let (mut spec, stdin) = proto::split(spec);
        (spec.live, spec.channel, spec.feed) = (sink.is_some(), !channel.is_empty(), feed);
        spec.credit = credit;
        {
            let mut waiters = lock(&self.0.waiters);
            waiters.check()?;
            waiters.jobs.insert(id, Waiter { ending: sender, sink });
        }
        self.send_with(&Request::Run { id, tier, spec }, &stdin, channel)?;
        Ok((id, ending))
    }

    /// Whether the end of a job has not been proven yet.
    pub(super) fn is_running(&self, id: u64) -> bool {
        lock(&self.0.waiters).jobs.contains_key(&id)
    }

    /// Ends one job, politely first, and waits until that is proven.
    pub(super) async fn end_job(&self, job: u64) -> Result<Reaped, SandboxError> {
        self.reaped(|id| Request::EndJob { id, job }).await
    }

    /// Does something with a job's input and waits for the answer.
    pub(super) async fn feed(&self, job: u64, feeding: Feeding) -> Result<InputState, String> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, fed) = oneshot::channel();
        let told = |error: SandboxError| error.to_string();
        {
            let mut waiters = lock(&self.0.waiters);
            waiters.check().map_err(told)?;
            waiters.feeds.insert(id, sender);
        }
        let (what, bytes) = feeding.into();
        self.send(&Request::Feed { id, job, what }, &bytes).map_err(told)?;
        fed.await.unwrap_or_else(|_| Err(self.gone().to_string()))
    }

    /// Lets a job's output come on.
    pub(super) fn allow(&self, job: u64, bytes: Option<u64>) {
        // A warden that is gone took the job along.
        let _ = self.send(&Request::Allow { job, bytes }, &[]);
    }

    /// Hears of every job's birth and end, for the reap journal. One listener at a time.
    pub fn observe(&self, observer: impl Fn(Life<'_>) + Send + 'static) {
        lock(&self.0.waiters).observer = Some(Box::new(observer));
    }

    /// Its own process.
    pub fn identity(&self) -> Option<&ProcessId> {
        self.0.identity.as_ref()
    }

    /// Kills every job of a token and waits until that is proven.
    pub(crate) async fn end_token(&self, token: &RunToken) -> Result<Reaped, SandboxError> {
        self.reaped(|id| Request::EndToken { id, token: token.as_str().into() }).await
    }

    async fn reaped(&self, request: impl FnOnce(u64) -> Request) -> Result<Reaped, SandboxError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, done) = oneshot::channel();
        {
            let mut waiters = lock(&self.0.waiters);
            waiters.check()?;
            waiters.tokens.insert(id, sender);
        }
        self.send(&request(id), &[])?;
        done.await.map_err(|_| self.gone())
    }

    /// Asks for the end of a token's jobs without waiting, for use where nothing can be awaited.
    pub(crate) fn end_token_unawaited(&self, token: &RunToken) {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let _ = self.send(&Request::EndToken { id, token: token.as_str().into() }, &[]);
    }

    /// Mounts an overlay in the warden's namespaces and waits for it.
    pub(crate) fn mount_overlay(&self, spec: &OverlaySpec) -> Result<Overlay, SandboxError> {
        let id = self.0.next.fetch_add(1, Ordering::Relaxed);
        let (sender, arrived) = mpsc::channel();
        {
            let mut waiters = lock(&self.0.waiters);
            waiters.check()?;
            waiters.mounts.insert(id, sender);
        }
        let lower = spec.lower.iter().map(Into::into).collect();
        let dir = spec.dir.clone().into();
        let (kind, memory) = (spec.kind, spec.memory);
        self.send(&Request::Mount { id, kind, lower, dir, memory }, &[])?;
        let (kind, root, upper) =
            arrived.recv().map_err(|_| self.gone())?.map_err(SandboxError::Setup)?;
        let (dir, memory) = (spec.dir.clone(), memory.is_some());
        let mounted = Mounted { dir, memory, warden: self.clone() };
        Ok(Overlay::new(root, upper, kind, mounted))
    }

    pub(super) fn stop(&self, id: u64, force: bool) {
        let _ = self.send(&Request::Stop { id, force }, &[]);
    }

    fn send(&self, request: &Request, payload: &[u8]) -> Result<(), SandboxError> {
        self.send_with(request, payload, &[])
    }

    fn send_with(
        &self,
        request: &Request,
        payload: &[u8],
        opened: &[OwnedFd],
    ) -> Result<(), SandboxError> {
        let frame = proto::encode(request, payload);
        let frame = frame.map_err(|error| SandboxError::WardenGone(error.to_string()))?;
        let _turn = lock(&self.0.writer);
        // Open files go with the first byte. The warden always reads, so that this blocks for no longer
        // than a copy takes.
        let sent = match opened {
            [] => 0,
            files => files::send(&self.0.socket, &frame, files, SendFlags::NOSIGNAL)
                .map_err(|_| self.gone())?,
        };
        (&self.0.socket).write_all(&frame[sent..]).map_err(|_| self.gone())
    }

    pub(super) fn gone(&self) -> SandboxError {
        let reason = lock(&self.0.waiters).gone.clone();
        SandboxError::WardenGone(reason.unwrap_or_else(|| "its socket is closed".into()))
    }
}

impl std::fmt::Debug for Waiters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waiters").field("jobs", &self.jobs).field("gone", &self.gone).finish()
    }
}

impl Waiters {
    fn sink(&self, id: u64) -> Option<LiveSink> {
        self.jobs.get(&id)?.sink.clone()
    }

    fn tell_end(&mut self, id: u64, ending: Ending) {
        if let Some(observer) = &self.observer {
            observer(Life::Gone(id));
        }
        if let Some(waiter) = self.jobs.remove(&id) {
            let _ = waiter.ending.send(ending);
        }
    }

    fn check(&self) -> Result<(), SandboxError> {
        self.gone.clone().map_or(Ok(()), |reason| Err(SandboxError::WardenGone(reason)))
    }
}

impl Started {
    /// Waits for the job's end.
    pub(crate) async fn ended(&mut self) -> Ending {
        let ending = (&mut self.ending).await;
        self.over = true;
        ending.unwrap_or_else(|_| Err(self.warden.gone()))
    }

    /// Ends the job: TERM and KILL after 2 s, or KILL at once with `force`.
    pub(crate) fn stop(&self, force: bool) {
        self.warden.stop(self.id, force);
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.over {
            self.stop(true);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 128 random bits of the kernel, in hexadecimal.
pub(crate) fn secret() -> String {
    let mut bytes = [0u8; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        // Once the machine is up this can only be interrupted, so that trying again is right.
        filled += rustix::rand::getrandom(&mut bytes[filled..], flags).unwrap_or(0);
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn spawn(options: &WardenOptions, socket: UnixStream, secret: &str) -> std::io::Result<Child> {
    // The probes prove that a descriptor which the warden inherited does not reach a job.
    let planted = sys::inheritable_memory(c"bakeoff-canary")?;
    rustix::io::write(&planted, secret.as_bytes())?;
    let child = Command::new(&options.program)
        .arg(WARDEN_ARGUMENT)
        .env_clear()
        .env("BAKEOFF_CANARY", secret)
        .current_dir("/")
        // Not the terminal's: an interrupt from the keyboard is the engine's to handle.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(socket)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    drop(planted);
    child
}

/// Hands replies on until the warden is gone, then reaps it.
fn listen(socket: UnixStream, mut child: Child, waiters: &Mutex<Waiters>) {
    let mut received = Vec::new();
    let mut arrived = VecDeque::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match files::receive(&socket, &mut chunk, &mut arrived) {
            Ok(0) => break,
            Ok(length) => received.extend(&chunk[..length]),
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
        while let Ok(Some((reply, payload))) = proto::decode(&mut received) {
            hand_on(waiters, reply, payload, &mut arrived);
        }
    }
    let status = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
    let mut waiters = lock(waiters);
    waiters.gone = Some(format!("it ended ({status})"));
    waiters.jobs.clear();
    waiters.tokens.clear();
    waiters.feeds.clear();
    waiters.mounts.clear();
}

fn hand_on(
    waiters: &Mutex<Waiters>,
    reply: Reply,
    output: Vec<u8>,
    arrived: &mut VecDeque<OwnedFd>,
) {
    let mut waiters = lock(waiters);
    match reply {
        Reply::Ended { id, status, dropped, micros } => {
            let elapsed = Duration::from_micros(micros);
            let exit = JobExit { status: status.into(), output, dropped, elapsed };
            waiters.tell_end(id, Ok(exit));
        }
        Reply::Failed { id, error } => {
            waiters.tell_end(id, Err(error.into()));
        }
        Reply::Started { id, process } => {
            if let Some(observer) = &waiters.observer {
                observer(Life::Born(id, &process));
            }
            waiters.sink(id).inspect(|sink| sink(LiveEvent::Started(&process)));
        }
        Reply::Output { id } => {
            let sink = waiters.sink(id);
            // Whoever takes it may ask the warden for something.
            drop(waiters);
            sink.inspect(|sink| sink(LiveEvent::Output(&output)));
        }
        Reply::TokenEnded { id, killed, survivors } => {
            if let Some(waiter) = waiters.tokens.remove(&id) {
                let _ = waiter.send(Reaped { killed, survivors });
            }
        }
        Reply::Fed { id, outcome } => {
            if let Some(waiter) = waiters.feeds.remove(&id) {
                let _ = waiter.send(outcome);
            }
        }
        Reply::Mounted { id, kind } => {
            let (Some(root), Some(upper)) = (arrived.pop_front(), arrived.pop_front()) else {
                return;
            };
            if let Some(waiter) = waiters.mounts.remove(&id) {
                let _ = waiter.send(Ok((kind, root, upper)));
            }
        }
        Reply::NotMounted { id, step } => {
            if let Some(waiter) = waiters.mounts.remove(&id) {
                let _ = waiter.send(Err(step));
            }
        }
    }
}
