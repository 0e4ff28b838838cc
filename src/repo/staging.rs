//! What a git command that stages writes: an index and objects of its own, beside the repository's.
//!
//! Git leaves its lock and half of its objects behind when it is killed, and whatever it starts could write wherever
//! git can. So it gets a copy of the index and an empty object directory, and nothing else that it may write; once it
//! has ended by itself its objects are held against their names and moved, and its index takes the place of the old
//! one, under git's own lock. Whatever ended it otherwise, all of that is thrown away.
//!
//! Formats: `gitformat-loose`, `gitrepository-layout`; the lock is `lockfile.h` of git's source. Never here: processes.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes, OpenOptions, Permissions};
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use flate2::bufread::ZlibDecoder;
use rustix::fs::{FlockOperation, OFlags, flock};
use sha1::Digest;

use super::error::{IoContext, RepoError, Result};
use super::files;

/// What the directory of a staging command is called, in the git directory.
const PREFIX: &str = "bakeoff-staging-";
/// The same before its lock is held.
const MAKING: &str = "bakeoff-making-";
/// A directory is that for an instant; one that is older was left by an engine that was killed in it.
const STALE: Duration = Duration::from_secs(3600);
/// The largest object, in bytes: of more git makes packs, and none of those is taken.
const MAX_OBJECT: u64 = 2 << 30;
/// The longest header of an object: a kind, a length, a NUL byte.
const MAX_HEADER: usize = 64;

/// The place of one staging command. Dropping it throws away what was not taken over.
#[derive(Debug)]
pub struct Staging {
    git_dir: PathBuf,
    objects: PathBuf,
    dir: PathBuf,
    /// Held as long as this lives, which is how others see that it does.
    lock: File,
    /// The index that git was given: while it is open no other file is taken for it.
    given: Option<File>,
}

