//! The modules under test, compiled on their own (they are pure, and the whole program takes minutes to
//! instrument), and what the fuzz targets share: the oracle, which the program's tests have too, and
//! mutations that know what a diff looks like.

// The oracle and the targets name the modules as the program does.
extern crate self as bakeoff;

#[path = "../../src/model/mod.rs"]
pub mod model;
pub mod mutate;
#[path = "../../tests/it/patch_oracle.rs"]
pub mod oracle;
#[path = "../../src/patch/mod.rs"]
pub mod patch;

use std::path::{Path, PathBuf};

/// Where scratch repositories are made: in memory where that is possible.
pub fn scratch() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
