//! Git binary patches: base 85, zlib, whole contents or deltas.
//!
//! Format: git's `Documentation/gitformat-pack` for deltas; a line of data is a length letter (`A` to `Z`
//! for 1 to 26 bytes, `a` to `z` for 27 to 52) and groups of five base-85 digits for four bytes.

use flate2::{Decompress, FlushDecompress, Status};

use super::cursor::Cursor;
use super::refuse::{Detail, refuse};
use crate::model::Refusal;

/// The digits of git's base 85.
const DIGITS: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// How the contents are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    /// The whole contents.
    Literal,
    /// Instructions against the other side.
    Delta,
}

/// One direction of a binary patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload {
    pub method: Method,
    /// The size of the unpacked data, as the patch says.
    pub size: usize,
    /// The packed data.
    pub packed: Vec<u8>,
    /// The unpacked data.
    pub data: Vec<u8>,
}

/// A binary patch. The way back is read and checked, but never used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BinaryPatch {
    pub forward: Payload,
    pub reverse: Option<Payload>,
}

/// Reads what follows `GIT binary patch`; the cursor stands on that line.
pub(super) fn read(cursor: &mut Cursor<'_>) -> Result<BinaryPatch, Refusal> {
    cursor.advance();
    let forward = payload(cursor)?.ok_or_else(|| corrupt(cursor, "has no `literal` or `delta`"))?;
    let reverse = payload(cursor)?;
    Ok(BinaryPatch { forward, reverse })
}

fn payload(cursor: &mut Cursor<'_>) -> Result<Option<Payload>, Refusal> {
    let text = cursor.text();
    let (method, size) = match (text.strip_prefix(b"literal "), text.strip_prefix(b"delta ")) {
        (Some(size), _) => (Method::Literal, size),
        (_, Some(size)) => (Method::Delta, size),
        _ => return Ok(None),
    };
    let size =
        std::str::from_utf8(size).ok().filter(|size| size.bytes().all(|b| b.is_ascii_digit()));
    let size: usize = size
        .and_then(|size| size.parse().ok())
        .ok_or_else(|| corrupt(cursor, "has no readable size"))?;
    if size > cursor.max_binary {
        let why =
            format!("the binary data has {size} bytes; at most {} are taken", cursor.max_binary);
        return Err(refuse("binary-too-large", why));
    }
    cursor.advance();
    let mut packed = Vec::new();
    while !cursor.done() && !cursor.text().is_empty() {
        decode_line(cursor.text(), &mut packed)
            .ok_or_else(|| corrupt(cursor, "is no line of base 85"))?;
        cursor.advance();
    }
    if cursor.done() {
        return Err(corrupt(cursor, "ends the binary data without a blank line"));
    }
    cursor.advance();
    let data = inflate(&packed, size)
        .ok_or_else(|| corrupt(cursor, "ends damaged data, or data of another size"))?;
    Ok(Some(Payload { method, size, packed, data }))
}

fn corrupt(cursor: &Cursor<'_>, why: &str) -> Refusal {
    refuse("corrupt-binary", format!("binary patch: line {} {why}", cursor.number()))
        .found(cursor.text())
}

fn decode_line(text: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (&letter, digits) = text.split_first()?;
    let length = match letter {
        b'A'..=b'Z' => usize::from(letter - b'A') + 1,
        b'a'..=b'z' => usize::from(letter - b'a') + 27,
        _ => return None,
    };
    if digits.len() != length.div_ceil(4) * 5 {
        return None;
    }
    let start = out.len();
    for group in digits.chunks(5) {
        let value = group.iter().try_fold(0_u64, |value, digit| {
            Some(value * 85 + DIGITS.iter().position(|known| known == digit)? as u64)
        })?;
        out.extend(u32::try_from(value).ok()?.to_be_bytes());
    }
    out.truncate(start + length);
    Some(())
}

/// Writes data as git does, 52 bytes a line.
pub(super) fn encode(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in data.chunks(52) {
        let length = line.len() as u8;
        out.push(if length <= 26 { b'A' + length - 1 } else { b'a' + length - 27 });
        for group in line.chunks(4) {
            let mut bytes = [0; 4];
            bytes[..group.len()].copy_from_slice(group);
            let mut value = u32::from_be_bytes(bytes);
            let mut digits = [0; 5];
            for digit in digits.iter_mut().rev() {
                *digit = DIGITS[(value % 85) as usize];
                value /= 85;
            }
            out.extend(digits);
        }
        out.push(b'\n');
    }
    out
}

