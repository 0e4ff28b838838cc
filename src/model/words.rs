//! Outcomes and amounts in words: one wording for reports, live views and messages.

use std::fmt;

use super::{Confidence, Exit, GateKind, Limit, NoWinner, RunKind, Stage, Stop, Verdict};

/// `Display` by a table of words.
macro_rules! words {
    ($($type:ident { $($variant:ident => $word:literal),+ $(,)? })+) => {
        $(impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $word),+ })
            }
        })+
    };
}

words! {
    Limit { Iterations => "iterations", Time => "time", Cost => "cost", Context => "context" }
    GateKind { Setup => "setup", Apply => "apply", Typecheck => "check", Test => "test" }
    Confidence { Low => "low", Medium => "medium", High => "high" }
    RunKind { Run => "run", Pick => "pick", Gate => "gate" }
    Stage {
        Prepare => "prepare",
        Base => "base gates",
        Design => "design",
        FanOut => "workers",
        Admit => "admission",
        Gate => "gates",
        Weigh => "agreement",
        Judge => "judges",
        Duel => "duel",
        Fuse => "synthesis",
        Decide => "decision",
        Side => "side calls",
    }
    NoWinner {
        NoCandidates => "no candidates",
        NothingApplied => "nothing applied",
        NothingPassed => "nothing passed",
        GatesCouldNotRun => "the gates could not run",
        NoConfidentChoice => "no confident choice",
        OnlyPartial => "only PARTIAL candidates passed",
        ModelsUnreachable => "models could not be reached",
        LanesFailed => "every lane failed",
        LimitReached => "a limit was reached",
        Cancelled => "cancelled",
    }
    Exit {
        Done => "done",
        NoWinner => "no winner",
        Usage => "bad usage or config",
        Models => "models could not be reached or paid",
        Infra => "a gate or the sandbox could not run",
        Limit => "a limit ended the run",
        Internal => "internal or disk error",
        Interrupted => "interrupted",
        Terminated => "terminated",
    }
}

/// What is partial says so loudly (contract R23). A failure's class is foreign text.
impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Submitted => f.write_str("submitted"),
            Self::Given => f.write_str("given"),
            Self::Limit { limit } => write!(f, "PARTIAL ({limit})"),
            Self::Quit => f.write_str("PARTIAL (quit)"),
            Self::Cancelled => f.write_str("PARTIAL (cancelled)"),
            Self::NotNeeded => f.write_str("not needed"),
            Self::Failed { class, .. } => write!(f, "failed ({class})"),
        }
    }
}

impl Verdict {
    /// The verdict as one character.
    pub fn mark(&self) -> &'static str {
        match self {
            Self::Pass => "✓",
            Self::Fail { .. } => "✗",
            Self::Contested { .. } => "?",
            Self::Infra { .. } => "!",
            Self::Skipped { .. } => "–",
        }
    }
}

/// A time in words: `0.4 s`, `12.3 s`, `2 min 05 s`, `3 h 07 min`.
pub fn duration(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{}.{} s", seconds, millis % 1000 / 100),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// A number with commas between its thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_read_well() {
        let times = [0, 449, 59_999, 60_000, 125_000, 11_220_000].map(duration);
        assert_eq!(times, ["0.0 s", "0.4 s", "59.9 s", "1 min 00 s", "2 min 05 s", "3 h 07 min"]);
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }

    // contract R23
    #[test]
    fn what_a_limit_cut_off_is_called_partial() {
        let cut = [Stop::Limit { limit: Limit::Context }, Stop::Quit, Stop::Cancelled];
        for stop in cut {
            assert!(stop.is_partial() && stop.to_string().starts_with("PARTIAL ("), "{stop}");
        }
        assert_eq!(Stop::Submitted.to_string(), "submitted");
    }
}
