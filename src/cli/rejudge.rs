//! `bakeoff rejudge`.

use super::context::Context;
use super::engine::{Engine, masker};
use super::finish::check_output;
use super::flags::{JudgeFlags, OutputFlags};
use super::launch::check_budget_of_begun;
use super::plan::{Judged, budget, judging};
use super::resume::{Onward, ResultFlags, settings};
use super::{CliError, Exit, record};
use crate::journal::Runs;
use crate::model::RunKind;
use crate::pipeline::{Frame, Memory, Recall, begin_rejudge};

/// Keep a run's candidates and gates, and ask other judges. It makes a run of its own
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the
    /// newest that is no `gate` (whether or not it has ended)
    #[arg(default_value = "latest")]
    run: String,
    /// The most that judges and synthesizer may spend, in US dollars
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    budget: Option<f64>,
    /// The most tokens, in and out, that they may use
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    max_tokens: Option<u64>,
    #[command(flatten)]
    judges: JudgeFlags,
    #[command(flatten)]
    output: ResultFlags,
}

impl Args {
    /// Judges anew.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let output = OutputFlags::from(self.output);
        check_output(&output)?;
        let runs = Runs::new(&context.state);
        let found = record::find_pick(&runs, &self.run)?;
        if record::read(&found)?.kind == RunKind::Gate {
            return Err(CliError::usage("a gate run picks nothing, so there is nothing to judge"));
        }
        let read = found.read_journal()?;
        let frame = Frame::find(&read, &found)?;
        let has_task = frame.plan.task.is_some();
        // Providers that the run did not know are the operator's word of now.
        let (config, trusted) = settings(&frame, context)?;
        let mut frame = frame.restored(&masker(&config, context))?;
        if !has_task {
            return Err(CliError::usage(
                "the run has no task, and judges compare candidates by it: pick its diffs again with --task or --task-file",
            ));
        }
        let was = &frame.plan.judging;
        let mut judges = self.judges;
        if !was.judges.is_empty() {
            // What the run was told to do without, it is judged without.
            judges.no_synth |= was.synth.is_none();
            judges.duels = judges.duels.or(was.duels.is_none().then_some(0));
        }
        let of = Judged {
            gates: &frame.plan.gates,
            waived: frame.plan.waive_sandbox,
            lanes: &frame.plan.lanes,
        };
        let plan = judging(&config, Some(&judges), &of, has_task)?;
        if plan.judges.is_empty() && !judges.no_judge {
            return Err(CliError::usage(
                "no model can judge: name one with --judge-model PROVIDER:MODEL, or choose from evidence alone with --no-judge",
            ));
        }
        frame.plan.judging = plan;
        frame.plan.limits.budget = budget("--budget", self.budget)?;
        frame.plan.limits.max_tokens = self.max_tokens;
        if !judges.trust.is_empty() {
            frame.plan.trust = judges.trust.iter().map(crate::model::Family::new).collect();
        }
        frame.check_judges()?;
        check_budget_of_begun(&frame.plan, &config)?;
        let engine = Engine::start(&frame.plan, config, trusted, context)?;
        let dir = runs.branch(&found, engine.masker())?;
        begin_rejudge(read.entries, found.id(), &frame, &dir)?;
        let (_, memory) = Memory::of(&dir.read_journal()?, &dir, Recall::Completed)?;
        Onward { frame, memory, torn: None }.drive(engine, dir, &output, context)
    }
}
