//! What is live in a run, as lists and live views show it.
//!
//! A lane's worker, a worker's job and an operator's shell look alike here: what a thing is, is data, and
//! nobody acts on it but to print its label (contract R4).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sink::Sink;
use super::{JobId, LaneId};

/// What a thing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CardKind {
    /// A lane's worker.
    Worker,
    /// A job that a worker started.
    Job,
    /// A command of the operator's.
    Shell,
}

impl CardKind {
    /// Its name in lists: the one place where it becomes words.
    pub fn label(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Job => "job",
            Self::Shell => "shell",
        }
    }
}

/// How a thing stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum CardState {
    /// It has not begun: there is no place for it yet.
    Waiting,
    /// It runs.
    Running,
    /// It was told to end, and its end is not proven.
    Stopping {
        /// What may still be alive of it, by name, once that was looked at.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        alive: Vec<String>,
    },
    /// It waits for a word of the operator's.
    NeedsApproval {
        /// What it asks: foreign text.
        prompt: String,
        /// Whether the answer is a secret, which no screen may show.
        secret: bool,
    },
    /// It ended, and nothing of it is alive.
    Ended {
        /// How, in a few words.
        how: String,
    },
}

impl CardState {
    /// Whether something of it is, may be, or is going to be alive (contract R2).
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Ended { .. })
    }

    /// In a few words.
    pub fn words(&self) -> String {
        match self {
            Self::Waiting => "waiting".to_owned(),
            Self::Running => "running".to_owned(),
            Self::Stopping { alive } if alive.is_empty() => "stopping".to_owned(),
            Self::Stopping { alive } => format!("stopping, may be alive: {}", alive.join(", ")),
            Self::NeedsApproval { prompt, .. } => format!("asks: {prompt}"),
            Self::Ended { how } => how.clone(),
        }
    }
}

/// A thing at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Card {
    /// Its id, the same in lists, tool results, `attach` and `stop` (contract R3).
    pub id: String,
    /// What it is.
    pub kind: CardKind,
    /// Whose it is: a lane, a nested worker of one, the run, the operator.
    pub owner: String,
    /// What it does: a command line, or a worker's model. Foreign text.
    pub title: String,
    /// How it stands.
    #[serde(flatten)]
    pub state: CardState,
    /// How long it ran, or has run so far, in seconds.
    pub age: u64,
    /// How much it wrote, in bytes.
    pub bytes: u64,
}

impl Card {
    /// The card of a worker that begins.
    pub fn worker(lane: &LaneId, model: &str) -> Self {
        Self::running(lane.to_string(), CardKind::Worker, "run", model)
    }

    /// The card of a worker's job that begins.
    pub fn job(id: &JobId, owner: &str, command: &str) -> Self {
        Self::running(id.to_string(), CardKind::Job, owner, command)
    }

    fn running(id: String, kind: CardKind, owner: &str, title: &str) -> Self {
        let (owner, title) = (owner.to_owned(), title.to_owned());
        Self { id, kind, owner, title, state: CardState::Running, age: 0, bytes: 0 }
    }
}

/// Where cards go of what is shown and kept nowhere: they are no events of a run.
pub type CardSink = Sink<Card>;

#[cfg(test)]
mod tests {
    use super::*;

    // contract R2 in part: that each has a row and a stop is tested with whole runs
    #[test]
    fn whatever_is_not_proven_to_have_ended_is_live() {
        let prompt = "password:".to_owned();
        let live = [
            CardState::Running,
            CardState::Stopping { alive: vec!["sleep".to_owned()] },
            CardState::NeedsApproval { prompt, secret: true },
        ];
        assert!(live.iter().all(CardState::is_live));
        assert!(!CardState::Ended { how: "exit 0".to_owned() }.is_live());
        assert_eq!(live[1].words(), "stopping, may be alive: sleep");
    }

    #[test]
    fn a_card_is_one_flat_object() {
        let card = Card::job(&JobId::new("one/1#1"), "one/1", "tail -f x");
        let value = serde_json::to_value(&card).unwrap();
        assert_eq!((&value["state"], &value["kind"]), (&"running".into(), &"job".into()));
        assert_eq!(serde_json::from_value::<Card>(value).unwrap(), card);
    }
}
