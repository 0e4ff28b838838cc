//! Reading a journal back, as far as it is whole.
//!
//! A line is written and synced before its effect is used. A kill can tear the last line only: what it
//! would have said has had no effect yet. Never here: what an entry means.

use std::fs;
use std::path::{Path, PathBuf};

use super::chain::Follower;
use super::entry::{Entry, JOURNAL_VERSION};
use super::runs::JOURNAL;
use super::{JournalError, RunDir};

/// What is wrong with a line that can be read.
pub(super) const ALTERED: &str = "it is not what was written behind the line before it";

/// What a journal holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read {
    /// Its whole lines, in order.
    pub entries: Vec<Entry>,
    /// Bytes of a last line that a kill tore; 0 when there is none.
    pub torn: u64,
    /// Lines, from 1, that are not what was written behind those before them; empty in what is gone on with.
    pub altered: Vec<usize>,
    /// Whether its lines are tied to each other: older engines did not do that.
    pub tied: bool,
}

impl RunDir {
    /// Reads the journal, without changing it.
    ///
    /// # Errors
    /// When it is missing, was written by a newer engine, or is damaged anywhere but in its last line.
    pub fn read_journal(&self) -> Result<Read, JournalError> {
        let read = self.inspect_journal()?;
        match read.altered.first() {
            Some(line) => Err(JournalError::Corrupt {
                path: self.path().join(JOURNAL).display().to_string(),
                reason: format!("line {line}: {ALTERED}"),
            }),
            None => Ok(read),
        }
    }

    /// Reads a journal of which every line can be read, altered ones, too: to find out what that changes.
    ///
    /// # Errors
    /// When it is missing, was written by a newer engine, or a line other than its last can't be read.
    pub fn inspect_journal(&self) -> Result<Read, JournalError> {
        let path = self.path().join(JOURNAL);
        match fs::read(&path) {
            Ok(bytes) => parse(&bytes, &path),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Read::default()),
            Err(error) => Err(JournalError::io("read", &path, error)),
        }
    }

    /// Takes a torn last line off, and keeps its bytes in a file beside the journal.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn cut_torn_line(&self, read: &Read) -> Result<Option<PathBuf>, JournalError> {
        if read.torn == 0 {
            return Ok(None);
        }
        let path = self.path().join(JOURNAL);
        let bytes = fs::read(&path).map_err(|error| JournalError::io("read", &path, error))?;
        let whole = bytes.len().saturating_sub(read.torn as usize);
        let aside = self.path().join("journal.torn");
        super::artifacts::write_atomically(&aside, &bytes[whole..])?;
        let file = fs::OpenOptions::new().write(true).open(&path);
        let cut = file.and_then(|file| file.set_len(whole as u64).and_then(|()| file.sync_all()));
        cut.map_err(|error| JournalError::io("write", &path, error))?;
        Ok(Some(aside))
    }
}

fn parse(bytes: &[u8], path: &Path) -> Result<Read, JournalError> {
    let (mut read, mut follower) = (Read::default(), Follower::default());
    let mut at = 0;
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let last = at + line.len() == bytes.len();
        at += line.len();
        match entry(line) {
            Ok(Entry::Plan { version, .. }) if version > JOURNAL_VERSION => {
                return Err(newer(path, u64::from(version)));
            }
            Ok(entry) => {
                read.entries.push(entry);
                if !follower.fits(line.strip_suffix(b"\n").unwrap_or(line)) {
                    read.altered.push(number + 1);
                }
            }
            Err(_) if last => read.torn = line.len() as u64,
            Err(reason) => return Err(broken(path, number + 1, &reason, line)),
        }
    }
    read.tied = follower.is_tied();
    Ok(read)
}

/// A line without its end is torn even where its text would do: nothing after it was synced.
fn entry(line: &[u8]) -> Result<Entry, String> {
    let text = line.strip_suffix(b"\n").ok_or("it has no end")?;
    if text.trim_ascii().is_empty() {
        return Err("it is empty".to_owned());
    }
    serde_json::from_slice(text).map_err(|error| error.to_string())
}

/// A newer engine's journal is told apart from a damaged one by its first line.
fn broken(path: &Path, number: usize, reason: &str, line: &[u8]) -> JournalError {
    let version = serde_json::from_slice::<serde_json::Value>(line).ok();
    let version = version.and_then(|value| value.get("version")?.as_u64());
    match version.filter(|version| *version > u64::from(JOURNAL_VERSION)) {
        Some(found) => newer(path, found),
        None => JournalError::Corrupt {
            path: path.display().to_string(),
            reason: format!("line {number}: {reason}"),
        },
    }
}

fn newer(path: &Path, found: u64) -> JournalError {
    JournalError::Newer { path: path.display().to_string(), found, known: JOURNAL_VERSION }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "{\"entry\":\"resumed\",\"engine\":\"1\"}\n";

    fn read(text: &str) -> Result<Read, JournalError> {
        parse(text.as_bytes(), Path::new("journal.jsonl"))
    }

    #[test]
    fn whole_lines_are_read_and_a_torn_last_one_is_counted() {
        assert_eq!(read("").unwrap(), Read::default());
        let whole = read(&LINE.repeat(3)).unwrap();
        assert_eq!((whole.entries.len(), whole.torn), (3, 0));
        for cut in 1..LINE.len() {
            let torn = read(&format!("{}{}", LINE.repeat(2), &LINE[..cut])).unwrap();
            assert_eq!((torn.entries.len(), torn.torn), (2, cut as u64));
        }
    }

    #[test]
    fn damage_in_the_middle_names_its_line_and_a_newer_journal_is_told() {
        let error = read(&format!("{LINE}{{\"entry\": 7}}\n{LINE}")).unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
        let error = read(&format!("{LINE}\n{LINE}")).unwrap_err();
        assert!(error.to_string().contains("line 2: it is empty"), "{error}");
        let newer = format!("{{\"entry\":\"plan\",\"version\":99}}\n{LINE}");
        assert!(matches!(read(&newer), Err(JournalError::Newer { found: 99, .. })));
    }
}
