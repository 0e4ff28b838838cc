//! Scenarios: whole runs on a scripted model, from data files; the demo is one of them.
//!
//! The red team of the judges needs no run and no repository: it asks real panels, with scripted models.
//!
//! Lives here: reading `demo/` and `selftests/*`, laying a scenario out on disk, and comparing a
//! record with what was expected. The run itself is the caller's, so that a scenario takes the same way
//! as every other run. Never here: the network.

mod expect;
pub mod red_team;
mod scenario;

pub use expect::{Expect, compare};
pub use scenario::{LaidOut, Scenario, ScenarioError, demo, selftests};
