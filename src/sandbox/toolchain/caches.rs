//! Dependency caches that the engine owns: a `setup` with a network fills them, and what runs after it
//! sees them read-only in place of the user's own.
//!
//! One directory for each repository, so that the setup of one can't put anything before the gates of
//! another. Never here: whether there may be a network.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::{JOB_HOME, Toolchains};
use crate::sandbox::Mount;

/// Variables that tell tools that there is no network; they would keep setup from using its own.
const OFFLINE: [&str; 5] =
    ["CARGO_NET_OFFLINE", "npm_config_offline", "PIP_NO_INDEX", "GOPROXY", "GOSUMDB"];

/// A cache of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cache {
    /// Its directory below the engine's, or a file when `is_lock`.
    below: &'static str,
    /// Where the tool looks for it.
    at: PathBuf,
    /// Who sees it.
    seen_by: SeenBy,
    /// A lock of the tool's own, so that two setups know of each other.
    is_lock: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeenBy {
    Setup,
    Gates,
    Both,
}

impl Cache {
    const fn new(below: &'static str, at: PathBuf, seen_by: SeenBy) -> Self {
        Self { below, at, seen_by, is_lock: false }
    }
}

/// Of cargo: downloaded sources. The rest of its home is private to each job.
pub(super) fn of_cargo(cargo_home: &Path) -> Vec<Cache> {
    let lock = Cache::new("cargo/.package-cache", cargo_home.join(".package-cache"), SeenBy::Setup);
    vec![
        Cache::new("cargo/registry", cargo_home.join("registry"), SeenBy::Both),
        Cache::new("cargo/git", cargo_home.join("git"), SeenBy::Both),
        Cache { is_lock: true, ..lock },
    ]
}

/// Of npm. It writes beside what it reads, so that gates see only the parts that are read.
pub(super) fn of_npm() -> Vec<Cache> {
    let at = |name: &str| Path::new(JOB_HOME).join(".npm").join(name);
    vec![
        Cache::new("npm/_cacache", at("_cacache"), SeenBy::Setup),
        Cache::new("npm/_cacache/content-v2", at("_cacache/content-v2"), SeenBy::Gates),
        Cache::new("npm/_cacache/index-v5", at("_cacache/index-v5"), SeenBy::Gates),
    ]
}

/// Of pip and uv: what was downloaded, and a directory for wheels that is looked at without a network.
pub(super) fn of_python() -> Vec<Cache> {
    let home = Path::new(JOB_HOME);
    vec![
        Cache::new("pip", home.join(".cache/pip"), SeenBy::Setup),
        Cache::new("uv", home.join(".cache/uv"), SeenBy::Setup),
        Cache::new("wheels", wheels(), SeenBy::Both),
    ]
}

/// Where wheels are looked for.
fn wheels() -> PathBuf {
    Path::new(JOB_HOME).join("wheels")
}

/// Of go: unpacked modules.
pub(super) fn of_go() -> Vec<Cache> {
    vec![Cache::new("go/mod", modules(), SeenBy::Both)]
}

fn modules() -> PathBuf {
    Path::new(JOB_HOME).join("go/pkg/mod")
}

impl Toolchains {
    /// The same tools for a `setup` with a network: what it fetches is kept in `dir`.
    ///
    /// # Errors
    /// When the caches can't be made.
    pub fn filling(&self, dir: &Path) -> io::Result<Self> {
        let mut tools = self.redirected();
        tools.env.retain(|(name, _)| !OFFLINE.iter().any(|offline| name == offline));
        for cache in self.caches.iter().filter(|cache| cache.seen_by != SeenBy::Gates) {
            let from = dir.join(cache.below);
            make(&from, cache.is_lock)?;
            tools.replace(Mount::ReadWrite { from, at: cache.at.clone() });
        }
        // So that gates find each of them, however little setup has fetched.
        for cache in self.caches.iter().filter(|cache| cache.seen_by != SeenBy::Setup) {
            make(&dir.join(cache.below), false)?;
        }
        Ok(tools)
    }

    /// The same tools for what runs after a setup that was [filling](Self::filling) `dir`.
    pub fn after_filling(&self, dir: &Path) -> Self {
        let mut tools = self.redirected();
        for cache in self.caches.iter().filter(|cache| cache.seen_by != SeenBy::Setup) {
            let from = dir.join(cache.below);
            tools.replace(Mount::ReadOnly { from, at: cache.at.clone() });
        }
        // Output that was made with other dependencies must not pass for the same.
        tools.found.push(("dependencies".into(), dir.to_owned()));
        tools
    }

    fn knows(&self, name: &str) -> bool {
        self.found.iter().any(|(known, _)| known == name)
    }

    /// Tools whose caches are all where the engine's are put.
    fn redirected(&self) -> Self {
        let mut tools = self.clone();
        if tools.knows("go") {
            tools.env.retain(|(name, _)| name != "GOMODCACHE");
            tools.env.push(("GOMODCACHE".into(), modules().into()));
        }
        if tools.knows("python3") || tools.knows("python") {
            tools.env.push(("PIP_FIND_LINKS".into(), wheels().into()));
        }
        tools
    }

    /// Adds a mount, in place of what was to be seen there.
    fn replace(&mut self, mount: Mount) {
        let at_of = |mount: &Mount| match mount {
            Mount::ReadOnly { at, .. } | Mount::ReadWrite { at, .. } | Mount::Tmp { at, .. } => {
                Some(at.clone())
            }
            _ => None,
        };
        let at = at_of(&mount);
        self.mounts.retain(|known| at_of(known) != at);
        self.mounts.push(mount);
    }
}

fn make(path: &Path, is_file: bool) -> io::Result<()> {
    if !is_file {
        return fs::create_dir_all(path);
    }
    fs::create_dir_all(path.parent().unwrap_or(path))?;
    OpenOptions::new().append(true).create(true).open(path).map(drop)
}
