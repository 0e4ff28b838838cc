//! What a run's user must know of what was asked for: what is left out, and on what the choice rests.
//!
//! Never here: what happens while it runs.

use super::frame::Frame;
use crate::model::{RunKind, Warning};

/// The warnings that follow from a run's frame.
pub(super) fn of(frame: &Frame) -> Vec<Warning> {
    let plan = &frame.plan;
    let mut warnings = Vec::new();
    let mut warn = |code: &str, message: String| {
        warnings.push(Warning { code: code.to_owned(), message });
    };
    let count = frame.left_out;
    if count > 0 {
        warn(
            "dirty-left-out",
            format!("{count} uncommitted changes are not part of the base; --dirty includes them"),
        );
    }
    for path in &frame.absent {
        warn(
            "not-carried",
            format!(
                "{path} of the checkout was not carried along: it is not there; install it, or take it out of \
                 `carry`"
            ),
        );
    }
    if plan.gates.check.is_none() && plan.gates.test.is_none() {
        warn(
            "only-applied",
            "no check and no test was asked for: candidates were only applied".to_owned(),
        );
    }
    if frame.kind != RunKind::Gate && plan.judging.judges.is_empty() {
        warn(
            "no-judges",
            "no model was asked to judge: the choice rests on evidence alone".to_owned(),
        );
    }
    let one_voice = plan.judging.judges.len() == 1 && plan.judging.models.len() < 2;
    if one_voice {
        warn(
            "one-voice",
            "one judge by one model decides; name another judge, or a second --judge-model"
                .to_owned(),
        );
    }
    warnings
}
