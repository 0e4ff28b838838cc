//! Lanes: `--lane NAME=PROVIDER:MODEL[:COUNT]`, lanes of the config, and the lanes when nobody named any.
//!
//! A model's name may hold `:` and `/` (`ollama:qwen2.5-coder:7b`): the provider is what stands before
//! the first colon, and a count is what stands behind the last one when it is a whole number
//! (`ollama:qwen2.5-coder:7b:3`). A model whose own name ends in `:NUMBER` needs its count written.

use std::collections::BTreeSet;

use super::error::ConfigError;
use super::providers::{self, ProviderConfig};
use super::setting::Setting;
use super::{Config, LaneLimits, suggest};
use crate::model::{Family, Lane, ModelRef};

/// Worker runs when nobody says how many.
pub const DEFAULT_ATTEMPTS: u32 = 4;

/// The most worker runs of one run, so that a slip of the finger does not spend a fortune.
pub const MAX_ATTEMPTS: u32 = 1000;

/// A lane as it was asked for; what is absent comes from the config.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneSpec {
    /// Its name.
    pub name: String,
    /// Its model.
    pub model: Option<ModelRef>,
    /// Its worker runs.
    pub attempts: Option<u32>,
}

/// A `[lanes.NAME]` of the config.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaneConfig {
    /// Its model; a lane without one takes the first default model of the first ready provider.
    pub model: Setting<Option<ModelRef>>,
    /// Its worker runs.
    pub attempts: Setting<Option<u32>>,
    /// Sampling temperature.
    pub temperature: Setting<Option<f64>>,
    /// Its voice in the consensus; the model's maker when absent.
    pub family: Setting<Option<String>>,
    /// Models that take over, in this order, when the server of the one before can't answer.
    pub fallback: Setting<Vec<ModelRef>>,
    /// What each of its worker runs may use.
    pub limits: LaneLimits,
}

/// Reads `NAME=PROVIDER:MODEL[:COUNT]`, or `NAME` alone for a lane of the config.
///
/// # Errors
/// [`ConfigError::Lane`] with the right form.
pub fn parse_lane(text: &str) -> Result<LaneSpec, ConfigError> {
    let wrong = |what: &str| {
        ConfigError::Lane(format!(
            "lane `{text}`: {what}; write NAME=PROVIDER:MODEL[:COUNT], for example \
             fast=openai:gpt-6.1-terra:3, or the NAME of a lane in the config"
        ))
    };
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) => (name.trim(), Some(rest.trim())),
        None if text.contains(':') => return Err(wrong("the name is missing")),
        None => (text.trim(), None),
    };
    if !is_lane_name(name) {
        return Err(wrong("a name has 1 to 40 letters, digits, `-`, `_` or `.`"));
    }
    let Some(rest) = rest else {
        return Ok(LaneSpec { name: name.to_owned(), model: None, attempts: None });
    };
    let (model, attempts) = split_count(rest);
    if attempts.is_some_and(|n| n == 0 || n > MAX_ATTEMPTS) {
        return Err(wrong(&format!("the count is not from 1 to {MAX_ATTEMPTS}")));
    }
    let model = parse_model(model).ok_or_else(|| wrong("the model is not PROVIDER:MODEL"))?;
    Ok(LaneSpec { name: name.to_owned(), model: Some(model), attempts })
}

/// A trailing `:NUMBER` is a count, but never the model's only part.
fn split_count(text: &str) -> (&str, Option<u32>) {
    match text.rsplit_once(':') {
        Some((model, count))
            if model.contains(':')
                && !count.is_empty()
                && count.chars().all(|c| c.is_ascii_digit()) =>
        {
            (model, Some(count.parse().unwrap_or(u32::MAX)))
        }
        _ => (text, None),
    }
}

/// Reads `PROVIDER:MODEL`.
pub fn parse_model(text: &str) -> Option<ModelRef> {
    let (provider, model) = text.split_once(':')?;
    let (provider, model) = (provider.trim(), model.trim());
    let fine = !provider.is_empty() && !model.is_empty() && !model.contains(char::is_whitespace);
    fine.then(|| ModelRef { provider: provider.to_owned(), model: model.to_owned() })
}

