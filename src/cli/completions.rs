//! `bakeoff completions`.

use clap_complete::Shell;

use super::output::write_stdout;
use super::{CliError, Exit};

/// Print a completion script for your shell
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The shell
    shell: Shell,
}

impl Args {
    /// Prints the script.
    pub fn run(self) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut super::command(), "bakeoff", &mut script);
        write_stdout(&script)?;
        Ok(Exit::Done)
    }
}
