//! `[side]`: side calls, and what workers are told of earlier runs.

use toml::de::DeTable;

use super::reader::Layer;
use super::{Setting, convert};
use crate::model::ModelRef;

/// `[side]`.
#[derive(Clone, Debug, Default)]
pub struct SideSettings {
    /// The model that names and sums up runs; without one nobody does.
    pub model: Setting<Option<ModelRef>>,
    /// Whether that may be done at the endpoint of a lane.
    pub shared_endpoint: Setting<bool>,
    /// How many earlier runs of the same repository workers are told of.
    pub prior: Setting<Option<u32>>,
}

impl SideSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        layer.unknown("side", table, &["model", "shared_endpoint", "prior"]);
        layer.set("side", table, "model", &mut self.model, convert::model);
        layer.set("side", table, "shared_endpoint", &mut self.shared_endpoint, convert::truth);
        layer.set("side", table, "prior", &mut self.prior, convert::limit32);
    }

    pub(super) fn environment(&mut self, layer: &mut super::load::Environment<'_>) {
        layer.set("side.model", &mut self.model, convert::model);
        layer.set("side.shared_endpoint", &mut self.shared_endpoint, convert::truth);
        layer.set("side.prior", &mut self.prior, convert::limit32);
    }
}
