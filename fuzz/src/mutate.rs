//! Mutations of diffs: by line, by hunk header, by file header, and by what models put around diffs.

use fastrand::Rng;

use crate::oracle::base_files;

/// Lines that mean something to a reader of diffs.
const LINES: [&str; 64] = [
    "diff --git a/numbered.txt b/numbered.txt",
    "diff --git a/open.txt b/open.txt",
    "diff --git a/new.txt b/new.txt",
    "diff --git a/a b.txt b/a b.txt",
    "diff --git \"a/na\\303\\257ve.txt\" \"b/na\\303\\257ve.txt\"",
    "diff --git \"a/latin\\351.txt\" \"b/latin\\351.txt\"",
    "diff --git a/twin.txt b/a/twin.txt",
    "diff --git numbered.txt numbered.txt",
    "diff -u a/open.txt b/open.txt",
    "--- a/numbered.txt",
    "+++ b/numbered.txt",
    "--- a/a b.txt\t",
    "+++ b/a b.txt\t",
    "--- numbered.txt\t2024-01-01 00:00:00.000000000 +0000",
    "+++ numbered.txt\t1970-01-01 00:00:00.000000000 +0000",
    "--- a/twin.txt",
    "+++ b/twin.txt",
    "--- a/a/twin.txt",
    "+++ b/a/twin.txt",
    "--- /dev/null",
    "+++ /dev/null",
    "new file mode 100644",
    "new file mode 100755",
    "new file mode 120000",
    "new file mode 160000",
    "deleted file mode 100644",
    "old mode 100644",
    "new mode 100755",
    "old mode 100755",
    "new mode 100644",
    "similarity index 100%",
    "similarity index 80%",
    "dissimilarity index 90%",
    "rename from numbered.txt",
    "rename to moved.txt",
    "copy from open.txt",
    "copy to copy.txt",
    "index 0000000..e69de29",
    "index e69de29..0000000 100644",
    "index 1234567..89abcde 100644",
    "@@ -1 +1 @@",
    "@@ -0,0 +1 @@",
    "@@ -1 +0,0 @@",
    "@@ -1,3 +1,4 @@",
    "@@ -3,0 +4 @@",
    "@@ -58,3 +58,4 @@ line 57",
    "\\ No newline at end of file",
    "-- ",
    "2.47.3",
    "---",
    "```diff",
    "```",
    "~~~",
    "From 1111111111111111111111111111111111111111 Mon Sep 17 00:00:00 2001",
    "Subject: [PATCH] x",
    "Index: numbered.txt",
    "*** Begin Patch",
    "*** End Patch",
    "*** Update File: open.txt",
    "*** Add File: new.txt",
    "*** Move to: moved.txt",
    "*** End of File",
    "GIT binary patch",
    "Binary files a/data.bin and b/data.bin differ",
];

type Lines = Vec<Vec<u8>>;

/// One to four changes.
pub fn mutate(diff: &[u8], seed: u32) -> Vec<u8> {
    let mut rng = Rng::with_seed(u64::from(seed));
    let mut lines: Lines = diff.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        lines.push(b"diff --git a/open.txt b/open.txt\n".to_vec());
    }
    for _ in 0..rng.usize(1..5) {
        change(&mut rng, &mut lines);
        if lines.is_empty() {
            break;
        }
    }
    lines.concat()
}

fn change(rng: &mut Rng, lines: &mut Lines) {
    let at = rng.usize(0..lines.len());
    match rng.usize(0..20) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = rng.usize(0..lines.len());
            lines.swap(at, other);
        }
        3 => move_block(rng, lines),
        4..=6 => renumber(rng, lines),
        7 => lines.insert(at, known(rng)),
        8 => lines[at] = known(rng),
        9 | 10 => lines.insert(at, of_base(rng)),
        11 => sign(rng, lines, at),
        12 => consistent_line(rng, lines, at),
        13 => end_of_line(rng, lines, at),
        14 => lines.truncate(at + 1),
        15 => around(rng, lines),
        16 => rename(rng, lines),
        17 => blank_context(lines),
        18 => recount(rng, lines),
        _ => one_byte(rng, lines, at),
    }
}

fn known(rng: &mut Rng) -> Vec<u8> {
    [LINES[rng.usize(0..LINES.len())].as_bytes(), b"\n"].concat()
}

fn ended(mut line: Vec<u8>) -> Vec<u8> {
    if !line.ends_with(b"\n") {
        line.push(b'\n');
    }
    line
}

/// A line of the base with a sign before it.
fn of_base(rng: &mut Rng) -> Vec<u8> {
    let files = base_files();
    let (_, _, bytes) = &files[rng.usize(0..files.len())];
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let line = lines.get(rng.usize(0..lines.len().max(1))).copied().unwrap_or(b"\n");
    ended([&[b" +-"[rng.usize(0..3)]], line].concat())
}

fn sign(rng: &mut Rng, lines: &mut Lines, at: usize) {
    if let Some(first) = lines[at].first_mut() {
        *first = b" +-\\@"[rng.usize(0..5)];
    }
}

