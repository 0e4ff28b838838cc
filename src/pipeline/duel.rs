//! Duels by `judge` and `gate`: a model writes a test, the sandbox says how it ends.
//!
//! What the journal knows of a duel is neither asked nor run again. Never here: which two meet, and what
//! the end is worth.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::adapters::GateProve;
use super::base_files::{File, Shelf, failed};
use super::changed::changed_files;
use super::judging::{JudgeDesk, finalist};
use super::memory::Memory;
use super::{Duels, Pairing, PipelineError, Survivor};
use crate::gate::{DuelTest, duel_result, duel_test, tests_near};
use crate::journal::{Entry, RunDir};
use crate::judge::{DuelInput, JudgeModel, Written, speaks, write_test};
use crate::model::{
    Admission, CandidateId, Duel, DuelPlan, DuelResult, DuelRun, FileChange, GatePlan, TreeId,
};
use crate::patch::{self, Rules};
use crate::repo::Store;
use crate::select::is_unreadable;

/// The most bytes of the base's files that the writer is shown.
const FILES_BYTES: usize = 96 << 10;
/// The most of these files.
const MOST_FILES: usize = 16;
/// The most bytes of a reply that may hold a test.
const REPLY_BYTES: usize = 256 << 10;

/// Who has duels fought.
pub struct DuelDesk {
    /// Task, prompts and fences: those of the judges.
    pub(super) desk: JudgeDesk,
    /// What the plan says of duels.
    pub(super) plan: DuelPlan,
    /// The gates, whose rules hold for a test's files, too.
    pub(super) gates: GatePlan,
    /// Who writes tests.
    pub(super) model: JudgeModel,
    /// The run's store.
    pub(super) store: Arc<Store>,
    /// Keeps what ran.
    pub(super) dir: RunDir,
    /// What ran before.
    pub(super) memory: Arc<Memory>,
    /// Runs tests; nobody does in a replay.
    pub(super) prove: Option<Arc<GateProve>>,
}

impl DuelDesk {
    async fn write(&self, of: &Pairing<'_>) -> Result<Written, PipelineError> {
        let pair: Vec<&Survivor> =
            of.finalists.iter().filter(|one| of.pair.contains(&one.id)).collect();
        let [left, right] = pair.as_slice() else {
            return Err(PipelineError::Internal("a duel of others than finalists".to_owned()));
        };
        let (left, right) = if left.id == of.pair[0] { (left, right) } else { (right, left) };
        let files = self.files(&[left, right])?;
        let (left, right) = (finalist(left), finalist(right));
        let input = DuelInput {
            number: of.number,
            task: self.desk.task.as_deref(),
            pair: [&left, &right],
            command: &self.plan.command.line,
            dir: &self.gates.dir,
            before: of.before.iter().filter_map(told_before).collect(),
            files,
            model: &self.model,
            templates: &self.desk.templates,
            fencer: &self.desk.fencer,
            max_output_tokens: self.desk.max_output_tokens,
            cancel: &self.desk.cancel,
        };
        let written = write_test(&input).await;
        written.map_err(|error| PipelineError::Config(error.to_string()))
    }

    /// The base's files that the two touch, and its tests near them.
    fn files(&self, pair: &[&Survivor]) -> Result<Vec<File>, PipelineError> {
        let (store, base) = (&*self.store, self.store.base_tree());
        let mut shelf = Shelf::new(FILES_BYTES, MOST_FILES);
        let mut touched = Vec::new();
        for survivor in pair {
            for file in changed_files(store, base, &survivor.tree)? {
                if let Some(text) = file.base.and_then(|bytes| String::from_utf8(bytes).ok()) {
                    shelf.put(file.path.clone(), text);
                }
                touched.push(file.path);
            }
        }
        for path in touched {
            for (path, text) in tests_near(store, base, &path).map_err(failed)? {
                shelf.put(path, text);
            }
        }
        Ok(shelf.files())
    }

    /// The test of a reply, if it may run; else why not, in the engine's words.
    fn admit(
        &self,
        reply: &str,
        finalists: &[Survivor],
    ) -> Result<Result<DuelTest, String>, PipelineError> {
        let (store, base) = (&*self.store, self.store.base_tree());
        let rules = Rules { max_bytes: REPLY_BYTES, ..Rules::default() };
        let draft = store.draft();
        let admitted = patch::admit(reply.as_bytes(), base, &draft, &rules).map_err(failed)?;
        let (tree, files) = match admitted {
            Admission::Refused(refusal) => {
                return Ok(Err(format!("its diff can't be used ({})", refusal.code)));
            }
            Admission::Admitted { tree, files, .. } => (tree, files),
        };
        draft.keep().map_err(failed)?;
        if self.is_unreadable(&tree, &files)? {
            return Ok(Err("its test does not parse".to_owned()));
        }
        let trees: Vec<TreeId> = finalists.iter().map(|one| one.tree.clone()).collect();
        let of = (&self.gates, &self.plan.command);
        duel_test(store, (base, &tree), &files, &trees, of).map_err(failed)
    }

