//! What the engine and the warden say to each other, and how it is framed.
//!
//! A frame is two little-endian `u32` lengths, then that many bytes of JSON and of payload. The
//! payload is a job's standard input on the way there and its output on the way back. Open files travel with
//! the first byte of their frame.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::super::identity::ProcessId;
use super::super::job::{JobSpec, JobStatus, Limits, Mount, Network, SandboxError};
use super::super::live::{Feed, Feeding, InputState, TerminalSize};
use super::super::overlay::OverlayKind;
use super::super::tier::Tier;

/// The largest frame that is taken; a longer one means that the other side is broken.
const MAX_FRAME: usize = 1 << 30;

/// From the engine.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Start a job; the payload is its standard input.
    Run { id: u64, tier: Tier, spec: WireSpec },
    /// End a job: TERM and 2 s of grace before KILL, or KILL at once with `force`.
    Stop { id: u64, force: bool },
    /// End one job, politely first, and answer as for a token.
    EndJob { id: u64, job: u64 },
    /// Do something with a job's input; the payload is what is to be written.
    Feed { id: u64, job: u64, what: WireFeeding },
    /// Hand on so many bytes of a job's output more, or all. There is no answer.
    Allow { job: u64, bytes: Option<u64> },
    /// Kill every job of a token, and start no further one of it.
    EndToken { id: u64, token: String },
    /// Mount an overlay in the warden's own namespaces, or for a trial in others.
    Mount {
        id: u64,
        kind: Option<OverlayKind>,
        lower: Vec<OsString>,
        dir: OsString,
        memory: Option<u64>,
    },
    /// Let one go. There is no answer.
    Unmount { dir: OsString, memory: bool },
}

/// From the warden.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The job's init runs; this is always the first word about it.
    Started { id: u64, process: ProcessId },
    /// A live job wrote the payload.
    Output { id: u64 },
    /// The job ended, and nothing of it is alive; the payload is its output.
    Ended { id: u64, status: WireStatus, dropped: u64, micros: u64 },
    /// The job could not be run.
    Failed { id: u64, error: WireError },
    /// A token's jobs were killed.
    TokenEnded { id: u64, killed: u32, survivors: Vec<String> },
    /// What was asked of a job's input is done, or why it can't be.
    Fed { id: u64, outcome: Result<InputState, String> },
    /// An overlay is mounted; its top and its upper directory come with this message.
    Mounted { id: u64, kind: OverlayKind },
    /// It could not be mounted.
    NotMounted { id: u64, step: String },
}

/// [`JobSpec`] without its standard input, in a form that keeps every byte of paths and arguments.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireSpec {
    pub token: String,
    pub label: String,
    pub argv: Vec<OsString>,
    pub env: Vec<(OsString, OsString)>,
    pub cwd: OsString,
    pub mounts: Vec<WireMount>,
    pub host_network: bool,
    pub wall: Duration,
    pub memory_bytes: u64,
    pub processes: u64,
    pub file_bytes: u64,
    pub output_bytes: usize,
    pub disk_bytes: u64,
    pub free_bytes: u64,
    /// Whether its output is handed on as it comes.
    pub live: bool,
    /// Whether an open file comes with it, which the job is to inherit.
    pub channel: bool,
    /// What it has as its standard input behind the payload.
    pub feed: Feed,
    /// So much of its output is handed on until more is allowed.
    pub credit: Option<u64>,
}

/// [`Feeding`] without its bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum WireFeeding {
    Write { hidden: bool },
    Close,
    Resize(TerminalSize),
    Look,
    Inspect,
}

impl From<Feeding> for (WireFeeding, Vec<u8>) {
    fn from(feeding: Feeding) -> Self {
        match feeding {
            Feeding::Write { bytes, hidden } => (WireFeeding::Write { hidden }, bytes),
            Feeding::Close => (WireFeeding::Close, Vec::new()),
            Feeding::Resize(size) => (WireFeeding::Resize(size), Vec::new()),
            Feeding::Look => (WireFeeding::Look, Vec::new()),
            Feeding::Inspect => (WireFeeding::Inspect, Vec::new()),
        }
    }
}

/// [`Mount`] with every byte of its paths.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum WireMount {
    ReadOnly { from: OsString, at: OsString },
    ReadWrite { from: OsString, at: OsString },
    Tmp { at: OsString, bytes: u64 },
    Covered { at: OsString },
    Overlay { lower: Vec<OsString>, upper: OsString, work: OsString, at: OsString },
}

/// [`JobStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireStatus {
    Exited(i32),
    Signalled(i32),
    TimedOut,
    DiskLimit { held: u64, left: Option<u64> },
    Killed,
}

