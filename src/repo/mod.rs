//! The engine-owned repository, layers, workspace leases and tree diffs; git2.
//!
//! The user's repository is only read (`user`, `dirty`), but for `apply`. A run's store holds the base
//! and what the run adds; workspaces and gate trees are made of the base layer and read back by
//! contents. Paths are bytes everywhere. Never here: models, and processes.

mod apply;
mod bare;
mod cache;
mod clean;
mod delta;
mod dependencies;
mod dirty;
mod edit;
mod embedded;
mod eol;
mod error;
mod files;
mod gate_copy;
mod gate_tree;
mod git_index;
mod gitdiff;
mod history;
mod ignore_rules;
mod layer;
mod lease;
mod listing;
mod made;
mod object_db;
mod objects;
mod output;
mod pack;
mod pack_file;
mod parallel;
mod peek;
mod scan;
mod seed;
mod snapshot;
mod spaces;
mod staging;
mod standing;
mod store;
mod suggest;
mod tree_store;
mod upper;
mod user;
mod workspace;

pub use apply::{Applied, ApplyTo, apply_tree};
pub use clean::{Cleaned, Cleared, Limits, clean};
pub use dependencies::Dependencies;
pub use dirty::Dirty;
pub use embedded::git_dir_named;
pub use error::RepoError;
pub use gate_tree::GateTree;
pub use git_index::gitlinks;
pub use lease::{Swept, sweep};
pub use output::GateLayer;
pub use peek::Peek;
pub use seed::seed;
pub use spaces::{Backend, Spaces, Tried};
pub use staging::Staging;
pub use standing::{NotCarried, Reused, Standing, Wish};
pub use store::{HISTORY, Store, StorePaths, top_of};
pub use tree_store::Draft;
pub use user::UserRepo;
pub use workspace::Workspace;
