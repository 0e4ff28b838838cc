//! Reads the files and the environment, in their order, into a [`Config`].

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Problem};
use super::reader::{Convert, Layer, dotted};
use super::{
    Config, GateSettings, JudgeSettings, LaneConfig, LimitSettings, PatchSettings, Price,
    ProviderConfig, Setting, Sources, convert, lane, providers,
};
use crate::model::{JudgeId, Origin, Wire};

const SECTIONS: [&str; 13] = [
    "gates",
    "patch",
    "lanes",
    "judges",
    "duels",
    "design",
    "limits",
    "providers",
    "tools",
    "workers",
    "workspace",
    "cache",
    "side",
];
const GATES: [&str; 15] = [
    "check",
    "test",
    "setup",
    "setup_network",
    "dir",
    "env",
    "timeout_seconds",
    "parallel",
    "memory_mb",
    "disk_mb",
    "carry",
    "flaky",
    "strict_tests",
    "own_tests",
    "protect",
];
const PATCH: [&str; 5] = ["links", "submodules", "binary", "max_mb", "max_lines"];
const LANE: [&str; 5] = ["model", "attempts", "temperature", "family", "fallback"];
const JUDGES: [&str; 7] =
    ["enabled", "use", "models", "synth", "finalists", "skeptics", "fix_rounds"];
const LIMITS: [&str; 11] = [
    "max_parallel",
    "enough",
    "budget_usd",
    "max_tokens",
    "max_turns",
    "max_seconds",
    "max_tool_iterations",
    "max_turn_seconds",
    "lane_budget_usd",
    "lane_tokens",
    "max_output_tokens",
];
const PROVIDER: [&str; 6] = ["wire", "base_url", "key_env", "default_models", "prices", "script"];
const PRICE: [&str; 4] = ["input", "output", "cache_read", "cache_write"];

/// The repository's file, as messages name it.
const REPOSITORY_FILE: &str = "bakeoff.toml";

impl Config {
    /// Loads every layer below the flags; flags are then put in with [`Setting::flag`].
    ///
    /// # Errors
    /// A [`ConfigError`] that lists every problem of the first file that has any.
    pub fn load(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        if let Some((path, text)) = &sources.user {
            config.read_file(&path.to_string_lossy(), text, Origin::User, false)?;
        }
        if let Some(text) = &sources.repository {
            config.read_file(REPOSITORY_FILE, text, Origin::Repository, !sources.trusted)?;
        }
        config.read_environment(sources.env)?;
        Ok(config)
    }

