//! The objects that a run made, in one file: a candidate's cost one append, where a file for each would
//! cost more than the whole verdict.
//!
//! Format: records of a head (magic, kind, the object's id, its length, the packed length, a CRC-32 of
//! all that and of the body; numbers in little-endian order) and a body, the object's bytes in zlib form.
//! A record is whole or not there: the file ends at the first that is not, and is cut there when
//! something is added. Never here: an object's meaning.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flate2::read::ZlibDecoder;
use flate2::{Compress, Crc};
use git2::{ObjectType, Oid};
use rustix::fs::{FlockOperation, flock};

use super::error::{GitContext, IoContext, RepoError, Result};
use super::pack_file;

/// What a record begins with.
const MAGIC: [u8; 3] = *b"bo1";
/// The bytes of a record's head.
const HEAD: usize = 3 + 1 + 20 + 8 + 8 + 4;
/// The largest body that is read, in bytes: what is said to be longer is damage.
const MOST: u64 = 4 << 30;

/// The objects.
#[derive(Debug)]
pub(crate) struct Made {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Open once something was added.
    file: Option<File>,
    places: HashMap<Oid, Place>,
    /// Where the next record goes, in bytes.
    end: u64,
}

/// Where an object is.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u64,
    packed: u64,
    length: u64,
    kind: ObjectType,
}

impl Made {
    /// Those in a file, which need not be there.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut state = State::default();
        match File::options().read(true).write(true).open(path) {
            Ok(file) => {
                let held = Held::take(&file).at("lock", path)?;
                state.catch_up(&file).at("read", path)?;
                drop(held);
                state.file = Some(file);
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).at("open", path),
        }
        Ok(Self { path: path.to_owned(), state: Mutex::new(state) })
    }

    /// Whether an object is there.
    pub(crate) fn has(&self, id: Oid) -> bool {
        self.state().places.contains_key(&id)
    }

    /// An object's size in bytes; nothing when it is not there.
    pub(crate) fn size(&self, id: Oid) -> Option<usize> {
        usize::try_from(self.state().places.get(&id)?.length).ok()
    }

    /// An object's kind and bytes; nothing when it is not there.
    ///
    /// # Errors
    /// When it can't be read, or is not what its id says.
    pub(crate) fn read(&self, id: Oid) -> Result<Option<(ObjectType, Vec<u8>)>> {
        let state = self.state();
        let (Some(place), Some(file)) = (state.places.get(&id).copied(), &state.file) else {
            return Ok(None);
        };
        let mut body = vec![0; usize::try_from(place.packed).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut body, place.at).at("read", &self.path)?;
        drop(state);
        let mut bytes = Vec::with_capacity(usize::try_from(place.length).unwrap_or(0));
        let mut plain = ZlibDecoder::new(body.as_slice()).take(place.length + 1);
        plain.read_to_end(&mut bytes).at("read", &self.path)?;
        if Oid::hash_object(place.kind, &bytes).doing("name an object")? != id {
            return Err(RepoError::Mismatch(format!("object {id} of the run is damaged")));
        }
        Ok(Some((place.kind, bytes)))
    }

    /// Adds objects with their ids, all in one write.
    ///
    /// # Errors
    /// When the disk refuses; nothing of it is there then.
    pub(crate) fn add(&self, objects: &[(Oid, ObjectType, &[u8])]) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let (mut out, mut places, mut packer) = (Vec::new(), Vec::new(), pack_file::packer());
        for (id, kind, bytes) in objects {
            let mut place =
                record(&mut out, &mut packer, (*id, *kind, bytes)).at("pack for", &self.path)?;
            place.at += HEAD as u64;
            places.push((*id, place));
        }
        let mut state = self.state();
        if state.file.is_none() {
            let mut options = File::options();
            let file = options.read(true).write(true).create(true).truncate(false);
            state.file = Some(file.open(&self.path).at("create", &self.path)?);
        }
        let start = state.append(&out).at("write", &self.path)?;
        let placed = |(id, place): (Oid, Place)| (id, Place { at: place.at + start, ..place });
        state.places.extend(places.into_iter().map(placed));
        Ok(())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Writes records behind all that are whole, and says where.
    fn append(&mut self, records: &[u8]) -> io::Result<u64> {
        let Some(file) = self.file.take() else { return Err(io::ErrorKind::NotFound.into()) };
        let written = Held::take(&file).and_then(|_held| {
            // Another process may have added some, or have died over it.
            self.catch_up(&file)?;
            if file.metadata()?.len() > self.end {
                file.set_len(self.end)?;
            }
            file.write_all_at(records, self.end)
        });
        self.file = Some(file);
        written?;
        let start = self.end;
        self.end += records.len() as u64;
        Ok(start)
    }

    /// Takes in the records behind those that are known.
    fn catch_up(&mut self, file: &File) -> io::Result<()> {
        let length = file.metadata()?.len();
        while let Some((id, place)) = next(file, self.end, length)? {
            self.end = place.at + place.packed;
            self.places.insert(id, place);
        }
        Ok(())
    }
}

