//! Runs many coding agents at one task and ships only the diff that survives proof.
//!
//! Theory of operation: models propose, evidence disposes. See `ARCHITECTURE.md` for the way of the
//! data and the ranks of the modules; `tests/tidy.rs` checks them.

pub mod model;

// Rank 0.
pub mod fence;
// Rank 1.
pub mod config;
pub mod journal;
pub mod patch;
pub mod prompt;
pub mod provider;
// Rank 2.
pub mod sandbox;
// Rank 3.
pub mod jobs;
pub mod repo;
// Rank 4.
pub mod gate;
pub mod select;
pub mod tools;
// Rank 5.
pub mod judge;
pub mod synth;
pub mod worker;
// Rank 6.
pub mod fanout;
// Rank 7.
pub mod control;
pub mod pipeline;
// Rank 8.
pub mod eval;
pub mod report;
pub mod selftest;
pub mod ui;
// Rank 9.
pub mod cli;
