//! `node --test`: TAP, or its `spec` reporter.
//!
//! A test's name is its titles, joined by ` > `; Node does not say the file. A suite is no test of its
//! own: it fails with what is in it.

use super::{Reading, diagnostic};

/// Reads either form.
pub fn read(output: &str) -> Reading {
    if output.lines().any(|line| line.starts_with("TAP version ")) {
        return Tap::default().read(output);
    }
    from_spec(output)
}

/// The titles that are open, and whether something was inside them.
#[derive(Default)]
struct Tap {
    reading: Reading,
    /// Title by level, and whether it held others.
    open: Vec<(String, bool)>,
}

impl Tap {
    fn read(mut self, output: &str) -> Reading {
        for line in output.lines() {
            let text = line.trim_start();
            let level = (line.len() - text.len()) / 4;
            if let Some(title) = text.strip_prefix("# Subtest: ") {
                self.begin(level, title);
            } else if let Some(rest) = text.strip_prefix("not ok ") {
                self.end(level, rest, false);
            } else if let Some(rest) = text.strip_prefix("ok ") {
                self.end(level, rest, true);
            }
        }
        self.reading
    }

    fn begin(&mut self, level: usize, title: &str) {
        self.open.truncate(level);
        if let Some(above) = self.open.last_mut() {
            above.1 = true;
        }
        // TAP escapes what would begin a directive.
        self.open.push((title.replace("\\#", "#"), false));
    }

    /// `2 - adds`, perhaps with ` # SKIP` or ` # TODO` behind.
    fn end(&mut self, level: usize, rest: &str, passed: bool) {
        // A line that some test printed closes nothing that is open.
        let Some((title, held)) = self.open.get(level).cloned() else { return };
        let skipped = rest.contains(" # SKIP") || rest.contains(" # TODO");
        if held || skipped || !rest.contains(" - ") {
            return;
        }
        let above = self.open[..level].iter().map(|(title, _)| title.as_str());
        let name = above.chain([title.as_str()]).collect::<Vec<_>>().join(" > ");
        note(&mut self.reading, &name, passed);
        self.open.truncate(level);
    }
}

/// A file that fails as a whole stands among the tests under its own path.
fn note(reading: &mut Reading, name: &str, passed: bool) {
    let is_file = name.starts_with('/') && !name.contains(" > ");
    match (passed, is_file) {
        (true, true) => {}
        (true, false) => reading.pass(name.to_owned()),
        (false, true) => reading.errors.push(diagnostic("", name, 0, "test file failed to run")),
        (false, false) => reading.fail(name, "", "test failed"),
    }
}

/// `▶ math`, below it `  ✔ adds (0.6ms)`, and `✖ math (7ms)` where the suite ends.
fn from_spec(output: &str) -> Reading {
    let mut reading = Reading::default();
    let mut open: Vec<&str> = Vec::new();
    for line in output.lines() {
        let text = line.trim_start();
        let level = (line.len() - text.len()) / 2;
        if text.starts_with("✖ failing tests") || line.starts_with("ℹ tests ") {
            break;
        }
        let (passed, rest) = match text.split_once(' ') {
            Some(("▶", title)) => {
                open.truncate(level);
                open.push(title);
                continue;
            }
            Some(("✔", rest)) => (true, rest),
            Some(("✖", rest)) => (false, rest),
            _ => continue,
        };
        let Some((title, behind)) = rest.rsplit_once(" (") else { continue };
        let ends_suite = open.len() == level + 1 && open[level] == title;
        open.truncate(level);
        if ends_suite || behind.contains("# SKIP") || behind.contains("# TODO") {
            continue;
        }
        let name = open.iter().copied().chain([title]).collect::<Vec<_>>().join(" > ");
        note(&mut reading, &name, passed);
    }
    reading
}
