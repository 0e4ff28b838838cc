//! `bakeoff init`.

use std::io::Write;
use std::path::PathBuf;

use super::context::Context;
use super::output::write_stdout;
use super::{CliError, Exit};
use crate::config::starter;
use crate::pipeline::{CONFIG_FILE, Survey};

/// Write a commented bakeoff.toml with the gates that were found in the repository
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The repository that holds this directory
    #[arg(short = 'C', long = "repo", value_name = "DIR", default_value = ".")]
    repo: PathBuf,
    /// Print it instead of writing it
    #[arg(long)]
    print: bool,
}

impl Args {
    /// Writes the file; an existing one is left alone.
    pub fn run(self, _context: &Context) -> Result<Exit, CliError> {
        let survey = Survey::take(&self.repo, "HEAD")?;
        let found = survey.detect("");
        let line = |command: &Option<crate::model::CommandSpec>| {
            command.as_ref().map(|command| command.line.clone())
        };
        let text = starter(line(&found.check).as_deref(), line(&found.test).as_deref());
        if self.print {
            write_stdout(text.as_bytes())?;
            return Ok(Exit::Done);
        }
        let path = survey.top().join(CONFIG_FILE);
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => CliError::usage(format!(
                "{} is there already and was left alone; --print shows a new one",
                path.display()
            )),
            _ => CliError::internal(format!("failed to write {}: {error}", path.display())),
        };
        let mut file = std::fs::File::create_new(&path).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        write_stdout(
            format!("wrote {}; commit it: runs read it from the base commit\n", path.display())
                .as_bytes(),
        )?;
        Ok(Exit::Done)
    }
}
