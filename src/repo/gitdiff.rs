//! Prints changes in git's extended diff format: full object names, binary files as literals, no
//! renames, three lines of context.
//!
//! Format: `git help diff-format` and `git help format-patch`. Pure but for the blob reader that it
//! is given. Never here: a working tree, a configuration, attributes.

use std::io::Write;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use git2::{DiffOptions, Patch};

use super::edit::Change;
use super::error::{GitContext, IoContext, Result};
use super::objects::{GITLINK, LINK, Leaf};

/// Reads a leaf's bytes.
pub(crate) type Reader<'a> = dyn Fn(&Leaf) -> Result<Vec<u8>> + 'a;

/// How far git looks for a NUL byte before it calls a file text.
const BINARY_LOOK: usize = 8000;

/// Prints all changes, which must be sorted by path.
pub(crate) fn print(changes: &[Change], read: &Reader<'_>) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for change in changes {
        match (change.old, change.new) {
            // Git prints a change of type as a deletion and a creation.
            (Some(old), Some(new)) if kind(old.mode) != kind(new.mode) => {
                print_one(&mut out, &change.path, Some(old), None, read)?;
                print_one(&mut out, &change.path, None, Some(new), read)?;
            }
            (old, new) => print_one(&mut out, &change.path, old, new, read)?,
        }
    }
    Ok(out)
}

fn kind(mode: u32) -> u32 {
    mode & 0o170_000
}

fn print_one(
    out: &mut Vec<u8>,
    path: &[u8],
    old: Option<Leaf>,
    new: Option<Leaf>,
    read: &Reader<'_>,
) -> Result<()> {
    let (a, b) = (quoted(b"a/", path), quoted(b"b/", path));
    out.extend_from_slice(&[b"diff --git ", &a[..], b" ", &b, b"\n"].concat());
    mode_lines(out, old, new);
    let id = |leaf: Option<Leaf>| leaf.map_or_else(|| "0".repeat(40), |l| l.id.to_string());
    if id(old) == id(new) {
        return Ok(());
    }
    let mode = match (old, new) {
        (Some(old), Some(new)) if old.mode == new.mode => format!(" {:06o}", old.mode),
        _ => String::new(),
    };
    out.extend_from_slice(format!("index {}..{}{mode}\n", id(old), id(new)).as_bytes());
    let (before, after) = (content(old, read)?, content(new, read)?);
    if is_binary(old, &before) || is_binary(new, &after) {
        out.extend_from_slice(b"GIT binary patch\n");
        literal(out, &after)?;
        return literal(out, &before);
    }
    if before.is_empty() && after.is_empty() {
        return Ok(());
    }
    label(out, b"--- ", old.is_some().then_some(&a));
    label(out, b"+++ ", new.is_some().then_some(&b));
    hunks(out, &before, &after)
}

fn mode_lines(out: &mut Vec<u8>, old: Option<Leaf>, new: Option<Leaf>) {
    let lines = match (old, new) {
        (None, Some(new)) => format!("new file mode {:06o}\n", new.mode),
        (Some(old), None) => format!("deleted file mode {:06o}\n", old.mode),
        (Some(old), Some(new)) if old.mode != new.mode => {
            format!("old mode {:06o}\nnew mode {:06o}\n", old.mode, new.mode)
        }
        _ => String::new(),
    };
    out.extend_from_slice(lines.as_bytes());
}

/// A label line. A tab after a name with a space tells other tools where the name ends.
fn label(out: &mut Vec<u8>, mark: &[u8], name: Option<&Vec<u8>>) {
    out.extend_from_slice(mark);
    let name = name.map_or(&b"/dev/null"[..], |n| n);
    out.extend_from_slice(name);
    if name.contains(&b' ') {
        out.push(b'\t');
    }
    out.push(b'\n');
}

fn content(leaf: Option<Leaf>, read: &Reader<'_>) -> Result<Vec<u8>> {
    match leaf {
        None => Ok(Vec::new()),
        Some(leaf) if leaf.mode == GITLINK => {
            Ok(format!("Subproject commit {}\n", leaf.id).into_bytes())
        }
        Some(leaf) => read(&leaf),
    }
}

fn is_binary(leaf: Option<Leaf>, bytes: &[u8]) -> bool {
    let text = leaf.is_none_or(|l| l.mode == LINK || l.mode == GITLINK);
    !text && bytes[..bytes.len().min(BINARY_LOOK)].contains(&0)
}

fn hunks(out: &mut Vec<u8>, before: &[u8], after: &[u8]) -> Result<()> {
    let mut options = DiffOptions::new();
    options.force_text(true).context_lines(3).interhunk_lines(0).indent_heuristic(true);
    let patch = Patch::from_buffers(before, None, after, None, Some(&mut options));
    let mut patch = patch.doing("compare two files")?;
    let mut add =
        |_: git2::DiffDelta<'_>, _: Option<git2::DiffHunk<'_>>, line: git2::DiffLine<'_>| {
            match line.origin() {
                'F' => return true,
                origin @ (' ' | '+' | '-') => out.push(origin as u8),
                _ => {}
            }
            out.extend_from_slice(line.content());
            true
        };
    patch.print(&mut add).doing("print a diff")
}

/// One side of a binary patch: its length, and its deflated bytes in lines of base 85.
fn literal(out: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let nowhere = std::path::Path::new("a binary file");
    encoder.write_all(bytes).at("deflate", nowhere)?;
    let deflated = encoder.finish().at("deflate", nowhere)?;
    out.extend_from_slice(format!("literal {}\n", bytes.len()).as_bytes());
    for line in deflated.chunks(52) {
        let length = line.len() as u8;
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        line.chunks(4).for_each(|group| base85(out, group));
        out.push(b'\n');
    }
    out.push(b'\n');
    Ok(())
}

/// Git's alphabet of base 85 (that of RFC 1924).
const BASE85: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

fn base85(out: &mut Vec<u8>, group: &[u8]) {
    let mut word = [0; 4];
    word[..group.len()].copy_from_slice(group);
    let mut value = u32::from_be_bytes(word);
    let mut digits = [0; 5];
    for digit in digits.iter_mut().rev() {
        *digit = BASE85[(value % 85) as usize];
        value /= 85;
    }
    out.extend_from_slice(&digits);
}

/// A name with its prefix, in quotes with C escapes where it holds anything but printable ASCII.
fn quoted(prefix: &[u8], path: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| (0x20..0x7f).contains(b) && *b != b'"' && *b != b'\\';
    if path.iter().all(plain) {
        return [prefix, path].concat();
    }
    let mut out = vec![b'"'];
    out.extend_from_slice(prefix);
    for byte in path {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', *byte]),
            7..=13 => out.extend_from_slice(&[b'\\', b"abtnvfr"[usize::from(byte - 7)]]),
            byte if plain(byte) => out.push(*byte),
            byte => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_git_quotes_them() {
        assert_eq!(quoted(b"a/", b"x y"), b"a/x y");
        assert_eq!(quoted(b"a/", b"\xc3\xa9\t\"\x01\x7f"), br#""a/\303\251\t\"\001\177""#);
    }

    #[test]
    fn base85_is_gits() {
        let mut out = Vec::new();
        base85(&mut out, &[0xff, 0xff, 0xff, 0xff]);
        assert_eq!(out, b"|NsC0");
        out.clear();
        base85(&mut out, &[0]);
        assert_eq!(out, b"00000");
    }
}
