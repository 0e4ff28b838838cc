//! Writes a pack and its index, on all cores.
//!
//! Format: git's own, version 2 of both (gitformat-pack(5)); no entry is a delta. Each object is read,
//! which proves its name, and packed once; the index is made of what is known by then, where the
//! library's builder packs on one core and unpacks all of it again for the index. Never here: which
//! objects there are to be.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use git2::{ObjectType, Oid, Repository};
use sha1::{Digest, Sha1};

use super::error::{GitContext, IoContext, RepoError, Result};
use super::object_db::Objects;
use super::parallel;

/// How many objects are packed before they are written together.
const TOGETHER: usize = 16;
/// The most objects: the format counts them in 32 bits.
const MOST: usize = u32::MAX as usize;

/// An object's line in the index.
struct Line {
    id: Oid,
    crc: u32,
    offset: u64,
}

/// Packs objects of a repository, of its git directory `from`, into another directory.
///
/// # Errors
/// When one is missing or the disk refuses. What is there then under another name than a pack's is to be
/// thrown away.
pub(crate) fn write(from: &Path, objects: &[Oid], dir: &Path) -> Result<()> {
    if objects.len() > MOST {
        return Err(RepoError::TooLarge {
            what: "the base".into(),
            limit: format!("{MOST} objects"),
        });
    }
    let path = dir.join("making.pack");
    let pack = Mutex::new(Pack::begin(&path, objects.len() as u32).at("create", &path)?);
    let chunks: Vec<&[Oid]> = objects.chunks(TOGETHER).collect();
    let open = || Repository::open(from).doing("open the repository");
    let thread = || Ok((open()?, packer()));
    let lines = parallel::map(chunks.len(), thread, |(repo, packer), chunk| {
        let (mut lines, bytes) = entries(&Objects::of(repo)?, packer, chunks[chunk])?;
        let mut pack = pack.lock().unwrap_or_else(PoisonError::into_inner);
        let start = pack.append(&bytes).at("write", &path)?;
        lines.iter_mut().for_each(|line| line.offset += start);
        Ok(lines)
    })?;
    let mut lines: Vec<Line> = lines.into_iter().flatten().collect();
    lines.sort_unstable_by_key(|line| line.id);
    let pack = pack.into_inner().unwrap_or_else(PoisonError::into_inner);
    let sum = pack.end().at("write", &path)?;
    let name: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    let index = dir.join("making.idx");
    put(&index, &index_of(&lines, &sum)).at("write", &index)?;
    // The pack before its index, so that an index never stands for nothing.
    for (from, kind) in [(path, "pack"), (index, "idx")] {
        let to = dir.join(format!("pack-{name}.{kind}"));
        fs::rename(&from, &to).at("complete", &to)?;
    }
    Ok(())
}

/// The entries of some objects, one after the other, and their lines with offsets from the first.
fn entries(
    objects: &Objects<'_>,
    packer: &mut Compress,
    ids: &[Oid],
) -> Result<(Vec<Line>, Vec<u8>)> {
    let (mut lines, mut out) = (Vec::with_capacity(ids.len()), Vec::new());
    for id in ids {
        let (kind, bytes) = objects.read_any(*id)?;
        let offset = out.len();
        head(&mut out, kind, bytes.len());
        pack(packer, &bytes, &mut out).map_err(|e| RepoError::Mismatch(format!("{id}: {e}")))?;
        let mut crc = Crc::new();
        crc.update(&out[offset..]);
        lines.push(Line { id: *id, crc: crc.sum(), offset: offset as u64 });
    }
    Ok((lines, out))
}

/// The kind and the size of an entry: four bits of the size beside the kind, then seven bits a byte, the
/// lowest first.
fn head(out: &mut Vec<u8>, kind: ObjectType, size: usize) {
    let code = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Tag => 4,
        _ => 3,
    };
    let mut byte = code << 4 | (size & 15) as u8;
    let mut rest = size >> 4;
    while rest > 0 {
        out.push(byte | 128);
        byte = (rest & 127) as u8;
        rest >>= 7;
    }
    out.push(byte);
}

/// Something that [`pack`] works with, made once for many objects: it costs more than a small object.
pub(crate) fn packer() -> Compress {
    Compress::new(Compression::fast(), true)
}

/// Appends bytes in zlib form.
pub(crate) fn pack(packer: &mut Compress, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    packer.reset();
    loop {
        let done = usize::try_from(packer.total_in()).unwrap_or(usize::MAX);
        out.reserve((bytes.len() - done) / 2 + 64);
        let status = packer.compress_vec(&bytes[done..], out, FlushCompress::Finish)?;
        if status == Status::StreamEnd {
            return Ok(());
        }
    }
}

/// A pack that is being written.
struct Pack {
    file: File,
    sum: Sha1,
    end: u64,
}

impl Pack {
    fn begin(path: &Path, count: u32) -> io::Result<Self> {
        let mut pack = Self { file: File::create_new(path)?, sum: Sha1::new(), end: 0 };
        let head = [*b"PACK", 2u32.to_be_bytes(), count.to_be_bytes()].concat();
        pack.append(&head)?;
        Ok(pack)
    }

