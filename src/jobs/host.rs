//! The operator's own jobs of one engine's run, in a table of their own (contracts S1 to S11).
//!
//! No worker's table, book or tool knows this one: a tool's context holds a worker's table, and there is no way from
//! it to here. Nothing in it gives a notice or an event; who looks at the run is shown their cards. All of them end with the run, unreported. Never here:
//! models, what a command sees of a workspace (whoever leases the workspace says that).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::board::Source;
use super::entry::{Entry, JobEnd, JobView, lock};
use super::handle::{Handle, Size};
use super::keyboard::{Answers, Asker, Keyboard, terminal_size};
use super::operate::JobHandle;
use super::order::{Alone, JobLimits, Order, Viewer};
use super::scope::{RunScope, mint_token};
use super::stamp::stamp;
use super::table::{JobTable, Opening};
use crate::journal::Learnt;
use crate::model::{CardKind, CardSink, JobId, LaneId, LeaseId, clip, printable};
use crate::sandbox::{Feed, JobSpec, Launcher, Reaped};

/// The word in front of the jobs' numbers, and the owner of the table.
const NAME: &str = "shell";
/// The longest that a command may run: it ends with the run.
const CEILING: Duration = Duration::from_secs(24 * 3600);
/// The longest command line in a list, in bytes.
const MAX_LABEL: usize = 200;

/// A command of the operator's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What `/bin/sh` gets as its script.
    pub script: String,
    /// The directory to run it in, from the workspace's top; the top when it is empty.
    pub dir: String,
    /// Its terminal, when it is to have one; else its input is a pipe.
    pub terminal: Option<Size>,
    /// Why nobody can answer when it asks for a secret, if so.
    pub alone: Alone,
    /// Whether it waits for whoever holds [`HostJob::viewer`] to see what it writes, and what they get of it.
    pub viewer: Viewer,
}

/// A workspace in which the operator's commands can run.
pub trait Ground: Send + Sync {
    /// Its lease.
    fn lease(&self) -> LeaseId;

    /// A job for a command in it.
    ///
    /// # Errors
    /// In words, when the workspace can't be made ready for one.
    fn job(&self, command: &Command) -> Result<JobSpec, String>;
}

/// The operator's jobs of one engine's run. Clones share them.
#[derive(Clone)]
pub struct HostJobs(Arc<Inner>);

struct Inner {
    table: JobTable,
    secrets: Learnt,
    answers: Answers,
    grounds: Mutex<BTreeMap<String, Arc<dyn Ground>>>,
    open: Mutex<Option<(Launcher, RunScope)>>,
}

impl std::fmt::Debug for HostJobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostJobs")
    }
}

/// A lane's workspace as the operator's commands reach it. Dropping it takes the workspace out of their reach;
/// what runs in it runs on.
#[derive(Debug)]
pub struct Entrance {
    jobs: HostJobs,
    lane: LaneId,
}

impl Drop for Entrance {
    fn drop(&mut self) {
        lock(&self.jobs.0.grounds).remove(self.lane.as_str());
    }
}

/// A started command. It stays readable for who holds this, whatever becomes of the table.
pub struct HostJob {
    handle: Arc<JobHandle>,
}

impl HostJobs {
    /// None yet; what its commands are told in the dark is added to `secrets`. How they stand is shown to `cards`, and is
    /// no event of the run (contract S3).
    pub fn new(secrets: Learnt, cards: CardSink) -> Self {
        let limits = JobLimits { ceiling: CEILING, ..JobLimits::default() };
        let lane = LaneId::new(NAME);
        let table = JobTable::new(CardKind::Shell, lane, limits, cards, secrets.clone());
        let (answers, grounds, open) = Default::default();
        Self(Arc::new(Inner { table, secrets, answers, grounds, open }))
    }

    /// Lets commands run: there is a sandbox.
    pub fn open(&self, launcher: Launcher) {
        let scope = RunScope::new(mint_token(), launcher.clone()).with_table(self.0.table.clone());
        *lock(&self.0.open) = Some((launcher, scope));
    }

