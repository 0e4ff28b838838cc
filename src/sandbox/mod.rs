//! The only place where a process starts: policy, tiers, canary probes, the warden.
//!
//! Running code needs a [`Permit`], which is made of a [`ProbeReport`] in which every attack was
//! stopped, or of an operator's explicit waiver. A [`Launcher`] is a [`Warden`] with a permit. Never
//! here: models.

mod advice;
mod canary;
mod descent;
mod engine;
mod identity;
mod jail;
mod job;
mod launcher;
mod leftover;
mod live;
mod overlay;
mod permit;
mod probe;
mod sys;
mod tier;
pub mod toolchain;
mod warden;

use std::process::ExitCode;

pub use engine::Engine;
pub use identity::ProcessId;
pub use job::{JobExit, JobSpec, JobStatus, Launch, Limits, Mount, Network, SandboxError};
pub use launcher::{Launcher, RunningJob};
pub use live::{
    CHANNEL, Feed, Feeding, InputState, Live, LiveEvent, LiveSink, Process, TerminalModes,
    TerminalSize,
};
pub use overlay::{Mounted, Overlay, OverlayKind, OverlaySpec};
pub use permit::{Permit, Proof, Waiver};
pub use probe::{Probe, ProbeReport, Spoil};
pub use tier::Tier;
pub(crate) use warden::Output;
pub use warden::{Life, Reaped, Warden, WardenOptions, held_below};

/// Whether a program that was started with this first argument must call [`warden_main`] at once.
pub fn is_warden_call(first: Option<&std::ffi::OsStr>) -> bool {
    first.is_some_and(|first| first == warden::WARDEN_ARGUMENT || first == canary::CANARY_ARGUMENT)
}

/// The hidden entry of the product's program: the warden, or an attack of the probes. Must be called
/// before any thread is started.
pub fn warden_main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next()) {
        (Some(first), Some(plan)) if first == canary::CANARY_ARGUMENT => {
            canary::main(&plan.to_string_lossy())
        }
        (Some(first), None) if first == warden::WARDEN_ARGUMENT => warden::serve(),
        _ => ExitCode::from(2),
    }
}

/// A new secret of 32 hexadecimal digits, for run tokens.
pub(crate) fn mint_secret() -> String {
    warden::secret()
}
