//! The job in which something of the operator's is tried before workers are given it. Never here: what it must say.

use std::ffi::OsString;
use std::time::Duration;

use crate::jobs::mint_token;
use crate::sandbox::{JobSpec, Limits, Mount, Network};

/// A command line of the engine's own, without a workspace, for a minute at most.
pub(super) fn job(
    label: &str,
    argv: impl IntoIterator<Item = impl Into<OsString>>,
    env: Vec<(OsString, OsString)>,
    mounts: Vec<Mount>,
) -> JobSpec {
    JobSpec {
        token: mint_token(),
        label: label.to_owned(),
        argv: argv.into_iter().map(Into::into).collect(),
        env,
        cwd: "/".into(),
        mounts,
        network: Network::Off,
        limits: Limits { wall: Duration::from_secs(60), ..Limits::default() },
        stdin: Vec::new(),
    }
}
