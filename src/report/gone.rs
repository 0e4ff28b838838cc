//! What `gc` removed, or would remove.

use super::Style;
use super::page::{Cell, Page, Row, Tone};
use crate::journal::OnDisk;
use crate::repo::{Cleaned, Cleared, Swept};

/// What a cleaning did.
#[derive(Clone, Debug, Default)]
pub struct Gone {
    /// Whether it only told what it would do.
    pub dry: bool,
    /// What killed engines had left.
    pub swept: Swept,
    /// Runs that were to go.
    pub runs: Vec<GoneRun>,
    /// The cache.
    pub cache: Cleaned,
}

/// A run that was to go.
#[derive(Clone, Debug)]
pub struct GoneRun {
    /// The run.
    pub run: OnDisk,
    /// Whether an engine works on it, so that it stays.
    pub live: bool,
}

impl Gone {
    /// The bytes that went, or would go.
    fn bytes(&self) -> u64 {
        let runs = self.runs.iter().filter(|gone| !gone.live).map(|gone| gone.run.bytes);
        let cache = self.cache.cleared.iter().filter(|gone| !gone.in_use).map(|gone| gone.bytes);
        runs.chain(cache).sum::<u64>() + self.swept.bytes
    }

    /// The things that went, or would go.
    fn count(&self) -> usize {
        let runs = self.runs.iter().filter(|gone| !gone.live).count();
        runs + self.cache.cleared.iter().filter(|gone| !gone.in_use).count()
    }

    /// As a versioned object.
    pub fn as_json(&self) -> serde_json::Value {
        let cleared = |c: &Cleared| {
            serde_json::json!({
                "kind": c.kind, "of": c.of, "top": c.top, "path": c.path, "files": c.files,
                "bytes": c.bytes, "unused_seconds": c.unused_seconds, "why": c.why, "in_use": c.in_use,
            })
        };
        let run = |gone: &GoneRun| {
            serde_json::json!({
                "run": gone.run.run, "path": gone.run.path, "age_seconds": gone.run.age.as_secs(),
                "files": gone.run.files, "bytes": gone.run.bytes, "in_use": gone.live,
            })
        };
        serde_json::json!({
            "version": 1,
            "dry_run": self.dry,
            "bytes": self.bytes(),
            "runs": self.runs.iter().map(run).collect::<Vec<_>>(),
            "cache": self.cache.cleared.iter().map(cleared).collect::<Vec<_>>(),
            "cache_kept": { "entries": self.cache.kept, "bytes": self.cache.kept_bytes },
            "leftovers": {
                "leases": self.swept.leases, "files": self.swept.files, "bytes": self.swept.bytes,
                "failed": self.swept.failed,
            },
        })
    }
}

const HEAD: [&str; 5] = ["kind", "size", "unused", "why", "what"];

/// What went, a line each, and what stays of the cache.
pub fn gone(gone: &Gone, style: &Style) -> String {
    let mut page = Page::new(style);
    let runs = gone.runs.iter().map(|gone| {
        let why = if gone.live { "in use, stays" } else { "asked for" };
        row("run", gone.run.bytes, gone.run.age.as_secs(), why, gone.run.run.as_str())
    });
    let cache = gone.cache.cleared.iter().map(|one| {
        let why = if one.in_use { "in use, stays" } else { one.why };
        row(&one.kind, one.bytes, one.unused_seconds, why, &what(one))
    });
    let rows: Vec<Row> = runs.chain(cache).collect();
    if !rows.is_empty() {
        page.table(&HEAD, &rows, 2);
    }
    let did = if gone.dry { "would remove" } else { "removed" };
    page.heading(&format!("{did} {}: {}", counted(gone.count(), "thing"), size(gone.bytes())));
    if gone.swept.leases > 0 {
        let left = counted(gone.swept.leases as usize, "leftover");
        page.entry(
            "",
            &format!("and {left} of killed engines: {}", size(gone.swept.bytes)),
            Tone::Plain,
        );
    }
    for failed in &gone.swept.failed {
        page.entry("could not remove ", failed, Tone::Warn);
    }
    let kept = counted(usize::try_from(gone.cache.kept).unwrap_or(usize::MAX), "thing");
    page.entry(
        "",
        &format!("the cache keeps {kept}: {}", size(gone.cache.kept_bytes)),
        Tone::Plain,
    );
    page.finish()
}

fn what(one: &Cleared) -> String {
    // What output was made by is a digest that says nothing to a reader.
    let of = one.of.rsplit(' ').next().unwrap_or_default();
    let of = if of.len() == 40 { &of[..12] } else { of };
    match (of, one.top.as_str()) {
        ("", _) => one.path.display().to_string(),
        (of, "") => of.to_owned(),
        (of, top) => format!("{of} of {top}"),
    }
}

fn row(kind: &str, bytes: u64, seconds: u64, why: &str, what: &str) -> Row {
    let cells = [kind, &size(bytes), &age(seconds), why, what].map(Cell::plain).to_vec();
    Row { cells, notes: Vec::new() }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Bytes in the largest unit that leaves a number of at least 1.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = UNITS.iter().enumerate().rev().find(|(n, _)| bytes >> (10 * n) > 0);
    match unit {
        None | Some((0, _)) => format!("{bytes} B"),
        Some((n, unit)) => {
            let tenths = (u128::from(bytes) * 10) >> (10 * n);
            format!("{}.{} {unit}", tenths / 10, tenths % 10)
        }
    }
}

fn age(seconds: u64) -> String {
    match seconds {
        0..3600 => format!("{} min", seconds / 60),
        3600..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::RunId;
    use std::time::Duration;

    #[test]
    fn a_dry_run_lists_with_sizes() {
        let cleared = |kind: &str, of: &str, why, in_use| Cleared {
            kind: kind.into(),
            of: of.into(),
            top: "/home/me/project".into(),
            path: "/cache/v2/x".into(),
            files: 3,
            bytes: 373_000_000,
            unused_seconds: 3_600_000,
            why,
            in_use,
        };
        let run = OnDisk {
            run: RunId::new("0190163d-8694-739b-aea5-966c26f8ad91"),
            path: "/state/runs/x".into(),
            age: Duration::from_secs(100),
            files: 9,
            bytes: 2048,
        };
        let all = Gone {
            dry: true,
            runs: vec![GoneRun { run, live: false }],
            cache: Cleaned {
                cleared: vec![
                    cleared(
                        "base",
                        "tree 0123456789012345678901234567890123456789",
                        "not used for long",
                        false,
                    ),
                    cleared("carry", "web/node_modules", "beyond the size", true),
                ],
                kept: 1,
                kept_bytes: 5,
            },
            ..Gone::default()
        };
        insta::assert_snapshot!(gone(&all, &Style { columns: 100, colour: false }), @r"
          kind   size       unused  why                what
          run    2.0 KiB    1 min   asked for          0190163d-8694-739b-aea5-966c26f8ad91
          base   355.7 MiB  41 d    not used for long  012345678901 of /home/me/project
          carry  355.7 MiB  41 d    in use, stays      web/node_modules of /home/me/project

        would remove 2 things: 355.7 MiB
        the cache keeps 1 thing: 5 B
        ");
        assert_eq!(all.as_json()["bytes"], 373_002_048);
        let nothing = gone(&Gone::default(), &Style { columns: 80, colour: false });
        assert_eq!(nothing, "removed 0 things: 0 B\nthe cache keeps 0 things: 0 B\n");
    }
}
