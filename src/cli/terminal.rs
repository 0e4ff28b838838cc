//! The operator's terminal while they are attached to something: its modes, its size, what is typed.
//!
//! Typed lines are edited and echoed by the terminal itself. Two keys are given another meaning by its own
//! settings: ctrl-] ends the reading (it takes the place of ctrl-D), and ctrl-D ends a line.

use std::io::{BufRead, IsTerminal};
use std::os::fd::AsFd;

use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};

use super::pour::Pump;
use crate::jobs::{Input, Size};
use crate::model::{Card, CardState};

/// Ctrl-].
const LEAVE: u8 = 0x1d;
/// Ctrl-D.
const END: u8 = 0x04;
/// The longest line that a terminal gives, and more.
const LINE: usize = 8 << 10;

/// A terminal whose modes are changed. Dropping it puts them back.
#[derive(Debug)]
pub struct Modes {
    before: Termios,
}

impl Modes {
    /// Changes those of standard input; `None` when that is no terminal.
    pub fn set() -> Option<Self> {
        let stdin = std::io::stdin();
        let before = stdin.is_terminal().then(|| tcgetattr(&stdin).ok())??;
        let mut modes = before.clone();
        modes.special_codes[SpecialCodeIndex::VEOF] = LEAVE;
        modes.special_codes[SpecialCodeIndex::VEOL] = END;
        tcsetattr(&stdin, OptionalActions::Now, &modes).ok()?;
        Some(Self { before })
    }

    /// Shows what is typed, or does not.
    pub fn echo(&self, shown: bool) {
        let stdin = std::io::stdin();
        let Ok(mut modes) = tcgetattr(&stdin) else { return };
        modes.local_modes.set(LocalModes::ECHO, shown);
        // Of a line that was begun nothing is dropped: it answers the prompt, which was there before this is.
        let _ = tcsetattr(&stdin, OptionalActions::Now, &modes);
    }
}

impl Drop for Modes {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Whether what is typed is shown: what asks for a secret is answered unseen.
#[derive(Debug)]
pub struct Unseen {
    modes: Option<Modes>,
    secret: bool,
}

impl Unseen {
    /// Shows what is typed, until something asks for a secret.
    pub fn new(modes: Option<Modes>) -> Self {
        Self { modes, secret: false }
    }

    /// Stops the process as ctrl-Z does, with the terminal's own modes, and changes them again when it goes on.
    pub fn suspend(&mut self) {
        let had = self.modes.take().is_some();
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP);
        self.modes = had.then(Modes::set).flatten();
        if let Some(modes) = self.modes.as_ref().filter(|_| self.secret) {
            modes.echo(false);
        }
    }

    /// Whether a terminal is typed into.
    pub fn is_terminal(&self) -> bool {
        self.modes.is_some()
    }

    /// Follows what is attached to.
    pub fn follow(&mut self, card: &Card) {
        let secret = matches!(card.state, CardState::NeedsApproval { secret: true, .. });
        if std::mem::replace(&mut self.secret, secret) != secret
            && let Some(modes) = &self.modes
        {
            modes.echo(!secret);
        }
    }

    /// The input as what it is now: a line, or a secret. Only what is typed is one by itself: of a pipe's lines
    /// those who get them know which one answers the question.
    pub fn of(&self, input: Input) -> Input {
        match input {
            Input::Submit { text } if self.secret && self.is_terminal() => Input::Secret { text },
            input => input,
        }
    }
}

/// Lines that the operator's terminal has shown already, and the command's terminal shows once more.
#[derive(Debug, Default)]
pub struct Echo(String);

impl Echo {
    /// A line was typed.
    pub fn expect(&mut self, typed: &str) {
        self.0 += typed;
        self.0.push('\n');
    }

    /// What the command wrote besides.
    pub fn without(&mut self, text: String) -> String {
        let same = text.bytes().zip(self.0.bytes()).take_while(|(a, b)| a == b).count();
        if same == text.len() || same == self.0.len() {
            self.0.drain(..same);
            return text[same..].to_owned();
        }
        // Its terminal is dark, or its program echoes in its own way.
        self.0.clear();
        text
    }
}

