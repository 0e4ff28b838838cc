//! What lies between the base's checkout and a gate's own changes: snapshots of carried directories,
//! and what setup and the base's gate runs wrote.
//!
//! Never here: what a candidate wrote.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cache::CacheEntry;
use super::edit::Edits;
use super::error::{RepoError, Result, lossy};
use super::lease::Lease;
use super::objects::{self, Item};
use super::upper;

/// Layers of output that lie under a gate's tree, the topmost first. Each goes away, or may be cleaned,
/// when nothing stands on it any more.
#[derive(Clone, Debug, Default)]
pub struct GateLayer {
    pub(crate) parts: Vec<Arc<Part>>,
    pub(crate) rewritten: Vec<String>,
}

/// One directory of a [`GateLayer`].
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) dir: PathBuf,
    /// Sources of the base with newer times, instead of output.
    pub(crate) is_sources: bool,
    _hold: Hold,
}

/// What keeps a directory there.
#[derive(Debug)]
#[expect(dead_code, reason = "held for what dropping it does")]
enum Hold {
    Run(Lease),
    Cache(Arc<CacheEntry>),
}

impl Part {
    /// A directory that goes away with a lease.
    pub(crate) fn leased(dir: PathBuf, lease: Lease) -> Arc<Self> {
        Arc::new(Self { dir, is_sources: false, _hold: Hold::Run(lease) })
    }

    /// The same, with sources of the base.
    pub(crate) fn sources(dir: PathBuf, lease: Lease) -> Arc<Self> {
        Arc::new(Self { dir, is_sources: true, _hold: Hold::Run(lease) })
    }

    /// A directory of a cache entry.
    pub(crate) fn cached(dir: PathBuf, entry: Arc<CacheEntry>, is_sources: bool) -> Arc<Self> {
        Arc::new(Self { dir, is_sources, _hold: Hold::Cache(entry) })
    }

    /// Proves that it hides and changes nothing of the base.
    pub(crate) fn check(&self, base: &[Item]) -> Result<()> {
        if !self.is_sources {
            return upper::check_stripped(&self.dir, base);
        }
        let edits: Edits = upper::read(&self.dir, base, &[])?;
        let is_base = |path: &[u8], leaf| leaf == objects::find(base, path).map(|at| base[at].leaf);
        match edits.iter().find(|(path, leaf)| !is_base(path, **leaf)) {
            Some((path, _)) => {
                Err(RepoError::Mismatch(format!("{:?} is not the base's", lossy(path))))
            }
            None => Ok(()),
        }
    }
}

impl GateLayer {
    /// The tracked files that the base's gate run changed, lossily decoded. Where there are any, its
    /// output was made from other sources than the base's: it is thrown away.
    pub fn rewritten(&self) -> &[String] {
        &self.rewritten
    }

    /// The directories, the topmost first.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().map(|part| part.dir.as_path())
    }

    /// Proves that nothing of it hides or changes what the base tracks.
    pub(crate) fn check(&self, base: &[Item]) -> Result<()> {
        self.parts.iter().try_for_each(|part| part.check(base))
    }
}
