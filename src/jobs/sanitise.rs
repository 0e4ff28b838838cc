//! What a job wrote made fit for reading: valid text, and of all escape sequences only those of colour
//! (contract R20).
//!
//! Carriage returns, other control characters and every other sequence go as a whole; invalid UTF-8 is replaced.
//! State is kept from chunk to chunk, in bounded memory, so that it never matters how output was cut. Pure. Never
//! here: what is kept of it.

/// The longest parameters of a colour, in bytes; a sequence with longer ones is none.
const MOST_PARAMETERS: usize = 64;

/// Makes a stream of output fit for reading, chunk by chunk. What it made stays as it is when it is given to
/// another one.
#[derive(Debug, Default)]
pub struct Sanitiser {
    state: State,
    /// The beginning of a character, at most 3 bytes.
    unfinished: Vec<u8>,
    parameters: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Behind an ESC.
    Escape,
    /// Behind an ESC and an intermediate character: one more ends it.
    Charset,
    /// In a control sequence that may be a colour.
    Colour,
    /// In a control sequence that is none.
    Control,
    /// In a string, up to its terminator or the line's end.
    Str,
    /// In a string, behind an ESC.
    StrEscape,
}

impl Sanitiser {
    /// Takes what was written; gives what can be told of it by now.
    pub fn take(&mut self, bytes: &[u8]) -> String {
        let held = std::mem::take(&mut self.unfinished);
        let joined;
        let bytes = match held.is_empty() {
            true => bytes,
            false => {
                joined = [held.as_slice(), bytes].concat();
                &joined
            }
        };
        let mut out = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            self.valid(chunk.valid(), &mut out);
            let invalid = chunk.invalid();
            if chunks.peek().is_none() && is_unfinished(invalid) {
                self.unfinished = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.step(char::REPLACEMENT_CHARACTER, &mut out);
            }
        }
        out
    }

    /// Takes characters, those that are plain in runs: most of most output is.
    fn valid(&mut self, mut text: &str, out: &mut String) {
        while !text.is_empty() {
            let plain = match self.state {
                State::Text => text.bytes().take_while(|byte| is_plain(*byte)).count(),
                _ => 0,
            };
            let (run, rest) = text.split_at(plain);
            out.push_str(run);
            let mut others = rest.chars();
            if let Some(c) = others.next() {
                self.step(c, out);
            }
            text = others.as_str();
        }
    }

    /// Nothing more comes: a character that was never finished is replaced.
    pub fn finish(&mut self) -> String {
        let mut out = String::new();
        if !std::mem::take(&mut self.unfinished).is_empty() {
            self.step(char::REPLACEMENT_CHARACTER, &mut out);
        }
        self.state = State::Text;
        out
    }

    fn step(&mut self, c: char, out: &mut String) {
        self.state = match (self.state, c) {
            // CAN and SUB end every sequence.
            (_, '\u{18}' | '\u{1a}') => State::Text,
            (State::Str, '\u{7}' | '\u{9c}') => State::Text,
            (State::Str, '\u{1b}') => State::StrEscape,
            (State::StrEscape, '\\') => State::Text,
            (State::Str, c) if c != '\n' => State::Str,
            (State::StrEscape, c) => self.escaped(c, out),
            (State::Escape, c) => self.escaped(c, out),
            (State::Charset, '\u{20}'..='\u{2f}') => State::Charset,
            (State::Charset, '\u{30}'..='\u{7e}') => State::Text,
            (State::Colour, '0'..='9' | ';' | ':') if self.parameters.len() < MOST_PARAMETERS => {
                self.parameters.push(c);
                State::Colour
            }
            (State::Colour, 'm') => {
                out.push_str("\u{1b}[");
                out.push_str(&self.parameters);
                out.push('m');
                State::Text
            }
            (State::Colour | State::Control, '\u{20}'..='\u{3f}') => State::Control,
            (State::Colour | State::Control, '\u{40}'..='\u{7e}') => State::Text,
            // A character that belongs to no sequence ends an unfinished one, and stands for itself.
            (_, c) => self.plain(c, out),
        };
    }

    /// What stands behind an ESC.
    fn escaped(&mut self, c: char, out: &mut String) -> State {
        match c {
            '[' => self.begin(),
            ']' | 'P' | '_' | '^' | 'X' => State::Str,
            '\u{20}'..='\u{2f}' => State::Charset,
            '\u{30}'..='\u{7e}' => State::Text,
            c => self.plain(c, out),
        }
    }

    fn begin(&mut self) -> State {
        self.parameters.clear();
        State::Colour
    }

    fn plain(&mut self, c: char, out: &mut String) -> State {
        match c {
            '\u{1b}' => return State::Escape,
            '\u{9b}' => return self.begin(),
            '\u{9d}' | '\u{90}' | '\u{98}' | '\u{9e}' | '\u{9f}' => return State::Str,
            '\n' | '\t' => out.push(c),
            c if c.is_control() => {}
            c => out.push(c),
        }
        State::Text
    }
}

