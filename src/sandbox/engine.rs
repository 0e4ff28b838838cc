//! Another engine as a process of its own, for the selftest that kills one. It is not confined: it is this
//! program, with the operator's rights. Never here: jobs.

use std::ffi::OsString;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running engine. Dropping it kills it.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    errors: std::fs::File,
}

impl Engine {
    /// Starts `program` with these arguments, in this environment and directory, and nothing else.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(
        program: &Path,
        args: &[&str],
        env: &[(OsString, OsString)],
        dir: &Path,
    ) -> io::Result<Self> {
        let errors = tempfile::tempfile()?;
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(env.iter().cloned())
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors.try_clone()?)
            .spawn()?;
        Ok(Self { child, errors })
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has not ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Its exit status, once it has ended by itself.
    pub fn code(&mut self) -> Option<i32> {
        self.child.try_wait().ok().flatten()?.code()
    }

    /// Kills it with SIGKILL, and waits for that.
    pub fn kill(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it wrote to standard error.
    pub fn said(&mut self) -> String {
        let mut text = String::new();
        let _ = self.errors.seek(SeekFrom::Start(0));
        let _ = self.errors.read_to_string(&mut text);
        text
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}
