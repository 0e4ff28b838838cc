//! An event as one line for people. Foreign text in it is sanitised.

use crate::model::printable::line;
use crate::model::{
    Admission, Ballot, CandidateId, CardState, Choice, Decision, Duel, DuelResult, Fate,
    GateReport, LaneId, Order, Outcome, RunEvent, Steer, Stop, Usage, Verdict, duration,
};

/// The longest line, in characters: more of a message is in the record.
const LONGEST: usize = 300;

/// The line of an event that stays to be read; `None` for what only a live view shows.
pub fn words(event: &RunEvent) -> Option<String> {
    let text = match event {
        RunEvent::Started { run, title, attempts, scripted } => {
            let scripted = if *scripted { ", the models are SCRIPTED" } else { "" };
            let title = if title.is_empty() { String::new() } else { format!(": {title}") };
            format!("run {run}{title} ({attempts} attempt{}{scripted})", plural(*attempts))
        }
        RunEvent::StageBegan { stage, units: Some(units) } => format!("{stage}: {units} to do"),
        RunEvent::StageBegan { stage, units: None } => stage.to_string(),
        RunEvent::LaneBegan { lane, model } => format!("{lane} began with {model}"),
        RunEvent::LaneActivity { .. } => return None,
        RunEvent::LaneEnded { lane, stop, left_change, usage } => {
            lane_ended(lane, stop, *left_change, usage)
        }
        RunEvent::Background { card } => match &card.state {
            CardState::Running => {
                format!("{} {} began: {}", card.kind.label(), card.id, card.title)
            }
            state => format!("{} {}: {}", card.kind.label(), card.id, state.words()),
        },
        RunEvent::Steered { steer } => steered(steer),
        RunEvent::Extended { extension } => extension.to_string(),
        RunEvent::Enough { enough } => {
            let ids: Vec<&str> = enough.candidates.iter().map(CandidateId::as_str).collect();
            let why = if enough.equal { "have an equal tree" } else { "pass the gates" };
            format!("enough: {} {why}; no further lane is needed", ids.join(", "))
        }
        RunEvent::Admitted { candidate, lane, admission } => admitted(candidate, lane, admission),
        RunEvent::GateBegan { candidate, command } => {
            format!("{} runs {command}", whose(candidate))
        }
        RunEvent::Gated { candidate, report } => gated(candidate, report),
        RunEvent::Balloted { ballot } => balloted(ballot),
        RunEvent::Dueled { duel } => dueled(duel),
        RunEvent::Warned { warning } => format!("warning: {}", warning.message),
        RunEvent::Decided { decision } => decided(decision),
        RunEvent::Ended { exit, usage, millis } => {
            let cost = spent(usage);
            format!("{exit} (exit {}) after {}{cost}", exit.code(), duration(*millis))
        }
    };
    let text = line(&text);
    Some(match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    })
}

/// The base, or a candidate.
pub fn whose(candidate: &Option<CandidateId>) -> String {
    candidate.as_ref().map_or_else(|| "base".to_owned(), CandidateId::to_string)
}

fn steered(steer: &Steer) -> String {
    let Steer { id, lane, from, text, .. } = steer;
    match steer.fate {
        Fate::Waiting => format!("{from} says to {lane} ({id}): {text}"),
        Fate::Told { turn } => format!("{lane} read {id} in turn {turn}"),
        Fate::Missed => format!("{lane} ended before it read {id}"),
    }
}

fn lane_ended(lane: &LaneId, stop: &Stop, left_change: bool, usage: &Usage) -> String {
    let left = if left_change { "left a change" } else { "left no change" };
    let why = match stop {
        Stop::Failed { message, .. } => format!(": {message}"),
        _ => String::new(),
    };
    format!("{lane} {stop}{why}, {left}{}", spent(usage))
}

fn admitted(candidate: &CandidateId, lane: &LaneId, admission: &Admission) -> String {
    match admission {
        Admission::Admitted { files, .. } => {
            let count = files.len() as u32;
            format!("{candidate} of {lane} applies: {count} file{}", plural(count))
        }
        Admission::Refused(refusal) => {
            let path = refusal.path.as_ref().map(|path| format!(" in {path}")).unwrap_or_default();
            format!("{candidate} of {lane} refused, {}{path}: {}", refusal.code, refusal.message)
        }
    }
}

fn gated(candidate: &Option<CandidateId>, report: &GateReport) -> String {
    let why = match &report.verdict {
        Verdict::Pass => String::new(),
        Verdict::Fail { reason } => format!(" {reason}"),
        Verdict::Contested { reason } => format!(" contested: {reason}"),
        Verdict::Infra { reason } => format!(" could not run: {reason}"),
        Verdict::Skipped { reason } => format!(" skipped: {reason}"),
    };
    let time =
        if report.millis > 0 { format!(" ({})", duration(report.millis)) } else { String::new() };
    format!("{} {} {}{why}{time}", whose(candidate), report.gate, report.verdict.mark())
}

fn balloted(ballot: &Ballot) -> String {
    let Ballot { judge, left, right, .. } = ballot;
    let order = match ballot.order {
        Order::Forward => "first shown first",
        Order::Reverse => "first shown last",
    };
    match &ballot.choice {
        Choice::Left => format!("{judge}: {left} over {right} ({order})"),
        Choice::Right => format!("{judge}: {right} over {left} ({order})"),
        Choice::Tie => format!("{judge}: {left} and {right} tie ({order})"),
        Choice::Abstain { reason } => format!("{judge} abstains on {left} and {right}: {reason}"),
    }
}

fn dueled(duel: &Duel) -> String {
    let [left, right] = &duel.pair;
    let what = match &duel.result {
        DuelResult::Told { passes, fails } => {
            format!("its test passes on {passes} and fails on {fails}")
        }
        DuelResult::Alike { pass: true } => "its test passes on both".to_owned(),
        DuelResult::Alike { pass: false } => "its test fails on both".to_owned(),
        DuelResult::Void { reason } => format!("its test does not count: {reason}"),
        DuelResult::NotWritten { reason } => format!("no test was written: {reason}"),
    };
    format!("duel {} of {left} and {right}: {what}", duel.number)
}

fn decided(decision: &Decision) -> String {
    let reason = &decision.reason;
    match &decision.outcome {
        Outcome::Winner { candidate, .. } => {
            format!("winner {candidate}, confidence {}: {reason}", decision.confidence)
        }
        Outcome::NoWinner { reason: why, .. } => format!("no winner, {why}: {reason}"),
        Outcome::Gated { .. } => reason.clone(),
    }
}

/// What was spent, when anything was.
pub fn spent(usage: &Usage) -> String {
    if usage.calls == 0 { String::new() } else { format!(", {}", usage.cost) }
}

/// A lane's meter: how long its conversation is, the tokens it used, what they cost. A part that is not
/// known yet is left out.
pub fn meter(usage: &Usage, context: u64) -> String {
    let part = |tokens: u64, what: &str| match tokens {
        0 => String::new(),
        tokens => format!(", {} {what}", short(tokens)),
    };
    format!("{}{}{}", part(context, "context"), part(usage.tokens(), "tokens"), spent(usage))
}

/// A number of tokens, for example `950`, `12.3k` or `1.2M`.
fn short(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        // Rounded up to a thousand thousands it would look wrong.
        1000..999_950 => format!("{:.1}k", tokens as f64 / 1e3),
        _ => format!("{:.1}M", tokens as f64 / 1e6),
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "" } else { "s" }
}
