//! Tones of outcomes, and sentences that only a report needs.

use super::page::Tone;
use crate::model::{Basis, Confidence, Stop, Usage, Verdict, grouped};

/// What is partial stands out (contract R23).
pub fn stop(stop: &Stop) -> Tone {
    match stop {
        Stop::Submitted | Stop::Given => Tone::Plain,
        Stop::NotNeeded => Tone::Faint,
        Stop::Limit { .. } | Stop::Quit | Stop::Cancelled => Tone::Warn,
        Stop::Failed { .. } => Tone::Bad,
    }
}

/// The tone of a gate's verdict.
pub fn verdict(verdict: &Verdict) -> Tone {
    match verdict {
        Verdict::Pass => Tone::Good,
        Verdict::Fail { .. } => Tone::Bad,
        Verdict::Infra { .. } | Verdict::Contested { .. } => Tone::Warn,
        Verdict::Skipped { .. } => Tone::Faint,
    }
}

/// The tone of a confidence.
pub fn confidence(confidence: Confidence) -> Tone {
    match confidence {
        Confidence::Low => Tone::Warn,
        Confidence::Medium => Tone::Plain,
        Confidence::High => Tone::Good,
    }
}

/// What a choice rests on; `asked` when there are ballots, whatever they say.
pub fn basis(basis: Basis, asked: bool) -> &'static str {
    match basis {
        Basis::OnlySurvivor => "it is the only survivor",
        Basis::Judges => "judges' ballots over the evidence",
        Basis::Evidence if asked => "evidence alone, the judges that were asked said nothing valid",
        Basis::Evidence => "evidence alone, no model was asked to judge",
    }
}

/// Calls, tokens and cost in one sentence. No call counts that was not answered.
pub fn usage(usage: &Usage) -> String {
    if usage.calls == 0 {
        return "no model answered".to_owned();
    }
    let read = usage.read_tokens();
    let cached = match usage.cache_read_tokens {
        0 => String::new(),
        cached => format!(" ({} from cache)", grouped(cached)),
    };
    format!(
        "{} for {} call{}: {} tokens in{cached}, {} out",
        usage.cost,
        grouped(usage.calls),
        plural(usage.calls),
        grouped(read),
        grouped(usage.output_tokens)
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