    /// Brings a lane's workspace within reach.
    #[must_use]
    pub fn enter(&self, lane: &LaneId, ground: Arc<dyn Ground>) -> Entrance {
        lock(&self.0.grounds).insert(lane.to_string(), ground);
        Entrance { jobs: self.clone(), lane: lane.clone() }
    }

    /// Starts a command in a lane's workspace; without a lane there must be one workspace only. Ended commands are
    /// forgotten (contract S8).
    ///
    /// # Errors
    /// In words, when there is no such workspace, no sandbox, or too many run.
    pub fn start(&self, lane: Option<&str>, command: &Command) -> Result<HostJob, String> {
        let (lane, ground) = self.ground(lane)?;
        self.0.table.forget_ended();
        let mut spec = ground.job(command)?;
        let open = lock(&self.0.open);
        let Some((launcher, scope)) = &*open else {
            return Err("no command can run now: the run is ending, or has no sandbox".to_owned());
        };
        spec.token = scope.token().clone();
        let shown = printable::line(&command.script);
        let label = clip(&self.0.secrets.hide(&shown), MAX_LABEL).text;
        let mounts = spec.mounts.clone();
        let asker = Asker {
            name: format!("{lane} {}: {}", command.dir, command.script),
            stamp: Arc::new(move || stamp(&mounts)),
            alone: command.alone.is_nobody(),
        };
        let opening = Opening {
            feed: command.terminal.map_or(Feed::Pipe, |size| Feed::Terminal(terminal_size(size))),
            keyboard: Some(Keyboard::new(asker, &self.0.secrets, self.0.answers.clone())),
            alone: command.alone,
            viewer: command.viewer,
        };
        let order = Order { spec, lease: ground.lease(), label, by: 0, watch: None };
        let entry = self.0.table.start_open(launcher, order, opening)?;
        Ok(HostJob { handle: Arc::new(JobHandle::new(&self.0.table, entry)) })
    }

    fn ground(&self, lane: Option<&str>) -> Result<(String, Arc<dyn Ground>), String> {
        let grounds = lock(&self.0.grounds);
        let names = || grounds.keys().cloned().collect::<Vec<_>>().join(", ");
        let found = match lane {
            Some(lane) => grounds.get_key_value(lane),
            None if grounds.len() > 1 => {
                return Err(format!("there are several workspaces, say which lane: {}", names()));
            }
            None => grounds.first_key_value(),
        };
        match found {
            Some((lane, ground)) => Ok((lane.clone(), ground.clone())),
            None if grounds.is_empty() => {
                Err("no lane has a workspace now: it is there from a worker's beginning to its end"
                    .to_owned())
            }
            None if attempts(&grounds, lane).count() > 1 => Err(format!(
                "lane {} has several attempts, say which: {}",
                lane.unwrap_or_default(),
                attempts(&grounds, lane).collect::<Vec<_>>().join(", ")
            )),
            None => Err(format!(
                "lane {} has no workspace now; there are {}",
                lane.unwrap_or_default(),
                names()
            )),
        }
    }

    /// What is told at the end of a command, or when it was detached: that what is left runs until the run ends
    /// (contracts S9 and S10). Empty when nothing is left.
    pub fn told(&self, id: &JobId, detached: bool) -> String {
        let table = &self.0.table;
        // What has its viewer ends with that, and is nothing that was left.
        let left = |entry: &Arc<Entry>| entry.id == *id || !entry.has_viewer();
        let live = table.entries().into_iter().filter(left).map(|entry| table.view(&entry));
        let live = live.filter(|job| job.state.is_live());
        let (own, others): (Vec<JobView>, Vec<JobView>) = live.partition(|job| job.id == *id);
        let mut text = String::new();
        if !own.is_empty() {
            let how = if detached { "is started" } else { "goes on without you" };
            text += &format!(
                "{id} {how}, and runs until the run ends; bakeoff attach shows it, bakeoff stop ends it\n"
            );
        }
        if !others.is_empty() {
            let names: Vec<String> =
                others.iter().map(|job| format!("{} ({})", job.id, job.label)).collect();
            text +=
                &format!("left by earlier commands, until the run ends: {}\n", names.join(", "));
        }
        text
    }

