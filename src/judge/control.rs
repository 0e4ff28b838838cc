//! Controls: whether length sways a judge.
//!
//! A bias that all judges share is the same in both orders, and no count of votes shows it. So a judge
//! that took the longer change in every pair which it decided, and helped it to win, is shown one change
//! twice: as it is, and with inert lines that the engine added. Who prefers the padded one has no voice. Who
//! took a shorter change anywhere is cleared without being asked. Never here: the count.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::Finalist;
use super::panel::{self, PanelInput};
use super::tally::{Voter, decided};
use crate::model::{
    Ballot, CandidateId, ChangeKind, Choice, Control, ControlResult, FileChange, Order,
};
use crate::prompt::PromptError;

/// The most bytes that are added.
const MOST_PADDING: usize = 8 << 10;
/// The fewest: less may be overlooked by a judge that only sees what is large.
const LEAST_PADDING: usize = 400;
/// What each added line says.
const INERT: &str = "This line is a note and changes nothing.";

/// How much its author gives judges to read, in bytes.
fn length(finalist: &Finalist) -> usize {
    finalist.diff.len() + finalist.answer.len()
}

/// Judges whose voices helped `winner` and never went to a shorter change: each took the longer one in
/// every pair that it decided.
pub(super) fn suspects(
    finalists: &[Finalist],
    ballots: &[Ballot],
    winner: &CandidateId,
) -> BTreeSet<Voter> {
    let lengths: BTreeMap<&CandidateId, usize> =
        finalists.iter().map(|one| (&one.id, length(one))).collect();
    let ids: BTreeSet<&CandidateId> = lengths.keys().copied().collect();
    let (mut longer, mut cleared) = (BTreeSet::new(), BTreeSet::new());
    for (voter, taken, left) in decided(&ids, ballots) {
        let by = |id| lengths.get(id).copied().unwrap_or(0);
        match by(&taken).cmp(&by(&left)) {
            std::cmp::Ordering::Greater if taken == *winner => drop(longer.insert(voter)),
            std::cmp::Ordering::Less => drop(cleared.insert(voter)),
            _ => {}
        }
    }
    longer.retain(|voter| !cleared.contains(voter));
    longer
}

/// Asks each suspect about one change and its padded copy, and once more in the other order when it prefers
/// the padded one; in the voters' order. No suspect, no question, and nobody of `known` is asked again.
///
/// # Errors
/// A [`PromptError`] when a judge's template can't be rendered.
pub async fn control(
    input: &PanelInput<'_>,
    ballots: &[Ballot],
    winner: &CandidateId,
    known: &[Control],
) -> Result<Vec<Control>, PromptError> {
    let mut suspects = suspects(input.finalists, ballots, winner);
    suspects.retain(|(judge, model)| {
        known.iter().all(|control| (&control.judge, &control.model) != (judge, model))
    });
    let shortest = input.finalists.iter().min_by_key(|one| (length(one), one.id.clone()));
    let longest = input.finalists.iter().map(length).max().unwrap_or(0);
    let Some(shortest) = shortest.filter(|_| !suspects.is_empty()) else { return Ok(Vec::new()) };
    let padded = padded(shortest, longest - length(shortest));
    let pair = [&padded, shortest];
    let first = panel::compare(input, pair, Order::Reverse, &suspects).await?;
    let mut controls: Vec<Control> =
        first.into_iter().map(|ballot| told(ballot, &shortest.id)).collect();
    let doubted: BTreeSet<Voter> = controls
        .iter()
        .filter(|control| control.result == ControlResult::Padded)
        .map(|control| (control.judge.clone(), control.model.clone()))
        .collect();
    for ballot in panel::compare(input, pair, Order::Forward, &doubted).await? {
        let again = told(ballot, &shortest.id);
        let known = controls
            .iter_mut()
            .find(|known| (&known.judge, &known.model) == (&again.judge, &again.model));
        if let Some(known) = known {
            known.usage += again.usage;
            known.result = again.result;
        }
    }
    Ok(controls)
}

