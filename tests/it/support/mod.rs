//! What several integration tests need.

pub mod place;
pub mod server;
