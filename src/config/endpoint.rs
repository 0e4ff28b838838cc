//! What the requests to a provider carry beside the conversation, and how long they may take:
//! `headers`, `body`, `deadlines` and `output_limit` of `[providers.NAME]`.
//!
//! A header's value that is written as `$NAME` comes from the environment variable of that name, so that
//! no secret has to stand in a file. Every value is held as a secret and never printed.

use secrecy::SecretString;
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::reader::{Layer, dotted};
use super::{Setting, convert};

/// The keys of a provider that are read here.
pub(super) const KEYS: [&str; 4] = ["headers", "body", "deadlines", "output_limit"];
const DEADLINES: [&str; 4] = ["connect", "first_byte", "idle", "whole"];
/// The longest deadline, in seconds: a day.
const LONGEST: u64 = 24 * 3600;

/// Which field tells an OpenAI chat server how long the answer may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputLimit {
    /// What the server is known to want, and the other one once it has said so.
    #[default]
    Auto,
    /// Always `max_tokens`.
    MaxTokens,
    /// Always `max_completion_tokens`.
    MaxCompletionTokens,
}

/// How long the calls of a provider may take, in seconds; what nobody set is the engine's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeadlineSettings {
    /// Until a connection stands.
    pub connect: Setting<Option<u64>>,
    /// Until the first byte of the answer.
    pub first_byte: Setting<Option<u64>>,
    /// Between two pieces of the answer.
    pub idle: Setting<Option<u64>>,
    /// The whole call.
    pub whole: Setting<Option<u64>>,
}

/// A header that every request carries. Its `Debug` shows no value.
#[derive(Clone, Debug)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// The environment variable that holds its value, when the config names one.
    pub env: Option<String>,
    /// Its value; `None` when the variable is not set.
    pub value: Option<SecretString>,
}

/// What requests carry, and how long they may take.
#[derive(Clone, Debug, Default)]
pub struct RequestSettings {
    /// Headers in addition to the engine's own, by name.
    pub headers: Vec<Header>,
    /// Fields of the body in addition to the engine's own.
    pub body: Setting<Map<String, Value>>,
    /// How long calls may take.
    pub deadlines: DeadlineSettings,
    /// How the largest answer is told.
    pub output_limit: Setting<OutputLimit>,
}

impl RequestSettings {
    pub(super) fn read(&mut self, layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) {
        layer.set(at, table, "body", &mut self.body, body);
        layer.set(at, table, "output_limit", &mut self.output_limit, output_limit);
        if let Some((_, value)) = table.get_key_value("headers") {
            let path = dotted(at, "headers");
            if let Some(headers) = layer.table(&path, value) {
                self.read_headers(layer, &path, headers);
            }
        }
        if let Some((_, value)) = table.get_key_value("deadlines") {
            let path = dotted(at, "deadlines");
            if let Some(deadlines) = layer.table(&path, value) {
                self.deadlines.read(layer, &path, deadlines);
            }
        }
    }

    fn read_headers(&mut self, layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) {
        for (key, value) in table.iter() {
            let name = key.get_ref().to_string();
            match header(&name, value.get_ref()) {
                Ok(header) => {
                    self.headers.retain(|known| !known.name.eq_ignore_ascii_case(&name));
                    self.headers.push(header);
                }
                Err(wanted) => layer.secret_wrong(value, &dotted(at, &name), "a header", wanted),
            }
        }
    }

    /// Takes the values of headers from the environment.
    pub(super) fn read_environment(&mut self, filled: &dyn Fn(&str) -> Option<String>) {
        for header in &mut self.headers {
            if let Some(name) = &header.env {
                header.value = filled(name).map(SecretString::from);
            }
        }
    }

    /// The first header whose variable is not set.
    pub(super) fn missing(&self) -> Option<&Header> {
        self.headers.iter().find(|header| header.value.is_none())
    }

