//! Finds the user's build tools and makes them usable inside a job: read-only, with private
//! writable caches, without a network and without any credentials.
//!
//! Works on the `PATH` and the home directory that it is given, and on files; starts nothing and
//! never reads the environment. One file per family of tools. A tool in the system's own
//! directories needs no mount.

mod caches;
mod git;
mod go;
mod node;
mod python;
mod rust;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

pub use git::{Git, discover_git};
pub use python::{Python, discover_python};

use super::job::Mount;

/// The home directory of every job: empty, private, gone with the job.
const JOB_HOME: &str = "/home/bakeoff-job";
/// Size of a private cache directory.
const CACHE_BYTES: u64 = 4 << 30;
/// Directories that every job sees anyway.
const SYSTEM: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"];

/// The tools that were found, ready to be added to a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Toolchains {
    /// What a job must see, in this order.
    pub mounts: Vec<Mount>,
    /// A job's environment: `PATH`, `HOME`, and what makes each tool work offline.
    pub env: Vec<(OsString, OsString)>,
    /// Name and program of each tool, for `doctor`.
    pub found: Vec<(String, PathBuf)>,
    /// Caches of build output outside the tree that know each entry by what it was made of, so that what
    /// the base's gates wrote may lie under a candidate's: a name, and where a job finds it.
    pub kept: Vec<(&'static str, PathBuf)>,
    /// Where they look for dependencies.
    caches: Vec<caches::Cache>,
}

/// Finds the tools on `path`. `home` is the user's home directory, in which they keep their parts.
pub fn discover(path: &OsStr, home: &Path) -> Toolchains {
    discover_for(path, home, &[])
}

/// As [`discover`], with the interpreters that the virtual environments in `environments` were made
/// with; other directories among them are passed over.
pub fn discover_for(path: &OsStr, home: &Path, environments: &[PathBuf]) -> Toolchains {
    let mut search = Search::new(path, home);
    rust::find(&mut search);
    node::find(&mut search);
    python::find(&mut search);
    environments.iter().for_each(|dir| python::show_base_of(&mut search, dir));
    go::find(&mut search);
    search.finish()
}

/// What the finders share.
struct Search<'a> {
    path: Vec<PathBuf>,
    home: &'a Path,
    /// Directories outside the system's that are visible in a job.
    visible: Vec<PathBuf>,
    toolchains: Toolchains,
}

impl<'a> Search<'a> {
    fn new(path: &OsStr, home: &'a Path) -> Self {
        let mut dirs: Vec<PathBuf> = Vec::new();
        for dir in std::env::split_paths(path) {
            if dir.is_absolute() && !dirs.contains(&dir) {
                dirs.push(dir);
            }
        }
        let mut search =
            Self { path: dirs, home, visible: Vec::new(), toolchains: Toolchains::default() };
        search.tmp(Path::new(JOB_HOME));
        search.env("HOME", JOB_HOME);
        search.env("XDG_CACHE_HOME", Path::new(JOB_HOME).join(".cache"));
        search.env("TMPDIR", "/tmp");
        search.env("LANG", "C.UTF-8");
        search
    }

    /// The first executable of that name on the `PATH`; it is listed as found.
    fn program(&mut self, name: &str) -> Option<PathBuf> {
        let found = self.path.iter().map(|dir| dir.join(name)).find(|file| executable(file))?;
        self.toolchains.found.push((name.into(), found.clone()));
        Some(found)
    }

    fn env(&mut self, name: &str, value: impl Into<OsString>) {
        self.toolchains.env.push((name.into(), value.into()));
    }

    /// An empty private directory.
    fn tmp(&mut self, at: &Path) {
        self.toolchains.mounts.push(Mount::Tmp { at: at.to_owned(), bytes: CACHE_BYTES });
    }

    /// Shows a path read-only where it is, unless it is not there or is visible already.
    fn show(&mut self, path: &Path) {
        if !self.sees(path) {
            self.show_again(path);
        }
    }

