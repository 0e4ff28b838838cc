//! The engine's side of the socket.

use std::collections::VecDeque;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::client::{SOCKET, with_short_path};
use super::peer;
use super::proto::{MAX_LINE, Reply, Request, line, read};
use super::shell;
use super::snapshot::Watch;
use super::stream::{self, Left};
use crate::jobs::{Handle, HostJobs};
use crate::model::Sender;
use crate::worker::Floor;

/// What is served.
#[derive(Clone, Debug)]
pub struct Served {
    /// The snapshot.
    pub watch: Watch,
    /// Ends the run.
    pub stop: CancellationToken,
    /// What is live, and the way to the workers.
    pub floor: Floor,
    /// The operator's commands.
    pub host: HostJobs,
}

/// Callers that are served at once. Each has a descriptor of the engine's, which needs others.
const MOST_TALKS: usize = 128;
/// How long the first line of a caller may take.
const FIRST_LINE: Duration = Duration::from_secs(10);
/// How long nobody is let in after that failed, and a place is waited for until another caller is sent away.
const BREATH: Duration = Duration::from_millis(50);

/// A listening socket; dropping it ends the service and removes the socket.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    talks: TaskTracker,
    _end: DropGuard,
}

/// So many times the longest line is passed over, and no more.
const MOST_LINES: u32 = 256;

/// How long the end of an engine waits for answers that are on their way.
const GRACE: Duration = Duration::from_secs(1);

/// The operator's lines.
pub(super) type Lines = BufReader<OwnedReadHalf>;

impl Control {
    /// Listens in a run's directory.
    ///
    /// # Errors
    /// When the socket can't be made.
    pub fn serve(run: &Path, served: Served) -> std::io::Result<Self> {
        let path = run.join(SOCKET);
        // The run's lock is held: a socket that is there is of an engine that was killed.
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = with_short_path(run, |short| {
            let listener = std::os::unix::net::UnixListener::bind(short)?;
            std::fs::set_permissions(short, Permissions::from_mode(0o600))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        })?;
        let listener = UnixListener::from_std(listener)?;
        let end = CancellationToken::new();
        let (ended, talks) = (end.clone(), TaskTracker::new());
        let tracker = talks.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = accept(listener, served, &tracker) => {}
            }
        });
        Ok(Self { path, talks, _end: end.drop_guard() })
    }

    /// Ends the service. Who waits for the end of something is told of it before the engine goes.
    pub async fn close(self) {
        let talks = self.talks.clone();
        drop(self);
        talks.close();
        let _ = tokio::time::timeout(GRACE, talks.wait()).await;
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A socket that is gone already is as good.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Callers that have not said yet what they want, the oldest first: each gives its place to one that comes when all are
/// taken.
#[derive(Clone, Default)]
struct Silent(Arc<Mutex<VecDeque<Arc<Notify>>>>);

impl Silent {
    fn all(&self) -> MutexGuard<'_, VecDeque<Arc<Notify>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more.
    fn add(&self) -> Arc<Notify> {
        let one = Arc::new(Notify::new());
        self.all().push_back(one.clone());
        one
    }

    /// One of them has spoken, or is gone.
    fn remove(&self, one: &Arc<Notify>) {
        self.all().retain(|other| !Arc::ptr_eq(other, one));
    }

    /// Sends the oldest away, if there is one.
    fn send_away(&self) {
        if let Some(oldest) = self.all().pop_front() {
            oldest.notify_one();
        }
    }
}

/// A place for one more. Where all are being served it waits, and who comes later in the kernel's queue.
async fn take_place(places: &Arc<Semaphore>, silent: &Silent) -> Option<OwnedSemaphorePermit> {
    loop {
        if places.available_permits() == 0 {
            silent.send_away();
        }
        // One that was sent away may have spoken in that moment, and stays.
        let place = tokio::time::timeout(BREATH, places.clone().acquire_owned()).await;
        if let Ok(place) = place {
            return place.ok();
        }
    }
}

async fn accept(listener: UnixListener, served: Served, talks: &TaskTracker) {
    let (places, silent) = (Arc::new(Semaphore::new(MOST_TALKS)), Silent::default());
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // A caller that went away, or no descriptor that is free: both pass.
            Err(_) => {
                tokio::time::sleep(BREATH).await;
                continue;
            }
        };
        let Some(sender) = peer::sender(&stream) else { continue };
        let place = take_place(&places, &silent).await;
        let (served, silent) = (served.clone(), silent.clone());
        let waits = silent.add();
        talks.spawn(async move {
            let (reader, writer) = stream.into_split();
            let mut lines = BufReader::new(reader);
            let request = first(&mut lines, &waits).await;
            silent.remove(&waits);
            // An operator who went away needs no answer.
            if let Ok(request) = request {
                let _ = serve((lines, writer), request, &served, &sender).await;
            }
            drop(place);
        });
    }
}

/// What a caller wants; in words, why that is not known.
async fn first(lines: &mut Lines, sent_away: &Notify) -> std::io::Result<Result<Request, String>> {
    tokio::select! {
        // What has come is done.
        biased;
        line = next_line(lines) => Ok(match line? {
            Some(line) => read(&line),
            None => Err(format!("the request is longer than {MAX_LINE} bytes")),
        }),
        () = sent_away.notified() => Ok(Err(format!(
            "no request came, and others took all {MOST_TALKS} places: try again"
        ))),
        () = tokio::time::sleep(FIRST_LINE) => {
            Ok(Err(format!("no request came within {} s", FIRST_LINE.as_secs())))
        }
    }
}