    /// What was set, for a person: names of headers and fields, never a header's value.
    pub fn described(&self) -> Vec<String> {
        let mut said = Vec::new();
        let names = |names: Vec<&str>| names.join(", ");
        if !self.headers.is_empty() {
            let all = self.headers.iter().map(|header| header.name.as_str()).collect();
            said.push(format!("headers {} (values hidden)", names(all)));
        }
        if !self.body.value.is_empty() {
            let all = self.body.value.keys().map(String::as_str).collect();
            said.push(format!("body fields {}", names(all)));
        }
        let deadlines = self.deadlines.described();
        if !deadlines.is_empty() {
            said.push(format!("deadlines {}", deadlines.join(", ")));
        }
        match self.output_limit.value {
            OutputLimit::Auto => {}
            OutputLimit::MaxTokens => said.push("answers limited by max_tokens".to_owned()),
            OutputLimit::MaxCompletionTokens => {
                said.push("answers limited by max_completion_tokens".to_owned());
            }
        }
        said
    }
}

impl DeadlineSettings {
    fn read(&mut self, layer: &mut Layer<'_>, at: &str, table: &DeTable<'_>) {
        layer.unknown(at, table, &DEADLINES);
        for (key, setting) in DEADLINES.iter().zip(self.all_mut()) {
            layer.set(at, table, key, setting, seconds);
        }
    }

    fn all_mut(&mut self) -> [&mut Setting<Option<u64>>; 4] {
        [&mut self.connect, &mut self.first_byte, &mut self.idle, &mut self.whole]
    }

    fn described(&self) -> Vec<String> {
        let all = [&self.connect, &self.first_byte, &self.idle, &self.whole];
        let set = DEADLINES.iter().zip(all).filter_map(|(name, setting)| {
            let seconds = setting.value?;
            Some(format!("{} {seconds} s", name.replace('_', " ")))
        });
        set.collect()
    }
}

fn seconds(value: &DeValue<'_>) -> Result<Option<u64>, String> {
    let wanted = || format!("whole seconds from 1 to {LONGEST}");
    convert::positive(value).ok().filter(|n| *n <= LONGEST).map(Some).ok_or_else(wanted)
}

fn output_limit(value: &DeValue<'_>) -> Result<OutputLimit, String> {
    match value.as_str() {
        Some("auto") => Ok(OutputLimit::Auto),
        Some("max_tokens") => Ok(OutputLimit::MaxTokens),
        Some("max_completion_tokens") => Ok(OutputLimit::MaxCompletionTokens),
        _ => Err("\"auto\", \"max_tokens\" or \"max_completion_tokens\"".to_owned()),
    }
}

fn header(name: &str, value: &DeValue<'_>) -> Result<Header, &'static str> {
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !is_name {
        return Err("a name of letters, digits and dashes");
    }
    let text = value.as_str().map(str::trim).filter(|text| !text.is_empty());
    let text = text.filter(|text| !text.chars().any(char::is_control));
    let text = text.ok_or("one line of text, or \"$NAME\" of an environment variable")?;
    let name = name.to_owned();
    match text.strip_prefix('$') {
        None => Ok(Header { name, env: None, value: Some(text.to_owned().into()) }),
        Some(variable) if is_variable(variable) => {
            Ok(Header { name, env: Some(variable.to_owned()), value: None })
        }
        Some(_) => Err("one line of text, or \"$NAME\" of an environment variable"),
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn body(value: &DeValue<'_>) -> Result<Map<String, Value>, String> {
    match json(value) {
        Some(Value::Object(fields)) => Ok(fields),
        _ => Err("a table of fields that JSON can hold".to_owned()),
    }
}

/// The same as JSON; `None` for what JSON lacks (dates, infinite numbers).
fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Boolean(truth) => Value::Bool(*truth),
        DeValue::Integer(number) => {
            Value::from(i64::from_str_radix(number.as_str(), number.radix()).ok()?)
        }
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Array(all) => {
            Value::Array(all.iter().map(|each| json(each.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(table) => {
            let field = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
                let key: &std::borrow::Cow<'_, str> = key.get_ref();
                Some((key.to_string(), json(value.get_ref())?))
            };
            Value::Object(table.iter().map(field).collect::<Option<_>>()?)
        }
        DeValue::Datetime(_) => return None,
    })
}
