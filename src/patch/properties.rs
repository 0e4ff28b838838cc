//! Properties of parsing, printing and applying, over generated diffs and texts.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use similar::TextDiff;

use super::file::{Body, Counts, Hunk, Index, Line, LineKind, Prefix};
use super::{FilePatch, Patch, Rules, mode, parse, print};
use crate::model::ChangeKind;

/// Bytes of a line, without its line feed.
fn line_bytes() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![Just(b' '), Just(b'-'), Just(b'+'), Just(b'@'), 1..=255_u8], 0..8)
        .prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'\n').collect())
}

fn line(kinds: Vec<LineKind>) -> impl Strategy<Value = Line> {
    (prop::sample::select(kinds), line_bytes()).prop_map(|(kind, mut text)| {
        text.push(b'\n');
        Line { kind, text }
    })
}

fn hunk(kinds: Vec<LineKind>) -> impl Strategy<Value = Hunk> {
    let change = kinds.iter().copied().find(|kind| *kind != LineKind::Context).unwrap();
    let heading = vec(b' '..=b'~', 0..5);
    (vec(line(kinds), 1..6), 1..2000_usize, 1..2000_usize, heading).prop_map(
        move |(mut lines, old_start, new_start, heading)| {
            if lines.iter().all(|line| line.kind == LineKind::Context) {
                lines[0].kind = change;
            }
            Hunk { old_start, new_start, heading, lines, counts: Counts::Right }
        },
    )
}

/// Takes the line feed off the last line of each side, where that gives a possible pair of files.
fn open_end(hunks: &mut [Hunk]) {
    let Some(lines) = hunks.last_mut().map(|hunk| &mut hunk.lines) else { return };
    let last = lines.last().map(|line| line.kind);
    for (kind, other) in [(LineKind::Remove, LineKind::Add), (LineKind::Add, LineKind::Remove)] {
        let line = lines.iter_mut().rev().find(|line| line.kind != other);
        let open = |line: &Line| line.kind == kind || last == Some(LineKind::Context);
        if let Some(line) = line.filter(|line| open(line) && line.text.len() > 1) {
            line.text.retain(|byte| *byte != b'\n');
        }
    }
}

fn hunks(kinds: Vec<LineKind>, most: usize) -> impl Strategy<Value = Vec<Hunk>> {
    (vec(hunk(kinds), 1..=most), any::<bool>()).prop_map(|(mut hunks, open)| {
        if open {
            open_end(&mut hunks);
        }
        hunks
    })
}

fn path() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![4 => b'a'..=b'e', 1 => Just(b' '), 1 => Just(b'/'), 1 => 1..=255_u8];
    vec(byte, 1..10)
}

fn file_mode() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![mode::FILE, mode::EXECUTABLE])
}

fn index() -> impl Strategy<Value = Index> {
    ("[0-9a-f]{7,40}", "[0-9a-f]{7,40}").prop_map(|(old, new)| Index { old, new })
}

fn all() -> Vec<LineKind> {
    vec![LineKind::Context, LineKind::Remove, LineKind::Add]
}

fn blank(old: Option<Vec<u8>>, new: Option<Vec<u8>>, change: ChangeKind, body: Body) -> FilePatch {
    FilePatch {
        old_path: old,
        new_path: new,
        change,
        old_mode: None,
        new_mode: None,
        index: None,
        body,
        prefix: Prefix::Stripped,
        may_create: false,
    }
}

fn modified() -> impl Strategy<Value = FilePatch> {
    (
        path(),
        hunks(all(), 3),
        option::of((file_mode(), file_mode())),
        option::of((index(), file_mode())),
    )
        .prop_map(|(path, hunks, modes, index)| {
            let mut file =
                blank(Some(path.clone()), Some(path), ChangeKind::Modified, Body::Hunks(hunks));
            match (modes, index) {
                (Some((old, new)), _) => (file.old_mode, file.new_mode) = (Some(old), Some(new)),
                (None, Some((index, mode))) => {
                    (file.index, file.old_mode) = (Some(index), Some(mode))
                }
                (None, None) => {}
            }
            file
        })
}

fn added() -> impl Strategy<Value = FilePatch> {
    (path(), option::of(hunks(vec![LineKind::Add], 1)), file_mode(), option::of(index())).prop_map(
        |(path, hunks, mode, index)| {
            let index = index.filter(|_| hunks.is_some());
            let body = hunks.map_or(Body::None, |mut hunks| {
                (hunks[0].old_start, hunks[0].new_start) = (0, 1);
                Body::Hunks(hunks)
            });
            FilePatch {
                new_mode: Some(mode),
                index,
                ..blank(None, Some(path), ChangeKind::Added, body)
            }
        },
    )
}

