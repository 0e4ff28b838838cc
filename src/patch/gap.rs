//! What stands between two file sections, and whether a second one may follow it.
//!
//! Git skips any text there. That lets a diff hide in a mail's message or far below another, so that
//! only what can't hide one is skipped here: blank lines, a few lines of prose, mails, fences.

use super::cursor::Cursor;

/// The most blank lines between two sections.
const MOST_BLANK: usize = 20;

/// The most lines of prose between two sections that do not stand in fences or mails of their own.
const MOST_PROSE: usize = 5;

/// Words by which an author offers one diff in place of another.
const CHOICE: [&str; 6] =
    ["alternativ", "option", "instead", "either", "another approach", "or, if you"];

/// The text since the last section.
#[derive(Default)]
pub(super) struct Gap {
    pub blank: usize,
    pub prose: usize,
    /// A new mail began.
    pub mail: bool,
    /// A fence was closed.
    pub closed: bool,
    /// The line of a change that belongs to no hunk.
    pub stray: Option<usize>,
    signature: bool,
    ruler: bool,
    choice: bool,
}

impl Gap {
    /// A new mail begins.
    pub(super) fn of_mail() -> Self {
        Self { mail: true, ..Self::default() }
    }

    /// Takes a line of prose.
    pub(super) fn prose(&mut self, cursor: &Cursor<'_>) {
        let text = cursor.text();
        self.prose += 1;
        self.ruler |= text == b"---";
        self.signature |= cursor.is_signature(cursor.at());
        let words = String::from_utf8_lossy(text).to_lowercase();
        self.choice |= CHOICE.iter().any(|word| words.contains(word));
        if is_stray(text) && !self.signature {
            self.stray.get_or_insert(cursor.number());
        }
    }

    /// Whether the rest of a document that ends here is nothing but a mail's signature.
    pub(super) fn is_signature(&self) -> bool {
        self.signature && self.prose <= 2
    }

    /// How a section may follow, if it may. `fenced` and `in_fence` tell where the section before stood
    /// and where this one stands.
    pub(super) fn joins(&self, fenced: bool, in_fence: bool, in_mail: bool) -> Join {
        let moved = self.closed || fenced != in_fence;
        let own_fence = fenced && in_fence && self.closed;
        match self {
            _ if self.blank > MOST_BLANK => Join::Refused,
            _ if self.mail || (self.prose == 0 && !moved) => Join::Direct,
            _ if self.choice || self.stray.is_some() => Join::Refused,
            _ if own_fence => Join::Apart,
            _ if moved || in_mail || self.ruler || self.signature => Join::Refused,
            _ if self.prose > MOST_PROSE => Join::Refused,
            _ => Join::Apart,
        }
    }
}

/// How a section follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Join {
    /// As the next file of one diff.
    Direct,
    /// As a diff of its own that is read with the first.
    Apart,
    /// It may not.
    Refused,
}

/// A line that looks like a change.
fn is_stray(text: &[u8]) -> bool {
    matches!(text.first(), Some(b'+' | b'-' | b'\\')) || text == b"GIT binary patch"
}
