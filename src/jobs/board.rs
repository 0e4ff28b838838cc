//! The list of what is live in a run: workers and jobs alike (contract R1).
//!
//! Whoever has something live puts itself here; the list asks it, and holds no state of its own (contract
//! R8). No cap counts what stands here (contract R5). Never here: how a thing runs, who is shown the list.

use std::sync::{Arc, Mutex};

use super::entry::lock;
use super::handle::Handle;
use crate::model::Card;

/// Something that has live things: a worker, a table of jobs.
pub trait Source: Send + Sync {
    /// Its name. A later source of the same name takes its place.
    fn name(&self) -> String;

    /// What it has: live things, and those whose output is still readable (contract R7).
    fn handles(self: Arc<Self>) -> Vec<Arc<dyn Handle>>;

    /// Whether there is nothing and never will be again.
    fn is_over(&self) -> bool;
}

/// The list. Clones share it.
#[derive(Clone, Default)]
pub struct Board(Arc<Mutex<Vec<Arc<dyn Source>>>>);

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

impl Board {
    /// Puts a source on the list. It stays until it is over.
    pub fn add(&self, source: Arc<dyn Source>) {
        let name = source.name();
        let mut sources = lock(&self.0);
        sources.retain(|known| known.name() != name && !known.is_over());
        sources.push(source);
    }

    /// Everything: what is live, and what ended and can still be read. A worker stands before its jobs.
    pub fn all(&self) -> Vec<Arc<dyn Handle>> {
        let sources = lock(&self.0).clone();
        let mut all: Vec<_> = sources.into_iter().flat_map(|source| source.handles()).collect();
        all.sort_by_cached_key(|handle| order(&handle.card().id));
        all
    }

    /// The cards of what is live; with `ended` also of what is over and can still be read.
    pub fn cards(&self, ended: bool) -> Vec<Card> {
        let cards = self.all().into_iter().map(|handle| handle.card());
        cards.filter(|card| ended || card.state.is_live()).collect()
    }

    /// The thing with this id.
    pub fn find(&self, id: &str) -> Option<Arc<dyn Handle>> {
        self.all().into_iter().find(|handle| handle.card().id == id)
    }
}

/// Ids with numbers in them in the order of the numbers: `one/2` before `one/10`.
fn order(id: &str) -> (String, Vec<u64>) {
    let plain: String = id.chars().filter(|c| !c.is_ascii_digit()).collect();
    let numbers = id.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok());
    let lane = plain.split(['/', '#']).next().unwrap_or_default().to_owned();
    (lane, numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::super::testing::Fake;
    use super::*;

    // contract R1 in part: the one list; its header and its cards are tested where they are shown
    #[test]
    fn everything_stands_in_one_list_in_order_until_it_is_over() {
        let board = Board::default();
        for id in ["one/10", "one/2#1", "two/1", "one/2"] {
            board.add(Fake::new(id));
        }
        let ids =
            |ended| -> Vec<String> { board.cards(ended).into_iter().map(|card| card.id).collect() };
        assert_eq!(ids(false), ["one/2", "one/2#1", "one/10", "two/1"]);
        let gone = Fake::new("two/1");
        gone.end("exit 0");
        board.add(gone.clone());
        assert_eq!(ids(false).len(), 3, "its card is gone");
        assert_eq!(ids(true).len(), 4, "its output is readable");
        assert!(board.find("two/1").is_some_and(|found| !found.is_live()));
        gone.forget();
        board.add(Fake::new("three/1"));
        assert!(board.find("two/1").is_none());
    }
}
