//! What `run_bash` tells git, so that nothing that a repository says starts a program.
//!
//! The environment names the repository outright (an embedded one is never found), switches the system's
//! and the user's configuration off, and overrides every key of the repository's own that names a
//! program. Attributes are read from the empty tree, so that no filter is chosen by a file of the
//! workspace; the filters that the repository's own configuration or `info/attributes` know are emptied
//! as well. Never here: processes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};

use crate::repo::{RepoError, Staging, Workspace, gitlinks};

/// The most of a repository's own file that is read, in bytes.
const MAX_READ: u64 = 16 << 20;
/// The most files that a configuration is read from, with all that it includes.
const MAX_FILES: usize = 64;
/// The most names that are overridden one by one: each is some words of git's environment.
const MAX_NAMES: usize = 4096;
/// The empty tree, which git knows without having it, by the repository's hash.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
const EMPTY_TREE_SHA256: &str = "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321";

/// Settings that outrank the repository's own. An empty value resets or means "none".
const SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.untrackedCache", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.pager", "cat"),
    ("core.editor", "false"),
    ("core.askPass", ""),
    ("core.sshCommand", "false"),
    ("core.gitProxy", ""),
    ("core.alternateRefsCommand", "true"),
    ("core.preloadIndex", "false"),
    // Sharing is the engine's affair: no job may set a group's bit.
    ("core.sharedRepository", "umask"),
    ("sequence.editor", "false"),
    ("credential.helper", ""),
    ("diff.external", ""),
    ("diff.orderFile", "/dev/null"),
    ("diff.submodule", "short"),
    ("diff.ignoreSubmodules", "dirty"),
    ("status.submoduleSummary", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("interactive.diffFilter", ""),
    ("log.showSignature", "false"),
    ("log.mailmap", "false"),
    ("log.diffMerges", "separate"),
    ("format.pretty", "medium"),
    ("blame.ignoreRevsFile", ""),
    ("mailmap.file", "/dev/null"),
    ("grep.fallbackToNoIndex", "false"),
    ("gpg.format", "openpgp"),
    ("gpg.program", "false"),
    ("gpg.openpgp.program", "false"),
    ("gpg.x509.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("gpg.ssh.allowedSignersFile", "/dev/null"),
    ("safe.bareRepository", "explicit"),
    ("protocol.allow", "never"),
    ("gc.auto", "0"),
    // A large file becomes an object like every other, and no pack.
    ("core.bigFileThreshold", "2g"),
    ("maintenance.auto", "false"),
    ("advice.addEmbeddedRepo", "false"),
    ("color.ui", "false"),
];

/// The repository that a workspace's git commands use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GitPlace {
    /// Where `HEAD` and the index are.
    pub git_dir: PathBuf,
    /// Where objects, references and the configuration are; the same unless it is a linked worktree.
    pub common: PathBuf,
    /// The top of the working tree.
    pub top: PathBuf,
    /// Object directories that it borrows from.
    pub alternates: Vec<PathBuf>,
    /// What the working tree says of its submodules.
    modules: String,
}

impl GitPlace {
    /// The repository of a workspace; `None` when it has none.
    pub(super) fn of(workspace: &Workspace) -> Option<Self> {
        let git_dir = &workspace.git_dir;
        if git_dir.as_os_str().is_empty() || !git_dir.is_dir() {
            return None;
        }
        let common = common_dir(git_dir);
        // A workspace below the top of its repository (one call on any directory) sees the whole.
        let top = match git_dir.parent() {
            Some(parent) if git_dir.ends_with(".git") && workspace.path.starts_with(parent) => {
                parent
            }
            _ => &workspace.path,
        };
        // By the open directory where there is one: on the host something else may be at its path.
        let modules = match top == workspace.path {
            true => read_some(&workspace.root, Path::new(".gitmodules")),
            false => read_some(CWD, &top.join(".gitmodules")),
        };
        let alternates = alternates(&common.join("objects"));
        let (git_dir, top) = (git_dir.to_owned(), top.to_owned());
        Some(Self { git_dir, common, top, alternates, modules })
    }

