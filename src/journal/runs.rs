//! The directories of runs: making, finding, listing.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::artifacts::{name_of, write_atomically};
use super::chain::Chain;
use super::lock::RunLock;
use super::sweep::sweep;
use super::{Artifacts, Entry, JournalError, Masker};
use crate::model::{ArtifactId, RECORD_VERSION, RunId, RunRecord};

/// The journal's file in a run's directory.
pub(super) const JOURNAL: &str = "journal.jsonl";
/// The record's.
pub(super) const RECORD: &str = "record.json";

/// All runs below one state directory.
#[derive(Clone, Debug)]
pub struct Runs {
    dir: PathBuf,
}

/// A line of `bakeoff runs`.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// Its record; absent while it goes on, or when it was cut off.
    pub record: Result<Box<RunRecord>, String>,
}

impl Runs {
    /// Runs below `state` (that is, in `state/runs`).
    pub fn new(state: &Path) -> Self {
        Self { dir: state.join("runs") }
    }

    /// Makes the directory of a new run.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn create(&self, masker: Masker) -> Result<RunDir, JournalError> {
        let run = RunId::new(uuid::Uuid::now_v7().to_string());
        let dir = self.dir.join(run.as_str());
        // It gets its name only when it is locked: a cleaner never finds it without its owner.
        let hidden = self.dir.join(format!("{COMING}{run}"));
        // Prompts, answers and diffs are for nobody's eyes but the user's.
        let made = fs::create_dir_all(&self.dir)
            .and_then(|()| fs::DirBuilder::new().mode(0o700).create(&hidden));
        made.map_err(|error| JournalError::io("create", &hidden, error))?;
        let lock = RunLock::take(&run, &hidden)?;
        fs::rename(&hidden, &dir).map_err(|error| JournalError::io("create", &dir, error))?;
        RunDir::with(run, dir, masker, Some(lock))
    }

    /// Takes a run that was found, to go on with it. It is this process's until the value is dropped.
    ///
    /// # Errors
    /// When another process has it, or the disk refuses.
    pub fn take(found: RunDir, masker: Masker) -> Result<RunDir, JournalError> {
        RunDir::open(found.run, found.dir, masker, true)
    }

    /// Makes the directory of a new run that begins where another one stands: with its artifacts and
    /// its repository, and an empty journal.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn branch(&self, from: &RunDir, masker: Masker) -> Result<RunDir, JournalError> {
        let new = self.create(masker)?;
        for part in ["artifacts", "repo.git", FENCE_SECRET] {
            let (from, to) = (from.dir.join(part), new.dir.join(part));
            copy_all(&from, &to).map_err(|error| JournalError::io("copy", &from, error))?;
        }
        Ok(new)
    }

    /// Finds a run by its id, the beginning or end of its id (4 characters or more), `latest`, or the path of
    /// its directory, wherever that was moved to.
    ///
    /// # Errors
    /// When none or more than one matches, or so little of an id would do for one.
    pub fn find(&self, asked: &str) -> Result<RunDir, JournalError> {
        if asked.contains('/') {
            return self.at_path(Path::new(asked));
        }
        let all = self.ids()?;
        let unknown = || JournalError::UnknownRun { asked: asked.to_owned() };
        let matching: Vec<_> = match asked {
            "latest" => all.last().cloned().into_iter().collect(),
            _ => all
                .into_iter()
                .filter(|id| !asked.is_empty() && (id.starts_with(asked) || id.ends_with(asked)))
                .collect(),
        };
        match matching.as_slice() {
            [] => Err(unknown()),
            _ if asked.chars().count() < LEAST => {
                Err(JournalError::ShortRun { asked: asked.to_owned(), least: LEAST })
            }
            [id] => RunDir::open(RunId::new(id), self.dir.join(id), Masker::default(), false),
            many => Err(JournalError::Ambiguous { asked: asked.to_owned(), count: many.len() }),
        }
    }

    fn at_path(&self, asked: &Path) -> Result<RunDir, JournalError> {
        let unknown = || JournalError::UnknownRun { asked: asked.display().to_string() };
        let dir = asked.canonicalize().map_err(|_| unknown())?;
        let name = dir.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !dir.join(JOURNAL).is_file() {
            return Err(unknown());
        }
        RunDir::open(RunId::new(name), dir, Masker::default(), false)
    }

    /// Every run, oldest first.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub fn list(&self) -> Result<Vec<RunSummary>, JournalError> {
        let summary = |id: String| {
            let run = RunId::new(&id);
            let record = read_record(&self.dir.join(&id), &run).map_err(|error| error.to_string());
            RunSummary { run, record }
        };
        Ok(self.ids()?.into_iter().map(summary).collect())
    }

    /// The records of all runs, the newest first, each read when it is asked for.
    ///
    /// # Errors
    /// When the directory can't be read; a record that can't be is an error of its own.
    pub fn newest(
        &self,
    ) -> Result<impl Iterator<Item = Result<Box<RunRecord>, JournalError>>, JournalError> {
        let read = |id: String| read_record(&self.dir.join(&id), &RunId::new(&id));
        Ok(self.ids()?.into_iter().rev().map(read))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn ids(&self) -> Result<Vec<String>, JournalError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(JournalError::io("read", &self.dir, error)),
        };
        let mut ids: Vec<_> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| uuid::Uuid::try_parse(name).is_ok())
            .collect();
        ids.sort();
        Ok(ids)
    }
}

