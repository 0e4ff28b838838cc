//! Consensus, judges and synthesizer as phases.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use tokio_util::sync::CancellationToken;

use super::changed::changed_files;
use super::layers::Layers;
use super::{Close, Failed, Fuse, Heard, Judge, PipelineError, Proposal, Survivor, Weigh, Weighed};
use crate::fence::Fencer;
use crate::judge::{
    self, Doubt as Open, Doubted, DuelText, Finalist, JudgeModel, PanelInput, SkepticInput, Tally,
    TallyOutcome, TallyRules, panel, steering, tally,
};
use crate::model::{
    Ballot, Basis, CandidateId, Control, Decision, EventSink, Family, GateKind, JudgeId, ModelRef,
    NoWinner, Outcome, Plan, Verdict,
};
use crate::prompt::Templates;
use crate::provider::Provider;
use crate::repo::Store;
use crate::select::{Contender, Doubt, Gated, Score, broken, choose};
use crate::synth::{self, BaseFile, Mend, SynthError, SynthInput};

/// Questions to judges that may be open at once.
const OPEN_QUESTIONS: usize = 4;

/// Consensus by `select`.
pub struct SelectWeigh {
    /// Families that the user trusts, best first.
    pub trust: Vec<Family>,
    /// The run's store.
    pub store: Arc<Store>,
}

impl SelectWeigh {
    fn contender(&self, survivor: &Survivor) -> Result<Contender, PipelineError> {
        let passed_tests = |report: &crate::model::GateReport| {
            report.gate == GateKind::Test && report.verdict == Verdict::Pass
        };
        let files = changed_files(&*self.store, self.store.base_tree(), &survivor.tree)?;
        Ok(Contender {
            id: survivor.id.clone(),
            tree: survivor.tree.clone(),
            families: survivor.supporters.clone(),
            broken: broken(&files).map(str::to_owned),
            files,
            tested: survivor.gates.iter().any(passed_tests),
            doubt: Doubt::of(&survivor.gates, &survivor.flags),
        })
    }
}

impl Weigh for SelectWeigh {
    fn weigh(&self, survivors: &[Survivor]) -> Result<Weighed, PipelineError> {
        let pool: Vec<Contender> =
            survivors.iter().map(|survivor| self.contender(survivor)).collect::<Result<_, _>>()?;
        let choice = choose(&pool, &self.trust);
        let decision = choice
            .decision
            .ok_or_else(|| PipelineError::Internal("there was nothing to weigh".to_owned()))?;
        Ok(Weighed {
            scores: choice.scores.iter().map(|score| score.total).collect(),
            facts: choice.scores.iter().map(agreement).collect(),
            choice: decision,
            trust_doubt: choice.trust_doubt,
        })
    }
}

/// What agreement says of one, for judges: numbers only, since names would hint at who made it.
fn agreement(score: &Score) -> Vec<String> {
    if let Some(gated) = &score.gated {
        let why = match gated {
            Gated::Broken(_) => "a file that it touches does not parse any more",
            Gated::NoCore => "it changes no source file",
        };
        return vec![format!("agreement of authors: not counted, since {why}")];
    }
    let Some(total) = score.total else { return Vec::new() };
    let (shared, all) = (score.supported.len(), score.supported.len() + score.unsupported.len());
    vec![format!(
        "agreement of independent authors: {total:.2} of 4; {shared} of its {all} changed source line(s) are also in \
         changes by others"
    )]
}

/// Judges by `judge`: everything that a panel needs.
#[derive(Clone)]
pub struct JudgeDesk {
    pub(super) task: Option<String>,
    judges: Vec<judge::Judge>,
    models: Vec<JudgeModel>,
    pub(super) templates: Templates,
    pub(super) fencer: Fencer,
    pub(super) max_output_tokens: u32,
    events: EventSink,
    pub(super) cancel: CancellationToken,
}

impl JudgeDesk {
    /// A desk for the plan's judges and models.
    ///
    /// # Errors
    /// When the plan names a judge that there is none of.
    pub fn new(
        plan: &Plan,
        layers: &Layers,
        fencer: Fencer,
        models: Vec<(ModelRef, Arc<dyn Provider>)>,
        events: EventSink,
        cancel: CancellationToken,
    ) -> Result<Self, PipelineError> {
        let judges = layers.judges.select(&plan.judging.judges);
        Ok(Self {
            task: plan.task.as_ref().map(|task| task.text.clone()),
            judges: judges.map_err(|error| PipelineError::Config(error.to_string()))?,
            models: models
                .into_iter()
                .map(|(name, provider)| JudgeModel { name, provider })
                .collect(),
            templates: layers.templates.clone(),
            fencer,
            max_output_tokens: plan.worker_limits.max_output_tokens,
            events,
            cancel,
        })
    }
}

