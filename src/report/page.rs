//! A page of text: headings, wrapped lines, tables that fit its width, colours where they are wanted.

use anstyle::{AnsiColor, Style as Ansi};
use unicode_width::UnicodeWidthChar;

use super::Style;
use crate::model::printable::{line, width, wrap};

/// How a piece of text is to stand out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Not at all.
    #[default]
    Plain,
    /// A heading.
    Strong,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// To be looked at.
    Warn,
    /// In the background.
    Faint,
}

impl Tone {
    /// The escape sequences.
    pub fn ansi(self) -> Ansi {
        let colour = |colour: AnsiColor| Ansi::new().fg_color(Some(colour.into()));
        match self {
            Self::Plain => Ansi::new(),
            Self::Strong => Ansi::new().bold(),
            Self::Good => colour(AnsiColor::Green),
            Self::Bad => colour(AnsiColor::Red),
            Self::Warn => colour(AnsiColor::Yellow),
            Self::Faint => Ansi::new().dimmed(),
        }
    }
}

/// A table's cell: one line, sanitised when it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell of a text that may be foreign.
    pub fn new(text: impl AsRef<str>, tone: Tone) -> Self {
        Self { text: line(text.as_ref()), tone }
    }

    /// A cell that does not stand out.
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::new(text, Tone::Plain)
    }
}

/// A table's row: its cells, and notes that stand below it over the whole width.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The cells, one for each column.
    pub cells: Vec<Cell>,
    /// Notes, each wrapped.
    pub notes: Vec<(String, Tone)>,
}

/// A growing page.
pub struct Page {
    style: Style,
    out: String,
}

impl Page {
    /// An empty page.
    pub fn new(style: &Style) -> Self {
        Self { style: *style, out: String::new() }
    }

    /// The page's text.
    pub fn finish(self) -> String {
        self.out
    }

    /// A heading, with a blank line before it unless it is the first line.
    pub fn heading(&mut self, text: &str) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
        self.tinted(&line(text), Tone::Strong);
        self.out.push('\n');
    }

    /// A text that may be foreign, in one wrapped paragraph: `label` before its first line, the
    /// others indented below the text.
    pub fn entry(&mut self, label: &str, text: &str, tone: Tone) {
        let label = &line(label);
        let indent = width(label);
        let lines = wrap(&line(text), self.style.columns.saturating_sub(indent).max(20));
        for (at, piece) in lines.iter().enumerate() {
            match at {
                0 => self.out.push_str(label),
                _ => self.out.push_str(&" ".repeat(indent)),
            }
            self.tinted(piece, tone);
            self.end_line();
        }
    }

    /// Lines of foreign text, sanitised by the caller, each cut at the page's width.
    pub fn quote(&mut self, lines: &[&str]) {
        let most = self.style.columns.saturating_sub(6).max(20);
        for quoted in lines {
            self.out.push_str("    ");
            self.tinted(&format!("| {}", cut(&quoted.replace('\t', "    "), most)), Tone::Faint);
            self.end_line();
        }
    }

    /// A table. Columns that hold nothing at all are left out; the widest give way to the page, but
    /// for the first `keep`.
    pub fn table(&mut self, head: &[&str], rows: &[Row], keep: usize) {
        let used: Vec<usize> = (0..head.len()).filter(|at| is_used(*at, rows)).collect();
        let widths = self.widths(head, rows, &used, keep);
        let cells = head.iter().map(|name| Cell::new(name, Tone::Faint)).collect::<Vec<_>>();
        self.row(&cells, &used, &widths);
        for row in rows {
            self.row(&row.cells, &used, &widths);
            for (note, tone) in &row.notes {
                self.entry("      ", note, *tone);
            }
        }
    }

    fn widths(&self, head: &[&str], rows: &[Row], used: &[usize], keep: usize) -> Vec<usize> {
        let widest = |at: &usize| {
            let cells = rows.iter().filter_map(|row| row.cells.get(*at));
            cells.map(|cell| width(&cell.text)).max().unwrap_or(0).max(width(head[*at]))
        };
        let mut widths: Vec<usize> = used.iter().map(widest).collect();
        let room = self.style.columns.saturating_sub(2 * used.len());
        let kept = used.iter().filter(|at| **at < keep).count();
        while widths.iter().sum::<usize>() > room {
            match widths[kept..].iter_mut().max() {
                Some(most) if *most > 6 => *most -= 1,
                _ => break,
            }
        }
        widths
    }

    fn row(&mut self, cells: &[Cell], used: &[usize], widths: &[usize]) {
        for (at, most) in used.iter().zip(widths) {
            let empty = Cell::default();
            let cell = cells.get(*at).unwrap_or(&empty);
            let text = cut(&cell.text, *most);
            self.out.push_str("  ");
            self.tinted(&text, cell.tone);
            self.out.push_str(&" ".repeat(most - width(&text)));
        }
        self.end_line();
    }

    fn tinted(&mut self, text: &str, tone: Tone) {
        if self.style.colour && tone != Tone::Plain && !text.is_empty() {
            let ansi = tone.ansi();
            self.out.push_str(&format!("{ansi}{text}{ansi:#}"));
        } else {
            self.out.push_str(text);
        }
    }

    fn end_line(&mut self) {
        self.out.truncate(self.out.trim_end_matches(' ').len());
        self.out.push('\n');
    }
}

fn is_used(at: usize, rows: &[Row]) -> bool {
    rows.iter().any(|row| row.cells.get(at).is_some_and(|cell| !cell.text.is_empty()))
}

/// A text's beginning in at most `most` columns, with an ellipsis where something is left out.
pub fn cut(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut columns = 1; // The ellipsis.
    for c in text.chars() {
        columns += c.width().unwrap_or(0);
        if columns > most {
            break;
        }
        kept.push(c);
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("日本語テキスト", 7), "日本語…");
        assert_eq!(cut("plain", 5), "plain");
    }

    #[test]
    fn a_table_fits_the_page() {
        let style = Style { columns: 40, colour: false };
        let mut page = Page::new(&style);
        let row = |a: &str, b: &str| Row {
            cells: vec![Cell::plain(a), Cell::plain(""), Cell::new(b, Tone::Good)],
            notes: vec![(
                "a note that is far too long for one line of this page".into(),
                Tone::Warn,
            )],
        };
        page.table(
            &["name", "nothing", "value"],
            &[row("x\u{1b}[2J", &"v".repeat(80)), row("y", "w")],
            1,
        );
        let text = page.finish();
        assert!(text.lines().all(|line| width(line) <= 40), "{text}");
        assert!(!text.contains("nothing") && !text.contains('\u{1b}'));
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        let mut page = Page::new(&Style { columns: 80, colour: true });
        page.entry("x ", "good", Tone::Good);
        assert_eq!(page.finish(), "x \u{1b}[32mgood\u{1b}[0m\n");
    }
}
