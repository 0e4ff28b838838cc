//! A duel's test, run on the base and on every finalist (contract C14): in fresh trees over the base's
//! output, like a gate, and each as often as the plan says.

use futures_util::future::try_join_all;
use tokio_util::sync::CancellationToken;

use super::{BaseGates, Gatekeeper, Work, blocking, prove};
use crate::gate::duel::{DuelTest, end, with_test};
use crate::gate::error::GateError;
use crate::gate::grounds::Layer;
use crate::gate::outcome::Outcome;
use crate::model::{CandidateId, Clipped, DuelRun, EventSink, GateKind, TestEnd, TreeId, clip};

/// Bytes of output that are kept of each tree.
const SHOWN: usize = 4 * 1024;

/// One tree of a duel.
struct Stand<'a> {
    candidate: Option<&'a CandidateId>,
    tree: TreeId,
}

/// What every run of a duel is given.
struct Given<'a> {
    work: &'a Work<'a>,
    test: &'a DuelTest,
    /// The base's own run: what its tests are called.
    before: Option<&'a Outcome>,
    layer: Option<Layer>,
    events: &'a EventSink,
    cancel: &'a CancellationToken,
}

impl Gatekeeper {
    /// Runs a test on the base and on `finalists`, `times` times each; the base comes first. After the
    /// first round a test that could not run anywhere is not run again.
    ///
    /// # Errors
    /// [`GateError`] when the engine itself can't go on, or the run is cancelled.
    pub async fn duel(
        &self,
        test: &DuelTest,
        finalists: &[(CandidateId, TreeId)],
        base: &BaseGates,
        times: u32,
        (events, cancel): (&EventSink, &CancellationToken),
    ) -> Result<Vec<DuelRun>, GateError> {
        let stands = self.stands(test, finalists).await?;
        let before = base.runs.get(&GateKind::Test);
        let longest = before.map(|run| run.elapsed);
        let work = Work {
            label: "duel",
            wall: prove::longest(longest.unwrap_or_default(), self.timeout()),
            ..self.work(GateKind::Test, &test.command, None)
        };
        let given = Given { work: &work, test, before, layer: base.layer.clone(), events, cancel };
        let mut runs: Vec<DuelRun> = stands.iter().map(blank).collect();
        for _ in 0..times.max(1) {
            if runs.iter().any(|run| run.why.is_some()) {
                break;
            }
            let round = stands.iter().map(|stand| self.bout(&given, stand));
            for (run, bout) in runs.iter_mut().zip(try_join_all(round).await?) {
                add(run, bout);
            }
        }
        Ok(runs)
    }

    /// The trees: as the gates lay them out for the tests, with the duel's files.
    async fn stands<'a>(
        &self,
        test: &DuelTest,
        finalists: &'a [(CandidateId, TreeId)],
    ) -> Result<Vec<Stand<'a>>, GateError> {
        let mut stands = vec![Stand { candidate: None, tree: test.tree.clone() }];
        for (id, tree) in finalists {
            let gated = self.gated(tree).await?.test;
            let (grounds, with) = (self.grounds.clone(), test.tree.clone());
            let tree = blocking(move || {
                let base = grounds.base();
                with_test(grounds.objects(), &base, &with, &gated).map_err(GateError::from)
            });
            stands.push(Stand { candidate: Some(id), tree: tree.await? });
        }
        Ok(stands)
    }

    /// One run on one tree.
    async fn bout(&self, given: &Given<'_>, stand: &Stand<'_>) -> Result<Bout, GateError> {
        let _turn = self.turn(given.cancel).await?;
        let work = Work { who: stand.candidate, ..*given.work };
        let terms = prove::Given {
            work: &work,
            layer: given.layer.clone(),
            events: given.events,
            cancel: given.cancel,
        };
        Ok(match self.in_tree(&terms, &work, &stand.tree).await? {
            Err(why) => Bout { end: Err(why), output: Clipped::default(), millis: 0 },
            Ok((run, _)) => Bout {
                end: end(&run, given.before, given.test.alone, stand.candidate.is_none()),
                output: clip(run.shown(), SHOWN),
                millis: u64::try_from(run.elapsed.as_millis()).unwrap_or(u64::MAX),
            },
        })
    }
}

/// One run.
struct Bout {
    end: Result<TestEnd, String>,
    output: Clipped,
    millis: u64,
}

fn blank(stand: &Stand<'_>) -> DuelRun {
    DuelRun {
        candidate: stand.candidate.cloned(),
        ends: Vec::new(),
        why: None,
        output: Clipped::default(),
        millis: 0,
    }
}

fn add(run: &mut DuelRun, bout: Bout) {
    run.millis += bout.millis;
    run.output = bout.output;
    match bout.end {
        Ok(end) => run.ends.push(end),
        Err(why) => {
            run.ends.push(TestEnd::NotRun);
            run.why = Some(why);
        }
    }
}
