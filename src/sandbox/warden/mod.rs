//! The warden: one process with one thread that owns every spawn.
//!
//! `client` is the engine's side: it starts the warden by executing the product's own program again
//! and speaks to it over a socket. `server` is the warden's loop, `keeper` its care for the jobs. The
//! engine never forks; when it is gone, the socket ends, and the warden kills every job and ends too.
//! When the warden is gone, each job's init dies by its parent-death signal. Never here: what a job
//! may do (`jail`).

mod client;
mod feed;
pub(super) mod files;
mod input;
mod keeper;
mod live;
mod meter;
mod output;
mod pipes;
pub(crate) mod proto;
mod realm;
mod server;
mod table;
mod waits;

pub use client::{Life, Mounted, Warden, WardenOptions};
pub use meter::held_below;
pub use table::Reaped;

pub(crate) use output::Output;

pub(super) use client::{Started, secret};
pub(super) use input::winsize;
pub(super) use server::serve;

/// The first argument that makes the product's program a warden.
pub(super) const WARDEN_ARGUMENT: &str = "__warden";
