//! The oracle of the fuzz targets and of the test that replays their corpus: a fixed base in memory, with
//! git's own ids, and the real `git apply` beside it.
//!
//! What must hold: a diff is never admitted with another tree than git's. Where git refuses, a diff may
//! be admitted only with a repair on record, or as an envelope, which git does not know. A diff with
//! hunks without context is held against `git apply --unidiff-zero`: plain `git apply` puts such hunks
//! in wrong places and says nothing.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use bakeoff::model::{Admission, TreeId};
use bakeoff::patch::{ObjectId, Rules, StoreError, TreeEntry, TreeStore, admit};
use git2::{ObjectType, Oid};
use tempfile::TempDir;

/// Path, mode and contents.
pub type File<'a> = (&'a [u8], u32, Vec<u8>);

/// Path, to mode and object id.
pub type Leaves = BTreeMap<Vec<u8>, (u32, String)>;

/// After so many runs of git, what it wrote is thrown away.
const SWEEP: usize = 2_000;

/// Objects in memory, with git's ids.
#[derive(Default)]
pub struct MemoryStore {
    objects: Mutex<Objects>,
}

#[derive(Clone, Default)]
struct Objects {
    blobs: HashMap<String, Vec<u8>>,
    trees: HashMap<String, Vec<TreeEntry>>,
}

impl TreeStore for MemoryStore {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        let tree = self.with(|objects| objects.trees.get(id.as_str()).cloned());
        tree.ok_or_else(|| StoreError::Missing(id.to_string()))
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        let blob = self.with(|objects| objects.blobs.get(id.as_str()).cloned());
        blob.ok_or_else(|| StoreError::Missing(id.as_str().to_owned()))
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        let id = Oid::hash_object(ObjectType::Blob, bytes).unwrap().to_string();
        self.with(|objects| objects.blobs.insert(id.clone(), bytes.to_vec()));
        Ok(ObjectId::new(id))
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        let mut raw = Vec::new();
        for entry in &entries {
            raw.extend(format!("{:o} ", entry.mode).into_bytes());
            raw.extend(&entry.name);
            raw.push(0);
            raw.extend(Oid::from_str(entry.id.as_str()).unwrap().as_bytes());
        }
        let id = Oid::hash_object(ObjectType::Tree, &raw).unwrap().to_string();
        self.with(|objects| objects.trees.insert(id.clone(), entries));
        Ok(TreeId::new(id))
    }
}

