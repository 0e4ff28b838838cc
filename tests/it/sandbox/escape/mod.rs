//! Attempts to get out. Each is made in every tier, as root and as an ordinary user, and each is
//! accounted for: stopped, or not applicable with the reason, or open by design in the weaker tier
//! with the reason. Where that does no harm it is also made without a sandbox, to show that it works.
//!
//! `cargo test --test it sandbox::escape -- --nocapture` prints the whole table.

mod inside;
mod shell;
mod target;

use std::io::Write;

use bakeoff::sandbox::{JobSpec, Network, Tier};

use super::stage::*;
use target::{Means, Target, target};

/// Whether an attempt is also made without a sandbox, where it has to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// It is, by any user.
    Anyone,
    /// It is, when the tests run as root.
    Root,
    /// It would do harm, or needs what is not there.
    Never,
}

/// What the weaker tier does not stop by design, with the reason. It is never proven, and needs a
/// waiver.
const OPEN_IN_THE_WEAKER_TIER: [(&str, &str); 4] = [
    ("change a read-only file", "Landlock has no rule for modes, owners and times of files"),
    ("an interface", "the host's network interfaces are listed in /proc, which builds need"),
    ("a route", "the host's routes are listed in /proc, which builds need"),
    ("see the host's sockets", "the host's sockets are listed in /proc, which builds need"),
];

/// What only Landlock's scopes stop (Linux 6.12 and later).
const NEED_SCOPES: [&str; 2] = ["find the engine's process", "the engine's death"];

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Stopped,
    /// What it aims at is not on this system.
    NotApplicable(String),
    /// It got through where that is by design.
    Open(&'static str),
    Escaped(String),
}

fn attempts() -> impl Iterator<Item = (&'static str, Control, Means)> {
    let shell = shell::ATTEMPTS.iter();
    let shell = shell.map(|&(name, control, script)| (name, control, Means::Shell(script)));
    let inside = inside::ATTEMPTS.iter();
    // The engine's death comes last, because the others need it.
    inside.map(|&(name, control, _)| (name, control, Means::Inside(name))).chain(shell)
}

/// Why an attempt proves nothing on this system.
fn missing(name: &str, target: &Target) -> Option<String> {
    if name == "open the engine's message queue" && !target.queue {
        return Some("this kernel has no message queues".into());
    }
    let (_, needs) = shell::NEEDS.iter().find(|(known, _)| *known == name)?;
    let there = needs.iter().any(|path| std::path::Path::new(path).exists());
    (!there).then(|| format!("this system has no {}", needs.join(", ")))
}

/// Whether Landlock can keep signals in.
fn has_scopes() -> bool {
    // SAFETY: with this flag the call only answers the version.
    let version = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0, 0, 1) };
    version >= 6
}

fn judge(name: &str, tier: Tier, text: &str) -> Outcome {
    let ran = text.lines().any(|line| line == "RAN");
    let escaped = text.lines().any(|line| line == "ESCAPED");
    let open = OPEN_IN_THE_WEAKER_TIER.iter().find(|(known, _)| *known == name);
    match (escaped, open) {
        (false, _) if ran => Outcome::Stopped,
        (false, _) => Outcome::Escaped(format!("it did not run to its end: {text}")),
        (true, Some((_, reason))) if tier == Tier::Landlock => Outcome::Open(reason),
        (true, _) if tier == Tier::Landlock && NEED_SCOPES.contains(&name) && !has_scopes() => {
            Outcome::Open("this kernel's Landlock has no scopes (Linux 6.12 has)")
        }
        (true, _) => Outcome::Escaped(text.to_owned()),
    }
}

/// Makes every attempt as a job of `system`.
fn attempt_all(system: System) -> Vec<(&'static str, Outcome)> {
    on(system, move || async move {
        let launcher = launcher().await;
        let tier = launcher.tier();
        assert_eq!(tier, expected_tier(system));
        let target = target();
        let mut outcomes = Vec::new();
        for (name, _, means) in attempts() {
            let outcome = match missing(name, &target) {
                Some(reason) => Outcome::NotApplicable(reason),
                None => {
                    let exit = run(&launcher, target.job(means, tier)).await.unwrap();
                    judge(name, tier, &String::from_utf8_lossy(&exit.output))
                }
            };
            outcomes.push((name, outcome));
        }
        assert!(!target.get("OUTSIDE").join("made").exists());
        target.tcp.set_nonblocking(true).unwrap();
        assert!(target.tcp.accept().is_err(), "a connection came in");
        outcomes
    })
}

