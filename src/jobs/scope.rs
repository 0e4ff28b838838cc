//! The life of a top-level worker run's jobs.

use super::table::JobTable;
use crate::model::RunToken;
use crate::sandbox::{Launcher, Reaped};

/// Mints a token: 32 hexadecimal digits that nobody can guess.
pub fn mint_token() -> RunToken {
    RunToken::new(crate::sandbox::mint_secret())
}

/// The life of a top-level worker run's jobs. When it ends, so do they.
#[derive(Debug)]
pub struct RunScope {
    token: RunToken,
    launcher: Option<Launcher>,
    table: Option<JobTable>,
}

impl RunScope {
    /// A scope for the jobs that carry `token`.
    pub fn new(token: RunToken, launcher: Launcher) -> Self {
        Self { token, launcher: Some(launcher), table: None }
    }

    /// The same with the table in which its background jobs stand: it ends with them.
    #[must_use]
    pub fn with_table(mut self, table: JobTable) -> Self {
        self.table = Some(table);
        self
    }

    /// The token to stamp jobs with.
    pub fn token(&self) -> &RunToken {
        &self.token
    }

    /// Kills every job that still carries the token, proves it, and names what is alive. Later jobs
    /// with the token are refused.
    pub async fn finish(mut self) -> Reaped {
        let Some(launcher) = self.launcher.take() else { return Reaped::default() };
        // A warden that is gone took every job with it.
        launcher.kill_token(&self.token).await.unwrap_or_default()
    }
}

impl Drop for RunScope {
    fn drop(&mut self) {
        if let Some(launcher) = &self.launcher {
            launcher.kill_token_unawaited(&self.token);
        }
        if let Some(table) = &self.table {
            table.close();
        }
    }
}
