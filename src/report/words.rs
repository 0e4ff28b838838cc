//! Outcomes, times and amounts in words.

use super::page::Tone;
use crate::model::{
    Basis, Confidence, Exit, GateKind, Limit, NoWinner, RunKind, Stop, Usage, Verdict,
};

/// How a worker stopped. What is partial says so loudly (contract R23).
pub fn stop(stop: &Stop) -> (String, Tone) {
    let partial = |why: &str| (format!("PARTIAL ({why})"), Tone::Warn);
    match stop {
        Stop::Submitted => ("submitted".to_owned(), Tone::Plain),
        Stop::Given => ("given".to_owned(), Tone::Plain),
        Stop::Limit { limit } => partial(limit_word(*limit)),
        Stop::Quit => partial("quit"),
        Stop::Cancelled => partial("cancelled"),
        Stop::Failed { class, .. } => (format!("failed ({class})"), Tone::Bad),
    }
}

fn limit_word(limit: Limit) -> &'static str {
    match limit {
        Limit::Iterations => "iterations",
        Limit::Time => "time",
        Limit::Cost => "cost",
        Limit::Context => "context",
    }
}

/// A gate's verdict as one mark.
pub fn mark(verdict: &Verdict) -> (&'static str, Tone) {
    match verdict {
        Verdict::Pass => ("✓", Tone::Good),
        Verdict::Fail { .. } => ("✗", Tone::Bad),
        Verdict::Infra { .. } => ("!", Tone::Warn),
        Verdict::Skipped { .. } => ("–", Tone::Faint),
    }
}

/// A gate's name, short.
pub fn gate(gate: GateKind) -> &'static str {
    match gate {
        GateKind::Setup => "setup",
        GateKind::Apply => "apply",
        GateKind::Typecheck => "check",
        GateKind::Test => "test",
    }
}

/// Why nothing won.
pub fn no_winner(reason: NoWinner) -> &'static str {
    match reason {
        NoWinner::NoCandidates => "no candidates",
        NoWinner::NothingApplied => "nothing applied",
        NoWinner::NothingPassed => "nothing passed",
        NoWinner::GatesCouldNotRun => "the gates could not run",
        NoWinner::NoConfidentChoice => "no confident choice",
        NoWinner::OnlyPartial => "only PARTIAL candidates passed",
        NoWinner::ModelsUnreachable => "models could not be reached",
        NoWinner::LimitReached => "a limit was reached",
        NoWinner::Cancelled => "cancelled",
    }
}

/// What a choice rests on.
pub fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::OnlySurvivor => "it is the only survivor",
        Basis::Judges => "judges' ballots over the evidence",
        Basis::Evidence => "evidence alone, no model was asked",
    }
}

/// How sure a choice is.
pub fn confidence(confidence: Confidence) -> (&'static str, Tone) {
    match confidence {
        Confidence::Low => ("low", Tone::Warn),
        Confidence::Medium => ("medium", Tone::Plain),
        Confidence::High => ("high", Tone::Good),
    }
}

/// Which command made a run.
pub fn kind(kind: RunKind) -> &'static str {
    match kind {
        RunKind::Run => "run",
        RunKind::Pick => "pick",
        RunKind::Gate => "gate",
    }
}

/// How a command ended, with its exit status.
pub fn exit(exit: Exit) -> String {
    let word = match exit {
        Exit::Done => "done",
        Exit::NoWinner => "no winner",
        Exit::Usage => "bad usage or config",
        Exit::Models => "models could not be reached or paid",
        Exit::Infra => "a gate or the sandbox could not run",
        Exit::Limit => "a limit ended the run",
        Exit::Internal => "internal or disk error",
        Exit::Interrupted => "interrupted",
        Exit::Terminated => "terminated",
    };
    format!("{word} (exit {})", exit.code())
}

/// A time: `0.4 s`, `12.3 s`, `2 min 05 s`, `3 h 07 min`.
pub fn time(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, millis % 1000 / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A number with commas between its thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Calls, tokens and cost in one sentence. No call counts that was not answered.
pub fn usage(usage: &Usage) -> String {
    if usage.calls == 0 {
        return "no model answered".to_owned();
    }
    let read = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens;
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({} from cache)", count(cached)),
    };
    format!(
        "{} for {} call{}: {} tokens in{cached}, {} out",
        usage.cost,
        count(usage.calls),
        plural(usage.calls),
        count(read),
        count(usage.output_tokens)
    )
}

/// The ending of a plural.
pub fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The beginning of a long hexadecimal id.
pub fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_counts_read_well() {
        let times = [0, 449, 59_999, 60_000, 125_000, 11_220_000].map(time);
        assert_eq!(times, ["0.0 s", "0.4 s", "59.9 s", "1 min 00 s", "2 min 05 s", "3 h 07 min"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
    }
}
