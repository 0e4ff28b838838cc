//! What a candidate's own tests say: those that it adds or changes, run apart from the base's.
//!
//! A test is evidence when it passes with the change and not without it. Nothing here decides.

use std::collections::BTreeSet;

use super::outcome::Outcome;
use super::protect::{Tests, Touch};
use crate::model::{OwnTest, OwnTests, TestEnd, duration};
use crate::sandbox::JobStatus;

/// Tests that are named.
const NAMED: usize = 200;

/// Weighs two runs with the candidate's tests in place, on the candidate and on the base's sources,
/// against the base's own run. An absent or failed second run leaves open what it would have told.
pub fn weigh(
    base: &Outcome,
    here: &Outcome,
    on_base: Option<&Result<Outcome, String>>,
    tests: &Tests,
) -> OwnTests {
    let mut found = OwnTests {
        note: note(here, on_base),
        millis: millis(here) + on_base.and_then(|run| run.as_ref().ok()).map_or(0, millis),
        ..OwnTests::default()
    };
    let on_base = on_base.and_then(|run| run.as_ref().ok()).filter(|run| run.exit().is_some());
    let known: BTreeSet<String> = base.ran().map(|name| tests.renamed(name)).collect();
    let names: BTreeSet<&str> = here
        .ran()
        // Examples in documentation are tests of the sources that they stand in.
        .filter(|name| !name.starts_with("doc "))
        .filter(|name| !known.contains(*name) || tests.touch(name, "") == Touch::Changed)
        .collect();
    let all: Vec<OwnTest> = names
        .iter()
        .map(|name| OwnTest {
            name: (*name).to_owned(),
            here: end(here, name),
            on_base: on_base.map(|run| end(run, name)),
        })
        .collect();
    found.evidence = all.iter().filter(|test| test.is_evidence()).count() as u64;
    let broken =
        here.reading.errors.iter().filter(|each| !base.reading.errors.contains(each)).count();
    let failing = all.iter().filter(|test| test.here == TestEnd::Failed).count();
    found.failing = (failing + broken) as u64;
    found.tests = all.into_iter().take(NAMED).collect();
    found
}

fn end(run: &Outcome, name: &str) -> TestEnd {
    match (run.fails(name), run.reading.passed.contains_key(name)) {
        (true, _) => TestEnd::Failed,
        (false, true) => TestEnd::Passed,
        (false, false) => TestEnd::NotRun,
    }
}

fn millis(run: &Outcome) -> u64 {
    u64::try_from(run.elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// What can't be known of them.
fn note(here: &Outcome, on_base: Option<&Result<Outcome, String>>) -> Option<String> {
    if here.status == JobStatus::TimedOut {
        return Some(format!(
            "its own tests were cut off after {}: they may take four times what the base's tests took, at least a \
             minute, and no longer than a gate",
            duration(millis(here))
        ));
    }
    if here.reading.passed.is_empty() && here.reading.failed.is_empty() {
        let why = if here.is_success() { "" } else { "; with them the command fails" };
        return Some(format!("the test command does not name its tests{why}"));
    }
    match on_base {
        None => Some("its own tests were not tried on the base".to_owned()),
        Some(Err(reason)) => Some(format!("its own tests could not run on the base: {reason}")),
        Some(Ok(run)) if run.exit().is_none() => {
            Some(format!("its own tests did not end on the base: {}", run.ending()))
        }
        Some(Ok(_)) => None,
    }
}
