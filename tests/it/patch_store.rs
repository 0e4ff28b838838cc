//! A git2-backed object store for the tests of `patch`, the fixture tree, and the real git beside it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use bakeoff::model::{Admission, TreeId};
use bakeoff::patch::{ObjectId, Rules, StoreError, TreeEntry, TreeStore, admit};
use git2::{ObjectType, Oid, Repository};
use tempfile::TempDir;

/// A bare repository in a temporary directory.
pub struct GitStore {
    repository: Mutex<Repository>,
    directory: TempDir,
}

fn backend(error: impl std::fmt::Display) -> StoreError {
    StoreError::Backend(error.to_string())
}

impl TreeStore for GitStore {
    fn tree(&self, id: &TreeId) -> Result<Vec<TreeEntry>, StoreError> {
        self.with(|repository| {
            let tree = repository.find_tree(Oid::from_str(id.as_str())?)?;
            let entry = |entry: git2::TreeEntry<'_>| TreeEntry {
                name: entry.name_bytes().to_vec(),
                mode: entry.filemode_raw().cast_unsigned(),
                id: ObjectId::new(entry.id().to_string()),
            };
            Ok(tree.iter().map(entry).collect())
        })
    }

    fn blob(&self, id: &ObjectId) -> Result<Vec<u8>, StoreError> {
        self.with(|repository| {
            Ok(repository.find_blob(Oid::from_str(id.as_str())?)?.content().to_vec())
        })
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<ObjectId, StoreError> {
        self.with(|repository| Ok(ObjectId::new(repository.blob(bytes)?.to_string())))
    }

    fn put_tree(&self, entries: Vec<TreeEntry>) -> Result<TreeId, StoreError> {
        // Written raw, so that the order which the engine gives is the one that is tested.
        let mut raw = Vec::new();
        for entry in entries {
            raw.extend(format!("{:o} ", entry.mode).into_bytes());
            raw.extend(entry.name);
            raw.push(0);
            raw.extend(Oid::from_str(entry.id.as_str()).map_err(backend)?.as_bytes());
        }
        self.with(|repository| {
            Ok(TreeId::new(repository.odb()?.write(ObjectType::Tree, &raw)?.to_string()))
        })
    }
}

