//! `bakeoff shell`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};

use super::attach::{EVENTS, Event, begin, listen, read, watch_signals};
use super::context::Context;
use super::output::{stream_json, stream_stdout, tell, write_json};
use super::pour::Pour;
use super::running::{LATEST, find, with_others};
use super::terminal::{self, Echo, Modes, Typed, Unseen, Way};
use super::{CliError, Exit};
use crate::control::{Frame, Request, Said, ShellAnswer, Speak, Wish, ask, shell, text_as_bytes};
use crate::jobs::{Alone, Input};
use crate::model::Card;
use crate::model::printable::{block, line};

/// Run a command of your own in the workspace of a lane of a running run, in the sandbox
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The words behind `--` are joined with blanks and given to /bin/sh. No worker is told of the command, and \
    what it changes is part of the lane's change. Ctrl-C ends it (with --pty it goes to the program), ctrl-] leaves it \
    running, ctrl-D ends its input. What is left or detached runs until the run ends; `bakeoff jobs`, `attach` and `stop` \
    know it. Where nobody can answer (no terminal, CI=true), a question for a password ends it; with --no-input, and at the end \
    of a file or a pipe, it reads the end of its input instead, and is ended when it waits on.\n\n\
    Exit status: the command's own; 128 and the number of a signal that ended it; 124 when its time was over; 125 when \
    bakeoff ended it or could not start it (no such run or lane, no sandbox, a directory elsewhere), or when input or \
    output of it was lost; 127 when there is no such command or directory; 141 when nobody reads the output; 0 when it \
    was left or detached; 2 for a wrong option."
)]
pub struct Args {
    /// The run: its id, the beginning or end of its id, the path of its directory, or `latest`, the newest
    #[arg(default_value = LATEST)]
    run: String,
    /// The lane in whose workspace it runs: its attempt, as `fast/1`, or its name where it has one; may be left out
    /// where only one is at work
    #[arg(long)]
    lane: Option<String>,
    /// The directory to run it in, from the workspace's top and below it
    #[arg(long, value_name = "DIR", default_value = "", hide_default_value = true)]
    dir: String,
    /// Give it a terminal
    #[arg(long)]
    pty: bool,
    /// Start it and leave it: it runs until the run ends
    #[arg(long)]
    detach: bool,
    /// Give it no input, and nobody who answers
    #[arg(long)]
    no_input: bool,
    /// Print one JSON object when it has ended, or when it was left
    #[arg(long)]
    json: bool,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// The exit status when bakeoff ended a command or could not run it, or input or output of it was lost.
const FAILED: i32 = 125;
/// The exit status when nobody reads the output any more: 128 and the number of SIGPIPE.
const UNREAD: i32 = 141;

/// How watching a command ended.
struct Seen {
    /// Its exit status, when it ended.
    code: Option<i32>,
    /// Why the engine ended it.
    why: Option<String>,
    /// What is left running, in words.
    told: String,
    /// What it wrote, for JSON.
    output: String,
    /// Bytes of its output that are gone.
    dropped: u64,
    /// Why a part of standard input did not come to it.
    lost: Option<String>,
    /// The signal by which the operator ended it.
    signal: Option<Exit>,
}

impl Args {
    /// Runs it.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        self.watched(context).or_else(|error| {
            // Any exit code of bakeoff's own could be the command's.
            error.report();
            std::process::exit(FAILED)
        })
    }

    fn watched(&self, context: &Context) -> Result<Exit, CliError> {
        let dir = find(&self.run, context)?;
        let (events, inbox) = sync_channel(EVENTS);
        watch_signals(events.clone())?;
        let (run, wish) = (dir.path().to_owned(), self.wish(context));
        let answer = match begin(&events, &inbox, move || shell(&run, wish)) {
            Ok(answer) => answer.map_err(|error| with_others(error, context))?,
            Err(exit) => return Ok(exit),
        };
        match answer {
            ShellAnswer::Detached { card, told } => {
                if self.json {
                    write_json(
                        &serde_json::json!({"version": 1, "id": card.id, "state": "detached", "told": told}),
                    )?;
                } else {
                    tell(&told);
                }
                Ok(Exit::Done)
            }
            ShellAnswer::Attached { card, follow, speak } => {
                let unseen = Unseen::new(if self.no_input { None } else { Modes::set() });
                listen(follow, events.clone());
                let (pour, pump) = Pour::new(true);
                let mut speak = speak;
                if self.no_input {
                    // The end of the connection is told by its other half.
                    let _ = speak.say(&Said::Input { input: Input::Close });
                } else {
                    read(if unseen.is_terminal() { Way::Typed } else { Way::Bytes(pump) }, events);
                }
                let view = View {
                    speak,
                    run: dir.path().to_owned(),
                    card,
                    pty: self.pty,
                    json: self.json,
                    unseen,
                    echo: Echo::default(),
                    output: String::new(),
                    pour,
                    dropped: 0,
                };
                self.end(view.watch(&inbox)?)
            }
        }
    }

    fn wish(&self, context: &Context) -> Wish {
        let no_terminal = !std::io::stdin().is_terminal();
        let alone = Alone { no_terminal, no_input: self.no_input, ci: context.is_ci() };
        let size = || terminal::size().unwrap_or_default();
        Wish {
            lane: self.lane.clone(),
            script: self.command.join(" "),
            dir: self.dir.clone(),
            terminal: self.pty.then(size),
            alone,
            detach: self.detach,
            // A program in a pipe is read by another one; a terminal gets what is safe there.
            bytes: !self.pty && !self.json && !std::io::stdout().is_terminal(),
        }
    }

    /// Tells how it ended and ends the process with the command's own status.
    fn end(&self, seen: Seen) -> Result<Exit, CliError> {
        if self.json {
            let read = stream_json(&serde_json::json!({
                "version": 1,
                "state": if seen.code.is_some() { "ended" } else { "left" },
                "code": seen.code,
                "why": seen.why,
                "output": seen.output,
                "dropped_bytes": seen.dropped,
                "input_lost": seen.lost,
                "told": seen.told,
            }))?;
            if !read {
                std::process::exit(UNREAD);
            }
        } else {
            if let Some(why) = &seen.why {
                tell(&format!("bakeoff: {}\n", line(why)));
            }
            tell(&seen.told);
        }
        if let Some(exit) = seen.signal {
            return Ok(exit);
        }
        if let Some(why) = &seen.lost {
            tell(&format!("bakeoff: not all input came to the command: {}\n", line(why)));
        }
        let whole = seen.dropped == 0 && seen.lost.is_none();
        match seen.code {
            None | Some(0) if whole => Ok(Exit::Done),
            // What is not whole is no success.
            None | Some(0) => std::process::exit(FAILED),
            // No exit code of bakeoff's own: the command's.
            Some(code) => std::process::exit(code),
        }
    }
}

