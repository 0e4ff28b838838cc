//! What a run starts, it owns, shows and ends: run tokens, job tables, output rings, notices.
//!
//! A top-level worker run mints a token and stamps every job with it; its scope ends them all
//! (contracts C6 and C9). Sub-agents inherit the token, so that their jobs end with the top. Jobs that run in
//! the background stand in the table of their owner. Never here: models, and what is said to them.

mod book;
mod capture;
mod entry;
mod prompts;
mod reap;
mod ring;
mod sanitise;
mod scope;
mod table;
mod watch;

pub use book::JobBook;
pub use capture::Capture;
pub use entry::{JobEnd, JobState, JobView};
pub use prompts::{Prompt, PromptKind};
pub use reap::{ReapJournal, Swept, sweep_journals};
pub use ring::{Piece, Reading, Ring};
pub use sanitise::Sanitiser;
pub use scope::{RunScope, mint_token};
pub use table::{JobLimits, JobTable, KillReport, Notice, Order};
pub use watch::{Watch, WatchState};
