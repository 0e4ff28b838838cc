//! Integration tests, one binary: what they need of the product is its own executable.

mod bad_input;
mod commands;
mod demo;
mod gate;
mod jobs;
mod judging;
mod patch_cases;
mod patch_git;
mod patch_store;
mod provider;
mod repo;
mod sandbox;
mod support;
mod tools;
mod untouched;
