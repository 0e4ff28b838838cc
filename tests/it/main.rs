//! Integration tests, one binary: what they need of the product is its own executable.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails may panic, and helpers of tests are no test functions"
)]

mod allow;
mod anew;
mod applying;
mod background;
mod bad_input;
mod borrowed;
mod bounded;
mod carry;
mod code;
mod commands;
mod corners;
mod crossed;
mod demo;
mod design;
mod doubts;
mod duels;
mod eval;
mod fallback;
mod faults;
mod fence_command;
mod gate;
mod gc;
mod healing;
mod host;
mod hostile_gate;
mod jobs;
mod judging;
mod midway;
mod money;
mod operator;
mod patch_cases;
mod patch_command;
mod patch_corpus;
mod patch_forms;
mod patch_git;
mod patch_oracle;
mod patch_store;
mod prefix;
mod provider;
mod raised;
mod repo;
mod resume;
mod sandbox;
mod secrets;
mod selftests;
mod show;
mod support;
mod swayed;
mod timed;
mod tool_command;
mod tools;
mod under_workers;
mod untouched;
mod workers;
