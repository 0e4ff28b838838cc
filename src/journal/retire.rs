//! Runs that are no longer wanted: how old and large each is, and its end.
//!
//! Never here: a decision which ones, and anything of a run that an engine works on.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::lock::RunLock;
use super::runs::{COMING, JOURNAL, RECORD};
use super::{JournalError, Runs};
use crate::model::RunId;

/// A run as it lies on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDisk {
    /// The run.
    pub run: RunId,
    /// Its directory.
    pub path: PathBuf,
    /// How long ago it began.
    pub age: Duration,
    /// Files in it.
    pub files: u64,
    /// Their allocated bytes.
    pub bytes: u64,
}

/// What a run's directory is called while it is removed.
const GOING: &str = "gone-";

/// Far longer than a directory is there before it gets its name.
const LONG: Duration = Duration::from_secs(3600);

impl Runs {
    /// Every run that is on the disk, oldest first. Nothing of it is read.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn on_disk(&self) -> Result<Vec<OnDisk>, JournalError> {
        let measured = |id: String| {
            let path = self.dir().join(&id);
            let (files, bytes) = measure(&path);
            OnDisk { age: age(&id), run: RunId::new(id), path, files, bytes }
        };
        Ok(self.ids()?.into_iter().map(measured).collect())
    }

    /// Removes a run, or with `dry` only tries whether it could be; false when an engine works on it, or
    /// has written to it after `since`: what went on when the cleaner chose has its results to hand over.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn remove(&self, run: &RunId, since: SystemTime, dry: bool) -> Result<bool, JournalError> {
        let dir = self.dir().join(run.as_str());
        let _lock = match RunLock::take(run, &dir) {
            Ok(lock) => lock,
            Err(JournalError::Live { .. }) => return Ok(false),
            // Another cleaner was faster.
            Err(JournalError::UnknownRun { .. }) => return Ok(true),
            Err(error) => return Err(error),
        };
        if written(&dir).is_some_and(|time| time > since) {
            return Ok(false);
        }
        if !dry {
            // First out of sight: a run is whole or not there.
            let going = self.dir().join(format!("{GOING}{run}"));
            fs::rename(&dir, &going).map_err(|error| JournalError::io("remove", &dir, error))?;
            fs::remove_dir_all(&going)
                .map_err(|error| JournalError::io("remove", &going, error))?;
        }
        Ok(true)
    }

    /// Removes what is left of runs whose removal was cut off.
    pub fn remove_rest(&self) {
        for entry in fs::read_dir(self.dir()).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            // A directory without its final name for so long belongs to an engine that was killed.
            let rest = name.strip_prefix(COMING).is_some_and(|run| age(run) > LONG);
            if rest || name.starts_with(GOING) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// When a run's journal or record was last written.
fn written(dir: &Path) -> Option<SystemTime> {
    let time = |name| fs::metadata(dir.join(name)).and_then(|meta| meta.modified()).ok();
    time(JOURNAL).max(time(RECORD))
}

/// How long ago an id was made: it begins with the time (RFC 9562, version 7).
fn age(id: &str) -> Duration {
    let made = uuid::Uuid::try_parse(id).ok().and_then(|id| id.get_timestamp());
    let made = made.map(|time| time.to_unix()).map(|(s, n)| Duration::new(s, n));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(made.unwrap_or(now))
}

fn measure(path: &Path) -> (u64, u64) {
    let Ok(meta) = fs::symlink_metadata(path) else { return (0, 0) };
    if !meta.is_dir() {
        return (1, meta.blocks() * 512);
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|e| measure(&e.path())).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Masker;

    #[test]
    fn a_run_goes_whole_unless_an_engine_works_on_it() {
        let state = tempfile::tempdir().unwrap();
        let runs = Runs::new(state.path());
        let live = runs.create(Masker::default()).unwrap();
        let done = runs.create(Masker::default()).unwrap().id().clone();
        assert_eq!(runs.on_disk().unwrap().len(), 2);
        assert!(runs.on_disk().unwrap()[0].age < Duration::from_secs(3600));
        let now = SystemTime::now() + Duration::from_secs(1);
        let before = now - Duration::from_secs(3600);
        assert!(!runs.remove(&done, before, false).unwrap(), "it ended after the cleaner chose");
        for dry in [true, false] {
            assert!(!runs.remove(live.id(), now, dry).unwrap());
            assert!(runs.remove(&done, now, dry).unwrap());
            assert_eq!(runs.on_disk().unwrap().len(), if dry { 2 } else { 1 });
        }
        fs::create_dir(state.path().join("runs/gone-x")).unwrap();
        runs.remove_rest();
        assert!(!state.path().join("runs/gone-x").exists());
        let old = "0190163d-8694-739b-aea5-966c26f8ad91";
        assert!(age(old) > Duration::from_secs(3600 * 24 * 100), "made in June 2024");
    }
}