    fn read_file(
        &mut self,
        place: &str,
        text: &str,
        origin: Origin,
        restricted: bool,
    ) -> Result<(), ConfigError> {
        let document = DeTable::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = format!("not valid TOML: {}", error.message());
            let help = "mend this line; `bakeoff init` writes a whole example";
            ConfigError::Invalid(vec![Problem::in_file(place, text, span, "", message, help)])
        })?;
        let mut layer = Layer::new(place, text, origin, restricted);
        self.sections(&mut layer, document.get_ref());
        let (problems, refused) = layer.finish();
        match (problems.is_empty(), refused.is_empty()) {
            (false, _) => Err(ConfigError::Invalid(problems)),
            (true, false) => Err(ConfigError::NotTrusted(refused)),
            (true, true) => Ok(()),
        }
    }

    fn sections(&mut self, layer: &mut Layer<'_>, document: &DeTable<'_>) {
        layer.unknown("", document, &SECTIONS);
        for (name, value) in document.iter() {
            let name = name.get_ref().as_ref();
            if !SECTIONS.contains(&name) {
                continue;
            }
            let Some(table) = layer.table(name, value) else { continue };
            match name {
                "gates" => self.gates.read(layer, table),
                "patch" => self.patch.read(layer, table),
                "judges" => self.judges.read(layer, table),
                "duels" => self.duels.read(layer, table),
                "design" => self.design.read(layer, table),
                "limits" => self.limits.read(layer, table),
                "workers" => self.workers.read(layer, table),
                "workspace" => self.workspace.read(layer, table),
                "cache" => self.cache.read(layer, table),
                "side" => self.side.read(layer, table),
                "lanes" => self.read_lanes(layer, table),
                "providers" => self.read_providers(layer, table),
                _ => self.read_tools(layer, table),
            }
        }
    }

    fn read_lanes(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let known: Vec<String> = self.lanes.keys().cloned().collect();
        let mut named = Vec::new();
        for (key, value) in table.iter() {
            let name = key.get_ref().to_string();
            let path = dotted("lanes", &name);
            if !lane::is_lane_name(&name) {
                let help = "a name has 1 to 40 letters, digits, `-`, `_` or `.`";
                layer.problem(
                    key.span(),
                    &path,
                    format!("bad lane name `{name}`"),
                    help.to_owned(),
                );
                continue;
            }
            let Some(lane) = layer.table(&path, value) else { continue };
            if layer.restricted && !known.contains(&name) {
                layer.refuse(
                    key.span(),
                    &path,
                    "the operator's config.toml has no lane of that name",
                );
            }
            self.lanes.entry(name.clone()).or_default().read(layer, &path, lane);
            named.push(name);
        }
        if !named.is_empty() {
            self.lane_names = named;
        }
    }

    fn read_providers(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let name = key.get_ref().to_string();
            let path = dotted("providers", &name);
            if name.contains(':') || name.trim().is_empty() {
                let help = "lanes write PROVIDER:MODEL, so a name has no colon".to_owned();
                layer.problem(key.span(), &path, format!("bad provider name `{name}`"), help);
                continue;
            }
            let Some(inner) = layer.table(&path, value) else { continue };
            if layer.restricted {
                layer.refuse(key.span(), &path, "it names a server and a key that goes there");
                continue;
            }
            let provider =
                self.providers.entry(name.clone()).or_insert_with(|| ProviderConfig::new(&name));
            provider.read(layer, &path, inner);
            if let Some((message, help)) = provider.incomplete() {
                layer.problem(key.span(), &path, message, help);
            }
        }
    }

    fn read_tools(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        for key in table.keys() {
            let name = key.get_ref().to_string();
            let mut setting = Setting::default_of(true);
            layer.set("tools", table, &name, &mut setting, convert::truth);
            if setting.is_set() {
                self.tools.insert(name, setting);
            }
        }
    }

    fn read_environment(
        &mut self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Result<(), ConfigError> {
        providers::read_environment(&mut self.providers, env);
        let mut layer = Environment { env, problems: Vec::new() };
        self.gates.environment(&mut layer);
        self.patch.environment(&mut layer);
        self.judges.environment(&mut layer);
        self.duels.environment(&mut layer);
        self.design.environment(&mut layer);
        self.limits.environment(&mut layer);
        self.workers.environment(&mut layer);
        self.workspace.environment(&mut layer);
        self.cache.environment(&mut layer);
        self.side.environment(&mut layer);
        if layer.problems.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(layer.problems)) }
    }
}

/// The environment as a layer: `section.key` is `$BAKEOFF_SECTION_KEY`.
pub(super) struct Environment<'a> {
    env: &'a dyn Fn(&str) -> Option<String>,
    problems: Vec<Problem>,
}

impl Environment<'_> {
    /// Reads the variable as a text, and where no text belongs, as a TOML value.
    pub(super) fn set<T>(&mut self, path: &str, setting: &mut Setting<T>, convert: Convert<T>) {
        let name = format!("BAKEOFF_{}", path.replace('.', "_").to_uppercase());
        let Some(raw) = (self.env)(&name).filter(|raw| !raw.is_empty()) else { return };
        let text = DeValue::String(raw.as_str().into());
        let read = convert(&text).or_else(|wanted| match DeValue::parse(&raw) {
            Ok(value) => convert(value.get_ref()),
            Err(_) => Err(wanted),
        });
        match read {
            Ok(value) => *setting = Setting { value, origin: Origin::Environment { name } },
            Err(wanted) => {
                let message = format!("the value {:?} is not right", super::cut(&raw, 40));
                self.problems.push(Problem::in_env(
                    &name,
                    path,
                    message,
                    format!("it takes {wanted}"),
                ));
            }
        }
    }
}