/// Whether a lane may be called so: lane ids put a `/` behind the name.
pub fn is_lane_name(name: &str) -> bool {
    (1..=40).contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
}

impl Config {
    /// The provider `name`.
    ///
    /// # Errors
    /// [`ConfigError::Lane`] that lists the known ones.
    pub fn provider(&self, name: &str) -> Result<&ProviderConfig, ConfigError> {
        self.providers.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.providers.keys().map(String::as_str).collect();
            let near = suggest::nearest(name, known.iter().copied())
                .map(|near| format!(" (did you mean `{near}`?)"))
                .unwrap_or_default();
            ConfigError::Lane(format!(
                "unknown provider `{name}`{near}; known: {}; another one needs [providers.{name}] in \
                 config.toml",
                known.join(", ")
            ))
        })
    }

    /// The lanes of a run: the ones asked for, else the config's, else one for each default model of
    /// the providers that can be asked. `total` worker runs are dealt evenly over the lanes that do
    /// not state a count of their own.
    ///
    /// # Errors
    /// [`ConfigError::Lane`] for unknown names, doubles and impossible counts;
    /// [`ConfigError::NoModel`] when nothing can be asked. A missing key is told here, before a run.
    pub fn lanes(&self, asked: &[LaneSpec], total: Option<u32>) -> Result<Vec<Lane>, ConfigError> {
        let (specs, share) = self.specs(asked, total)?;
        self.check_names(&specs)?;
        let counts = deal(&specs, share);
        let mut lanes = Vec::new();
        for (spec, attempts) in specs.iter().zip(counts).filter(|(_, attempts)| *attempts > 0) {
            lanes.push(self.lane(spec, attempts)?);
        }
        let runs: u64 = lanes.iter().map(|lane| u64::from(lane.attempts)).sum();
        match runs > u64::from(MAX_ATTEMPTS) {
            true => Err(ConfigError::Lane(format!(
                "{runs} worker runs are more than the {MAX_ATTEMPTS} that one run may have"
            ))),
            false => Ok(lanes),
        }
    }

    /// The lanes without their share, and how many runs there are to deal out.
    fn specs(
        &self,
        asked: &[LaneSpec],
        total: Option<u32>,
    ) -> Result<(Vec<LaneSpec>, Option<u32>), ConfigError> {
        // A count on the command line outranks a count in a file, and `total` is a flag.
        let of_file = |name: &str| match total {
            Some(_) => None,
            None => self.lanes.get(name).map_or(Some(1), |lane| lane.attempts.value.or(Some(1))),
        };
        if !asked.is_empty() {
            let specs = asked.iter().map(|spec| LaneSpec {
                attempts: spec.attempts.or_else(|| of_file(&spec.name)),
                ..spec.clone()
            });
            return Ok((specs.collect(), total));
        }
        if !self.lane_names.is_empty() {
            let of = |name: &String| LaneSpec {
                name: name.clone(),
                model: None,
                attempts: of_file(name),
            };
            return Ok((self.lane_names.iter().map(of).collect(), total));
        }
        Ok((self.default_specs()?, total.or(Some(DEFAULT_ATTEMPTS))))
    }

    fn default_specs(&self) -> Result<Vec<LaneSpec>, ConfigError> {
        let specs: Vec<LaneSpec> = self
            .default_models()
            .into_iter()
            .enumerate()
            .map(|(index, model)| LaneSpec {
                name: default_name(&model, index),
                model: Some(model),
                attempts: None,
            })
            .collect();
        if specs.is_empty() { Err(self.no_model()) } else { Ok(specs) }
    }

    /// The models that can be asked when nobody named one: with one provider ready its default
    /// models, with several the first of each, so that the voices are independent.
    pub fn default_models(&self) -> Vec<ModelRef> {
        let ready: Vec<&ProviderConfig> = providers::by_preference(&self.providers)
            .into_iter()
            .filter(|each| each.is_ready() && !each.default_models.value.is_empty())
            .collect();
        let per_provider = if ready.len() == 1 { usize::MAX } else { 1 };
        ready.iter().flat_map(|each| models_of(each, per_provider)).collect()
    }

    fn no_model(&self) -> ConfigError {
        let names: Vec<String> = self
            .providers
            .values()
            .filter_map(|each| each.key_env.value.as_ref().map(|name| format!("${name}")))
            .collect();
        ConfigError::NoModel(format!(
            "no model can be asked: set one of {}, or name a lane on a server that needs no key, for \
             example --lane local=ollama:MODEL",
            names.join(", ")
        ))
    }

    fn check_names(&self, specs: &[LaneSpec]) -> Result<(), ConfigError> {
        let mut seen = BTreeSet::new();
        for spec in specs {
            if !seen.insert(spec.name.as_str()) {
                let message = format!("lane `{}` is named twice; names are unique", spec.name);
                return Err(ConfigError::Lane(message));
            }
            if spec.model.is_none() && !self.lanes.contains_key(&spec.name) {
                return Err(self.unknown_lane(&spec.name));
            }
        }
        Ok(())
    }

    fn unknown_lane(&self, name: &str) -> ConfigError {
        let known: Vec<&str> = self.lanes.keys().map(String::as_str).collect();
        let what = match known.as_slice() {
            [] => "the config defines no lanes".to_owned(),
            names => suggest::advice(name, names),
        };
        ConfigError::Lane(format!(
            "unknown lane `{name}` ({what}); a new lane is written {name}=PROVIDER:MODEL[:COUNT]"
        ))
    }

    fn lane(&self, spec: &LaneSpec, attempts: u32) -> Result<Lane, ConfigError> {
        let own = self.lanes.get(&spec.name).cloned().unwrap_or_default();
        let model = spec
            .model
            .clone()
            .or(own.model.value)
            .or_else(|| self.default_models().into_iter().next())
            .ok_or_else(|| self.no_model())?;
        let provider = self.provider(&model.provider)?;
        if let Some(missing) = provider.missing_key() {
            return Err(ConfigError::NoModel(format!("lane `{}`: {missing}", spec.name)));
        }
        for fallback in &own.fallback.value {
            if let Some(missing) = self.provider(&fallback.provider)?.missing_key() {
                let lane = &spec.name;
                return Err(ConfigError::NoModel(format!("lane `{lane}`, fallback: {missing}")));
            }
        }
        let family =
            own.family.value.unwrap_or_else(|| providers::maker(&model.provider, &model.model));
        Ok(Lane {
            name: spec.name.clone(),
            model,
            attempts,
            family: Family::new(family),
            temperature: own.temperature.value,
            fallback: own.fallback.value,
            limits: own.limits.over(&self.limits),
        })
    }
}

