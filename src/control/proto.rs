//! What goes over a run's control socket: JSON, one object a line.
//!
//! A request is one line, and its answer is one line; only after [`Request::Attach`] lines go on in both directions:
//! [`Frame`]s from the engine, [`Said`] from the operator. Every request names the protocol's version. What
//! is unknown is refused with a reason, and never taken for something else.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::snapshot::Snapshot;
use crate::jobs::{Alone, Input, Size, StopReport};
use crate::model::{Card, Fate, Steer};

/// Version of the protocol. It grows with every change that the other side has to know of.
pub const PROTOCOL: u32 = 1;

/// The longest line of an operator's, in bytes: the longest text for a worker as JSON, and room around it.
pub(super) const MAX_LINE: usize = 128 << 10;

/// The most bytes that are poured in at once: any of them fit into a line, however they are written in JSON.
pub const MOST_POURED: usize = 16 << 10;

/// What an operator may ask.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// A snapshot. No model is asked (contract R11).
    Probe,
    /// The list of what is live.
    Jobs {
        /// Also what ended and can still be read.
        ended: bool,
    },
    /// Stop the run: what is proved by then is kept. With an id, stop that alone.
    Stop {
        /// A worker, a job or a shell; a lane's name stands for its one attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// A text for a worker's next turn.
    Steer {
        /// The lane, by its id or, where it has one attempt, its name.
        lane: String,
        /// The text.
        text: String,
        /// Answer once it is known what became of it.
        wait: bool,
    },
    /// Run a command of the operator's in a lane's workspace, and show it as [`Request::Attach`] does.
    Shell {
        /// It.
        wish: Wish,
    },
    /// Show what something wrote and goes on to write, and take input for it.
    Attach {
        /// What, as for [`Request::Stop`].
        id: String,
        /// The size of the operator's terminal, if it is one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<Size>,
    },
}

/// A command of the operator's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// The lane in whose workspace it runs, by its id or, where it has one attempt, its name; may be left out where
    /// only one has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<String>,
    /// What `/bin/sh` gets.
    pub script: String,
    /// The directory, from the workspace's top; empty for the top.
    #[serde(default)]
    pub dir: String,
    /// The size of its terminal, if it is to have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<Size>,
    /// Why nobody can answer when it asks for a secret, if so: it is ended then.
    #[serde(default)]
    pub alone: Alone,
    /// Leave it at once: it runs until the run ends. Without this it ends when whoever started it goes away without
    /// a word.
    #[serde(default)]
    pub detach: bool,
    /// What it writes is wanted as its bytes, as [`Frame::Bytes`], and not as the text that everybody sees.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bytes: bool,
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Reply {
    /// The snapshot.
    Snapshot {
        /// It.
        snapshot: Box<Snapshot>,
    },
    /// The list.
    Jobs {
        /// It, workers before their jobs.
        jobs: Vec<Card>,
    },
    /// The run is being stopped.
    Stopping,
    /// Something was stopped, or was told to.
    Stopped {
        /// What.
        id: String,
        /// What came of it.
        report: StopReport,
    },
    /// A text was taken; its fate is known where that was waited for.
    Steered {
        /// It.
        steer: Steer,
    },
    /// A text came too late: nobody reads it.
    Missed {
        /// Why.
        reason: String,
    },
    /// A command was started and left.
    Detached {
        /// It.
        card: Card,
        /// That it runs until the run ends, in words.
        told: String,
    },
    /// Lines follow.
    Attached {
        /// What it is.
        card: Card,
        /// What is put in is read as texts: lines, no bytes.
        #[serde(default)]
        texts: bool,
        /// It has a terminal of its own.
        #[serde(default)]
        terminal: bool,
    },
    /// Nothing was done.
    Refused {
        /// Why, and what to do next.
        reason: String,
    },
}

impl Reply {
    /// The answer to a text: it stands in the record now, whatever became of it.
    pub(super) fn steered(steer: Steer, fate: Fate) -> Self {
        Self::Steered { steer: Steer { fate, ..steer } }
    }
}

/// A line to whoever is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "frame", rename_all = "snake_case")]
pub enum Frame {
    /// What was written. Foreign text.
    Output {
        /// It.
        text: String,
    },
    /// What was written, as it is.
    Bytes {
        /// Each character is a byte, U+0000 to U+00FF.
        bytes: String,
    },
    /// So many bytes of what was written are gone.
    Dropped {
        /// How many.
        bytes: u64,
    },
    /// It stands otherwise than before.
    State {
        /// How.
        card: Card,
    },
    /// Bytes that were poured in are in their place, or not: no more come before this.
    Poured {
        /// Whether it reads on.
        open: bool,
        /// Why they were not taken, if they were lost.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lost: Option<String>,
    },
    /// What was put in was taken, and there is something to be said of it.
    Note {
        /// It.
        text: String,
    },
    /// What was put in was not taken.
    Refused {
        /// Why.
        reason: String,
    },
    /// Behind the end of a command that whoever is attached has started.
    Exit {
        /// Its exit status: 128 and the number of the signal that ended it, 124 when its time was over, 125 when the
        /// engine ended it or could not run it.
        code: i32,
        /// Why the engine ended it, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
        /// What is left of earlier commands, in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        told: String,
    },
    /// It ended, and all that it wrote was sent.
    Ended {
        /// How.
        card: Card,
    },
}

