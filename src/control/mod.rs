//! The operator's socket of a running run: look at it, stop it or a part of it, speak to its workers.
//!
//! Lives here: the socket in the run's directory (for its owner only), the protocol, the snapshot that `probe`
//! shows, which is built from events and asks no model, and the client's side. It is the one way by which a
//! word of the operator's comes to a worker (contract C26). Never here: rendering.

mod client;
mod follow;
mod peer;
mod proto;
mod server;
mod shell;
mod snapshot;
mod stream;
#[cfg(test)]
mod tests;

pub use client::{ControlError, ask};
pub use follow::{Follow, ShellAnswer, Speak, attach, shell};
pub use proto::{
    Frame, MOST_POURED, PROTOCOL, Reply, Request, Said, Wish, bytes_as_text, text_as_bytes,
};
pub use server::{Control, Served};
pub use snapshot::{LaneSnapshot, Snapshot, Watch};
