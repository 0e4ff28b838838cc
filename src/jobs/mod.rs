//! Run tokens, and the end of all that carries one. Never here: models.
//!
//! A top-level worker run mints a token and stamps every job with it; its scope ends them all
//! (contracts C6 and C9). Sub-agents inherit the token, so that their jobs end with the top.

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
}

impl RunScope {
    /// A scope for the jobs that carry `token`.
    pub fn new(token: RunToken, launcher: Launcher) -> Self {
        Self { token, launcher: Some(launcher) }
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
    }
}
