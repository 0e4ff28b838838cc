//! From a TOML value to what a setting holds; the error says what belongs there.

use toml::de::DeValue;

use crate::model::{MicroUsd, ModelRef, Wire};

type Converted<T> = Result<T, String>;

/// A text that is not empty.
pub fn text(value: &DeValue<'_>) -> Converted<String> {
    match value.as_str().map(str::trim) {
        Some(text) if !text.is_empty() => Ok(text.to_owned()),
        _ => Err("a text in quotes".to_owned()),
    }
}

/// A text; an empty one means none.
pub fn optional_text(value: &DeValue<'_>) -> Converted<Option<String>> {
    let text = value.as_str().ok_or("a text in quotes")?.trim();
    Ok((!text.is_empty()).then(|| text.to_owned()))
}

/// A whole number of at least 1.
pub fn positive(value: &DeValue<'_>) -> Converted<u64> {
    integer(value).filter(|n| *n > 0).ok_or("a whole number of at least 1".to_owned())
}

/// Memory in MiB: with less than 64 no interpreter and no compiler starts, so that every gate would
/// fail for a reason that has nothing to do with it.
pub fn memory(value: &DeValue<'_>) -> Converted<u64> {
    mebibytes(value, 64)
}

/// Disk space in MiB: less than 16 does not hold what a tool writes at its start.
pub fn disk(value: &DeValue<'_>) -> Converted<u64> {
    mebibytes(value, 16)
}

/// The most that a limit in MiB may say: beyond it its bytes fit no number.
const MOST_MEBIBYTES: u64 = 1 << 40;

fn mebibytes(value: &DeValue<'_>, least: u64) -> Converted<u64> {
    integer(value)
        .filter(|n| (least..=MOST_MEBIBYTES).contains(n))
        .ok_or_else(|| format!("a whole number of MiB, at least {least}"))
}

/// A whole number of at least 1 that fits 32 bits.
pub fn positive32(value: &DeValue<'_>) -> Converted<u32> {
    positive(value)?.try_into().map_err(|_| format!("a whole number up to {}", u32::MAX))
}

/// A whole number of MiB from 1 to 1,024: a diff is held in memory several times while it is read.
pub fn diff_size(value: &DeValue<'_>) -> Converted<u32> {
    let wanted = positive32(value).ok().filter(|size| *size <= 1024);
    wanted.ok_or("a whole number of MiB from 1 to 1024".to_owned())
}

/// A whole number from 0 to 20.
pub fn few(value: &DeValue<'_>) -> Converted<u32> {
    integer(value)
        .and_then(|n| u32::try_from(n).ok())
        .filter(|n| *n <= 20)
        .ok_or("a whole number from 0 to 20".to_owned())
}

/// An optional whole number of at least 1; 0 means no limit.
pub fn limit(value: &DeValue<'_>) -> Converted<Option<u64>> {
    integer(value)
        .map(|n| (n > 0).then_some(n))
        .ok_or("a whole number of at least 1, or 0 for no limit".to_owned())
}

/// The same in 32 bits.
pub fn limit32(value: &DeValue<'_>) -> Converted<Option<u32>> {
    let narrow = |n: u64| n.try_into().map_err(|_| format!("a whole number up to {}", u32::MAX));
    limit(value)?.map(narrow).transpose()
}

/// Yes or no.
pub fn truth(value: &DeValue<'_>) -> Converted<bool> {
    value.as_bool().ok_or("`true` or `false`".to_owned())
}

/// A number from 0 to 2.
pub fn temperature(value: &DeValue<'_>) -> Converted<Option<f64>> {
    number(value)
        .filter(|n| (0.0..=2.0).contains(n))
        .map(Some)
        .ok_or("a number from 0 to 2".to_owned())
}

/// A price of at least 0 US dollars.
pub fn dollars(value: &DeValue<'_>) -> Converted<f64> {
    number(value).filter(|n| *n >= 0.0).ok_or("US dollars, as a number of at least 0".to_owned())
}

/// A budget in US dollars.
pub fn budget(value: &DeValue<'_>) -> Converted<Option<MicroUsd>> {
    dollars(value).ok().and_then(MicroUsd::from_usd).map(Some).ok_or_else(|| {
        match number(value).is_some_and(|usd| usd > 0.0) {
            true => {
                "US dollars, as a smaller number: nobody can keep a budget that large".to_owned()
            }
            false => "US dollars, as a number of at least 0".to_owned(),
        }
    })
}