    /// Pathspecs that leave out every other repository that stands in this one: `git add` and `git rm`
    /// would start git in it, where its own configuration names programs.
    ///
    /// # Errors
    /// In words, when it can't be told which those are.
    pub(super) fn without_embedded(&self, workspace: &Workspace) -> Result<Vec<OsString>, String> {
        let inside = |path: &Path| match self.top == workspace.path {
            true => rustix::fs::statat(&workspace.root, path, AtFlags::SYMLINK_NOFOLLOW).is_ok(),
            false => self.top.join(path).symlink_metadata().is_ok(),
        };
        let links = gitlinks(&self.git_dir.join("index")).map_err(|error| {
            format!(
                "it can't be told which repositories stand within this one, in which git would be started ({error}); a \
                 split or sparse index is turned off with `git update-index --no-split-index` and `git sparse-checkout \
                 reapply --no-sparse-index`"
            )
        })?;
        let links = links.into_iter().map(OsString::from_vec);
        let there = links.filter(|path| inside(&Path::new(path).join(".git")));
        let spec = |path: OsString| {
            let mut spec = OsString::from(":(exclude,top,literal)");
            spec.push(path);
            spec
        };
        Ok(there.map(spec).collect())
    }

    /// The pathspec for the workspace, which may be a part of the working tree.
    pub(super) fn only(&self, workspace: &Workspace) -> OsString {
        let inside = workspace.path.strip_prefix(&self.top).unwrap_or(Path::new(""));
        if inside.as_os_str().is_empty() {
            return ":(top)".into();
        }
        let mut spec = OsString::from(":(top,literal)");
        spec.push(inside);
        spec
    }

    /// A place for what a command stages.
    ///
    /// # Errors
    /// When another one stages here, or the disk refuses.
    pub(super) fn stage(&self) -> Result<Staging, RepoError> {
        Staging::begin(&self.git_dir, &self.common.join("objects"))
    }

    /// The environment for git.
    pub(super) fn env(&self, known: &Known) -> Vec<(OsString, OsString)> {
        let empty_tree = if known.sha256 { EMPTY_TREE_SHA256 } else { EMPTY_TREE };
        let mut env = fixed_env();
        env.extend([
            ("GIT_DIR".into(), self.git_dir.clone().into_os_string()),
            ("GIT_WORK_TREE".into(), self.top.clone().into_os_string()),
            ("GIT_ATTR_SOURCE".into(), empty_tree.into()),
        ]);
        if self.common != self.git_dir {
            env.push(("GIT_COMMON_DIR".into(), self.common.clone().into_os_string()));
        }
        let mut settings: Vec<(String, &str)> =
            SETTINGS.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        for filter in &known.filters {
            for part in ["clean", "smudge", "process"] {
                settings.push((format!("filter.{filter}.{part}"), ""));
            }
            settings.push((format!("filter.{filter}.required"), "false"));
        }
        settings.extend(known.hooks.iter().map(|name| (format!("hook.{name}.enabled"), "false")));
        settings.extend(
            known.submodules.iter().map(|name| (format!("submodule.{name}.ignore"), "dirty")),
        );
        push_settings(&mut env, &settings);
        env
    }

    /// What the repository's own files name, with whatever they include, on whatever condition. Filters are known
    /// from here alone where git is older than 2.41, which knows no `GIT_ATTR_SOURCE`.
    ///
    /// # Errors
    /// When there is more than is read: what is not known can't be overridden.
    pub(super) fn known(&self) -> Result<Known, String> {
        let mut known = Known::default();
        let mut waiting = vec![self.common.join("config"), self.git_dir.join("config.worktree")];
        let mut seen = BTreeSet::new();
        while let Some(path) = waiting.pop() {
            if !seen.insert(path.clone()) {
                continue;
            }
            let text = read_some(CWD, &path);
            if seen.len() > MAX_FILES || text.len() as u64 >= MAX_READ {
                return Err("the repository's configuration is too large, or includes too many files, to be looked through".to_owned());
            }
            known.take_sections(&text);
            let dir = path.parent().unwrap_or(Path::new("/"));
            waiting.extend(included(&text).map(|name| dir.join(name)));
        }
        known.take_sections(&self.modules);
        let attributes = read_some(CWD, &self.common.join("info/attributes"));
        let names = attributes.split_whitespace().filter_map(|word| word.strip_prefix("filter="));
        known.filters.extend(names.map(str::to_owned));
        if known.filters.len() + known.submodules.len() + known.hooks.len() > MAX_NAMES {
            return Err(
                "the repository's configuration names too many filters, hooks or submodules"
                    .to_owned(),
            );
        }
        Ok(known)
    }
}

