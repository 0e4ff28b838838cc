//! Reading a pool: tasks, and candidates with their known outcome, one JSON object a line.
//!
//! A field may have any of the names that harnesses give it. What is missing is told and counted against
//! nobody but its own row. Never here: repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::config::maker;
use crate::model::Family;

/// The largest file that is read, in bytes.
const LARGEST: u64 = 2 << 30;

/// The note on tasks whose outcomes are not all known.
const UNKNOWN: &str = "with candidates of unknown outcome, which count as not right";

/// Why a pool could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// A file or directory is not there, or can't be read.
    #[error("failed to read {}: {reason}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A line is not what it has to be.
    #[error("{}, line {line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no task at all.
    #[error("{} holds no task: give a file of tasks, one JSON object with `task_id` a line, or a directory with *tasks.jsonl or */task.json", .0.display())]
    Empty(PathBuf),
}

/// Whose voice a diff is. A row that names its `family` keeps it in all but `System`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Families {
    /// The agent.
    #[default]
    Agent,
    /// The agent with its model's maker.
    Maker,
    /// Every system for itself.
    System,
}

/// A diff with what is known of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its id.
    pub id: String,
    /// The agent with its model, as the pool names it.
    pub system: String,
    /// Its voice.
    pub family: Family,
    /// The diff; empty when the row has none.
    pub patch: Vec<u8>,
    /// Whether it resolves the task; `None` when the pool does not say.
    pub right: Option<bool>,
}

/// A task with its diffs.
#[derive(Clone, Debug)]
pub struct Task {
    /// Its id.
    pub id: String,
    /// `OWNER/NAME` of its repository, if the pool says.
    pub github: Option<String>,
    /// The base commit, if the pool says.
    pub commit: Option<String>,
    /// The base tree, if the pool says.
    pub tree: Option<String>,
    /// A repository that the task names itself.
    pub repo: Option<PathBuf>,
    /// Its diffs, in the order of the pool.
    pub rows: Vec<Row>,
}

/// Tasks in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// All tasks.
    pub tasks: Vec<Task>,
    /// What was odd in the files.
    pub notes: Vec<String>,
    /// The directory in which the tasks were found.
    pub beside: Option<PathBuf>,
}

impl Pool {
    /// Leaves out candidates whose outcome is not known.
    pub fn leave_out_unknown(&mut self) {
        let before = |task: &Task| task.rows.len();
        let all: usize = self.tasks.iter().map(before).sum();
        self.tasks.iter_mut().for_each(|task| task.rows.retain(|row| row.right.is_some()));
        let left: usize = self.tasks.iter().map(before).sum();
        self.notes.retain(|note| !note.contains(UNKNOWN));
        if left < all {
            self.notes
                .push(format!("{} candidate(s) of unknown outcome were left out", all - left));
        }
    }
}

/// Reads tasks and candidates, each a file or a directory; without candidates they stand with the tasks.
///
/// # Errors
/// See [`PoolError`].
pub fn read(
    tasks: &Path,
    candidates: Option<&Path>,
    families: Families,
) -> Result<Pool, PoolError> {
    let mut reader = Reader { families, tasks: BTreeMap::new(), notes: BTreeMap::new() };
    for file in files(tasks, "tasks.jsonl")? {
        reader.tasks_of(&file)?;
    }
    if tasks.is_dir() {
        reader.folders_of(tasks)?;
    }
    if reader.tasks.is_empty() {
        return Err(PoolError::Empty(tasks.to_owned()));
    }
    for file in files(candidates.unwrap_or(tasks), "candidates.jsonl")? {
        // A lone file of tasks that holds no candidates of its own is no file of candidates.
        if candidates.is_some() || file != tasks {
            reader.candidates_of(&file, None)?;
        }
    }
    let beside = if tasks.is_dir() { Some(tasks) } else { tasks.parent() };
    Ok(reader.pool(beside.map(Path::to_owned)))
}

/// The file itself, or the files of a directory whose names end so, sorted.
fn files(path: &Path, ending: &str) -> Result<Vec<PathBuf>, PoolError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = entries(path)?;
    found.retain(|path| {
        path.is_file() && path.file_name().is_some_and(|n| n.to_string_lossy().ends_with(ending))
    });
    Ok(found)
}

fn entries(path: &Path) -> Result<Vec<PathBuf>, PoolError> {
    let failed = |error: std::io::Error| unreadable(path, &error.to_string());
    let entries = fs::read_dir(path).map_err(failed)?;
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    found.sort();
    Ok(found)
}

fn unreadable(path: &Path, reason: &str) -> PoolError {
    PoolError::Unreadable { path: path.to_owned(), reason: reason.to_owned() }
}

fn text(path: &Path) -> Result<String, PoolError> {
    let failed = |error: std::io::Error| unreadable(path, &error.to_string());
    let file = fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > LARGEST {
        return Err(unreadable(path, "it is larger than 2 GiB"));
    }
    Ok(String::from_utf8_lossy(&bytes).trim_start_matches('\u{feff}').to_owned())
}

/// A line's number, from 1, and its object.
type Numbered = (usize, Map<String, Value>);

/// The objects of a file with their lines, from 1.
fn objects(path: &Path) -> Result<Vec<Numbered>, PoolError> {
    let text = text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let object = |(at, line): (usize, &str)| {
        let wrong =
            |reason: String| PoolError::Line { path: path.to_owned(), line: at + 1, reason };
        match serde_json::from_str(line) {
            Ok(Value::Object(map)) => Ok((at + 1, map)),
            Ok(_) => Err(wrong("not a JSON object".to_owned())),
            Err(error) => Err(wrong(error.to_string())),
        }
    };
    lines.map(object).collect()
}

