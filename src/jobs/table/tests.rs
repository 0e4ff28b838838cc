//! A table over a process whose end is not proven at once. What a real one leaves is tested with the sandbox.

use super::super::board::{Board, Source};
use super::super::entry::JobState;
use super::super::testing::{Pretend, order};
use super::*;
use crate::model::{Card, CardState};

/// A table of a kind, of which nothing that ended is kept, and the cards that it shows.
fn table(kind: CardKind) -> (JobTable, Arc<Mutex<Vec<Card>>>) {
    let limits =
        JobLimits { retention: Duration::ZERO, ended: 0, running: 1, ..JobLimits::default() };
    let shown = Arc::<Mutex<Vec<Card>>>::default();
    let cards = shown.clone();
    let sink = CardSink::new(move |card| lock(&cards).push(card));
    (JobTable::new(kind, LaneId::of("one", 1), limits, sink, Learnt::default()), shown)
}

/// Everything that says that a job may be alive.
fn stays(table: &JobTable, id: &JobId) {
    let [view] = &table.list()[..] else { panic!("it is not listed") };
    assert_eq!(view.state, JobState::Survived(vec!["sleep (process 7)".to_owned()]));
    assert_eq!(view.state.words(), "killed, but may be alive: sleep (process 7)");
    let alive = vec!["sleep (process 7)".to_owned()];
    assert_eq!(view.card().state, CardState::Stopping { alive });
    assert!(view.state.is_live() && table.has_live(0));
    assert!(table.find(id).unwrap().ended_at().is_none(), "no retention runs");
    assert!(table.take_notices(0).is_empty(), "nobody is told of an end");
    let more = table.start(&Pretend::outliving(1), order()).unwrap_err();
    assert!(more.starts_with("1 jobs run already"), "it has its place: {more}");
}

// contract C3 together: the whole tree is ended with real programs
#[tokio::test]
async fn what_is_not_proven_is_named_and_the_job_stays_listed_until_it_is() {
    let (table, shown) = table(CardKind::Job);
    let id = table.start(&Pretend::outliving(1), order()).unwrap();
    let report = table.kill(&id).await.unwrap();
    assert_eq!(report, KillReport::Survivors(vec!["sleep (process 7)".to_owned()]));
    stays(&table, &id);
    let report = table.kill(&id).await.unwrap();
    assert!(matches!(report, KillReport::Proven(JobState::Ended(_))), "{report:?}");
    assert!(table.take_notices(0).is_empty(), "who killed it knows");
    assert!(table.list().is_empty(), "it is kept no longer");
    let states: Vec<String> = lock(&shown).iter().map(|card| card.state.words()).collect();
    assert_eq!(states, ["running", "killed"], "a worker's job is an event when it begins and ends");
}

// contract C3 together: by the operator's hand
#[tokio::test]
async fn the_operator_is_told_what_survived_and_its_worker_of_the_proven_end() {
    let (table, _) = table(CardKind::Job);
    let id = table.start(&Pretend::outliving(1), order()).unwrap();
    let board = Board::default();
    board.add(Arc::new(table.clone()));
    let handle = board.find(id.as_str()).unwrap();
    let report = handle.stop().await;
    assert_eq!(report.survivors, ["sleep (process 7)"]);
    stays(&table, &id);
    assert!(handle.is_live() && board.find(id.as_str()).is_some());
    assert!(handle.stop().await.survivors.is_empty());
    let [Notice::Ended { id: told, .. }] = &table.take_notices(0)[..] else { panic!("no notice") };
    assert_eq!(*told, id);
    assert!(Arc::new(table).handles().is_empty());
}

#[tokio::test]
async fn a_command_of_the_operator_s_is_shown_as_it_stands_and_gives_no_notice() {
    let (table, shown) = table(CardKind::Shell);
    let id = table.start(&Pretend::outliving(1), order()).unwrap();
    table.kill(&id).await.unwrap();
    table.kill(&id).await.unwrap();
    let mut states: Vec<String> = lock(&shown).iter().map(|card| card.state.words()).collect();
    states.dedup();
    let alive = "stopping, may be alive: sleep (process 7)";
    assert_eq!(states, ["running", "stopping", alive, "killed"]);
    assert!(table.take_notices(0).is_empty());
}

#[tokio::test]
async fn the_limit_that_may_have_ended_a_worker_s_job_is_told_with_its_number() {
    let (table, _) = table(CardKind::Job);
    let entry = table.start_open(&Pretend::outliving(0), order(), Opening::default()).unwrap();
    let words = |status: JobStatus| {
        let (elapsed, why) = (Duration::ZERO, entry.limit_of(&status));
        JobState::Ended(JobEnd { status: Ok(status), elapsed, why }).words()
    };
    let memory =
        "ended by signal 9, perhaps for want of memory, of which each process has 8192 MiB";
    assert_eq!(words(JobStatus::Signalled(9)), memory);
    let disk = "ended: it held 33000 MiB on disk, and 32768 MiB are the most";
    assert_eq!(words(JobStatus::DiskLimit { held: 33000 << 20, left: None }), disk);
    assert_eq!(words(JobStatus::Signalled(15)), "ended by signal 15");
}
