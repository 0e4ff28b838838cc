//! The terminal below the live view.
//!
//! What draws the rows fills each with blanks up to the right edge and lets the terminal wrap. A terminal takes all of
//! them for one long line then, which it folds anew when it is resized: the rows move, and the next frame wipes what stood
//! above them. Here each row ends in a line break instead. Where a narrower terminal has folded rows all the same, the
//! next frame begins as many lines higher. Never here: what the rows say.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use indicatif::TermLike;
use unicode_width::UnicodeWidthStr;

/// So many widths of rows are kept; more lines than a terminal has.
const ROWS: usize = 1000;

/// Its size, in rows and columns.
type Size = fn() -> (u16, u16);

/// That of standard error; nothing where it is no terminal.
pub fn size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    size.map_or((0, 0), |size| (size.ws_row, size.ws_col))
}

/// A terminal that rows are drawn on.
pub struct Screen<W: Write + Send> {
    state: Mutex<State<W>>,
    size: Size,
}

struct State<W> {
    out: W,
    frame: Vec<u8>,
    /// Columns of the row under way.
    column: usize,
    /// Whether what comes next stands in a new row.
    breaks: bool,
    /// Whether nothing of the frame was written yet.
    fresh: bool,
    /// The rows drawn last.
    drawn: VecDeque<Row>,
}

/// A row as it was drawn. It may have been made for a wider terminal and take several lines.
struct Row {
    /// The columns of its text.
    width: usize,
    /// The lines that it took.
    lines: usize,
}

impl Row {
    fn lines(width: usize, columns: usize) -> usize {
        width.div_ceil(columns).max(1)
    }
}

impl Screen<io::Stderr> {
    /// Standard error.
    pub fn stderr() -> Self {
        Self::new(io::stderr(), size)
    }
}

impl<W: Write + Send> Screen<W> {
    fn new(out: W, size: Size) -> Self {
        let frame = Vec::new();
        let state =
            State { out, frame, column: 0, breaks: false, fresh: true, drawn: VecDeque::new() };
        Self { state: Mutex::new(state), size }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn columns(&self) -> usize {
        usize::from(self.width()).max(1)
    }
}

impl<W> State<W> {
    fn say(&mut self, bytes: &str) {
        self.frame.extend_from_slice(bytes.as_bytes());
        self.fresh = false;
    }

    fn end_row(&mut self, width: usize, columns: usize) {
        self.breaks = true;
        self.drawn.push_back(Row { width, lines: Row::lines(width, columns) });
        if self.drawn.len() > ROWS {
            self.drawn.pop_front();
        }
    }

    fn write(&mut self, text: &str, columns: usize) {
        if text.is_empty() {
            return;
        }
        if text == "\r" {
            (self.column, self.breaks) = (0, false);
            return self.say(text);
        }
        if std::mem::take(&mut self.breaks) {
            self.column = 0;
            self.say("\r\n");
        }
        let width = self.column + text.width();
        let fills = text.bytes().all(|byte| byte == b' ') && width.is_multiple_of(columns);
        if fills {
            let row = self.column;
            self.say("\x1b[K");
            return self.end_row(row, columns);
        }
        self.say(text);
        self.column = width;
        if width.is_multiple_of(columns) {
            self.end_row(width, columns);
        }
    }

    /// How many lines those rows take by now that took `lines` lines when they were drawn.
    fn lines(&self, lines: usize, columns: usize) -> usize {
        let (mut then, mut now) = (0, 0);
        for row in self.drawn.iter().rev() {
            if then >= lines {
                break;
            }
            then += row.lines;
            now += Row::lines(row.width, columns);
        }
        now.max(lines)
    }
}

impl<W: Write + Send> std::fmt::Debug for Screen<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Screen")
    }
}

impl<W: Write + Send> TermLike for Screen<W> {
    fn width(&self) -> u16 {
        Some((self.size)().1).filter(|columns| *columns > 0).unwrap_or(80)
    }

    fn height(&self) -> u16 {
        Some((self.size)().0).filter(|rows| *rows > 0).unwrap_or(24)
    }

