//! What a run's user must know of what was asked for: what is left out, and on what the choice rests.
//!
//! Never here: what happens while it runs.

use super::frame::Frame;
use crate::model::{CandidateId, RunKind, RunRecord, Warning};

/// The code of the warning that a candidate's diff is masked where it is kept.
pub(super) const SECRET_IN_DIFF: &str = "secret-in-diff";

/// Its words. They begin with the candidate's id.
pub(super) fn secret_in_diff(id: &CandidateId) -> String {
    format!(
        "{id}: its diff holds a known secret. It is masked in the run's files, so the diff that they hold does not apply; \
         the candidate's tree holds it, and `bakeoff apply` writes it. Don't apply it unless the secret may be in the \
         repository"
    )
}

/// What a record says of a candidate whose diff is masked where it is kept.
pub fn masked_diff<'r>(record: &'r RunRecord, id: &CandidateId) -> Option<&'r str> {
    let of_it = |message: &str| {
        let rest = message.strip_prefix(id.as_str());
        rest.is_some_and(|rest| rest.starts_with(':'))
    };
    let mut found = record.warnings.iter().filter(|warning| warning.code == SECRET_IN_DIFF);
    found.find(|warning| of_it(&warning.message)).map(|warning| warning.message.as_str())
}

/// The same for the first such candidate of a record.
pub(super) fn any_masked_diff(record: &RunRecord) -> Option<&str> {
    record.candidates.iter().find_map(|row| masked_diff(record, &row.candidate.id))
}

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