fn models_of(provider: &ProviderConfig, most: usize) -> Vec<ModelRef> {
    let of = |model: &String| ModelRef { provider: provider.name.clone(), model: model.clone() };
    provider.default_models.value.iter().take(most).map(of).collect()
}

/// A readable name that no other default lane has.
fn default_name(model: &ModelRef, index: usize) -> String {
    let short = model.model.rsplit('/').next().unwrap_or(&model.model);
    let clean: String = short
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' })
        .take(34)
        .collect();
    if is_lane_name(&clean) {
        format!("{clean}-{}", index + 1)
    } else {
        format!("lane-{}", index + 1)
    }
}

/// How many worker runs each lane makes: its own count, else an even share of `total`, else 1.
fn deal(specs: &[LaneSpec], total: Option<u32>) -> Vec<u32> {
    let open = specs.iter().filter(|spec| spec.attempts.is_none()).count() as u32;
    let stated: u32 = specs.iter().filter_map(|spec| spec.attempts).fold(0, u32::saturating_add);
    let share = total.map(|total| total.saturating_sub(stated));
    let mut dealt = 0;
    specs
        .iter()
        .map(|spec| match (spec.attempts, share) {
            (Some(own), _) => own,
            (None, None) => 1,
            (None, Some(share)) => {
                dealt += 1;
                share / open + u32::from(dealt <= share % open)
            }
        })
        .collect()
}
