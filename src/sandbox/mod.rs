//! The only place where a process starts: policy, tiers, canary probes, the warden.
//!
//! Running code needs a [`Permit`]. Never here: models.

mod job;

pub use job::{JobExit, JobSpec, JobStatus, Launch, Limits, Mount, Network, SandboxError};
