//! A proposed change, how its worker stopped, and what admission said of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArtifactId, CandidateId, Family, LaneId, TreeId, Usage};

/// Who proposed a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A worker run of this run.
    Worker,
    /// The synthesizer.
    Synthesized,
    /// Made elsewhere and handed in (`pick`, `gate`).
    Given,
}

/// A statement about a change that can be checked, made by its author.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The statement.
    pub text: String,
    /// The file it speaks of, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line it speaks of (from 1), if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A claim of an author that the change, or what a gate printed, shows to be untrue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refuted {
    /// Which of the candidate's claims, from 1.
    pub claim: u32,
    /// Whose word it is: a skeptic's model's; the engine's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Why: a model's words, unless it is the engine's own.
    pub reason: String,
    /// Texts that were found in the diff or in a gate's output.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotes: Vec<String>,
    /// Texts that were found in no added line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
}

/// The limit that cut a worker off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Tool rounds.
    Iterations,
    /// Wall-clock time.
    Time,
    /// Money or tokens of the budget.
    Cost,
    /// The model's context window.
    Context,
}

/// How a worker run ended. Only `Submitted` is complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stop {
    /// The worker said that it was done.
    Submitted,
    /// A limit cut it off: what it left is PARTIAL.
    Limit {
        /// Which one.
        limit: Limit,
    },
    /// The model stopped without saying that it was done, after one reminder: PARTIAL.
    Quit,
    /// The operator or the end of the run stopped it: PARTIAL.
    Cancelled,
    /// It was cut off, or never begun, because enough candidates were there (`--enough`). What it had
    /// changed is no candidate.
    NotNeeded,
    /// Its model could not be reached or paid, or its workspace broke.
    Failed {
        /// A stable kebab-case class (`auth`, `unreachable`, `rate-limited`, `workspace`, …).
        class: String,
        /// What happened, with what to do next.
        message: String,
    },
    /// A diff made elsewhere: nothing ran.
    Given,
}

impl Stop {
    /// Whether the worker finished its work (or the diff was handed in whole).
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::Submitted | Self::Given)
    }

    /// Whether what it left must be called PARTIAL (contract R23).
    pub fn is_partial(&self) -> bool {
        matches!(self, Self::Limit { .. } | Self::Quit | Self::Cancelled)
    }
}

/// A proposed change against the base commit. The diff's bytes are an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its id in the run.
    pub id: CandidateId,
    /// Who proposed it.
    pub kind: Kind,
    /// The lane it came from; for a given diff, the name of its source.
    pub lane: LaneId,
    /// Its voice in the consensus.
    pub family: Family,
    /// The diff as it was proposed, before any repair.
    pub diff: ArtifactId,
    /// The diff's size in bytes.
    pub diff_bytes: u64,
    /// The author's closing words: foreign text.
    pub answer: String,
    /// What the author claims: foreign text.
    pub claims: Vec<Claim>,
    /// What it cost.
    pub usage: Usage,
    /// How its worker stopped.
    pub stop: Stop,
}

/// A repair of a diff's form that can't change its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Repair {
    /// A stable kebab-case code (`hunk-counts`, `markdown-fence`, `final-newline`, …).
    pub code: String,
    /// What was done, for a reader.
    pub detail: String,
}

/// Something about an admitted diff that a reader and the judges must know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Flag {
    /// A stable kebab-case code (`bidi-characters`, `touches-gate`, `weakens-tests`, …).
    pub code: String,
    /// The path it speaks of, lossily decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What was seen, for a reader.
    pub detail: String,
}

/// Why a diff was not admitted, in words that its author can act on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refusal {
    /// A stable kebab-case code (`hunk-not-found`, `path-outside`, `empty`, …).
    pub code: String,
    /// What is wrong and what would be right, one or two sentences.
    pub message: String,
    /// The file, lossily decoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The hunk in that file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunk: Option<u32>,
    /// What the diff expected there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

/// What a diff does to one path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// A new file.
    Added,
    /// New contents (and perhaps a new mode).
    Modified,
    /// The file goes away.
    Deleted,
    /// Moved from another path, perhaps edited.
    Renamed,
    /// Copied from another path, perhaps edited.
    Copied,
    /// Only the mode changes.
    Mode,
}

/// One path of an admitted diff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// The path after the change (before it, for a deletion), lossily decoded.
    pub path: String,
    /// What happens to it.
    pub change: ChangeKind,
    /// Lines added.
    pub added: u32,
    /// Lines removed.
    pub removed: u32,
}

/// What admission said of a diff. A refusal is a value, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Admission {
    /// It applies to the base and gives this tree.
    Admitted {
        /// The whole tree after the change.
        tree: TreeId,
        /// What had to be mended in the diff's form.
        repairs: Vec<Repair>,
        /// What a reader must know of it.
        flags: Vec<Flag>,
        /// The paths it changes.
        files: Vec<FileChange>,
    },
    /// It does not apply or may not.
    Refused(Refusal),
}

impl Admission {
    /// The tree, when admitted.
    pub fn tree(&self) -> Option<&TreeId> {
        match self {
            Self::Admitted { tree, .. } => Some(tree),
            Self::Refused(_) => None,
        }
    }
}
