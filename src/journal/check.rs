//! Whether what a finished run left is what was written: line by line, the record, every artifact.
//!
//! Never here: whether a decision follows from it.

use std::fs;

use super::artifacts::name_of;
use super::read::ALTERED;
use super::runs::{JOURNAL, RECORD};
use super::{Entry, JournalError, Read, RunDir};

impl RunDir {
    /// What is not as it was written, in words; empty when all is. A journal of an engine that tied no lines to each
    /// other tells of its artifacts only.
    ///
    /// # Errors
    /// When something can't be read.
    pub fn faults(&self, read: &Read) -> Result<Vec<String>, JournalError> {
        let line = |line| format!("{JOURNAL} line {line}: {ALTERED}");
        let mut faults: Vec<String> = read.altered.iter().map(line).collect();
        if read.torn > 0 {
            faults.push(format!("{JOURNAL}: its last line is torn"));
        }
        if read.tied {
            faults.extend(self.other_record(read)?);
        }
        let damaged = |id| JournalError::Damaged(id).to_string();
        faults.extend(self.artifacts().damaged()?.iter().map(|id| damaged(id.to_string())));
        Ok(faults)
    }

    /// The journal names the record that was written last.
    fn other_record(&self, read: &Read) -> Result<Option<String>, JournalError> {
        let path = self.path().join(RECORD);
        let bytes = fs::read(&path).map_err(|error| JournalError::io("read", &path, error))?;
        let named = read.entries.iter().rev().find_map(|entry| match entry {
            Entry::Recorded { record } => Some(record),
            _ => None,
        });
        Ok((named != Some(&name_of(&bytes)))
            .then(|| format!("{RECORD}: it is not the record that {JOURNAL} names")))
    }
}
