//! `bakeoff probe`.

use std::fmt::Write as _;

use super::context::Context;
use super::output::{write_json, write_text};
use super::running::{find, talk, unexpected};
use super::{CliError, Exit};
use crate::control::{Reply, Request, Snapshot};
use crate::report;

/// Show what a running run is doing, without asking a model
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the newest
    #[arg(default_value = "latest")]
    run: String,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Prints the snapshot.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        match talk(&find(&self.run, context)?, &Request::Probe, context)? {
            Reply::Snapshot { snapshot } if self.json => write_json(&snapshot)?,
            Reply::Snapshot { snapshot } => write_text(&text(&snapshot))?,
            other => return Err(unexpected(&other)),
        }
        Ok(Exit::Done)
    }
}

fn text(snapshot: &Snapshot) -> String {
    let mut out = String::new();
    let run = snapshot.run.as_ref().map(ToString::to_string).unwrap_or_default();
    let stage = snapshot.stage.map(|stage| stage.to_string()).unwrap_or_default();
    let _ = writeln!(out, "run {run}: {}", report::line(&snapshot.title));
    let _ = writeln!(
        out,
        "stage {stage}, {} admitted, {} gate reports, {} ballots",
        snapshot.admitted, snapshot.gated, snapshot.ballots
    );
    for (id, lane) in &snapshot.lanes {
        let doing = match &lane.stop {
            Some(stop) => format!("ended: {stop}"),
            None => format!("turn {}: {}", lane.turn, report::line(&lane.activity)),
        };
        let _ = writeln!(out, "  {id:<16} {} tokens  {doing}", lane.usage.tokens());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Watch;
    use crate::model::{EventSink, LaneId, Limit, RunEvent, Stage, Stop, Usage};

    #[test]
    fn stages_and_ends_are_told_in_words() {
        let watch = Watch::default();
        let sink = watch.over(EventSink::none());
        let (lane, usage) = (LaneId::of("a", 1), Usage::default());
        let stop = Stop::Limit { limit: Limit::Cost };
        sink.send(RunEvent::StageBegan { stage: Stage::FanOut, units: None });
        sink.send(RunEvent::LaneEnded { lane, stop, left_change: true, usage });
        let text = text(&watch.now());
        assert!(text.contains("stage workers,"), "{text}");
        assert!(text.contains(" ended: PARTIAL (cost)"), "{text}");
    }
}
