//! `bakeoff show`.

use super::context::Context;
use super::output::{write_json, write_stdout};
use super::{CliError, Exit, record};
use crate::journal::Runs;
use crate::model::{GateReport, RunRecord};
use crate::report;

/// Show a run: lanes, gates, votes, the choice and its reasons, cost and time
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the newest
    #[arg(default_value = "latest")]
    run: String,
    /// Print the record as one JSON object
    #[arg(long)]
    json: bool,
    /// Print what a gate printed, whole: `base:check`, `c2:test`, or `c2` for its first gate that failed
    #[arg(long, value_name = "WHOSE[:GATE]", conflicts_with = "json")]
    gate: Option<String>,
    /// Print the JSON Schema of records instead of a run
    #[arg(long, conflicts_with_all = ["json", "run", "gate"])]
    schema: bool,
}

impl Args {
    /// Prints the record.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        if self.schema {
            write_json(&schemars::schema_for!(crate::model::RunRecord))?;
            return Ok(Exit::Done);
        }
        let dir = Runs::new(&context.state).find(&self.run)?;
        let record = record::read(&dir)?;
        if let Some(asked) = &self.gate {
            let report = gate_of(&record, asked)?;
            let text = match &report.artifact {
                Some(artifact) => {
                    String::from_utf8_lossy(&dir.artifacts().get(artifact)?).into_owned()
                }
                None => report.output.text.clone(),
            };
            write_stdout(format!("{}\n", report::block(&text).trim_end()).as_bytes())?;
            return Ok(Exit::Done);
        }
        if self.json {
            write_json(&record)?;
        } else {
            write_stdout(report::text(&record, &context.style()).as_bytes())?;
        }
        Ok(Exit::Done)
    }
}

/// The report that `WHOSE[:GATE]` names.
fn gate_of<'r>(record: &'r RunRecord, asked: &str) -> Result<&'r GateReport, CliError> {
    let (whose, gate) = match asked.split_once(':') {
        Some((whose, gate)) => (whose, Some(gate)),
        None => (asked, None),
    };
    let reports = match whose {
        "base" => Some(&record.base.gates),
        id => {
            let row = record.candidates.iter().find(|row| row.candidate.id.as_str() == id);
            row.map(|row| &row.gates)
        }
    };
    let reports = reports.ok_or_else(|| {
        let ids: Vec<&str> =
            record.candidates.iter().map(|row| row.candidate.id.as_str()).collect();
        CliError::usage(format!(
            "run {} has no {whose:?}; it has: base, {}",
            record.run,
            ids.join(", ")
        ))
    })?;
    let found = match gate {
        Some(name) => reports.iter().find(|report| report.gate.to_string() == name),
        None => reports.iter().find(|report| !report.verdict.is_pass()).or(reports.last()),
    };
    found.ok_or_else(|| {
        let names: Vec<String> = reports.iter().map(|report| report.gate.to_string()).collect();
        CliError::usage(format!("{whose} has no such gate; it has: {}", names.join(", ")))
    })
}
