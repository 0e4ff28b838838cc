//! One gate on one candidate: the command, again where tests may be flaky, and the candidate's own tests
//! apart from the base's.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{BaseGates, Gatekeeper, Work, blocking, untouched};
use crate::gate::compare::{self, Terms};
use crate::gate::error::GateError;
use crate::gate::grounds::Layer;
use crate::gate::outcome::Outcome;
use crate::gate::protect::Gated;
use crate::gate::{flaky, own, report};
use crate::model::{EventSink, GateKind, GateReport, OwnTests, TreeId, Verdict};
use crate::repo::RepoError;

/// A run and the tracked files that it changed.
type Ran = (Outcome, Result<Vec<String>, RepoError>);

/// Own tests may take this many times what the base's tests took, and at least a minute: a suite that
/// takes a second leaves no time to build what a new test needs.
const OWN_TIMES: u32 = 4;
const OWN_LEAST: Duration = Duration::from_secs(60);

/// How long a run with new tests in place may take, by what the base's tests took.
pub(super) fn longest(base: Duration, limit: Duration) -> Duration {
    (base * OWN_TIMES).max(OWN_LEAST).min(limit)
}

/// What every run of one gate is given.
pub(super) struct Given<'a> {
    pub(super) work: &'a Work<'a>,
    pub(super) layer: Option<Layer>,
    pub(super) events: &'a EventSink,
    pub(super) cancel: &'a CancellationToken,
}

/// The candidate's own tests: the run on the candidate, and what it and the one on the base come to.
struct Own {
    here: Outcome,
    told: OwnTests,
}

impl Gatekeeper {
    pub(super) async fn candidate_gate(
        &self,
        work: &Work<'_>,
        gated: &Gated,
        base: &BaseGates,
        events: &EventSink,
        cancel: &CancellationToken,
    ) -> Result<GateReport, GateError> {
        let tree = if work.gate == GateKind::Test { &gated.test } else { &gated.check };
        let infra = |reason: String| {
            Ok(report::not_run(work.gate, work.command, Verdict::Infra { reason }))
        };
        let Some(before) = base.runs.get(&work.gate) else {
            return infra("it was never run on the base".to_owned());
        };
        let given = Given { work, layer: base.layer.clone(), events, cancel };
        let (first, left) = match self.in_tree(&given, work, tree).await? {
            Ok(ran) => ran,
            Err(reason) => return infra(reason),
        };
        let terms = self.terms(work, gated);
        let run = self.again(&given, first, tree, before, &terms).await?;
        let own = self.own_tests(&given, gated, before, &run, &terms).await?;
        let terms = Terms { own: own.as_ref().map(|own| &own.here), ..terms };
        let (verdict, comparison) = compare::candidate_verdict(before, &run, &terms);
        let verdict = match verdict {
            Verdict::Pass => untouched(left, &base.rewritten),
            other => other,
        };
        let mut told = report::ran(work.gate, work.command, &run, verdict, Some(comparison));
        told.artifact = report::keep(self.artifacts.as_ref(), &run);
        told.own = own.map(|own| own.told);
        Ok(told)
    }

    fn terms<'a>(&self, work: &Work<'_>, gated: &'a Gated) -> Terms<'a> {
        Terms {
            strict: self.plan.strict_tests,
            limit: work.wall,
            tests: &gated.tests,
            dependencies: &gated.dependencies,
            own: None,
        }
    }

    /// A command in a fresh tree. The inner error says why it could not run.
    pub(super) async fn in_tree(
        &self,
        given: &Given<'_>,
        work: &Work<'_>,
        tree: &TreeId,
    ) -> Result<Result<Ran, String>, GateError> {
        let laid = match self.lay(tree.clone(), given.layer.clone()).await {
            Ok(laid) => laid,
            Err(GateError::Repo(error)) => {
                return Ok(Err(format!("the tree could not be laid out: {error}")));
            }
            Err(error) => return Err(error),
        };
        let run = self.run(work, laid.as_ref(), given.events, given.cancel).await?;
        // Reading what is left and throwing it away is disk work too.
        let left = blocking(move || Ok(laid.into_layer().map(|kept| kept.rewritten))).await?;
        Ok(run.map(|run| (run, left)))
    }

    /// Runs failed tests again, each time in a fresh tree, until each new failure has passed once or the
    /// plan's reruns are used up.
    async fn again(
        &self,
        given: &Given<'_>,
        first: Outcome,
        tree: &TreeId,
        before: &Outcome,
        terms: &Terms<'_>,
    ) -> Result<Outcome, GateError> {
        let mut settled = first.clone();
        let mut later = Vec::new();
        while given.work.gate == GateKind::Test
            && later.len() < self.plan.flaky as usize
            && settled.exit().is_some()
            && compare::candidate_verdict(before, &settled, terms).0.is_fail()
        {
            match self.in_tree(given, given.work, tree).await? {
                Ok((run, _)) => later.push(run),
                Err(_) => break,
            }
            settled = flaky::settle(&first, &later, &before.flaky);
        }
        Ok(settled)
    }

    /// Runs the tests that the candidate adds or changes apart from the base's: on it, and on the base's
    /// sources. Not for a candidate that failed anyhow.
    async fn own_tests(
        &self,
        given: &Given<'_>,
        gated: &Gated,
        before: &Outcome,
        run: &Outcome,
        terms: &Terms<'_>,
    ) -> Result<Option<Own>, GateError> {
        let (Some(own), Some(on_base)) = (&gated.own, &gated.own_on_base) else { return Ok(None) };
        if given.work.gate != GateKind::Test || !self.plan.own_tests {
            return Ok(None);
        }
        // Where its own tests pass, is there anything left that fails it?
        let hopeful = Terms { own: Some(before), ..*terms };
        let verdict = compare::candidate_verdict(before, run, &hopeful).0;
        if !verdict.is_pass() && !verdict.is_contested() {
            return Ok(None);
        }
        let wall = longest(before.elapsed, given.work.wall);
        let work = Work { label: "own tests", wall, ..*given.work };
        let (here, _) = match self.in_tree(given, &work, own).await? {
            Ok(ran) => ran,
            Err(_) => return Ok(None),
        };
        let shows = !here.reading.passed.is_empty();
        let there = match shows {
            true => Some(self.in_tree(given, &work, on_base).await?.map(|(run, _)| run)),
            false => None,
        };
        let told = own::weigh(before, &here, there.as_ref(), &gated.tests);
        Ok(Some(Own { here, told }))
    }
}
