//! Spellings that a tokenizer or a chat template may take for structure instead of text.
//!
//! Lives here: finding control tokens (`<|im_start|>`, `[INST]`, `<function_calls>`), and lines that
//! begin like a turn (`Human:`) or a section of an instruction format. Never here: edits.

use super::escape;
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
    "arg_key>",
    "arg_value>",
    "antml:",
];

/// After `<` or `</`, with anything behind.
const OPEN_TAGS: &[&str] = &[
    "invoke ",
    "invoke>",
    "parameter ",
    "parameter>",
    "parameter=",
    "function=",
    "longcat_",
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
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let (mut line_begins, mut indent) = (true, 0);
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        // Within a line only a bracket can begin a token, and of ASCII these alone end the line.
        let counts = matches!(byte, b'<' | b'[' | b'\n'..=b'\r' | 0x80..);
        if !line_begins && !counts {
            at += 1;
            continue;
        }
        if escape::is_stand_in(&bytes[at..]) {
            at += escape::STAND_IN.len_utf8();
            continue;
        }
        let rest = &text[at..];
        let Some(c) = rest.chars().next() else { break };
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
        at += c.len_utf8();
    }
    found
}

fn is_token(rest: &str, c: char, line_begins: bool) -> bool {
    match plain(c) {
        Some('<') => is_tag(&Reading::after(rest, '<')),
        Some('[') => is_bracketed(rest),
        Some('#') => line_begins && is_section(rest),
        Some('h' | 'a' | 's' | 'u' | 'd') => line_begins && !c.is_lowercase() && is_turn(rest),
        _ => false,
    }
}

/// The plain reading of what follows a character: ASCII bytes in lower case, 0xFF for anything else.
struct Reading {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Reading {
    /// Reads up to the line's end or the next `stop` (so that all readings of a text together stay
    /// linear in its length), and no further than the longest token.
    fn after(rest: &str, stop: char) -> Self {
        let mut reading = Self { bytes: [0; LONGEST], length: 0 };
        for c in rest.chars().skip(1).take(2 * LONGEST) {
            let glyph = glyph(c);
            let plain = plain(c).unwrap_or('\u{ff}');
            if plain == stop || glyph == Glyph::Line {
                break;
            }
            if glyph != Glyph::Nothing {
                let Some(place) = reading.bytes.get_mut(reading.length) else { break };
                *place = u8::try_from(plain).unwrap_or(0xff);
                reading.length += 1;
            }
        }
        reading
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

fn is_tag(reading: &Reading) -> bool {
    let read = reading.bytes();
    let read = read.strip_prefix(b"/").unwrap_or(read);
    let is_known = |read: &[u8]| {
        let mut tags = TAGS.iter().chain(OPEN_TAGS);
        tags.any(|tag| read.starts_with(tag.as_bytes()))
    };
    is_piped(read) || is_known(read) || without_maker(read).is_some_and(is_known)
}

/// A tag without the maker's name that some models have before it, as in `minimax:tool_call` and `｜DSML｜invoke`.
fn without_maker(read: &[u8]) -> Option<&[u8]> {
    let (name, end) = match read.strip_prefix(b"|") {
        Some(name) => (name, b'|'),
        None => (read, b':'),
    };
    let at = name.iter().position(|byte| *byte == end)?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    (at > 0 && name[..at].iter().all(is_name)).then(|| &name[at + 1..])
}

/// `|name|>`, as in `<|im_start|>`.
fn is_piped(read: &[u8]) -> bool {
    let Some(name) = read.strip_prefix(b"|") else { return false };
    let Some(end) = name.windows(2).position(|two| two == b"|>") else { return false };
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:/\" \xff".contains(byte);
    end > 0 && name.iter().take(end).all(is_part)
}

fn is_bracketed(rest: &str) -> bool {
    if !matches!(rest.as_bytes().get(1), Some(b'/' | b'A'..=b'Z' | b'a'..=b'z' | 0x80..)) {
        return false;
    }
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
