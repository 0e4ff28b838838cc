//! Model servers: the built-in ones, those of the config, and where a key comes from.
//!
//! A key is only ever read from the environment variable that `key_env` names. It lives in a
//! `SecretString`, whose `Debug` never shows it, and is never written anywhere.

use std::collections::BTreeMap;
use std::path::PathBuf;

use secrecy::SecretString;

use super::endpoint::RequestSettings;
use super::setting::Setting;
use crate::model::{Origin, Wire, address};

/// The date as of which the built-in model names were chosen. They are a convenience, taken from the
/// public price table of that day and not tried live: `default_models` and `--lane` override them.
pub const DEFAULT_MODELS_AS_OF: &str = "2026-11-30";

/// What a model costs, in US dollars per million tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Input tokens.
    pub input: f64,
    /// Output tokens.
    pub output: f64,
    /// Input tokens read from the server's cache; as `input` when absent.
    pub cache_read: Option<f64>,
    /// Input tokens written to the server's cache; as `input` when absent.
    pub cache_write: Option<f64>,
}

/// A model server.
#[derive(Clone, Debug)]
pub struct ProviderConfig {
    /// Its name, as lanes say it.
    pub name: String,
    /// Its dialect.
    pub wire: Setting<Wire>,
    /// Its address, empty for a script.
    pub base_url: Setting<String>,
    /// The environment variable that holds its key; `None` when it needs none.
    pub key_env: Setting<Option<String>>,
    /// The key, when that variable is set.
    pub key: Option<SecretString>,
    /// Models for lanes that name none, best first.
    pub default_models: Setting<Vec<String>>,
    /// Prices of its models, where the operator states them.
    pub prices: BTreeMap<String, Price>,
    /// The script of a scripted provider.
    pub script: Setting<Option<PathBuf>>,
    /// What its requests carry, and how long they may take.
    pub request: RequestSettings,
}

impl ProviderConfig {
    /// A provider that nothing is known of yet.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            wire: Setting::default_of(Wire::OpenaiChat),
            base_url: Setting::default(),
            key_env: Setting::default(),
            key: None,
            default_models: Setting::default(),
            prices: BTreeMap::new(),
            script: Setting::default(),
            request: RequestSettings::default(),
        }
    }

    /// A scripted provider: a data file answers, and no server is asked.
    pub fn scripted(name: &str, script: PathBuf) -> Self {
        Self {
            wire: Setting::default_of(Wire::Scripted),
            script: Setting::default_of(Some(script)),
            ..Self::new(name)
        }
    }

    /// Whether it can be asked: it has its key, or needs none, and what its headers need.
    pub fn is_ready(&self) -> bool {
        self.missing_key().is_none()
    }

    /// Its address without what may be a secret in it: user and password, and what a query's fields hold. For a script
    /// the path of its file.
    pub fn shown_address(&self) -> String {
        match &self.script.value {
            Some(script) => script.to_string_lossy().into_owned(),
            None => address::shown(&self.base_url.value),
        }
    }

    /// What of its address may be a secret, as it is written there and as it is read.
    pub fn address_secrets(&self) -> Vec<String> {
        address::secrets(&self.base_url.value)
    }

    /// What to do so that it can be asked, when it can't.
    pub fn missing_key(&self) -> Option<String> {
        let Some(name) = self.key_env.value.as_ref().filter(|_| self.key.is_none()) else {
            return self.missing_header();
        };
        Some(format!(
            "provider `{}` has no key: set ${name}, or `key_env` in [providers.{}] of config.toml",
            self.name, self.name
        ))
    }

    fn missing_header(&self) -> Option<String> {
        let header = self.request.missing()?;
        let variable = header.env.as_deref().unwrap_or_default();
        Some(format!(
            "provider `{}` has no value for its header {}: set ${variable}, or \
             `headers` in [providers.{}] of config.toml",
            self.name, header.name, self.name
        ))
    }
}

struct BuiltIn {
    name: &'static str,
    wire: Wire,
    base_url: &'static str,
    key_env: Option<&'static str>,
    url_env: Option<&'static str>,
    models: &'static [&'static str],
}

