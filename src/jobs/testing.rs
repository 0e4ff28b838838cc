//! Things for tests: a live one that keeps what is put in and writes what it is told to, and processes that end when
//! they are told to. What real processes leave is tested with the sandbox.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::board::Source;
use super::entry::lock;
use super::handle::{Handle, Input, Size, StopReport};
use super::order::Order;
use super::ring::{Reading, Ring};
use crate::model::{Card, CardState, JobId, LeaseId, RunToken, Sender};
use crate::sandbox::{
    JobExit, JobSpec, JobStatus, Launch, Limits, Live, Network, Process, Reaped, SandboxError,
};

/// A thing without a process.
pub(crate) struct Fake {
    id: String,
    state: Mutex<CardState>,
    ring: Mutex<Ring>,
    wake: Notify,
    forgotten: AtomicBool,
    /// What was put in, and by whom.
    pub inputs: Mutex<Vec<(Input, String)>>,
    /// The sizes that it was told.
    pub sizes: Mutex<Vec<Size>>,
    /// What is to be said of an input.
    pub note: Mutex<Option<String>>,
}

impl Fake {
    pub fn new(id: &str) -> Arc<Self> {
        Arc::new(Self {
            id: id.to_owned(),
            state: Mutex::new(CardState::Running),
            ring: Mutex::new(Ring::new(30)),
            wake: Notify::new(),
            forgotten: AtomicBool::new(false),
            inputs: Mutex::default(),
            sizes: Mutex::default(),
            note: Mutex::default(),
        })
    }

    pub fn write(&self, text: &str) {
        lock(&self.ring).push(text.as_bytes());
        self.wake.notify_waiters();
    }

    pub fn become_state(&self, state: CardState) {
        *lock(&self.state) = state;
        self.wake.notify_waiters();
    }

    pub fn end(&self, how: &str) {
        self.become_state(CardState::Ended { how: how.to_owned() });
    }

    pub fn forget(&self) {
        self.forgotten.store(true, Ordering::SeqCst);
    }
}

impl Source for Fake {
    fn name(&self) -> String {
        self.id.clone()
    }

    fn handles(self: Arc<Self>) -> Vec<Arc<dyn Handle>> {
        vec![self]
    }

    fn is_over(&self) -> bool {
        self.forgotten.load(Ordering::SeqCst)
    }
}

impl Handle for Fake {
    fn card(&self) -> Card {
        let (state, bytes) = (lock(&self.state).clone(), lock(&self.ring).written());
        Card { state, bytes, ..Card::job(&JobId::new(&self.id), "somebody", "a fake") }
    }

    fn stop(&self) -> BoxFuture<'_, StopReport> {
        self.end("killed");
        std::future::ready(StopReport { how: "killed".to_owned(), survivors: Vec::new() }).boxed()
    }

    fn read_from(&self, offset: u64) -> Reading {
        let over = !self.is_live();
        lock(&self.ring).read(offset, over)
    }

    fn written_beyond(&self, offset: u64) -> BoxFuture<'_, ()> {
        async move {
            loop {
                let woken = self.wake.notified();
                if !self.is_live() || lock(&self.ring).written() > offset {
                    return;
                }
                woken.await;
            }
        }
        .boxed()
    }

    fn feed_input<'a>(
        &'a self,
        input: Input,
        from: &'a Sender,
    ) -> BoxFuture<'a, Result<(), String>> {
        if let Input::Submit { text } = &input {
            self.write(&format!("got {text}\n"));
        }
        lock(&self.inputs).push((input, from.to_string()));
        std::future::ready(Ok(())).boxed()
    }

    fn take_note(&self) -> Option<String> {
        lock(&self.note).take()
    }

    fn resize(&self, size: Size) -> Result<(), String> {
        lock(&self.sizes).push(size);
        Ok(())
    }
}

/// Starts one process, which ends when it is told to, and by the first kill that it does not outlive.
#[derive(Clone, Default)]
pub(crate) struct Pretend(Arc<Told>);

#[derive(Default)]
struct Told {
    outlives: u32,
    kills: AtomicU32,
    over: Notify,
}

impl Pretend {
    /// One whose end is proven only after so many kills.
    pub fn outliving(outlives: u32) -> Self {
        Self(Arc::new(Told { outlives, ..Told::default() }))
    }

    /// It ends by itself.
    pub fn exit(&self) {
        self.0.over.notify_one();
    }
}

impl Process for Pretend {
    fn is_live(&self) -> bool {
        self.0.kills.load(Ordering::SeqCst) <= self.0.outlives
    }

    fn ended(&self) -> BoxFuture<'_, Result<JobExit, SandboxError>> {
        async {
            self.0.over.notified().await;
            let status = if self.is_live() { JobStatus::Exited(0) } else { JobStatus::Killed };
            let elapsed = Duration::from_secs(3);
            Ok(JobExit { status, output: Vec::new(), dropped: 0, elapsed })
        }
        .boxed()
    }

    fn end(&self) -> BoxFuture<'_, Result<Reaped, SandboxError>> {
        let alive = self.0.kills.fetch_add(1, Ordering::SeqCst) < self.0.outlives;
        let survivors = if alive { vec!["sleep (process 7)".to_owned()] } else { Vec::new() };
        if !alive {
            self.exit();
        }
        async { Ok(Reaped { killed: 0, survivors }) }.boxed()
    }
}

impl Launch for Pretend {
    fn run<'a>(
        &'a self,
        _: JobSpec,
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<JobExit, SandboxError>> {
        async { Err(SandboxError::NotPermitted("only live ones".into())) }.boxed()
    }

    fn start_live(&self, _: JobSpec, _: Live) -> Result<Box<dyn Process>, SandboxError> {
        Ok(Box::new(self.clone()))
    }
}

/// An order for it.
pub(crate) fn order() -> Order {
    let spec = JobSpec {
        token: RunToken::new("t"),
        label: "sleep".to_owned(),
        argv: vec!["sleep".into()],
        env: Vec::new(),
        cwd: "/".into(),
        mounts: Vec::new(),
        network: Network::Off,
        limits: Limits::default(),
        stdin: Vec::new(),
    };
    Order { spec, lease: LeaseId::new("a"), label: "sleep 1000".to_owned(), by: 0, watch: None }
}
