//! What an operator says to a worker under way.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArtifactId, LaneId};

/// Who sent something over a run's control socket, as the kernel names them. Only `control` makes one, from
/// the socket's own word on its peer; a test looks for other makers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sender {
    uid: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
}

impl Sender {
    /// The user with this id, and their name where the system knows one.
    pub fn of_peer(uid: u32, name: Option<String>) -> Self {
        Self { uid, name }
    }
}

/// For example `ada (uid 1000)`. A name holds nothing but what login names are made of.
impl fmt::Display for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name: String = self.name.iter().flat_map(|name| name.chars()).filter(plain).collect();
        match name.is_empty() {
            true => write!(f, "uid {}", self.uid),
            false => write!(f, "{name} (uid {})", self.uid),
        }
    }
}

/// What became of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// It waits for the worker's next turn.
    Waiting,
    /// The model answered a request with it.
    Told {
        /// The turn of the conversation, from 1.
        turn: u32,
    },
    /// The worker ended before its next turn: nobody read it.
    Missed,
}

/// A text of the operator's for a worker's next turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Steer {
    /// Its id in the run: `s1`, `s2`, … in the order of arrival.
    pub id: String,
    /// Whose turn it is for.
    pub lane: LaneId,
    /// Who sent it.
    pub from: Sender,
    /// The text.
    pub text: String,
    /// Where something of the text was masked in a journal: the SHA-256 of what it was, as a JSON string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub whole: Option<ArtifactId>,
    /// What became of it.
    #[serde(flatten)]
    pub fate: Fate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_named_in_plain_letters() {
        let sender = |name: &str| Sender::of_peer(7, Some(name.to_owned())).to_string();
        assert_eq!(sender("ada"), "ada (uid 7)");
        assert_eq!(sender("a\nEND: x"), "aENDx (uid 7)");
        assert_eq!(Sender::of_peer(0, None).to_string(), "uid 0");
    }
}
