//! The only place that knows the order of the stages; it owns the run.
//!
//! `assemble` makes the real phases, `run` walks through them, `decide` is pure. Never here: rendering.

mod adapters;
mod alike;
mod alone;
mod anew;
mod applying;
mod assemble;
mod base_files;
mod cautions;
mod changed;
mod checkup;
mod choice;
mod choosing;
mod cut;
mod decide;
mod design;
mod digest;
mod duel;
mod duels;
mod early;
mod error;
mod estimate;
mod fingerprint;
mod frame;
mod gaps;
pub mod git;
mod heal;
mod judging;
mod kept;
mod layers;
mod limited;
mod memory;
mod models;
mod open;
mod own_words;
mod phases;
mod prior;
mod put_back;
pub mod python;
mod remembering;
mod replay;
mod resume;
mod run;
mod servers;
mod shells;
mod side;
mod stages;
mod steers;
mod survey;
mod tell;
mod trial;
mod work;

#[cfg(test)]
mod tests;

pub use crate::repo::ApplyTo;
pub use applying::{Applier, Moved, Step, repository_of};
pub use assemble::{Commission, Equipment, cache_limits, conduct};
pub use cautions::masked_diff;
pub use changed::changed_files;
pub use checkup::{Checkup, checkup};
pub use decide::{Standing, decide};
pub use digest::{digest_of, unfinished};
pub use error::PipelineError;
pub use estimate::{Estimate, LaneEstimate, Stopper, estimate, unkept};
pub use fingerprint::fingerprint;
pub use frame::Frame;
pub use layers::check_judges;
pub use memory::{Memory, Recall};
pub use models::Models;
pub use own_words::own_words;
pub use phases::{
    Admit, Aside, Attempt, Close, Designs, Duels, Failed, Fuse, Heard, Judge, Pairing, Phases,
    Proposal, Prove, Side, Survivor, Weigh, Weighed, Work,
};
pub use replay::replay;
pub use resume::{Continuation, begin_rejudge, resume};
pub use run::{Assignment, Given, Stopped, execute};
pub use servers::{HeaderView, ServerView, servers};
pub use survey::{CONFIG_FILE, OVERRIDES_DIR, Survey};
pub use tell::Teller;