/// Unpacks at most one byte more than the size that must come out. As for git, data without a whole and right
/// end (the checksum) is damaged, even where all of its bytes came out.
fn inflate(packed: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    data.try_reserve_exact(size.checked_add(1)?).ok()?;
    let mut stream = Decompress::new(true);
    let end = stream.decompress_vec(packed, &mut data, FlushDecompress::Finish).ok()?;
    (end == Status::StreamEnd && data.len() == size).then_some(data)
}

/// The new contents.
pub(super) fn apply(patch: &BinaryPatch, old: &[u8], max: usize) -> Result<Vec<u8>, Refusal> {
    match patch.forward.method {
        Method::Literal => Ok(patch.forward.data.clone()),
        Method::Delta => delta(&patch.forward.data, old, max).ok_or_else(|| {
            refuse("corrupt-binary", "the binary delta does not fit the file that is there")
        }),
    }
}

fn delta(mut ops: &[u8], old: &[u8], max: usize) -> Option<Vec<u8>> {
    let (old_size, new_size) = (varint(&mut ops)?, varint(&mut ops)?);
    if old_size != old.len() || new_size > max {
        return None;
    }
    let mut out = Vec::with_capacity(new_size);
    while let Some((&op, rest)) = ops.split_first() {
        ops = rest;
        if op & 0x80 != 0 {
            let offset = little_endian(&mut ops, op & 0x0f, 4)?;
            let size = little_endian(&mut ops, (op >> 4) & 0x07, 3)?;
            let size = if size == 0 { 0x1_0000 } else { size };
            out.extend_from_slice(old.get(offset..offset.checked_add(size)?)?);
        } else {
            let (bytes, rest) = ops.split_at_checked(usize::from(op)).filter(|_| op != 0)?;
            out.extend_from_slice(bytes);
            ops = rest;
        }
        if out.len() > new_size {
            return None;
        }
    }
    (out.len() == new_size).then_some(out)
}

fn varint(ops: &mut &[u8]) -> Option<usize> {
    let (mut value, mut shift) = (0_usize, 0);
    loop {
        let (&byte, rest) = ops.split_first()?;
        *ops = rest;
        if shift > 28 {
            return None;
        }
        value |= usize::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

/// A number whose present bytes are named by the bits of `which`.
fn little_endian(ops: &mut &[u8], which: u8, bytes: u32) -> Option<usize> {
    let mut value = 0;
    for at in 0..bytes {
        if which & (1 << at) != 0 {
            let (&byte, rest) = ops.split_first()?;
            *ops = rest;
            value |= usize::from(byte) << (8 * at);
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_85_is_undone_by_reading() {
        let data: Vec<u8> = (0..=255).cycle().take(1000).collect();
        let mut back = Vec::new();
        for line in encode(&data).split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            decode_line(line, &mut back).unwrap();
        }
        assert_eq!(back, data);
    }

    #[test]
    fn wrong_lines_are_refused() {
        let mut out = Vec::new();
        for line in [&b""[..], b"D0000", b"D00000 ", b"D0000\"", b"D~~~~~", b"10000"] {
            assert_eq!(decode_line(line, &mut out), None, "{line:?}");
        }
    }

    #[test]
    fn deltas_copy_and_insert_within_bounds() {
        let old = b"hello world";
        // 11 bytes to 9: copy 6 from 0, insert "you".
        let ops = [11, 9, 0x90, 6, 3, b'y', b'o', b'u'];
        assert_eq!(delta(&ops, old, 100).unwrap(), b"hello you");
        assert_eq!(delta(&ops, b"hello", 100), None);
        assert_eq!(delta(&ops, old, 5), None);
        assert_eq!(delta(&[11, 9, 0x90, 60], old, 100), None);
        assert_eq!(delta(&[11, 1, 0], old, 100), None);
        assert_eq!(delta(&[11, 9, 3, b'y'], old, 100), None);
    }

    #[test]
    fn a_bomb_unpacks_no_further_than_its_stated_size() {
        use flate2::{Compression, write::ZlibEncoder};
        use std::io::Write;
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(inflate(&packed, 10), None);
        assert_eq!(inflate(&packed, 1 << 20).unwrap().len(), 1 << 20);
    }
    #[test]
    fn data_with_a_damaged_or_missing_checksum_is_refused() {
        use flate2::{Compression, write::ZlibEncoder};
        use std::io::Write;
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(b"fifteen bytes..").unwrap();
        let packed = encoder.finish().unwrap();
        assert_eq!(inflate(&packed, 15).unwrap(), b"fifteen bytes..");
        for kept in 0..packed.len() {
            assert_eq!(inflate(&packed[..kept], 15), None, "{kept} bytes");
        }
        for at in packed.len() - 4..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 1;
            assert_eq!(inflate(&damaged, 15), None, "byte {at}");
        }
    }
}