/// What files a configuration includes: the value of every key `path`. One that is no include does no harm. One
/// below `~` is not there for git: the job's home is empty.
fn included(text: &str) -> impl Iterator<Item = String> {
    let lower = text.to_ascii_lowercase();
    let keys: Vec<usize> = lower.match_indices("path").map(|(at, key)| at + key.len()).collect();
    keys.into_iter().filter_map(|at| {
        let value = text[at..].trim_start_matches([' ', '\t']).strip_prefix('=')?;
        Some(unquoted(value)).filter(|path| !path.is_empty() && !path.contains('\0'))
    })
}

/// A value as git reads it: quotes and escapes undone, without comments, over continued lines.
fn unquoted(text: &str) -> String {
    let (mut value, mut quoted) = (String::new(), false);
    let mut chars = text.trim_start_matches([' ', '\t']).chars();
    while let Some(c) = chars.next() {
        match c {
            '\n' => break,
            '#' | ';' if !quoted => break,
            '"' => quoted = !quoted,
            '\\' => match chars.next() {
                Some('\n') | None => {}
                Some('\r') => drop(chars.next()),
                Some('t') => value.push('\t'),
                Some('n') => value.push('\n'),
                Some('b') => value.push('\u{8}'),
                Some(c) => value.push(c),
            },
            c => value.push(c),
        }
    }
    value.trim_end().to_owned()
}

/// The beginning of a regular file, or nothing.
fn read_some(dir: impl AsFd, path: &Path) -> String {
    // A parser that follows includes could be led to a FIFO and wait there for ever.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let Ok(fd) = rustix::fs::openat(dir, path, flags, Mode::empty()) else { return String::new() };
    let file = std::fs::File::from(fd);
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return String::new();
    }
    let mut bytes = Vec::new();
    // What was read before an error still counts.
    let _ = file.take(MAX_READ).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Names in a repository's own files.
#[derive(Debug, Default)]
pub(super) struct Known {
    filters: BTreeSet<String>,
    submodules: BTreeSet<String>,
    /// Hooks that newer versions of git take from the configuration.
    hooks: BTreeSet<String>,
    /// Whether its objects are named by SHA-256.
    pub sha256: bool,
}

impl Known {
    /// Takes the names of all sections, wherever a bracket stands: one too many does no harm.
    fn take_sections(&mut self, text: &str) {
        let squeezed: String = text.to_lowercase().split_whitespace().collect();
        self.sha256 |= squeezed.contains("objectformat=sha256");
        for header in text.split('[').skip(1) {
            let Some((section, name)) = section_name(header) else { continue };
            match section.as_str() {
                "filter" => self.filters.insert(name),
                "submodule" => self.submodules.insert(name),
                "hook" => self.hooks.insert(name),
                _ => false,
            };
        }
    }
}

/// `filter "name"]` or the old `filter.name]`.
fn section_name(header: &str) -> Option<(String, String)> {
    let end = header.find(|c: char| !c.is_ascii_alphanumeric() && c != '-')?;
    let section = header[..end].to_ascii_lowercase();
    if let Some(old) = header[end..].strip_prefix('.') {
        return Some((section, old.split_once(']')?.0.to_lowercase()));
    }
    let mut chars = header[end..].trim_start_matches([' ', '\t']).strip_prefix('"')?.chars();
    let mut name = String::new();
    loop {
        match chars.next()? {
            '"' => return Some((section, name)),
            '\\' => name.push(chars.next()?),
            c => name.push(c),
        }
    }
}

/// What git is told without a repository too.
pub(super) fn fixed_env() -> Vec<(OsString, OsString)> {
    let fixed = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
        ("GIT_PROTOCOL_FROM_USER", "0"),
        ("GIT_DISCOVERY_ACROSS_FILESYSTEM", "0"),
        ("GIT_PAGER", "cat"),
        ("GIT_EDITOR", "false"),
        ("GIT_SEQUENCE_EDITOR", "false"),
        ("GIT_ASKPASS", "false"),
        ("GIT_SSH_COMMAND", "false"),
        ("GIT_CEILING_DIRECTORIES", "/"),
    ];
    fixed.into_iter().map(|(key, value)| (key.into(), value.into())).collect()
}