/// Why a job could not be run: the part of [`SandboxError`] that the warden may answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WireError {
    Setup(String),
    Start { program: String, reason: String },
}

impl From<WireError> for SandboxError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Setup(step) => Self::Setup(step),
            WireError::Start { program, reason } => Self::Start { program, reason },
        }
    }
}

impl From<WireStatus> for JobStatus {
    fn from(status: WireStatus) -> Self {
        match status {
            WireStatus::Exited(code) => Self::Exited(code),
            WireStatus::Signalled(signal) => Self::Signalled(signal),
            WireStatus::TimedOut => Self::TimedOut,
            WireStatus::DiskLimit { held, left } => Self::DiskLimit { held, left },
            WireStatus::Killed => Self::Killed,
        }
    }
}

impl From<Mount> for WireMount {
    fn from(mount: Mount) -> Self {
        match mount {
            Mount::ReadOnly { from, at } => Self::ReadOnly { from: from.into(), at: at.into() },
            Mount::ReadWrite { from, at } => Self::ReadWrite { from: from.into(), at: at.into() },
            Mount::Tmp { at, bytes } => Self::Tmp { at: at.into(), bytes },
            Mount::Covered { at } => Self::Covered { at: at.into() },
            Mount::Overlay { lower, upper, work, at } => Self::Overlay {
                lower: lower.into_iter().map(Into::into).collect(),
                upper: upper.into(),
                work: work.into(),
                at: at.into(),
            },
        }
    }
}

/// Splits a job's description into its wire form and its standard input.
pub(crate) fn split(spec: JobSpec) -> (WireSpec, Vec<u8>) {
    let Limits { wall, memory_bytes, processes, file_bytes, output_bytes, disk_bytes, free_bytes } =
        spec.limits;
    let wire = WireSpec {
        token: spec.token.as_str().to_owned(),
        label: spec.label,
        argv: spec.argv,
        env: spec.env,
        cwd: spec.cwd.into(),
        mounts: spec.mounts.into_iter().map(Into::into).collect(),
        host_network: spec.network == Network::Host,
        wall,
        memory_bytes,
        processes,
        file_bytes,
        output_bytes,
        disk_bytes,
        free_bytes,
        live: false,
        channel: false,
        feed: Feed::Nothing,
        credit: None,
    };
    (wire, spec.stdin)
}

/// Writes a message and its payload as one frame.
pub(crate) fn encode(message: &impl Serialize, payload: &[u8]) -> std::io::Result<Vec<u8>> {
    let head = serde_json::to_vec(message)?;
    let length = |len: usize| {
        u32::try_from(len).ok().filter(|_| len <= MAX_FRAME).ok_or_else(|| {
            std::io::Error::new(std::io::ErrorKind::InvalidInput, "a message is longer than 1 GiB")
        })
    };
    let mut frame = Vec::with_capacity(8 + head.len() + payload.len());
    frame.extend(length(head.len())?.to_le_bytes());
    frame.extend(length(payload.len())?.to_le_bytes());
    frame.extend(head);
    frame.extend(payload);
    Ok(frame)
}

/// Takes the first whole frame off `buffer`; `None` when there is none yet.
pub(crate) fn decode<M: DeserializeOwned>(
    buffer: &mut Vec<u8>,
) -> std::io::Result<Option<(M, Vec<u8>)>> {
    let Some(lengths) = buffer.first_chunk::<8>() else { return Ok(None) };
    let [a, b, c, d, e, f, g, h] = *lengths;
    let head = u32::from_le_bytes([a, b, c, d]) as usize;
    let payload = u32::from_le_bytes([e, f, g, h]) as usize;
    if head > MAX_FRAME || payload > MAX_FRAME {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    if buffer.len() < 8 + head + payload {
        return Ok(None);
    }
    let message = serde_json::from_slice(&buffer[8..8 + head])?;
    let bytes = buffer[8 + head..8 + head + payload].to_vec();
    buffer.drain(..8 + head + payload);
    Ok(Some((message, bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_being_cut_anywhere() {
        let sent = Request::EndToken { id: 7, token: "t".into() };
        let frame = encode(&sent, b"payload").unwrap();
        for cut in 0..frame.len() {
            let mut buffer = frame[..cut].to_vec();
            assert!(decode::<Request>(&mut buffer).unwrap().is_none());
        }
        let mut buffer = [frame.clone(), frame].concat();
        for _ in 0..2 {
            let (message, payload) = decode::<Request>(&mut buffer).unwrap().unwrap();
            assert!(matches!(message, Request::EndToken { id: 7, .. }));
            assert_eq!(payload, b"payload");
        }
        assert!(buffer.is_empty());
    }
}
