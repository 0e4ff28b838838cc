//! What I need from tokio's cell: see `tests/replace.rs`.
