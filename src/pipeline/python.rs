//! The Python of `code_execution`: looked for on the operator's `PATH`, and tried in the sandbox.

use std::ffi::OsStr;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::trial;
use crate::sandbox::toolchain::{Python, discover_python};
use crate::sandbox::{JobStatus, Launch};

/// Ends with 0 in a Python that can run snippets.
const TRIAL: &str =
    "import sys, json, faulthandler; sys.exit(0 if sys.version_info >= (3, 8) else 9)";

/// The interpreter, once it has run.
///
/// # Errors
/// In words for the operator, when there is none that works.
pub async fn find(launch: &dyn Launch, path: &OsStr, home: &Path) -> Result<Python, String> {
    let python = discover_python(path, home).ok_or("no python3 on PATH")?;
    let program = python.program.clone();
    let options = ["-I", "-c", TRIAL].map(OsStr::new);
    let argv = [program.as_os_str()].into_iter().chain(options);
    let spec = trial::job("python", argv, python.env.clone(), python.mounts.clone());
    let program = program.display();
    match launch.run(spec, &CancellationToken::new()).await {
        Ok(exit) if exit.status == JobStatus::Exited(0) => Ok(python),
        Ok(exit) if exit.status == JobStatus::Exited(9) => {
            Err(format!("{program} is older than Python 3.8"))
        }
        Ok(exit) => {
            let said = String::from_utf8_lossy(&exit.output).trim().to_owned();
            Err(format!("{program} does not work in the sandbox ({:?}): {said}", exit.status))
        }
        Err(error) => Err(format!("{program} could not be tried: {error}")),
    }
}
