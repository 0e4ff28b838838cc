//! `bakeoff attach`.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::signal::unix::{SignalKind, signal};

use super::context::Context;
use super::output::{stream_stdout, tell, write_stdout};
use super::pour::Pour;
use super::running::{find, split_run, with_others};
use super::terminal::{self, Echo, Modes, Typed, Unseen, Way};
use super::{CliError, Exit};
use crate::control::{ControlError, Follow, Frame, Said, Speak, attach};
use crate::jobs::Input;
use crate::model::printable::{block, line};
use crate::model::{Card, CardState};

/// Show what a worker, a job or a shell wrote and goes on to write; typed lines go to it
#[derive(clap::Args, Debug)]
#[command(
    override_usage = "bakeoff attach [RUN] ID",
    after_help = "RUN is the run: its id, the beginning or end of its id, the path of its directory, or `latest`; the newest if left \
    out. ID is a worker (fast/2; fast where that lane has one attempt), a job of one (fast/2#1), or a command of your \
    own (shell#1): `bakeoff jobs` lists them.\n\nOn a terminal the screen is cleared first. Typed lines go to the \
    standard input of what is attached to (to a worker: as steering, for its next turn); ctrl-D closes that input; \
    ctrl-] leaves, and so does ctrl-C: nothing is stopped by it. Where standard output is no terminal, what is written \
    is streamed until its end.\n\nExit code 0 at its end, however that came, and when it was left by ctrl-]; 2 where there \
    is nothing of that id or no run that goes on; 6 when not all input came in, or the engine went away; 130 and 143 \
    when a signal ended the view."
)]
pub struct Args {
    /// The run (the newest if left out), and the id
    #[arg(value_name = "ID", num_args = 1..=2, required = true, hide = true)]
    words: Vec<String>,
}

/// So much that happens may wait. The engine waits, too, when it is more: what is shown slowly fills no memory.
pub(super) const EVENTS: usize = 8;

/// What happens while one is attached.
pub(super) enum Event {
    /// The engine says something; nothing more when it is gone.
    Frame(Option<Frame>),
    /// The engine was not understood.
    Broken(ControlError),
    /// Something was typed.
    Typed(Typed),
    /// The terminal has another size.
    Resized,
    /// The operator wants the terminal for something else (ctrl-Z).
    Suspended,
    /// The operator leaves by a signal.
    Left(Exit),
    /// The same by ctrl-\\.
    Quit,
    /// The engine has answered.
    Begun,
}

impl Args {
    /// Attaches until the end of it, or until the operator leaves.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let (run, rest) = split_run(&self.words, 1);
        let [id] = rest else { return Err(CliError::usage("give the id of what to attach to")) };
        let dir = find(run, context)?;
        let (events, inbox) = sync_channel(EVENTS);
        watch_signals(events.clone())?;
        let (run, id) = (dir.path().to_owned(), id.clone());
        let begun = begin(&events, &inbox, move || attach(&run, &id, terminal::size()));
        let attached = match begun {
            Ok(attached) => attached,
            Err(exit) => return Ok(exit),
        };
        let (card, follow, speak) = attached.map_err(|error| with_others(error, context))?;
        let unseen = Unseen::new(Modes::set());
        let texts = follow.takes_texts();
        let echo = follow.has_terminal().then(Echo::default);
        listen(follow, events.clone());
        let (pour, pump) = Pour::new(false);
        let way = match unseen.is_terminal() {
            true => Way::Typed,
            false if texts => Way::Lines,
            false => Way::Bytes(pump),
        };
        read(way, events);
        let full = std::io::stdout().is_terminal();
        let screen = Screen { speak, unseen, echo, pour, full };
        screen.show(&card, &inbox)
    }
}

/// Waits for the engine's first answer, unless a signal ends that: also where the signal was ignored when the process
/// began, as it is behind `&` in a script.
///
/// # Errors
/// The exit that the signal is.
pub(super) fn begin<T: Send + 'static>(
    events: &SyncSender<Event>,
    inbox: &Receiver<Event>,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Exit> {
    let (answer, answered) = sync_channel(1);
    let begun = events.clone();
    std::thread::spawn(move || {
        let _ = answer.send(ask());
        let _ = begun.send(Event::Begun);
    });
    loop {
        match inbox.recv() {
            Ok(Event::Left(exit)) => return Err(exit),
            Ok(Event::Quit) => return Err(Exit::Interrupted),
            Ok(Event::Suspended) => Unseen::new(None).suspend(),
            Ok(Event::Begun) | Err(_) => break,
            // Its size is told when there is somebody to tell.
            Ok(_) => {}
        }
    }
    answered.recv().map_err(|_| Exit::Internal)
}

/// The engine's frames, on a thread of their own.
pub(super) fn listen(mut follow: Follow, events: SyncSender<Event>) {
    std::thread::spawn(move || {
        loop {
            let event = match follow.frame() {
                Ok(frame) => Event::Frame(frame),
                Err(error) => Event::Broken(error),
            };
            let over = !matches!(event, Event::Frame(Some(_)));
            if events.send(event).is_err() || over {
                return;
            }
        }
    });
}

/// What is typed, on a thread of its own. It ends with the process.
pub(super) fn read(way: Way, events: SyncSender<Event>) {
    std::thread::spawn(move || {
        terminal::read(way, |typed| events.send(Event::Typed(typed)).is_ok());
    });
}

