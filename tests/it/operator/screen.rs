//! What an operator sees, in a real terminal: tmux. Where there is none these tests say so and end.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use serde_json::json;

use super::*;

/// A terminal with a shell in it. It ends when it is dropped.
pub(super) struct Terminal {
    socket: PathBuf,
}

/// Whether there is a tmux; no system has to have one but where all tools were installed for the tests.
pub(super) fn tmux() -> bool {
    crate::sandbox::stage::has("tmux")
}

impl Terminal {
    /// A terminal of 100 columns and 24 rows, in the environment of a place.
    pub(super) fn new(place: &Place) -> Self {
        let socket = place.dir.join("tmux.sock");
        let program = PathBuf::from(env!("CARGO_BIN_EXE_bakeoff"));
        let path = std::env::var("PATH").unwrap_or_default();
        let given = place.bakeoff([""; 0]);
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(["-f", "/dev/null", "new-session", "-d", "-x", "100"]);
        command.args(["-y", "24", "sh"]).current_dir(&place.repo).env_clear();
        command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let path = format!("{}:{path}", program.parent().unwrap().display());
        command.env("PATH", path).env("PS1", "$ ").env("TERM", "xterm-256color");
        assert!(command.status().unwrap().success());
        let terminal = Self { socket };
        terminal.shows("a prompt", prompts);
        terminal
    }

    pub(super) fn tmux(&self, args: &[&str]) -> Output {
        Command::new("tmux").arg("-S").arg(&self.socket).args(args).output().unwrap()
    }

    /// Types a line.
    pub(super) fn types(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.tmux(&["send-keys", "Enter"]);
    }

    pub(super) fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    fn tty(&self) -> OwnedFd {
        let tty = self.tmux(&["display-message", "-p", "#{pane_tty}"]).stdout;
        let tty = String::from_utf8(tty).unwrap();
        // Not to be this process's own terminal.
        let flags = OFlags::RDONLY | OFlags::NOCTTY;
        rustix::fs::open(tty.trim(), flags, Mode::empty()).unwrap()
    }