/// A line of whoever is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case", deny_unknown_fields)]
pub enum Said {
    /// Put this in.
    Input {
        /// It.
        input: Input,
    },
    /// Put these bytes in as they are, and answer with [`Frame::Poured`].
    Pour {
        /// Each character is a byte, U+0000 to U+00FF.
        bytes: String,
    },
    /// The terminal has this size now.
    Resize {
        /// It.
        size: Size,
    },
    /// The viewer leaves on purpose: also what was started to be seen to its end goes on.
    Leave,
}

/// A request as a line, with the version.
pub(super) fn line_of(request: &Request) -> serde_json::Result<Vec<u8>> {
    let mut value = serde_json::to_value(request)?;
    value["protocol"] = PROTOCOL.into();
    line(&value)
}

/// Bytes as a text that every JSON string can hold, a character for each.
pub fn bytes_as_text(bytes: &[u8]) -> String {
    // What is ASCII is its own text.
    match std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()) {
        Some(text) => text.to_owned(),
        None => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// The bytes of such a text; `None` when it is none.
pub fn text_as_bytes(text: &str) -> Option<Vec<u8>> {
    if text.is_ascii() {
        return Some(text.as_bytes().to_vec());
    }
    text.chars().map(|one| u8::try_from(one).ok()).collect()
}

/// Any message as a line.
pub(super) fn line(message: &impl Serialize) -> serde_json::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Reads a request.
///
/// # Errors
/// In words for whoever sent it.
pub(super) fn read(line: &[u8]) -> Result<Request, String> {
    let mut value: Value = serde_json::from_slice(line)
        .map_err(|error| format!("the request is no JSON object on a line of its own: {error}"))?;
    let version = value.as_object_mut().and_then(|fields| fields.remove("protocol"));
    match version.as_ref().and_then(Value::as_u64) {
        Some(version) if version == u64::from(PROTOCOL) => {}
        Some(version) => {
            return Err(format!(
                "the request is of version {version} of the protocol, and the run's engine speaks {PROTOCOL}; \
                 use the bakeoff that made the run ({})",
                env!("CARGO_PKG_VERSION")
            ));
        }
        None => return Err(format!("the request names no `protocol`; this is version {PROTOCOL}")),
    }
    serde_json::from_value(value).map_err(|error| format!("the request is not understood: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_back_as_they_were_sent() {
        let size = Some(Size { rows: 40, columns: 120 });
        let (lane, text) = ("one/1".to_owned(), "x\ny".to_owned());
        for request in [
            Request::Probe,
            Request::Jobs { ended: true },
            Request::Stop { id: None },
            Request::Stop { id: Some("one/1#2".to_owned()) },
            Request::Steer { lane: lane.clone(), text, wait: true },
            Request::Attach { id: lane, size },
        ] {
            let line = line_of(&request).unwrap();
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert_eq!(read(&line), Ok(request));
        }
    }

    #[test]
    fn every_byte_comes_back_and_a_full_piece_fits_into_a_line() {
        let all: Vec<u8> = (0..=255).collect();
        let text = bytes_as_text(&all);
        assert_eq!((text_as_bytes(&text), text_as_bytes("€")), (Some(all), None));
        let worst = Said::Pour { bytes: bytes_as_text(&[0; MOST_POURED]) };
        assert!(line(&worst).unwrap().len() < MAX_LINE);
    }

    #[test]
    fn what_is_unknown_is_refused_with_a_reason() {
        for (line, why) in [
            (r#"{"ask":"probe","protocol":2}"#, "speaks 1"),
            (r#"{"ask":"probe"}"#, "names no `protocol`"),
            (r#"{"ask":"explode","protocol":1}"#, "unknown variant `explode`"),
            (r#"{"ask":"jobs","ended":true,"more":1,"protocol":1}"#, "unknown field `more`"),
            (r#"{"ask":"steer","lane":"one","protocol":1}"#, "missing field `text`"),
            ("[1]", "names no `protocol`"),
            ("probe", "no JSON object"),
            ("", "no JSON object"),
        ] {
            let refused = read(line.as_bytes()).unwrap_err();
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }
}
