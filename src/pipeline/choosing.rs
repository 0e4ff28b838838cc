//! The parts of a run that admit and choose, made of a plan: for a run, and for its replay.
//!
//! Never here: what they do.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::adapters::{GateProve, PatchAdmit};
use super::duel::DuelDesk;
use super::judging::{JudgeDesk, SelectWeigh, SynthFuse};
use super::layers::Layers;
use super::memory::Memory;
use super::models::Models;
use super::{Admit, Duels, Fuse, Judge, PipelineError, Weigh};
use crate::fence::Fencer;
use crate::journal::RunDir;
use crate::judge::JudgeModel;
use crate::model::{EventSink, Plan};
use crate::patch::Rules;
use crate::repo::Store;

/// Admission by the plan's rules.
pub(super) fn admit(store: &Arc<Store>, plan: &Plan) -> Box<dyn Admit> {
    Box::new(patch_admit(store, plan))
}

/// The same, for whoever needs its kind.
pub(super) fn patch_admit(store: &Arc<Store>, plan: &Plan) -> PatchAdmit {
    PatchAdmit { store: store.clone(), rules: Rules::from(&plan.patch), gates: plan.gates.clone() }
}

/// Consensus, with the plan's order of trust.
pub(super) fn weigh(store: &Arc<Store>, plan: &Plan) -> Box<dyn Weigh> {
    Box::new(SelectWeigh { trust: plan.trust.clone(), store: store.clone() })
}

/// What the desks of judges, duels and synthesizer are made of.
pub(super) struct Desks<'a> {
    pub(super) layers: &'a Layers,
    pub(super) models: &'a Models,
    pub(super) fencer: &'a Fencer,
    pub(super) store: &'a Arc<Store>,
    pub(super) dir: &'a RunDir,
    pub(super) memory: &'a Arc<Memory>,
    /// Runs duels' tests; nobody does in a replay.
    pub(super) prove: Option<&'a Arc<GateProve>>,
}

/// Judges, duels and synthesizer, as far as the plan has them; all sit at the judges' desk.
type Judging = (Option<Box<dyn Judge>>, Option<Box<dyn Duels>>, Option<Box<dyn Fuse>>);

/// The judges' desk of a plan, its duels and its synthesizer.
pub(super) fn judging(
    plan: &Plan,
    of: &Desks<'_>,
    (events, cancel): (EventSink, CancellationToken),
) -> Result<Judging, PipelineError> {
    if plan.judging.judges.is_empty() {
        return Ok((None, None, None));
    }
    let Desks { layers, models, fencer, store, .. } = of;
    let connected =
        plan.judging.models.iter().map(|model| Ok((model.clone(), models.provider(model)?)));
    let connected = connected.collect::<Result<_, PipelineError>>()?;
    let desk = JudgeDesk::new(plan, layers, (*fencer).clone(), connected, events, cancel)?;
    let duels = match &plan.judging.duels {
        Some(duels) => Some(Box::new(DuelDesk {
            desk: desk.clone(),
            plan: duels.clone(),
            gates: plan.gates.clone(),
            model: JudgeModel {
                name: duels.model.clone(),
                provider: models.provider(&duels.model)?,
            },
            store: (*store).clone(),
            dir: of.dir.clone(),
            memory: of.memory.clone(),
            prove: of.prove.cloned(),
        }) as _),
        None => None,
    };
    let fuse = match &plan.judging.synth {
        Some(model) => {
            let provider = models.provider(model)?;
            Some(Box::new(SynthFuse::new(&desk, provider, model.clone(), (*store).clone())) as _)
        }
        None => None,
    };
    Ok((Some(Box::new(desk)), duels, fuse))
}
