//! Whether what a finished run left is what was written: line by line, the record, every artifact.
//!
//! Never here: whether a decision follows from it.

use std::collections::BTreeSet;
use std::fs;

use super::artifacts::name_of;
use super::read::ALTERED;
use super::runs::{FENCE_SECRET, JOURNAL, RECORD};
use super::{Entry, JournalError, Read, RunDir};
use crate::model::ArtifactId;

impl RunDir {
    /// What of the journal and the record is not as it was written, in words; empty when all is. Little is known of a
    /// journal whose engine tied no lines to each other.
    ///
    /// # Errors
    /// When something can't be read.
    pub fn faults(&self, read: &Read) -> Result<Vec<String>, JournalError> {
        let line = |line| format!("{JOURNAL} line {line}: {ALTERED}");
        let mut faults: Vec<String> = read.altered.iter().map(line).collect();
        if read.torn > 0 {
            faults.push(format!("{JOURNAL}: its last line is torn"));
        }
        faults.extend(self.other_record(read)?);
        Ok(faults)
    }

    /// Whether every artifact is whole, every one that the journal names is there, and so is the secret of its fences.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check_artifacts(&self, read: &Read) -> Result<(), JournalError> {
        let artifacts = self.artifacts();
        let fences = read.entries.iter().find_map(|entry| match entry {
            Entry::Plan { fences, .. } => fences.as_ref(),
            _ => None,
        });
        if fences.is_some() && fences != self.fences().as_ref() {
            return Err(JournalError::Corrupt {
                path: self.path().join(FENCE_SECRET).display().to_string(),
                reason: "it is not the one that the run began with".to_owned(),
            });
        }
        if let Some(damaged) = artifacts.damaged()?.first() {
            return Err(JournalError::Damaged(damaged.to_string()));
        }
        let named: BTreeSet<&ArtifactId> = read.entries.iter().flat_map(named).collect();
        named.into_iter().try_for_each(|id| artifacts.check_stored(id))
    }

    /// What is wrong with the record: the journal names the one that was written last.
    ///
    /// # Errors
    /// When the record can't be read.
    pub fn other_record(&self, read: &Read) -> Result<Option<String>, JournalError> {
        if !read.tied {
            return Ok(None);
        }
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

/// The artifacts that an entry names.
fn named(entry: &Entry) -> Vec<&ArtifactId> {
    match entry {
        Entry::Plan { frame, .. } => vec![frame],
        Entry::CallBegan { request, .. } => vec![request],
        Entry::CallEnded { reply, .. } => reply.iter().collect(),
        Entry::Attempt { attempt, .. } => vec![attempt],
        Entry::Gated { gates, .. } => {
            gates.iter().filter_map(|gate| gate.artifact.as_ref()).collect()
        }
        Entry::BaseKept { gates } => vec![gates],
        _ => Vec::new(),
    }
}