/// A ballot on a padded change, the pair's left, and the change itself.
fn told(ballot: Ballot, on: &CandidateId) -> Control {
    let result = match ballot.choice {
        Choice::Left => ControlResult::Padded,
        Choice::Right | Choice::Tie => ControlResult::Cleared,
        Choice::Abstain { reason } => ControlResult::Silent { reason },
    };
    Control {
        judge: ballot.judge,
        model: ballot.model,
        on: on.clone(),
        result,
        usage: ballot.usage,
    }
}

/// The voters whose voice counts for nothing after these controls.
pub fn void(controls: &[Control]) -> BTreeSet<Voter> {
    let is_void = |control: &&Control| control.result != ControlResult::Cleared;
    let voter = |control: &Control| (control.judge.clone(), control.model.clone());
    controls.iter().filter(is_void).map(voter).collect()
}

/// The same change with at least `bytes` of comment lines more, in its first hunk.
fn padded(finalist: &Finalist, bytes: usize) -> Finalist {
    let mark =
        finalist.diff.lines().find_map(|line| line.strip_prefix("+++ ")).map_or("#", comment);
    let line = format!("+{mark} {INERT}\n");
    let bytes = bytes.clamp(LEAST_PADDING, MOST_PADDING);
    let count = bytes.div_ceil(line.len());
    let mut copy = finalist.clone();
    copy.diff = with_lines(&finalist.diff, &line.repeat(count), count);
    match copy.files.first_mut() {
        Some(file) => {
            file.added = file.added.saturating_add(u32::try_from(count).unwrap_or(u32::MAX))
        }
        None => copy.files.push(FileChange {
            path: String::new(),
            change: ChangeKind::Modified,
            added: u32::try_from(count).unwrap_or(u32::MAX),
            removed: 0,
        }),
    }
    copy
}

/// What begins a comment in a file of this name.
fn comment(path: &str) -> &'static str {
    let name = path.trim().rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match ending {
        "rs" | "c" | "h" | "cc" | "cpp" | "hpp" | "cs" | "go" | "java" | "js" | "jsx" | "mjs"
        | "ts" | "tsx" | "kt" | "scala" | "swift" | "dart" | "zig" | "proto" => "//",
        "sql" | "lua" | "hs" | "elm" | "adb" => "--",
        "tex" | "erl" | "m" => "%",
        "el" | "lisp" | "clj" | "scm" => ";",
        _ => "#",
    }
}

/// The diff with lines put behind the last added line of its first hunk, or at the hunk's end, and the
/// counts of the hunks of that file set right.
fn with_lines(diff: &str, lines: &str, count: usize) -> String {
    let all: Vec<&str> = diff.split_inclusive('\n').collect();
    let Some(header) = all.iter().position(|line| line.starts_with("@@ ")) else {
        return format!("{diff}{lines}");
    };
    let body = all.iter().skip(header + 1).take_while(|line| !line.starts_with(['@', 'd'])).count();
    let hunk = &all[header + 1..header + 1 + body];
    let last = hunk.iter().rposition(|line| line.starts_with('+')).map_or(body, |at| at + 1);
    let mut out = String::with_capacity(diff.len() + lines.len());
    let mut of_this_file = true;
    for (at, line) in all.iter().enumerate() {
        of_this_file &= at <= header || !line.starts_with("diff ");
        match line.starts_with("@@ ") && of_this_file {
            true => out.push_str(&moved(line, if at == header { (0, count) } else { (count, 0) })),
            false => out.push_str(line),
        }
        if at == header + last {
            if !out.ends_with('\n') {
                out.push('\n');
            }
            out.push_str(lines);
        }
    }
    out
}