/// A line more or less in a hunk whose header is mended for it.
fn consistent_line(rng: &mut Rng, lines: &mut Lines, at: usize) {
    let Some(header) = (0..=at).rev().find(|at| lines[*at].starts_with(b"@@ -")) else { return };
    if rng.bool() {
        lines.insert(at + 1, of_base(rng));
    } else if at > header {
        lines.remove(at);
    }
    mend(lines, header);
}

/// Writes the counts that the lines after a hunk header have.
fn mend(lines: &mut Lines, header: usize) {
    let body = lines[header + 1..].iter();
    let body = body.take_while(|line| matches!(line.first(), Some(b' ' | b'+' | b'-' | b'\\')));
    let count = |signs: &[u8]| body.clone().filter(|line| signs.contains(&line[0])).count();
    let (old, new) = (count(b" -"), count(b" +"));
    let text = String::from_utf8_lossy(&lines[header]).into_owned();
    let start = |sign: char| {
        let rest = text.split_once(sign).map_or("1", |(_, rest)| rest);
        rest.chars().take_while(char::is_ascii_digit).collect::<String>()
    };
    lines[header] = format!("@@ -{},{old} +{},{new} @@\n", start('-'), start('+')).into_bytes();
}

fn recount(rng: &mut Rng, lines: &mut Lines) {
    if let Some(at) = header(rng, lines) {
        mend(lines, at);
    }
}

fn header(rng: &mut Rng, lines: &Lines) -> Option<usize> {
    let headers: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].starts_with(b"@@ -")).collect();
    headers.get(rng.usize(0..headers.len().max(1))).copied()
}

/// Another number in a hunk header, or both starts moved by the same distance.
fn renumber(rng: &mut Rng, lines: &mut Lines) {
    let Some(at) = header(rng, lines) else { return };
    let digits: Vec<usize> =
        (0..lines[at].len()).filter(|i| lines[at][*i].is_ascii_digit()).collect();
    if let Some(digit) = digits.get(rng.usize(0..digits.len().max(1))) {
        lines[at][*digit] = rng.u8(b'0'..=b'9');
    }
}

fn end_of_line(rng: &mut Rng, lines: &mut Lines, at: usize) {
    let throughout = rng.bool();
    let which = if throughout { 0..lines.len() } else { at..at + 1 };
    for line in &mut lines[which] {
        if line.ends_with(b"\r\n") {
            line.truncate(line.len() - 2);
            line.push(b'\n');
        } else if line.ends_with(b"\n") {
            line.pop();
            if throughout || rng.bool() {
                line.extend(b"\r\n");
            }
        }
    }
}

/// What models and mail programs put around a diff.
fn around(rng: &mut Rng, lines: &mut Lines) {
    let pairs: [(&str, &str); 6] = [
        ("Here it is:\n```diff\n", "```\nDone.\n"),
        ("~~~\n", "~~~\n"),
        ("From 1111111111111111111111111111111111111111 Mon Sep 17\nSubject: x\n\n---\n x | 2 +-\n\n", "-- \n2.47.3\n\n"),
        ("*** Begin Patch\n", "*** End Patch\n"),
        ("\u{feff}", ""),
        ("\n\n", "\n\n\n"),
    ];
    let (before, after) = pairs[rng.usize(0..pairs.len())];
    lines.insert(0, before.as_bytes().to_vec());
    lines.push(after.as_bytes().to_vec());
}

fn move_block(rng: &mut Rng, lines: &mut Lines) {
    let from = rng.usize(0..lines.len());
    let to = (from + rng.usize(1..8)).min(lines.len());
    let block: Lines = if rng.bool() {
        lines.drain(from..to).collect()
    } else {
        lines[from..to].to_vec()
    };
    let at = rng.usize(0..=lines.len());
    lines.splice(at..at, block);
}

/// One path of the base in place of another, everywhere.
fn rename(rng: &mut Rng, lines: &mut Lines) {
    let files = base_files();
    let name = |rng: &mut Rng| files[rng.usize(0..files.len())].0;
    let (from, to) = (name(rng), name(rng));
    for line in lines.iter_mut().filter(|line| !matches!(line.first(), Some(b' ' | b'@'))) {
        if let Some(at) = line.windows(from.len()).position(|window| window == from) {
            line.splice(at..at + from.len(), to.iter().copied());
        }
    }
}

fn blank_context(lines: &mut Lines) {
    for line in lines.iter_mut().filter(|line| line.as_slice() == b" \n") {
        *line = b"\n".to_vec();
    }
}

fn one_byte(rng: &mut Rng, lines: &mut Lines, at: usize) {
    let line = &mut lines[at];
    if line.is_empty() {
        return;
    }
    let place = rng.usize(0..line.len());
    line[place] = match rng.usize(0..3) {
        0 => rng.u8(1..),
        1 => b" \t/\\\"'ab.0127+-@"[rng.usize(0..16)],
        _ => line[rng.usize(0..line.len())],
    };
}
