//! A diff for reading. What is to be applied is written byte for byte elsewhere.

use super::Style;
use super::page::Tone;
use crate::model::printable::block;

/// A diff with colours where they are wanted, made safe to print.
pub fn diff(diff: &[u8], style: &Style) -> String {
    let text = block(&String::from_utf8_lossy(diff));
    if !style.colour {
        return text;
    }
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.split_inclusive('\n') {
        let body = line.trim_end_matches('\n');
        let ansi = tone(body).ansi();
        out.push_str(&format!("{ansi}{body}{ansi:#}"));
        out.push_str(&line[body.len()..]);
    }
    out
}

fn tone(line: &str) -> Tone {
    let heads = ["diff ", "--- ", "+++ ", "index ", "new file", "deleted file", "rename ", "@@"];
    match line.as_bytes().first() {
        _ if heads.iter().any(|head| line.starts_with(head)) => Tone::Strong,
        Some(b'+') => Tone::Good,
        Some(b'-') => Tone::Bad,
        _ => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_coloured_by_line_and_safe() {
        let bytes = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\x1b[2J\n+b\n c";
        let plain = diff(bytes, &Style { columns: 80, colour: false });
        assert_eq!(plain, "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n c");
        let coloured = diff(bytes, &Style { columns: 80, colour: true });
        assert!(
            coloured.contains("\u{1b}[31m-a\u{1b}[0m\n\u{1b}[32m+b\u{1b}[0m\n c"),
            "{coloured:?}"
        );
    }
}