/// Whether a byte is a character that stands for itself in any text.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\t' | b' '..=b'~')
}

/// Whether more bytes could make a character of these.
fn is_unfinished(invalid: &[u8]) -> bool {
    !invalid.is_empty()
        && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(chunks: &[&[u8]]) -> String {
        let mut sanitiser = Sanitiser::default();
        let mut out: String = chunks.iter().map(|chunk| sanitiser.take(chunk)).collect();
        out += &sanitiser.finish();
        out
    }

    #[test]
    fn only_text_and_colours_are_left() {
        // contract R20
        for (raw, told) in [
            (&b"a\r\nb\rc\r\r\n"[..], "a\nbc\n"),
            (
                b"\x1b[31mred\x1b[0m \x1b[1;38:2:1:2:3mx\x1b[m",
                "\u{1b}[31mred\u{1b}[0m \u{1b}[1;38:2:1:2:3mx\u{1b}[m",
            ),
            (b"\x1b[2J\x1b[10;10Ha\x1b[?25lb\x1b[>4;1mc\x1b[0 qd\x1b[1 md", "abcdd"),
            (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"),
            (b"\x1bPq#0;1\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d", "abcd"),
            (b"\x1b(Ba\x1b7b\x1b=c\x1bMd\x1b%Ge", "abcde"),
            ("\u{9b}31ma\u{9d}0;t\u{9c}b\u{85}c".as_bytes(), "\u{1b}[31mabc"),
            (b"a\x08b\x07c\x00d\x7fe\tf\x0b\x0cg", "abcde\tfg"),
            (b"a\xffb\xc3(\xe2\x82z\xf0\x9f", "a\u{fffd}b\u{fffd}(\u{fffd}z\u{fffd}"),
            // Sequences that were never finished.
            (b"a\x1b[31\nb\x1b]0;t\nc\x1b\nd\x1b[3\xe2\x82\xace", "a\nb\nc\nd\u{20ac}e"),
            (b"a\x1b[31\x1b[32mb\x1b]0;x\x1b[33mc\x1b[1\x18m", "a\u{1b}[32mb\u{1b}[33mcm"),
            (b"a\x1b", "a"),
        ] {
            assert_eq!(clean(&[raw]), told, "{:?}", String::from_utf8_lossy(raw));
        }
    }

    #[test]
    fn what_never_ends_takes_no_memory() {
        let mut sanitiser = Sanitiser::default();
        for begin in [&b"\x1b]0;"[..], b"\x1b[", b"\x1bP"] {
            sanitiser.take(begin);
            for _ in 0..1000 {
                assert_eq!(sanitiser.take(&[b'1'; 4096]), "");
            }
            assert!(sanitiser.parameters.capacity() <= 2 * MOST_PARAMETERS);
            assert_eq!(sanitiser.take(b"\nafter"), "\nafter");
        }
        assert_eq!((sanitiser.take(b"\xf0\x9f").as_str(), sanitiser.unfinished.len()), ("", 2));
    }

    /// Bytes in which sequences are frequent.
    fn output() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            3 => proptest::sample::select(&b"\x1b[]mPX_^\\;:019 ?JHq(\r\n\t\x07\x08\x18\x1a\x00\x7f"[..]).prop_map(|b| vec![b]),
            1 => any::<u8>().prop_map(|b| vec![b]),
            1 => any::<char>().prop_map(|c| c.to_string().into_bytes()),
            1 => proptest::sample::select(vec!["\u{9b}", "\u{9d}", "\u{9c}", "\u{90}", "\x1b[31m", "\x1b]0;t\x07"])
                .prop_map(|s| s.as_bytes().to_vec()),
        ];
        proptest::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn it_does_not_matter_how_output_is_cut(bytes in output(), cuts in proptest::collection::vec(0usize..200, 0..12)) {
            let whole = clean(&[&bytes]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(clean(&chunks), whole.clone());
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            prop_assert_eq!(clean(&single), whole);
        }

        #[test]
        fn what_is_clean_stays_as_it_is(bytes in output()) {
            let once = clean(&[&bytes]);
            prop_assert_eq!(clean(&[once.as_bytes()]), once.clone());
            let mut rest = once.as_str();
            while let Some(at) = rest.find(|c: char| c.is_control() && c != '\n' && c != '\t') {
                let colour = rest[at..].strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m'));
                let (parameters, after) = colour.expect("a control character that is no colour");
                prop_assert!(parameters.chars().all(|c| c.is_ascii_digit() || c == ';' || c == ':'));
                rest = after;
            }
        }

        #[test]
        fn plain_text_is_not_changed(text in "[^\\p{Cc}]{0,40}(\n[^\\p{Cc}]{0,10}){0,3}") {
            prop_assert_eq!(clean(&[text.as_bytes()]), text);
        }
    }
}
