//! Zero-context hunks of one file, comments and blank lines dropped.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::ChangedFile;
use super::core::extension;

/// Lines that one place of a file loses and gains.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hunk {
    /// The place in the base: the index of the first line behind what stays before it.
    pub at: usize,
    /// Removed lines.
    pub removed: Vec<String>,
    /// Added lines.
    pub added: Vec<String>,
}

/// A file's lines in the base, and its hunks.
pub struct FileHunks {
    /// Lines of the base.
    pub base: Vec<String>,
    /// Hunks, top down.
    pub hunks: Vec<Hunk>,
}

/// Diffs a file by its lines, with the histogram algorithm.
pub fn hunks(file: &ChangedFile) -> FileHunks {
    let base = lines(file.base.as_deref());
    let new = lines(file.new.as_deref());
    let comment = Comments::of(&file.path);
    let keep = |lines: &[String]| -> Vec<String> {
        lines.iter().filter(|line| !comment.is_idle(line)).cloned().collect()
    };
    let ops = capture_diff_slices(Algorithm::Histogram, &base, &new);
    let hunk = |op: &DiffOp| {
        let (old, fresh) = (op.old_range(), op.new_range());
        Hunk { at: old.start, removed: keep(&base[old]), added: keep(&new[fresh]) }
    };
    let changed = ops.iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    let hunks = changed.map(hunk).filter(|hunk| !hunk.removed.is_empty() || !hunk.added.is_empty());
    FileHunks { hunks: hunks.collect(), base }
}

fn lines(bytes: Option<&[u8]>) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes.unwrap_or_default());
    text.lines().map(str::to_owned).collect()
}

/// How a language writes a comment that has its line to itself.
struct Comments(&'static [&'static str]);

impl Comments {
    fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        Self(match extension(name).unwrap_or_default() {
            "py" | "pyi" | "rb" | "sh" | "bash" | "pl" | "pm" | "ex" | "exs" | "jl" | "r"
            | "toml" | "yaml" | "yml" | "nim" | "cfg" | "ini" => &["#"],
            "sql" | "lua" | "hs" => &["--"],
            "erl" | "tex" => &["%"],
            "clj" | "cljs" | "el" | "lisp" => &[";"],
            "html" | "xml" | "svg" | "vue" | "svelte" => &["<!--", "//", "/*"],
            "ml" | "mli" => &["(*"],
            "json" => &[],
            _ => &["//", "/*", "* ", "*/"],
        })
    }

    /// Whether a line is blank or nothing but a comment.
    fn is_idle(&self, line: &str) -> bool {
        let line = line.trim();
        line.is_empty()
            || (line == "*" && self.0.contains(&"*/"))
            || self.0.iter().any(|start| line.starts_with(start))
    }
}
