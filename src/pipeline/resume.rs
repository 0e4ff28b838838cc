//! Going on with a run that was cut off, and judging a finished one anew.
//!
//! Both walk through the stages again with what the journal holds (`memory`). Never here: the user's
//! repository, unless the run was cut off before it had a store of its own.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::assemble::{Builder, permit, time_limit, with_spaces};
use super::frame::Frame;
use super::layers::lay;
use super::memory::Memory;
use super::run::Stopped;
use super::tell::Teller;
use super::{Equipment, PipelineError};
use crate::journal::{Entry, JOURNAL_VERSION, RunDir};
use crate::model::{EventSink, RunId, RunRecord, Warning};
use crate::repo::{Store, StorePaths};

/// What a run goes on with.
pub struct Continuation {
    /// What it was told at its beginning.
    pub frame: Frame,
    /// What its journal knows.
    pub memory: Memory,
    /// Where a last line of the journal was put that a kill had torn.
    pub torn: Option<PathBuf>,
    /// Ends the run early: the operator's signal.
    pub cancel: CancellationToken,
    /// Which signal it was.
    pub stopped: Stopped,
}

/// Goes on to the end and gives the record.
///
/// # Errors
/// When the run can't go on.
pub async fn resume(
    order: Continuation,
    equipment: Equipment,
    dir: &RunDir,
    listener: EventSink,
) -> Result<RunRecord, PipelineError> {
    let tell = Teller::new(dir.clone(), listener);
    let limit = time_limit(&order.frame.plan, &order.cancel);
    let (store, sandbox) = tokio::join!(
        reopen(&equipment, dir),
        permit(order.frame.kind, &order.frame.plan, &equipment.warden),
    );
    let mut sandbox = sandbox?;
    let store = with_spaces(store?, &mut sandbox, order.frame.kind, &equipment, dir).await?;
    if *store.base_tree() != order.frame.base.tree {
        return Err(PipelineError::Store(format!(
            "the run's repository holds the base {}, and its journal says {}",
            store.base_tree(),
            order.frame.base.tree
        )));
    }
    let notes = notes(&order);
    let builder = Builder {
        notes,
        store: Arc::new(store),
        sandbox,
        layers: lay(&order.frame.layers)?,
        frame: order.frame,
        memory: Arc::new(order.memory),
        cancel: order.cancel,
        stopped: order.stopped,
        equipment,
        tell,
        dir: dir.clone(),
    };
    builder.execute(limit).await
}

async fn reopen(equipment: &Equipment, dir: &RunDir) -> Result<Store, PipelineError> {
    let paths = StorePaths { cache: equipment.cache.clone(), run: dir.path().to_owned() };
    let state = equipment.state.clone();
    let work = move || {
        // What the engine left that was killed goes first.
        crate::repo::sweep(&state)?;
        Store::reopen(&paths)
    };
    let store = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| PipelineError::Internal(error.to_string()))?;
    Ok(store?)
}

/// What is to be known of a run that goes on.
fn notes(order: &Continuation) -> Vec<Warning> {
    let mut notes = Vec::new();
    let mut note = |code: &str, message| notes.push(Warning { code: code.to_owned(), message });
    let lost = order.memory.possibly_paid();
    if lost > 0 {
        let text = format!(
            "{lost} model calls were in flight or broke off before the run was resumed: they are possibly paid, \
             and are asked again where their answer is needed"
        );
        note("possibly-paid", text);
    }
    if let Some(path) = &order.torn {
        let text = format!(
            "the journal's last line was torn and is kept in {}; nothing had come of it yet",
            path.display()
        );
        note("journal-torn", text);
    }
    let engine = env!("CARGO_PKG_VERSION");
    if order.memory.engine() != engine {
        let text = format!(
            "the run was begun by bakeoff {}, and this is {engine}: where its prompts differ, calls are asked again",
            order.memory.engine()
        );
        note("engine-changed", text);
    }
    notes
}

/// Begins the journal of a run that judges another one's candidates anew: with that one's workers and
/// gates, and the judges of `frame`. That run is `of`.
///
/// # Errors
/// When the disk refuses.
pub fn begin_rejudge(
    entries: Vec<Entry>,
    of: &RunId,
    frame: &Frame,
    dir: &RunDir,
) -> Result<(), PipelineError> {
    let rejudges = Some(of.clone());
    let plan = Box::new(frame.plan.clone());
    let engine = env!("CARGO_PKG_VERSION").to_owned();
    let frame = frame.store(dir)?;
    let (version, fences) = (JOURNAL_VERSION, dir.fences());
    dir.append(&Entry::Plan { version, plan, engine, frame, fences, rejudges })?;
    for entry in Memory::without_judges(entries) {
        dir.append(&entry)?;
    }
    Ok(())
}
