//! Everything that a run is told at its beginning, as it is kept for a resume.
//!
//! A run must go on where its user's repository, config and prompts are no longer what they were. Kept
//! are the plan, the base and all text that reaches a model. Not kept are keys, and what a server's
//! address is: those are the process's own at every start, and must still fit ([`Frame::check_providers`]).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::layers::{LayerFiles, lay, layer_files};
use super::models::provider_names;
use super::prior::earlier;
use super::run::Given;
use super::{Commission, Equipment, PipelineError, Survey};
use crate::config::{Config, content_hash};
use crate::journal::{Artifacts, Entry, JournalError, Masker, Read, RunDir};
use crate::model::{ArtifactId, BaseRecord, Family, Plan, RunKind, TreeId, Wire};
use crate::prompt::Instructions;

/// The file of a repository that tells contributors how to work in it.
const INSTRUCTIONS_FILE: &str = "AGENTS.md";

/// A diff that was made elsewhere, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptDiff {
    source: String,
    family: Family,
    diff: ArtifactId,
}

/// A model server as the run began with it. Its address holds no secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct KeptProvider {
    wire: Wire,
    address: String,
}

/// What a run is told at its beginning.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Frame {
    /// Which command.
    pub kind: RunKind,
    /// What to do.
    pub plan: Plan,
    /// The base, its gates still empty.
    pub base: BaseRecord,
    /// The path of the user's working tree, byte for byte.
    top: Vec<u8>,
    /// Uncommitted changes that are not part of the base.
    pub left_out: u32,
    /// Directories of the checkout that the gates need.
    pub carry: Vec<String>,
    /// Paths that the config carries along by name and that the checkout does not have.
    #[serde(default)]
    pub(super) absent: Vec<String>,
    /// Tools that the config switches on or off.
    pub tools: BTreeMap<String, bool>,
    /// The repository's `bakeoff.toml` in the base.
    pub config_text: Option<String>,
    /// The hash of what trust was given to, if the repository holds any such file.
    pub trust_hash: Option<String>,
    pub(super) instructions: Option<String>,
    /// What earlier runs left, as it was when the run began.
    #[serde(default)]
    pub(super) prior: Vec<String>,
    pub(super) trusted: bool,
    pub(super) layers: Vec<LayerFiles>,
    given: Vec<KeptDiff>,
    providers: BTreeMap<String, KeptProvider>,
    /// Where something of this was masked: the SHA-256 of what it was, as JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    whole: Option<ArtifactId>,
}