/// So many characters of an id are a name of its run, at least.
const LEAST: usize = 4;

/// What a run's directory is called until it is locked.
pub(super) const COMING: &str = "new-";

/// The file with the secret of a run's fences.
pub(super) const FENCE_SECRET: &str = "fence.secret";

/// Copies a file, or a directory and all that is in it. What is not there is no error.
fn copy_all(from: &Path, to: &Path) -> std::io::Result<()> {
    let meta = match fs::symlink_metadata(from) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        meta => meta?,
    };
    if !meta.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// What writes a journal.
#[derive(Debug)]
struct Pen {
    file: File,
    /// Its end, once that was looked for: a torn last line may still have to go.
    chain: Option<Chain>,
}

impl Pen {
    fn write(&mut self, line: Vec<u8>, path: &Path) -> std::io::Result<()> {
        let chain = match self.chain.take() {
            Some(chain) => chain,
            None => Chain::end(&fs::read(path)?),
        };
        let (mut line, next) = chain.tie(line);
        line.push(b'\n');
        let whole = self.file.metadata()?.len();
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        if written.is_err() {
            // A part of a line must not stand before the lines of those who find room again.
            let _ = self.file.set_len(whole);
        }
        self.chain = Some(if written.is_ok() { next } else { chain });
        written
    }
}

/// The directory of one run.
#[derive(Clone, Debug)]
pub struct RunDir {
    run: RunId,
    dir: PathBuf,
    artifacts: Artifacts,
    masker: Masker,
    journal: Option<Arc<Mutex<Pen>>>,
    _lock: Option<RunLock>,
}

impl RunDir {
    fn open(run: RunId, dir: PathBuf, masker: Masker, append: bool) -> Result<Self, JournalError> {
        let lock = append.then(|| RunLock::take(&run, &dir)).transpose()?;
        Self::with(run, dir, masker, lock)
    }

