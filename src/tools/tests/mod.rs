//! The file tools as a worker sees them: each test goes through the registry.

mod bash;
mod edit;
mod escape;
mod patch;
mod read;
mod registry;
mod search;