impl GateSettings {
    fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let at = "gates";
        layer.unknown(at, table, &GATES);
        layer.set(at, table, "check", &mut self.check, convert::optional_text);
        layer.set(at, table, "test", &mut self.test, convert::optional_text);
        layer.set(at, table, "setup", &mut self.setup, convert::optional_text);
        layer.set(at, table, "setup_network", &mut self.setup_network, convert::truth);
        layer.set(at, table, "dir", &mut self.dir, convert::inner_dir);
        layer.set(at, table, "env", &mut self.env, convert::env_names);
        layer.set(at, table, "timeout_seconds", &mut self.timeout_seconds, convert::positive);
        layer.set(at, table, "parallel", &mut self.parallel, convert::positive32);
        layer.set(at, table, "memory_mb", &mut self.memory_mb, convert::memory);
        layer.set(at, table, "disk_mb", &mut self.disk_mb, convert::disk);
        layer.set(at, table, "carry", &mut self.carry, convert::inner_paths);
        layer.set(at, table, "flaky", &mut self.flaky, convert::few);
        layer.set(at, table, "strict_tests", &mut self.strict_tests, convert::truth);
        layer.set(at, table, "own_tests", &mut self.own_tests, convert::truth);
        layer.set(at, table, "protect", &mut self.protect, convert::patterns);
    }

    fn environment(&mut self, layer: &mut Environment<'_>) {
        layer.set("gates.check", &mut self.check, convert::optional_text);
        layer.set("gates.test", &mut self.test, convert::optional_text);
        layer.set("gates.setup", &mut self.setup, convert::optional_text);
        layer.set("gates.setup_network", &mut self.setup_network, convert::truth);
        layer.set("gates.dir", &mut self.dir, convert::inner_dir);
        layer.set("gates.env", &mut self.env, convert::env_names);
        layer.set("gates.timeout_seconds", &mut self.timeout_seconds, convert::positive);
        layer.set("gates.parallel", &mut self.parallel, convert::positive32);
        layer.set("gates.memory_mb", &mut self.memory_mb, convert::memory);
        layer.set("gates.disk_mb", &mut self.disk_mb, convert::disk);
        layer.set("gates.carry", &mut self.carry, convert::inner_paths);
        layer.set("gates.flaky", &mut self.flaky, convert::few);
        layer.set("gates.strict_tests", &mut self.strict_tests, convert::truth);
        layer.set("gates.own_tests", &mut self.own_tests, convert::truth);
        layer.set("gates.protect", &mut self.protect, convert::patterns);
    }
}

impl PatchSettings {
    fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let at = "patch";
        layer.unknown(at, table, &PATCH);
        layer.set(at, table, "links", &mut self.links, convert::truth);
        layer.set(at, table, "submodules", &mut self.submodules, convert::truth);
        layer.set(at, table, "binary", &mut self.binary, convert::truth);
        layer.set(at, table, "max_mb", &mut self.max_mb, convert::diff_size);
        layer.set(at, table, "max_lines", &mut self.max_lines, convert::positive32);
    }

    fn environment(&mut self, layer: &mut Environment<'_>) {
        layer.set("patch.links", &mut self.links, convert::truth);
        layer.set("patch.submodules", &mut self.submodules, convert::truth);
        layer.set("patch.binary", &mut self.binary, convert::truth);
        layer.set("patch.max_mb", &mut self.max_mb, convert::diff_size);
        layer.set("patch.max_lines", &mut self.max_lines, convert::positive32);
    }
}

