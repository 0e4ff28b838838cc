//! What a run leaves on disk: an append-only journal, content-addressed artifacts, the record.
//!
//! A run's directory holds `journal.jsonl`, `artifacts/`, `record.json` and a lock. Everything is
//! written by rename or append and synced before its effect is used; each line is tied to those before it, and the
//! last one names the record; known secrets are masked at write. Never here: phases, what an entry means for a decision.

mod artifacts;
mod chain;
mod check;
mod entry;
mod error;
mod escaped;
mod lock;
mod mask;
mod names;
mod read;
mod retire;
mod runs;
mod sweep;

pub use artifacts::Artifacts;
pub use entry::{Checkpoint, Entry, JOURNAL_VERSION, LeftBehind};
pub use error::JournalError;
pub use mask::{Learnt, MASK, MIN_LEARNT_BYTES, Masker};
pub use read::Read;
pub use retire::OnDisk;
pub use runs::{RunDir, RunSummary, Runs};
