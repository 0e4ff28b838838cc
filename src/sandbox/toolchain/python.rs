//! Python: the system's, pyenv's, uv's, or a virtual environment on the `PATH`; pip offline.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::super::job::Mount;
use super::{Search, Toolchains};

/// Adds Python interpreters and what they load from. A user's `pip.conf` is never shown.
pub(super) fn find(search: &mut Search<'_>) {
    let programs: Vec<PathBuf> =
        ["python3", "python"].into_iter().filter_map(|name| search.program(name)).collect();
    if programs.is_empty() {
        return;
    }
    for program in &programs {
        match pyenv_root(program) {
            Some(root) => show_pyenv(search, &root),
            None => show_interpreter(search, program),
        }
    }
    // What virtual environments of uv link to.
    search.show(&search.home.join(".local/share/uv/python"));
    search.toolchains.caches.extend(super::caches::of_python());
    search.env("PIP_NO_INDEX", "1");
    search.env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
    search.env("PYTHONNOUSERSITE", "1");
}

/// Shows the interpreter that a virtual environment was made with, which its own programs are links to.
pub(super) fn show_base_of(search: &mut Search<'_>, environment: &Path) {
    let Ok(config) = std::fs::read_to_string(environment.join("pyvenv.cfg")) else { return };
    let home = config.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "home").then(|| PathBuf::from(value.trim()))
    });
    let Some(home) = home.filter(|home| home.is_absolute()) else { return };
    for name in ["python3", "python"] {
        let program = home.join(name);
        if super::executable(&program) {
            return search.show_installation(&program);
        }
    }
}

/// The root of pyenv when the program is one of its shims.
fn pyenv_root(program: &Path) -> Option<PathBuf> {
    let root = program.parent().filter(|dir| dir.ends_with("shims"))?.parent()?;
    root.join("versions").is_dir().then(|| root.to_owned())
}

fn show_pyenv(search: &mut Search<'_>, root: &Path) {
    if search.sees(root) {
        return;
    }
    search.show(root);
    search.env("PYENV_ROOT", root);
}

/// An interpreter of its own, or of a virtual environment, whose real interpreter is elsewhere.
fn show_interpreter(search: &mut Search<'_>, program: &Path) {
    let environment = program.parent().and_then(Path::parent);
    if let Some(environment) = environment.filter(|dir| dir.join("pyvenv.cfg").is_file()) {
        search.show(environment);
    }
    search.show_installation(program);
}

/// A Python interpreter, ready for a job that has nothing else of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Python {
    /// The program.
    pub program: PathBuf,
    /// What a job must see to run it, in this order.
    pub mounts: Vec<Mount>,
    /// The job's environment.
    pub env: Vec<(OsString, OsString)>,
}

/// The interpreter that stands first on `path`, if there is one. Whether it works, and is Python 3, only
/// running it tells.
pub fn discover_python(path: &OsStr, home: &Path) -> Option<Python> {
    let mut search = Search::new(path, home);
    find(&mut search);
    let Toolchains { mounts, env, found, .. } = search.finish();
    let program = found.into_iter().next()?.1;
    Some(Python { program, mounts, env })
}