impl Staging {
    /// Locks the index in `git_dir` and copies it. New objects are to go to `objects`, at last.
    ///
    /// # Errors
    /// [`RepoError::IndexLocked`] when another command of git's works on the index; otherwise disk trouble.
    pub fn begin(git_dir: &Path, objects: &Path) -> Result<Self> {
        let making = tempfile::Builder::new().prefix(MAKING).tempdir_in(git_dir);
        let making = making.at("make a directory in", git_dir)?;
        let lock = making.path().join("lock");
        let file = OpenOptions::new().write(true).create_new(true).open(&lock);
        let file = file.at("create", &lock)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).at("lock", &lock)?;
        // Who sees it by its name sees it locked.
        let name = making.path().file_name().unwrap_or_default().as_bytes();
        let name = [PREFIX.as_bytes(), &name[MAKING.len().min(name.len())..]].concat();
        let dir = git_dir.join(OsString::from_vec(name));
        fs::rename(making.path(), &dir).at("rename", making.path())?;
        let mut staging = Self {
            git_dir: git_dir.to_owned(),
            objects: objects.to_owned(),
            dir,
            lock: file,
            given: None,
        };
        staging.lock_index()?;
        fs::create_dir_all(staging.objects_dir()).at("create", &staging.objects_dir())?;
        staging.given = staging.copy_index()?;
        Ok(staging)
    }

    /// The one directory that git may write.
    pub fn dir(&self) -> PathBuf {
        self.dir.join("given")
    }

    /// What leads git here. `alternates` are the object directories that the repository borrows from.
    pub fn env(&self, alternates: &[PathBuf]) -> Vec<(OsString, OsString)> {
        let borrowed = std::iter::once(&self.objects).chain(alternates).map(|path| quoted(path));
        let borrowed: Vec<Vec<u8>> = borrowed.collect();
        vec![
            ("GIT_INDEX_FILE".into(), self.index().into()),
            ("GIT_OBJECT_DIRECTORY".into(), self.objects_dir().into()),
            ("GIT_ALTERNATE_OBJECT_DIRECTORIES".into(), OsString::from_vec(borrowed.join(&b':'))),
        ]
    }

    /// Takes over what git wrote. It must have ended, with all that it started.
    ///
    /// # Errors
    /// When an object is not what its name says, or the disk refuses. The index is the old one then.
    pub fn take_over(self) -> Result<()> {
        let written = self.index();
        let file = match open_plain(&written) {
            Ok(file) => file,
            // Git writes none that would be empty.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error).at("open", &written),
        };
        if self.given.as_ref().is_some_and(|given| is_same(given.metadata(), file.metadata())) {
            return Ok(());
        }
        let metadata = file.metadata().at("read", &written)?;
        self.take_objects()?;
        let permissions = match fs::metadata(self.git_dir.join("index")) {
            Ok(old) => old.permissions(),
            // The first one: shared as the objects are.
            Err(_) => Permissions::from_mode(self.shared()? & 0o666),
        };
        self.put_index(file, &metadata, permissions)
    }

    fn index(&self) -> PathBuf {
        self.dir().join("index")
    }

    fn objects_dir(&self) -> PathBuf {
        self.dir().join("objects")
    }

    fn index_lock(&self) -> PathBuf {
        self.git_dir.join("index.lock")
    }

    /// Takes git's lock on the index: a file that nobody else could make.
    fn lock_index(&self) -> Result<()> {
        self.sweep().at("sweep", &self.git_dir)?;
        let lock = self.index_lock();
        match fs::hard_link(self.dir.join("lock"), &lock) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(RepoError::IndexLocked(lock))
            }
            other => other.at("lock", &lock),
        }
    }

    /// Removes what killed engines left in the git directory, their locks with it.
    fn sweep(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.git_dir)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.as_bytes().starts_with(MAKING.as_bytes()) {
                let age = entry.metadata().ok().and_then(|one| one.modified().ok()?.elapsed().ok());
                if age.is_some_and(|age| age > STALE) {
                    let _ = files::remove(&entry.path());
                }
            }
            if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
                continue;
            }
            let Ok(lock) = open_plain(&entry.path().join("lock")) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove(&entry.path(), &lock, &self.index_lock());
            }
        }
        Ok(())
    }

    /// Gives git a copy of the index. Its times count: what changed later than them is looked at.
    fn copy_index(&self) -> Result<Option<File>> {
        let (from, to) = (self.git_dir.join("index"), self.index());
        // Git would lock what a link names, and this would replace the link.
        let source = match open_plain(&from) {
            Ok(source) => source,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).at("open", &from),
        };
        let target = File::create_new(&to).at("create", &to)?;
        let copy = || -> io::Result<()> {
            let metadata = source.metadata()?;
            io::copy(&mut &source, &mut &target)?;
            target.set_times(FileTimes::new().set_modified(metadata.modified()?))?;
            target.set_permissions(metadata.permissions())
        };
        copy().at("copy", &from)?;
        Ok(Some(target))
    }

    /// Moves every object to its place.
    fn take_objects(&self) -> Result<()> {
        let top = self.objects_dir();
        for dir in entries(&top)? {
            let Some(first) = hex(&dir, &[2]) else {
                if dir == "pack" && entries(&top.join(&dir))?.iter().any(|name| is_pack(name)) {
                    return Err(RepoError::BadObject("a pack of objects".into()));
                }
                continue;
            };
            for name in entries(&top.join(&dir))? {
                let Some(rest) = hex(&name, &[38, 62]) else { continue };
                let from = top.join(first).join(rest);
                let id = format!("{first}{rest}");
                let file = open_plain(&from).at("open", &from)?;
                if !is_named(file, &id).at("read", &from)? {
                    return Err(RepoError::BadObject(format!("the object {id}")));
                }
                self.take_object(&from, first, rest)?;
            }
        }
        Ok(())
    }

    fn take_object(&self, from: &Path, first: &str, rest: &str) -> Result<()> {
        let dir = self.objects.join(first);
        let to = dir.join(rest);
        if let Ok(there) = File::open(&to) {
            // As git does: one that is used again is not thrown away as an old one. It may be another user's.
            let _ = there.set_times(FileTimes::new().set_modified(SystemTime::now()));
            return Ok(());
        }
        let mode = self.shared()?;
        match fs::create_dir(&dir) {
            Ok(()) => {
                let shared = Permissions::from_mode(mode & 0o2777);
                fs::set_permissions(&dir, shared).at("share", &dir)?;
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).at("create", &dir),
        }
        fs::set_permissions(from, Permissions::from_mode(mode & 0o444)).at("share", from)?;
        match fs::rename(from, &to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
                let bytes = fs::read(from).at("read", from)?;
                files::replace(&to, &bytes).at("write", &to)
            }
            other => other.at("write", &to),
        }
    }

    /// The mode of the directory of objects: whoever may read or write there may do that with what is new
    /// (`core.sharedRepository`).
    fn shared(&self) -> Result<u32> {
        Ok(fs::metadata(&self.objects).at("read", &self.objects)?.mode())
    }

    /// Puts the index in its place as git does: the lock becomes the index.
    fn put_index(self, index: File, of: &fs::Metadata, permissions: Permissions) -> Result<()> {
        let (lock, to) = (self.index_lock(), self.git_dir.join("index"));
        let write = || -> io::Result<()> {
            io::copy(&mut &index, &mut &self.lock)?;
            self.lock.set_permissions(permissions)?;
            self.lock.set_times(FileTimes::new().set_modified(of.modified()?))?;
            self.lock.sync_all()
        };
        write().at("write", &lock)?;
        fs::rename(&lock, &to).at("write", &to)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        remove(&self.dir, &self.lock, &self.index_lock());
    }
}

