//! Selftests: whole runs on a scripted model, from data files, and what they must come to; the demo is one
//! of them.
//!
//! Lives here: reading `demo/` and `selftests/*`, laying a scenario out on disk, comparing a record and what
//! models were asked with what was expected, the attacks of the sandbox's probes, and the engine that is
//! killed, the processes that lanes leave, an operator beside a run, and the red team of the judges, which needs no run: it asks real panels. A scenario's run itself is the caller's, so that it takes the same way as every other run. Never
//! here: the network.

mod asked;
mod canaries;
mod crash;
mod expect;
mod operator;
mod processes;
mod reaped;
pub mod red_team;
mod scenario;

pub use asked::compare_requests;
pub use canaries::canaries;
pub use crash::{CrashError, crash};
pub use expect::{Expect, compare};
pub use operator::{Step, operate};
pub use reaped::Reaped;
pub use scenario::{LaidOut, Scenario, ScenarioError, demo, selftests};