    fn is_unreadable(&self, tree: &TreeId, files: &[FileChange]) -> Result<bool, PipelineError> {
        let changed = changed_files(&*self.store, self.store.base_tree(), tree)?;
        let named = |path: &str| files.iter().any(|file| file.path == path);
        let new = changed.iter().filter(|file| named(&file.path));
        Ok(new
            .into_iter()
            .any(|file| file.new.as_ref().is_some_and(|bytes| is_unreadable(&file.path, bytes))))
    }

    /// How the test ends, as the journal holds it, else run and journaled. Nothing where the run is stopped.
    async fn runs(
        &self,
        test: &DuelTest,
        finalists: &[Survivor],
    ) -> Result<Option<Vec<DuelRun>>, PipelineError> {
        let of: Vec<(CandidateId, TreeId)> =
            finalists.iter().map(|one| (one.id.clone(), one.tree.clone())).collect();
        let trees: Vec<TreeId> = of.iter().map(|(_, tree)| tree.clone()).collect();
        if let Some(known) = self.memory.duel(&test.tree, &trees, &test.command.line) {
            return Ok(Some(known));
        }
        let Some(prove) = &self.prove else {
            // Where the time was over while it ran, nothing of it is in the journal.
            if self.memory.timed_out().is_none() {
                self.memory.miss("the runs of a duel's test".to_owned());
            }
            return Ok(None);
        };
        let Some(runs) = prove.duel(test, &of, self.plan.runs).await? else { return Ok(None) };
        let runs = self.dir.masked(&runs).unwrap_or(runs);
        self.dir.append(&Entry::Dueled {
            test: test.tree.clone(),
            trees,
            command: test.command.line.clone(),
            runs: runs.clone(),
        })?;
        Ok(Some(runs))
    }

    async fn fought(&self, of: Pairing<'_>) -> Result<Duel, PipelineError> {
        let written = self.write(&of).await?;
        let mut duel = Duel {
            number: of.number,
            pair: of.pair.clone(),
            model: self.model.name.to_string(),
            test: None,
            files: Vec::new(),
            command: String::new(),
            runs: Vec::new(),
            result: DuelResult::Void { reason: "the run was stopped".to_owned() },
            usage: written.usage,
        };
        let reply = match written.test {
            Ok(reply) => reply,
            Err(reason) => return Ok(Duel { result: DuelResult::NotWritten { reason }, ..duel }),
        };
        let test = match self.admit(&reply, of.finalists)? {
            Ok(test) => test,
            Err(reason) => return Ok(Duel { result: DuelResult::Void { reason }, ..duel }),
        };
        let text = self.store.diff_trees(self.store.base_tree(), &test.tree)?;
        duel.test = Some(self.dir.artifacts().put(&text)?);
        duel.files.clone_from(&test.files);
        duel.command.clone_from(&test.command.line);
        // Its author read what candidates wrote, and judges will read what it wrote.
        if speaks(self.desk.task.as_deref(), &String::from_utf8_lossy(&text)) {
            let reason = "its text speaks to its readers".to_owned();
            return Ok(Duel { result: DuelResult::Void { reason }, ..duel });
        }
        if let Some(runs) = self.runs(&test, of.finalists).await? {
            let flags = |id: &CandidateId| {
                of.finalists.iter().find(|one| one.id == *id).map_or(&[][..], |one| &one.flags)
            };
            duel.result = duel_result(&of.pair, &runs, flags);
            duel.runs = runs;
        }
        Ok(duel)
    }
}

impl Duels for DuelDesk {
    fn fight<'a>(&'a self, of: Pairing<'a>) -> BoxFuture<'a, Result<Duel, PipelineError>> {
        self.fought(of).boxed()
    }
}

/// What the writer of a later test is told of an earlier one: no word of a model.
fn told_before(duel: &Duel) -> Option<String> {
    let what = match &duel.result {
        DuelResult::Void { reason } => format!("did not count: {reason}"),
        DuelResult::Alike { pass: true } => "passes on both candidates".to_owned(),
        DuelResult::Alike { pass: false } => "fails on both candidates".to_owned(),
        DuelResult::Told { .. } => {
            "told two candidates apart, and judges were not sure still".to_owned()
        }
        DuelResult::NotWritten { .. } => return None,
    };
    Some(format!("An earlier test of this run {what}. Write another one, or decline."))
}
