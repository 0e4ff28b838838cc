//! A plan's lanes, one entry an attempt.

use std::sync::Arc;

use crate::model::{Lane, LaneId, Plan};

/// One attempt of a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneRun {
    /// Its place in the plan, from 0.
    pub index: usize,
    /// Its id.
    pub id: LaneId,
    /// The attempt within its lane, from 1: also the number of its prompt's variation.
    pub attempt: u32,
    /// The lane.
    pub lane: Lane,
    /// Its own seed, at most 31 bits, so that every server takes it.
    pub seed: u64,
    /// The plan that all attempts are given, if there is one.
    pub design: Option<Arc<str>>,
}

/// Every attempt of the plan, in plan order: the first lane's attempts, then the second's.
pub fn lane_runs(plan: &Plan) -> Vec<LaneRun> {
    expand(&plan.lanes, plan.seed)
}

pub(super) fn expand(lanes: &[Lane], seed: u64) -> Vec<LaneRun> {
    let attempts = lanes.iter().flat_map(|lane| (1..=lane.attempts).map(move |n| (lane, n)));
    let run = |(index, (lane, attempt)): (usize, (&Lane, u32))| LaneRun {
        index,
        id: LaneId::of(&lane.name, attempt),
        attempt,
        lane: lane.clone(),
        seed: mix(seed, index as u64) >> 33,
        design: None,
    };
    attempts.enumerate().map(run).collect()
}

/// SplitMix64's finaliser (Steele, Lea and Flood, 2014) over seed and index.
fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