/// Loopback addresses are the ones that each server's own documentation gives as its default.
const BUILT_IN: [BuiltIn; 7] = [
    BuiltIn {
        name: "openai",
        wire: Wire::OpenaiChat,
        base_url: "https://api.openai.com/v1",
        key_env: Some("OPENAI_API_KEY"),
        url_env: Some("OPENAI_BASE_URL"),
        models: &["gpt-6.1-sol", "gpt-6.1-terra"],
    },
    BuiltIn {
        name: "anthropic",
        wire: Wire::Anthropic,
        base_url: "https://api.anthropic.com",
        key_env: Some("ANTHROPIC_API_KEY"),
        url_env: Some("ANTHROPIC_BASE_URL"),
        models: &["claude-sonnet-5-5", "claude-opus-5-5"],
    },
    BuiltIn {
        name: "openrouter",
        wire: Wire::OpenaiChat,
        base_url: "https://openrouter.ai/api/v1",
        key_env: Some("OPENROUTER_API_KEY"),
        url_env: None,
        models: &["anthropic/claude-sonnet-5.5", "openai/gpt-6.1-sol"],
    },
    BuiltIn::local("ollama", "http://127.0.0.1:11434/v1"),
    BuiltIn::local("llamacpp", "http://127.0.0.1:8080/v1"),
    BuiltIn::local("vllm", "http://127.0.0.1:8000/v1"),
    BuiltIn::local("litellm", "http://127.0.0.1:4000/v1"),
];

impl BuiltIn {
    const fn local(name: &'static str, base_url: &'static str) -> Self {
        Self { name, wire: Wire::OpenaiChat, base_url, key_env: None, url_env: None, models: &[] }
    }

    fn config(&self) -> ProviderConfig {
        ProviderConfig {
            wire: Setting::default_of(self.wire),
            base_url: Setting::default_of(self.base_url.to_owned()),
            key_env: Setting::default_of(self.key_env.map(str::to_owned)),
            default_models: Setting::default_of(
                self.models.iter().map(|name| (*name).to_owned()).collect(),
            ),
            ..ProviderConfig::new(self.name)
        }
    }
}

/// The built-in providers by name.
pub fn built_in() -> BTreeMap<String, ProviderConfig> {
    BUILT_IN.iter().map(|each| (each.name.to_owned(), each.config())).collect()
}

/// The order in which providers are looked at when nothing says which to use: the built-in ones in
/// their order, then the config's own by name.
pub fn by_preference(all: &BTreeMap<String, ProviderConfig>) -> Vec<&ProviderConfig> {
    let known = BUILT_IN.iter().filter_map(|each| all.get(each.name));
    let own = all.values().filter(|each| BUILT_IN.iter().all(|known| known.name != each.name));
    known.chain(own).collect()
}

/// Takes addresses and keys from the environment.
pub fn read_environment(
    all: &mut BTreeMap<String, ProviderConfig>,
    env: &dyn Fn(&str) -> Option<String>,
) {
    let filled = |name: &str| env(name).map(|v| v.trim().to_owned()).filter(|v| !v.is_empty());
    for known in &BUILT_IN {
        let (Some(name), Some(provider)) = (known.url_env, all.get_mut(known.name)) else {
            continue;
        };
        if let Some(url) = filled(name) {
            let origin = Origin::Environment { name: name.to_owned() };
            provider.base_url = Setting { value: url.trim_end_matches('/').to_owned(), origin };
        }
    }
    for provider in all.values_mut() {
        let key = provider.key_env.value.as_deref().and_then(filled);
        provider.key = key.map(SecretString::from);
        provider.request.read_environment(&filled);
    }
}

/// Who made a model, so that two servers of one model are one family: known names, else the vendor
/// before a `/`, else the provider.
pub fn maker(provider: &str, model: &str) -> String {
    const MAKERS: [(&str, &str); 19] = [
        ("gpt", "openai"),
        ("o1", "openai"),
        ("o3", "openai"),
        ("o4", "openai"),
        ("codex", "openai"),
        ("claude", "anthropic"),
        ("gemini", "google"),
        ("gemma", "google"),
        ("qwen", "qwen"),
        ("qwq", "qwen"),
        ("llama", "meta"),
        ("codellama", "meta"),
        ("mistral", "mistral"),
        ("mixtral", "mistral"),
        ("codestral", "mistral"),
        ("devstral", "mistral"),
        ("deepseek", "deepseek"),
        ("grok", "xai"),
        ("phi", "microsoft"),
    ];
    let short = model.rsplit('/').next().unwrap_or(model).to_lowercase();
    let known = MAKERS.iter().find(|(prefix, _)| short.starts_with(prefix));
    match (known, model.split_once('/')) {
        (Some((_, maker)), _) => (*maker).to_owned(),
        (None, Some((vendor, _))) if !vendor.is_empty() => vendor.to_lowercase(),
        _ => provider.to_owned(),
    }
}
