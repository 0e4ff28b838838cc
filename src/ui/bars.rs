//! The live view: what happened scrolls up, what goes on stands below.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::cards::Cards;
use super::screen::Screen;
use super::words::{meter, whose, words};
use super::{Listen, fitted};
use crate::model::printable::line;
use crate::model::{
    CandidateId, Card, GateKind, GateReport, LaneId, RunEvent, Stage, Usage, duration,
};

/// Redraws a second, at most.
const REDRAWS: u8 = 10;

/// Bars that live as long as what they show.
pub struct Bars {
    all: MultiProgress,
    stage: ProgressBar,
    progress: Progress,
    cards: Cards,
    /// Gates.
    live: BTreeMap<String, ProgressBar>,
}

/// Where the run is.
#[derive(Default)]
struct Progress {
    stage: Option<Stage>,
    units: Option<u32>,
    done: u32,
    lanes: BTreeMap<LaneId, Usage>,
    last_gate: Option<GateKind>,
    gated: BTreeSet<CandidateId>,
}

impl Bars {
    /// Bars on standard error.
    pub fn stderr() -> Self {
        let screen = Box::new(Screen::stderr());
        Self::on(ProgressDrawTarget::term_like_with_hz(screen, REDRAWS))
    }

    /// Bars on any target.
    pub fn on(target: ProgressDrawTarget) -> Self {
        let all = MultiProgress::with_draw_target(target);
        let stage = all.add(spinner());
        let (progress, cards) = (Progress::default(), Cards::default());
        Self { all, stage, progress, cards, live: BTreeMap::new() }
    }

    /// Shows something that goes on, until [`Self::end`] is told of it.
    fn show(&mut self, key: String, message: String) {
        let all = &self.all;
        let bar = self.live.entry(key).or_insert_with(|| all.add(spinner()));
        bar.set_message(line(&message));
    }

    fn end(&mut self, key: &str) {
        if let Some(bar) = self.live.remove(key) {
            bar.finish_and_clear();
            self.all.remove(&bar);
        }
    }

    fn update(&mut self, event: &RunEvent, at: Duration) {
        self.progress.take(event);
        match event {
            RunEvent::LaneBegan { lane, model } => {
                self.cards.show(&Card::worker(lane, model), &self.all, at);
            }
            RunEvent::LaneActivity { lane, turn, activity, usage, context } => {
                let text = format!("turn {turn}{}  {activity}", meter(usage, *context));
                self.cards.doing(lane.as_str(), text, at);
            }
            RunEvent::LaneEnded { lane, .. } => self.cards.take_away(lane.as_str(), &self.all),
            RunEvent::Background { card } => self.cards.show(card, &self.all, at),
            RunEvent::GateBegan { candidate, command } => {
                let whose = whose(candidate);
                self.show(format!("gate {whose}"), format!("{whose}  {command}"));
            }
            RunEvent::Gated { candidate, .. } => self.end(&format!("gate {}", whose(candidate))),
            // What the stage before left is over, whether its end was told or not.
            RunEvent::StageBegan { .. } | RunEvent::Ended { .. } => {
                let keys: Vec<String> = self.live.keys().cloned().collect();
                keys.iter().for_each(|key| self.end(key));
                self.cards.clear(&self.all);
            }
            _ => {}
        }
    }
}

impl Listen for Bars {
    fn tell(&mut self, event: &RunEvent, at: Duration) {
        self.update(event, at);
        let began = matches!(event, RunEvent::LaneBegan { .. } | RunEvent::GateBegan { .. });
        let stage = matches!(event, RunEvent::StageBegan { .. });
        // What has a bar or is in the stage's line needs no line that stays.
        if let Some(text) = words(event).filter(|_| !began && !stage) {
            // A terminal that went away is no reason to end a run.
            let _ = self.all.println(fitted(&text));
        }
        self.stage.set_message(self.progress.message(at));
    }

    fn card(&mut self, card: &Card, at: Duration) {
        self.cards.show_beside(card, &self.all, at);
    }

    fn tick(&mut self, at: Duration) {
        self.stage.set_message(self.progress.message(at));
        self.stage.tick();
        self.cards.tick(at);
        self.live.values().for_each(ProgressBar::tick);
    }

    fn close(&mut self) {
        self.stage.finish_and_clear();
        // As above.
        let _ = self.all.clear();
    }
}

impl Progress {
    fn take(&mut self, event: &RunEvent) {
        match event {
            RunEvent::StageBegan { stage, units } => {
                (self.stage, self.units, self.done) = (Some(*stage), *units, 0);
            }
            RunEvent::LaneActivity { lane, usage, .. } => {
                self.lanes.insert(lane.clone(), *usage);
            }
            RunEvent::LaneEnded { lane, usage, .. } => {
                self.lanes.insert(lane.clone(), *usage);
                self.step(Stage::FanOut);
            }
            RunEvent::Admitted { .. } => self.step(Stage::Admit),
            RunEvent::Balloted { .. } => self.step(Stage::Judge),
            RunEvent::Gated { candidate: None, report } => {
                self.last_gate = self.last_gate.max(Some(report.gate));
            }
            RunEvent::Gated { candidate: Some(candidate), report }
                if self.ends_gates(report) && self.gated.insert(candidate.clone()) =>
            {
                self.step(Stage::Gate);
            }
            _ => {}
        }
    }

    /// Whether a report is a candidate's last: the base has shown which gate that is.
    fn ends_gates(&self, report: &GateReport) -> bool {
        !report.verdict.is_pass() || Some(report.gate) >= self.last_gate
    }

    fn step(&mut self, stage: Stage) {
        if self.stage == Some(stage) {
            self.done += 1;
        }
    }

    /// For example `workers 2 of 5  12.3 s, 45.1k tokens, $0.0300`.
    fn message(&self, at: Duration) -> String {
        let Some(stage) = self.stage else { return "starting".to_owned() };
        let done = match (self.units, self.done) {
            (Some(units), done) => format!(" {done} of {units}"),
            (None, 0) => String::new(),
            (None, done) => format!(" {done}"),
        };
        let mut usage = Usage::default();
        self.lanes.values().for_each(|lane| usage += *lane);
        format!("{stage}{done}  {}{}", duration(at.as_millis() as u64), meter(&usage, 0))
    }
}

/// A line that moves.
pub fn spinner() -> ProgressBar {
    styled("{spinner} {wide_msg}")
}

/// A line that stands still.
pub fn plain() -> ProgressBar {
    styled("{wide_msg}")
}

fn styled(template: &str) -> ProgressBar {
    let bar = ProgressBar::no_length();
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
