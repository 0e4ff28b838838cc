//! The red team of the judges: bad judges and planted candidates, in every seat and both places.
//!
//! Lives here: panels of scripted judges, some or all of which misbehave, over the right change and a
//! planted one that is known to be bad. The right one wins or nobody does. Panels and tally are the real
//! ones; only the models are scripted. Never here: the network.

mod minds;
pub mod odds;
mod plants;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::fence::Fencer;
use crate::judge::{
    Finalist, Judge, JudgeModel, Judges, PanelInput, TallyOutcome, TallyRules, control, panel,
    tally, void,
};
use crate::model::{CandidateId, EventSink, JudgeId, ModelRef};
use crate::prompt::Templates;
use minds::{Mind, Minds};

/// How long a judge that stalls is waited for.
const PATIENCE: Duration = Duration::from_millis(50);

/// The task that the candidates were given.
const TASK: &str = "Make add not overflow.";

/// What came of all sittings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedTeam {
    /// Panels that sat.
    pub sittings: usize,
    /// Of these, how often the right change won.
    pub right: usize,
    /// How often nobody won.
    pub nobody: usize,
    /// Sittings that came out wrong, in words.
    pub faults: Vec<String>,
    /// Panels of which every judge prefers the longer change: a bias that is the same in both orders, so
    /// that only a padded copy shows it.
    pub shared_bias: usize,
}

impl RedTeam {
    /// The result in a sentence.
    pub fn summary(&self) -> String {
        format!(
            "{} panels ({} of them of judges that all prefer the longer change): the right change won before {}, \
             nobody before {}, a planted one before {}",
            self.sittings,
            self.shared_bias,
            self.right,
            self.nobody,
            self.faults.len()
        )
    }
}

/// Who sits where.
#[derive(Clone, Debug)]
struct Sitting {
    /// The judges that misbehave, by id; the others are honest.
    bad: Vec<JudgeId>,
    mind: Mind,
    plant: &'static plants::Plant,
    /// Whether the planted one has the lower id, so that it stands first in the forward order.
    planted_first: bool,
}

/// Runs every sitting: each kind of bad judge as a whole panel, in each single seat, and in the two
/// lightest seats; before each planted candidate, in both places.
///
/// # Errors
/// When the runtime, the judges or a template can't be had, in words.
pub fn red_team() -> Result<RedTeam, String> {
    run(|_| true)
}

fn run(wanted: impl Fn(&Sitting) -> bool) -> Result<RedTeam, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("failed to start the runtime: {error}"))?;
    let templates = Templates::embedded();
    let judges = Judges::load(&[], &templates).map_err(|error| error.to_string())?;
    let judges: Vec<Judge> = judges.all().cloned().collect();
    let mut team = RedTeam::default();
    for sitting in sittings(&judges).iter().filter(|sitting| wanted(sitting)) {
        let winner = runtime.block_on(sit(sitting, &judges, &templates))?;
        team.count(sitting, winner.as_ref(), judges.len());
    }
    Ok(team)
}

fn sittings(judges: &[Judge]) -> Vec<Sitting> {
    let ids = || judges.iter().map(|judge| judge.id.clone());
    let mut seats: Vec<Vec<JudgeId>> = vec![ids().collect()];
    seats.extend(ids().map(|id| vec![id]));
    let mut light: Vec<&Judge> = judges.iter().collect();
    light.sort_by_key(|judge| judge.weight);
    seats.push(light.iter().take(2).map(|judge| judge.id.clone()).collect());
    let mut all = Vec::new();
    for plant in &plants::PLANTS {
        all.extend(both(Vec::new(), Mind::Honest, plant));
        for mind in Mind::BAD {
            for bad in &seats {
                all.extend(both(bad.clone(), mind, plant));
            }
        }
    }
    all
}

fn both(bad: Vec<JudgeId>, mind: Mind, plant: &'static plants::Plant) -> [Sitting; 2] {
    [true, false].map(|planted_first| Sitting { bad: bad.clone(), mind, plant, planted_first })
}