fn deleted() -> impl Strategy<Value = FilePatch> {
    (path(), option::of(hunks(vec![LineKind::Remove], 2)), file_mode()).prop_map(
        |(path, hunks, mode)| {
            let body = hunks.map_or(Body::None, Body::Hunks);
            FilePatch { old_mode: Some(mode), ..blank(Some(path), None, ChangeKind::Deleted, body) }
        },
    )
}

fn moved() -> impl Strategy<Value = FilePatch> {
    (path(), path(), option::of(hunks(all(), 2)), any::<bool>())
        .prop_filter("a move needs two paths", |(old, new, ..)| old != new)
        .prop_map(|(old, new, hunks, copied)| {
            let change = if copied { ChangeKind::Copied } else { ChangeKind::Renamed };
            let body = hunks.map_or(Body::None, Body::Hunks);
            FilePatch { prefix: Prefix::Named, ..blank(Some(old), Some(new), change, body) }
        })
}

fn mode_only() -> impl Strategy<Value = FilePatch> {
    path().prop_map(|path| FilePatch {
        old_mode: Some(mode::FILE),
        new_mode: Some(mode::EXECUTABLE),
        ..blank(Some(path.clone()), Some(path), ChangeKind::Mode, Body::None)
    })
}

fn patch() -> impl Strategy<Value = Patch> {
    vec(prop_oneof![modified(), added(), deleted(), moved(), mode_only()], 1..4)
        .prop_filter("each path once", |files| {
            let mut paths: Vec<&[u8]> = files.iter().map(FilePatch::path).collect();
            paths.sort_unstable();
            paths.windows(2).all(|pair| pair[0] != pair[1])
        })
        .prop_map(|files| Patch { files, ..Patch::default() })
}

/// A text of few different lines, so that contexts repeat.
fn text() -> impl Strategy<Value = String> {
    let line = prop_oneof!["[ab]{0,2}", "[a-e ]{1,4}", Just("\u{e9}".to_owned())];
    (vec(line, 0..30), any::<bool>()).prop_map(|(lines, ended)| {
        let mut text = lines.join("\n");
        if ended && !text.is_empty() {
            text.push('\n');
        }
        text
    })
}

fn rules() -> Rules {
    Rules::default()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_is_read_back(patch in patch()) {
        let printed = print(&patch).unwrap();
        let read = parse(&printed, &rules());
        prop_assert_eq!(read.as_ref(), Ok(&patch), "{}", String::from_utf8_lossy(&printed));
    }

    #[test]
    fn a_diff_of_two_texts_gives_the_second(old in text(), new in text(), context in 0_usize..5) {
        prop_assume!(old != new);
        let diff = TextDiff::from_lines(&old, &new);
        let diff = diff.unified_diff().context_radius(context).header("a/x", "b/x").to_string();
        let patch = parse(diff.as_bytes(), &rules()).unwrap();
        prop_assert!(patch.repairs().is_empty());
        match patch.files()[0].apply(Some(old.as_bytes())) {
            Ok(bytes) => prop_assert_eq!(bytes.unwrap(), new.as_bytes()),
            // Without context, an insertion can't show that its place is right.
            Err(refusal) => prop_assert!(context == 0 && refusal.code == "zero-context", "{refusal:?}\n{diff}"),
        }
    }

    #[test]
    fn a_repaired_diff_means_the_same(old in text(), new in text()) {
        prop_assume!(old != new);
        let diff = TextDiff::from_lines(&old, &new);
        let diff = diff.unified_diff().context_radius(3).header("a/x", "b/x").to_string();
        let fenced = format!("Here it is:\n\n```diff\n{diff}```\nDone.\n");
        let cut = diff.strip_suffix('\n').unwrap_or(&diff).to_owned();
        for damaged in [fenced, cut, diff.replace("\n \n", "\n\n")] {
            let patch = parse(damaged.as_bytes(), &rules()).unwrap();
            let got = patch.files()[0].apply(Some(old.as_bytes())).unwrap().unwrap();
            prop_assert_eq!(got, new.as_bytes(), "{}", damaged);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes, &rules());
    }

    #[test]
    fn no_damage_makes_it_panic(patch in patch(), cuts in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), old in text()) {
        let mut printed = print(&patch).unwrap();
        for (at, byte) in cuts {
            let at = at.index(printed.len());
            printed[at] = byte;
        }
        if let Ok(read) = parse(&printed, &rules()) {
            for file in read.files() {
                let _ = file.apply(Some(old.as_bytes()));
            }
        }
    }
}