    /// As [`Search::show`], for what a private directory has just covered.
    fn show_again(&mut self, path: &Path) {
        if path.exists() {
            self.visible.push(path.to_owned());
            let mount = Mount::ReadOnly { from: path.to_owned(), at: path.to_owned() };
            self.toolchains.mounts.push(mount);
        }
    }

    fn sees(&self, path: &Path) -> bool {
        let system = SYSTEM.iter().map(Path::new);
        system.chain(self.visible.iter().map(PathBuf::as_path)).any(|dir| path.starts_with(dir))
    }

    /// Shows the installation that a program belongs to: the directory above its `bin`, symbolic
    /// links followed. A directory that also holds other things of the user is never shown whole.
    fn show_installation(&mut self, program: &Path) {
        let Ok(real) = program.canonicalize() else { return };
        let Some(bin) = real.parent() else { return };
        match bin.parent() {
            Some(prefix) if bin.ends_with("bin") && self.is_private_to_tools(prefix) => {
                self.show(prefix);
            }
            _ => self.show(&real),
        }
        self.show(program);
    }

    /// In the home directory that is one made for a version (`.nvm/versions/node/v22`), or a plain one
    /// with libraries (`miniconda3`). `.local` and `.cargo`, say, hold programs and secrets.
    fn is_private_to_tools(&self, prefix: &Path) -> bool {
        match prefix.strip_prefix(self.home) {
            Err(_) => !self.home.starts_with(prefix) && prefix.components().count() > 2,
            Ok(inside) => {
                let hidden = inside.to_string_lossy().starts_with('.');
                match inside.components().count() {
                    0 => false,
                    1 => !hidden && prefix.join("lib").is_dir(),
                    _ => true,
                }
            }
        }
    }

    /// Adds the `PATH`: the user's own order, without what a job can't see.
    fn finish(mut self) -> Toolchains {
        let mut dirs: Vec<PathBuf> =
            self.path.iter().filter(|dir| self.shows_into(dir)).cloned().collect();
        for dir in ["/usr/local/bin", "/usr/bin", "/bin"] {
            if !dirs.iter().any(|known| known == Path::new(dir)) {
                dirs.push(dir.into());
            }
        }
        let path =
            std::env::join_paths(dirs).unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into());
        self.env("PATH", path);
        self.toolchains
    }

    /// Whether anything of a directory of the `PATH` is visible.
    fn shows_into(&self, dir: &Path) -> bool {
        self.sees(dir) || self.visible.iter().any(|path| path.starts_with(dir))
    }
}

