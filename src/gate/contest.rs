//! Contested tests: a test of the base that fails on a candidate which changed that test.
//!
//! The base's version is what ran. Whether it or the candidate is right is not for a gate to say: the
//! failure is told, disproves nobody, and proves nothing either.
//!
//! A test counts as changed when its own text differs or is gone. One whose text is the same in a file
//! that was changed otherwise (a helper, a fixture) counts when the candidate's version of the file lets
//! it pass. Where the base's tests do not even compile against the candidate because of files that it
//! changed, the run with its own tests stands in for the others.

use super::compare::{Terms, stem};
use super::outcome::Outcome;
use super::protect::Touch;
use crate::model::{BaseComparison, Diagnostic};

/// Moves what is contested out of the new failures; gives the tests that are gone and not excused so.
pub fn settle(
    base: &Outcome,
    run: &Outcome,
    terms: &Terms<'_>,
    comparison: &mut BaseComparison,
    gone: Vec<String>,
) -> Vec<String> {
    if terms.tests.changed.is_empty() {
        return gone;
    }
    let new = std::mem::take(&mut comparison.new_failures);
    let (contested, rest) = new.into_iter().partition(|each| is_contested(run, each, terms));
    (comparison.contested, comparison.new_failures) = (contested, rest);
    let broken = comparison.contested.iter().any(|each| run.reading.errors.contains(each));
    let gone = match (broken, terms.own) {
        (false, _) => gone,
        (true, None) => Vec::new(),
        (true, Some(own)) => {
            comparison.new_failures.extend(stands_in(base, own, terms));
            missing_from(own, gone, terms)
        }
    };
    // What the candidate did away with did not run because of that.
    let (deleted, gone): (Vec<String>, Vec<String>) =
        gone.into_iter().partition(|name| broken && is_changed(name, "", terms));
    comparison.contested.extend(deleted.iter().map(|name| told(name)));
    gone
}

fn told(name: &str) -> Diagnostic {
    Diagnostic {
        code: name.to_owned(),
        path: String::new(),
        line: 0,
        message: "did not run".to_owned(),
    }
}

fn is_contested(run: &Outcome, each: &Diagnostic, terms: &Terms<'_>) -> bool {
    if run.reading.failed.contains(each) {
        return is_changed(&each.code, &each.path, terms);
    }
    // An error in a file of tests: the base's version does not fit the candidate.
    terms.tests.is_changed_file(&each.path)
}

fn is_changed(name: &str, path: &str, terms: &Terms<'_>) -> bool {
    match terms.tests.touch(name, path) {
        Touch::Changed => true,
        Touch::Near => terms.own.is_some_and(|own| {
            own.reading.passed.keys().any(|passed| stem(passed) == stem(name)) && !own.fails(name)
        }),
        Touch::Untouched => false,
    }
}

/// Failures of the base's other tests, seen in the run with the candidate's own.
fn stands_in(base: &Outcome, own: &Outcome, terms: &Terms<'_>) -> Vec<Diagnostic> {
    own.reading
        .failed
        .iter()
        .filter(|each| base.reading.passed.contains_key(&each.code))
        .filter(|each| terms.tests.touch(&each.code, &each.path) == Touch::Untouched)
        .cloned()
        .collect()
}

fn missing_from(own: &Outcome, gone: Vec<String>, terms: &Terms<'_>) -> Vec<String> {
    let shown: std::collections::BTreeSet<&str> = own.ran().map(stem).collect();
    gone.into_iter()
        .filter(|name| !shown.contains(name.as_str()))
        .filter(|name| terms.tests.touch(name, "") == Touch::Untouched)
        .collect()
}
