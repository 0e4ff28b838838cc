//! Against the real `git apply`: a diff is never admitted with another tree than git's.

use std::collections::BTreeMap;

use bakeoff::model::{Admission, TreeId};
use bakeoff::patch::Rules;
use fastrand::Rng;

use crate::patch_store::GitStore;

type Files = BTreeMap<String, (u32, Vec<u8>)>;

/// Few different lines, so that contexts repeat and offsets have something to get wrong.
const LINES: [&str; 12] =
    ["a", "b", "c", "", "", "}", "  x", "  y", "fn f() {", "-- ", "end\r", "caf\u{e9}  "];

fn text(rng: &mut Rng) -> Vec<u8> {
    let lines = rng.usize(0..40);
    let mut out: Vec<u8> = Vec::new();
    for line in 0..lines {
        match rng.usize(0..3) {
            0 => out.extend(format!("line {line}").into_bytes()),
            _ => out.extend(LINES[rng.usize(0..LINES.len())].as_bytes()),
        }
        out.push(b'\n');
    }
    if rng.usize(0..6) == 0 {
        out.pop();
    }
    out
}

/// Some lines replaced, added, removed.
fn edited(rng: &mut Rng, old: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> =
        old.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..rng.usize(1..5) {
        let at = rng.usize(0..=lines.len());
        let new = format!("{} {}\n", LINES[rng.usize(0..LINES.len())], rng.u8(..)).into_bytes();
        match rng.usize(0..4) {
            0 if at < lines.len() => lines[at] = new,
            1 if at < lines.len() => {
                lines.remove(at);
            }
            2 if at < lines.len() => lines.insert(at, lines[at].clone()),
            _ => lines.insert(at, new),
        }
    }
    let mut out = lines.concat();
    if rng.usize(0..8) == 0 && out.ends_with(b"\n") {
        out.pop();
    }
    out
}

fn files(rng: &mut Rng) -> Files {
    let names = ["a.txt", "dir/b.txt", "dir/sub/c d.txt", "na\u{ef}ve.txt", "z"];
    let mode = |rng: &mut Rng| if rng.usize(0..5) == 0 { 0o100_755 } else { 0o100_644 };
    names.iter().map(|name| ((*name).to_owned(), (mode(rng), text(rng)))).collect()
}

fn changed(rng: &mut Rng, old: &Files) -> Files {
    let mut new = old.clone();
    for (name, (mode, bytes)) in old {
        match rng.usize(0..9) {
            0..=3 => {
                new.insert(name.clone(), (*mode, edited(rng, bytes)));
            }
            4 => {
                new.remove(name);
            }
            5 => {
                new.remove(name);
                let moved = if rng.bool() { bytes.clone() } else { edited(rng, bytes) };
                new.insert(format!("moved/{name}"), (*mode, moved));
            }
            6 => {
                new.insert(name.clone(), (mode ^ 0o111, bytes.clone()));
            }
            _ => {}
        }
    }
    if rng.bool() {
        new.insert("fresh/new.txt".to_owned(), (0o100_644, text(rng)));
    }
    new
}

fn tree(store: &GitStore, files: &Files) -> TreeId {
    let list: Vec<(&[u8], u32, Vec<u8>)> =
        files.iter().map(|(name, (mode, bytes))| (name.as_bytes(), *mode, bytes.clone())).collect();
    store.make(&list)
}

/// Damages a diff in one of the ways in which models and transports do.
fn damaged(rng: &mut Rng, diff: &[u8]) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> =
        diff.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = rng.usize(0..lines.len());
    match rng.usize(0..14) {
        0 => {
            lines.remove(at);
        }
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = rng.usize(0..lines.len());
            lines.swap(at, other);
        }
        3 => lines.truncate(at + 1),
        4 => {
            lines.truncate(at + 1);
            if let Some(last) = lines.last_mut() {
                last.pop();
            }
        }
        5 | 6 => renumber(rng, &mut lines),
        7 => {
            for line in &mut lines {
                if line.as_slice() == b" \n" {
                    *line = b"\n".to_vec();
                }
            }
        }
        8 => lines.insert(at, b"+more\n".to_vec()),
        9 => lines.insert(
            at,
            [&[b' ', b'-', b'\n', b'\\', b'@'][rng.usize(0..5)..][..1], b"junk\n"].concat(),
        ),
        10 => {
            lines.insert(0, b"Here it is:\n```diff\n".to_vec());
            lines.push(b"```\n".to_vec());
        }
        11 => {
            for line in &mut lines {
                if line.ends_with(b"\n") {
                    line.pop();
                    line.extend(b"\r\n");
                }
            }
        }
        12 => {
            let line = &mut lines[at];
            let place = rng.usize(0..line.len());
            line[place] = rng.u8(1..);
        }
        _ => {
            while lines.last().is_some_and(|line| line.trim_ascii().is_empty()) {
                lines.pop();
            }
            if let Some(last) = lines.last_mut() {
                *last = last.trim_ascii_end().to_vec();
            }
        }
    }
    lines.concat()
}

