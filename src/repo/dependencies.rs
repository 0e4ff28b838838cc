//! Where dependencies are kept that a repository's `setup` fetched: one cache entry for each working
//! tree, filled by whoever runs setup. Never here: what a candidate wrote, which sees it read-only.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::cache::{self, CacheEntry, Kind, Label};
use super::error::{IoContext, Result, lossy};
use super::store::Store;

/// The fetched dependencies of a repository, in use: nobody cleans them away meanwhile.
#[derive(Debug)]
pub struct Dependencies(CacheEntry);

impl Dependencies {
    /// The directory in which the tools' caches lie.
    pub fn dir(&self) -> PathBuf {
        self.0.dir().join("files")
    }
}

impl Store {
    /// The dependencies of this repository; made empty when there are none yet.
    ///
    /// # Errors
    /// When the cache can't be written.
    pub fn dependencies(&self) -> Result<Dependencies> {
        let top = self.top();
        let bytes = top.as_os_str().as_bytes();
        let key: String =
            Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let entry = CacheEntry::enter(self.cache(), Kind::Dependencies, &key, |dir| {
            let files = dir.join("files");
            super::files::make_private(&files).at("create", &files)?;
            let label = Label {
                top: lossy(bytes),
                of: "dependencies that setup fetched".to_owned(),
                ..Label::default()
            };
            // Measured anew each time, because it grows.
            cache::label(dir, label)
        })?;
        Ok(Dependencies(entry))
    }
}