/// Removes the place of a staging command, and its lock on the index if it still has that.
fn remove(dir: &Path, lock: &File, index_lock: &Path) {
    // What can't be removed now, the next command of the kind tries again.
    if is_same(lock.metadata(), fs::symlink_metadata(index_lock)) {
        let _ = fs::remove_file(index_lock);
    }
    let _ = files::remove(dir);
}

/// Whether two are the same file.
fn is_same(one: io::Result<fs::Metadata>, other: io::Result<fs::Metadata>) -> bool {
    match (one, other) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

/// A regular file, and no link: what git started may have written here, too.
fn open_plain(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = OpenOptions::new().read(true).custom_flags(flags as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no regular file")),
    }
}

/// The names in a directory; none where there is no such directory.
fn entries(dir: &Path) -> Result<Vec<OsString>> {
    if !fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_dir()) {
        return Ok(Vec::new());
    }
    let names = fs::read_dir(dir).and_then(|found| found.map(|one| Ok(one?.file_name())).collect());
    names.at("list", dir)
}

/// A name of so many hexadecimal digits.
fn hex<'n>(name: &'n OsStr, lengths: &[usize]) -> Option<&'n str> {
    let name = name.to_str().filter(|name| lengths.contains(&name.len()))?;
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')).then_some(name)
}

fn is_pack(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"pack-")
}

/// Whether a loose object is whole, and what its name says.
fn is_named(file: File, id: &str) -> io::Result<bool> {
    match id.len() {
        40 => is_hashed::<sha1::Sha1>(file, id),
        _ => is_hashed::<sha2::Sha256>(file, id),
    }
}

fn is_hashed<H: Digest>(file: File, id: &str) -> io::Result<bool> {
    let mut plain = BufReader::new(ZlibDecoder::new(BufReader::new(file)));
    let (mut hash, mut header) = (H::new(), Vec::new());
    (&mut plain).take(MAX_HEADER as u64).read_until(0, &mut header)?;
    let Some(length) = length_in(&header).filter(|length| *length <= MAX_OBJECT) else {
        return Ok(false);
    };
    hash.update(&header);
    // One that is longer than it says may be endless.
    let mut body = plain.take(length.saturating_add(1));
    let mut read = 0;
    loop {
        let chunk = body.fill_buf()?;
        if chunk.is_empty() {
            break;
        }
        hash.update(chunk);
        let taken = chunk.len();
        body.consume(taken);
        read += taken as u64;
    }
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(read == length && name == id)
}