impl Frame {
    /// The frame of a run that begins. Diffs made elsewhere become artifacts of `dir`.
    pub(super) fn of(
        survey: &Survey,
        commission: &Commission,
        equipment: &Equipment,
        tree: &TreeId,
        dir: &RunDir,
    ) -> Result<Self, PipelineError> {
        let (plan, config) = (&commission.plan, &equipment.config);
        let dirty = survey.dirty();
        let files = survey.trust_files()?;
        let files = files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()));
        Ok(Self {
            kind: commission.kind,
            plan: plan.clone(),
            base: BaseRecord {
                rev: survey.rev().to_owned(),
                commit: survey.commit().clone(),
                tree: tree.clone(),
                dirty: plan.dirty,
                gates: Vec::new(),
            },
            top: survey.top().as_os_str().as_bytes().to_vec(),
            left_out: if plan.dirty { 0 } else { dirty.tracked + dirty.untracked },
            carry: carry(survey, config, plan),
            absent: absent(survey, config),
            tools: config.tools.iter().map(|(name, on)| (name.clone(), on.value)).collect(),
            config_text: survey.config_text()?,
            trust_hash: (files.len() > 0).then(|| content_hash(files)),
            instructions: survey
                .file(INSTRUCTIONS_FILE)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
            prior: earlier(&equipment.state, survey.top(), plan.prior, dir.id())?,
            trusted: equipment.trusted,
            layers: layer_files(survey, &equipment.user, equipment.trusted)?,
            given: keep(&commission.given, dir.artifacts())?,
            providers: providers(plan, config),
            whole: None,
        })
    }

    /// The user's working tree, by path.
    pub fn top(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.top))
    }

    /// Stores the frame.
    pub(super) fn store(&self, dir: &RunDir) -> Result<ArtifactId, JournalError> {
        let json = |frame: &Self| {
            serde_json::to_vec(frame)
                .map_err(|error| JournalError::io("write", dir.path(), error.into()))
        };
        let bytes = json(self)?;
        if dir.masker().masked(&bytes).is_none() {
            return Ok(dir.artifacts().put_json(&bytes)?.0);
        }
        let whole = Some(Artifacts::plain_name(&bytes));
        Ok(dir.artifacts().put_json(&json(&Self { whole, ..self.clone() })?)?.0)
    }

    /// Reads a frame back.
    fn load(id: &ArtifactId, dir: &RunDir) -> Result<Self, JournalError> {
        let bytes = dir.artifacts().get(id)?;
        serde_json::from_slice(&bytes).map_err(|error| JournalError::Corrupt {
            path: dir.artifacts().path(id).display().to_string(),
            reason: error.to_string(),
        })
    }

    /// The frame that a journal begins with.
    ///
    /// # Errors
    /// When it has no beginning, or the frame can't be read.
    pub fn find(read: &Read, dir: &RunDir) -> Result<Self, JournalError> {
        let begun = read.entries.iter().rev().find_map(|entry| match entry {
            Entry::Plan { frame, .. } => Some(frame),
            _ => None,
        });
        let blank = || JournalError::Blank { run: dir.id().to_string() };
        Self::load(begun.ok_or_else(blank)?, dir)
    }

    /// Puts back what was masked of it, by the secrets that this engine knows of: a worker is to be told what it was told,
    /// and a gate to run as it did.
    ///
    /// # Errors
    /// When none of them makes it what it was.
    pub fn restored(mut self, masker: &Masker) -> Result<Self, PipelineError> {
        let Some(whole) = self.whole.take() else { return Ok(self) };
        let internal = |error: serde_json::Error| PipelineError::Internal(error.to_string());
        let masked = serde_json::to_vec(&self).map_err(internal)?;
        let is_whole = |bytes: &[u8]| Artifacts::plain_name(bytes) == whole;
        match masker.unmasked(&masked, is_whole) {
            Some(bytes) => serde_json::from_slice(&bytes).map_err(internal),
            None => Err(PipelineError::Config(
                "the run was told something that holds a secret (in its task, its instructions or its settings), which \
                 no record keeps, and what this environment holds does not fit there; set it as it was then, or begin a \
                 new run"
                    .to_owned(),
            )),
        }
    }

    /// The diffs made elsewhere.
    pub(super) fn given(&self, artifacts: &Artifacts) -> Result<Vec<Given>, JournalError> {
        let read = |kept: &KeptDiff| {
            let diff = artifacts.get(&kept.diff)?;
            Ok(Given { source: kept.source.clone(), family: kept.family.clone(), diff })
        };
        self.given.iter().map(read).collect()
    }

    /// The instructions of the repository, by the trust that it had when the run began.
    pub(super) fn instructions(&self) -> Instructions {
        match (&self.instructions, self.trusted) {
            (None, _) => Instructions::None,
            (Some(text), true) => Instructions::Trusted(text.clone()),
            (Some(text), false) => Instructions::Untrusted(text.clone()),
        }
    }

    /// Whether every judge of the plan is there.
    ///
    /// # Errors
    /// When one is not.
    pub fn check_judges(&self) -> Result<(), PipelineError> {
        let judges = lay(&self.layers)?.judges;
        let found = judges.select(&self.plan.judging.judges).map(drop);
        found.map_err(|error| PipelineError::Config(error.to_string()))
    }

    /// Whether every lane's model is scripted.
    pub(super) fn is_scripted(&self) -> bool {
        let scripted = |name: &str| {
            self.providers.get(name).is_some_and(|provider| provider.wire == Wire::Scripted)
        };
        !self.plan.lanes.is_empty()
            && self.plan.lanes.iter().all(|lane| scripted(&lane.model.provider))
    }

    /// Whether the process's config still means the servers that the run began with. A key must never
    /// go to another server than the one that its owner named, whatever a run's directory says.
    ///
    /// # Errors
    /// When a provider of the plan is missing, or is another one now.
    pub fn check_providers(&self, config: &Config) -> Result<(), PipelineError> {
        let now = providers(&self.plan, config);
        for (name, kept) in &self.providers {
            if now.get(name) != Some(kept) {
                return Err(PipelineError::Config(format!(
                    "the run was begun with provider `{name}` at {}, and the config now says {}; \
                     a run goes on with the servers that it began with",
                    kept.address,
                    now.get(name).map_or("nothing of it", |provider| &provider.address),
                )));
            }
        }
        Ok(())
    }
}

fn providers(plan: &Plan, config: &Config) -> BTreeMap<String, KeptProvider> {
    let kept = |name: String| {
        let provider = config.providers.get(&name)?;
        let (wire, address) = (provider.wire.value, provider.shown_address());
        Some((name, KeptProvider { wire, address }))
    };
    provider_names(plan).into_iter().filter_map(kept).collect()
}

fn keep(given: &[Given], artifacts: &Artifacts) -> Result<Vec<KeptDiff>, JournalError> {
    let one = |given: &Given| {
        let diff = artifacts.put(&given.diff)?;
        Ok(KeptDiff { source: given.source.clone(), family: given.family.clone(), diff })
    };
    given.iter().map(one).collect()
}

/// Directories that the checkout has installed and the gates need: those of the config, else those
/// that the repository's kind suggests.
fn carry(survey: &Survey, config: &Config, plan: &Plan) -> Vec<String> {
    let set = &config.gates.carry;
    match set.is_set() {
        true => set.value.clone(),
        false => survey.detect(&plan.gates.dir).carry,
    }
}

/// Who names a path to carry along expects it to be there. What is only found by the repository's kind
/// may not be installed, and nobody misses it.
fn absent(survey: &Survey, config: &Config) -> Vec<String> {
    let set = &config.gates.carry;
    let is_absent = |path: &&String| survey.top().join(path).symlink_metadata().is_err();
    set.value.iter().filter(|_| set.is_set()).filter(is_absent).cloned().collect()
}
