//! The model servers of a plan, as a person may see them before they are asked: no secret is in it.

use serde::Serialize;
use serde_json::{Map, Value};

use super::models::{deadlines, provider_names};
use crate::config::{Config, OutputLimit, ProviderConfig};
use crate::journal::Masker;
use crate::model::{Plan, Wire};

/// What stands for a value that is not shown.
const HIDDEN: &str = "[hidden]";

/// A server, and what its requests carry beside the conversation.
#[derive(Clone, Debug, Serialize)]
pub struct ServerView {
    /// The provider's name.
    pub name: String,
    /// The dialect.
    pub wire: Wire,
    /// Its address, or the path of a script.
    pub address: String,
    /// The environment variable that its key comes from.
    pub key_env: Option<String>,
    /// The names of its headers, with the variable that each value comes from. Values are never shown.
    pub headers: Vec<HeaderView>,
    /// The fields that are added to every body.
    pub body: Map<String, Value>,
    /// How its calls are limited in time.
    pub deadlines: DeadlineView,
    /// The field that limits an answer, where the config names one.
    pub output_limit: Option<&'static str>,
}

/// A header without its value.
#[derive(Clone, Debug, Serialize)]
pub struct HeaderView {
    /// Its name.
    pub name: String,
    /// The environment variable that holds its value; absent where the config holds it.
    pub env: Option<String>,
}

/// Deadlines in seconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DeadlineView {
    /// Until a connection stands.
    pub connect: u64,
    /// Until the first byte of the answer.
    pub first_byte: u64,
    /// Between two pieces.
    pub idle: u64,
    /// The whole call.
    pub whole: u64,
}

/// The servers that a plan names, by name.
pub fn servers(plan: &Plan, config: &Config) -> Vec<ServerView> {
    let names = provider_names(plan);
    names.iter().filter_map(|name| config.providers.get(name)).map(view).collect()
}

fn view(provider: &ProviderConfig) -> ServerView {
    let settings = &provider.request;
    let deadlines = deadlines(&settings.deadlines);
    let mut body = settings.body.value.clone();
    body.iter_mut().for_each(|(name, value)| hide(name, value));
    let header = |header: &crate::config::Header| HeaderView {
        name: header.name.clone(),
        env: header.env.clone(),
    };
    ServerView {
        name: provider.name.clone(),
        wire: provider.wire.value,
        address: provider.shown_address(),
        key_env: provider.key_env.value.clone(),
        headers: settings.headers.iter().map(header).collect(),
        body,
        deadlines: DeadlineView {
            connect: deadlines.connect.as_secs(),
            first_byte: deadlines.first_byte.as_secs(),
            idle: deadlines.idle.as_secs(),
            whole: deadlines.whole.as_secs(),
        },
        output_limit: match settings.output_limit.value {
            OutputLimit::Auto => None,
            OutputLimit::MaxTokens => Some("max_tokens"),
            OutputLimit::MaxCompletionTokens => Some("max_completion_tokens"),
        },
    }
}

/// Takes out what a field's name says is a secret, at any depth.
fn hide(name: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| hide(name, value)),
        Value::Array(all) => all.iter_mut().for_each(|value| hide(name, value)),
        value if Masker::names_secret(&name.replace('-', "_")) => *value = HIDDEN.into(),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_named_a_secret_is_hidden_at_any_depth() {
        let mut body = json!({
            "max_tokens_hint": 5, "route": {"api-key": "abc", "order": ["a"]}, "tokens": [1],
            "auth_token": ["x", {"deep": 1}],
        });
        hide("body", &mut body);
        let want = json!({
            "max_tokens_hint": 5, "route": {"api-key": "[hidden]", "order": ["a"]}, "tokens": [1],
            "auth_token": ["[hidden]", {"deep": 1}],
        });
        assert_eq!(body, want);
    }
}
