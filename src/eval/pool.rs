//! Reading a pool: tasks, and candidates with their known outcome, one JSON object a line.
//!
//! A field may have any of the names that harnesses give it. What is missing is told and counted against
//! nobody but its own row. Never here: repositories.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::row::{Families, Row, row, word};

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
    /// No candidate belongs to a task.
    #[error("none of the {count} candidates belongs to a task of {}: they name {ids}; give the tasks that they are for", tasks.display())]
    Strangers {
        /// Where the tasks are.
        tasks: PathBuf,
        /// How many candidates there are.
        count: usize,
        /// Some of the tasks that they name.
        ids: String,
    },
    /// There is no task at all.
    #[error("{} holds no task: give a file of tasks, one JSON object with `task_id` a line, or a directory with *tasks.jsonl or */task.json", .0.display())]
    Empty(PathBuf),
    /// There is no candidate at all, so that there is nothing to choose from.
    #[error("{} holds no candidate: give a file of candidates, one JSON object with `task_id` and `patch` a line, or a directory with *candidates.jsonl or */candidates.jsonl", .0.display())]
    NoCandidates(PathBuf),
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

impl Task {
    /// Whether another description of the task means another base.
    fn differs(&self, other: &Self) -> bool {
        let base = |task: &Self| (task.github.clone(), task.commit.clone(), task.tree.clone());
        let repos = self.repo.as_ref().zip(other.repo.as_ref());
        base(self) != base(other) || repos.is_some_and(|(one, two)| one != two)
    }
}

/// Tasks in the order of their ids.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    /// All tasks.
    pub tasks: Vec<Task>,
    /// What was odd in the files.
    pub notes: Vec<String>,
    /// What was left out that somebody may miss.
    pub warnings: Vec<String>,
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
    let mut reader = Reader { families, ..Reader::default() };
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
    if reader.candidates == 0 {
        return Err(PoolError::NoCandidates(candidates.unwrap_or(tasks).to_owned()));
    }
    let (ids, strangers) = &reader.strangers;
    if *strangers > 0 && *strangers == reader.candidates {
        return Err(PoolError::Strangers {
            tasks: tasks.to_owned(),
            count: *strangers,
            ids: some(ids),
        });
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

/// The error of a line, from 1.
fn wrong(path: &Path, line: usize) -> impl Fn(String) -> PoolError {
    move |reason| PoolError::Line { path: path.to_owned(), line, reason }
}

/// A line's number, from 1, and its object.
type Numbered = (usize, Map<String, Value>);

/// The objects of a file with their lines, from 1.
fn objects(path: &Path) -> Result<Vec<Numbered>, PoolError> {
    let text = text(path)?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let object = |(at, line): (usize, &str)| {
        let wrong = wrong(path, at + 1);
        match serde_json::from_str(line) {
            Ok(Value::Object(map)) => Ok((at + 1, map)),
            Ok(_) => Err(wrong("not a JSON object".to_owned())),
            Err(error) => {
                let reason = error.to_string().replace(" at line 1 column ", " at column ");
                Err(wrong(format!("not a JSON object, which each line has to be: {reason}")))
            }
        }
    };
    lines.map(object).collect()
}

#[derive(Default)]
struct Reader {
    families: Families,
    tasks: BTreeMap<String, Task>,
    notes: BTreeMap<&'static str, BTreeSet<String>>,
    /// How many candidates were read.
    candidates: usize,
    /// The tasks that candidates without a task name, and how many those are.
    strangers: (BTreeSet<String>, usize),
}

impl Reader {
    fn tasks_of(&mut self, path: &Path) -> Result<(), PoolError> {
        for (line, map) in objects(path)? {
            let Some(id) = word(&map, &["task_id", "instance_id", "id"]) else {
                return Err(wrong(path, line)("a task needs `task_id`".to_owned()));
            };
            self.add(id, &map, None).map_err(wrong(path, line))?;
        }
        Ok(())
    }

    /// `TASK/task.json` with `TASK/candidates.jsonl`, and maybe `TASK/repo`.
    fn folders_of(&mut self, dir: &Path) -> Result<(), PoolError> {
        for folder in entries(dir)?.into_iter().filter(|path| path.join("task.json").is_file()) {
            let path = folder.join("task.json");
            let map: Map<String, Value> = serde_json::from_str(&text(&path)?)
                .map_err(|error| wrong(&path, error.line())(error.to_string()))?;
            let name = folder.file_name().map(|name| name.to_string_lossy().into_owned());
            let id = word(&map, &["task_id", "instance_id", "id"]).or(name).unwrap_or_default();
            let repo = folder.join("repo");
            let repo = repo.is_dir().then_some(repo);
            self.add(id.clone(), &map, repo).map_err(wrong(&path, 1))?;
            let candidates = folder.join("candidates.jsonl");
            match candidates.is_file() {
                true => self.candidates_of(&candidates, Some(&id))?,
                false => self.note("without candidates.jsonl", &id),
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        id: String,
        map: &Map<String, Value>,
        repo: Option<PathBuf>,
    ) -> Result<(), String> {
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
        match self.tasks.get_mut(&id) {
            Some(before) if before.differs(&task) => {
                return Err(format!(
                    "the task {id:?} was given before with another repository or base: leave one of them out"
                ));
            }
            Some(before) => {
                before.repo = before.repo.take().or(task.repo);
                self.note("named twice, with the same base", &id);
            }
            None => {
                self.tasks.insert(id, task);
            }
        }
        Ok(())
    }

    fn candidates_of(&mut self, path: &Path, task: Option<&str>) -> Result<(), PoolError> {
        for (line, map) in objects(path)? {
            let id = word(&map, &["task_id", "instance_id"]).or(task.map(str::to_owned));
            let Some(id) = id else {
                return Err(wrong(path, line)("a candidate needs `task_id`".to_owned()));
            };
            let mut task = self.tasks.get_mut(&id);
            let at = task.as_ref().map_or(0, |task| task.rows.len());
            let row = row(&map, self.families, at).map_err(wrong(path, line))?;
            self.candidates += 1;
            match &mut task {
                Some(task) => task.rows.push(row),
                None => {
                    self.strangers.1 += 1;
                    self.strangers.0.insert(id);
                }
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
            format!("{} task(s) {what}: {}", ids.len(), some(ids))
        };
        let notes = self.notes.iter().map(told).collect();
        Pool { notes, warnings: self.warnings(), tasks, beside }
    }

    fn warnings(&self) -> Vec<String> {
        let (ids, strangers) = &self.strangers;
        let warning = format!(
            "{strangers} of {} candidates were left out, since no task is called what they name: {}",
            self.candidates,
            some(ids)
        );
        (*strangers > 0).then_some(warning).into_iter().collect()
    }
}

/// The first few ids.
fn some(ids: &BTreeSet<String>) -> String {
    let named: Vec<&str> = ids.iter().take(3).map(String::as_str).collect();
    let more = if ids.len() > named.len() { ", …" } else { "" };
    format!("{}{more}", named.join(", "))
}
