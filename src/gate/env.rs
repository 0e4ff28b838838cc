//! The whole environment of a gate's command: the toolchains', a few fixed values, and what the
//! operator named. Nothing is inherited.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use crate::sandbox::Network;

/// Values that make runs alike: no colours, no prompts, no network of the tools' own, one hash seed.
const FIXED: [(&str, &str); 12] = [
    ("CI", "true"),
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TZ", "UTC"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("CARGO_TERM_COLOR", "never"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
    ("PYTHONHASHSEED", "0"),
    ("NPM_CONFIG_UPDATE_NOTIFIER", "false"),
    ("NPM_CONFIG_FUND", "false"),
];

/// What tells the tools that there is no network, so that they say at once what is missing.
const OFFLINE: [(&str, &str); 6] = [
    ("CARGO_NET_OFFLINE", "true"),
    ("NPM_CONFIG_OFFLINE", "true"),
    ("PIP_NO_INDEX", "1"),
    ("GOPROXY", "off"),
    ("GOTOOLCHAIN", "local"),
    ("UV_OFFLINE", "1"),
];

/// The environment of one command; a later value of a name takes the place of an earlier one.
/// `programs` are directories that come first in the search path.
pub fn environment(
    toolchains: &[(OsString, OsString)],
    programs: &[PathBuf],
    named: &[(OsString, OsString)],
    network: Network,
) -> Vec<(OsString, OsString)> {
    let offline = if network == Network::Off { &OFFLINE[..] } else { &[] };
    let fixed = FIXED.iter().chain(offline).map(|(name, value)| (name.into(), value.into()));
    self::named(toolchains.iter().cloned().chain(fixed).chain(named.iter().cloned()), programs)
}

/// Each name once, with its last value.
fn named(
    values: impl Iterator<Item = (OsString, OsString)>,
    programs: &[PathBuf],
) -> Vec<(OsString, OsString)> {
    let mut all: Vec<(OsString, OsString)> = Vec::new();
    for (name, value) in values {
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = value,
            None => all.push((name, value)),
        }
    }
    if let Some((_, path)) = all.iter_mut().find(|(name, _)| name == "PATH") {
        *path = first_in(programs, path);
    }
    all
}

/// What a person's own command finds beside the tools: a terminal's colours, and no network.
const PERSONAL: [(&str, &str); 4] = [
    ("TERM", "xterm-256color"),
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("PYTHONDONTWRITEBYTECODE", "1"),
];

/// The environment of an operator's own command; `programs` come first in the search path.
pub fn personal(
    toolchains: &[(OsString, OsString)],
    programs: &[PathBuf],
) -> Vec<(OsString, OsString)> {
    let fixed = PERSONAL.iter().chain(&OFFLINE).map(|(name, value)| (name.into(), value.into()));
    named(toolchains.iter().cloned().chain(fixed), programs)
}

/// Makes `go test` name the tests that pass: without `-v` it says `ok` of a program that ended before its
/// first test, too. Other commands of Go that know the flag name the packages that they build.
pub fn name_tests(env: &mut Vec<(OsString, OsString)>) {
    match env.iter_mut().find(|(name, _)| name == "GOFLAGS") {
        Some((_, flags)) if flags.is_empty() => flags.push("-v"),
        Some((_, flags)) => flags.push(" -v"),
        None => env.push(("GOFLAGS".into(), "-v".into())),
    }
}

/// Keeps git below a tree's top from finding a repository above it: a tree has none, and what lies above
/// it is nobody's business there. The system's configuration is none of it either.
pub fn ceiling(top: &Path) -> Vec<(OsString, OsString)> {
    let above = top.parent().unwrap_or(top);
    [("GIT_CEILING_DIRECTORIES", above.as_os_str()), ("GIT_CONFIG_NOSYSTEM", OsStr::new("1"))]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec()
}

fn first_in(programs: &[PathBuf], path: &OsStr) -> OsString {
    let dirs = programs.iter().cloned().chain(std::env::split_paths(path));
    // A directory with a colon in its name can't be in a search path at all.
    std::env::join_paths(dirs).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(all: &[(OsString, OsString)], name: &str) -> Option<String> {
        all.iter().find(|(known, _)| known == name).map(|(_, v)| v.to_string_lossy().into_owned())
    }

    #[test]
    fn go_names_its_tests_whatever_its_flags_are() {
        let mut env = Vec::new();
        name_tests(&mut env);
        assert_eq!(get(&env, "GOFLAGS").as_deref(), Some("-v"));
        name_tests(&mut env);
        assert_eq!(get(&env, "GOFLAGS").as_deref(), Some("-v -v"));
        let mut env = vec![("GOFLAGS".into(), "-mod=vendor".into())];
        name_tests(&mut env);
        assert_eq!(get(&env, "GOFLAGS").as_deref(), Some("-mod=vendor -v"));
    }

    #[test]
    fn the_operators_values_win_and_setup_with_a_network_is_not_told_to_be_offline() {
        let path = [("PATH".into(), "/bin".into()), ("GOPROXY".into(), "x".into())];
        let named = [("CI".into(), "no".into())];
        let off = environment(&path, &["/w/bin".into()], &named, Network::Off);
        assert_eq!(get(&off, "CI").as_deref(), Some("no"));
        assert_eq!(get(&off, "GOPROXY").as_deref(), Some("off"));
        assert_eq!(get(&off, "PATH").as_deref(), Some("/w/bin:/bin"));
        let on = environment(&path, &[], &[], Network::Host);
        assert_eq!(get(&on, "GOPROXY").as_deref(), Some("x"));
        assert_eq!(get(&on, "CARGO_NET_OFFLINE"), None);
    }
}
