//! The warden's answers to what the engine does with a job's input. Never here: how it is written (`input`).

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use super::super::jail::Report;
use super::super::live::InputState;
use super::files;
use super::keeper::Keeper;
use super::proto::{Reply, WireFeeding};
use super::table::Entry;

/// Read at once.
const PACKET: usize = 64 << 10;

impl Keeper {
    /// Does it and answers. A job that is over takes nothing; that its input is closed then is no error.
    pub(super) fn feed(&mut self, id: u64, job: u64, what: WireFeeding, bytes: Vec<u8>) {
        let outcome = match (self.table.jobs.get_mut(&job), what) {
            (Some(entry), what) => done(entry, what, bytes),
            (None, WireFeeding::Close) => Ok(InputState::default()),
            (None, _) => Err("the job has ended".to_owned()),
        };
        self.reply(Reply::Fed { id, outcome }, Vec::new());
    }
}

fn done(entry: &mut Entry, what: WireFeeding, bytes: Vec<u8>) -> Result<InputState, String> {
    // Its terminal may have arrived already.
    take_reports(entry);
    let input = &mut entry.input;
    match what {
        WireFeeding::Write { hidden } => input.take(bytes, hidden)?,
        WireFeeding::Close => input.close(),
        WireFeeding::Resize(size) => input.resize(size)?,
        WireFeeding::Look | WireFeeding::Inspect => {}
    }
    let awaited = match what {
        WireFeeding::Inspect => input.place().and_then(|place| place.is_awaited(entry.running.pid)),
        _ => None,
    };
    Ok(InputState { awaited, ..input.state() })
}

/// Takes all that a job's init has said.
pub(super) fn take_reports(entry: &mut Entry) {
    let mut packet = vec![0; PACKET];
    let mut arrived = VecDeque::new();
    // The warden's end does not block.
    while let Ok(length @ 1..) = files::receive(&entry.running.control, &mut packet, &mut arrived) {
        match serde_json::from_slice(&packet[..length]) {
            Ok(Report::Terminal) => {
                if let Err(error) = arrived.pop_front().map_or(Ok(()), |fd| connect(entry, fd)) {
                    tracing::debug!("a job's terminal can't be used: {error}");
                }
            }
            Ok(report) => entry.report = Some(report),
            Err(_) => {}
        }
    }
}

/// The master of a job's terminal is its output and its input.
fn connect(entry: &mut Entry, master: OwnedFd) -> rustix::io::Result<()> {
    rustix::io::ioctl_fionbio(&master, true)?;
    entry.input.attach(rustix::io::fcntl_dupfd_cloexec(&master, 3)?);
    entry.output_pipe = Some(master);
    // What came before it waits; a job that is gone takes nothing.
    let _ = entry.input.write();
    Ok(())
}
