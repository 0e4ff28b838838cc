//! What the fuzz targets share: the oracle (which the tests of the program have, too) and mutations that
//! know what a diff looks like.

pub mod mutate;
#[path = "../../tests/it/patch_oracle.rs"]
pub mod oracle;

use std::path::Path;

/// Where scratch repositories are made: in memory where that is possible.
pub fn scratch() -> std::path::PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
