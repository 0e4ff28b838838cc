//! Spellings that a tokenizer or a chat template may take for structure instead of text.
//!
//! Lives here: finding control tokens (`<|im_start|>`, `[INST]`, `<function_calls>`), and lines that
//! begin like a turn (`Human:`) or a section of an instruction format. Never here: edits.

use super::fold::{Glyph, glyph, plain};

/// After `<` or `</`, exact to the closing bracket.
const TAGS: &[&str] = &[
    "s>",
    "sys>",
    "bos>",
    "eos>",
    "pad>",
    "unk>",
    "mask>",
    "sop>",
    "eop>",
    "eod>",
    "think>",
    "thinking>",
    "analysis>",
    "scratchpad>",
    "tool_call>",
    "tool_calls>",
    "tool_response>",
    "tool_result>",
    "tool_results>",
    "tools>",
    "function_calls>",
    "function_call>",
    "function_results>",
    "function_result>",
    "system-reminder>",
    "system_reminder>",
    "im_start>",
    "im_end>",
    "end_of_turn>",
    "start_of_turn>",
    "start_of_image>",
    "end_of_image>",
    "end_of_text>",
    "begin_of_text>",
    "endoftext>",
    "endofprompt>",
    "fim_prefix>",
    "fim_middle>",
    "fim_suffix>",
    "fim_pad>",
    "file_sep>",
    "repo_name>",
    "reponame>",
    "gh_stars>",
    "filename>",
    "issue_start>",
    "issue_comment>",
    "issue_closed>",
    "commit_before>",
    "commit_msg>",
    "commit_after>",
    "bos_token>",
    "eos_token>",
    "sep>",
    "cls>",
    "antml:",
];

/// After `<` or `</`, with anything behind.
const OPEN_TAGS: &[&str] = &[
    "invoke ",
    "invoke>",
    "parameter ",
    "parameter>",
    "unused",
    "extra_id_",
    "reserved_",
    "tool_call ",
];

/// After `[`, in the letters' own case.
const BRACKETS: &[&str] = &[
    "INST]",
    "/INST]",
    "SYS]",
    "/SYS]",
    "TOOL_CALLS]",
    "/TOOL_CALLS]",
    "AVAILABLE_TOOLS]",
    "/AVAILABLE_TOOLS]",
    "TOOL_RESULTS]",
    "/TOOL_RESULTS]",
    "TOOL_CONTENT]",
    "SYSTEM_PROMPT]",
    "/SYSTEM_PROMPT]",
    "IMG]",
    "IMG_END]",
    "PREFIX]",
    "MIDDLE]",
    "SUFFIX]",
    "gMASK]",
    "sMASK]",
    "MASK]",
    "CLS]",
    "SEP]",
    "PAD]",
    "UNK]",
    "BOS]",
    "EOS]",
    "THINK]",
    "/THINK]",
];

/// At a line's start.
const TURNS: &[&str] = &["human:", "assistant:", "system:", "user:", "developer:"];

/// After `#` signs at a line's start.
const SECTIONS: &[&str] = &[
    "instruction",
    "instructions",
    "response",
    "input",
    "output",
    "human",
    "assistant",
    "system",
    "user",
];

/// The longest token that is looked for, in characters.
const LONGEST: usize = 64;

/// Offsets of the first characters of every control token in `text`.
pub(super) fn find(text: &str) -> Vec<usize> {
    let mut found = Vec::new();
    let mut line_begins = true;
    let mut indent = 0;
    for (at, c) in text.char_indices() {
        let rest = &text[at..];
        match glyph(c) {
            Glyph::Line => (line_begins, indent) = (true, 0),
            Glyph::Space if indent < 3 => indent += 1,
            Glyph::Nothing => {}
            Glyph::Text(_) => {
                if is_token(rest, c, line_begins) {
                    found.push(at);
                }
                line_begins = false;
            }
            Glyph::Space | Glyph::Foreign => line_begins = false,
        }
    }
    found
}

fn is_token(rest: &str, c: char, line_begins: bool) -> bool {
    match plain(c) {
        Some('<') => is_tag(rest),
        Some('[') => is_bracketed(rest),
        Some('#') => line_begins && is_section(rest),
        _ => line_begins && !c.is_lowercase() && is_turn(rest),
    }
}

/// The plain reading of what follows the first character, up to the next bracket of the same kind
/// (so that all readings together stay linear in the text).
fn reading(rest: &str, stop: char) -> String {
    let after = rest.chars().skip(1).filter_map(|c| match glyph(c) {
        Glyph::Nothing => None,
        _ => Some(plain(c).unwrap_or('\u{fffd}')),
    });
    after.take_while(|c| *c != stop && *c != '\n').take(LONGEST).collect()
}

fn is_tag(rest: &str) -> bool {
    let read = reading(rest, '<');
    let read = read.strip_prefix('/').unwrap_or(&read);
    is_piped(read)
        || TAGS.iter().any(|tag| read.starts_with(tag))
        || OPEN_TAGS.iter().any(|tag| read.starts_with(tag))
}

/// `|name|>`, as in `<|im_start|>`.
fn is_piped(read: &str) -> bool {
    let Some((name, _)) = read.strip_prefix('|').and_then(|read| read.split_once("|>")) else {
        return false;
    };
    let is_part = |c: char| c.is_alphanumeric() || "_-.:/ \u{fffd}".contains(c);
    !name.is_empty() && name.chars().all(is_part)
}

fn is_bracketed(rest: &str) -> bool {
    let after: String = rest
        .chars()
        .skip(1)
        .filter(|c| glyph(*c) != Glyph::Nothing)
        .take_while(|c| *c != '[' && *c != '\n')
        .take(20)
        .collect();
    BRACKETS.iter().any(|token| after.starts_with(token))
        || ["inst]", "/inst]"].iter().any(|token| after.to_ascii_lowercase().starts_with(token))
}

fn is_section(rest: &str) -> bool {
    let line: String = rest.chars().take(LONGEST).take_while(|c| *c != '\n').collect();
    let read: String = line.chars().filter_map(plain).collect();
    let hashes = read.chars().take_while(|c| *c == '#').count();
    let Some(name) = read.get(hashes..).map(str::trim) else { return false };
    let name = name.split([':', '\r']).next().unwrap_or_default().trim();
    hashes >= 2 && SECTIONS.contains(&name)
}

fn is_turn(rest: &str) -> bool {
    let read: String = rest
        .chars()
        .take(LONGEST)
        .take_while(|c| *c != '\n')
        .filter(|c| !matches!(glyph(*c), Glyph::Nothing | Glyph::Space))
        .filter_map(plain)
        .take(12)
        .collect();
    TURNS.iter().any(|turn| read.starts_with(turn))
}
