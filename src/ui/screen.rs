//! The terminal below the live view.
//!
//! What draws the rows fills each with blanks up to the right edge and lets the terminal wrap. A terminal takes all of
//! them for one long line then, which it folds anew when it is resized: the rows move, and the next frame wipes what stood
//! above them. Here each row ends in a line break instead. Where a narrower terminal has folded rows all the same, the
//! next frame begins as many lines higher. How many those are is known once the terminal keeps its size: until then a
//! frame waits, because one that begins too high wipes what happened. Never here: what the rows say.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::TermLike;
use unicode_width::UnicodeWidthStr;

/// How long a terminal has had its size when that is believed. Who resizes it may be told of sizes late, one after the
/// other: tmux waits a quarter of a second between two of them.
const SETTLED: Duration = Duration::from_millis(300);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(30);
/// The longest that a frame waits for it.
const PATIENCE: Duration = Duration::from_secs(2);

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
    /// By how many rows the frame begins above the last row drawn; absent before it begins.
    begins: Option<usize>,
    /// The size that the frame is made for.
    size: Option<(u16, u16)>,
    /// The columns of the terminal when the last frame was written.
    columns: usize,
    /// The rows of the frame under way.
    rows: Vec<Row>,
    /// Those of the last one: nothing of an earlier one is there any more.
    drawn: Vec<Row>,
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
        let state = State {
            out,
            frame: Vec::new(),
            column: 0,
            breaks: false,
            begins: None,
            size: None,
            columns: columns(size()),
            rows: Vec::new(),
            drawn: Vec::new(),
        };
        Self { state: Mutex::new(state), size }
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The size that the frame under way is made for: one from its beginning to its end.
    fn frame_size(&self) -> (u16, u16) {
        *self.state().size.get_or_insert_with(self.size)
    }

    fn columns(&self) -> usize {
        columns(self.frame_size())
    }

    /// The columns of the terminal, once they stay the same where they are others than `before`.
    fn settled(&self, before: usize) -> usize {
        let mut now = columns((self.size)());
        let (begun, mut since) = (Instant::now(), Instant::now());
        while now != before && since.elapsed() < SETTLED && begun.elapsed() < PATIENCE {
            std::thread::sleep(LOOK);
            let then = std::mem::replace(&mut now, columns((self.size)()));
            if then != now {
                since = Instant::now();
            }
        }
        now
    }
}

fn width((_, columns): (u16, u16)) -> u16 {
    Some(columns).filter(|columns| *columns > 0).unwrap_or(80)
}

fn columns(size: (u16, u16)) -> usize {
    usize::from(width(size))
}

impl<W> State<W> {
    fn say(&mut self, bytes: &str) {
        self.frame.extend_from_slice(bytes.as_bytes());
    }

    /// The way to where the frame begins, and what is to be wiped there.
    fn way_up(&self, columns: usize) -> String {
        let Some(rows) = self.begins else { return String::new() };
        // Its first row stands where the last frame's does by now.
        match self.lines(rows + 1, columns) - 1 {
            lines if lines > rows => format!("\x1b[{lines}A\r\x1b[J"),
            0 => String::new(),
            lines => format!("\x1b[{lines}A"),
        }
    }

    fn end_row(&mut self, width: usize, columns: usize) {
        self.breaks = true;
        self.rows.push(Row { width, lines: Row::lines(width, columns) });
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

    /// How many lines those rows of the last frame take by now that took `lines` lines when they were drawn.
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
        width(self.frame_size())
    }

    fn height(&self) -> u16 {
        Some(self.frame_size().0).filter(|rows| *rows > 0).unwrap_or(24)
    }

    fn move_cursor_up(&self, rows: usize) -> io::Result<()> {
        let mut state = self.state();
        state.breaks = false;
        if state.begins.is_none() {
            state.begins = Some(rows);
        } else if rows > 0 {
            state.say(&format!("\x1b[{rows}A"));
        }
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
        let before = self.state().columns;
        let columns = self.settled(before);
        let mut state = self.state();
        let mut frame = state.way_up(columns).into_bytes();
        frame.append(&mut state.frame);
        state.drawn = std::mem::take(&mut state.rows);
        (state.begins, state.size, state.columns) = (None, None, columns);
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

    static DRAGGED: AtomicU16 = AtomicU16::new(40);

    // contract R35 in part: while the terminal is resized
    #[test]
    fn a_frame_waits_until_the_terminal_keeps_its_size() {
        let paper = Paper::default();
        let screen = Screen::new(paper.clone(), || (10, DRAGGED.load(Ordering::SeqCst)));
        let all = MultiProgress::with_draw_target(ProgressDrawTarget::term_like(Box::new(screen)));
        let row = all.add(plain());
        row.set_message("one, of thirty columns or more");
        row.tick();
        paper.taken();
        // Smaller for a moment: in the end the row takes one line, as before.
        DRAGGED.store(10, Ordering::SeqCst);
        let back = std::thread::spawn(|| {
            std::thread::sleep(SETTLED / 3);
            DRAGGED.store(39, Ordering::SeqCst);
        });
        row.tick();
        back.join().unwrap();
        let text = paper.taken();
        assert!(text.starts_with("\r"), "two lines higher would be one of what happened: {text:?}");
        // What was cleared is not there, however narrow the terminal is by now.
        row.finish_and_clear();
        all.clear().unwrap();
        paper.taken();
        DRAGGED.store(10, Ordering::SeqCst);
        let other = all.add(plain());
        other.set_message("two");
        other.tick();
        let text = paper.taken();
        assert!(!text.contains("A\r\u{1b}[J"), "{text:?}");
    }
}
