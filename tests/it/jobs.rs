//! Run tokens and their scopes.