    /// Writes bytes and says where they begin.
    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let start = self.end;
        self.file.write_all(bytes)?;
        self.sum.update(bytes);
        self.end += bytes.len() as u64;
        Ok(start)
    }

    fn end(mut self) -> io::Result<[u8; 20]> {
        let sum: [u8; 20] = self.sum.finalize().into();
        self.file.write_all(&sum)?;
        finish(&self.file)?;
        Ok(sum)
    }
}

/// The index: how many ids begin with a byte or a lower one, the ids, sums and offsets, all of them
/// sorted by the ids.
fn index_of(lines: &[Line], pack: &[u8; 20]) -> Vec<u8> {
    let mut out = [&b"\xfftOc"[..], &2u32.to_be_bytes()].concat();
    for first in 0..=255u8 {
        let count = lines.partition_point(|line| line.id.as_bytes()[0] <= first);
        out.extend_from_slice(&(count as u32).to_be_bytes());
    }
    lines.iter().for_each(|line| out.extend_from_slice(line.id.as_bytes()));
    lines.iter().for_each(|line| out.extend_from_slice(&line.crc.to_be_bytes()));
    let mut far = Vec::new();
    for line in lines {
        let near = u32::try_from(line.offset).ok().filter(|offset| offset >> 31 == 0);
        // What does not fit into 31 bits stands in a table of its own.
        let offset = near.unwrap_or_else(|| {
            far.push(line.offset);
            1 << 31 | (far.len() - 1) as u32
        });
        out.extend_from_slice(&offset.to_be_bytes());
    }
    far.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
    out.extend_from_slice(pack);
    let sum = Sha1::digest(&out);
    out.extend_from_slice(&sum);
    out
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    finish(&file)
}

fn finish(file: &File) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(0o444))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(dir: &Path, args: &[&str]) -> String {
        let output = Command::new("git").args(args).current_dir(dir).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn git_takes_a_pack_for_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(dir.path().join("from")).unwrap();
        let odb = repo.odb().unwrap();
        let mut random = fastrand::Rng::with_seed(1);
        // Sizes around each border of the head, compressible or not, and more than one chunk of them.
        let sizes = [0, 1, 15, 16, 2047, 2048, 262_143, 262_144, 700_000];
        let mut ids: Vec<Oid> = sizes
            .into_iter()
            .chain((0..60).map(|n| 100 + n))
            .flat_map(|size| {
                let noise: Vec<u8> = (0..size).map(|_| random.u8(..)).collect();
                [noise, vec![b'x'; size]].map(|b| odb.write(ObjectType::Blob, &b).unwrap())
            })
            .collect();
        let who = git2::Signature::now("t", "t@localhost").unwrap();
        let tree = repo.find_tree(repo.treebuilder(None).unwrap().write().unwrap()).unwrap();
        ids.push(tree.id());
        ids.push(repo.commit(None, &who, &who, "m", &tree, &[]).unwrap());
        ids.sort_unstable();
        ids.dedup();
        let to = Repository::init_bare(dir.path().join("to")).unwrap();
        let packs = to.path().join("objects/pack");
        write(repo.path(), &ids, &packs).unwrap();
        let names: Vec<_> = fs::read_dir(&packs).unwrap().map(|e| e.unwrap().path()).collect();
        assert_eq!(names.len(), 2);
        let index = names.iter().find(|path| path.extension().unwrap() == "idx").unwrap();
        git(to.path(), &["verify-pack", index.to_str().unwrap()]);
        git(to.path(), &["fsck", "--full", "--strict"]);
        let all = ["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];
        assert_eq!(git(to.path(), &all).lines().collect::<Vec<_>>(), {
            ids.iter().map(ToString::to_string).collect::<Vec<_>>()
        });
        // Git's own index of the pack is ours, byte for byte.
        let again = dir.path().join("again.idx");
        let pack = index.with_extension("pack");
        git(to.path(), &["index-pack", "-o", again.to_str().unwrap(), pack.to_str().unwrap()]);
        assert_eq!(fs::read(&again).unwrap(), fs::read(index).unwrap());
    }

    #[test]
    fn offsets_beyond_31_bits_stand_in_a_table() {
        let line = |n: u8, offset| Line { id: Oid::from_bytes(&[n; 20]).unwrap(), crc: 7, offset };
        let index = index_of(&[line(1, 12), line(2, (1 << 31) - 1), line(3, 1 << 31)], &[9; 20]);
        let at = 8 + 1024 + 3 * 24;
        assert_eq!(&index[at..at + 12], [0, 0, 0, 12, 127, 255, 255, 255, 128, 0, 0, 0]);
        assert_eq!(index[at + 12..at + 20], (1u64 << 31).to_be_bytes());
        assert_eq!(index.len(), at + 20 + 40);
    }

    #[test]
    fn a_missing_object_is_named_and_no_pack_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(dir.path().join("from")).unwrap();
        let lost = Oid::from_bytes(&[5; 20]).unwrap();
        let error = write(repo.path(), &[lost], dir.path()).unwrap_err();
        assert!(error.to_string().contains(&lost.to_string()), "{error}");
        assert!(!dir.path().join("making.idx").exists());
    }
}
