//! Choosing among proved trees without a model: agreement of independent families.
//!
//! Lives here: what a change's core is, its atoms and token n-grams, the consensus over them, and the
//! rule that picks. Pure: the same pool decides the same, in whatever order it is given. Never here:
//! IO, models, gates.
//!
//! The gate: a contender that parses worse than the base in a file that is no test, or whose core is
//! empty, has no vote and is not chosen, unless nobody would be left.
//!
//! The measure: A is the set of (path, enclosing definitions in the base, sign, line without white
//! space); S is the set of (path, sign, 2- or 3-gram of a hunk's tokens); both from a zero-context
//! histogram diff of the core. For k in A, S: C_k = the sum over x in k(c) of the number of other
//! families that contain x, over |k(c)|^(1/4); N_k = the mean over the other families of the largest
//! Jaccard similarity to a candidate of theirs. Score = the sum of the four, each over its maximum.

mod atoms;
mod choose;
mod consensus;
mod core;
mod doubt;
mod enclosing;
mod files;
mod fusion;
mod hunks;
mod syntax;
mod tokens;

pub use self::atoms::sets;
pub use self::choose::{Choice, choose};
pub use self::consensus::{
    Contender, FEWEST_FAMILIES, Gated, Nearest, Score, Support, consensus, similarity,
};
pub use self::core::{is_core, is_source};
pub use self::doubt::Doubt;
pub use self::files::{ChangedFile, group};
pub use self::fusion::fuse;
pub use self::syntax::{broken, is_unreadable};

#[cfg(test)]
mod tests;