/// Prints the table, and its summary past the capture of a passing test's output; answers how many
/// attempts were stopped.
fn account(system: System, outcomes: &[(&str, Outcome)]) -> usize {
    let count = |fits: fn(&Outcome) -> bool| outcomes.iter().filter(|(_, o)| fits(o)).count();
    let stopped = count(|outcome| *outcome == Outcome::Stopped);
    let mut text = format!(
        "escapes, {}: {} attempts: {stopped} stopped, {} escaped, {} open by design, {} not applicable\n",
        described(system),
        outcomes.len(),
        count(|outcome| matches!(outcome, Outcome::Escaped(_))),
        count(|outcome| matches!(outcome, Outcome::Open(_))),
        count(|outcome| matches!(outcome, Outcome::NotApplicable(_))),
    );
    for (name, outcome) in outcomes {
        println!("  {name:<48} {outcome:?}");
        match outcome {
            Outcome::Stopped => {}
            Outcome::NotApplicable(reason) => {
                text += &format!("  not applicable: {name}: {reason}\n")
            }
            Outcome::Open(reason) => text += &format!("  open by design: {name}: {reason}\n"),
            Outcome::Escaped(said) => text += &format!("  ESCAPED: {name}: {said}\n"),
        }
    }
    std::io::stderr().write_all(text.as_bytes()).unwrap();
    stopped
}

fn described(system: System) -> String {
    let user = match system {
        System::Ordinary | System::OrdinaryNoNamespaces => "an ordinary user",
        _ if rustix::process::geteuid().is_root() => "root",
        _ => "an ordinary user",
    };
    format!("{} tier as {user}", expected_tier(system).name())
}

fn none_escapes(systems: [System; 2]) {
    for system in systems {
        let outcomes = attempt_all(system);
        let stopped = account(system, &outcomes);
        let escaped: Vec<_> =
            outcomes.iter().filter(|(_, o)| matches!(o, Outcome::Escaped(_))).collect();
        assert!(escaped.is_empty(), "{system:?}: {escaped:#?}");
        assert!(stopped >= 60, "{system:?}: only {stopped} attempts were stopped");
        assert_eq!(outcomes.len(), attempts().count());
    }
    if !rustix::process::geteuid().is_root() {
        let said = "escapes: the tests do not run as root, so that root's half was not tried\n";
        std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
}

#[test]
fn no_attempt_succeeds_in_the_strong_tier() {
    none_escapes(STRONG);
}

#[test]
fn no_attempt_but_those_that_are_open_by_design_succeeds_in_the_weaker_tier() {
    none_escapes([System::NoNamespaces, System::OrdinaryNoNamespaces]);
}

#[test]
fn names_of_attempts_are_known_and_their_own() {
    let names: Vec<&str> = attempts().map(|(name, _, _)| name).collect();
    let own: std::collections::HashSet<&str> = names.iter().copied().collect();
    assert_eq!(own.len(), names.len());
    let named = shell::NEEDS.iter().map(|(name, _)| name);
    let named = named.chain(OPEN_IN_THE_WEAKER_TIER.iter().map(|(name, _)| name));
    for name in named.chain(&NEED_SCOPES) {
        assert!(own.contains(name), "{name}");
    }
}

#[test]
fn the_attempts_succeed_without_a_sandbox() {
    let root = rustix::process::geteuid().is_root();
    let target = target();
    let mut dull = Vec::new();
    for (name, control, means) in attempts() {
        let wanted = control == Control::Anyone || (control == Control::Root && root);
        if wanted
            && missing(name, &target).is_none()
            && !target.free(means).lines().any(|line| line == "ESCAPED")
        {
            dull.push(name);
        }
    }
    assert!(dull.is_empty(), "these attempts prove nothing: {dull:?}");
}

#[test]
fn the_operators_setup_may_have_the_network_and_nothing_else() {
    on(System::Here, || async {
        let target = target();
        let launcher = launcher().await;
        let script = "grep -qs top-secret \"$SECRET\" && echo ESCAPED; cat /proc/net/dev | wc -l; test -s /etc/resolv.conf && echo named";
        let job = target.job(Means::Shell(script), launcher.tier());
        let text = output(&launcher, JobSpec { network: Network::Host, ..job }).await;
        assert!(!text.contains("ESCAPED"), "{text}");
        let lines = std::fs::read_to_string("/proc/net/dev").unwrap().lines().count();
        assert_eq!(text.lines().next().unwrap(), lines.to_string(), "{text}");
    });
}

#[test]
fn a_setup_with_the_network_works_in_the_weaker_tier() {
    on(System::NoNamespaces, || async {
        let target = target();
        let launcher = launcher().await;
        let job = target.job(Means::Inside("connect to the engine"), launcher.tier());
        let text = output(&launcher, JobSpec { network: Network::Host, ..job }).await;
        assert!(text.contains("ESCAPED"), "it has no network: {text}");
    });
}
