//! Cutting a body to a budget before it is fenced.
//!
//! Lives here: where a text is cut, on character boundaries and lines, counted in bytes after
//! neutralising. Never here: notices, which stand outside the fence.

use super::FenceOptions;
use super::escape;
use super::neutral::edits;

/// Which part of a text is kept when it is over its budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// The beginning, in one fence.
    #[default]
    Head,
    /// A third from the beginning and two thirds from the end, in a fence each.
    Ends,
}

/// What is kept.
pub(super) struct Parts<'a> {
    pub(super) head: &'a str,
    pub(super) tail: Option<&'a str>,
    pub(super) left_out: usize,
}

/// Cuts `body` as `options` say.
pub(super) fn cut<'a>(body: &'a str, raw: &[(usize, u8)], options: &FenceOptions) -> Parts<'a> {
    let whole = Parts { head: body, tail: None, left_out: 0 };
    let Some(max) = options.max_bytes else { return whole };
    let edits = edits(body, raw, &options.delimiters);
    if size(body, &edits) <= max {
        return whole;
    }
    let (first, last) = match options.keep {
        Keep::Head => (max, 0),
        Keep::Ends => (max / 3, max - max / 3),
    };
    let head = &body[..back_to_line(body, prefix(body, &edits, first))];
    if options.keep == Keep::Head {
        return Parts { head, tail: None, left_out: body.len() - head.len() };
    }
    let start = suffix(body, &edits, last).max(head.len());
    let tail = &body[on_to_line(body, start)..];
    Parts { head, tail: Some(tail), left_out: body.len() - head.len() - tail.len() }
}

/// How much a body grows by its edits and is then long.
fn size(body: &str, edits: &[usize]) -> usize {
    body.len() + edits.iter().map(|at| growth(body, *at)).sum::<usize>()
}

fn growth(body: &str, at: usize) -> usize {
    char_at(body, at).map_or(0, |c| escape::length(c) - c.len_utf8())
}

fn char_at(body: &str, at: usize) -> Option<char> {
    body.get(at..).and_then(|rest| rest.chars().next())
}

/// The end of the longest prefix that is at most `max` bytes after its edits.
fn prefix(body: &str, edits: &[usize], max: usize) -> usize {
    let mut grown = 0;
    for at in edits {
        if at + grown >= max {
            break;
        }
        let growth = growth(body, *at);
        let end = at + char_at(body, *at).map_or(0, char::len_utf8);
        if end + grown + growth > max {
            return *at;
        }
        grown += growth;
    }
    floor(body, max.saturating_sub(grown))
}

/// The start of the longest suffix that is at most `max` bytes after its edits.
fn suffix(body: &str, edits: &[usize], max: usize) -> usize {
    let mut grown = 0;
    for at in edits.iter().rev() {
        let end = at + char_at(body, *at).map_or(0, char::len_utf8);
        if body.len() - end + grown >= max {
            break;
        }
        let growth = growth(body, *at);
        if body.len() - at + grown + growth > max {
            return end;
        }
        grown += growth;
    }
    ceil(body, body.len().saturating_sub(max.saturating_sub(grown)))
}

fn floor(body: &str, at: usize) -> usize {
    (0..=at.min(body.len())).rev().find(|at| body.is_char_boundary(*at)).unwrap_or(0)
}

fn ceil(body: &str, at: usize) -> usize {
    (at..body.len()).find(|at| body.is_char_boundary(*at)).unwrap_or(body.len())
}

/// How far a cut moves so that whole lines are kept, in bytes.
const LINE: usize = 400;

fn back_to_line(body: &str, end: usize) -> usize {
    let line = body[..end].rfind('\n').map(|at| at + 1);
    line.filter(|line| end - line <= LINE && *line > end / 2).unwrap_or(end)
}

fn on_to_line(body: &str, start: usize) -> usize {
    let line = body[start..].find('\n').map(|at| start + at + 1);
    line.filter(|line| line - start <= LINE && body.len() - line > (body.len() - start) / 2)
        .unwrap_or(start)
}