fn executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(file: &Path) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn shown(toolchains: &Toolchains) -> Vec<PathBuf> {
        let from = |mount: &Mount| match mount {
            Mount::ReadOnly { from, .. } => Some(from.clone()),
            _ => None,
        };
        toolchains.mounts.iter().filter_map(from).collect()
    }

    #[test]
    fn credentials_are_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let cargo = home.path().join(".cargo");
        tool(&cargo.join("bin/cargo"));
        std::fs::create_dir_all(cargo.join("registry/src")).unwrap();
        std::fs::write(cargo.join("credentials.toml"), "[registry]\ntoken = 'x'\n").unwrap();
        std::fs::write(cargo.join("config.toml"), "[registries.a]\ntoken = 'x'\n").unwrap();
        let toolchains = discover(cargo.join("bin").as_os_str(), home.path());
        assert_eq!(shown(&toolchains), [cargo.join("bin"), cargo.join("registry")]);
        std::fs::write(cargo.join("config.toml"), "[build]\njobs = 2\n").unwrap();
        let toolchains = discover(cargo.join("bin").as_os_str(), home.path());
        assert!(shown(&toolchains).contains(&cargo.join("config.toml")));
    }

    #[test]
    fn the_layout_of_container_images_is_known() {
        let (image, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cargo = image.path().join("cargo");
        tool(&cargo.join("bin/cargo"));
        tool(&cargo.join("bin/rustup"));
        std::fs::create_dir_all(image.path().join("rustup/toolchains")).unwrap();
        let toolchains = discover(cargo.join("bin").as_os_str(), home.path());
        let env = |wanted: &str| {
            toolchains.env.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
        };
        assert_eq!(env("CARGO_HOME"), Some(cargo.clone().into()));
        assert_eq!(env("RUSTUP_HOME"), Some(image.path().join("rustup").into()));
        assert_eq!(shown(&toolchains), [cargo.join("bin"), image.path().join("rustup/toolchains")]);
    }

    #[test]
    fn a_tool_in_the_home_directory_does_not_show_the_home_directory() {
        let home = tempfile::tempdir().unwrap();
        tool(&home.path().join("bin/node"));
        std::fs::write(home.path().join("secret"), "x").unwrap();
        let toolchains = discover(home.path().join("bin").as_os_str(), home.path());
        assert_eq!(shown(&toolchains), [home.path().join("bin/node")]);
        let path = &toolchains.env.iter().find(|(name, _)| name == "PATH").unwrap().1;
        assert!(std::env::split_paths(path).any(|dir| dir == home.path().join("bin")));
    }

    #[test]
    fn the_interpreter_behind_a_virtual_environment_is_shown() {
        let (home, opt) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let prefix = opt.path().canonicalize().unwrap().join("python");
        tool(&prefix.join("bin/python3"));
        let environment = home.path().join("checkout/.venv");
        std::fs::create_dir_all(&environment).unwrap();
        let config = format!("home = {}\nversion = 3.12.1\n", prefix.join("bin").display());
        std::fs::write(environment.join("pyvenv.cfg"), config).unwrap();
        let find = |dirs: &[PathBuf]| discover_for(OsStr::new("/nonesuch"), home.path(), dirs);
        assert!(shown(&find(std::slice::from_ref(&environment))).contains(&prefix));
        assert!(shown(&find(&[home.path().to_owned()])).is_empty());
        std::fs::write(environment.join("pyvenv.cfg"), "home = ../x\n").unwrap();
        assert!(shown(&find(&[environment])).is_empty());
    }

    #[test]
    fn setup_may_fill_what_gates_only_see() {
        let (home, caches) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let cargo = home.path().join(".cargo");
        tool(&cargo.join("bin/cargo"));
        std::fs::create_dir_all(cargo.join("registry")).unwrap();
        let own = discover(cargo.join("bin").as_os_str(), home.path());
        let at = |tools: &Toolchains, wanted: &Path| {
            let fits = |mount: &&Mount| match mount {
                Mount::ReadOnly { at, .. } | Mount::ReadWrite { at, .. } => at == wanted,
                _ => false,
            };
            let all: Vec<Mount> = tools.mounts.iter().filter(fits).cloned().collect();
            assert_eq!(all.len(), 1, "{tools:?}");
            all[0].clone()
        };
        let registry = cargo.join("registry");
        let from = caches.path().join("cargo/registry");
        let (filling, after) =
            (own.filling(caches.path()).unwrap(), own.after_filling(caches.path()));
        let shown = Mount::ReadOnly { from: registry.clone(), at: registry.clone() };
        assert_eq!(at(&own, &registry), shown);
        let filled = Mount::ReadWrite { from: from.clone(), at: registry.clone() };
        assert_eq!(at(&filling, &registry), filled);
        assert_eq!(at(&after, &registry), Mount::ReadOnly { from, at: registry });
        let offline =
            |tools: &Toolchains| tools.env.iter().any(|(name, _)| name == "CARGO_NET_OFFLINE");
        assert!(offline(&own) && offline(&after) && !offline(&filling));
        assert!(caches.path().join("cargo/.package-cache").is_file());
    }

    #[test]
    fn directories_that_a_job_can_not_see_leave_the_path() {
        let home = tempfile::tempdir().unwrap();
        let path = std::env::join_paths([home.path().join("private"), "/usr/bin".into()]).unwrap();
        let toolchains = discover(&path, home.path());
        let path = &toolchains.env.iter().find(|(name, _)| name == "PATH").unwrap().1;
        assert_eq!(path, "/usr/bin:/usr/local/bin:/bin");
    }
}