    fn move_cursor_up(&self, rows: usize) -> io::Result<()> {
        let columns = self.columns();
        let mut state = self.state();
        // A frame begins at its first row, wherever that stands by now.
        if state.fresh {
            let lines = state.lines(rows + 1, columns);
            if lines > rows + 1 {
                state.say(&format!("\x1b[{}A\r\x1b[J", lines - 1));
                state.breaks = false;
                return Ok(());
            }
        }
        if rows > 0 {
            state.say(&format!("\x1b[{rows}A"));
        }
        state.fresh = false;
        state.breaks = false;
        Ok(())
    }

    fn move_cursor_down(&self, rows: usize) -> io::Result<()> {
        if rows > 0 {
            self.state().say(&format!("\x1b[{rows}B"));
        }
        Ok(())
    }

    fn move_cursor_right(&self, columns: usize) -> io::Result<()> {
        if columns > 0 {
            self.state().say(&format!("\x1b[{columns}C"));
        }
        Ok(())
    }

    fn move_cursor_left(&self, columns: usize) -> io::Result<()> {
        if columns > 0 {
            self.state().say(&format!("\x1b[{columns}D"));
        }
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)?;
        let columns = self.columns();
        let mut state = self.state();
        if !std::mem::take(&mut state.breaks) {
            let width = state.column;
            state.end_row(width, columns);
        }
        (state.column, state.breaks) = (0, false);
        state.say("\r\n");
        Ok(())
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let columns = self.columns();
        self.state().write(text, columns);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        let mut state = self.state();
        (state.column, state.breaks) = (0, false);
        state.say("\r\x1b[2K");
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        let frame = std::mem::take(&mut state.frame);
        state.fresh = true;
        state.out.write_all(&frame)?;
        state.out.flush()
    }
}

impl<W: Write + Send> Drop for Screen<W> {
    fn drop(&mut self) {
        let mut state = self.state();
        // Whoever writes next begins a line of their own.
        if std::mem::take(&mut state.breaks) {
            state.say("\r\n");
        }
        let frame = std::mem::take(&mut state.frame);
        // A terminal that went away is no reason to end a run.
        let _ = state.out.write_all(&frame).and_then(|()| state.out.flush());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU16, Ordering};

    use indicatif::{MultiProgress, ProgressDrawTarget};

    use super::super::bars::plain;
    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn taken(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    static COLUMNS: AtomicU16 = AtomicU16::new(40);

    // contract R35 in part: what is written; how a terminal takes it is tested in one
    #[test]
    fn rows_end_in_line_breaks_and_a_frame_begins_where_its_first_row_stands() {
        let paper = Paper::default();
        let screen = Screen::new(paper.clone(), || (10, COLUMNS.load(Ordering::SeqCst)));
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::term_like(Box::new(screen)));
        let (one, two) = (all.add(plain()), all.add(plain()));
        one.set_message("one");
        two.set_message("two, of thirty columns or more");
        two.tick();
        let text = paper.taken();
        assert!(
            text.ends_with("one\u{1b}[K\r\ntwo, of thirty columns or more\u{1b}[K"),
            "{text:?}"
        );
        assert!(!text.contains("    "), "no row is filled with blanks: {text:?}");
        all.println("said").unwrap();
        let text = paper.taken();
        assert!(
            text.starts_with("\u{1b}[1A\r") && text.contains("said\u{1b}[K\r\none"),
            "{text:?}"
        );
        // The second row is folded into two now, so that the first one stands two lines above the cursor.
        COLUMNS.store(20, Ordering::SeqCst);
        one.tick();
        let text = paper.taken();
        assert!(text.starts_with("\u{1b}[2A\r\u{1b}[J"), "{text:?}");
        // A frame whose second row was made for the wider terminal: it is two lines from the beginning.
        let text = text.split("\u{1b}[J").last().unwrap();
        assert!(text.contains("two, of thirty columns or more"), "{text:?}");
        one.tick();
        let text = paper.taken();
        assert!(text.starts_with("\u{1b}[2A\r"), "not one line higher: {text:?}");
        drop((one, two));
        all.clear().unwrap();
        drop(all);
        assert!(!paper.taken().ends_with("\r\n"), "what is cleared leaves no empty line");
    }
}
