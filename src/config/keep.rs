//! `[workspace]` and `[cache]`: what workers are shown of the past, and what stays on the disk.

use toml::de::{DeTable, DeValue};

use super::reader::Layer;
use super::{Setting, convert};

/// `[workspace]`: what workers work in.
#[derive(Clone, Debug)]
pub struct WorkspaceSettings {
    /// How many ancestors of the base a workspace's history shows.
    pub history: Setting<u32>,
}

/// `[cache]`: how much is kept between runs.
#[derive(Clone, Debug)]
pub struct CacheSettings {
    /// Its size in GiB, at most; what was not used for the longest time goes first.
    pub max_gb: Setting<u64>,
    /// Days after which what was not used goes.
    pub max_days: Setting<u64>,
}

impl Default for WorkspaceSettings {
    fn default() -> Self {
        Self { history: Setting::default_of(50) }
    }
}

impl Default for CacheSettings {
    fn default() -> Self {
        Self { max_gb: Setting::default_of(20), max_days: Setting::default_of(30) }
    }
}

/// The most ancestors that can be asked for.
const MOST_HISTORY: u64 = 10_000;

fn history(value: &DeValue<'_>) -> Result<u32, String> {
    let wanted = || format!("a whole number from 0 to {MOST_HISTORY}");
    let read = convert::limit(value).map_err(|_| wanted())?.unwrap_or(0);
    u32::try_from(read).ok().filter(|_| read <= MOST_HISTORY).ok_or_else(wanted)
}

impl WorkspaceSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        layer.unknown("workspace", table, &["history"]);
        layer.set("workspace", table, "history", &mut self.history, history);
    }

    pub(super) fn environment(&mut self, layer: &mut super::load::Environment<'_>) {
        layer.set("workspace.history", &mut self.history, history);
    }
}

impl CacheSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        layer.unknown("cache", table, &["max_gb", "max_days"]);
        layer.set("cache", table, "max_gb", &mut self.max_gb, convert::positive);
        layer.set("cache", table, "max_days", &mut self.max_days, convert::positive);
    }

    pub(super) fn environment(&mut self, layer: &mut super::load::Environment<'_>) {
        layer.set("cache.max_gb", &mut self.max_gb, convert::positive);
        layer.set("cache.max_days", &mut self.max_days, convert::positive);
    }
}
