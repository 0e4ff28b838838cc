//! Whether the processes of a lane are there while it works and gone when it has ended: looked for in `/proc`, at
//! the moment of the event. What the engine says that it ended counts for nothing here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::processes::descendants;
use crate::model::RunEvent;

/// What is watched, and what was seen of it.
#[derive(Debug)]
pub struct Reaped {
    /// By lane: the command lines.
    commands: BTreeMap<String, Vec<String>>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    running: Vec<String>,
    ended: Vec<String>,
    faults: Vec<String>,
}

impl Reaped {
    /// Watches these command lines, by lane.
    pub fn new(commands: &BTreeMap<String, Vec<String>>) -> Self {
        Self { commands: commands.clone(), seen: Mutex::default() }
    }

    /// Looks, when something happens in the run.
    pub fn look(&self, event: &RunEvent) {
        match event {
            RunEvent::LaneActivity { lane, .. } => self.working(lane.as_str()),
            RunEvent::LaneEnded { lane, .. } => self.ended(lane.as_str()),
            _ => {}
        }
    }

    fn working(&self, lane: &str) {
        let Some(commands) = self.commands.get(lane) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if commands.iter().all(|command| seen.running.contains(command)) {
            return;
        }
        let alive = running(commands);
        seen.running.extend(alive);
    }

    fn ended(&self, lane: &str) {
        let Some(commands) = self.commands.get(lane) else { return };
        let alive = running(commands);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.ended.push(lane.to_owned());
        let told = |command| format!("{command:?} outlived lane {lane}");
        seen.faults.extend(alive.into_iter().map(told));
    }

    /// What was not as it must be.
    pub fn faults(&self) -> Vec<String> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut faults = seen.faults.clone();
        for (lane, commands) in &self.commands {
            if !seen.ended.contains(lane) {
                faults.push(format!("lane {lane} never ended"));
            }
            let missing = commands.iter().filter(|command| !seen.running.contains(command));
            faults.extend(missing.map(|command| {
                format!("{command:?} was never seen to run: nothing was proved of it")
            }));
        }
        faults
    }
}

/// Those of the command lines that a process of this engine has now.
fn running(commands: &[String]) -> Vec<String> {
    let alive: Vec<String> =
        descendants(std::process::id()).iter().map(|process| process.command()).collect();
    commands.iter().filter(|command| alive.contains(command)).cloned().collect()
}
