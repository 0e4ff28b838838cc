//! Making a small repository of given files: the demo's and the selftests'.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use git2::{IndexAddOption, Repository, RepositoryInitOptions, Signature, Time};

use super::error::{GitContext, IoContext, RepoError, Result};
use crate::model::CommitId;

/// Makes a repository in the empty or absent directory `dir` with one commit that holds `files`
/// (path and contents). The commit's author and time are fixed, so that its id depends on the files
/// alone.
///
/// # Errors
/// When the disk refuses or a path leaves the directory.
pub fn seed(dir: &Path, files: &[(PathBuf, Vec<u8>)]) -> Result<CommitId> {
    for (path, bytes) in files {
        if path.is_absolute() || path.components().any(|part| part.as_os_str() == "..") {
            return Err(RepoError::UnsafePath { path: path.display().to_string() });
        }
        let place = dir.join(path);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).at("create", parent)?;
        }
        fs::write(&place, bytes).at("write", &place)?;
        fs::set_permissions(&place, fs::Permissions::from_mode(0o644)).at("write", &place)?;
    }
    let mut options = RepositoryInitOptions::new();
    // No template of the machine's: its hooks are nobody's business here.
    options.no_reinit(true).external_template(false).initial_head("main");
    let repo = Repository::init_opts(dir, &options).doing("make a repository")?;
    commit_all(&repo)
}

fn commit_all(repo: &Repository) -> Result<CommitId> {
    let mut index = repo.index().doing("open the index")?;
    index.add_all(["*"], IndexAddOption::DEFAULT, None).doing("add the files")?;
    index.write().doing("write the index")?;
    let tree =
        repo.find_tree(index.write_tree().doing("write the tree")?).doing("read the tree")?;
    let author = Signature::new("bakeoff", "bakeoff@example.invalid", &Time::new(1_700_000_000, 0))
        .doing("sign the commit")?;
    let id = repo
        .commit(Some("HEAD"), &author, &author, "Base\n", &tree, &[])
        .doing("make the commit")?;
    Ok(CommitId::new(id.to_string()))
}