/// Changes a number of a random hunk header.
fn renumber(rng: &mut Rng, lines: &mut [Vec<u8>]) {
    let headers: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].starts_with(b"@@ -")).collect();
    let Some(&at) = headers.get(rng.usize(0..headers.len().max(1))) else { return };
    let digits: Vec<usize> =
        (0..lines[at].len()).filter(|i| lines[at][*i].is_ascii_digit()).collect();
    let digit = digits[rng.usize(0..digits.len())];
    lines[at][digit] = rng.u8(b'0'..=b'9');
}

/// What is wrong with a verdict, compared with git's.
fn wrong(store: &GitStore, base: &TreeId, diff: &[u8]) -> Option<String> {
    let rules = Rules { binary: true, ..Rules::default() };
    let Admission::Admitted { tree, repairs, flags, .. } = store.admit(diff, base, &rules) else {
        return None;
    };
    let bare = flags.iter().any(|flag| flag.code == "zero-context");
    let plain = store.git_apply(diff, base, &[]);
    let git = match bare {
        true => store.git_apply(diff, base, &["--unidiff-zero"]),
        false => plain,
    };
    match git {
        Some(theirs) if theirs == tree.as_str() => None,
        None if !repairs.is_empty() => None,
        theirs => {
            Some(format!("git {theirs:?}, ours {tree}, repairs {repairs:?}, flags {flags:?}"))
        }
    }
}

/// One round: a change, its diff, the diff damaged, and the diff on a base that has moved on. Gives what
/// is wrong.
fn round(seed: u64) -> Vec<String> {
    let mut rng = Rng::with_seed(seed);
    let store = GitStore::new();
    let old = files(&mut rng);
    let new = changed(&mut rng, &old);
    let (base, target) = (tree(&store, &old), tree(&store, &new));
    let context = [0, 1, 2, 3, 3, 3, 3, 8][rng.usize(0..8)];
    let diff = store.diff(&base, &target, context, rng.bool());
    if diff.is_empty() {
        return Vec::new();
    }
    let mut complaints = Vec::new();
    let mut complain = |what: String, diff: &[u8]| {
        complaints.push(format!("seed {seed}: {what}\n{}", String::from_utf8_lossy(diff)));
    };
    let rules = Rules { binary: true, ..Rules::default() };
    match store.admit(&diff, &base, &rules) {
        Admission::Admitted { tree, repairs, .. } if tree == target && repairs.is_empty() => {}
        other => complain(format!("undamaged, but {other:?}"), &diff),
    }
    let mut moved = old.clone();
    for (_, bytes) in moved.values_mut() {
        *bytes = edited(&mut rng, bytes);
    }
    let moved = tree(&store, &moved);
    let mut tries = vec![(moved.clone(), diff.clone())];
    for _ in 0..4 {
        tries.push((base.clone(), damaged(&mut rng, &diff)));
    }
    tries.push((moved, damaged(&mut rng, &diff)));
    for (base, diff) in tries {
        if let Some(wrong) = wrong(&store, &base, &diff) {
            complain(wrong, &diff);
        }
    }
    complaints
}

#[test]
fn never_another_tree_than_git() {
    assert_eq!((0..30).flat_map(round).collect::<Vec<_>>(), Vec::<String>::new());
}

/// The same for long: `cargo test -- --ignored never_another_tree`.
#[test]
#[ignore = "takes minutes"]
fn never_another_tree_than_git_for_long() {
    let complaints: Vec<String> = (1000..3000).flat_map(round).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
