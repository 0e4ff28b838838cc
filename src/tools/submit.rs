//! The tool `submit`: the worker says that it is done.

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Submission, Tool, ToolContext, ToolOutput, args};
use crate::model::Claim;
use crate::model::chat::ToolSpec;

/// The most claims.
const MAX_CLAIMS: usize = 32;

/// Its arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What was done and why, in a few sentences.
    answer: String,
    /// Statements about the change that can be checked. Default: none.
    claims: Option<Vec<ClaimArgument>>,
}

/// A claim.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClaimArgument {
    /// The statement.
    text: String,
    /// The file it speaks of.
    path: Option<String>,
    /// The line it speaks of, from 1.
    line: Option<u32>,
}

/// Hands in.
#[derive(Debug)]
pub struct Submit;

impl Tool for Submit {
    fn spec(&self) -> ToolSpec {
        args::spec::<Arguments>(
            "submit",
            "Ends your work: the workspace as it is now is your result. Call it once, alone, when the change is whole. answer says what was done and why; claims are statements about it that others will check.",
        )
    }

    fn call<'a>(&'a self, _: &'a ToolContext, arguments: Value) -> BoxFuture<'a, ToolOutput> {
        ready(take(arguments).unwrap_or_else(|answer| answer)).boxed()
    }
}

fn take(arguments: Value) -> Result<ToolOutput, ToolOutput> {
    let arguments: Arguments = args::parse("submit", arguments)?;
    if arguments.answer.trim().is_empty() {
        return Err(ToolOutput::refused(
            "answer is empty; say in a few sentences what was done and why",
        ));
    }
    let claims = arguments.claims.unwrap_or_default();
    if claims.len() > MAX_CLAIMS {
        return Err(ToolOutput::refused(format!(
            "{} claims are too many; give at most {MAX_CLAIMS}",
            claims.len()
        )));
    }
    let claim =
        |claim: ClaimArgument| Claim { text: claim.text, path: claim.path, line: claim.line };
    let claims = claims.into_iter().map(claim).collect();
    let submission = Submission { answer: arguments.answer, claims };
    Ok(ToolOutput { submission: Some(submission), ..ToolOutput::ok("submitted") })
}
