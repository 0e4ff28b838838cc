//! A report as text and as JSON. Never here: printing.

use serde_json::{Value, json};

use super::measure::{Compared, Measured, Report};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// A Markdown table with what was counted before it and the notes behind it.
pub fn as_text(report: &Report, every_task: bool) -> String {
    let count = report.tasks.len();
    let [diffs, applies, passes] = report.counts;
    let whole = report.tasks.iter().filter(|task| task.whole).count();
    let mut text = format!(
        "{count} tasks, {diffs} diffs: {applies} apply, {passes} pass the gate (they parse and change source)\n\
         bases: {whole} from repositories, {} made from the diffs themselves\n\n\
         | way of choosing | resolved | rate | the first is ahead by (95 %) | precision of the surest 25 % | 50 % | 75 % | 100 % |\n\
         |---|---|---|---|---|---|---|---|\n",
        count - whole
    );
    for one in &report.measured {
        text += &line(one);
    }
    let rate = |resolved: usize| resolved as f64 / count.max(1) as f64;
    if let Some((name, right, ahead)) = &report.best_system {
        text += &format!(
            "| best single system in hindsight ({}) | {right} | {:.3} | {} | | | | |\n",
            cell(name),
            rate(*right),
            interval(ahead)
        );
    }
    for (name, right) in
        [("oracle", report.oracle[0]), ("oracle among what applies", report.oracle[1])]
    {
        text += &format!("| {name} | {right} | {:.3} | | | | | |\n", rate(right));
    }
    let fused = report.tasks.iter().filter(|task| task.fused_new).count();
    text += &format!(
        "\nfusion made a change that nobody proposed in {fused} tasks; there the diff nearest to it stands for it\n"
    );
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    if every_task {
        text += &tasks(report);
    }
    text
}

fn line(one: &Measured) -> String {
    let behind = one.behind.as_ref().map(interval).unwrap_or_default();
    let precision = one.coverage.iter().map(|at| match at.precision {
        Some(precision) => format!(" {precision:.2} |"),
        None => " - |".to_owned(),
    });
    format!(
        "| {} | {:.1} | {:.3} | {behind} |{}\n",
        one.selector.name(),
        one.resolved,
        one.rate,
        precision.collect::<String>()
    )
}

fn interval(ahead: &Compared) -> String {
    format!("{:+.3} ({:+.3} to {:+.3})", ahead.by, ahead.low, ahead.high)
}

/// A name in a table's cell.
fn cell(name: &str) -> String {
    name.replace('|', "\\|")
}

fn tasks(report: &Report) -> String {
    let mut text =
        "\n| task | diffs | apply | pass | right diff | way | choice | right | surety |\n\
                    |---|---|---|---|---|---|---|---|---|\n"
            .to_owned();
    for task in &report.tasks {
        for (selector, pick) in &task.picks {
            let [diffs, applies, passes] = task.counts;
            text += &format!(
                "| {} | {diffs} | {applies} | {passes} | {} | {} | {} | {:.2} | {:.3} |\n",
                cell(&task.task),
                if task.any_right[0] { "yes" } else { "no" },
                selector.name(),
                cell(pick.row.as_deref().unwrap_or("-")),
                pick.right,
                pick.surety
            );
        }
    }
    text
}

/// Everything, with every task.
pub fn as_json(report: &Report) -> Value {
    let [diffs, applies, passes] = report.counts;
    let count = report.tasks.len();
    let rate = |right: usize| right as f64 / count.max(1) as f64;
    json!({
        "version": VERSION,
        "tasks": count,
        "bases_from_repositories": report.tasks.iter().filter(|task| task.whole).count(),
        "diffs": { "all": diffs, "apply": applies, "pass_the_gate": passes },
        "selectors": report.measured.iter().map(measured).collect::<Vec<_>>(),
        "best_system": report.best_system.as_ref().map(|(name, right, ahead)| json!({
            "name": name, "resolved": right, "rate": rate(*right), "first_is_ahead": compared(ahead),
        })),
        "oracle": { "resolved": report.oracle[0], "rate": rate(report.oracle[0]) },
        "oracle_among_what_applies": { "resolved": report.oracle[1], "rate": rate(report.oracle[1]) },
        "notes": report.notes,
        "each": report.tasks.iter().map(|task| json!({
            "task": task.task,
            "base": if task.whole { "repository" } else { "diffs" },
            "diffs": { "all": task.counts[0], "apply": task.counts[1], "pass_the_gate": task.counts[2] },
            "has_right_diff": task.any_right[0],
            "fusion_is_new": task.fused_new,
            "picks": task.picks.iter().map(|(selector, pick)| (selector.name().to_owned(), json!({
                "candidate": pick.row, "right": pick.right, "surety": pick.surety,
            }))).collect::<serde_json::Map<_, _>>(),
        })).collect::<Vec<_>>(),
    })
}

fn measured(one: &Measured) -> Value {
    json!({
        "name": one.selector.name(),
        "resolved": one.resolved,
        "rate": one.rate,
        "first_is_ahead": one.behind.as_ref().map(compared),
        "precision": one.coverage.iter().map(|at| json!({
            "coverage": f64::from(at.percent) / 100.0, "choices": at.choices, "precision": at.precision,
        })).collect::<Vec<_>>(),
    })
}

fn compared(ahead: &Compared) -> Value {
    json!({ "by": ahead.by, "low": ahead.low, "high": ahead.high })
}
