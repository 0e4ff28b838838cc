//! What will happen, before it happens: the dry run, and the commands that are about to run.

use std::fmt::Write as _;

use super::context::Context;
use super::flags::OutputFlags;
use super::launch::Prepared;
use super::output::{tell, write_json, write_text};
use super::plan::side_note;
use super::{CliError, Exit};
use crate::config::Config;
use crate::model::{CommandSpec, Cost, MicroUsd, ModelRef, Plan, Wire, WorkerLimits, grouped};
use crate::pipeline::{Estimate, HeaderView, LaneEstimate, ServerView, Stopper, estimate, servers};
use crate::ui::fitted;

/// Prints lanes, commands, the largest number of calls and what they can cost; runs nothing.
pub fn dry_run(
    prepared: &Prepared,
    output: &OutputFlags,
    _context: &Context,
) -> Result<Exit, CliError> {
    let estimate = estimate(&prepared.plan, &prepared.config, prepared.given.len());
    if output.json {
        write_json(&serde_json::json!({
            "version": 1,
            "plan": prepared.plan,
            "servers": servers(&prepared.plan, &prepared.config),
            "base": { "commit": prepared.survey.commit(), "tree": prepared.survey.tree() },
            "most_calls": estimate.calls,
            "most_cost": estimate.cost,
            "priced_input_tokens_per_call": estimate.input_tokens_per_call,
            "lanes": estimate.lanes,
        }))?;
    } else {
        write_text(&text(&prepared.plan, &prepared.config, &estimate))?;
    }
    Ok(Exit::Done)
}

fn text(plan: &Plan, config: &Config, estimate: &Estimate) -> String {
    let mut out = String::new();
    for lane in &plan.lanes {
        let _ = write!(out, "lane    {} = {} x {}", lane.name, lane.model, lane.attempts);
        let fallback: Vec<_> = lane.fallback.iter().map(ModelRef::to_string).collect();
        let said = if fallback.is_empty() { "" } else { ", else " };
        let _ = writeln!(out, "{said}{}", fallback.join(", else "));
        if let Some(limits) = &lane.limits {
            let _ = writeln!(out, "        each of its workers: {}", worker(limits).join(", "));
        }
    }
    servers(plan, config).iter().for_each(|each| server(each, &mut out));
    for line in commands(plan) {
        let _ = writeln!(out, "{line}");
    }
    let judges: Vec<_> = plan.judging.judges.iter().map(|id| id.as_str()).collect();
    let models: Vec<_> = plan.judging.models.iter().map(ModelRef::to_string).collect();
    match judges.is_empty() {
        true => out.push_str("judges  none: the choice is made from evidence alone\n"),
        false => {
            let _ = writeln!(out, "judges  {} by {}", judges.join(", "), models.join(", "));
        }
    }
    if let Some(duels) = &plan.judging.duels {
        let _ = writeln!(
            out,
            "duels   up to {} by {}: {} ({}), {} times on each tree",
            duels.most, duels.model, duels.command.line, duels.command.origin, duels.runs
        );
    }
    if let Some(design) = &plan.design {
        let _ = writeln!(out, "design  {design} plans for all workers");
    }
    if let Some(synth) = &plan.judging.synth {
        let _ = writeln!(out, "synth   {synth}");
    }
    match (&plan.side, side_note(config, plan)) {
        (Some(_), _) if plan.exclude_from_context => {
            out.push_str("side    none: --exclude-from-context\n");
        }
        (Some(side), _) => {
            let _ = writeln!(out, "side    {side} names the run and sums it up");
        }
        (None, Some(note)) => {
            let _ = writeln!(out, "side    {note}");
        }
        (None, None) => {}
    }
    if plan.prior > 0 {
        let _ = writeln!(out, "prior   up to {} earlier runs are told to workers", plan.prior);
    }
    limits(plan).iter().for_each(|line| out.push_str(line));
    let _ = writeln!(
        out,
        "calls   at most {} (retries of failed calls and rounds granted on the way left out)",
        estimate.calls
    );
    let _ = writeln!(out, "cost    {}", cost(plan, estimate));
    out
}

/// What ends the run, or a worker of it, early.
fn limits(plan: &Plan) -> Vec<String> {
    if plan.lanes.is_empty() {
        return Vec::new();
    }
    let run = &plan.limits;
    let of_run = amounts(run.budget, run.max_tokens, run.max_turns, run.max_seconds);
    let line = |name: &str, limits: Vec<String>| {
        (!limits.is_empty()).then(|| format!("{name} {}\n", limits.join(", ")))
    };
    let usual = plan.lanes.iter().any(|lane| lane.limits.is_none());
    let of_lane = if usual { worker(&plan.worker_limits) } else { Vec::new() };
    let enough = run.enough.map(|enough| {
        format!("enough  {enough} candidates that pass end the workers' part of the run\n")
    });
    let heal = match plan.workers.heal_rounds {
        0 => None,
        rounds => Some(format!(
            "heal    what fails a gate goes back to its worker, at most {rounds} x, within its limits\n"
        )),
    };
    let all =
        [line("limits  the run:", of_run), line("        each worker:", of_lane), enough, heal];
    all.into_iter().flatten().collect()
}