impl GitStore {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(directory.path()).unwrap();
        Self { repository: Mutex::new(repository), directory }
    }

    fn with<T>(
        &self,
        run: impl FnOnce(&Repository) -> Result<T, git2::Error>,
    ) -> Result<T, StoreError> {
        run(&self.repository.lock().unwrap_or_else(PoisonError::into_inner)).map_err(backend)
    }

    /// Makes a tree from paths, modes and contents.
    pub fn make(&self, files: &[(&[u8], u32, Vec<u8>)]) -> TreeId {
        self.with(|repository| {
            let mut index = git2::Index::new()?;
            for (path, mode, bytes) in files {
                let id = repository.blob(bytes)?;
                index.add(&git2::IndexEntry {
                    ctime: git2::IndexTime::new(0, 0),
                    mtime: git2::IndexTime::new(0, 0),
                    dev: 0,
                    ino: 0,
                    mode: *mode,
                    uid: 0,
                    gid: 0,
                    file_size: 0,
                    id,
                    flags: 0,
                    flags_extended: 0,
                    path: path.to_vec(),
                })?;
            }
            Ok(TreeId::new(index.write_tree_to(repository)?.to_string()))
        })
        .unwrap()
    }

    /// The diff between two trees in git's format, renames found when asked for.
    pub fn diff(&self, old: &TreeId, new: &TreeId, context: u32, renames: bool) -> Vec<u8> {
        self.with(|repository| {
            let tree = |id: &TreeId| repository.find_tree(Oid::from_str(id.as_str())?);
            let mut options = git2::DiffOptions::new();
            options.context_lines(context).show_binary(true).id_abbrev(40);
            let (old, new) = (tree(old)?, tree(new)?);
            let mut diff =
                repository.diff_tree_to_tree(Some(&old), Some(&new), Some(&mut options))?;
            if renames {
                diff.find_similar(None)?;
            }
            let mut out = Vec::new();
            diff.print(git2::DiffFormat::Patch, |_, _, line| {
                if matches!(line.origin(), ' ' | '+' | '-') {
                    out.push(u8::try_from(line.origin()).unwrap());
                }
                out.extend_from_slice(line.content());
                true
            })?;
            Ok(out)
        })
        .unwrap()
    }

    /// Admits a diff; the store must not fail.
    pub fn admit(&self, diff: &[u8], base: &TreeId, rules: &Rules) -> Admission {
        admit(diff, base, self, rules).unwrap()
    }

    /// What the real `git apply` makes of a diff: the tree, or none when it refuses.
    pub fn git_apply(&self, diff: &[u8], base: &TreeId, options: &[&str]) -> Option<String> {
        let index = self.directory.path().join("index-of-test");
        self.git(&index, &["read-tree", base.as_str()], b"")?;
        let options = [&["apply", "--cached", "--whitespace=nowarn"][..], options].concat();
        self.git(&index, &options, diff)?;
        self.git(&index, &["write-tree"], b"").map(|id| id.trim().to_owned())
    }

    fn git(&self, index: &Path, arguments: &[&str], input: &[u8]) -> Option<String> {
        use std::io::Write;
        let mut child = Command::new("git")
            .args(["-c", "core.autocrlf=false", "-c", "apply.whitespace=nowarn"])
            .args(arguments)
            .current_dir(self.directory.path())
            .env("GIT_DIR", self.directory.path())
            .env("GIT_INDEX_FILE", index)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("git is needed for this test");
        // Git may stop reading early; what it says in the end is what counts.
        let _ = child.stdin.take().unwrap().write_all(input);
        let output = child.wait_with_output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

/// The tree that the rows of `tests/cases/diffs` were written for.
pub const FIXTURE_TREE: &str = "fc1153f0995d0a49dda01ac6b5e7f3b1a2840a06";

/// Makes the fixture's tree.
pub fn fixture(store: &GitStore) -> TreeId {
    let long: String = (1..=200).map(|line| format!("line {line}\n")).collect();
    let text =
        |path: &'static str, text: &str| (path.as_bytes(), 0o100_644, text.as_bytes().to_vec());
    let files = [
        text(
            "src/math.ts",
            "export function add(a: number, b: number): number {\n  return a - b;\n}\n\nexport function mul(a: number, b: number): number {\n  return a * b;\n}\n",
        ),
        text("src/index.ts", "import { add } from \"./math\";\n\nconsole.log(add(1, 2));\n"),
        text(
            "tsconfig.json",
            "{\n  \"compilerOptions\": {\n    \"strict\": true,\n    \"noEmit\": true,\n    \"target\": \"ES2022\",\n    \"skipLibCheck\": false\n  },\n  \"include\": [\"src\"]\n}\n",
        ),
        text(
            "package.json",
            "{\n  \"name\": \"fixture\",\n  \"private\": true,\n  \"scripts\": {\n    \"typecheck\": \"tsc --noEmit\",\n    \"test\": \"node --test\"\n  }\n}\n",
        ),
        text(
            "pyproject.toml",
            "[tool.mypy]\nstrict = true\n\n[tool.pytest.ini_options]\ntestpaths = [\"tests\"]\n",
        ),
        text("app/__init__.py", ""),
        text(
            "app/calc.py",
            "def add(a: int, b: int) -> int:\n    return a - b\n\n\ndef mul(a: int, b: int) -> int:\n    return a * b\n",
        ),
        text(
            "tests/test_calc.py",
            "from app.calc import add, mul\n\n\ndef test_add() -> None:\n    assert add(1, 2) == 3\n\n\ndef test_mul() -> None:\n    assert mul(2, 3) == 6\n",
        ),
        text(
            "rs/Cargo.toml",
            "[package]\nname = \"fixture\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\n[lints.rust]\nunsafe_code = \"forbid\"\n",
        ),
        text(
            "rs/src/lib.rs",
            "pub fn add(a: i64, b: i64) -> i64 {\n    a - b\n}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn adds() {\n        assert_eq!(super::add(1, 2), 3);\n    }\n}\n",
        ),
        text("docs/README.md", "# Fixture\n\nHello.\n"),
        text("crlf.txt", "one\r\ntwo\r\nthree\r\n"),
        text("noeol.txt", "alpha\nbeta"),
        (b"data.bin", 0o100_644, b"\x00\x01\x02BIN\xff\xfe".to_vec()),
        (b"latin1.txt", 0o100_644, b"caf\xe9 cr\xe8me\nplain\n".to_vec()),
        text("ws.txt", "a\nb\n\n\nc  \nd\t\n"),
        text("file with space.txt", "x\n"),
        text("na\u{ef}ve.txt", "n\n"),
        (b"run.sh", 0o100_755, b"#!/bin/sh\necho run\n".to_vec()),
        text("Makefile", "test:\n\tpython3 -m pytest\n"),
        text(
            ".github/workflows/ci.yml",
            "on: push\njobs:\n  t:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make test\n",
        ),
        text(".gitignore", "node_modules/\ntarget/\n"),
        text("long.txt", &long),
        text("repeat.txt", &"block\n  same\n  same\nend\n".repeat(6)),
        (b"link.md", 0o120_000, b"docs/README.md".to_vec()),
    ];
    store.make(&files)
}
