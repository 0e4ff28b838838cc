//! From an outcome to the report that everybody reads.

use super::outcome::Outcome;
use crate::journal::Artifacts;
use crate::model::{
    ArtifactId, BaseComparison, CommandSpec, Diagnostic, GateKind, GateReport, Verdict, Warning,
    clip,
};
use crate::repo::{NotCarried, Reused, Standing};

/// Bytes of output in a report.
const SHOWN: usize = 16 * 1024;

/// Diagnostics in a report.
const DIAGNOSTICS: usize = 200;

/// A report of a command that ran.
pub fn ran(
    gate: GateKind,
    command: &CommandSpec,
    run: &Outcome,
    verdict: Verdict,
    base: Option<BaseComparison>,
) -> GateReport {
    let mut output = clip(run.shown(), SHOWN);
    output.dropped_bytes += run.dropped;
    GateReport {
        gate,
        command: command.line.clone(),
        verdict,
        exit_status: run.exit(),
        millis: u64::try_from(run.elapsed.as_millis()).unwrap_or(u64::MAX),
        output,
        artifact: None,
        diagnostics: diagnostics(run),
        base: base.map(shorten),
        reused: None,
        flaky: run.flaky.iter().take(DIAGNOSTICS).cloned().collect(),
        own: None,
    }
}

/// A setup that need not run again.
pub fn left_out(command: &CommandSpec, reused: Option<String>) -> GateReport {
    GateReport { reused, ..not_run(GateKind::Setup, command, Verdict::Pass) }
}

/// Which output of earlier runs the base's gates find.
pub fn reused(standing: &Standing) -> Option<String> {
    match &standing.reused {
        Reused::Nothing => None,
        Reused::Same(age) => Some(format!("the same base, {age} s old")),
        Reused::Earlier(tree) => Some(format!("an earlier base, tree {tree}")),
    }
}

/// What is to be told of carried directories.
pub fn carry_warnings(standing: &Standing) -> impl Iterator<Item = Warning> {
    standing.notes.iter().map(|note| {
        let NotCarried { path, reason, carried } = note;
        let (code, message) = if *carried {
            ("carried-other", format!("{path} of the checkout was carried along, but {reason}"))
        } else {
            ("not-carried", format!("{path} of the checkout was not carried along: {reason}"))
        };
        Warning { code: code.to_owned(), message }
    })
}

/// Keeps what a run printed, as it printed it. A disk that refuses costs the artifact, not the gate: the
/// report has the head and the tail.
pub fn keep(artifacts: Option<&Artifacts>, run: &Outcome) -> Option<ArtifactId> {
    let artifacts = artifacts.filter(|_| !run.output.is_empty())?;
    let mut output = run.output.clone();
    if run.dropped > 0 {
        output.push_str(&format!("\n({} bytes from its middle were not kept)\n", run.dropped));
    }
    artifacts.put(output.as_bytes()).ok()
}

/// A report of a command that did not run.
pub fn not_run(gate: GateKind, command: &CommandSpec, verdict: Verdict) -> GateReport {
    GateReport { command: command.line.clone(), ..GateReport::bare(gate, verdict) }
}

/// What failed first; what is soft after it, and said to be.
fn diagnostics(run: &Outcome) -> Vec<Diagnostic> {
    let soft = run.reading.soft.iter().map(|each| Diagnostic {
        message: format!("only in a test target: {}", each.message),
        ..each.clone()
    });
    run.reading.failures().cloned().chain(soft).take(DIAGNOSTICS).collect()
}

fn shorten(mut base: BaseComparison) -> BaseComparison {
    base.new_failures.truncate(DIAGNOSTICS);
    base.contested.truncate(DIAGNOSTICS);
    base.fixed.truncate(DIAGNOSTICS);
    base
}