    /// Whoever holds the lock may write.
    fn with(
        run: RunId,
        dir: PathBuf,
        masker: Masker,
        lock: Option<RunLock>,
    ) -> Result<Self, JournalError> {
        let append = lock.is_some();
        if append {
            sweep(&dir).map_err(|error| JournalError::io("clean", &dir, error))?;
        }
        let artifacts = Artifacts::new(dir.join("artifacts"), masker.clone());
        let artifacts = if append { artifacts } else { artifacts.untouched() };
        let path = dir.join(JOURNAL);
        let journal = append
            .then(|| OpenOptions::new().append(true).create(true).open(&path))
            .transpose()
            .map_err(|error| JournalError::io("create", &path, error))?
            .map(|file| Arc::new(Mutex::new(Pen { file, chain: None })));
        Ok(Self { run, dir, artifacts, masker, journal, _lock: lock })
    }

    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.run
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// What masks everything that is written here.
    pub fn masker(&self) -> &Masker {
        &self.masker
    }

    /// Its artifacts.
    pub fn artifacts(&self) -> &Artifacts {
        &self.artifacts
    }

    /// Removes the directory of a run that never wrote a line of its journal, and says so. Nothing is
    /// lost by that; a directory that can't be removed stays.
    pub fn discard_blank(&self) -> bool {
        self.is_blank() && fs::remove_dir_all(&self.dir).is_ok()
    }

    /// Appends a line and syncs it. Does nothing on a run that was opened for reading.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn append(&self, entry: &Entry) -> Result<(), JournalError> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let path = self.dir.join(JOURNAL);
        let failed = |error| JournalError::io("write", &path, error);
        let mut line = serde_json::to_vec(entry).map_err(|error| failed(error.into()))?;
        line = self.masker.mask_json(&line).into_owned();
        let mut pen = journal.lock().unwrap_or_else(PoisonError::into_inner);
        pen.write(line, &path).map_err(failed)
    }

    /// The secret of the run's fences: made once and kept, so that a run that goes on says the same
    /// words again.
    ///
    /// # Errors
    /// When it can't be read or made.
    pub fn fence_secret(&self) -> Result<[u8; 32], JournalError> {
        let path = self.dir.join(FENCE_SECRET);
        match fs::read(&path) {
            Ok(bytes) => <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| {
                let reason = "it does not hold 32 bytes".to_owned();
                JournalError::Corrupt { path: path.display().to_string(), reason }
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && self.is_blank() => {
                self.new_secret(&path)
            }
            Err(error) => Err(JournalError::io("read", &path, error)),
        }
    }

    /// The name that the secret of the run's fences would have as an artifact, once there is one.
    pub fn fences(&self) -> Option<ArtifactId> {
        fs::read(self.dir.join(FENCE_SECRET)).ok().map(|secret| name_of(&secret))
    }

    /// Whether nothing was journaled yet.
    pub fn is_blank(&self) -> bool {
        fs::metadata(self.dir.join(JOURNAL)).map_or(0, |meta| meta.len()) == 0
    }

    fn new_secret(&self, path: &Path) -> Result<[u8; 32], JournalError> {
        let mut secret = [0; 32];
        rustix::rand::getrandom(&mut secret, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| JournalError::io("make", path, error.into()))?;
        if self.journal.is_some() {
            // Readable by its owner only, as temporary files are.
            write_atomically(path, &secret)?;
        }
        Ok(secret)
    }

    /// Writes the record whole; the journal names it before. Does nothing on a run that was opened for reading.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn write_record(&self, record: &RunRecord) -> Result<(), JournalError> {
        if self.journal.is_none() {
            return Ok(());
        }
        let path = self.dir.join(RECORD);
        let mut bytes = serde_json::to_vec_pretty(self.masked(record).as_ref().unwrap_or(record))
            .map_err(|error| JournalError::io("write", &path, error.into()))?;
        bytes.push(b'\n');
        self.append(&Entry::Recorded { record: name_of(&bytes) })?;
        write_atomically(&path, &bytes)
    }

    /// When the run began, by its id; that of an engine that goes on with it is another time.
    pub fn began(&self) -> Option<jiff::Timestamp> {
        let (seconds, nanos) =
            uuid::Uuid::try_parse(self.run.as_str()).ok()?.get_timestamp()?.to_unix();
        jiff::Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?).ok()
    }

    /// A value with every secret masked, as it would be written here: for what is shown or sent to
    /// others. Nothing when it holds none.
    pub fn masked<T: Serialize + DeserializeOwned>(&self, value: &T) -> Option<T> {
        let bytes = serde_json::to_vec(value).ok()?;
        match self.masker.mask_json(&bytes) {
            std::borrow::Cow::Borrowed(_) => None,
            std::borrow::Cow::Owned(masked) => serde_json::from_slice(&masked).ok(),
        }
    }

    /// Reads the record.
    ///
    /// # Errors
    /// When there is none, or it is damaged or of a newer engine.
    pub fn record(&self) -> Result<RunRecord, JournalError> {
        read_record(&self.dir, &self.run).map(|record| *record)
    }
}

