//! What is counted: rates, intervals by tasks drawn anew, and precision by coverage.
//!
//! The interval is a paired bootstrap: tasks are drawn with replacement, both ways of choosing are looked
//! at on the same draw, and the middle 95 % of the differences is the interval (Efron and Tibshirani, *An
//! Introduction to the Bootstrap*, 1993, percentile method). Never here: choosing.

use std::collections::BTreeMap;

use super::Question;
use super::pool::Pool;
use super::selector::{Pick, Selector, TaskResult};

/// Shares of the tasks, the surest choices first, of which precision is told, in per cent.
pub const SHARES: [u32; 4] = [25, 50, 75, 100];

/// Precision among the surest choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// The share of all tasks, in per cent.
    pub percent: u32,
    /// How many choices that is; less than the share where there are not so many.
    pub choices: f64,
    /// Of these, the share that is right; `None` without a choice.
    pub precision: Option<f64>,
}

/// How far one way is ahead of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// The difference of the rates.
    pub by: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// One way of choosing over all tasks.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which.
    pub selector: Selector,
    /// Tasks resolved; a draw counts with its chance.
    pub resolved: f64,
    /// The share of all tasks.
    pub rate: f64,
    /// How far the first selector is ahead of it; `None` for the first itself.
    pub behind: Option<Compared>,
    /// Precision by coverage.
    pub coverage: Vec<Coverage>,
}

/// Everything that came out.
#[derive(Clone, Debug)]
pub struct Report {
    /// Every task.
    pub tasks: Vec<TaskResult>,
    /// Every selector that was asked for, in that order.
    pub measured: Vec<Measured>,
    /// The system that is right most often, known only in hindsight, in how many tasks, and how far the
    /// first selector is ahead of it.
    pub best_system: Option<(String, usize, Compared)>,
    /// Tasks with a right diff, and with one that applies.
    pub oracle: [usize; 2],
    /// Diffs, those that apply, and those that pass the gate.
    pub counts: [usize; 3],
    /// What was odd.
    pub notes: Vec<String>,
}

/// Counts.
pub fn measure(pool: &Pool, question: &Question, tasks: Vec<TaskResult>) -> Report {
    let rights = |selector: Selector| -> Vec<f64> {
        tasks.iter().map(|task| task.picks.get(&selector).map_or(0.0, |pick| pick.right)).collect()
    };
    let first = question.selectors.first().copied().map(&rights).unwrap_or_default();
    let one = |(at, selector): (usize, &Selector)| {
        let values = rights(*selector);
        let resolved: f64 = values.iter().sum();
        Measured {
            selector: *selector,
            resolved,
            rate: resolved / tasks.len().max(1) as f64,
            behind: (at > 0).then(|| compared(&first, &values, question)),
            coverage: coverage(
                tasks.iter().filter_map(|task| task.picks.get(selector)),
                tasks.len(),
            ),
        }
    };
    let measured = question.selectors.iter().enumerate().map(one).collect();
    let total = |of: usize| tasks.iter().map(|task| task.counts[of]).sum();
    let oracle = |of: usize| tasks.iter().filter(|task| task.any_right[of]).count();
    Report {
        measured,
        best_system: best_system(&tasks, &first, question),
        oracle: [oracle(0), oracle(1)],
        counts: [total(0), total(1), total(2)],
        notes: pool.notes.clone(),
        tasks,
    }
}

fn best_system(
    tasks: &[TaskResult],
    first: &[f64],
    question: &Question,
) -> Option<(String, usize, Compared)> {
    let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
    for system in tasks.iter().flat_map(|task| &task.right_systems) {
        *wins.entry(system).or_default() += 1;
    }
    // Of equal ones the first by name.
    let (name, count) = wins.into_iter().rev().max_by_key(|(_, count)| *count)?;
    let right =
        |task: &TaskResult| f64::from(u8::from(task.right_systems.iter().any(|s| s == name)));
    let values: Vec<f64> = tasks.iter().map(right).collect();
    Some((name.to_owned(), count, compared(first, &values, question)))
}

fn compared(first: &[f64], other: &[f64], question: &Question) -> Compared {
    let differences: Vec<f64> = first.iter().zip(other).map(|(a, b)| a - b).collect();
    let count = differences.len().max(1);
    let mut draw = fastrand::Rng::with_seed(question.seed);
    let mut mean = || {
        let drawn = (0..differences.len()).map(|_| differences[draw.usize(..differences.len())]);
        drawn.sum::<f64>() / count as f64
    };
    let mut means: Vec<f64> = (0..question.draws.max(1)).map(|_| mean()).collect();
    means.sort_by(f64::total_cmp);
    let end = |share: f64| means[((means.len() as f64 * share) as usize).min(means.len() - 1)];
    let by = differences.iter().sum::<f64>() / count as f64;
    Compared { by, low: end(0.025), high: end(0.975) }
}

/// Choices of equal surety are taken in part, so that no order of tasks shows.
fn coverage<'a>(picks: impl Iterator<Item = &'a Pick>, tasks: usize) -> Vec<Coverage> {
    let mut sorted: Vec<(f64, f64)> = picks.map(|pick| (pick.surety, pick.right)).collect();
    sorted.sort_by(|a, b| b.0.total_cmp(&a.0));
    let of = |percent: u32| {
        let wanted = tasks as f64 * f64::from(percent) / 100.0;
        let (mut taken, mut right) = (0.0, 0.0);
        for block in sorted.chunk_by(|a, b| a.0 == b.0) {
            let part = (wanted - taken).min(block.len() as f64);
            let mean = block.iter().map(|(_, right)| right).sum::<f64>() / block.len() as f64;
            taken += part;
            right += part * mean;
        }
        let precision = (taken > 0.0).then(|| right / taken);
        Coverage { percent, choices: taken, precision }
    };
    SHARES.into_iter().map(of).collect()
}