/// A list of texts.
pub fn texts(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let wanted = || "a list of texts, such as [\"a\", \"b\"]".to_owned();
    value
        .as_array()
        .ok_or_else(wanted)?
        .iter()
        .map(|each| text(each.get_ref()).map_err(|_| wanted()))
        .collect()
}

/// Paths below the repository's top.
pub fn inner_paths(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let paths = texts(value)?;
    let below =
        |path: &String| is_inner(path) && path.split('/').any(|p| !p.is_empty() && p != ".");
    match paths.iter().all(below) {
        true => Ok(paths),
        false => Err("a list of paths below the repository's top, without `..` or `.git`".into()),
    }
}

/// Glob patterns of paths below the repository's top.
pub fn patterns(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let patterns = inner_paths(value)?;
    for pattern in &patterns {
        if let Err(error) = globset::Glob::new(pattern) {
            return Err(format!("a list of glob patterns; {pattern:?} is none ({})", error.kind()));
        }
    }
    Ok(patterns)
}

/// A directory below the repository's top, empty for the top itself.
pub fn inner_dir(value: &DeValue<'_>) -> Converted<String> {
    let text = optional_text(value)?.unwrap_or_default();
    let dir = text.trim_start_matches("./").trim_end_matches('/');
    match dir {
        "" | "." => Ok(String::new()),
        _ if is_inner(dir) => Ok(dir.to_owned()),
        _ => Err("a directory below the repository's top, without `..`".to_owned()),
    }
}

/// Names of environment variables.
pub fn env_names(value: &DeValue<'_>) -> Converted<Vec<String>> {
    let names = texts(value)?;
    let fine = |name: &String| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    match names.iter().all(fine) {
        true => Ok(names),
        false => Err("a list of names of environment variables (names only, no values)".to_owned()),
    }
}

/// A model as `PROVIDER:MODEL`.
pub fn model(value: &DeValue<'_>) -> Converted<Option<ModelRef>> {
    let wanted = "a model as \"PROVIDER:MODEL\"";
    super::lane::parse_model(value.as_str().ok_or(wanted)?)
        .map(Some)
        .ok_or_else(|| wanted.to_owned())
}

/// A list of models.
pub fn models(value: &DeValue<'_>) -> Converted<Vec<ModelRef>> {
    let wanted = || "a list of models as [\"PROVIDER:MODEL\"]".to_owned();
    let each = |text: &String| super::lane::parse_model(text).ok_or_else(wanted);
    texts(value).map_err(|_| wanted())?.iter().map(each).collect()
}

/// A dialect's name.
pub fn wire(value: &DeValue<'_>) -> Converted<Wire> {
    match value.as_str() {
        Some("openai-chat") => Ok(Wire::OpenaiChat),
        Some("openai-responses") => Ok(Wire::OpenaiResponses),
        Some("anthropic") => Ok(Wire::Anthropic),
        Some("scripted") => Ok(Wire::Scripted),
        _ => Err("\"openai-chat\", \"openai-responses\", \"anthropic\" or \"scripted\"".to_owned()),
    }
}

/// A server's address.
pub fn url(value: &DeValue<'_>) -> Converted<String> {
    let text = text(value).unwrap_or_default();
    match text.strip_prefix("http://").or(text.strip_prefix("https://")) {
        Some(rest) if !rest.is_empty() => Ok(text.trim_end_matches('/').to_owned()),
        _ => Err("an address that begins with http:// or https://".to_owned()),
    }
}

/// Whether a path stays below the directory that it is read from and outside of git's own files.
pub fn is_inner(path: &str) -> bool {
    !path.is_empty()
        && !path.starts_with('/')
        && !path.contains('\\')
        && path
            .split('/')
            .all(|part| part != ".." && !part.eq_ignore_ascii_case(".git") && !part.contains('\0'))
}

fn integer(value: &DeValue<'_>) -> Option<u64> {
    let number = value.as_integer()?;
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    let read = match value {
        DeValue::Float(float) => float.as_str().parse().ok()?,
        DeValue::Integer(_) => integer(value)? as f64,
        _ => return None,
    };
    Some(read).filter(|n: &f64| n.is_finite())
}
