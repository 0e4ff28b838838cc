//! A live thing for tests: it keeps what is put in and writes what it is told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::Notify;

use super::board::Source;
use super::entry::lock;
use super::handle::{Handle, Input, Size, StopReport};
use super::ring::{Reading, Ring};
use crate::model::{Card, CardState, JobId, Sender};

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

    fn resize(&self, size: Size) -> Result<(), String> {
        lock(&self.sizes).push(size);
        Ok(())
    }
}