async fn serve(
    (lines, mut writer): (Lines, OwnedWriteHalf),
    request: Result<Request, String>,
    served: &Served,
    sender: &Sender,
) -> std::io::Result<()> {
    if is_gone(lines.get_ref().as_ref()) {
        // Who gave up was told that nothing was done.
        return Ok(());
    }
    let reply = match request {
        Ok(Request::Attach { id, size }) => match find(served, &id) {
            Ok(handle) => {
                let _attended = size.map(|_| Attended::by(&handle));
                return match stream::show(handle, size, (lines, writer), sender).await? {
                    Left::Over(mut writer) => writer.shutdown().await,
                    Left::Leaving | Left::Gone => Ok(()),
                };
            }
            Err(reason) => Reply::Refused { reason },
        },
        Ok(Request::Shell { wish }) => {
            return shell::run(served, wish, (lines, writer), sender).await;
        }
        Ok(request) => answer(request, served, sender).await,
        Err(reason) => Reply::Refused { reason },
    };
    writer.write_all(&line(&reply)?).await
}

/// Somebody with a terminal, as long as they are attached.
struct Attended(Arc<dyn Handle>);

impl Attended {
    fn by(handle: &Arc<dyn Handle>) -> Self {
        handle.attend(true);
        Self(handle.clone())
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        self.0.attend(false);
    }
}

/// Whether nobody is at the other end any more, who could read an answer.
fn is_gone(stream: &UnixStream) -> bool {
    let mut fds = [PollFd::new(stream, PollFlags::empty())];
    let looked = poll(&mut fds, Some(&Timespec::default()));
    looked.is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

/// The next line; `None` for one that is too long. That is read to its end, or its sender would be told of a
/// broken connection instead of the reason.
pub(super) async fn next_line(lines: &mut Lines) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let mut fits = true;
    for _ in 0..MOST_LINES {
        line.clear();
        lines.take(MAX_LINE as u64).read_until(b'\n', &mut line).await?;
        if line.len() < MAX_LINE || line.ends_with(b"\n") {
            return Ok(fits.then_some(line));
        }
        fits = false;
    }
    Err(std::io::ErrorKind::InvalidData.into())
}

async fn answer(request: Request, served: &Served, sender: &Sender) -> Reply {
    match request {
        Request::Probe => Reply::Snapshot { snapshot: Box::new(served.watch.now()) },
        Request::Jobs { ended } => Reply::Jobs { jobs: served.floor.board.cards(ended) },
        Request::Stop { id: None } => {
            served.stop.cancel();
            Reply::Stopping
        }
        Request::Stop { id: Some(id) } => match find(served, &id) {
            Ok(handle) => Reply::Stopped { id: handle.card().id, report: handle.stop().await },
            Err(reason) => Reply::Refused { reason },
        },
        Request::Steer { lane, text, wait } => steer(served, sender, (&lane, &text), wait).await,
        Request::Attach { .. } | Request::Shell { .. } => {
            Reply::Refused { reason: "this has no single answer".to_owned() }
        }
    }
}

async fn steer(served: &Served, sender: &Sender, (lane, text): (&str, &str), wait: bool) -> Reply {
    let steering = &served.floor.steering;
    match steering.post(lane, sender, text) {
        Ok(steer) if wait => {
            let fate = steering.fate(&steer.id).await;
            Reply::steered(steer, fate)
        }
        Ok(steer) => Reply::Steered { steer },
        Err(error) if error.is_late() => Reply::Missed { reason: error.to_string() },
        Err(error) => Reply::Refused { reason: error.to_string() },
    }
}

/// What has this id, or what there is instead. A lane's name stands for its one attempt, as in `steer`, also in
/// front of a job's number.
fn find(served: &Served, id: &str) -> Result<Arc<dyn Handle>, String> {
    let Floor { board, steering, .. } = &served.floor;
    if let Some(found) = board.find(id) {
        return Ok(found);
    }
    let (name, number) = id.split_at(id.find('#').unwrap_or(id.len()));
    let lane = steering.lane(name);
    if let Some(lane) = &lane
        && let Some(found) = board.find(&format!("{lane}{number}"))
    {
        return Ok(found);
    }
    Err(if !steering.is_open() {
        format!(
            "nothing is called {id:?}: no worker of the run has begun; try again once `bakeoff probe` shows the stage \
             workers (`bakeoff stop` without an id ends the run)"
        )
    } else if let Some(lane) = lane.filter(|_| number.is_empty()) {
        format!("{lane} has ended, and what it did can't be read any more")
    } else {
        let ids: Vec<String> = board.cards(true).into_iter().map(|card| card.id).collect();
        let of_it = |other: &&String| other.rsplit_once('/').is_some_and(|(name, _)| name == id);
        let attempts: Vec<&str> = ids.iter().filter(of_it).map(String::as_str).collect();
        if !attempts.is_empty() {
            return Err(format!(
                "lane {id} has several attempts: name one of {}",
                attempts.join(", ")
            ));
        }
        match ids.is_empty() {
            true => {
                format!("nothing is called {id:?}: nothing runs in the background at this moment")
            }
            false => format!("nothing is called {id:?}; there are {}", ids.join(", ")),
        }
    })
}
