//! Printing a parsed diff in git's format, so that git and [`parse`](super::parse) read it back.
//!
//! Chunks of an envelope have no line numbers, so that a patch with one can't be printed.

use super::binary::{self, BinaryPatch, Method, Payload};
use super::file::{Body, FilePatch, Hunk, LineKind, Patch};
use super::names::quoted;
use crate::model::ChangeKind;

/// Prints a diff in git's format; none when it holds chunks without line numbers.
pub fn print(patch: &Patch) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    patch.files.iter().try_for_each(|file| print_file(file, &mut out))?;
    Some(out)
}

fn print_file(file: &FilePatch, out: &mut Vec<u8>) -> Option<()> {
    let old = file.old_path().or(file.new_path())?;
    let new = file.new_path().or(file.old_path())?;
    let named = |prefix: &[u8], path: &[u8]| quoted(&[prefix, path].concat());
    line(out, &[b"diff --git ", &named(b"a/", old), b" ", &named(b"b/", new)]);
    print_header(file, old, new, out);
    let hunks = match &file.body {
        Body::None => return Some(()),
        Body::Binary(patch) => {
            print_binary(patch, out);
            return Some(());
        }
        Body::Hunks(hunks) => hunks,
        Body::Chunks(_) | Body::Whole(_) => return None,
    };
    print_side(out, b"--- ", file.old_path().map(|path| named(b"a/", path)));
    print_side(out, b"+++ ", file.new_path().map(|path| named(b"b/", path)));
    hunks.iter().for_each(|hunk| print_hunk(hunk, out));
    Some(())
}

fn print_header(file: &FilePatch, old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    let octal = |mode: u32| format!("{mode:06o}").into_bytes();
    match (file.change, file.old_mode, file.new_mode) {
        (ChangeKind::Added, _, Some(mode)) => line(out, &[b"new file mode ", &octal(mode)]),
        (ChangeKind::Deleted, Some(mode), _) => line(out, &[b"deleted file mode ", &octal(mode)]),
        (ChangeKind::Deleted, None, _) => line(out, &[b"deleted file mode 100644"]),
        (_, Some(from), Some(to)) => {
            line(out, &[b"old mode ", &octal(from)]);
            line(out, &[b"new mode ", &octal(to)]);
        }
        _ => {}
    }
    let word: &[u8] = match file.change {
        ChangeKind::Renamed => b"rename",
        ChangeKind::Copied => b"copy",
        _ => b"",
    };
    if !word.is_empty() {
        line(out, &[word, b" from ", &quoted(old)]);
        line(out, &[word, b" to ", &quoted(new)]);
    }
    if let Some(index) = &file.index {
        let mode = match (file.change, file.old_mode, file.new_mode) {
            (ChangeKind::Added | ChangeKind::Deleted, ..) | (_, None, _) | (_, _, Some(_)) => {
                Vec::new()
            }
            (_, Some(mode), None) => [b" ", &octal(mode)[..]].concat(),
        };
        line(out, &[b"index ", index.old.as_bytes(), b"..", index.new.as_bytes(), &mode]);
    }
}

fn print_side(out: &mut Vec<u8>, marker: &[u8], name: Option<Vec<u8>>) {
    match name {
        None => line(out, &[marker, b"/dev/null"]),
        // A tab ends a name with spaces, so that readers don't take its end for a date.
        Some(name) if name.contains(&b' ') && !name.starts_with(b"\"") => {
            line(out, &[marker, &name, b"\t"])
        }
        Some(name) => line(out, &[marker, &name]),
    }
}

fn print_hunk(hunk: &Hunk, out: &mut Vec<u8>) {
    let range = |start: usize, count: usize| match count {
        1 => start.to_string(),
        _ => format!("{start},{count}"),
    };
    let old = range(hunk.old_start, hunk.old_count());
    let new = range(hunk.new_start, hunk.new_count());
    out.extend(format!("@@ -{old} +{new} @@").into_bytes());
    if !hunk.heading.is_empty() {
        out.push(b' ');
        out.extend_from_slice(&hunk.heading);
    }
    out.push(b'\n');
    for printed in &hunk.lines {
        out.push(match printed.kind {
            LineKind::Context => b' ',
            LineKind::Remove => b'-',
            LineKind::Add => b'+',
        });
        out.extend_from_slice(&printed.text);
        if !printed.text.ends_with(b"\n") {
            out.extend_from_slice(b"\n\\ No newline at end of file\n");
        }
    }
}

fn print_binary(patch: &BinaryPatch, out: &mut Vec<u8>) {
    line(out, &[b"GIT binary patch"]);
    print_payload(&patch.forward, out);
    if let Some(reverse) = &patch.reverse {
        print_payload(reverse, out);
    }
}

fn print_payload(payload: &Payload, out: &mut Vec<u8>) {
    let method: &[u8] = match payload.method {
        Method::Literal => b"literal ",
        Method::Delta => b"delta ",
    };
    line(out, &[method, payload.size.to_string().as_bytes()]);
    out.extend(binary::encode(&payload.packed));
    out.push(b'\n');
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out.push(b'\n');
}