    /// Ends all of them with the run, proven, and tells nobody (contract S7). Secrets that were kept are wiped; no
    /// further command starts.
    pub async fn finish(&self) -> Reaped {
        let open = lock(&self.0.open).take();
        lock(&self.0.grounds).clear();
        let reaped = match open {
            Some((_, scope)) => scope.finish().await,
            None => Reaped::default(),
        };
        // Behind their ends: one that ends well in this moment keeps its answer.
        self.0.answers.clear();
        reaped
    }
}

/// The attempts of a lane that have a workspace, by its name.
fn attempts<'g>(
    grounds: &'g BTreeMap<String, Arc<dyn Ground>>,
    lane: Option<&'g str>,
) -> impl Iterator<Item = &'g str> {
    let ids = grounds.keys().map(String::as_str);
    ids.filter(move |id| id.split_once('/').map(|(name, _)| name) == lane && lane.is_some())
}

impl HostJob {
    /// Its id.
    pub fn id(&self) -> &JobId {
        self.handle.id()
    }

    /// It, as everything live is handled.
    pub fn handle(&self) -> Arc<dyn Handle> {
        self.handle.clone()
    }

    /// It for the one viewer for whom it was started, who reads every byte of it in order. It goes on without a
    /// viewer when this is dropped.
    pub fn viewer(&self) -> Arc<dyn Handle> {
        Arc::new(self.handle.viewer())
    }

    /// How it ended, once it has.
    pub fn end(&self) -> Option<JobEnd> {
        self.handle.end_of()
    }
}

/// The operator finds them among what is live.
impl Source for HostJobs {
    fn name(&self) -> String {
        NAME.to_owned()
    }

    fn handles(self: Arc<Self>) -> Vec<Arc<dyn Handle>> {
        Arc::new(self.0.table.clone()).handles()
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::testing::{Pretend, order};

    /// How many notices the end of a job of that kind leaves.
    async fn notices(kind: CardKind) -> usize {
        let (limits, none) = (JobLimits::default(), CardSink::none());
        let table = JobTable::new(kind, LaneId::new(NAME), limits, none, Learnt::default());
        let process = Pretend::default();
        let id = table.start(&process, order()).unwrap();
        process.exit();
        table.wait(&id, u64::MAX, Duration::from_secs(60)).await;
        assert!(table.list().iter().all(|job| !job.state.is_live()), "it has ended");
        table.take_notices(0).len()
    }

    // contract S2 in part: not even the table holds a notice
    #[tokio::test]
    async fn the_end_of_the_operator_s_command_leaves_no_notice() {
        assert_eq!(notices(CardKind::Job).await, 1, "a worker's own does (contract S13)");
        assert_eq!(notices(CardKind::Shell).await, 0);
    }

    #[test]
    fn a_lane_with_several_attempts_is_told_from_one_without_a_workspace() {
        struct Nothing;
        impl Ground for Nothing {
            fn lease(&self) -> LeaseId {
                LeaseId::new("a")
            }

            fn job(&self, _: &Command) -> Result<JobSpec, String> {
                Err("nothing".to_owned())
            }
        }
        let jobs = HostJobs::new(Learnt::default(), CardSink::none());
        let entrances =
            ["w/1", "w/2", "x/1"].map(|id| jobs.enter(&LaneId::new(id), Arc::new(Nothing)));
        let refused = |lane| jobs.ground(Some(lane)).map(drop).unwrap_err();
        assert_eq!(refused("w"), "lane w has several attempts, say which: w/1, w/2");
        assert!(refused("y").starts_with("lane y has no workspace now"));
        assert!(jobs.ground(Some("w/2")).is_ok());
        drop(entrances);
    }

    // contract R21 together: cleared at its end; what the masker knows is tested by a selftest
    #[tokio::test]
    async fn at_the_end_no_answer_is_kept() {
        let jobs = HostJobs::new(Learnt::default(), CardSink::none());
        jobs.0.answers.keep_any();
        assert_eq!(jobs.0.answers.count(), 1);
        assert_eq!(jobs.finish().await, Reaped::default());
        assert_eq!(jobs.0.answers.count(), 0);
    }
}