struct Reader {
    families: Families,
    tasks: BTreeMap<String, Task>,
    notes: BTreeMap<&'static str, BTreeSet<String>>,
}

impl Reader {
    fn tasks_of(&mut self, path: &Path) -> Result<(), PoolError> {
        for (line, map) in objects(path)? {
            let Some(id) = word(&map, &["task_id", "instance_id", "id"]) else {
                let reason = "a task needs `task_id`".to_owned();
                return Err(PoolError::Line { path: path.to_owned(), line, reason });
            };
            self.add(id, &map, None);
        }
        Ok(())
    }

    /// `TASK/task.json` with `TASK/candidates.jsonl`, and maybe `TASK/repo`.
    fn folders_of(&mut self, dir: &Path) -> Result<(), PoolError> {
        for folder in entries(dir)?.into_iter().filter(|path| path.join("task.json").is_file()) {
            let path = folder.join("task.json");
            let wrong = |reason: String| PoolError::Line { path: path.clone(), line: 1, reason };
            let map: Map<String, Value> =
                serde_json::from_str(&text(&path)?).map_err(|error| wrong(error.to_string()))?;
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            let id = word(&map, &["task_id", "instance_id", "id"]).or(name).unwrap_or_default();
            let repo = folder.join("repo");
            self.add(id.clone(), &map, repo.is_dir().then_some(repo));
            let candidates = folder.join("candidates.jsonl");
            match candidates.is_file() {
                true => self.candidates_of(&candidates, Some(&id))?,
                false => self.note("without candidates.jsonl", &id),
            }
        }
        Ok(())
    }

    fn add(&mut self, id: String, map: &Map<String, Value>, repo: Option<PathBuf>) {
        let github = word(map, &["github", "repo"]);
        let github = github.map(|name| name.trim_start_matches("github:").to_owned());
        let task = Task {
            id: id.clone(),
            github,
            commit: word(map, &["base_commit", "commit"]),
            tree: word(map, &["base_tree"]),
            repo,
            rows: Vec::new(),
        };
        if self.tasks.insert(id.clone(), task).is_some() {
            self.note("named twice, the last one counts", &id);
        }
    }

    fn candidates_of(&mut self, path: &Path, task: Option<&str>) -> Result<(), PoolError> {
        for (line, map) in objects(path)? {
            let id = word(&map, &["task_id", "instance_id"]).or(task.map(str::to_owned));
            let Some(id) = id else {
                let reason = "a candidate needs `task_id`".to_owned();
                return Err(PoolError::Line { path: path.to_owned(), line, reason });
            };
            let families = self.families;
            match self.tasks.get_mut(&id) {
                Some(task) => {
                    let row = row(&map, families, task.rows.len());
                    task.rows.push(row);
                }
                None => self.note("named by candidates, but no task is so called", &id),
            }
        }
        Ok(())
    }

    fn note(&mut self, what: &'static str, id: &str) {
        self.notes.entry(what).or_default().insert(id.to_owned());
    }

    fn pool(mut self, beside: Option<PathBuf>) -> Pool {
        let tasks: Vec<Task> = std::mem::take(&mut self.tasks).into_values().collect();
        for task in &tasks {
            let rows = || task.rows.iter();
            if task.rows.is_empty() {
                self.note("without a candidate, so that no way of choosing is right", &task.id);
            }
            if rows().any(|row| row.right.is_none()) {
                self.note(UNKNOWN, &task.id);
            }
        }
        let told = |(what, ids): (&&'static str, &BTreeSet<String>)| {
            let named: Vec<&str> = ids.iter().take(3).map(String::as_str).collect();
            let more = if ids.len() > named.len() { ", …" } else { "" };
            format!("{} task(s) {what}: {}{more}", ids.len(), named.join(", "))
        };
        Pool { notes: self.notes.iter().map(told).collect(), tasks, beside }
    }
}

/// The first of the fields that holds a text or a number.
fn word(map: &Map<String, Value>, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| match map.get(*name)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn row(map: &Map<String, Value>, families: Families, at: usize) -> Row {
    let agent = word(map, &["agent"]);
    let model = word(map, &["model"]);
    let joined = agent.as_ref().map(|agent| match &model {
        Some(model) => format!("{agent}-{model}"),
        None => agent.clone(),
    });
    let system = word(map, &["system", "model_name_or_path"]).or(joined);
    let system = system.unwrap_or_else(|| "unknown".to_owned());
    let agent = agent.unwrap_or_else(|| system.clone());
    let family = match (families, word(map, &["family"]), model) {
        (Families::System, ..) => system.clone(),
        (_, Some(named), _) => named,
        (Families::Maker, None, Some(model)) => format!("{agent}+{}", maker(&model, &model)),
        _ => agent,
    };
    let patch = ["patch", "model_patch", "diff"].iter().find_map(|name| map.get(*name)?.as_str());
    Row {
        id: word(map, &["cand_id", "candidate_id", "id"]).unwrap_or_else(|| format!("#{at}")),
        system,
        family: Family::new(family),
        patch: patch.unwrap_or_default().as_bytes().to_vec(),
        right: right(map),
    }
}

fn right(map: &Map<String, Value>) -> Option<bool> {
    ["reported", "resolved", "outcome"].iter().find_map(|name| match map.get(*name)? {
        Value::Bool(right) => Some(*right),
        Value::Number(number) => Some(number.as_f64()? > 0.5),
        Value::String(word) => match word.as_str() {
            "resolved" | "pass" | "passed" | "true" => Some(true),
            "" | "unknown" => None,
            _ => Some(false),
        },
        _ => None,
    })
}