/// A hunk's header with the new side begun later and longer.
fn moved(header: &str, (start, longer): (usize, usize)) -> String {
    let moved = || {
        let (head, rest) = header.split_once(" +")?;
        let (range, tail) = rest.split_once(" @@")?;
        let (from, len) = range.split_once(',').unwrap_or((range, "1"));
        let (from, len): (usize, usize) = (from.parse().ok()?, len.parse().ok()?);
        Some(format!("{head} +{},{} @@{tail}", from + start, len + longer))
    };
    moved().unwrap_or_else(|| header.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::panel::testing::finalist;
    use crate::model::{JudgeId, JudgeOrigin, Usage};

    const SHORT: &str = "diff --git a/x.rs b/x.rs\n--- a/x.rs\n+++ b/x.rs\n@@ -1,2 +1,2 @@ fn f\n a\n-b\n+c\n@@ -9 +9 @@\n-d\n+e\ndiff --git a/y b/y\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-f\n+g\n";

    fn ballots(judge: &str, left: &str, right: &str, choice: Choice) -> [Ballot; 2] {
        [Order::Forward, Order::Reverse].map(|order| Ballot {
            judge: JudgeId::new(judge),
            model: "m".to_owned(),
            origin: JudgeOrigin { layer: String::new(), sha256: String::new() },
            left: CandidateId::new(left),
            right: CandidateId::new(right),
            order,
            choice: choice.clone(),
            vetoes: Vec::new(),
            reason: String::new(),
            evidence: Vec::new(),
            duel: None,
            usage: Usage::default(),
        })
    }

    fn field() -> Vec<Finalist> {
        ["+", "++", "+++"]
            .iter()
            .enumerate()
            .map(|(at, diff)| finalist(&format!("c{}", at + 1), diff))
            .collect()
    }

    #[test]
    fn who_took_the_longer_each_time_is_asked_and_who_took_a_shorter_once_is_not() {
        let mut all = Vec::new();
        all.extend(ballots("always", "c1", "c3", Choice::Right));
        all.extend(ballots("always", "c1", "c2", Choice::Right));
        all.extend(ballots("once", "c1", "c3", Choice::Right));
        all.extend(ballots("once", "c1", "c2", Choice::Left));
        all.extend(ballots("against", "c1", "c3", Choice::Left));
        all.extend(ballots("tied", "c1", "c3", Choice::Tie));
        let [mut one_order, _] = ballots("half", "c1", "c3", Choice::Right);
        one_order.duel = None;
        all.push(one_order);
        let of = |winner: &str| -> Vec<String> {
            let found = suspects(&field(), &all, &CandidateId::new(winner));
            found.into_iter().map(|(judge, _)| judge.to_string()).collect()
        };
        assert_eq!(of("c3"), ["always"]);
        assert_eq!(of("c1"), [""; 0], "nobody took the shortest for its length");
    }

    #[test]
    fn padding_is_inert_and_the_diff_stays_one() {
        let one = finalist("c1", SHORT);
        let copy = padded(&one, 10);
        assert!(copy.diff.len() >= SHORT.len() + LEAST_PADDING);
        let added = copy.diff.lines().filter(|line| line.contains(INERT)).count();
        assert!(
            copy.diff.contains(&format!("@@ -1,2 +1,{} @@ fn f\n", 2 + added)),
            "{}",
            copy.diff
        );
        assert!(copy.diff.contains(&format!("@@ -9 +{},1 @@\n-d", 9 + added)), "{}", copy.diff);
        assert!(copy.diff.ends_with("@@ -1 +1 @@\n-f\n+g\n"), "{}", copy.diff);
        let rest: String = copy
            .diff
            .split_inclusive('\n')
            .filter(|line| line.starts_with('+') && !line.contains(INERT))
            .collect();
        let own: String =
            SHORT.split_inclusive('\n').filter(|line| line.starts_with('+')).collect();
        assert_eq!(rest, own, "every line of its own is still there");
        assert!(copy.diff.contains("+// "), "as comments of its language");
        assert!(padded(&one, 1 << 20).diff.len() < SHORT.len() + 2 * MOST_PADDING);
        assert!(padded(&finalist("c1", "no hunk"), 5).diff.contains(INERT));
    }

    #[test]
    fn only_who_was_cleared_keeps_its_voice() {
        let control = |judge: &str, result| Control {
            judge: JudgeId::new(judge),
            model: "m".to_owned(),
            on: CandidateId::new("c1"),
            result,
            usage: Usage::default(),
        };
        let silent = ControlResult::Silent { reason: "x".to_owned() };
        let all = [
            control("a", ControlResult::Cleared),
            control("b", ControlResult::Padded),
            control("c", silent),
        ];
        let void: Vec<String> =
            void(&all).into_iter().map(|(judge, _)| judge.to_string()).collect();
        assert_eq!(void, ["b", "c"]);
    }
}
