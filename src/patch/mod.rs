//! Diffs made by others: parsed strictly, repaired only where the meaning can't change, judged by path
//! and mode rules, and applied in memory to a tree id.
//!
//! Lives here: everything between the bytes of a diff and an [`Admission`](crate::model::Admission).
//! Never here: a process, the network, the file system, git2. Trees and blobs are read and written
//! through [`TreeStore`], which somebody else implements.
//!
//! The order of the checks: bytes and limits (`bytes`), the document around the diff (`document`), strict
//! file sections (`section`, `header`, `hunks`, `binary`, `envelope`), then against the base: prefixes
//! (`prefix`), path rules (`path`, `disguise`), modes (`mode`), exact hunks (`locate`, `apply`), and the
//! tree (`tree`). Exact means git's own anchoring and offset search, and never fuzz; where git would
//! choose between several places by distance, the diff is refused as ambiguous.
#![expect(
    clippy::result_large_err,
    reason = "a refusal is the answer of this module, made once per diff, and its callers keep it whole"
)]

mod admit;
mod apply;
mod binary;
mod bytes;
mod chunks;
mod collide;
mod crlf;
mod cursor;
mod disguise;
mod document;
mod envelope;
mod file;
mod flags;
mod gap;
mod gatefiles;
mod header;
mod hunks;
mod links;
mod locate;
mod loose;
mod mode;
mod names;
mod packed;
mod path;
mod prefix;
mod printer;
#[cfg(test)]
mod properties;
mod refuse;
mod rules;
mod section;
#[cfg(test)]
mod testing;
mod tree;

pub use admit::admit;
pub use document::parse;
pub use file::{FilePatch, Hunk, Line, LineKind, Patch};
pub use printer::print;
pub use rules::Rules;
pub use tree::{ObjectId, StoreError, TreeEntry, TreeStore};
