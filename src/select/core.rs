//! Which of a candidate's files are its core: text that is neither tests nor noise, in the base or
//! beside source.

use super::ChangedFile;

const TEST_DIRS: [&str; 7] = ["test", "tests", "testing", "e2e", "testdata", "benches", "examples"];

const NOISE: [&str; 10] =
    ["orig", "rej", "bak", "log", "patch", "diff", "md", "txt", "rst", "lock"];

/// Lock files that `.lock` does not name.
const LOCK_FILES: [&str; 6] = [
    "package-lock.json",
    "npm-shrinkwrap.json",
    "pnpm-lock.yaml",
    "go.sum",
    "gradle.lockfile",
    "packages.lock.json",
];

const SOURCE: &[&str] = &[
    "rs", "py", "pyi", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "go", "java", "kt",
    "kts", "scala", "c", "h", "cc", "cpp", "cxx", "hpp", "hh", "cs", "rb", "php", "swift", "m",
    "mm", "sh", "bash", "pl", "pm", "lua", "ex", "exs", "erl", "hs", "ml", "mli", "clj", "cljs",
    "dart", "vue", "svelte", "zig", "nim", "jl", "r", "sql", "proto",
];

/// Larger files are left out: a source file of this size is generated.
const LARGEST: usize = 2 << 20;

/// Whether a changed file belongs to the core of its candidate.
pub fn is_core(file: &ChangedFile) -> bool {
    let sides = [&file.base, &file.new];
    sides.iter().copied().flatten().all(|bytes| is_text(bytes))
        && !is_test(&file.path)
        && !is_noise(&file.path)
        && (file.base.is_some() || (file.beside_source && is_source(&file.path)))
}

/// Whether a path names a source file.
pub fn is_source(path: &str) -> bool {
    extension(name(path)).is_some_and(|ext| SOURCE.contains(&ext.to_ascii_lowercase().as_str()))
}

fn is_text(bytes: &[u8]) -> bool {
    bytes.len() <= LARGEST && !bytes.contains(&0)
}

/// Whether a path names a test.
pub(super) fn is_test(path: &str) -> bool {
    let name = name(path);
    path.split('/').any(|part| TEST_DIRS.contains(&part))
        || (name.starts_with("test_") && name.ends_with(".py"))
        || name.contains("_test.")
        || name.starts_with("tests.")
        || name.contains(".spec.")
}

fn is_noise(path: &str) -> bool {
    let name = name(path);
    let is_ignore_file = name.starts_with('.') && name.ends_with("ignore");
    is_ignore_file
        || LOCK_FILES.contains(&name)
        || extension(name).is_some_and(|ext| NOISE.contains(&ext.to_ascii_lowercase().as_str()))
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The extension; a name that only begins with a dot has none.
pub(super) fn extension(name: &str) -> Option<&str> {
    name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty()).map(|(_, ext)| ext)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, is_new: bool, beside_source: bool) -> ChangedFile {
        let text = Some(b"x\n".to_vec());
        ChangedFile {
            path: path.to_owned(),
            base: (!is_new).then(|| b"y\n".to_vec()),
            new: text,
            beside_source,
        }
    }

    #[test]
    fn tests_and_noise_are_not_the_core() {
        let core = ["src/lib.rs", "Cargo.toml", "a/contest.py", "src/latest.rs", "Makefile"];
        let not = [
            "tests/it.rs",
            "src/tests/a.rs",
            "benches/b.rs",
            "pkg/testdata/x.go",
            "a/test_b.py",
            "a/b_test.go",
            "a/b_test.tmpl.go",
            "src/tests.rs",
            "a.spec.ts",
            "e2e/x.ts",
            ".gitignore",
            "Cargo.lock",
            "go.sum",
            "README.md",
            "fix.patch",
            "src/lib.rs.orig",
            "notes.TXT",
        ];
        for path in core {
            assert!(is_core(&file(path, false, false)), "{path}");
        }
        for path in not {
            assert!(!is_core(&file(path, false, true)), "{path}");
        }
    }

    #[test]
    fn a_new_file_counts_only_as_source_beside_source() {
        assert!(is_core(&file("src/new.rs", true, true)));
        assert!(!is_core(&file("scratch/new.rs", true, false)));
        assert!(!is_core(&file("src/data.bin", true, true)));
    }

    #[test]
    fn binary_files_are_out() {
        let mut binary = file("src/lib.rs", false, false);
        binary.new = Some(b"a\0b".to_vec());
        assert!(!is_core(&binary));
    }
}
