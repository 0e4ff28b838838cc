//! Diffs that were made elsewhere: files, directories, `FAMILY:PATH`, prediction files, revisions.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use bstr::ByteSlice;
use serde::Deserialize;
use serde_json::Value;

use super::CliError;
use crate::model::Family;
use crate::pipeline::{Given, Survey};

/// The largest diff or prediction file that is read, in bytes.
const MAX_BYTES: u64 = 256 << 20;

/// The field that every prediction has.
const INSTANCE: &str = "instance_id";

/// A prediction as evaluation harnesses write it.
#[derive(Debug, Deserialize)]
struct Prediction {
    instance_id: String,
    #[serde(default)]
    model_name_or_path: Option<String>,
    #[serde(default)]
    model_patch: Option<String>,
}

/// Reads every source. `instance` chooses among the instances of a prediction file.
pub fn read(
    sources: &[OsString],
    instance: Option<&str>,
    survey: &Survey,
) -> Result<Vec<Given>, CliError> {
    let mut all = Vec::new();
    for source in sources {
        all.extend(read_one(source, instance, survey)?);
    }
    Ok(all)
}

fn read_one(
    source: &OsStr,
    instance: Option<&str>,
    survey: &Survey,
) -> Result<Vec<Given>, CliError> {
    if let Some(found) = at_path(None, Path::new(source), instance)? {
        return Ok(found);
    }
    if let Some((family, rest)) = split_family(source) {
        if let Some(found) = at_path(Some(&family), Path::new(rest), instance)? {
            return Ok(found);
        }
        if let Some(Ok(diff)) = rest.to_str().map(|rev| survey.diff_of(rev)) {
            return Ok(vec![given(rest.to_string_lossy().into_owned(), &family, diff)]);
        }
    }
    let name = source.to_string_lossy();
    match survey.diff_of(&name) {
        Ok(diff) => Ok(vec![given(name.clone().into_owned(), &name, diff)]),
        Err(error) => Err(CliError::usage(format!(
            "{name:?} is no file, no directory and no revision of the repository ({error})"
        ))),
    }
}

/// `FAMILY:REST`, when both are there. The rest may be a path of any bytes.
fn split_family(source: &OsStr) -> Option<(String, &OsStr)> {
    let bytes = source.as_bytes();
    let at = bytes.iter().position(|byte| *byte == b':')?;
    let family = std::str::from_utf8(&bytes[..at]).ok()?;
    let rest = &bytes[at + 1..];
    (!family.is_empty() && !rest.is_empty()).then(|| (family.to_owned(), OsStr::from_bytes(rest)))
}

/// The diffs at a path; `None` when nothing is there.
fn at_path(
    family: Option<&str>,
    path: &Path,
    instance: Option<&str>,
) -> Result<Option<Vec<Given>>, CliError> {
    let Ok(meta) = fs::metadata(path) else { return Ok(None) };
    if meta.is_dir() {
        return directory(family, path, instance).map(Some);
    }
    file(family, path, instance).map(Some)
}

/// Every file of a directory by name. Files below a sub-directory share its name as their family;
/// a file right in it is a family of its own.
fn directory(
    family: Option<&str>,
    dir: &Path,
    instance: Option<&str>,
) -> Result<Vec<Given>, CliError> {
    let mut all = Vec::new();
    for path in sorted(dir)? {
        if path.is_dir() {
            let name = name_of(&path);
            for inner in sorted(&path)?.into_iter().filter(|inner| inner.is_file()) {
                all.extend(file(Some(family.unwrap_or(&name)), &inner, instance)?);
            }
        } else if path.is_file() {
            all.extend(file(family, &path, instance)?);
        }
    }
    if all.is_empty() {
        return Err(CliError::usage(format!(
            "{} holds no files; give diffs, or a directory of them",
            dir.display()
        )));
    }
    Ok(all)
}

fn sorted(dir: &Path) -> Result<Vec<PathBuf>, CliError> {
    let failed = |error| CliError::usage(format!("failed to read {}: {error}", dir.display()));
    let entries = fs::read_dir(dir).map_err(failed)?;
    let mut paths: Vec<_> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    paths.retain(|path| !name_of(path).starts_with('.'));
    paths.sort();
    Ok(paths)
}

fn file(family: Option<&str>, path: &Path, instance: Option<&str>) -> Result<Vec<Given>, CliError> {
    let bytes = bytes_of(path)?;
    if is_predictions(&bytes) {
        return predictions(family, path, &bytes, instance);
    }
    let own = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(vec![given(path.display().to_string(), family.unwrap_or(&own), bytes)])
}

