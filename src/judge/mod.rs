//! Judges: who they are, how they are asked, and how their ballots add up.
//!
//! Lives here: definitions (from `judges/`, embedded; a user or a trusted repository may put others
//! over them), the panel that asks models about pairs of finalists, the strict reading of replies, the
//! controls for length, skeptics, duels' questions, and the tally, which is pure. Never here: the file system, gates, or a choice without evidence: no judge
//! sees a candidate that a hard gate failed, and nothing is ever chosen because it came first.

mod control;
mod definition;
mod duel;
mod facts;
mod panel;
mod reply;
mod skeptic;
mod steering;
mod tally;

pub use control::{control, void};
pub use definition::{Judge, JudgeError, JudgeLayer, Judges, LooksAt};
pub use duel::{DuelInput, DuelText, Written, duel_fact, write_test};
pub use facts::{Finalist, facts};
pub use panel::{JudgeModel, Panel, PanelInput, panel};
pub use skeptic::{Doubted, SkepticInput, doubt};
pub use steering::{speaks, steering};
pub use tally::{Doubt, PairResult, Standing, Tally, TallyOutcome, TallyRules, Voter, tally};

pub(crate) use facts::{gate_fact, gate_name, view};

/// The judges of a run that names none: what a change must do, what it must leave alone, and whether
/// its tests show it.
pub const DEFAULT_PANEL: [&str; 3] = ["correctness", "scope", "tests"];
