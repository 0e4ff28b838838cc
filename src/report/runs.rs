//! The list of runs.

use super::Style;
use super::page::{Cell, Page, Row, Tone};
use crate::journal::RunSummary;
use crate::model::{Outcome, RunRecord};

const HEAD: [&str; 6] = ["run", "started", "kind", "outcome", "cost", "task"];

/// The list of runs, one a line, `columns` wide.
pub fn runs_table(runs: &[RunSummary], columns: usize) -> String {
    if runs.is_empty() {
        return "no runs yet\n".to_owned();
    }
    let mut page = Page::new(&Style { columns, colour: false });
    let rows: Vec<Row> = runs.iter().map(row).collect();
    page.table(&HEAD, &rows, 2);
    page.finish()
}

fn row(summary: &RunSummary) -> Row {
    let id = Cell::plain(summary.run.as_str());
    match &summary.record {
        Ok(record) => Row { cells: cells(id, record), notes: Vec::new() },
        Err(error) => Row { cells: vec![id], notes: vec![(error.clone(), Tone::Warn)] },
    }
}

fn cells(id: Cell, record: &RunRecord) -> Vec<Cell> {
    let outcome = match &record.decision.outcome {
        Outcome::Winner { candidate, .. } => format!("winner {candidate}"),
        Outcome::NoWinner { reason, .. } => reason.to_string(),
        Outcome::Gated { passed, others } => {
            format!("{} of {} passed", passed.len(), passed.len() + others.len())
        }
    };
    let title = record.name();
    let cost = &record.usage.cost;
    vec![
        id,
        Cell::plain(record.started.strftime("%Y-%m-%d %H:%M").to_string()),
        Cell::plain(record.kind.to_string()),
        Cell::plain(outcome),
        Cell::plain(if record.usage.calls == 0 { "–".to_owned() } else { cost.to_string() }),
        Cell::plain(title),
    ]
}