fn read_record(dir: &Path, run: &RunId) -> Result<Box<RunRecord>, JournalError> {
    let path = dir.join(RECORD);
    let bytes = match fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let journal = dir.join(JOURNAL);
            return Err(JournalError::NoRecord { run: run.to_string(), journal });
        }
        Err(error) => return Err(JournalError::io("read", &path, error)),
    };
    let corrupt =
        |reason: String| JournalError::Corrupt { path: path.display().to_string(), reason };
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| corrupt(error.to_string()))?;
    let version = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
    if version > u64::from(RECORD_VERSION) {
        let path = path.display().to_string();
        return Err(JournalError::Newer { path, found: version, known: RECORD_VERSION });
    }
    serde_json::from_value(value).map_err(|error| corrupt(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_runs_by_either_end_of_the_id() {
        let state = tempfile::tempdir().unwrap();
        let runs = Runs::new(state.path());
        assert!(runs.list().unwrap().is_empty());
        let first = runs.create(Masker::default()).unwrap();
        let second = runs.create(Masker::default()).unwrap();
        let id = second.id().as_str();
        assert_eq!(runs.find(&id[id.len() - 6..]).unwrap().id(), second.id());
        assert_eq!(runs.find("latest").unwrap().id(), second.id());
        assert_eq!(runs.find(first.id().as_str()).unwrap().id(), first.id());
        assert_eq!(runs.find(&id[id.len() - LEAST..]).unwrap().id(), second.id());
        let short = runs.find(&id[id.len() - LEAST + 1..]).unwrap_err();
        assert!(short.to_string().contains("give at least 4 characters"), "{short}");
        assert!(matches!(runs.find("nothing"), Err(JournalError::UnknownRun { .. })));
        assert!(matches!(first.record(), Err(JournalError::NoRecord { .. })));
    }

    #[test]
    fn a_run_has_its_name_only_with_its_owner() {
        let state = tempfile::tempdir().unwrap();
        let runs = Runs::new(state.path());
        let run = runs.create(Masker::default()).unwrap();
        let names: Vec<_> =
            fs::read_dir(runs.dir()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(names, [run.id().as_str()]);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(runs.dir().join(&names[0])).unwrap().permissions(),
        );
        assert_eq!(mode & 0o077, 0, "nobody else reads in it");
        let other = runs.find(run.id().as_str()).unwrap();
        assert!(matches!(Runs::take(other, Masker::default()), Err(JournalError::Live { .. })));
        assert!(run.is_blank() && run.path().join(JOURNAL).is_file());
    }

    #[test]
    fn a_newer_record_is_told_and_a_torn_one_too() {
        let state = tempfile::tempdir().unwrap();
        let run = Runs::new(state.path()).create(Masker::default()).unwrap();
        fs::write(run.path().join(RECORD), r#"{"version": 99}"#).unwrap();
        assert!(matches!(run.record(), Err(JournalError::Newer { found: 99, .. })));
        fs::write(run.path().join(RECORD), r#"{"version": "#).unwrap();
        assert!(matches!(run.record(), Err(JournalError::Corrupt { .. })));
    }
}
