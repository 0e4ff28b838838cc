//! The operator's socket of a running run: look at it, stop it.
//!
//! Lives here: the socket in the run's directory (for its owner only), the snapshot that `probe`
//! shows, which is built from events and asks no model, and the client's side. Never here: rendering.

mod client;
mod server;
mod snapshot;

pub use client::{ControlError, ask};
pub use server::{Control, Reply, Request};
pub use snapshot::{LaneSnapshot, Snapshot, Watch};
