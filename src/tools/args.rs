//! Arguments of tools: schemas for the model, and answers that say what is wrong with what it sent.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::ToolOutput;
use crate::model::chat::ToolSpec;

/// The specification of a tool whose arguments are `A`.
pub fn spec<A: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: schema::<A>(),
    }
}

/// The schema of `A`, whole and without references, as all wires take it.
fn schema<A: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft07();
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    schema.remove("description");
    schema.to_value()
}

/// Reads a tool's arguments.
///
/// # Errors
/// The answer to the model: which field is wrong, and the schema's shape.
pub fn parse<A: DeserializeOwned + JsonSchema>(
    name: &str,
    arguments: Value,
) -> Result<A, ToolOutput> {
    // A list would be read as the fields in their order.
    if !arguments.is_object() {
        return Err(wrong(name, "they are no object", &schema::<A>()));
    }
    serde_path_to_error::deserialize(arguments).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!(" at {path}") };
        wrong(name, &format!("{}{place}", plain(&error.inner().to_string())), &schema::<A>())
    })
}

/// What serde says, without the names of our own types.
fn plain(said: &str) -> String {
    const TYPES: [(&str, &str); 6] = [
        ("u64", "a whole number from 0 on"),
        ("u32", "a whole number from 0 on"),
        ("usize", "a whole number from 0 on"),
        ("i64", "a whole number"),
        ("f64", "a number"),
        ("a boolean", "true or false"),
    ];
    let found = TYPES.iter().find_map(|(ours, plain)| {
        let before = said.strip_suffix(ours)?.strip_suffix("expected ")?;
        Some(format!("{before}expected {plain}"))
    });
    found.unwrap_or_else(|| said.to_owned())
}

/// The answer to arguments that can't be used.
pub(super) fn wrong(name: &str, what: &str, schema: &Value) -> ToolOutput {
    ToolOutput::refused(format!(
        "the arguments of {name} are wrong: {what}. Nothing was done. They must be one JSON object: {}",
        shape(schema)
    ))
}

/// A schema in one line: `{"path": string, "start_line"?: integer}`.
pub(super) fn shape(schema: &Value) -> String {
    match schema.get("properties").and_then(Value::as_object) {
        Some(properties) => {
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            let fields = properties.iter().map(|(name, schema)| {
                let mark = if required.contains(&name.as_str()) { "" } else { "?" };
                format!("\"{name}\"{mark}: {}", shape(schema))
            });
            format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
        None => simple_shape(schema),
    }
}

fn simple_shape(schema: &Value) -> String {
    if let Some(items) = schema.get("items") {
        return format!("[{}]", shape(items));
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        return choices.iter().map(shape).collect::<Vec<_>>().join(" or ");
    }
    match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds
            .iter()
            .filter_map(Value::as_str)
            .filter(|kind| *kind != "null")
            .collect::<Vec<_>>()
            .join(" or "),
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its shape matters")]
    struct Sample {
        path: String,
        lines: Option<u32>,
        edits: Vec<Inner>,
    }

    #[derive(Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its shape matters")]
    struct Inner {
        old: String,
    }

    #[test]
    fn a_wrong_field_is_named_with_its_path_and_the_shape() {
        let error =
            parse::<Sample>("sample", json!({"path": "a", "edits": [{"old": 3}]})).err().unwrap();
        assert!(error.is_error && error.text.contains("edits[0].old"), "{}", error.text);
        assert!(
            error
                .text
                .contains(r#"{"path": string, "lines"?: integer, "edits": [{"old": string}]}"#),
            "{}",
            error.text
        );
        let error =
            parse::<Sample>("sample", json!({"path": "a", "edits": [], "x": 1})).err().unwrap();
        assert!(error.text.contains("unknown field `x`"), "{}", error.text);
        assert!(parse::<Sample>("sample", json!([1])).is_err());
    }

    #[test]
    fn schemas_hold_no_references() {
        let text = schema::<Sample>().to_string();
        assert!(!text.contains("$ref") && !text.contains("$schema"), "{text}");
        assert!(text.contains("\"additionalProperties\":false"), "{text}");
    }

    #[test]
    fn what_is_expected_is_said_in_plain_words() {
        let told = |arguments| parse::<Sample>("sample", arguments).err().unwrap().text;
        let text = told(json!({"path": "a", "lines": "x", "edits": []}));
        assert!(text.contains("expected a whole number from 0 on at lines"), "{text}");
        let text = told(json!({"path": "a", "lines": -1, "edits": []}));
        assert!(text.contains("`-1`, expected a whole number from 0 on"), "{text}");
    }
}
