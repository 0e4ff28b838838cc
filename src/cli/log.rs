//! `$BAKEOFF_LOG`: what the engine's parts say of themselves, on standard error.

use tracing::level_filters::LevelFilter;

use super::CliError;

/// Begins to log at a level (`error`, `warn`, `info`, `debug`, `trace`); without one nothing is logged.
pub fn start(level: Option<&str>) -> Result<(), CliError> {
    let Some(level) = level else { return Ok(()) };
    let level: LevelFilter = level.parse().map_err(|_| {
        CliError::usage(format!("BAKEOFF_LOG={level}: give off, error, warn, info, debug or trace"))
    })?;
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
    Ok(())
}