impl JudgeDesk {
    async fn doubt_one(&self, at: usize, survivor: &Survivor) -> Result<Doubted, PipelineError> {
        let finalist = finalist(survivor);
        // Another model than the one before, where there are several.
        let Some(model) = self.models.get(at % self.models.len().max(1)) else {
            return Ok(Doubted::default());
        };
        let input = SkepticInput {
            finalist: &finalist,
            model,
            templates: &self.templates,
            fencer: &self.fencer,
            max_output_tokens: self.max_output_tokens,
            cancel: &self.cancel,
        };
        let doubted = judge::doubt(&input).await;
        doubted.map_err(|error| PipelineError::Config(error.to_string()))
    }

    fn panel_input<'a>(
        &'a self,
        finalists: &'a [Finalist],
        duels: &'a [DuelText],
    ) -> PanelInput<'a> {
        PanelInput {
            task: self.task.as_deref(),
            finalists,
            judges: &self.judges,
            models: &self.models,
            templates: &self.templates,
            fencer: &self.fencer,
            duels,
            max_parallel: OPEN_QUESTIONS,
            max_output_tokens: self.max_output_tokens,
            ballot_time: None,
            events: &self.events,
            cancel: &self.cancel,
        }
    }

    fn count(&self, survivors: &[Survivor], ballots: &[Ballot], controls: &[Control]) -> Tally {
        let mut rules = TallyRules::of(&self.judges);
        let finalists: Vec<Finalist> = survivors.iter().map(finalist).collect();
        rules.steering = steering(self.task.as_deref(), &finalists);
        rules.void = judge::void(controls);
        let ids: Vec<CandidateId> = survivors.iter().map(|survivor| survivor.id.clone()).collect();
        tally(&ids, ballots, &rules)
    }
}

impl Judge for JudgeDesk {
    fn doubt<'a>(
        &'a self,
        finalists: &'a [Survivor],
    ) -> BoxFuture<'a, Result<Vec<Doubted>, PipelineError>> {
        let asked = finalists.iter().enumerate();
        let asked: Vec<_> = asked.map(|(at, one)| self.doubt_one(at, one).boxed()).collect();
        stream::iter(asked).buffered(OPEN_QUESTIONS).try_collect().boxed()
    }

    fn to_convince(&self) -> Vec<JudgeId> {
        let with_veto = self.judges.iter().filter(|judge| judge.veto.is_some());
        with_veto.map(|judge| judge.id.clone()).collect()
    }

    fn panel<'a>(
        &'a self,
        survivors: &'a [Survivor],
        duels: &'a [DuelText],
    ) -> BoxFuture<'a, Result<Heard, PipelineError>> {
        async move {
            let finalists: Vec<Finalist> = survivors.iter().map(finalist).collect();
            let panel = panel(&self.panel_input(&finalists, duels)).await;
            let panel = panel.map_err(|error| PipelineError::Config(error.to_string()))?;
            let unreachable = panel.unreachable().map(ToString::to_string);
            Ok(Heard { ballots: panel.ballots, unreachable })
        }
        .boxed()
    }

    fn control<'a>(
        &'a self,
        survivors: &'a [Survivor],
        ballots: &'a [Ballot],
        winner: &'a CandidateId,
        known: &'a [Control],
    ) -> BoxFuture<'a, Result<Vec<Control>, PipelineError>> {
        async move {
            let finalists: Vec<Finalist> = survivors.iter().map(finalist).collect();
            let input = self.panel_input(&finalists, &[]);
            let asked = judge::control(&input, ballots, winner, known).await;
            asked.map_err(|error| PipelineError::Config(error.to_string()))
        }
        .boxed()
    }

    fn close(
        &self,
        survivors: &[Survivor],
        ballots: &[Ballot],
        controls: &[Control],
    ) -> Option<Close> {
        match self.count(survivors, ballots, controls).outcome {
            TallyOutcome::NoConfidentChoice { doubt: Open::NoVoices, .. } => Some(Close::Unheard),
            TallyOutcome::NoConfidentChoice { doubt: Open::Margin, closest } => {
                <[CandidateId; 2]>::try_from(closest).ok().map(Close::Two)
            }
            _ => None,
        }
    }

    fn tally(&self, survivors: &[Survivor], ballots: &[Ballot], controls: &[Control]) -> Decision {
        let tally = self.count(survivors, ballots, controls);
        let outcome = match &tally.outcome {
            TallyOutcome::Winner { candidate } => winner(candidate, survivors),
            TallyOutcome::NoConfidentChoice { closest, .. } => {
                Outcome::NoWinner { reason: NoWinner::NoConfidentChoice, closest: closest.clone() }
            }
        };
        Decision {
            outcome,
            basis: Some(Basis::Judges),
            confidence: tally.confidence(),
            reason: tally.reason.clone(),
            evidence: tally.evidence(),
        }
    }
}