/// Whether a file's JSON, torn or whole, speaks of instances; other JSON is an answer with a diff in it.
/// Its name says nothing: answers and predictions are both saved as `.json`.
fn is_predictions(bytes: &[u8]) -> bool {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if !text.starts_with(b"{") && !text.starts_with(b"[") || !has_instance_key(text) {
        return false;
    }
    let names = |value: &Value| value.get(INSTANCE).is_some();
    match serde_json::from_slice(text) {
        Ok(Value::Array(list)) => list.iter().any(names),
        Ok(Value::Object(map)) => {
            let by_instance = map.values().all(Value::is_object) && map.values().any(names);
            map.contains_key(INSTANCE) || by_instance
        }
        Ok(_) => false,
        // Lines, or what was cut off.
        Err(_) => true,
    }
}

/// Whether a key of this name stands somewhere. Within a string its quotes would be escaped.
fn has_instance_key(text: &[u8]) -> bool {
    let key = format!("\"{INSTANCE}\"");
    text.find_iter(&key).any(|at| text[at + key.len()..].trim_ascii_start().starts_with(b":"))
}

/// A file may be a device, of which nobody knows the length. A pipe that was given open (`/dev/stdin`,
/// `<(…)`) ends with its writer; one with a name would be waited for until somebody opens it.
fn bytes_of(path: &Path) -> Result<Vec<u8>, CliError> {
    let failed =
        |what: String| CliError::usage(format!("failed to read {}: {what}", path.display()));
    if is_named_pipe(path).map_err(|error| failed(error.to_string()))? {
        return Err(failed(
            "it is a named pipe, which may never end; write the diff to a file, or pipe it in and name /dev/stdin"
                .to_owned(),
        ));
    }
    let open = fs::File::open(path).map_err(|error| failed(error.to_string()))?;
    up_to(open, MAX_BYTES)
        .map_err(|error| failed(error.to_string()))?
        .ok_or_else(|| failed(format!("it has more than {MAX_BYTES} bytes")))
}

/// Whether opening a path would wait for a writer: a FIFO that is not one of this process's own files.
fn is_named_pipe(path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::FileTypeExt;
    let is_open = path.starts_with("/dev") || path.starts_with("/proc");
    Ok(!is_open && fs::metadata(path)?.file_type().is_fifo())
}

/// All that a reader gives; none when it is more than `most` bytes.
fn up_to(from: impl Read, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    from.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

fn predictions(
    family: Option<&str>,
    path: &Path,
    bytes: &[u8],
    instance: Option<&str>,
) -> Result<Vec<Given>, CliError> {
    let all = parse(bytes).map_err(|reason| {
        CliError::usage(format!(
            "{} is not a prediction file: {reason}; it holds objects of instance_id, model_name_or_path and model_patch, \
             one a line, as an array, or by instance",
            path.display()
        ))
    })?;
    let chosen = choose(all, path, instance)?;
    let each = |(index, one): (usize, Prediction)| {
        let model =
            one.model_name_or_path.unwrap_or_else(|| format!("{}-{}", name_of(path), index + 1));
        let diff = one.model_patch.unwrap_or_default().into_bytes();
        given(format!("{}#{}", model, index + 1), family.unwrap_or(&model), diff)
    };
    Ok(chosen.into_iter().enumerate().map(each).collect())
}

fn choose(
    all: Vec<Prediction>,
    path: &Path,
    instance: Option<&str>,
) -> Result<Vec<Prediction>, CliError> {
    let names: std::collections::BTreeSet<String> =
        all.iter().map(|one| one.instance_id.clone()).collect();
    let list = || names.iter().take(8).cloned().collect::<Vec<_>>().join(", ");
    match instance {
        None if names.len() > 1 => Err(CliError::usage(format!(
            "{} speaks of {} instances; choose one with --instance: {}",
            path.display(),
            names.len(),
            list()
        ))),
        Some(wanted) if !names.contains(wanted) => Err(CliError::usage(format!(
            "{} has no instance {wanted:?}; it has {}",
            path.display(),
            list()
        ))),
        wanted => Ok(all
            .into_iter()
            .filter(|one| wanted.is_none_or(|wanted| one.instance_id == wanted))
            .collect()),
    }
}

/// JSON lines, an array, or an object by instance.
fn parse(bytes: &[u8]) -> Result<Vec<Prediction>, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Whole {
        List(Vec<Prediction>),
        ByInstance(std::collections::BTreeMap<String, Prediction>),
    }
    if let Ok(whole) = serde_json::from_slice::<Whole>(bytes) {
        return Ok(match whole {
            Whole::List(list) => list,
            Whole::ByInstance(map) => map.into_values().collect(),
        });
    }
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter(|(_, line)| !line.trim_ascii().is_empty());
    let one = |(index, line): (usize, &[u8])| {
        serde_json::from_slice(line).map_err(|error| format!("line {}: {error}", index + 1))
    };
    let all: Vec<Prediction> = lines.map(one).collect::<Result<_, _>>()?;
    if all.is_empty() { Err("it is empty".to_owned()) } else { Ok(all) }
}