/// The limits of one worker, in words.
fn worker(limits: &WorkerLimits) -> Vec<String> {
    let turns = Some(u64::from(limits.max_tool_iterations));
    amounts(limits.budget, limits.max_tokens, turns, limits.max_seconds)
}

fn amounts(
    money: Option<MicroUsd>,
    tokens: Option<u64>,
    turns: Option<u64>,
    seconds: Option<u64>,
) -> Vec<String> {
    let number = |n: Option<u64>, what: &str| n.map(|n| format!("{} {what}", grouped(n)));
    let all = [
        money.map(|most| most.to_string()),
        number(tokens, "tokens"),
        number(turns, "turns"),
        number(seconds, "seconds"),
    ];
    all.into_iter().flatten().collect()
}

/// A server that will be asked, and what its requests carry: names of headers, never their values.
fn server(view: &ServerView, out: &mut String) {
    let key = view.key_env.as_ref().map(|name| format!(", key ${name}")).unwrap_or_default();
    let _ = writeln!(out, "server  {} = {} at {}{key}", view.name, view.wire, view.address);
    if view.wire == Wire::Scripted {
        return;
    }
    let mut also = |what: &str, said: String| {
        if !said.is_empty() {
            let _ = writeln!(out, "        {what} {said}");
        }
    };
    let header = |header: &HeaderView| match &header.env {
        Some(name) => format!("{} (from ${name})", header.name),
        None => format!("{} (value hidden)", header.name),
    };
    let headers: Vec<String> = view.headers.iter().map(header).collect();
    also("headers  ", headers.join(", "));
    if !view.body.is_empty() {
        also("body     ", serde_json::Value::from(view.body.clone()).to_string());
    }
    let limit = view.output_limit.map(|field| format!(", answers limited by {field}"));
    let of = &view.deadlines;
    let deadlines = format!(
        "connect {} s, first byte {} s, idle {} s, whole {} s",
        of.connect, of.first_byte, of.idle, of.whole
    );
    also("deadlines", deadlines + &limit.unwrap_or_default());
}

fn cost(plan: &Plan, estimate: &Estimate) -> String {
    let bound = match (estimate.calls, estimate.cost) {
        (0, _) => "none: no model is asked".to_owned(),
        (_, Cost { partly_unknown: true, .. }) => {
            "price unknown for some models: set prices in [providers.NAME] of config.toml"
                .to_owned()
        }
        (_, cost) => format!(
            "at most {cost}, if every call used {} input tokens and its whole answer",
            estimate.input_tokens_per_call
        ),
    };
    let lanes = estimate.lanes.iter().filter_map(lane_stop);
    let run = &plan.limits;
    let stops =
        lanes.chain(run.budget.map(|budget| format!("--budget stops the run at {budget}"))).chain(
            run.max_tokens
                .map(|most| format!("--max-tokens stops the run at {} tokens", grouped(most))),
        );
    stops.fold(bound, |text, stop| format!("{text}; {stop}"))
}

/// What ends a lane's workers before they cost what their calls might.
fn lane_stop(lane: &LaneEstimate) -> Option<String> {
    let name = &lane.lane;
    Some(match lane.stopped_by? {
        Stopper::Budget(most) => format!("each worker of {name} stops at its budget of {most}"),
        Stopper::Tokens(most) => {
            format!("each worker of {name} stops at {} tokens", grouped(most))
        }
    })
}

fn commands(plan: &Plan) -> Vec<String> {
    let gates = &plan.gates;
    let line = |name: &str, command: &CommandSpec| {
        format!("{name:<7} {} ({})", command.line, command.origin)
    };
    let mut lines = Vec::new();
    lines.extend(gates.setup.as_ref().map(|command| line("setup", command)));
    match &gates.check {
        Some(command) => lines.push(line("check", command)),
        None => lines.push("check   none (--no-check)".to_owned()),
    }
    lines.extend(gates.test.as_ref().map(|command| line("test", command)));
    lines
}

/// Tells the gate commands and the uncommitted changes on standard error before anything runs.
pub fn announce(prepared: &Prepared, output: &OutputFlags) -> Result<(), CliError> {
    if output.quiet {
        return Ok(());
    }
    let mut lines = commands(&prepared.plan);
    lines.extend(side_note(&prepared.config, &prepared.plan).map(|note| format!("note    {note}")));
    let dirty = prepared.survey.dirty();
    let count = dirty.tracked + dirty.untracked;
    if count > 0 && !prepared.plan.dirty {
        lines.push(format!(
            "note    {count} uncommitted changes ({}) are left out; --dirty includes them",
            dirty.examples.join(", ")
        ));
    }
    let text = lines.iter().fold(String::new(), |text, line| text + &fitted(line) + "\n");
    // Standard error may be closed; that is no reason not to run.
    tell(&text);
    Ok(())
}
