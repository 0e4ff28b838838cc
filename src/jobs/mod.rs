//! What a run starts, it owns, shows and ends: run tokens, job tables, output rings, notices.
//!
//! A top-level worker run mints a token and stamps every job with it; its scope ends them all
//! (contracts C6 and C9). Sub-agents inherit the token, so that their jobs end with the top. Jobs that run in
//! the background stand in the table of their owner. What is live in a run, workers too, stands on one board, where
//! the operator finds a handle for it. Never here: models, and what is said to them.

mod backlog;
mod board;
mod book;
mod capture;
mod entry;
mod handle;
mod host;
mod keyboard;
mod listen;
mod notice;
mod operate;
mod order;
mod pour;
mod prompts;
mod reap;
mod ring;
mod sanitise;
mod scope;
mod stamp;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod veil;
mod watch;

pub use board::{Board, Source};
pub use book::JobBook;
pub use entry::{JobEnd, JobState, JobView};
pub use handle::{Handle, Input, Size, StopReport};
pub use host::{Command, Entrance, Ground, HostJob, HostJobs};
pub use notice::{KillReport, Notice};
pub use order::{Alone, JobLimits, Order, Viewer};
pub use prompts::{Prompt, PromptKind};
pub use reap::{ReapJournal, Swept, sweep_journals};
pub use ring::{Piece, Reading, Ring};
pub use sanitise::Sanitiser;
pub use scope::{RunScope, mint_token};
pub use table::JobTable;
pub use watch::{Matched, Watch, WatchState};
