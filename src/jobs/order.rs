//! What a job is started with, and the bounds of the table that it stands in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::watch::Watch;
use crate::model::LeaseId;
use crate::sandbox::JobSpec;

/// Bounds of one table.
#[derive(Clone, Copy, Debug)]
pub struct JobLimits {
    /// The longest that a job may run.
    pub ceiling: Duration,
    /// How long the output of an ended job stays readable, from its exit.
    pub retention: Duration,
    /// Jobs at once.
    pub running: usize,
    /// Ended jobs that are kept; the one that ended first goes first.
    pub ended: usize,
    /// Output that is kept of each, in bytes.
    pub output: usize,
}

impl Default for JobLimits {
    fn default() -> Self {
        Self {
            ceiling: Duration::from_secs(1800),
            retention: Duration::from_secs(600),
            running: 16,
            ended: 32,
            output: 256 << 10,
        }
    }
}

/// A job to start.
pub struct Order {
    /// The process.
    pub spec: JobSpec,
    /// The workspace that it works in.
    pub lease: LeaseId,
    /// Its command line, for lists.
    pub label: String,
    /// Which worker of the run starts it: 0 is the top.
    pub by: u32,
    /// A pattern to watch for.
    pub watch: Option<Watch>,
}

/// Who looks on from a job's beginning: the job waits for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Viewer {
    /// Nobody, and it waits for nobody.
    #[default]
    Nobody,
    /// Somebody who gets the text that everybody sees.
    Text,
    /// Somebody who gets its bytes.
    Bytes,
}

/// Why nobody can answer a job that asks for a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Alone {
    /// Whoever started it has no terminal.
    pub no_terminal: bool,
    /// They said that it gets no input.
    pub no_input: bool,
    /// They are a program: `CI` is set.
    pub ci: bool,
}

impl Alone {
    /// Whether that is so.
    pub fn is_nobody(self) -> bool {
        self != Self::default()
    }

    /// What lets somebody answer the next time.
    pub(super) fn advice(self) -> String {
        let ways = [
            (self.no_terminal, "from a terminal"),
            (self.no_input, "without --no-input"),
            (self.ci, "without CI in its environment"),
        ];
        let ways: Vec<&str> = ways.iter().filter(|(is, _)| *is).map(|(_, way)| *way).collect();
        format!("start it {}, or give it the secret in another way", ways.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::jobs::testing::{Pretend, order};
    use crate::jobs::{JobBook, JobLimits};
    use crate::model::LaneId;

    // contract R7
    #[tokio::test(start_paused = true)]
    async fn what_ended_is_kept_for_its_time_from_the_exit_on() {
        let second = Duration::from_secs(1);
        let limits = JobLimits::default();
        let table = JobBook::new(limits).open(&LaneId::of("one", 1));
        let process = Pretend::default();
        let id = table.start(&process, order()).unwrap();
        // However long it runs, and whenever it is read, the time begins with its exit.
        tokio::time::advance(limits.retention * 2).await;
        assert!(table.read(&id, 0).is_some());
        process.exit();
        table.wait(&id, u64::MAX, second).await;
        let is_there = || table.list().iter().any(|job| job.id == id);
        assert!(is_there() && !table.has_live(0));
        tokio::time::advance(limits.retention - second).await;
        assert!(is_there() && table.read(&id, 0).is_some());
        tokio::time::advance(second).await;
        assert!(!is_there() && table.read(&id, 0).is_none());
    }

    #[test]
    fn what_is_advised_is_what_applies() {
        let alone = super::Alone { no_terminal: true, ..Default::default() };
        assert!(alone.is_nobody() && !super::Alone::default().is_nobody());
        let or = ", or give it the secret in another way";
        assert_eq!(alone.advice(), format!("start it from a terminal{or}"));
        let alone = super::Alone { no_input: true, ci: true, ..Default::default() };
        let advice = "start it without --no-input and without CI in its environment";
        assert_eq!(alone.advice(), format!("{advice}{or}"));
    }
}