impl MemoryStore {
    fn with<T>(&self, run: impl FnOnce(&mut Objects) -> T) -> T {
        run(&mut self.objects.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes a tree, with the directories that its paths name.
    fn make(&self, files: &[File<'_>]) -> TreeId {
        let mut entries: BTreeMap<Vec<u8>, TreeEntry> = BTreeMap::new();
        let mut below: BTreeMap<&[u8], Vec<File<'_>>> = BTreeMap::new();
        for (path, mode, bytes) in files {
            match path.iter().position(|byte| *byte == b'/') {
                Some(at) => {
                    let rest = (&path[at + 1..], *mode, bytes.clone());
                    below.entry(&path[..at]).or_default().push(rest);
                }
                None => {
                    let id = self.put_blob(bytes).unwrap();
                    entries
                        .insert(path.to_vec(), TreeEntry { name: path.to_vec(), mode: *mode, id });
                }
            }
        }
        for (name, files) in below {
            let id = ObjectId::new(self.make(&files).as_str());
            // Git sorts a directory as if its name ended in a slash.
            let entry = TreeEntry { name: name.to_vec(), mode: 0o040_000, id };
            entries.insert([name, b"/"].concat(), entry);
        }
        self.put_tree(entries.into_values().collect()).unwrap()
    }

    fn leaves(&self, tree: &TreeId, under: &[u8], leaves: &mut Leaves) {
        for entry in self.tree(tree).unwrap() {
            let path = [under, &entry.name].concat();
            if entry.mode == 0o040_000 {
                let tree = TreeId::new(entry.id.as_str());
                self.leaves(&tree, &[&path[..], b"/"].concat(), leaves);
            } else {
                leaves.insert(path, (entry.mode, entry.id.as_str().to_owned()));
            }
        }
    }
}

/// The base of every case: line ends, repetitions, names and modes that have been got wrong somewhere.
pub fn base_files() -> Vec<File<'static>> {
    let numbered: String = (1..=60).map(|line| format!("line {line}\n")).collect();
    let blocks = "block\n  same\n  same\nend\n\n".repeat(5);
    let code = "fn f() {\n    a();\n}\n\nfn g() {\n    a();\n}\n\n\n// the end\n}\n";
    let file =
        |path: &'static str, text: &str| (path.as_bytes(), 0o100_644, text.as_bytes().to_vec());
    vec![
        file("numbered.txt", &numbered),
        file("blocks.txt", &blocks),
        file("src/code.rs", code),
        file("src/deep/one.txt", "only\n"),
        file("src/deep/empty.txt", ""),
        file("open.txt", "alpha\nbeta\ngamma"),
        file("open-one.txt", "alone"),
        file("crlf.txt", "one\r\ntwo\r\nthree\r\nfour\r\n"),
        file("mixed.txt", "one\r\ntwo\nthree\r\nfour\n"),
        file("blank.txt", "\n\n\n\n\n"),
        file("signs.txt", "- a\n-- \n--- b\n+++ c\n@@ -1 +1 @@\n\\ d\ndiff --git a/x b/x\n"),
        file("a b.txt", "x\ny\nz\n"),
        file("a/twin.txt", "1\n2\n3\n"),
        file("twin.txt", "1\n2\n3\n"),
        file("na\u{ef}ve.txt", "caf\u{e9}\ncr\u{e8}me\n"),
        (b"latin\xe9.txt", 0o100_644, b"caf\xe9\ncr\xe8me\n".to_vec()),
        (b"run.sh", 0o100_755, b"#!/bin/sh\necho run\nexit 0\n".to_vec()),
        (b"data.bin", 0o100_644, b"\x00\x01\x02BIN\xff\xfe\n\x00rest".to_vec()),
        (b"link", 0o120_000, b"src/code.rs".to_vec()),
    ]
}

/// What is said of one diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Not admitted, so that there is nothing to compare.
    Refused(String),
    /// Admitted, and git gives the same tree.
    Same,
    /// Admitted with a repair, or as an envelope, and git refuses.
    BeyondGit,
    /// Admitted with another tree than git's, or where git has a right to refuse.
    Different(String),
}

/// The base, and git beside it.
pub struct Oracle {
    store: MemoryStore,
    fresh: Objects,
    base: TreeId,
    rules: Rules,
    directory: TempDir,
    runs: usize,
}

impl Oracle {
    /// Makes the base, in memory and for git, in a new temporary directory below `place`.
    pub fn new(place: &Path) -> Self {
        let store = MemoryStore::default();
        let files = base_files();
        let base = store.make(&files);
        let directory = tempfile::tempdir_in(place).unwrap();
        git2::Repository::init_bare(directory.path()).unwrap();
        let oracle = Self {
            fresh: store.with(|objects| objects.clone()),
            store,
            base,
            rules: Rules { links: true, submodules: true, binary: true, ..Rules::default() },
            directory,
            runs: 0,
        };
        oracle.write_base();
        oracle
    }

