//! The weaker tier's rules on paths: Landlock on the host's own view. Never here: mounts.

use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use super::super::warden::proto::{WireMount, WireSpec};
use super::system::{DEVICES, ETC, ETC_NETWORK};
use super::view::AtStep;

const ABI_WANTED: ABI = ABI::V6;
/// Git, and cargo with it, takes this file's absence well, and a refusal to read it as an error.
const GIT_CONFIG: &str = "/etc/gitconfig";
const PROGRAMS: [&str; 8] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store"];

/// Restricts the calling process, and all that it will start, to the system's programs, to the
/// job's mounts at their own paths and to its terminal.
///
/// # Errors
/// In words, when the kernel has no Landlock or a path of the job can't be opened.
pub(super) fn restrict(spec: &WireSpec, terminal: Option<&Path>) -> Result<(), String> {
    let read = AccessFs::from_read(ABI_WANTED);
    let all = AccessFs::from_all(ABI_WANTED);
    let mut rules = new_rules(spec.host_network)?;
    for path in PROGRAMS.iter().map(|path| (*path).to_owned()).chain(etc(spec.host_network)) {
        rules = allow_if_there(rules, &path, read)?;
    }
    rules = allow_if_there(rules, "/proc", read)?;
    if is_harmless(GIT_CONFIG) {
        rules = allow_if_there(rules, GIT_CONFIG, read)?;
    }
    for device in DEVICES {
        let use_it = AccessFs::ReadFile | AccessFs::WriteFile;
        rules = allow_if_there(rules, &format!("/dev/{device}"), use_it)?;
    }
    if let Some(terminal) = terminal {
        // Programs open it anew to switch its echo off.
        let use_it = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        rules = allow_if_there(rules, "/dev/tty", use_it)?;
        rules = allow_if_there(rules, &terminal.to_string_lossy(), use_it)?;
    }
    for mount in &spec.mounts {
        rules = match mount {
            WireMount::ReadOnly { from, .. } => allow(rules, from, read)?,
            WireMount::ReadWrite { from, .. } => allow(rules, from, all)?,
            WireMount::Tmp { at, .. } => allow(rules, at, all)?,
            WireMount::Covered { .. } => return Err("covering needs the strong tier".into()),
            WireMount::Overlay { .. } => return Err("an overlay needs the strong tier".into()),
        };
    }
    let status = rules.restrict_self().at_step("enforce Landlock")?;
    match status.ruleset {
        RulesetStatus::NotEnforced => Err("enforce Landlock: the kernel has none".into()),
        _ => Ok(()),
    }
}

/// Whether a git config holds nothing that could be a secret. A helper's name is none, its text may be.
fn is_harmless(config: &str) -> bool {
    const WORDS: [&str; 6] = ["@", "header", "!", "password", "token", "include"];
    let Ok(text) = std::fs::read_to_string(config) else { return false };
    let text = text.to_lowercase();
    !WORDS.iter().any(|word| text.contains(word))
}

fn etc(host_network: bool) -> impl Iterator<Item = String> {
    let network: &[&str] = if host_network { &ETC_NETWORK } else { &[] };
    ETC.iter().chain(network).map(|name| format!("/etc/{name}"))
}

fn new_rules(host_network: bool) -> Result<RulesetCreated, String> {
    let rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI_WANTED))
        .and_then(|rules| rules.scope(Scope::from_all(ABI_WANTED)));
    if host_network {
        return rules.and_then(Ruleset::create).at_step("prepare Landlock");
    }
    rules
        .and_then(|rules| rules.handle_access(AccessNet::from_all(ABI_WANTED)))
        .and_then(Ruleset::create)
        .at_step("prepare Landlock")
}

fn allow(
    rules: RulesetCreated,
    path: impl AsRef<std::path::Path>,
    access: impl Into<landlock::BitFlags<AccessFs>>,
) -> Result<RulesetCreated, String> {
    let path = path.as_ref();
    let fd = PathFd::new(path).at_step(format_args!("allow {}", path.display()))?;
    let mut access = access.into();
    if !path.is_dir() {
        access &= AccessFs::from_file(ABI_WANTED);
    }
    rules.add_rule(PathBeneath::new(fd, access)).at_step(format_args!("allow {}", path.display()))
}

fn allow_if_there(
    rules: RulesetCreated,
    path: &str,
    access: impl Into<landlock::BitFlags<AccessFs>>,
) -> Result<RulesetCreated, String> {
    if std::path::Path::new(path).exists() { allow(rules, path, access) } else { Ok(rules) }
}
