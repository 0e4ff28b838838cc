use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use tokio::sync::Barrier;

use super::*;
use crate::model::{Family, Lane, LaneId, ModelRef};

fn lanes(count: usize) -> Vec<LaneRun> {
    let lane = Lane {
        name: "fast".to_owned(),
        model: ModelRef { provider: "p".to_owned(), model: "m".to_owned() },
        attempts: 1,
        family: Family::new("f"),
        temperature: None,
        fallback: Vec::new(),
        limits: None,
    };
    let run = |index| LaneRun {
        index,
        id: LaneId::of("fast", index as u32 + 1),
        attempt: 1,
        lane: lane.clone(),
        seed: 0,
        design: None,
    };
    (0..count).map(run).collect()
}

fn options(max_parallel: usize) -> FanoutOptions {
    FanoutOptions {
        max_parallel,
        brake: Brake::new(&CancellationToken::new()),
        grace: Duration::from_millis(20),
    }
}

// contract C33-fan-out-1
#[tokio::test(start_paused = true)]
async fn results_keep_the_plans_order_whatever_arrives_first() {
    let last_first = CancellationToken::new();
    let start = |lane: LaneRun, _| {
        let gone = last_first.clone();
        async move {
            if lane.index == 2 {
                gone.cancel()
            } else {
                gone.cancelled().await
            }
            lane.index
        }
        .boxed()
    };
    let ends = run(lanes(3), &options(3), start, |_, _| {}).await;
    let got: Vec<usize> = ends.into_iter().map(|end| end.result.unwrap()).collect();
    assert_eq!(got, [0, 1, 2]);
}

// contract C33-fan-out-1
#[tokio::test(start_paused = true)]
async fn never_more_than_the_bound_run_at_once_and_the_bound_is_used() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let meet = Arc::new(Barrier::new(2));
    let start = |lane: LaneRun, _| {
        let (now, most, meet) = (now.clone(), most.clone(), meet.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            meet.wait().await; // Would hang for ever if two could not run at once.
            now.fetch_sub(1, Ordering::SeqCst);
            lane.index
        }
        .boxed()
    };
    let ends = run(lanes(6), &options(2), start, |_, _| {}).await;
    assert!(ends.iter().all(|end| end.result.is_ok()));
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

// contract C33-fan-out-2
#[tokio::test(start_paused = true)]
async fn a_panic_is_that_lanes_failure_alone() {
    let start = |lane: LaneRun, _| {
        assert_ne!(lane.index, 2, "before the work began");
        async move {
            assert_ne!(lane.index, 0, "within the work");
            lane.index
        }
        .boxed()
    };
    let ends = run(lanes(4), &options(2), start, |_, _| {}).await;
    let is_internal = |end: &LaneEnd<usize>| matches!(&end.result, Err(Stop::Failed { class, .. }) if class == "internal");
    assert_eq!(ends.iter().map(is_internal).collect::<Vec<_>>(), [true, false, true, false]);
    assert_eq!(*ends[3].result.as_ref().unwrap(), 3);
}

// contract C33-fan-out-2
#[tokio::test(start_paused = true)]
async fn cancelling_ends_what_runs_and_begins_nothing_more() {
    let cancel = CancellationToken::new();
    let options = FanoutOptions { brake: Brake::new(&cancel), ..options(2) };
    let start = |lane: LaneRun, token: CancellationToken| {
        let cancel = cancel.clone();
        async move {
            match lane.index {
                0 => cancel.cancel(),
                1 => std::future::pending().await, // Never listens: dropped after the grace.
                _ => unreachable!("began after the cancellation"),
            }
            token.cancelled().await;
            "came back"
        }
        .boxed()
    };
    let ends = run(lanes(4), &options, start, |_, _| {}).await;
    assert_eq!(*ends[0].result.as_ref().unwrap(), "came back");
    assert!(ends[1..].iter().all(|end| end.result == Err(Stop::Cancelled)));
}

// contract C33-fan-out-2
#[tokio::test(start_paused = true)]
async fn a_pulled_brake_stops_early_and_keeps_what_was_there() {
    let start = |lane: LaneRun, token: CancellationToken| {
        async move {
            if lane.index == 1 {
                token.cancelled().await;
            }
            lane.index
        }
        .boxed()
    };
    let options = options(2);
    let ended = |lane: &LaneRun, _: &usize| {
        if lane.index == 0 {
            options.brake.pull();
        }
    };
    let ends = run(lanes(3), &options, start, ended).await;
    let got: Vec<_> = ends.into_iter().map(|end| end.result).collect();
    assert_eq!(got, [Ok(0), Ok(1), Err(Stop::Cancelled)]);
    assert!(options.brake.is_pulled());
}

#[tokio::test(start_paused = true)]
async fn a_held_fan_out_begins_nothing_until_it_is_released_or_over() {
    for pulled in [false, true] {
        let options = options(1);
        let start = |lane: LaneRun, _| std::future::ready(lane.index).boxed();
        let ended = |_: &LaneRun, at: &usize| options.brake.hold(*at == 0);
        let running = run(lanes(3), &options, start, ended);
        let release = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            match pulled {
                true => options.brake.pull(),
                false => options.brake.hold(false),
            }
        };
        let (ends, ()) = tokio::join!(running, release);
        let began: Vec<bool> = ends.iter().map(|end| end.result.is_ok()).collect();
        assert_eq!(began, [true, !pulled, !pulled]);
    }
}

// contract C33-fan-out-1
#[test]
fn attempts_have_ids_and_seeds_of_their_own() {
    let mut two = lanes(1)[0].lane.clone();
    two.attempts = 2;
    let mut other = two.clone();
    other.name = "slow".to_owned();
    let ids_and_seeds = |seed| -> Vec<(String, u64)> {
        let runs = attempts::expand(&[two.clone(), other.clone()], seed);
        runs.into_iter().map(|run| (run.id.to_string(), run.seed)).collect()
    };
    let first = ids_and_seeds(7);
    let ids: Vec<&str> = first.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["fast/1", "fast/2", "slow/1", "slow/2"]);
    let seeds: std::collections::BTreeSet<u64> = first.iter().map(|(_, seed)| *seed).collect();
    assert_eq!(seeds.len(), 4);
    assert!(seeds.iter().all(|seed| *seed < 1 << 31));
    assert_eq!(first, ids_and_seeds(7));
    assert_ne!(first, ids_and_seeds(8));
}
