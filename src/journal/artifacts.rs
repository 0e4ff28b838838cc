//! A directory of artifacts, each named by the SHA-256 of its bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use sha2::{Digest, Sha256};

use super::{JournalError, Masker};
use crate::model::ArtifactId;

/// Artifacts in memory.
type Aside = Arc<Mutex<BTreeMap<ArtifactId, Vec<u8>>>>;

/// Content-addressed bytes. The same bytes are stored once.
#[derive(Clone, Debug)]
pub struct Artifacts {
    dir: PathBuf,
    masker: Masker,
    /// What a run that must not be changed would have stored.
    aside: Option<Aside>,
}

impl Artifacts {
    /// Artifacts below `dir`, which is made when the first one is stored.
    pub fn new(dir: PathBuf, masker: Masker) -> Self {
        Self { dir, masker, aside: None }
    }

    /// The same artifacts, to be read only: what is stored from now on stays in memory.
    pub(super) fn untouched(mut self) -> Self {
        self.aside = Some(Arc::default());
        self
    }

    /// The name that `bytes` have or would have here.
    pub fn name(&self, bytes: &[u8]) -> ArtifactId {
        name_of(&self.masker.mask(bytes))
    }

    /// The same of a JSON document.
    pub fn name_json(&self, document: &[u8]) -> ArtifactId {
        name_of(&self.masker.mask_json(document))
    }

    /// The name that `bytes` have where nothing of them is masked.
    pub fn plain_name(bytes: &[u8]) -> ArtifactId {
        name_of(bytes)
    }

    /// Whether `bytes` hold no secret, so that what is stored of them is all of them.
    pub fn keeps_whole(&self, bytes: &[u8]) -> bool {
        matches!(self.masker.mask(bytes), Cow::Borrowed(_))
    }

    /// Stores `bytes`, secrets masked, and gives their name.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn put(&self, bytes: &[u8]) -> Result<ArtifactId, JournalError> {
        self.store(self.masker.mask(bytes))
    }

    /// Stores a JSON document, whose form stays as it is whatever is masked of its texts, and gives its name; also
    /// whether something was masked.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn put_json(&self, document: &[u8]) -> Result<(ArtifactId, bool), JournalError> {
        let masked = self.masker.mask_json(document);
        let is_masked = matches!(masked, Cow::Owned(_));
        Ok((self.store(masked)?, is_masked))
    }

    fn store(&self, bytes: Cow<'_, [u8]>) -> Result<ArtifactId, JournalError> {
        let id = name_of(&bytes);
        let path = self.path(&id);
        if path.exists() {
            return Ok(id);
        }
        match &self.aside {
            Some(aside) => {
                let mut aside = aside.lock().unwrap_or_else(PoisonError::into_inner);
                aside.insert(id.clone(), bytes.into_owned());
            }
            None => write_atomically(&path, &bytes)?,
        }
        Ok(id)
    }

    /// Reads an artifact back and checks it against its name.
    ///
    /// # Errors
    /// When it is missing, unreadable or damaged.
    pub fn get(&self, id: &ArtifactId) -> Result<Vec<u8>, JournalError> {
        if let Some(aside) = &self.aside
            && let Some(bytes) = aside.lock().unwrap_or_else(PoisonError::into_inner).get(id)
        {
            return Ok(bytes.clone());
        }
        let path = self.path(id);
        let bytes = fs::read(&path).map_err(|error| JournalError::io("read", &path, error))?;
        if name_of(&bytes) != *id {
            return Err(JournalError::Damaged(id.to_string()));
        }
        Ok(bytes)
    }

    /// Whether an artifact is stored, without reading it.
    ///
    /// # Errors
    /// When it is not, or can't be looked at.
    pub fn check_stored(&self, id: &ArtifactId) -> Result<(), JournalError> {
        let path = self.path(id);
        fs::metadata(&path).map(drop).map_err(|error| JournalError::io("read", &path, error))
    }

    /// Those stored that are damaged.
    ///
    /// # Errors
    /// When one can't be read.
    pub fn damaged(&self) -> Result<Vec<ArtifactId>, JournalError> {
        let mut damaged = Vec::new();
        for shard in entries(&self.dir)? {
            for file in entries(&shard)? {
                let names = [&shard, &file].map(|path| path.file_name().unwrap_or_default());
                let id = ArtifactId::new(names.map(|name| name.to_string_lossy()).concat());
                // What a kill left half written has another name.
                if id.as_str().len() != NAME_LENGTH {
                    continue;
                }
                match self.get(&id) {
                    Err(JournalError::Damaged(_)) => damaged.push(id),
                    other => drop(other?),
                }
            }
        }
        Ok(damaged)
    }

    /// Where an artifact is stored.
    pub fn path(&self, id: &ArtifactId) -> PathBuf {
        let (shard, rest) = id.as_str().split_at_checked(2).unwrap_or(("", id.as_str()));
        self.dir.join(shard).join(rest)
    }
}

/// Digits of an artifact's name.
const NAME_LENGTH: usize = 64;

/// Lower-case hexadecimal SHA-256.
pub(super) fn name_of(bytes: &[u8]) -> ArtifactId {
    ArtifactId::new(hex(&Sha256::digest(bytes)))
}

/// What lies in a directory, in order; nothing where there is none.
fn entries(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let failed = |error| JournalError::io("read", dir, error);
    let found = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(failed)?,
    };
    let found: io::Result<BTreeSet<_>> = found.map(|entry| Ok(entry?.path())).collect();
    Ok(found.map_err(failed)?.into_iter().collect())
}

/// Bytes as lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes a file whole or not at all: temporary file beside it, sync, rename.
///
/// # Errors
/// When the disk refuses; nothing is left behind then.
pub(super) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
    let write = || -> io::Result<()> {
        let dir = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let mut file = tempfile::NamedTempFile::new_in(dir)?;
        file.write_all(bytes)?;
        file.as_file().sync_data()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(|error| JournalError::io("write", path, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_once_and_notices_damage() {
        let dir = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::new(dir.path().into(), Masker::new(["secret-value".to_owned()]));
        let id = artifacts.put(b"a secret-value here").unwrap();
        assert_eq!(artifacts.put(b"a secret-value here").unwrap(), id);
        assert_eq!(artifacts.get(&id).unwrap(), b"a [masked] here");
        fs::write(artifacts.path(&id), b"changed").unwrap();
        assert!(matches!(artifacts.get(&id), Err(JournalError::Damaged(_))));
        artifacts.put(b"another one").unwrap();
        fs::write(artifacts.path(&id).with_file_name(".tmpA1b2c3"), "half").unwrap();
        assert_eq!(artifacts.damaged().unwrap(), [id]);
    }
}