/// The record at a place, if a whole one is there.
fn next(file: &File, at: u64, length: u64) -> io::Result<Option<(Oid, Place)>> {
    if length.saturating_sub(at) < HEAD as u64 {
        return Ok(None);
    }
    let mut head = [0; HEAD];
    file.read_exact_at(&mut head, at)?;
    let Some((id, mut place)) = parse(&head) else { return Ok(None) };
    place.at = at + HEAD as u64;
    if place.packed > MOST || place.packed > length - place.at {
        return Ok(None);
    }
    let mut body = vec![0; usize::try_from(place.packed).unwrap_or(usize::MAX)];
    file.read_exact_at(&mut body, place.at)?;
    Ok((sum(&head, &body) == head[HEAD - 4..]).then_some((id, place)))
}

fn parse(head: &[u8; HEAD]) -> Option<(Oid, Place)> {
    let kind = match head[3] {
        1 => ObjectType::Commit,
        2 => ObjectType::Tree,
        3 => ObjectType::Blob,
        _ => return None,
    };
    let number = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&head[at..at + 8]);
        u64::from_le_bytes(word)
    };
    let id = Oid::from_bytes(&head[4..24]).ok()?;
    let (length, packed) = (number(24), number(32));
    head.starts_with(&MAGIC).then_some((id, Place { at: 0, packed, length, kind }))
}

/// Appends a record, and gives its place with the beginning of the record for `at`.
fn record(
    out: &mut Vec<u8>,
    packer: &mut Compress,
    (id, kind, bytes): (Oid, ObjectType, &[u8]),
) -> io::Result<Place> {
    let at = out.len();
    let code = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Blob => 3,
        _ => return Err(io::ErrorKind::InvalidInput.into()),
    };
    out.resize(at + HEAD, 0);
    pack_file::pack(packer, bytes, out)?;
    let (packed, length) = ((out.len() - at - HEAD) as u64, bytes.len() as u64);
    let (head, body) = out[at..].split_at_mut(HEAD);
    head[..3].copy_from_slice(&MAGIC);
    head[3] = code;
    head[4..24].copy_from_slice(id.as_bytes());
    head[24..32].copy_from_slice(&length.to_le_bytes());
    head[32..40].copy_from_slice(&packed.to_le_bytes());
    let sum = sum(head, body);
    head[40..].copy_from_slice(&sum);
    Ok(Place { at: at as u64, packed, length, kind })
}

fn sum(head: &[u8], body: &[u8]) -> [u8; 4] {
    let mut crc = Crc::new();
    crc.update(&head[..HEAD - 4]);
    crc.update(body);
    crc.sum().to_le_bytes()
}

/// The file's lock, for as long as it lives: a second process may open the same run.
struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    fn take(file: &'a File) -> io::Result<Self> {
        flock(file, FlockOperation::LockExclusive)?;
        Ok(Self(file))
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(text: &[u8]) -> (Oid, ObjectType, &[u8]) {
        (Oid::hash_object(ObjectType::Blob, text).unwrap(), ObjectType::Blob, text)
    }

    fn read(made: &Made, text: &[u8]) -> Option<(ObjectType, Vec<u8>)> {
        made.read(blob(text).0).unwrap()
    }

    #[test]
    fn what_was_added_is_there_and_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        let made = Made::open(&path).unwrap();
        assert!(!path.exists() && read(&made, b"one").is_none());
        made.add(&[blob(b"one"), blob(b"")]).unwrap();
        made.add(&[blob(&[7; 100_000])]).unwrap();
        let second = Made::open(&path).unwrap();
        second.add(&[blob(b"the second's")]).unwrap();
        made.add(&[blob(b"the first's")]).unwrap();
        let again = Made::open(&path).unwrap();
        for text in [&b"one"[..], b"", &[7; 100_000], b"the second's", b"the first's"] {
            assert_eq!(read(&again, text), Some((ObjectType::Blob, text.to_vec())));
        }
        assert!(made.has(blob(b"the second's").0), "it was met on the way to the end");
    }

    #[test]
    fn a_torn_or_damaged_end_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made");
        Made::open(&path).unwrap().add(&[blob(b"one"), blob(b"two")]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let first = 1 + whole[1..].windows(3).position(|part| part == MAGIC).unwrap();
        let damaged = |at: usize| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            bytes
        };
        let cuts = (first..whole.len()).map(|length| whole[..length].to_vec());
        let flips = (first..whole.len()).map(damaged);
        for bytes in cuts.chain(flips) {
            std::fs::write(&path, bytes).unwrap();
            let made = Made::open(&path).unwrap();
            assert!(read(&made, b"one").is_some() && read(&made, b"two").is_none());
            made.add(&[blob(b"three")]).unwrap();
            let made = Made::open(&path).unwrap();
            assert!(read(&made, b"one").is_some() && read(&made, b"three").is_some());
        }
    }
}