    fn write_base(&self) {
        let repository = git2::Repository::open_bare(self.directory.path()).unwrap();
        let odb = repository.odb().unwrap();
        for bytes in self.fresh.blobs.values() {
            odb.write(ObjectType::Blob, bytes).unwrap();
        }
        let input: Vec<u8> = base_files()
            .into_iter()
            .flat_map(|(path, mode, bytes)| {
                let id = Oid::hash_object(ObjectType::Blob, &bytes).unwrap();
                [format!("{mode:o} {id}\t").as_bytes(), path, b"\0"].concat()
            })
            .collect();
        let index = self.path("base-index");
        assert!(self.git(&index, &["update-index", "-z", "--index-info"], &input));
        assert!(self.git(&index, &["write-tree"], b""));
        assert!(odb.refresh().is_ok() && odb.exists(Oid::from_str(self.base.as_str()).unwrap()));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Admits a diff on the base. What it wrote stays until [`forget`](Self::forget).
    pub fn admit(&self, diff: &[u8]) -> Admission {
        admit(diff, &self.base, &self.store, &self.rules).unwrap()
    }

    /// Drops every object but the base's.
    pub fn forget(&self) {
        self.store.with(|objects| objects.clone_from(&self.fresh));
    }

    /// Admits a diff and holds the result against git's.
    pub fn judge(&mut self, diff: &[u8]) -> Verdict {
        let admission = self.admit(diff);
        let verdict = match &admission {
            Admission::Refused(refusal) => Verdict::Refused(refusal.code.clone()),
            Admission::Admitted { .. } => self.compare(diff, &admission),
        };
        self.forget();
        verdict
    }

    fn compare(&mut self, diff: &[u8], admission: &Admission) -> Verdict {
        let Admission::Admitted { tree, repairs, flags, .. } = admission else {
            return Verdict::Same;
        };
        let mut ours = Leaves::new();
        self.store.leaves(tree, b"", &mut ours);
        let bare = flags.iter().any(|flag| flag.code == "zero-context");
        let theirs = self.git_apply(diff, if bare { &["--unidiff-zero"] } else { &[] });
        let envelope = diff.split(|byte| *byte == b'\n').any(|line| line.trim_ascii_end() == BEGIN);
        match theirs {
            Some(theirs) if theirs == ours => Verdict::Same,
            None if envelope || !repairs.is_empty() => Verdict::BeyondGit,
            theirs => Verdict::Different(format!(
                "ours {}\ngit's {}\nrepairs {repairs:?}, flags {flags:?}",
                self.changes(&ours),
                theirs.map_or_else(|| "refused".to_owned(), |theirs| self.changes(&theirs)),
            )),
        }
    }

    /// What differs from the base.
    fn changes(&self, leaves: &Leaves) -> String {
        let mut base = Leaves::new();
        self.store.leaves(&self.base, b"", &mut base);
        let name = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
        let gone = base.keys().filter(|path| !leaves.contains_key(*path));
        let gone = gone.map(|path| format!("-{}", name(path)));
        let new = leaves.iter().filter(|(path, leaf)| base.get(*path) != Some(*leaf));
        let new = new.map(|(path, (mode, id))| format!("{}={mode:o}:{}", name(path), &id[..10]));
        gone.chain(new).collect::<Vec<_>>().join(" ")
    }

    /// What the real git makes of a diff, or none when it refuses.
    pub fn git_apply(&mut self, diff: &[u8], options: &[&str]) -> Option<Leaves> {
        let objects = self.path("scratch");
        if self.runs.is_multiple_of(SWEEP) {
            let _ = std::fs::remove_dir_all(&objects);
            std::fs::create_dir_all(&objects).unwrap();
        }
        self.runs += 1;
        let index = self.path("index-of-test");
        std::fs::copy(self.path("base-index"), &index).unwrap();
        let arguments = [&["apply", "--cached", "--whitespace=nowarn"][..], options].concat();
        if !self.git(&index, &arguments, diff) {
            return None;
        }
        let index = git2::Index::open(&index).unwrap();
        Some(index.iter().map(|entry| (entry.path, (entry.mode, entry.id.to_string()))).collect())
    }

    fn git(&self, index: &Path, arguments: &[&str], input: &[u8]) -> bool {
        let mut command = Command::new("git");
        if arguments[0] == "apply" {
            command.env("GIT_OBJECT_DIRECTORY", self.path("scratch"));
            command.env("GIT_ALTERNATE_OBJECT_DIRECTORIES", self.path("objects"));
        }
        let mut child = command
            .args(["-c", "core.autocrlf=false", "-c", "apply.whitespace=nowarn"])
            .args(arguments)
            .current_dir(self.directory.path())
            .env("GIT_DIR", self.directory.path())
            .env("GIT_INDEX_FILE", index)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Git may stop reading early; what it says in the end is what counts.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait().unwrap().success()
    }
}

/// The line that opens an envelope.
const BEGIN: &[u8] = b"*** Begin Patch";
