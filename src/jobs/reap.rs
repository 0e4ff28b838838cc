//! The reap journal: which processes a dead engine may have left, and their end at the next start.
//!
//! The warden's end is what takes jobs with it; this is the backstop for a warden or an init that hangs. One
//! file per engine, named after its process: the warden and each job's init with id, start time and boot, struck
//! out when the end is proven. Lives here: the format and the sweep. Never here: how a process is killed
//! (`sandbox` does that, and leaves a stranger with the same id alone).

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use crate::sandbox::{Life, ProcessId, Warden};

/// The directory in the state directory.
const DIR: &str = "reap";
/// How a file's name ends.
const ENDING: &str = "jsonl";
/// The longest file that is read as a journal, in bytes: hundreds of thousands of jobs.
const LONGEST: u64 = 64 << 20;

/// A line of a reap journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The engine that writes: the first line.
    Engine(ProcessId),
    /// Its warden.
    Warden(ProcessId),
    /// The init of the job with this number.
    Born(u64, ProcessId),
    /// Nothing of that job is alive.
    Gone(u64),
}

/// What a sweep found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Journals of dead engines.
    pub journals: u32,
    /// Processes that were still there and were killed.
    pub killed: u32,
}

/// This engine's journal. Dropping it removes the file.
#[derive(Debug)]
pub struct ReapJournal {
    path: PathBuf,
}

impl ReapJournal {
    /// Begins this engine's journal in the state directory and lets the warden's jobs be noted in it.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn begin(state: &Path, warden: &Warden) -> std::io::Result<Self> {
        let dir = state.join(DIR);
        std::fs::create_dir_all(&dir)?;
        let engine = ProcessId::own().ok_or(std::io::ErrorKind::NotFound)?;
        let path = dir.join(format!("{}-{}.{ENDING}", engine.pid, engine.start));
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&path)?;
        let file = Mutex::new(file);
        write(&file, &Line::Engine(engine))?;
        if let Some(warden) = warden.identity() {
            write(&file, &Line::Warden(warden.clone()))?;
        }
        warden.observe(move |life| {
            let line = match life {
                Life::Born(id, process) => Line::Born(id, process.clone()),
                Life::Gone(id) => Line::Gone(id),
            };
            // A backstop that can't be written must not end a run: the warden's end still holds.
            if let Err(error) = write(&file, &line) {
                tracing::warn!("the reap journal could not be written: {error}");
            }
        });
        Ok(Self { path })
    }
}

impl Drop for ReapJournal {
    fn drop(&mut self) {
        // The warden goes with the engine, and every job with it: what a next start would find is nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write(file: &Mutex<File>, line: &Line) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    // One call for a line, so that a killed engine leaves whole ones.
    file.lock().unwrap_or_else(std::sync::PoisonError::into_inner).write_all(&text)
}

/// Kills what dead engines left, by their journals in the state directory, and removes those. What a
/// living engine has is left alone.
pub fn sweep_journals(state: &Path) -> Swept {
    let mut swept = Swept::default();
    let Ok(entries) = std::fs::read_dir(state.join(DIR)) else { return swept };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_none_or(|ending| ending != ENDING) {
            continue;
        }
        let Ok(text) = read(&path) else { continue };
        let (engine, open) = open_of(&text);
        if engine.is_some_and(|engine| engine.is_there()) {
            continue;
        }
        swept.journals += 1;
        swept.killed += open.iter().filter(|process| process.kill()).count() as u32;
        let _ = std::fs::remove_file(&path);
    }
    swept
}

/// A journal's text. What is no plain file of a journal's size is none: on a FIFO a start would wait for ever.
fn read(path: &Path) -> std::io::Result<String> {
    let flags = (rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOFOLLOW).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LONGEST {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut text = String::new();
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text)
}

/// The engine of a journal, and what it had open, jobs first. A torn line is passed over.
fn open_of(text: &str) -> (Option<ProcessId>, Vec<ProcessId>) {
    let (mut engine, mut warden, mut jobs) = (None, None, BTreeMap::new());
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Engine(process) => engine = Some(process),
            Line::Warden(process) => warden = Some(process),
            Line::Born(id, process) => drop(jobs.insert(id, process)),
            Line::Gone(id) => drop(jobs.remove(&id)),
        }
    }
    (engine, jobs.into_values().chain(warden).collect())
}
