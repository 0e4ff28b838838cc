//! The run's bare repository on disk, and each workspace's over it: own objects, configuration and one
//! branch; no hooks.
//!
//! Written by hand, because a template of the system or the user must not get in. Never here: objects.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::error::{IoContext, Result};
use super::files;

/// The branch that shows the base.
const BRANCH: &str = "refs/heads/base";

/// The whole configuration. Nothing of it names a program; what would look for one is off.
const CONFIG: &str = "[core]
\trepositoryformatversion = 0
\tbare = true
\tfilemode = true
\tlogallrefupdates = false
\thooksPath = /dev/null
\tfsmonitor = false
\tuntrackedCache = false
\tattributesFile = /dev/null
\texcludesFile = /dev/null
\tautocrlf = false
[gc]
\tauto = 0
[maintenance]
\tauto = false
[submodule]
\trecurse = false
";

/// Outranks the attributes files of the base: no conversion, filter, text conversion or merge program.
const ATTRIBUTES: &str = "* -text -filter -ident -working-tree-encoding !diff !merge !eol\n";

/// What a run's repository stands on, kept beside it so that a resume needs nothing else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// The base tree.
    pub(crate) tree: String,
    /// The commit that `HEAD` of a workspace names.
    pub(crate) commit: String,
    /// The user's commit under it.
    pub(crate) user_commit: String,
    /// Whether the tree holds uncommitted changes.
    pub(crate) dirty: bool,
    /// The user's working tree.
    pub(crate) top: Vec<u8>,
}

/// Lays out the directory, without objects and branch. Doing it again changes nothing.
pub(crate) fn lay_out(dir: &Path) -> Result<()> {
    for sub in ["objects/pack", "objects/info", "refs/heads", "info"] {
        let path = dir.join(sub);
        files::make_private(&path).at("create", &path)?;
    }
    let parts = [
        ("HEAD", format!("ref: {BRANCH}\n")),
        ("config", CONFIG.into()),
        ("info/attributes", ATTRIBUTES.into()),
    ];
    for (name, text) in parts {
        let path = dir.join(name);
        files::put(&path, text.as_bytes()).at("write", &path)?;
    }
    Ok(())
}

/// Shows the base, cut off from its parents when it has some, and marks the repository complete.
pub(crate) fn complete(dir: &Path, base: &Base, shallow: &[String]) -> Result<()> {
    let mut write = vec![(dir.join(BRANCH), format!("{}\n", base.commit))];
    if !shallow.is_empty() {
        write.push((dir.join("shallow"), shallow.iter().map(|id| format!("{id}\n")).collect()));
    }
    let mark = serde_json::to_string(base).map_err(std::io::Error::from);
    write.push((dir.join("bakeoff.json"), mark.at("write", dir)?));
    for (path, text) in write {
        files::replace(&path, text.as_bytes()).at("write", &path)?;
    }
    Ok(())
}

/// Lays out a workspace's own repository in a fresh directory: the base is borrowed from the run's at
/// `run`, `HEAD` is `commit`, and what is added lies here alone, where no other lane looks.
///
/// Two directories below the run's own, which the paths in it say.
pub(crate) fn lay_out_lane(dir: &Path, run: &Path, commit: &str) -> Result<()> {
    for sub in ["objects/info", "refs/heads", "info"] {
        let path = dir.join(sub);
        files::make_private(&path).at("create", &path)?;
    }
    let line = format!("{commit}\n");
    let mut parts = vec![
        ("HEAD", line.clone()),
        (BRANCH, line),
        ("config", CONFIG.replace("bare = true", "bare = false")),
        ("info/attributes", ATTRIBUTES.to_owned()),
        ("objects/info/alternates", "../../../repo.git/objects\n".to_owned()),
    ];
    match fs::read_to_string(run.join("shallow")) {
        Ok(border) => parts.push(("shallow", border)),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        Err(e) => return Err(e).at("read", run),
    }
    for (name, text) in parts {
        let path = dir.join(name);
        fs::write(&path, text).at("write", &path)?;
    }
    Ok(())
}

/// What a complete repository stands on; nothing when there is none.
pub(crate) fn read(dir: &Path) -> Result<Option<Base>> {
    let path = dir.join("bakeoff.json");
    match fs::read(&path) {
        Ok(text) => {
            let base = serde_json::from_slice(&text).map_err(std::io::Error::from);
            base.at("read", &path).map(Some)
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e).at("read", &path),
    }
}

/// Makes `dir`, which is laid out, a repository over the objects of another one, which is not written to.
/// Nothing when that one is not complete.
pub(crate) fn borrow(dir: &Path, theirs: &Path) -> Result<Option<Base>> {
    let Some(base) = read(theirs)? else { return Ok(None) };
    for name in [BRANCH, "shallow", "bakeoff.json"] {
        let (from, to) = (theirs.join(name), dir.join(name));
        match fs::read(&from) {
            Ok(bytes) => files::replace(&to, &bytes).at("write", &to)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).at("read", &from),
        }
    }
    let alternates = dir.join("objects/info/alternates");
    let line = [theirs.join("objects").as_os_str().as_bytes(), b"\n"].concat();
    files::replace(&alternates, &line).at("write", &alternates)?;
    Ok(Some(base))
}
