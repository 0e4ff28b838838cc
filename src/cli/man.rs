//! `bakeoff man`.

use super::output::write_stdout;
use super::{CliError, Exit};

/// Print the manual page (roff), of bakeoff or of one subcommand
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The subcommand
    subcommand: Option<String>,
}

impl Args {
    /// Prints the page.
    pub fn run(self) -> Result<Exit, CliError> {
        let mut command = super::command();
        command.build();
        if let Some(name) = &self.subcommand {
            command = command
                .find_subcommand(name)
                .cloned()
                .ok_or_else(|| CliError::usage(format!("there is no subcommand {name:?}")))?
                .display_name(format!("bakeoff-{name}"));
        }
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page).map_err(CliError::internal)?;
        write_stdout(&page)?;
        Ok(Exit::Done)
    }
}
