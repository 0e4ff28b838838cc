//! What a tool's output says: errors, tests that passed and tests that failed.
//!
//! Pure functions over text, one file per tool. The output is foreign: what can't be read is left out,
//! never guessed.

mod cargo;
mod count;
mod go;
mod jest;
mod libtest;
mod lines;
mod mocha;
mod node;
mod pyright;
mod pytest;
mod unittest;
mod vitest;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{CheckTool, Diagnostic};

/// A tool's output, read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Errors of a compiler or type checker, and test files or packages that could not be run.
    pub errors: Vec<Diagnostic>,
    /// Failed tests; the code is the test's name.
    pub failed: Vec<Diagnostic>,
    /// Errors that are only in test targets (Cargo): told, but no failure of a typecheck.
    pub soft: Vec<Diagnostic>,
    /// Tests that were seen to pass, skipped or ignored ones not among them, with how often.
    pub passed: BTreeMap<String, u32>,
    /// How many tests (of Go: packages) the runner says that it ran.
    pub count: Option<u32>,
    /// The output for a reader, when the raw one is not meant for people.
    pub shown: Option<String>,
}

impl Reading {
    /// Sorts, and drops doubles (a library is compiled once for itself and once for its tests).
    fn tidy(mut self) -> Self {
        for list in [&mut self.errors, &mut self.failed, &mut self.soft] {
            list.sort();
            list.dedup();
        }
        let errors = &self.errors;
        self.soft.retain(|each| !errors.contains(each));
        self
    }

    /// Whether nothing failed, as far as the tool's output says.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.failed.is_empty()
    }

    /// Everything that failed.
    pub fn failures(&self) -> impl Iterator<Item = &Diagnostic> {
        self.errors.iter().chain(&self.failed)
    }

    /// Notes a failed test.
    fn fail(&mut self, name: &str, path: &str, message: &str) {
        self.failed.push(diagnostic(name, path, 0, message));
    }

    /// Notes a passed test.
    fn pass(&mut self, name: String) {
        *self.passed.entry(name).or_default() += 1;
    }
}

/// Reads `output` as `tool` writes it. `root` is the directory in which it ran, so that paths can be
/// made relative to it.
pub fn read(tool: CheckTool, output: &str, root: &str) -> Reading {
    let plain = strip_colours(output);
    let mut reading = match tool {
        CheckTool::CargoCheck => cargo::read(&plain),
        CheckTool::CargoTest => libtest::read(&plain),
        CheckTool::Tsc => lines::tsc(&plain),
        CheckTool::Mypy => lines::mypy(&plain),
        CheckTool::Pyright => pyright::read(&plain),
        CheckTool::Pytest => pytest::read(&plain),
        CheckTool::GoBuild => go::read_build(&plain),
        CheckTool::GoTest => go::read_test(&plain),
        CheckTool::Vitest => vitest::read(&plain, root),
        CheckTool::Jest => jest::read(&plain, root),
        CheckTool::NodeTest => node::read(&plain),
        CheckTool::Mocha => mocha::read(&plain, root),
        CheckTool::Unittest => unittest::read(&plain),
        CheckTool::Other => Reading::default(),
    };
    reading.count = match tool {
        CheckTool::CargoTest => count::cargo(&plain),
        CheckTool::Pytest => count::pytest(&plain),
        CheckTool::GoTest => count::go(&plain),
        CheckTool::Vitest | CheckTool::Jest | CheckTool::NodeTest | CheckTool::Mocha => {
            count::script(&plain)
        }
        CheckTool::Unittest => count::unittest(&plain),
        CheckTool::Other => count::any(&plain),
        _ => None,
    };
    for each in reading.errors.iter_mut().chain(&mut reading.failed).chain(&mut reading.soft) {
        each.path = relative(&each.path, root);
    }
    reading.tidy()
}

fn relative(path: &str, root: &str) -> String {
    let root = root.trim_end_matches('/');
    let inner = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path);
    inner.strip_prefix("./").unwrap_or(inner).to_owned()
}

/// Takes out the colours of a tool that writes them without a terminal.
fn strip_colours(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// A diagnostic.
fn diagnostic(code: &str, path: &str, line: u32, message: &str) -> Diagnostic {
    Diagnostic {
        code: code.to_owned(),
        path: path.to_owned(),
        line,
        message: message.lines().next().unwrap_or("").trim().chars().take(400).collect(),
    }
}

#[cfg(test)]
mod tests;
