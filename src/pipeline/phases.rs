//! The trait of each phase: what the pipeline asks for, whoever answers.
//!
//! The real phases are made in `assemble`; a test takes one out and puts its own in.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use super::PipelineError;
use crate::fanout::LaneRun;
use crate::judge::{Doubted, DuelText};
use crate::model::chat::Message;
use crate::model::{
    Admission, Ballot, CandidateId, Claim, Control, Decision, Design, Duel, Family, FileChange,
    Flag, GateReport, JudgeId, ModelRef, Refuted, Stop, TreeId, Unanswered, Usage,
};
use crate::prompt::CapsuleTask;

/// What an attempt left.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The diff of its workspace against the base; empty when it changed nothing.
    pub diff: Vec<u8>,
    /// Why its workspace gave no diff: what it changed is beyond all bounds.
    pub beyond: Option<String>,
    /// Its closing words.
    pub answer: String,
    /// Its claims.
    pub claims: Vec<Claim>,
    /// How it ended.
    pub stop: Stop,
    /// Why a limit ended it, and what allows more.
    pub why: Option<String>,
    /// Whether its diff is what it had handed in before it was cut off while it mended that: whole work,
    /// however the worker ended.
    pub stands: bool,
    /// Turns of its conversation.
    pub turns: u32,
    /// What it used.
    pub usage: Usage,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// Its conversation.
    pub transcript: Vec<Message>,
    /// The fallback that took the lane over; `None` when the lane's own model answered.
    pub fallback: Option<ModelRef>,
    /// The models before it whose servers could not answer.
    pub unanswered: Vec<Unanswered>,
    /// Jobs that were still running at its end and were ended, proven.
    pub jobs_ended: u32,
    /// What of its jobs may be alive.
    pub survivors: Vec<String>,
    /// How often it was sent back by a gate.
    pub healed: u32,
    /// Whether it was the run's own time limit that ended it: a run that goes on tries it again.
    pub with_the_run: bool,
}

impl Attempt {
    /// How what it left is to be taken: work that was handed in is whole, whatever became of its worker
    /// afterwards.
    pub(super) fn work_stop(&self) -> Stop {
        if self.stands { Stop::Submitted } else { self.stop.clone() }
    }

    /// An attempt that left nothing.
    pub fn nothing(stop: Stop) -> Self {
        Self {
            diff: Vec::new(),
            beyond: None,
            answer: String::new(),
            claims: Vec::new(),
            stop,
            why: None,
            stands: false,
            turns: 0,
            usage: Usage::default(),
            millis: 0,
            transcript: Vec::new(),
            fallback: None,
            unanswered: Vec::new(),
            jobs_ended: 0,
            survivors: Vec::new(),
            healed: 0,
            with_the_run: false,
        }
    }
}

/// Runs one attempt of a lane in a workspace of its own.
pub trait Work: Send + Sync {
    /// Runs it to its end. Failures are values of `Attempt::stop`; `cancel` ends it within seconds.
    fn attempt(&self, run: LaneRun, cancel: CancellationToken) -> BoxFuture<'static, Attempt>;
}

/// Admits diffs.
pub trait Admit: Send + Sync {
    /// Parses a diff and applies it in memory.
    ///
    /// # Errors
    /// Only when the engine's own store fails.
    fn admit(&self, diff: &[u8]) -> Result<Admission, PipelineError>;

    /// The diff between the base and an admitted tree, in the engine's own printing.
    ///
    /// # Errors
    /// When the engine's own store fails.
    fn canonical(&self, tree: &TreeId) -> Result<Vec<u8>, PipelineError>;
}

/// Runs the gates.
pub trait Prove: Send + Sync {
    /// The gates on the base; called once, first. Like those of a candidate they end within seconds,
    /// with nothing left running, once the run is cancelled.
    fn base(&self) -> BoxFuture<'_, Result<Vec<GateReport>, PipelineError>>;

    /// The gates on one admitted tree.
    fn candidate<'a>(
        &'a self,
        id: &'a CandidateId,
        tree: &'a TreeId,
    ) -> BoxFuture<'a, Result<Vec<GateReport>, PipelineError>>;

    /// What the gates said of a tree already, in this run: asked of a run that was cut off.
    fn known(&self, _: &TreeId) -> Vec<GateReport> {
        Vec::new()
    }

    /// Waits until no gate runs any more: nobody may wait for one that a cancelled run began.
    fn settled(&self) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }
}

/// A survivor as the consensus, the judges and the synthesizer see it.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// The candidate that stands for its tree.
    pub id: CandidateId,
    /// The tree.
    pub tree: TreeId,
    /// Its family.
    pub family: Family,
    /// Families of the candidates with an equal tree, itself included.
    pub supporters: Vec<Family>,
    /// The diff between base and tree.
    pub diff: Vec<u8>,
    /// Its author's closing words.
    pub answer: String,
    /// Its author's claims.
    pub claims: Vec<Claim>,
    /// The paths it changes.
    pub files: Vec<FileChange>,
    /// What admission and gates flagged.
    pub flags: Vec<Flag>,
    /// Its gates.
    pub gates: Vec<GateReport>,
    /// What of its author's claims was refuted.
    pub refuted: Vec<Refuted>,
    /// What the consensus and duels say of it, in the engine's words.
    pub facts: Vec<String>,
}

/// Weighs the survivors without a model.
pub trait Weigh: Send + Sync {
    /// A score and reasons for each, and a choice.
    ///
    /// # Errors
    /// When the engine's own store fails.
    fn weigh(&self, survivors: &[Survivor]) -> Result<Weighed, PipelineError>;
}