fn given(source: String, family: &str, diff: Vec<u8>) -> Given {
    Given { source, family: Family::new(family), diff }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_come_as_lines_as_an_array_and_by_instance() {
        let one = r#"{"instance_id":"a","model_name_or_path":"m","model_patch":"x"}"#;
        for text in [
            format!("{one}\n\n{one}\n"),
            format!("[{one},{one}]"),
            format!("{{\"a\":{one},\"b\":{one}}}"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap().len(), 2, "{text}");
        }
        assert!(parse(format!("{one}\nnonsense\n").as_bytes()).unwrap_err().starts_with("line 2"));
        assert!(parse(b"\n").is_err());
    }

    #[test]
    fn contents_tell_predictions_from_answers() {
        let one = r#"{"instance_id":"a","model_patch":"x"}"#;
        for predictions in [
            one.to_owned(),
            format!("\u{feff}\n[{one}]"),
            format!("{{\"a\":{one}}}"),
            format!("{one}\n{one}\nnonsense\n"),
            r#"[{"instance_id" : "a", "model_patch": "cut o"#.to_owned(),
            r#"{"instance_id":5}"#.to_owned(),
        ] {
            assert!(is_predictions(predictions.as_bytes()), "{predictions}");
        }
        for answer in [
            r#"{"patch":"--- a/x"}"#,
            r#"["--- a/x"]"#,
            r#"{"patch":"+ {\"instance_id\": 1}","for":{"instance_id":"a"}}"#,
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+{\"instance_id\": 1}\n",
            "",
        ] {
            assert!(!is_predictions(answer.as_bytes()), "{answer}");
        }
    }

    #[test]
    fn an_answer_is_read_whatever_its_file_is_called() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["x.json", "x.jsonl", "x.txt", "x"] {
            let path = dir.path().join(name);
            fs::write(&path, r#"{"patch":"x"}"#).unwrap();
            let answer = file(None, &path, None).unwrap();
            assert_eq!(
                (answer[0].diff.as_slice(), answer[0].family.as_str()),
                (&br#"{"patch":"x"}"#[..], "x")
            );
            fs::write(&path, r#"{"instance_id":"a","model_name_or_path":"m","model_patch":"y"}"#)
                .unwrap();
            let predictions = file(None, &path, None).unwrap();
            assert_eq!(
                (predictions[0].diff.as_slice(), predictions[0].family.as_str()),
                (&b"y"[..], "m")
            );
        }
    }

    #[test]
    fn what_has_no_end_is_not_read_for_ever() {
        assert_eq!(up_to(io::repeat(0), 1000).unwrap(), None);
        assert_eq!(up_to(&b"diff"[..], 4).unwrap().as_deref(), Some(&b"diff"[..]));
    }

    #[test]
    fn a_named_pipe_is_refused_and_an_open_one_is_read() {
        use std::os::fd::AsRawFd;
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("x.diff");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let refused = bytes_of(&fifo).unwrap_err().message;
        assert!(refused.contains("named pipe") && refused.contains("/dev/stdin"), "{refused}");
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::io::Write::write_all(&mut writer, b"diff").unwrap();
        drop(writer);
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        assert_eq!(bytes_of(Path::new(&path)).unwrap(), b"diff");
    }

    #[test]
    fn several_instances_need_a_choice() {
        let two = parse(
            br#"[{"instance_id":"a","model_patch":"x"},{"instance_id":"b","model_patch":null}]"#,
        )
        .unwrap();
        assert!(
            choose(two, Path::new("p.json"), None)
                .unwrap_err()
                .message
                .contains("--instance: a, b")
        );
        let two = parse(
            br#"[{"instance_id":"a","model_patch":"x"},{"instance_id":"b","model_patch":null}]"#,
        )
        .unwrap();
        assert_eq!(choose(two, Path::new("p.json"), Some("b")).unwrap().len(), 1);
    }
}
