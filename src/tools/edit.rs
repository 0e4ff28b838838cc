//! Replacing exact text: pure, so that its answers can be tested as values.

use std::fmt::Write as _;

use similar::{Algorithm, capture_diff_slices, diff_ratio};

/// The most line numbers or near places that an answer names.
const MAX_SHOWN: usize = 10;
/// Beyond this many lines no near place is looked for.
const MAX_SEARCHED: usize = 50_000;
/// The longest line that an answer shows, in characters.
const MAX_LINE: usize = 200;
/// The least likeness of a line that is shown as near.
const NEAR: f32 = 0.6;

/// A replacement that was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Replaced {
    /// The new text.
    pub text: String,
    /// The lines (from 1, in the old text) at which something was replaced.
    pub lines: Vec<usize>,
}

/// Replaces `old` by `new`: the only place where it stands, or all places with `all`.
///
/// # Errors
/// What was found instead, for the model.
pub(super) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Replaced, String> {
    if old.is_empty() {
        return Err(
            "old_string is empty; to make or replace a whole file use write_file".to_owned()
        );
    }
    if old == new {
        return Err(
            "old_string and new_string are the same, so there is nothing to change".to_owned()
        );
    }
    let places = places(text, old);
    match places.as_slice() {
        [] => Err(missing(text, old)),
        _ if all => {
            let lines = text.match_indices(old).map(|(at, _)| line_of(text, at)).collect();
            Ok(Replaced { text: text.replace(old, new), lines })
        }
        [at] => Ok(Replaced { text: text.replacen(old, new, 1), lines: vec![line_of(text, *at)] }),
        many => Err(ambiguous(text, many)),
    }
}

/// Where `old` starts, places that overlap included: those make it ambiguous too.
fn places(text: &str, old: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(old) {
        found.push(from + at);
        let step = text[from + at..].chars().next().map_or(1, char::len_utf8);
        from += at + step;
    }
    found
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn ambiguous(text: &str, places: &[usize]) -> String {
    let lines: Vec<String> =
        places.iter().take(MAX_SHOWN).map(|at| line_of(text, *at).to_string()).collect();
    let more = if places.len() > MAX_SHOWN { ", …" } else { "" };
    format!(
        "old_string stands at {} places (lines {}{more}); add lines around it until it is unique, or set replace_all",
        places.len(),
        lines.join(", ")
    )
}

/// What the text holds where `old` was expected.
fn missing(text: &str, old: &str) -> String {
    let mut answer = "old_string was not found".to_owned();
    if text.contains("\r\n") && !old.contains("\r\n") && old.contains('\n') {
        answer.push_str("; the file's lines end in CRLF (\\r\\n), and old_string's in LF");
        if text.contains(&old.replace('\n', "\r\n")) {
            answer.push_str(": write \\r\\n at the end of each line in old_string and new_string");
            return answer;
        }
    }
    let lines: Vec<&str> = text.lines().collect();
    if lines.len() > MAX_SEARCHED {
        answer.push_str("; read the place with read_file first");
        return answer;
    }
    match blanks_differ(&lines, old) {
        Some((from, count)) => {
            let _ = write!(
                answer,
                "; the same text with other blanks or line breaks stands at line {}:",
                from + 1
            );
            push_lines(&mut answer, &lines, from, count);
        }
        None => push_near(&mut answer, &lines, old),
    }
    answer
}

/// The run of lines that equals `old` when blanks don't count.
fn blanks_differ(lines: &[&str], old: &str) -> Option<(usize, usize)> {
    let squeeze = |line: &str| line.split_whitespace().collect::<String>();
    let wanted: Vec<String> = old.lines().map(squeeze).filter(|line| !line.is_empty()).collect();
    let (first, rest) = wanted.split_first()?;
    let held: Vec<(usize, String)> = lines
        .iter()
        .map(|line| squeeze(line))
        .enumerate()
        .filter(|(_, line)| !line.is_empty())
        .collect();
    let single = rest.is_empty();
    let at = (0..held.len()).find(|at| {
        let same_first =
            if single { held[*at].1.contains(first) } else { held[*at].1.ends_with(first) };
        same_first && held[at + 1..].len() >= rest.len() && tail_matches(&held[at + 1..], rest)
    })?;
    let from = held[at].0;
    Some((from, held[at + rest.len()].0 - from + 1))
}

/// Whether the lines begin with `rest`; of its last line a beginning is enough.
fn tail_matches(held: &[(usize, String)], rest: &[String]) -> bool {
    let Some((last, middle)) = rest.split_last() else { return true };
    middle.iter().zip(held).all(|(wanted, (_, line))| wanted == line)
        && held[middle.len()].1.starts_with(last)
}

/// The lines most like the first line of `old`.
fn push_near(answer: &mut String, lines: &[&str], old: &str) {
    let Some(wanted) = old.lines().map(str::trim).find(|line| !line.is_empty()) else {
        return answer.push_str("; it holds nothing but blanks");
    };
    let mut near: Vec<(f32, usize)> = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (likeness(wanted, line.trim()), index))
        .filter(|(ratio, _)| *ratio >= NEAR)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    near.truncate(3);
    if near.is_empty() {
        return answer
            .push_str(", and no line is like its first one; read the file again with read_file");
    }
    let count = old.lines().count().min(MAX_SHOWN);
    answer.push_str("; the nearest places are:");
    for (_, index) in near {
        push_lines(answer, lines, index, count);
    }
}

/// How alike two lines are, from 0 to 1. Lengths that differ too much are not compared.
fn likeness(wanted: &str, line: &str) -> f32 {
    let (a, b) = (wanted.len(), line.len());
    if a.min(b) * 3 < a.max(b) || a.max(b) > 2000 {
        return 0.0;
    }
    if wanted == line {
        return 1.0;
    }
    // Cheap bound first: characters in common.
    if bag_bound(wanted, line) < NEAR {
        return 0.0;
    }
    let ops = capture_diff_slices(Algorithm::Myers, wanted.as_bytes(), line.as_bytes());
    diff_ratio(&ops, a, b)
}

/// No likeness is above this: twice the bytes in common over all bytes.
fn bag_bound(a: &str, b: &str) -> f32 {
    let mut counts = [0_i32; 256];
    a.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let common = b.bytes().filter(|byte| {
        let left = &mut counts[usize::from(*byte)];
        *left -= 1;
        *left >= 0
    });
    2.0 * common.count() as f32 / (a.len() + b.len()).max(1) as f32
}

/// Shows lines with their numbers.
fn push_lines(answer: &mut String, lines: &[&str], from: usize, count: usize) {
    for (index, line) in lines.iter().enumerate().skip(from).take(count.min(MAX_SHOWN)) {
        let cut: String = line.chars().take(MAX_LINE).collect();
        // Writing to a string can't fail.
        let _ = write!(answer, "\n{:>6}\t{cut}", index + 1);
    }
    if count > MAX_SHOWN {
        answer.push_str("\n     …");
    }
}
