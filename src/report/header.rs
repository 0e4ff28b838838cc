//! The head of a report: which run, of what, on what base, in which sandbox.

use super::page::{Page, Tone};
use super::words;
use crate::model::{CommandSpec, Exit, Outcome, Resumption, RunRecord};

/// Writes it.
pub fn write(page: &mut Page, record: &RunRecord) {
    page.heading(&format!("{} {}", record.kind, record.run));
    if record.scripted {
        page.entry("  models   ", "SCRIPTED: a data file answered, no model was asked", Tone::Warn);
    }
    if let Some(title) = &record.title {
        page.entry("  title    ", title, Tone::Strong);
    }
    if let Some(task) = &record.plan.task {
        page.entry("  task     ", &task.title(), Tone::Plain);
    }
    page.entry("  base     ", &base(record), Tone::Plain);
    if let Some(other) = &record.rejudges {
        page.entry(
            "  judges   ",
            &format!("anew, on the candidates and gates of {other}"),
            Tone::Plain,
        );
    } else if let Some(resumed) = &record.resumed {
        page.entry("  resumed  ", &taken_over(resumed), Tone::Plain);
    }
    sandbox(page, record);
    let gates = &record.plan.gates;
    let named = [("setup", &gates.setup), ("check", &gates.check), ("test", &gates.test)];
    for (name, command) in named {
        if let Some(CommandSpec { line, origin, .. }) = command {
            page.entry(&format!("  {name:<8} "), &format!("{line} ({origin})"), Tone::Plain);
        }
    }
    if let Some(kept) = record.base.gates.iter().find_map(|report| report.reused.as_ref()) {
        let left_out = if gates.setup.is_some() && kept.starts_with("the same") {
            "; setup was left out"
        } else {
            ""
        };
        let text = format!("over output that was kept of {kept}{left_out}");
        page.entry("  kept     ", &text, Tone::Plain);
    }
    if gates.check.is_none() {
        page.entry("  check    ", "none (--no-check)", Tone::Warn);
    }
    page.entry("  ended    ", &ended(record), Tone::Plain);
}

/// A `gate` run looks for no winner: what its exit says is whether every diff passed.
fn ended(record: &RunRecord) -> String {
    let what = match (&record.decision.outcome, record.exit) {
        (Outcome::Gated { passed, others }, Exit::Done | Exit::NoWinner) => {
            format!("{} of {} passed every gate", passed.len(), passed.len() + others.len())
        }
        (_, exit) => exit.to_string(),
    };
    format!("{what} (exit {})", record.exit.code())
}

fn taken_over(resumed: &Resumption) -> String {
    format!(
        "taken over: {} answers of models, {} ended workers, gates of {} trees; {} calls possibly paid in vain",
        resumed.reused_calls,
        resumed.reused_lanes,
        resumed.reused_gates,
        resumed.possibly_paid_calls
    )
}

fn base(record: &RunRecord) -> String {
    let base = &record.base;
    let dirty = if base.dirty { ", with uncommitted changes" } else { "" };
    format!("{} = {}{dirty}", base.rev, words::short(base.commit.as_str()))
}

fn sandbox(page: &mut Page, record: &RunRecord) {
    let sandbox = &record.sandbox;
    let missed: Vec<&str> = sandbox
        .probes
        .iter()
        .filter(|(_, stopped)| !**stopped)
        .map(|(name, _)| name.as_str())
        .collect();
    let (text, tone) = match sandbox.permit.as_str() {
        "waiver" if missed.is_empty() => {
            (format!("WAIVED by the operator ({})", sandbox.tier), Tone::Warn)
        }
        "waiver" => {
            let missed = missed.join(", ");
            (
                format!("WAIVED by the operator ({}); not stopped: {missed}", sandbox.tier),
                Tone::Warn,
            )
        }
        "none" => ("none needed: no code ran".to_owned(), Tone::Plain),
        permit => {
            let probes = sandbox.probes.len();
            (format!("{}, {permit} by {probes} canary probes", sandbox.tier), Tone::Plain)
        }
    };
    page.entry("  sandbox  ", &text, tone);
}