/// Signals, on a thread of their own.
pub(super) fn watch_signals(events: SyncSender<Event>) -> Result<(), CliError> {
    let failed = |error| CliError::internal(format!("failed to watch for signals: {error}"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let made = runtime.block_on(async {
        let kinds = [SignalKind::window_change(), SignalKind::interrupt(), SignalKind::terminate()];
        let [resized, interrupted, terminated] = kinds.map(signal);
        // Their own effect would leave the terminal with changed modes.
        let suspend = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        let [suspended, quit] = [suspend, SignalKind::quit()].map(signal);
        Ok::<_, std::io::Error>(((resized?, interrupted?, terminated?), (suspended?, quit?)))
    });
    let ((mut resized, mut interrupted, mut terminated), (mut suspended, mut quit)) =
        made.map_err(failed)?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            loop {
                let event = tokio::select! {
                    _ = resized.recv() => Event::Resized,
                    _ = interrupted.recv() => Event::Left(Exit::Interrupted),
                    _ = terminated.recv() => Event::Left(Exit::Terminated),
                    _ = suspended.recv() => Event::Suspended,
                    _ = quit.recv() => Event::Quit,
                };
                if events.send(event).is_err() {
                    return;
                }
            }
        });
    });
    Ok(())
}

/// The operator's side of it.
struct Screen {
    speak: Speak,
    unseen: Unseen,
    /// What the terminal of what is shown shows once more.
    echo: Option<Echo>,
    pour: Pour,
    /// Whether standard output is a terminal.
    full: bool,
}

impl Screen {
    fn show(mut self, card: &Card, inbox: &Receiver<Event>) -> Result<Exit, CliError> {
        if self.full {
            write_stdout(b"\x1b[H\x1b[2J")?;
        }
        if self.unseen.is_terminal() {
            let hint = "; ctrl-] leaves it running";
            let Card { id, kind, title, .. } = card;
            tell(&format!("{} {id}: {}{hint}\n", kind.label(), line(title)));
        }
        self.unseen.follow(card);
        if card.state != CardState::Running && card.state.is_live() {
            tell(&format!("{}: {}\n", card.id, line(&card.state.words())));
        }
        loop {
            // The signals' thread holds a sender as long as the process lives.
            let Ok(event) = inbox.recv() else { return Ok(Exit::Done) };
            if let Some(exit) = self.take(event)? {
                return Ok(exit);
            }
        }
    }

    /// Does what is to be done; gives an exit at the end.
    fn take(&mut self, event: Event) -> Result<Option<Exit>, CliError> {
        match event {
            Event::Frame(Some(frame)) => return self.frame(frame),
            Event::Frame(None) => {
                return Err(CliError::internal(
                    "the run's engine is gone; `bakeoff show` tells how it ended, `bakeoff resume` goes on",
                ));
            }
            Event::Broken(error) => return Err(error.into()),
            Event::Typed(Typed::Input(input)) => self.say(input),
            Event::Typed(Typed::Bytes(bytes)) => self.pour.give(&mut self.speak, &bytes),
            Event::Typed(Typed::Failed(reason)) => self.pour.failed(reason),
            Event::Typed(Typed::Leave) => {
                let _ = self.speak.say(&Said::Leave);
                tell("\nleft; it goes on\n");
                return Ok(Some(Exit::Done));
            }
            // Nothing can be typed any more, and there is still something to see.
            Event::Typed(Typed::Over) | Event::Begun => {}
            Event::Resized => self.resize(),
            Event::Suspended => {
                self.unseen.suspend();
                self.resize();
            }
            Event::Left(exit) => return Ok(Some(exit)),
            Event::Quit => return Ok(Some(Exit::Interrupted)),
        }
        Ok(None)
    }

    fn frame(&mut self, frame: Frame) -> Result<Option<Exit>, CliError> {
        match frame {
            Frame::Output { text } => {
                let text = match &mut self.echo {
                    Some(echo) => echo.without(text),
                    None => text,
                };
                // Nobody reads on: as with any program in a pipe that is the end.
                if !stream_stdout(block(&text).as_bytes())? {
                    return Ok(Some(Exit::Done));
                }
            }
            Frame::Dropped { bytes } => self.dropped(bytes)?,
            Frame::State { card } => {
                self.unseen.follow(&card);
                if card.state != CardState::Running {
                    tell(&format!("{}: {}\n", card.id, line(&card.state.words())));
                }
            }
            // Only whoever started a command is told so, or given so.
            Frame::Exit { .. } | Frame::Bytes { .. } => {}
            Frame::Poured { open, lost } => self.pour.answered(open, lost),
            Frame::Note { text } => tell(&format!("{}\n", line(&text))),
            Frame::Refused { reason } => {
                tell(&format!("{}\n", line(&reason)));
                if !self.unseen.is_terminal() {
                    self.pour.failed(reason);
                }
            }
            Frame::Ended { card } => {
                std::io::stdout().flush().ok();
                tell(&format!("{} is over: {}\n", card.id, line(&card.state.words())));
                return match self.pour.lost() {
                    None => Ok(Some(Exit::Done)),
                    Some(why) => {
                        let why = line(why);
                        Err(CliError::internal(format!("not all input came in: {why}")))
                    }
                };
            }
        }
        Ok(None)
    }

    /// Says where output is missing: on a screen in its place, else beside the output, which others may read.
    fn dropped(&self, bytes: u64) -> Result<(), CliError> {
        let note = format!("[{bytes} bytes of output are gone]\n");
        if self.full {
            return write_stdout(format!("\n{note}").as_bytes());
        }
        tell(&note);
        Ok(())
    }

    fn resize(&mut self) {
        if let Some(size) = terminal::size() {
            let _ = self.speak.say(&Said::Resize { size });
        }
    }

    fn say(&mut self, input: Input) {
        let input = self.unseen.of(input);
        if let Input::Submit { text } = &input
            && self.unseen.is_terminal()
            && let Some(echo) = &mut self.echo
        {
            echo.expect(text);
        }
        // The end of the connection is told by its other half.
        let _ = self.speak.say(&Said::Input { input });
    }
}