/// The length in an object's header, such as `blob 12` and a NUL byte.
fn length_in(header: &[u8]) -> Option<u64> {
    let header = std::str::from_utf8(header.strip_suffix(&[0])?).ok()?;
    let (kind, length) = header.split_once(' ')?;
    ["blob", "tree", "commit", "tag"].contains(&kind).then(|| length.parse().ok())?
}

/// A path in a list of git's, as `git help git` says of `GIT_ALTERNATE_OBJECT_DIRECTORIES`.
fn quoted(path: &Path) -> Vec<u8> {
    let path = path.as_os_str().as_bytes();
    if !path.iter().any(|byte| matches!(byte, b':' | b'"' | b'\\')) {
        return path.to_owned();
    }
    let mut out = vec![b'"'];
    for &byte in path {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use git2::{ObjectType, Oid, Repository};

    use super::*;

    /// A repository with an index, and a staging that wrote a new index.
    struct Bench {
        _dir: tempfile::TempDir,
        git: PathBuf,
    }

    impl Bench {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let git = Repository::init(dir.path()).unwrap().path().canonicalize().unwrap();
            fs::write(git.join("index"), "old").unwrap();
            Self { _dir: dir, git }
        }

        fn begin(&self) -> Result<Staging> {
            Staging::begin(&self.git, &self.git.join("objects"))
        }

        /// Begun, with a new index, as git leaves one.
        fn staged(&self) -> Staging {
            let staging = self.begin().unwrap();
            assert_eq!(fs::read(staging.index()).unwrap(), b"old");
            fs::remove_file(staging.index()).unwrap();
            fs::write(staging.index(), "new").unwrap();
            staging
        }

        fn index(&self) -> String {
            fs::read_to_string(self.git.join("index")).unwrap()
        }

        /// What is in the git directory beyond what is always there.
        fn left(&self) -> Vec<OsString> {
            let names = entries(&self.git).unwrap().into_iter();
            names
                .filter(|name| name.as_bytes().starts_with(b"bakeoff") || name == "index.lock")
                .collect()
        }
    }

    /// Writes an object where git would; answers its id.
    fn object(staging: &Staging, bytes: &[u8]) -> Oid {
        let odb = git2::Odb::new().unwrap();
        odb.add_disk_alternate(staging.objects_dir().to_str().unwrap()).unwrap();
        let aside = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(aside.path()).unwrap();
        let id = repo.odb().unwrap().write(ObjectType::Blob, bytes).unwrap();
        let name = id.to_string();
        let path = Path::new(&name[..2]).join(&name[2..]);
        fs::create_dir_all(staging.objects_dir().join(&name[..2])).unwrap();
        fs::copy(aside.path().join("objects").join(&path), staging.objects_dir().join(&path))
            .unwrap();
        id
    }

    #[test]
    fn what_was_staged_is_taken_over_whole_and_nothing_else_is_left() {
        let bench = Bench::new();
        let staging = bench.staged();
        fs::set_permissions(bench.git.join("objects"), Permissions::from_mode(0o2775)).unwrap();
        let ids = [object(&staging, b"one"), object(&staging, &vec![7; 3 << 20])];
        fs::write(staging.objects_dir().join("tmp_obj_abc"), "half").unwrap();
        let modified = fs::metadata(staging.index()).unwrap().modified().unwrap();
        staging.take_over().unwrap();
        assert_eq!((bench.index().as_str(), bench.left()), ("new", Vec::new()));
        let at = fs::metadata(bench.git.join("index")).unwrap().modified().unwrap();
        assert_eq!(at, modified, "git looks at what changed later than its index");
        let repo = Repository::open(&bench.git).unwrap();
        for id in ids {
            repo.find_blob(id).unwrap();
            let name = id.to_string();
            let dir = bench.git.join("objects").join(&name[..2]);
            let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
            assert_eq!((mode(&dir), mode(&dir.join(&name[2..]))), (0o2775, 0o444));
        }
        // Nothing was staged: nothing is touched.
        let staging = bench.begin().unwrap();
        staging.take_over().unwrap();
        assert_eq!((bench.index().as_str(), bench.left()), ("new", Vec::new()));
    }

    #[test]
    fn what_is_dropped_leaves_all_as_it_was() {
        let bench = Bench::new();
        let staging = bench.staged();
        let id = object(&staging, b"one");
        assert!(matches!(bench.begin(), Err(RepoError::IndexLocked(_))), "one at a time");
        drop(staging);
        assert_eq!((bench.index().as_str(), bench.left()), ("old", Vec::new()));
        assert!(Repository::open(&bench.git).unwrap().find_blob(id).is_err());
        fs::rename(bench.git.join("index"), bench.git.join("other")).unwrap();
        symlink("other", bench.git.join("index")).unwrap();
        assert!(bench.begin().is_err() && bench.left().is_empty(), "a link is no index");
        // Git's own lock is nobody's to take away.
        fs::write(bench.git.join("index.lock"), "").unwrap();
        assert!(matches!(bench.begin(), Err(RepoError::IndexLocked(_))));
        assert_eq!(bench.left(), ["index.lock"]);
    }

    #[test]
    fn an_object_that_is_not_what_its_name_says_is_not_taken() {
        type Spoil = fn(&Path);
        let spoils: [(&str, Spoil); 5] = [
            ("other bytes", |path| {
                fs::rename(path, path.with_file_name("0".repeat(38))).unwrap();
            }),
            ("no object", |path| fs::write(path, "x").unwrap()),
            ("cut short", |path| {
                let bytes = fs::read(path).unwrap();
                fs::write(path, &bytes[..bytes.len() - 6]).unwrap();
            }),
            ("a link", |path| {
                fs::rename(path, path.with_extension("x")).unwrap();
                symlink(path.with_extension("x"), path).unwrap();
            }),
            ("a pack", |path| {
                let dir = path.parent().unwrap().parent().unwrap().join("pack");
                fs::create_dir(&dir).unwrap();
                fs::write(dir.join("pack-1.pack"), "").unwrap();
            }),
        ];
        for (what, spoil) in spoils {
            let bench = Bench::new();
            let staging = bench.staged();
            let id = object(&staging, b"one").to_string();
            let path = staging.objects_dir().join(&id[..2]).join(&id[2..]);
            let _ = fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644));
            spoil(&path);
            let error = staging.take_over().expect_err(what);
            assert!(!matches!(error, RepoError::IndexLocked(_)), "{what}: {error}");
            assert_eq!((bench.index().as_str(), bench.left()), ("old", Vec::new()), "{what}");
        }
    }

    #[test]
    fn what_a_killed_engine_left_goes_with_its_lock() {
        let bench = Bench::new();
        let staging = bench.staged();
        let dir = staging.dir.clone();
        // As the system leaves it: the lock on the file goes with its process.
        flock(&staging.lock, FlockOperation::Unlock).unwrap();
        std::mem::forget(staging);
        // Killed before it had its name, too.
        let making = bench.git.join("bakeoff-making-x");
        fs::create_dir(&making).unwrap();
        let long_ago = FileTimes::new().set_modified(SystemTime::now() - 2 * STALE);
        File::open(&making).unwrap().set_times(long_ago).unwrap();
        assert_eq!(bench.left().len(), 3);
        bench.staged().take_over().unwrap();
        assert!(!dir.exists());
        assert_eq!((bench.index().as_str(), bench.left()), ("new", Vec::new()));
    }

    #[test]
    fn paths_are_quoted_where_a_list_would_end() {
        assert_eq!(quoted(Path::new("/a b")), b"/a b");
        assert_eq!(quoted(Path::new("/a:b\"c\\")), b"\"/a:b\\\"c\\\\\"");
    }
}
