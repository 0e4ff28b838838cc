//! The git of `run_bash`: the operator's, tried in the sandbox, else the system's.

use std::ffi::OsStr;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::trial;
use crate::sandbox::toolchain::{Git, discover_git};
use crate::sandbox::{JobStatus, Launch};

/// Older ones take no settings from the environment (`GIT_CONFIG_COUNT`), so that nothing of what a
/// repository's own configuration names could be switched off.
const OLDEST: (u32, u32) = (2, 31);

/// The first git that works, and what it says of its version.
///
/// # Errors
/// In words for the operator and the model, when there is none.
pub async fn find(launch: &dyn Launch, path: &OsStr, home: &Path) -> Result<(Git, String), String> {
    let mut why = "there is no git on PATH".to_owned();
    let mut tried = None;
    for path in [path, OsStr::new("/usr/bin:/bin")] {
        let Some(git) = discover_git(path, home).filter(|git| tried.as_ref() != Some(git)) else {
            continue;
        };
        match try_out(launch, &git).await {
            Ok(version) => return Ok((git, version)),
            Err(trouble) => why = format!("{}: {trouble}", git.program.display()),
        }
        tried = Some(git);
    }
    Err(why)
}

async fn try_out(launch: &dyn Launch, git: &Git) -> Result<String, String> {
    let env = vec![("PATH".into(), "/usr/bin:/bin".into()), ("HOME".into(), "/nonexistent".into())];
    let argv = [git.program.as_os_str(), OsStr::new("--version")];
    let spec = trial::job("git", argv, env, git.mounts.clone());
    let exit =
        launch.run(spec, &CancellationToken::new()).await.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&exit.output).trim().to_owned();
    if exit.status != JobStatus::Exited(0) {
        return Err(format!("it does not work in the sandbox ({:?}): {said}", exit.status));
    }
    let version = said.strip_prefix("git version ").unwrap_or(&said).to_owned();
    match number(&version) {
        Some(number) if number >= OLDEST => Ok(version),
        _ => Err(format!("version {version:?} is not {}.{} or later", OLDEST.0, OLDEST.1)),
    }
}

/// The first two parts of `2.47.3` or `2.39.5 (Apple Git-154)`.
fn number(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split(['.', ' ']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(number("2.47.3"), Some((2, 47)));
        assert_eq!(number("2.39.5 (Apple Git-154)"), Some((2, 39)));
        assert_eq!(number("2.50.GIT"), Some((2, 50)));
        assert!(number("2.25.1").unwrap() < OLDEST && number("3.0").unwrap() > OLDEST);
        assert_eq!(number("cat"), None);
    }
}
