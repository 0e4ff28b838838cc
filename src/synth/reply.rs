//! Reading the synthesizer's reply.
//!
//! Lives here: telling a refusal to propose from a proposal, and taking the one diff out of it.
//! Never here: whether the diff is any good; admission says that.

/// What a reply says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// No proposal, and why.
    Declined(String),
    /// A diff and the words around it.
    Proposed {
        /// The diff, with a final line break.
        diff: String,
        /// Everything else.
        answer: String,
    },
}

/// Why a reply can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// In the engine's words.
    pub(super) message: String,
    /// The part in question: foreign.
    pub(super) quoted: Option<String>,
}

impl Fault {
    pub(super) fn new(message: &str) -> Self {
        Self { message: message.to_owned(), quoted: None }
    }
}

/// The longest reason of a refusal that is kept, in characters.
const LONGEST_REASON: usize = 500;

pub(super) fn read(text: &str) -> Result<Said, Fault> {
    let text = text.trim();
    if let Some(why) = text.strip_prefix("DECLINE")
        && !why.starts_with(|c: char| c.is_alphanumeric())
    {
        let why = why.trim_start_matches([':', '.', '-', ' ', '\n', '\r']);
        return Ok(Said::Declined(why.chars().take(LONGEST_REASON).collect()));
    }
    let (blocks, answer) = blocks(text)?;
    let mut diffs = blocks.into_iter().filter(|block| looks_like_a_diff(block));
    match (diffs.next(), diffs.next()) {
        (Some(diff), None) => Ok(Said::Proposed { diff, answer }),
        (Some(_), Some(_)) => Err(Fault::new("it holds more than one diff.")),
        (None, _) => Err(Fault::new("it holds no block with a unified diff in it.")),
    }
}

/// Every fenced block of a Markdown text, and the text without them. Inside a block that is a diff no
/// line can begin with a fence, as every line of a diff begins with a sign.
fn blocks(text: &str) -> Result<(Vec<String>, String), Fault> {
    let (mut blocks, mut answer) = (Vec::new(), String::new());
    let mut open: Option<String> = None;
    for line in text.split_inclusive('\n') {
        let is_fence = line.starts_with("```");
        match &mut open {
            None if is_fence => open = Some(String::new()),
            None => answer.push_str(line),
            Some(block) if is_fence => {
                blocks.push(std::mem::take(block));
                open = None;
            }
            Some(block) => block.push_str(line),
        }
    }
    match open {
        Some(_) => Err(Fault::new("its block is not closed by a line with ```.")),
        None => Ok((blocks, answer.trim().to_owned())),
    }
}

fn looks_like_a_diff(block: &str) -> bool {
    block.lines().any(|line| line.starts_with("+++ ") || line.starts_with("diff --git "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-a\n+```rust\n b\n";

    #[test]
    fn takes_the_one_diff() {
        let said = read(&format!("Takes A's fix.\n\n```diff\n{DIFF}```\n")).unwrap();
        let answer = "Takes A's fix.".to_owned();
        assert_eq!(said, Said::Proposed { diff: DIFF.to_owned(), answer });
        let with_example = format!("```rust\nfn x() {{}}\n```\n```diff\n{DIFF}```");
        assert!(matches!(read(&with_example), Ok(Said::Proposed { .. })));
    }

    #[test]
    fn declines_and_faults() {
        assert_eq!(read("DECLINE\nA is fine."), Ok(Said::Declined("A is fine.".to_owned())));
        assert_eq!(read("DECLINE: A is fine."), Ok(Said::Declined("A is fine.".to_owned())));
        for bad in [
            "".to_owned(),
            "I would change x.".to_owned(),
            format!("```diff\n{DIFF}"),
            format!("```diff\n{DIFF}```\n```diff\n{DIFF}```"),
            "```\nno diff\n```".to_owned(),
            DIFF.replace("```", ""),
        ] {
            assert!(read(&bad).is_err(), "{bad}");
        }
    }
}