/// The size of standard output, if it is a terminal. A serial line and many a container's have none.
pub fn size() -> Option<Size> {
    let size = tcgetwinsize(std::io::stdout()).ok()?;
    let known = size.ws_row > 0 && size.ws_col > 0;
    Some(if known { Size { rows: size.ws_row, columns: size.ws_col } } else { Size::default() })
}

/// What was typed, or came in another way.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Something for what is attached to.
    Input(Input),
    /// Bytes of a file or a pipe for it.
    Bytes(Vec<u8>),
    /// Standard input can't be read.
    Failed(String),
    /// The key that leaves.
    Leave,
    /// There is no more, and there never was a terminal.
    Over,
}

/// How standard input is read.
#[derive(Debug)]
pub enum Way {
    /// It is a terminal: each line comes when it is complete.
    Typed,
    /// Lines of a file or a pipe, for what takes texts.
    Lines,
    /// Bytes of a file or a pipe.
    Bytes(Pump),
}

/// Reads standard input until it is over or left.
pub fn read(way: Way, mut each: impl FnMut(Typed) -> bool) {
    let stdin = std::io::stdin();
    match way {
        Way::Typed => {}
        Way::Lines => return read_lines(stdin.lock(), each),
        Way::Bytes(pump) => return pump.run(stdin.lock(), each),
    }
    let mut buffer = vec![0; LINE];
    loop {
        let typed = match rustix::io::read(stdin.as_fd(), &mut buffer[..]) {
            Ok(count) => typed(&buffer[..count]),
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => Typed::Over,
        };
        let over = !matches!(typed, Typed::Input(_));
        if !each(typed) || over {
            return;
        }
    }
}

/// What one reading of a terminal in line mode means.
fn typed(bytes: &[u8]) -> Typed {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match bytes {
        [END] => Typed::Input(Input::Close),
        [line @ .., b'\n'] => Typed::Input(Input::Submit { text: text(line) }),
        [part @ .., END] => Typed::Input(Input::Write { text: text(part) }),
        // The key that leaves ends a reading without a line's end.
        _ => Typed::Leave,
    }
}

/// Lines of a file or a pipe. Their end closes nothing: what takes texts has no input to close.
fn read_lines(mut lines: impl BufRead, mut each: impl FnMut(Typed) -> bool) {
    loop {
        let mut line = Vec::new();
        match lines.read_until(b'\n', &mut line) {
            Ok(count) if count > 0 => {}
            _ => break,
        }
        let text = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(&line)).into_owned();
        if !each(Typed::Input(Input::Submit { text })) {
            return;
        }
    }
    each(Typed::Over);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(text: &str) -> Typed {
        Typed::Input(Input::Submit { text: text.to_owned() })
    }

    // contract R16 in part: what the keys mean; the descriptor is tested with a shell
    #[test]
    fn readings_of_a_terminal_mean_lines_ends_and_leaving() {
        assert_eq!(typed(b"ls -l\n"), submit("ls -l"));
        assert_eq!(typed(b"\n"), submit(""));
        assert_eq!(typed(b"\x04"), Typed::Input(Input::Close));
        let write = Input::Write { text: "part".to_owned() };
        assert_eq!(typed(b"part\x04"), Typed::Input(write));
        assert_eq!((typed(b""), typed(b"half")), (Typed::Leave, Typed::Leave));
        assert_eq!(typed(b"\xff\n"), submit("\u{fffd}"));
    }

    #[test]
    fn a_pipe_for_what_takes_texts_is_lines_and_closes_nothing() {
        let all = |text: &str| {
            let mut all = Vec::new();
            read_lines(text.as_bytes(), |typed| {
                all.push(typed);
                true
            });
            all
        };
        assert_eq!(all("a\nb"), [submit("a"), submit("b"), Typed::Over]);
        assert_eq!(all(""), [Typed::Over]);
    }

    #[test]
    fn a_line_that_was_typed_is_shown_once() {
        let mut echo = Echo::default();
        echo.expect("ls é");
        assert_eq!(echo.without("ls ".into()), "");
        assert_eq!(echo.without("é\nfile\n".into()), "file\n");
        assert_eq!(echo.without("more\n".into()), "more\n");
        echo.expect("secret");
        assert_eq!(echo.without("\nlogged in\n".into()), "\nlogged in\n");
        assert_eq!(echo.without("secret\n".into()), "secret\n", "that was no echo");
    }
}
