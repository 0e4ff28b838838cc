//! The operator's part in a scenario: commands of their own while the run goes on, over its control socket, as
//! `bakeoff shell` gives them.
//!
//! The last command lets the scripted worker go on; when one goes wrong, the run is stopped. Never here: what must come
//! of the run (`expect`).

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;

use crate::control::{ControlError, Frame, Reply, Request, Said, ShellAnswer, Wish, ask, shell};
use crate::jobs::{Alone, Input, Size};
use crate::model::{Card, CardKind, CardState};

/// How long the run may take until its worker has a workspace. It only guards against hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// A command of the operator's, and what must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    shell: String,
    #[serde(default)]
    dir: String,
    #[serde(default)]
    pty: bool,
    #[serde(default)]
    detach: bool,
    /// Nobody answers when it asks for a secret.
    #[serde(default)]
    alone: bool,
    /// Answers to its questions for secrets.
    #[serde(default)]
    answers: Vec<String>,
    exit: Option<i32>,
    /// What it must have written.
    says: Option<String>,
    /// How many ended commands the list must show after it.
    ended: Option<usize>,
}

/// Does the steps, one after the other; gives what was not as it must be.
pub fn operate(steps: &[Step], run: &Path) -> Vec<String> {
    let faults = steps.iter().find_map(|step| {
        let fault = step.take(run).err()?;
        Some(format!("{:?}: {fault}", step.shell))
    });
    if faults.is_some() {
        // Its worker would wait for a signal that never comes.
        let _ = ask(run, &Request::Stop { id: None });
    }
    faults.into_iter().collect()
}

impl Step {
    fn take(&self, run: &Path) -> Result<(), String> {
        let told = |error: ControlError| error.to_string();
        let (follow, speak, id) = match self.begin(run)? {
            ShellAnswer::Detached { card, told } if self.detach => {
                return match told.contains(&card.id) && told.contains("until the run ends") {
                    true => Ok(()),
                    false => Err(format!("it is told as {told:?}")),
                };
            }
            ShellAnswer::Attached { card, follow, speak } if !self.detach => {
                (follow, speak, card.id)
            }
            other => return Err(format!("the engine answered {other:?}")),
        };
        let (mut follow, mut speak, mut answers) = (follow, speak, self.answers.iter());
        let mut text = String::new();
        while let Some(frame) = follow.frame().map_err(told)? {
            match frame {
                Frame::Output { text: more } => text += &more,
                Frame::State { card: Card { state: CardState::NeedsApproval { .. }, .. } } => {
                    let answer =
                        answers.next().ok_or(format!("{id} asks once too often: {text}"))?;
                    let input = Input::Secret { text: answer.clone() };
                    speak.say(&Said::Input { input }).map_err(told)?;
                }
                Frame::Exit { code, .. } => return self.compare(code, &text, run),
                _ => {}
            }
        }
        Err(format!("the engine went away: {text}"))
    }

    /// Starts it, as soon as there is a workspace.
    fn begin(&self, run: &Path) -> Result<ShellAnswer, String> {
        let begun = Instant::now();
        let wish = Wish {
            lane: None,
            script: self.shell.clone(),
            dir: self.dir.clone(),
            terminal: self.pty.then(Size::default),
            alone: Alone { no_terminal: self.alone, ..Alone::default() },
            detach: self.detach,
            bytes: false,
        };
        loop {
            if worker_waits(run) {
                return shell(run, wish).map_err(|error| error.to_string());
            }
            if begun.elapsed() > PATIENCE {
                return Err("the worker never came to wait".to_owned());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn compare(&self, code: i32, text: &str, run: &Path) -> Result<(), String> {
        if self.exit.is_some_and(|wanted| wanted != code) {
            return Err(format!("exit {code}: {text}"));
        }
        if self.says.as_ref().is_some_and(|part| !text.contains(part)) {
            return Err(format!("it wrote {text:?}"));
        }
        let Some(wanted) = self.ended else { return Ok(()) };
        let Ok(Reply::Jobs { jobs }) = ask(run, &Request::Jobs { ended: true }) else {
            return Err("the list did not come".to_owned());
        };
        let over = |card: &&Card| card.kind == CardKind::Shell && !card.state.is_live();
        match jobs.iter().filter(over).count() {
            found if found == wanted => Ok(()),
            found => Err(format!("{found} ended commands are listed, not {wanted}")),
        }
    }
}

/// Whether a worker's job runs for whose signal it waits.
fn worker_waits(run: &Path) -> bool {
    let Ok(Reply::Jobs { jobs }) = ask(run, &Request::Jobs { ended: false }) else { return false };
    jobs.iter().any(|card| card.kind == CardKind::Job)
}
