//! Proof: setup, apply, typecheck and tests, in the sandbox, against the base's own result.
//!
//! Lives here: finding the commands, what defines a gate and therefore comes from the base, reading
//! the tools' output, comparing with the base, and running it all. Never here: models.

mod carry;
mod compare;
mod contest;
mod detect;
mod duel;
mod env;
mod error;
mod flaky;
mod grounds;
mod infra;
mod keeper;
#[cfg(test)]
mod memory;
mod outcome;
mod own;
mod protect;
mod read;
mod recall;
mod report;
mod room;
mod tool;

pub use detect::{Detected, detect};
pub use duel::{DuelTest, duel_test, result as duel_result};
pub use error::GateError;
pub use grounds::{Ground, Grounds, Kept, Layer};
pub use keeper::{BaseGates, Gatekeeper};
pub use protect::{Gated, gated, tests_near, text_at};
pub use tool::{tool_in, tool_of};