impl JudgeSettings {
    fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let at = "judges";
        layer.unknown(at, table, &JUDGES);
        layer.set(at, table, "enabled", &mut self.enabled, convert::truth);
        layer.set(at, table, "use", &mut self.use_, judge_ids);
        layer.set(at, table, "models", &mut self.models, convert::models);
        layer.set(at, table, "synth", &mut self.synth, convert::model);
        layer.set(at, table, "finalists", &mut self.finalists, convert::positive32);
        layer.set(at, table, "skeptics", &mut self.skeptics, convert::truth);
        layer.set(at, table, "fix_rounds", &mut self.fix_rounds, convert::few);
    }

    fn environment(&mut self, layer: &mut Environment<'_>) {
        layer.set("judges.enabled", &mut self.enabled, convert::truth);
        layer.set("judges.use", &mut self.use_, judge_ids);
        layer.set("judges.models", &mut self.models, convert::models);
        layer.set("judges.synth", &mut self.synth, convert::model);
        layer.set("judges.finalists", &mut self.finalists, convert::positive32);
        layer.set("judges.skeptics", &mut self.skeptics, convert::truth);
        layer.set("judges.fix_rounds", &mut self.fix_rounds, convert::few);
    }
}

impl LimitSettings {
    fn read(&mut self, layer: &mut Layer<'_>, table: &DeTable<'_>) {
        let at = "limits";
        layer.unknown(at, table, &LIMITS);
        layer.set(at, table, "max_parallel", &mut self.max_parallel, convert::positive32);
        layer.set(at, table, "enough", &mut self.enough, convert::limit32);
        layer.set(at, table, "budget_usd", &mut self.budget, convert::budget);
        layer.set(at, table, "max_tokens", &mut self.max_tokens, convert::limit);
        layer.set(at, table, "max_turns", &mut self.max_turns, convert::limit);
        layer.set(at, table, "max_seconds", &mut self.max_seconds, convert::limit);
        layer.set(
            at,
            table,
            "max_tool_iterations",
            &mut self.max_tool_iterations,
            convert::positive32,
        );
        layer.set(at, table, "max_turn_seconds", &mut self.max_turn_seconds, convert::limit);
        layer.set(at, table, "lane_budget_usd", &mut self.lane_budget, convert::budget);
        layer.set(at, table, "lane_tokens", &mut self.lane_tokens, convert::limit);
        layer.set(at, table, "max_output_tokens", &mut self.max_output_tokens, convert::positive32);
    }

    fn environment(&mut self, layer: &mut Environment<'_>) {
        layer.set("limits.max_parallel", &mut self.max_parallel, convert::positive32);
        layer.set("limits.enough", &mut self.enough, convert::limit32);
        layer.set("limits.budget_usd", &mut self.budget, convert::budget);
        layer.set("limits.max_tokens", &mut self.max_tokens, convert::limit);
        layer.set("limits.max_turns", &mut self.max_turns, convert::limit);
        layer.set("limits.max_seconds", &mut self.max_seconds, convert::limit);
        layer.set("limits.max_tool_iterations", &mut self.max_tool_iterations, convert::positive32);
        layer.set("limits.max_turn_seconds", &mut self.max_turn_seconds, convert::limit);
        layer.set("limits.lane_budget_usd", &mut self.lane_budget, convert::budget);
        layer.set("limits.lane_tokens", &mut self.lane_tokens, convert::limit);
        layer.set("limits.max_output_tokens", &mut self.max_output_tokens, convert::positive32);
    }
}

impl LaneConfig {
    fn read(&mut self, layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) {
        let known: Vec<&str> = LANE.iter().chain(&super::lane_limits::KEYS).copied().collect();
        layer.unknown(at, table, &known);
        self.limits.read(layer, at, table);
        layer.set(at, table, "model", &mut self.model, convert::model);
        layer.set(at, table, "attempts", &mut self.attempts, attempts);
        layer.set(at, table, "temperature", &mut self.temperature, convert::temperature);
        layer.set(at, table, "family", &mut self.family, convert::optional_text);
        layer.set(at, table, "fallback", &mut self.fallback, convert::models);
    }
}