fn winner(id: &CandidateId, survivors: &[Survivor]) -> Outcome {
    let tree = survivors.iter().find(|survivor| survivor.id == *id).map(|found| found.tree.clone());
    match tree {
        Some(tree) => Outcome::Winner { candidate: id.clone(), tree },
        None => Outcome::NoWinner { reason: NoWinner::NoConfidentChoice, closest: Vec::new() },
    }
}

/// What judges and synthesizer see of a survivor.
pub(super) fn finalist(survivor: &Survivor) -> Finalist {
    let count = survivor.supporters.len();
    let same = (count > 1).then(|| format!("{count} authors proposed exactly this change"));
    Finalist {
        id: survivor.id.clone(),
        diff: String::from_utf8_lossy(&survivor.diff).into_owned(),
        answer: survivor.answer.clone(),
        claims: survivor.claims.clone(),
        files: survivor.files.clone(),
        flags: survivor.flags.clone(),
        gates: survivor.gates.clone(),
        partial: false,
        facts: same.into_iter().chain(survivor.facts.iter().cloned()).collect(),
        refuted: survivor.refuted.clone(),
    }
}

/// The synthesizer by `synth`, at the judges' desk.
pub struct SynthFuse {
    desk: JudgeDesk,
    model: ModelRef,
    provider: Arc<dyn Provider>,
    store: Arc<Store>,
}

impl SynthFuse {
    /// A synthesizer that sees what the judges see.
    pub fn new(
        desk: &JudgeDesk,
        provider: Arc<dyn Provider>,
        model: ModelRef,
        store: Arc<Store>,
    ) -> Self {
        Self { desk: desk.clone(), model, provider, store }
    }

    /// The base's contents of every file that a finalist touches.
    fn files(&self, survivors: &[Survivor]) -> Result<Vec<BaseFile>, PipelineError> {
        let mut files = std::collections::BTreeMap::new();
        for survivor in survivors {
            for file in changed_files(&*self.store, self.store.base_tree(), &survivor.tree)? {
                if let Some(base) = file.base {
                    files.insert(file.path, String::from_utf8_lossy(&base).into_owned());
                }
            }
        }
        Ok(files.into_iter().map(|(path, contents)| BaseFile { path, contents }).collect())
    }

    async fn ask(
        &self,
        survivors: &[Survivor],
        ballots: &[Ballot],
        mend: Option<Failed>,
    ) -> Result<Proposal, PipelineError> {
        let finalists: Vec<Finalist> = survivors.iter().map(finalist).collect();
        let ids: Vec<CandidateId> = survivors.iter().map(|survivor| survivor.id.clone()).collect();
        let tally = tally(&ids, ballots, &TallyRules::of(&self.desk.judges));
        let files = self.files(survivors)?;
        let input = SynthInput {
            task: self.desk.task.as_deref(),
            finalists: &finalists,
            ballots,
            tally: Some(&tally),
            files: &files,
            templates: &self.desk.templates,
            fencer: &self.desk.fencer,
            model: &self.model,
            provider: self.provider.clone(),
            max_output_tokens: self.desk.max_output_tokens,
            mend: mend.as_ref().map(|failed| Mend {
                diff: &failed.diff,
                report: &failed.report,
                round: failed.round,
            }),
            cancel: &self.desk.cancel,
        };
        Ok(match synth::propose(&input).await {
            Ok(synthesis) => proposal(synthesis),
            Err(SynthError::Provider(error)) => Proposal::nothing(error.to_string()),
            Err(SynthError::Prompt(error)) => return Err(PipelineError::Config(error.to_string())),
        })
    }
}

fn proposal(synthesis: synth::Synthesis) -> Proposal {
    let why = synthesis.why_none.unwrap_or_else(|| "it gave no reason".to_owned());
    match synthesis.proposal {
        Some(proposal) => {
            Proposal { diff: Some(proposal.diff), answer: proposal.answer, usage: synthesis.usage }
        }
        None => Proposal { usage: synthesis.usage, ..Proposal::nothing(why) },
    }
}

impl Fuse for SynthFuse {
    fn propose<'a>(
        &'a self,
        finalists: &'a [Survivor],
        ballots: &'a [Ballot],
        mend: Option<Failed>,
    ) -> BoxFuture<'a, Result<Proposal, PipelineError>> {
        self.ask(finalists, ballots, mend).boxed()
    }
}
