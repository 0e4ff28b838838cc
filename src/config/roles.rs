//! `[duels]` and `[design]`: roles of models beside workers and judges.

use toml::de::{DeTable, DeValue};

use super::load::Environment;
use super::reader::Layer;
use super::{Setting, convert};
use crate::model::{ModelRef, TEST_PATH};

/// How often a duel's test runs on each tree when nothing else is said.
pub const DUEL_RUNS: u32 = 3;

/// `[duels]`: tests that a model writes to tell close finalists apart.
#[derive(Clone, Debug)]
pub struct DuelSettings {
    /// The most of one run; unset leaves it to what else the run has.
    pub most: Setting<Option<u32>>,
    /// The model that writes them; the first judge's when unset.
    pub model: Setting<Option<ModelRef>>,
    /// How often each runs on each tree.
    pub runs: Setting<u32>,
    /// The command that runs one, with `{path}` for its files; the test command when unset.
    pub command: Setting<Option<String>>,
}

impl Default for DuelSettings {
    fn default() -> Self {
        Self {
            most: Setting::default(),
            model: Setting::default(),
            runs: Setting::default_of(DUEL_RUNS),
            command: Setting::default(),
        }
    }
}

impl DuelSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let at = "duels";
        layer.unknown(at, table, &["most", "model", "runs", "command"]);
        layer.set(at, table, "most", &mut self.most, most);
        layer.set(at, table, "model", &mut self.model, convert::model);
        layer.set(at, table, "runs", &mut self.runs, runs);
        layer.set(at, table, "command", &mut self.command, by_path);
    }

    pub(super) fn environment(&mut self, layer: &mut Environment<'_>) {
        layer.set("duels.most", &mut self.most, most);
        layer.set("duels.model", &mut self.model, convert::model);
        layer.set("duels.runs", &mut self.runs, runs);
        layer.set("duels.command", &mut self.command, by_path);
    }
}

fn most(value: &DeValue<'_>) -> Result<Option<u32>, String> {
    convert::few(value).map(Some)
}

/// A command that names no file can't tell whether the test ran; the test command finds it by itself.
fn by_path(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let line = convert::optional_text(value).ok().flatten().filter(|line| line.contains(TEST_PATH));
    line.map(Some).ok_or_else(|| {
        "a command with {path} where the test's files belong (\"python3 -m pytest -q {path}\"); without this key \
         the test command runs them"
            .to_owned()
    })
}

/// One run can't show that a test is flaky.
fn runs(value: &DeValue<'_>) -> Result<u32, String> {
    let few = convert::few(value).ok().filter(|n| (2..=10).contains(n));
    few.ok_or_else(|| "a whole number from 2 to 10".to_owned())
}

/// `[design]`: a plan for all workers, made before they begin.
#[derive(Clone, Debug, Default)]
pub struct DesignSettings {
    /// Whether there is one.
    pub enabled: Setting<bool>,
    /// The model that makes it; the first lane's when unset.
    pub model: Setting<Option<ModelRef>>,
}

impl DesignSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        layer.unknown("design", table, &["enabled", "model"]);
        layer.set("design", table, "enabled", &mut self.enabled, convert::truth);
        layer.set("design", table, "model", &mut self.model, convert::model);
    }

    pub(super) fn environment(&mut self, layer: &mut Environment<'_>) {
        layer.set("design.enabled", &mut self.enabled, convert::truth);
        layer.set("design.model", &mut self.model, convert::model);
    }
}