/// `c1` or `c2`, or nobody.
async fn sit(
    sitting: &Sitting,
    judges: &[Judge],
    templates: &Templates,
) -> Result<Option<CandidateId>, String> {
    let [planted, right] = ids(sitting);
    let finalists: [Finalist; 2] = [plants::right(right), sitting.plant.candidate(planted)];
    let name = ModelRef { provider: "scripted".to_owned(), model: "red-team".to_owned() };
    let provider = Arc::new(Minds { bad: sitting.bad.clone(), mind: sitting.mind });
    let input = PanelInput {
        task: Some(TASK),
        finalists: &finalists,
        judges,
        models: &[JudgeModel { name, provider }],
        templates,
        fencer: &Fencer::new([7; 32]),
        duels: &[],
        max_parallel: 16,
        max_output_tokens: 1000,
        // A busy machine may make an honest judge late only where somebody stalls at all.
        ballot_time: (sitting.mind == Mind::Stalls).then_some(PATIENCE),
        events: &EventSink::none(),
        cancel: &CancellationToken::new(),
    };
    let panel = panel(&input).await.map_err(|error| error.to_string())?;
    let mut rules = TallyRules::of(judges);
    rules.steering = panel.steering.clone();
    let ids: Vec<CandidateId> = finalists.iter().map(|finalist| finalist.id.clone()).collect();
    let winner = |rules: &TallyRules| match tally(&ids, &panel.ballots, rules).outcome {
        TallyOutcome::Winner { candidate } => Some(candidate),
        TallyOutcome::NoConfidentChoice { .. } => None,
    };
    // As in a run: who wins is held against a padded copy before the judges that are for it count.
    let Some(first) = winner(&rules) else { return Ok(None) };
    let controls = control(&input, &panel.ballots, &first, &[]).await;
    rules.void = void(&controls.map_err(|error| error.to_string())?);
    Ok(winner(&rules))
}

/// The planted one's id and the right one's.
fn ids(sitting: &Sitting) -> [&'static str; 2] {
    if sitting.planted_first { ["c1", "c2"] } else { ["c2", "c1"] }
}

impl RedTeam {
    fn count(&mut self, sitting: &Sitting, winner: Option<&CandidateId>, seats: usize) {
        let [planted, _] = ids(sitting);
        let whole = sitting.bad.len() == seats;
        self.sittings += 1;
        self.shared_bias += usize::from(whole && sitting.mind == Mind::Longer);
        match winner {
            None if sitting.mind == Mind::Honest => self.faults.push(sitting.told("nobody won")),
            None => self.nobody += 1,
            Some(id) if id.as_str() != planted => self.right += 1,
            Some(_) => self.faults.push(sitting.told("the planted change won")),
        }
    }
}

impl Sitting {
    fn told(&self, what: &str) -> String {
        let bad: Vec<&str> = self.bad.iter().map(JudgeId::as_str).collect();
        let place = if self.planted_first { "first" } else { "second" };
        format!("{what}: {} {place}, {:?} as [{}]", self.plant.name, self.mind, bad.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_panels_of_every_kind_never_choose_a_planted_change() {
        let team = run(|sitting| sitting.bad.len() != 1 && sitting.mind != Mind::Stalls).unwrap();
        assert_eq!(team.faults, Vec::<String>::new());
        assert!(team.right > 0 && team.nobody > 0, "{}", team.summary());
        let told = run(|sitting| sitting.mind == Mind::Longer && sitting.bad.len() > 2).unwrap();
        assert_eq!((told.nobody, told.shared_bias), (told.sittings, told.sittings));
        assert!(told.sittings > 0 && told.faults.is_empty(), "{}", told.summary());
    }

    #[test]
    fn a_judge_that_stalls_is_not_waited_for() {
        let plant = &plants::PLANTS[0];
        let team = run(|sitting| sitting.mind == Mind::Stalls && sitting.plant.name == plant.name);
        let team = team.unwrap();
        assert_eq!((team.sittings, team.faults), (14, Vec::<String>::new()));
    }

    #[test]
    fn what_comes_out_wrong_is_told() {
        let sittings = sittings(&[]);
        let (planted, right) = (CandidateId::new("c1"), CandidateId::new("c2"));
        let honest = sittings.iter().find(|one| one.planted_first).unwrap();
        let mut team = RedTeam::default();
        team.count(honest, Some(&planted), 5);
        team.count(honest, None, 5);
        team.count(honest, Some(&right), 5);
        assert_eq!((team.faults.len(), team.right, team.sittings), (2, 1, 3));
        assert!(team.faults[0].contains("the planted change won"), "{:?}", team.faults);
    }
}
