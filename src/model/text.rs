//! Cutting long text with its head and tail kept.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Text that may have been cut in the middle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Clipped {
    /// What was kept, with a notice line where the cut is.
    pub text: String,
    /// How many bytes of the original were left out; 0 when nothing was.
    pub dropped_bytes: u64,
}

/// Cuts `text` to about `max` bytes: the first third and the last two thirds are kept, on character
/// boundaries, with a notice between them. The notice comes on top of `max`.
pub fn clip(text: &str, max: usize) -> Clipped {
    if text.len() <= max {
        return Clipped { text: text.to_owned(), dropped_bytes: 0 };
    }
    let head = floor(text, max / 3);
    let tail = ceil(text, text.len() - (max - max / 3));
    let dropped = tail - head;
    Clipped {
        text: format!("{}\n[… {dropped} bytes left out …]\n{}", &text[..head], &text[tail..]),
        dropped_bytes: dropped as u64,
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_head_and_tail_on_character_boundaries() {
        let text = format!("{}{}", "é".repeat(500), "z".repeat(500));
        let cut = clip(&text, 100);
        assert!(cut.text.starts_with("éé") && cut.text.ends_with("zz"));
        assert_eq!(cut.dropped_bytes as usize, 1500 - 100 + 1);
        assert_eq!(clip("short", 100).text, "short");
    }
}
