//! The list of what is live in a run.

use super::Style;
use super::page::{Cell, Page, Row};
use crate::model::{Card, duration};

const HEAD: [&str; 7] = ["id", "kind", "owner", "state", "age", "output", "what"];

/// The list, one thing a line, `columns` wide. Workers and jobs stand in it alike.
pub fn cards_table(cards: &[Card], columns: usize) -> String {
    if cards.is_empty() {
        return "nothing runs in the background\n".to_owned();
    }
    let mut page = Page::new(&Style { columns, colour: false });
    page.heading("background");
    let rows: Vec<Row> = cards.iter().map(row).collect();
    page.table(&HEAD, &rows, 2);
    page.finish()
}

fn row(card: &Card) -> Row {
    let cells = vec![
        Cell::plain(&card.id),
        Cell::plain(card.kind.label()),
        Cell::plain(&card.owner),
        Cell::plain(card.state.words()),
        Cell::plain(duration(card.age.saturating_mul(1000))),
        Cell::plain(size(card.bytes)),
        Cell::plain(&card.title),
    ];
    Row { cells, notes: Vec::new() }
}

/// For example `512 B`, `12.3 KiB`, `4.0 MiB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_525 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{CardState, JobId, LaneId};

    #[test]
    fn sizes_read_well() {
        let sizes = [0, 1023, 1024, 1_048_524, 1_048_525, 5 << 20].map(size);
        assert_eq!(sizes, ["0 B", "1023 B", "1.0 KiB", "1023.9 KiB", "1.0 MiB", "5.0 MiB"]);
    }

    // contract R4 in part: a label for each, and no other difference
    #[test]
    fn workers_and_jobs_have_rows_alike_and_foreign_text_moves_nothing() {
        let job = Card::job(&JobId::new("one/1#1"), "one/1", "tail -f \u{1b}[2Jx");
        let cards = [
            Card { bytes: 2048, age: 65, ..Card::worker(&LaneId::of("one", 1), "p:m") },
            Card { state: CardState::Stopping { alive: vec!["sleep".to_owned()] }, ..job },
        ];
        let text = cards_table(&cards, 100);
        assert!(text.starts_with("background\n"), "{text}");
        assert!(text.contains("one/1    worker") && text.contains("one/1#1  job"), "{text}");
        assert!(text.contains("may be alive: sleep") && !text.contains('\u{1b}'), "{text}");
        assert_eq!(cards_table(&[], 100), "nothing runs in the background\n");
    }
}
