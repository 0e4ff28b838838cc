//! x
use super::CliError;
use super::context::Context;
pub fn apply_winner(
    _: &crate::model::RunRecord,
    _: &crate::journal::RunDir,
    _: &Context,
) -> Result<(), CliError> {
    Ok(())
}