    /// Waits until it shows what is typed.
    pub(super) fn echoes(&self) {
        let (tty, begun) = (self.tty(), Instant::now());
        let shown = || rustix::termios::tcgetattr(&tty).unwrap().local_modes;
        while !shown().contains(rustix::termios::LocalModes::ECHO) {
            assert!(begun.elapsed() < PATIENCE, "it stays dark");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    /// Gives it another size, and waits until programs are told so: tmux tells them of sizes one after the other, and
    /// not at once.
    fn resize(&self, columns: &str, rows: &str) {
        self.tmux(&["resize-window", "-x", columns, "-y", rows]);
        let (tty, begun) = (self.tty(), Instant::now());
        loop {
            let size = rustix::termios::tcgetwinsize(&tty).unwrap();
            if (size.ws_col.to_string(), size.ws_row.to_string()) == (columns.into(), rows.into()) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{columns}x{rows}: {size:?}");
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }

    fn screen(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    /// Waits until the screen is as it should be.
    #[track_caller]
    pub(super) fn shows(&self, what: &str, fits: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if fits(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}:\n{screen}");
            // A look at the screen is a process of its own: not more of them than a person would need.
            std::thread::park_timeout(Duration::from_millis(20));
        }
    }
}

/// A run of two workers, one of which has a job, in a terminal.
fn watched() -> (Stage, Terminal) {
    let stage = Stage::new();
    let terminal = Terminal::new(&stage.place);
    terminal.types("bakeoff run 'raise the value' > /dev/null; echo ov''er");
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    stage.follows("one");
    (stage, terminal)
}

/// Whether a shell waits for a line: a user's, or root's.
fn prompts(screen: &str) -> bool {
    screen.trim_end().ends_with(['$', '#'])
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

// contract R22 together: that a typed line goes to a standard input is tested with a shell
// contract R35 together: the terminal's half
#[test]
fn a_terminal_is_cleared_shows_buffer_and_tail_takes_lines_and_is_left_by_a_key() {
    if !tmux() {
        return;
    }
    let stage = Stage::new();
    let running = stage.start();
    LANES.iter().for_each(|lane| drop(stage.asked(lane)));
    stage.after("one", "write_file", json!({"path": "log.txt", "content": "line 1\n"}));
    let follow = json!({"command": "tail -f log.txt", "background": true});
    stage.after("one", "run_bash", follow);
    let terminal = Terminal::new(&stage.place);
    terminal.types("echo be''fore");
    terminal.shows("the shell's own", |screen| screen.contains("\nbefore\n"));
    terminal.types("bakeoff attach one/1#1");
    let screen = terminal.shows("the buffer", |screen| screen.contains("\nline 1\n"));
    let expected = "job one/1#1: tail -f log.txt; ctrl-] leaves it running\nline 1\n";
    assert!(screen.starts_with(expected), "cleared first:\n{screen}");
    let append = json!({"code": "open('log.txt', 'a').write('line 2\\n\\x1b[2Jline 3\\n')"});
    stage.after("one", "code_execution", append);
    let screen = terminal.shows("the tail", |screen| screen.contains("line 3\n"));
    assert!(screen.starts_with(&format!("{expected}line 2\nline 3\n")), "{screen}");
    terminal.types("hello");
    terminal.shows("a refusal", |screen| screen.contains("one/1#1 takes no input"));
    terminal.tmux(&["send-keys", "-l", "half a line"]);
    terminal.key("C-]");
    terminal.shows("the shell again", |screen| {
        screen.contains("left; it goes on\n") && prompts(screen)
    });
    assert_eq!(stage.listed(&[]), ["one/1", "one/1#1", "two/1"]);
    // The terminal's own modes are back: ctrl-D ends the input of what is run.
    terminal.types("cat; echo en''ded");
    terminal.key("C-d");
    terminal.shows("modes as before", |screen| screen.contains("\nended\n"));
    // A line to a worker is steering.
    terminal.types("bakeoff attach one/1");
    terminal.shows("what the worker did", |screen| screen.contains("> run_bash tail -f log.txt"));
    terminal.types("mind the sign");
    terminal.shows("it is kept", |screen| screen.contains("s1 waits for the next turn of one/1"));
    let told = stage.after("one", "list_dir", json!({"path": "."}));
    assert!(words(&told)[0].contains("\n\nmind the sign\n"), "{told}");
    terminal.shows("it is told", |screen| screen.contains("operator s1 ("));
    terminal.key("C-c");
    terminal.shows("the shell again", prompts);
    stage.submits("one", "2\n");
    stage.submits("two", "3\n");
    running.end().0.exits(0);
}

// contract R1, R2
// contract R7 in part: the card's life; the output's is tested with the table
#[test]
fn the_live_view_shows_workers_and_jobs_alike_as_long_as_they_live() {
    if !tmux() {
        return;
    }
    let (stage, terminal) = watched();
    let row = |screen: &str, id: &str, what: &str| {
        screen.lines().any(|line| line.contains(&format!("{id}  {what}")))
    };
    let screen = terminal.shows("cards", |screen| screen.contains("background: 2 workers, 1 job"));
    let there = [("one/1", "turn 1"), ("one/1#1", "job  running "), ("two/1", "turn 1")];
    assert!(there.iter().all(|(id, kind)| row(&screen, id, kind)), "{screen}");
    stage.place.run(["stop", "one/1#1"]).exits(0);
    terminal.shows("the job's card is gone", |screen| {
        screen.contains("background: 2 workers\n") && !row(screen, "one/1#1", "")
    });
    // A command of the operator's own, with what it waits for; no event of the run tells of it.
    let ask = "echo up; printf 'Sure? [y/N] '; read y; exec sleep 1000";
    stage.place.run(["shell", "--lane", "one", "--detach", "--", ask]).exits(0);
    let screen =
        terminal.shows("a question", |screen| row(screen, "shell#1", "shell  asks: Sure? [y/N]"));
    assert!(screen.contains("background: 2 workers, 1 shell\n"), "{screen}");
    stage.submits("one", "2\n");
    terminal
        .shows("one worker is left", |screen| screen.contains("background: 1 shell, 1 worker\n"));
    stage.place.run(["stop", "shell#1"]).exits(0);
    terminal.shows("its row is gone", |screen| screen.contains("background: 1 worker\n"));
    stage.submits("two", "3\n");
    let screen = terminal.shows("the end", |screen| screen.contains("\nover\n"));
    assert!(!screen.contains("background:"), "{screen}");
    let journal = stage.place.runs()[0].join("journal.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert!(journal.contains("one/1#1") && !journal.contains("shell#"), "{journal}");
}

// contract R35 in part: a terminal that is resized
#[test]
fn what_happened_stays_above_the_live_view_when_the_terminal_is_resized() {
    if !tmux() {
        return;
    }
    let (stage, terminal) = watched();
    let live = |screen: &str| screen.contains("background: 2 workers, 1 job");
    // The lines of the base's gates are drawn when a frame is due.
    let before =
        terminal.shows("cards", |screen| live(screen) && screen.matches("base ").count() >= 2);
    let above = |screen: &str| -> Vec<String> {
        let rows = screen.lines().take_while(|line| !line.contains("workers 0 of"));
        // Wider, a line that the shell or the terminal had folded is one again.
        rows.map(str::trim).collect::<String>().split(' ').map(str::to_owned).collect()
    };
    assert!(above(&before).concat().contains("bakeoffrun"), "{before}");
    // The newest, where one of before was left standing.
    let drawn = |screen: &str| {
        screen.lines().rev().find(|line| line.contains("workers 0 of")).map(str::to_owned)
    };
    // The first frame from now on may have been begun before; each tells of another moment.
    let redrawn = || {
        for _ in 0..2 {
            let was = drawn(&terminal.screen());
            terminal.shows("another frame", |screen| live(screen) && drawn(screen) != was);
        }
    };
    for (columns, rows, age) in
        [("200", "50", "wider"), ("60", "16", "narrower"), ("100", "24", "as before")]
    {
        terminal.resize(columns, rows);
        redrawn();
        let all = terminal.tmux(&["capture-pane", "-p", "-S", "-"]).stdout;
        let all = String::from_utf8(all).unwrap();
        assert_eq!(all.matches("background:").count(), 1, "{age}:\n{all}");
        assert_eq!(above(&all).concat(), above(&before).concat(), "{age}:\n{all}");
    }
    // As somebody drags its edge: rows of a frame may be left standing then, and what happened stays.
    for columns in ["60", "200", "50", "180", "44", "160", "61", "120"] {
        terminal.tmux(&["resize-window", "-x", columns, "-y", "30"]);
        std::thread::park_timeout(Duration::from_millis(70));
    }
    terminal.resize("100", "24");
    redrawn();
    let all = String::from_utf8(terminal.tmux(&["capture-pane", "-p", "-S", "-"]).stdout).unwrap();
    assert_eq!(above(&all).concat(), above(&before).concat(), "{all}");
    LANES.iter().for_each(|lane| stage.submits(lane, "2\n"));
    terminal.shows("the end", |screen| screen.contains("\nover\n"));
}