/// Settings as git takes them from the environment: keys stand apart, so that no name can break out.
fn push_settings(env: &mut Vec<(OsString, OsString)>, settings: &[(String, &str)]) {
    env.push(("GIT_CONFIG_COUNT".into(), settings.len().to_string().into()));
    for (index, (key, value)) in settings.iter().enumerate() {
        env.push((format!("GIT_CONFIG_KEY_{index}").into(), key.into()));
        env.push((format!("GIT_CONFIG_VALUE_{index}").into(), value.into()));
    }
}

/// Where a linked worktree's git directory says that the rest is. It is mounted, so that a forged one
/// must not name any directory.
fn common_dir(git_dir: &Path) -> PathBuf {
    let named = read_some(CWD, &git_dir.join("commondir"));
    let common = std::fs::canonicalize(git_dir.join(named.trim())).ok();
    let real = |path: &PathBuf| path.join("objects").is_dir() && path.join("refs").is_dir();
    common.filter(real).unwrap_or_else(|| git_dir.to_owned())
}

/// The object directories that `objects` borrows from; one level, which is all that the engine makes.
fn alternates(objects: &Path) -> Vec<PathBuf> {
    let text = read_some(CWD, &objects.join("info/alternates"));
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let paths = lines.filter_map(|line| std::fs::canonicalize(objects.join(line)).ok());
    paths.filter(|path| path.ends_with("objects") && path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_filters_and_submodules_are_found_and_emptied() {
        let dir = tempfile::TempDir::new().unwrap();
        let git = dir.path().join(".git");
        std::fs::create_dir_all(git.join("info")).unwrap();
        std::fs::write(
            git.join("config"),
            "[filter \"a=b.c\"]\nclean = x\n[Filter \"two\"] process = y\nrequired\n[filter.old]\n[core][filter \"q\\\"q\"]\n[hook \"h\"]\n[include] path = more.cfg\n[includeIf \"gitdir:/nowhere\"]\n PATH = \"sub dir/e\\\nnd.cfg\" ; x\n",
        )
        .unwrap();
        std::fs::create_dir(git.join("sub dir")).unwrap();
        std::fs::write(git.join("more.cfg"), "[filter \"four\"]\n[include]\npath=config\n")
            .unwrap();
        std::fs::write(git.join("sub dir/end.cfg"), "[filter \"five\"]\n").unwrap();
        std::fs::write(git.join("info/attributes"), "* -filter\n*.x filter=three text\n").unwrap();
        std::fs::write(dir.path().join(".gitmodules"), "[submodule \"sub\"]\npath = sub\n")
            .unwrap();
        let space = crate::tools::open_workspace(dir.path()).unwrap();
        let place = GitPlace::of(&space).unwrap();
        let env = place.env(&place.known().unwrap());
        let values: Vec<String> =
            env.iter().map(|(_, value)| value.to_string_lossy().into_owned()).collect();
        for key in [
            "filter.a=b.c.clean",
            "filter.two.process",
            "filter.three.smudge",
            "filter.old.clean",
            "filter.four.clean",
            "filter.five.clean",
            "filter.q\"q.clean",
            "hook.h.enabled",
            "submodule.sub.ignore",
            "core.fsmonitor",
        ] {
            assert!(values.iter().any(|value| value == key), "{key}");
        }
        let count: usize = env
            .iter()
            .find(|(key, _)| key == "GIT_CONFIG_COUNT")
            .unwrap()
            .1
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        assert_eq!(
            env.iter()
                .filter(|(key, _)| key.to_string_lossy().starts_with("GIT_CONFIG_KEY_"))
                .count(),
            count
        );
        std::fs::write(git.join("config"), " ".repeat(16 << 20)).unwrap();
        assert!(place.known().is_err());
        let none = Workspace::borrowed(space.root, space.path, PathBuf::new());
        assert!(GitPlace::of(&none).is_none());
    }
}
