//! Git: the operator's own, for the commands of a worker.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::super::job::Mount;
use super::{Search, Toolchains};

/// A git, ready for a job that has nothing else of the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Git {
    /// The program.
    pub program: PathBuf,
    /// What a job must see to run it: its installation, with the programs that it is made of.
    pub mounts: Vec<Mount>,
}

/// The git that stands first on `path`, if there is one. Whether it works, and how old it is, only running it
/// tells.
pub fn discover_git(path: &OsStr, home: &Path) -> Option<Git> {
    let mut search = Search::new(path, home);
    let program = search.program("git")?;
    search.show_installation(&program);
    let Toolchains { mounts, .. } = search.finish();
    let mounts = mounts.into_iter().filter(|mount| matches!(mount, Mount::ReadOnly { .. }));
    Some(Git { program, mounts: mounts.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_git_comes_with_its_installation() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let program = top.join("git-3/bin/git");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, "").unwrap();
        let path =
            std::env::join_paths([program.parent().unwrap(), Path::new("/usr/bin")]).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o644)).unwrap();
        let found = discover_git(&path, &top.join("home"));
        assert!(found.is_none_or(|git| git.program == Path::new("/usr/bin/git") && git.mounts.is_empty()));
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let found = discover_git(&path, &top.join("home")).unwrap();
        let shown = top.join("git-3");
        assert_eq!(found.mounts, [Mount::ReadOnly { from: shown.clone(), at: shown }]);
        assert_eq!(found.program, program);
        assert!(discover_git(top.as_os_str(), &top).is_none());
    }
}