/// The operator's side of a command.
struct View {
    speak: Speak,
    run: PathBuf,
    card: Card,
    pty: bool,
    json: bool,
    unseen: Unseen,
    echo: Echo,
    output: String,
    pour: Pour,
    dropped: u64,
}

impl View {
    fn watch(mut self, inbox: &Receiver<Event>) -> Result<Seen, CliError> {
        // It may ask already.
        self.unseen.follow(&self.card);
        let mut signal = None;
        // The signals' thread holds a sender as long as the process lives.
        while let Ok(event) = inbox.recv() {
            match event {
                Event::Frame(Some(Frame::Exit { code, why, told })) => {
                    let why = if signal.is_some() { None } else { why };
                    return Ok(Seen { why, told, signal, ..self.seen(Some(code)) });
                }
                Event::Frame(Some(frame)) => {
                    if !self.frame(frame)? {
                        return Ok(self.seen(Some(UNREAD)));
                    }
                }
                Event::Frame(None) => return Err(gone()),
                Event::Broken(error) => return Err(error.into()),
                Event::Typed(Typed::Input(input)) => self.put(input),
                Event::Typed(Typed::Bytes(bytes)) => self.pour.give(&mut self.speak, &bytes),
                Event::Typed(Typed::Failed(reason)) => self.pour.failed(reason),
                Event::Typed(Typed::Leave) => return Ok(self.leave()),
                Event::Typed(Typed::Over) | Event::Begun => {}
                Event::Resized => self.resize(),
                Event::Suspended => {
                    self.unseen.suspend();
                    self.resize();
                }
                Event::Left(Exit::Interrupted) if self.pty => {
                    self.put(Input::Write { text: "\u{3}".to_owned() });
                }
                Event::Quit if self.pty => {
                    self.put(Input::Write { text: "\u{1c}".to_owned() });
                }
                Event::Left(exit) => signal = Some(self.stop(exit)),
                Event::Quit => signal = Some(self.stop(Exit::Interrupted)),
            }
        }
        Err(gone())
    }

