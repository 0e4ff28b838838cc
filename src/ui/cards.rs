//! What is live, as rows of the live view: workers, jobs and the operator's own commands alike, under one header.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar};

use super::bars::spinner;
use super::screen::size;
use crate::model::printable::line;
use crate::model::{Card, CardState, duration};

/// The rows, by id.
#[derive(Default)]
pub struct Cards {
    header: Option<ProgressBar>,
    rows: BTreeMap<String, Row>,
}

struct Row {
    bar: ProgressBar,
    /// Whether it is of the run: then it goes with the run's stage.
    of_run: bool,
    card: Card,
    began: Duration,
    /// What it does at this moment, where that is told.
    doing: String,
}

impl Cards {
    /// Shows a card of the run's, or takes it away when what it is of has ended (contracts R2 and R7).
    pub fn show(&mut self, card: &Card, all: &MultiProgress, at: Duration) {
        self.put(card, true, all, at);
    }

    /// The same of what lives beside the run's stages.
    pub fn show_beside(&mut self, card: &Card, all: &MultiProgress, at: Duration) {
        self.put(card, false, all, at);
    }

    fn put(&mut self, card: &Card, of_run: bool, all: &MultiProgress, at: Duration) {
        if !card.state.is_live() {
            return self.take_away(&card.id, all);
        }
        if !self.rows.contains_key(&card.id) {
            let bar = self.place(&card.id, all);
            let doing = String::new();
            let row = Row { bar, of_run, card: card.clone(), began: at, doing };
            self.rows.insert(card.id.clone(), row);
        }
        if let Some(row) = self.rows.get_mut(&card.id) {
            row.card = card.clone();
            row.draw(at);
        }
        self.head();
    }

    /// Says what something does at this moment.
    pub fn doing(&mut self, id: &str, doing: String, at: Duration) {
        if let Some(row) = self.rows.get_mut(id) {
            row.doing = doing;
            row.draw(at);
        }
    }

    /// The card of what has ended goes.
    pub fn take_away(&mut self, id: &str, all: &MultiProgress) {
        if let Some(row) = self.rows.remove(id) {
            row.bar.finish_and_clear();
            all.remove(&row.bar);
        }
        if self.rows.is_empty()
            && let Some(header) = self.header.take()
        {
            header.finish_and_clear();
            all.remove(&header);
        }
        self.head();
    }

    /// The run's go.
    pub fn clear(&mut self, all: &MultiProgress) {
        let of_run = self.rows.iter().filter(|(_, row)| row.of_run);
        let ids: Vec<String> = of_run.map(|(id, _)| id.clone()).collect();
        ids.iter().for_each(|id| self.take_away(id, all));
    }

    /// Time goes on.
    pub fn tick(&self, at: Duration) {
        for row in self.rows.values() {
            row.draw(at);
            row.bar.tick();
        }
        // The terminal may have become another one.
        self.head();
    }

    /// A bar for a new row: jobs stand behind their worker, as their ids do.
    fn place(&mut self, id: &str, all: &MultiProgress) -> ProgressBar {
        let header = self.header.get_or_insert_with(|| all.add(super::bars::plain()));
        let before = self.rows.range(..id.to_owned()).next_back();
        all.insert_after(before.map_or(&*header, |(_, row)| &row.bar), spinner())
    }

    /// For example `background: 2 workers, 1 job`.
    fn head(&self) {
        let Some(header) = &self.header else { return };
        let mut counts: Vec<(&str, u32)> = Vec::new();
        for row in self.rows.values() {
            let label = row.card.kind.label();
            match counts.iter_mut().find(|(known, _)| *known == label) {
                Some((_, count)) => *count += 1,
                None => counts.push((label, 1)),
            }
        }
        let count = |(label, count): &(&str, u32)| match count {
            1 => format!("1 {label}"),
            count => format!("{count} {label}s"),
        };
        let counts: Vec<String> = counts.iter().map(count).collect();
        let (lines, columns) = size();
        let hidden = hidden(self.rows.len(), usize::from(lines));
        header.set_message(headed(&counts.join(", "), hidden, usize::from(columns)));
    }
}

/// The lines that stand above the rows: the stage's and the header.
const ABOVE: usize = 2;

/// How many rows a terminal of so many lines has no room for.
fn hidden(rows: usize, lines: usize) -> usize {
    match lines {
        0 => 0,
        lines => rows.saturating_sub(lines.saturating_sub(ABOVE)),
    }
}

/// The header in a terminal of so many columns: what is hidden is said before anything else is.
fn headed(counts: &str, hidden: usize, columns: usize) -> String {
    let whole = format!("background: {counts}");
    if hidden == 0 {
        return whole;
    }
    let long = format!("{whole} ({hidden} more than fit; `bakeoff jobs` lists them)");
    let forms =
        [long, format!("{whole} ({hidden} hidden)"), format!("background: {hidden} hidden")];
    let fits = |form: &&String| columns == 0 || form.len() <= columns;
    forms.iter().find(fits).cloned().unwrap_or_else(|| format!("{hidden} hidden"))
}

impl Row {
    fn draw(&self, at: Duration) {
        let Card { id, kind, title, state, .. } = &self.card;
        let age = duration(at.saturating_sub(self.began).as_millis() as u64);
        // What is told of its doings says that it runs, and needs the room.
        let text = match (state, self.doing.as_str()) {
            (CardState::Running, doing) if !doing.is_empty() => format!("{id}  {doing}"),
            (state, _) => format!("{id}  {}  {} {age}  {title}", kind.label(), state.words()),
        };
        self.bar.set_message(line(&text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // contract R2 in part: what has no room for a row
    #[test]
    fn rows_that_do_not_fit_are_counted() {
        assert_eq!((hidden(8, 10), hidden(3, 0), hidden(12, 10)), (0, 0, 4));
        let counts = "2 workers, 5 jobs";
        for (hidden, columns, header) in [
            (0, 20, "background: 2 workers, 5 jobs"),
            (4, 0, "background: 2 workers, 5 jobs (4 more than fit; `bakeoff jobs` lists them)"),
            (4, 80, "background: 2 workers, 5 jobs (4 more than fit; `bakeoff jobs` lists them)"),
            (4, 40, "background: 2 workers, 5 jobs (4 hidden)"),
            (4, 39, "background: 4 hidden"),
            (4, 20, "background: 4 hidden"),
            (4, 10, "4 hidden"),
        ] {
            assert_eq!(headed(counts, hidden, columns), header);
        }
    }
}
