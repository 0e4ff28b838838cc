//! Which repositories the operator trusts to configure their own verification, by content.
//!
//! An entry binds the repository's place to the hash of the files that trust speaks of, so that a
//! changed `bakeoff.toml` has to be trusted again, and a copy of it elsewhere was never trusted.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Why the trust store can't be used. Nothing is trusted then.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// It can't be read or written.
    #[error("failed to use the trust store {}: {source}; check $BAKEOFF_HOME and its permissions", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not what this program wrote.
    #[error("the trust store {} is damaged ({reason}); move it away and run `bakeoff trust` again", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// SHA-256, in hexadecimal, over the files that trust speaks of: `bakeoff.toml` and the prompts and
/// judges of the base commit that override the built-in ones. Their order does not matter; names and
/// lengths are part of it, so that no file can pass for a piece of another.
pub fn content_hash<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> String {
    let sorted: BTreeMap<&str, &[u8]> = files.into_iter().collect();
    let mut hash = Sha256::new();
    for (name, bytes) in sorted {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name.as_bytes());
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Entries {
    version: u32,
    #[serde(default)]
    trusted: BTreeMap<String, String>,
}

const VERSION: u32 = 1;

/// The operator's trust, in one file of the state directory.
#[derive(Clone, Debug)]
pub struct TrustStore {
    path: PathBuf,
}

impl TrustStore {
    /// The store in the file `path`, which need not exist yet.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Whether the repository at `top` is trusted with exactly this content.
    ///
    /// # Errors
    /// [`TrustError`] when the store can't be read: treat the repository as not trusted.
    pub fn is_trusted(&self, top: &Path, hash: &str) -> Result<bool, TrustError> {
        Ok(self.read()?.trusted.get(&key(top)).is_some_and(|known| known == hash))
    }

    /// Trusts the repository at `top` with this content, in place of any earlier content.
    ///
    /// # Errors
    /// [`TrustError`] when the store can't be read or written; it is left as it was then.
    pub fn trust(&self, top: &Path, hash: &str) -> Result<(), TrustError> {
        self.change(|entries| {
            entries.trusted.insert(key(top), hash.to_owned());
        })
    }

    /// Takes trust away from the repository at `top`; says whether there was any.
    ///
    /// # Errors
    /// As [`TrustStore::trust`].
    pub fn revoke(&self, top: &Path) -> Result<bool, TrustError> {
        let mut was = false;
        self.change(|entries| was = entries.trusted.remove(&key(top)).is_some())?;
        Ok(was)
    }

    fn change(&self, edit: impl FnOnce(&mut Entries)) -> Result<(), TrustError> {
        let dir = self.path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(dir).map_err(|source| self.io(source))?;
        let mut lock = fd_lock::RwLock::new(self.lock_file()?);
        let _held = lock.write().map_err(|source| self.io(source))?;
        let mut entries = self.read()?;
        edit(&mut entries);
        entries.version = VERSION;
        self.write(dir, &entries)
    }

    /// The lock is a file of its own, because the store itself is replaced at every write.
    fn lock_file(&self) -> Result<File, TrustError> {
        let path = self.path.with_extension("lock");
        OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .map_err(|source| self.io(source))
    }

    fn read(&self) -> Result<Entries, TrustError> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Entries::default()),
            Err(source) => return Err(self.io(source)),
        };
        let damaged = |reason: String| TrustError::Damaged { path: self.path.clone(), reason };
        let entries: Entries =
            serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        match entries.version {
            VERSION => Ok(entries),
            other => Err(damaged(format!("its version is {other}, this program knows {VERSION}"))),
        }
    }

    fn write(&self, dir: &Path, entries: &Entries) -> Result<(), TrustError> {
        let text = serde_json::to_string_pretty(entries)
            .map_err(|error| self.io(std::io::Error::other(error)))?;
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(|source| self.io(source))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.as_file().sync_all())
            .map_err(|source| self.io(source))?;
        file.persist(&self.path).map_err(|error| self.io(error.error))?;
        Ok(())
    }

    fn io(&self, source: std::io::Error) -> TrustError {
        TrustError::Io { path: self.path.clone(), source }
    }
}

/// A place as a key. Bytes that are not UTF-8 are escaped, so that two places never share one.
fn key(top: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    top.as_os_str().as_bytes().escape_ascii().to_string()
}