impl ProviderConfig {
    fn read(&mut self, layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) {
        let known: Vec<&str> = PROVIDER.iter().chain(&super::endpoint::KEYS).copied().collect();
        layer.unknown(at, table, &known);
        self.request.read(layer, at, table);
        layer.set(at, table, "wire", &mut self.wire, convert::wire);
        layer.set(at, table, "base_url", &mut self.base_url, convert::url);
        layer.set(at, table, "key_env", &mut self.key_env, key_env);
        layer.set(at, table, "default_models", &mut self.default_models, convert::texts);
        layer.set(at, table, "script", &mut self.script, |value| {
            convert::text(value).map(|path| Some(path.into()))
        });
        if let Some((_, value)) = table.get_key_value("prices") {
            let path = dotted(at, "prices");
            if let Some(prices) = layer.table(&path, value) {
                self.prices.extend(read_prices(layer, &path, prices));
            }
        }
    }

    /// What a provider of the config lacks, and how to add it.
    fn incomplete(&self) -> Option<(String, String)> {
        let lacks = |key: &str| format!("provider `{}` has no `{key}`", self.name);
        match self.wire.value {
            Wire::Scripted if self.script.value.is_none() => {
                Some((lacks("script"), "add script = \"PATH\" of its data file".to_owned()))
            }
            Wire::OpenaiChat | Wire::OpenaiResponses | Wire::Anthropic
                if self.base_url.value.is_empty() =>
            {
                Some((lacks("base_url"), "add base_url = \"http://HOST:PORT/v1\"".to_owned()))
            }
            _ => None,
        }
    }
}

fn read_prices(layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) -> BTreeMap<String, Price> {
    let mut prices = BTreeMap::new();
    for (model, value) in table.iter() {
        let path = dotted(at, model.get_ref());
        let Some(inner) = layer.table(&path, value) else { continue };
        layer.unknown(&path, inner, &PRICE);
        let mut read = [const { Setting { value: None, origin: Origin::Default } }; 4];
        for (key, setting) in PRICE.iter().zip(&mut read) {
            layer.set(&path, inner, key, setting, |value| convert::dollars(value).map(Some));
        }
        let [input, output, cache_read, cache_write] = read.map(|setting| setting.value);
        match (input, output) {
            (Some(input), Some(output)) => {
                prices.insert(
                    model.get_ref().to_string(),
                    Price { input, output, cache_read, cache_write },
                );
            }
            _ => layer.problem(
                model.span(),
                &path,
                format!("`{path}` lacks a price"),
                "write { input = …, output = … } in US dollars per million tokens".to_owned(),
            ),
        }
    }
    prices
}

fn judge_ids(value: &DeValue<'_>) -> Result<Vec<JudgeId>, String> {
    Ok(convert::texts(value)?.into_iter().map(JudgeId::new).collect())
}

fn attempts(value: &DeValue<'_>) -> Result<Option<u32>, String> {
    let wanted = || format!("a whole number from 1 to {}", lane::MAX_ATTEMPTS);
    match convert::positive32(value) {
        Ok(n) if n <= lane::MAX_ATTEMPTS => Ok(Some(n)),
        _ => Err(wanted()),
    }
}

/// The name of a variable, or an empty text for a server that needs no key. A key itself is refused.
fn key_env(value: &DeValue<'_>) -> Result<Option<String>, String> {
    let wanted = "the name of an environment variable, never the key itself";
    let name = convert::optional_text(value).map_err(|_| wanted)?;
    let is_name = |name: &String| {
        name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    match name {
        Some(name) if !is_name(&name) => Err(wanted.to_owned()),
        name => Ok(name),
    }
}
