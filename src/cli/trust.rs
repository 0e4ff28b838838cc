//! `bakeoff trust`.

use std::path::PathBuf;

use super::context::Context;
use super::launch::trust_store;
use super::output::write_text;
use super::{CliError, Exit};
use crate::config::content_hash;
use crate::pipeline::{CONFIG_FILE, OVERRIDES_DIR, Survey};

/// Trust a repository's bakeoff.toml, prompts and judges, as they stand in the base, to name
/// servers, keys, networks and judges
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The repository that holds this directory
    #[arg(short = 'C', long = "repo", value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// The revision whose files are trusted; a later change of them needs trust anew
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    base: String,
    /// Take the trust back
    #[arg(long)]
    revoke: bool,
}

impl Args {
    /// Trusts, or takes it back.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let survey = Survey::take(&self.repo, &self.base)?;
        let top = survey.top().display().to_string();
        let store = trust_store(context);
        if self.revoke {
            let said =
                if store.revoke(survey.top())? { "no longer trusted" } else { "was not trusted" };
            write_text(&format!("{top}: {said}\n"))?;
            return Ok(Exit::Done);
        }
        let files = survey.trust_files()?;
        if files.is_empty() {
            return Err(CliError::usage(format!(
                "{top} has neither {CONFIG_FILE} nor {OVERRIDES_DIR}/ in {}: there is nothing to trust",
                self.base
            )));
        }
        let hash =
            content_hash(files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())));
        store.trust(survey.top(), &hash)?;
        let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
        write_text(&format!("{top}: trusted {} ({})\n", names.join(", "), &hash[..12]))?;
        Ok(Exit::Done)
    }
}