    /// Shows what is to be shown; false when nobody reads it.
    fn frame(&mut self, frame: Frame) -> Result<bool, CliError> {
        match frame {
            Frame::Output { text } => {
                let text = self.echo.without(text);
                if self.json {
                    self.output += &text;
                    return Ok(true);
                }
                // It holds nothing but text and colours.
                return match std::io::stdout().is_terminal() {
                    true => stream_stdout(text.as_bytes()),
                    false => stream_stdout(block(&text).as_bytes()),
                };
            }
            Frame::Bytes { bytes } => {
                let Some(bytes) = text_as_bytes(&bytes) else {
                    return Err(CliError::internal("the engine sent what are no bytes"));
                };
                return stream_stdout(&bytes);
            }
            Frame::Dropped { bytes } => {
                self.dropped += bytes;
                tell(&format!("[{bytes} bytes of output are gone]\n"));
            }
            Frame::State { card } => self.unseen.follow(&card),
            Frame::Poured { open, lost } => self.pour.answered(open, lost),
            Frame::Note { text } => tell(&format!("{}\n", line(&text))),
            Frame::Refused { reason } => tell(&format!("{}\n", line(&reason))),
            Frame::Ended { .. } | Frame::Exit { .. } => {}
        }
        Ok(true)
    }

    /// How it ended, or was left, with nothing to be told.
    fn seen(self, code: Option<i32>) -> Seen {
        let lost = self.pour.lost().map(str::to_owned);
        let (output, dropped) = (self.output, self.dropped);
        Seen { code, why: None, told: String::new(), output, dropped, lost, signal: None }
    }

    fn stop(&self, exit: Exit) -> Exit {
        stop(&self.run, &self.card.id);
        exit
    }

    fn put(&mut self, input: Input) {
        let input = self.unseen.of(input);
        if let Input::Submit { text } = &input
            && self.pty
            && self.unseen.is_terminal()
        {
            self.echo.expect(text);
        }
        // The end of the connection is told by its other half.
        let _ = self.speak.say(&Said::Input { input });
    }

    fn resize(&mut self) {
        if let Some(size) = terminal::size().filter(|_| self.pty) {
            let _ = self.speak.say(&Said::Resize { size });
        }
    }

    fn leave(mut self) -> Seen {
        let _ = self.speak.say(&Said::Leave);
        let id = &self.card.id;
        let told = format!(
            "\n{id} goes on without you, and runs until the run ends; bakeoff attach shows it, bakeoff stop ends it\n"
        );
        Seen { told, ..self.seen(None) }
    }
}

/// Ends it as a whole; its last frames tell that it is over.
fn stop(run: &Path, id: &str) {
    let (run, id) = (run.to_owned(), id.to_owned());
    // On a thread of its own: the frames go on meanwhile.
    std::thread::spawn(move || drop(ask(&run, &Request::Stop { id: Some(id) })));
}

fn gone() -> CliError {
    CliError::internal(
        "the run's engine is gone; `bakeoff show` tells how it ended, `bakeoff resume` goes on",
    )
}
