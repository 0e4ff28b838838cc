//! What the gates of a base stand on besides its files: carried directories, and what decides whether
//! output of an earlier run may be used again.
//!
//! Never here: copying (see `repo`), and a process.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::model::GatePlan;
use crate::sandbox::toolchain::Toolchains;

/// Directories of carried paths that hold programs, below `root` as a job sees it.
pub fn program_dirs(root: &Path, carried: &[String]) -> Vec<PathBuf> {
    let bin = |path: &String| match path.rsplit('/').next() {
        Some(".venv" | "venv" | "env") => Some(root.join(path).join("bin")),
        Some("node_modules") => Some(root.join(path).join(".bin")),
        _ => None,
    };
    carried.iter().filter_map(bin).collect()
}

/// All that a gate's output depends on besides the tree and what is carried along: the commands, where
/// and how they run, their environment, and the tools by their programs' size and time.
pub fn made_by(plan: &GatePlan, env: &[(OsString, OsString)], tools: &Toolchains) -> Vec<u8> {
    let mut all = Vec::new();
    let mut put = |bytes: &[u8]| {
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(bytes);
    };
    for command in [&plan.setup, &plan.check, &plan.test] {
        put(command.as_ref().map_or("", |command| &command.line).as_bytes());
    }
    put(format!("{} {}", plan.dir, plan.setup_network).as_bytes());
    for (name, value) in env.iter().chain(&tools.env) {
        put(name.as_bytes());
        put(value.as_bytes());
    }
    for (name, program) in &tools.found {
        put(name.as_bytes());
        let real = program.canonicalize().unwrap_or_else(|_| program.clone());
        put(real.as_os_str().as_bytes());
        let state = std::fs::metadata(&real).map(|meta| (meta.size(), meta.mtime(), meta.ino()));
        put(format!("{:?}", state.ok()).as_bytes());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_carried_directories_come_first() {
        let carried = ["a/node_modules".to_owned(), "target".to_owned(), ".venv".to_owned()];
        assert_eq!(
            program_dirs(Path::new("/w"), &carried),
            [Path::new("/w/a/node_modules/.bin"), Path::new("/w/.venv/bin")]
        );
    }
}
