//! Integration tests, one binary: what they need of the product is its own executable.

mod jobs;
mod provider;
mod sandbox;
mod support;