/// What the consensus says.
#[derive(Clone, Debug)]
pub struct Weighed {
    /// A score for each survivor, in the order given.
    pub scores: Vec<Option<f64>>,
    /// What agreement says of each, in the engine's words, for judges; in the order given.
    pub facts: Vec<Vec<String>>,
    /// The choice that agreement alone would make, with its evidence.
    pub choice: Decision,
    /// Why a pick by trust is to be looked at twice, if it is.
    pub trust_doubt: Option<String>,
}

/// Asks the judges.
pub trait Judge: Send + Sync {
    /// Ballots on every pair of the finalists, in both orders, by every judge. `duels` are tests that the
    /// judges are to see; the facts on them are the finalists'.
    fn panel<'a>(
        &'a self,
        finalists: &'a [Survivor],
        duels: &'a [DuelText],
    ) -> BoxFuture<'a, Result<Heard, PipelineError>>;

    /// What the ballots say of the finalists, without judges that `controls` void.
    fn tally(&self, finalists: &[Survivor], ballots: &[Ballot], controls: &[Control]) -> Decision;

    /// Whether length sways those whose word made `winner` win; who is among `known` is not asked again.
    fn control<'a>(
        &'a self,
        _finalists: &'a [Survivor],
        _ballots: &'a [Ballot],
        _winner: &'a CandidateId,
        _known: &'a [Control],
    ) -> BoxFuture<'a, Result<Vec<Control>, PipelineError>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    /// What a duel may tell apart, where the ballots leave something open.
    fn close(&self, _: &[Survivor], _: &[Ballot], _: &[Control]) -> Option<Close> {
        None
    }

    /// Holds the claims of each finalist's author against what is known; in the order given.
    fn doubt<'a>(
        &'a self,
        finalists: &'a [Survivor],
    ) -> BoxFuture<'a, Result<Vec<Doubted>, PipelineError>> {
        let none = finalists.iter().map(|_| Doubted::default()).collect();
        std::future::ready(Ok(none)).boxed()
    }

    /// Judges that each have to prefer the synthesizer's candidate in both orders, or it replaces nobody.
    fn to_convince(&self) -> Vec<JudgeId> {
        Vec::new()
    }
}

/// Why a duel may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Close {
    /// These two are the nearest.
    Two([CandidateId; 2]),
    /// No voice counts, so that nothing says which.
    Unheard,
}

/// A duel to be fought.
#[derive(Clone, Debug)]
pub struct Pairing<'a> {
    /// Its number in the run, from 1.
    pub number: u32,
    /// The two, the lower id first.
    pub pair: [CandidateId; 2],
    /// All finalists: the test runs on each.
    pub finalists: &'a [Survivor],
    /// The duels before it.
    pub before: &'a [Duel],
}

/// Has tests tell finalists apart.
pub trait Duels: Send + Sync {
    /// A test, written and run. One that does not count is a value, not an error.
    fn fight<'a>(&'a self, of: Pairing<'a>) -> BoxFuture<'a, Result<Duel, PipelineError>>;
}

/// Plans for all workers.
pub trait Designs: Send + Sync {
    /// The plan. A model that gives none is a value, not an error.
    fn plan(&self) -> BoxFuture<'_, Result<Design, PipelineError>>;
}

/// What a panel gave.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// Every ballot, abstentions included.
    pub ballots: Vec<Ballot>,
    /// Why no judge could be heard at all, when their models could not be reached or paid.
    pub unreachable: Option<String>,
}

/// Asks the synthesizer.
pub trait Fuse: Send + Sync {
    /// One more diff, or none when it declines or fails (then with the reason).
    fn propose<'a>(
        &'a self,
        finalists: &'a [Survivor],
        ballots: &'a [Ballot],
        mend: Option<Failed>,
    ) -> BoxFuture<'a, Result<Proposal, PipelineError>>;
}

/// A proposal of the synthesizer's own that failed a gate, to be mended.
#[derive(Clone, Debug)]
pub struct Failed {
    /// What it proposed.
    pub diff: Vec<u8>,
    /// The gate that it failed.
    pub report: GateReport,
    /// Which mending this is, from 0.
    pub round: u32,
}

/// What the synthesizer gave.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The diff, if it proposed one.
    pub diff: Option<Vec<u8>>,
    /// Its words, or why there is no diff.
    pub answer: String,
    /// What it used.
    pub usage: Usage,
}

impl Proposal {
    /// No proposal, and why.
    pub fn nothing(why: String) -> Self {
        Self { diff: None, answer: why, usage: Usage::default() }
    }
}

/// What a side call gave.
#[derive(Clone, Debug)]
pub struct Aside {
    /// Its words, or why there are none. Foreign text.
    pub said: Result<String, String>,
    /// What it used.
    pub usage: Usage,
}

/// Makes the side calls.
pub trait Side: Send + Sync {
    /// A title for a run with this task.
    fn title<'a>(&'a self, task: &'a str) -> BoxFuture<'a, Result<Aside, PipelineError>>;

    /// The capsule of a run.
    fn capsule(&self, of: CapsuleTask) -> BoxFuture<'_, Result<Aside, PipelineError>>;
}

/// All phases of a run. A phase that the plan leaves out is absent.
pub struct Phases {
    /// Worker runs.
    pub work: Option<Box<dyn Work>>,
    /// Admission.
    pub admit: Box<dyn Admit>,
    /// Gates.
    pub prove: Box<dyn Prove>,
    /// Consensus.
    pub weigh: Box<dyn Weigh>,
    /// Judges.
    pub judge: Option<Box<dyn Judge>>,
    /// Duels.
    pub duels: Option<Box<dyn Duels>>,
    /// The design step.
    pub design: Option<Box<dyn Designs>>,
    /// Synthesizer.
    pub fuse: Option<Box<dyn Fuse>>,
    /// Side calls.
    pub side: Option<Box<dyn Side>>,
}
