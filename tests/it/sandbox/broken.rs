//! The probes, with the protection that each watches taken away: then each has to fail by its name,
//! there is no proof, and `doctor` and `run` say so.

use std::process::Command;

use bakeoff::sandbox::{Permit, ProbeReport, Spoil, Tier};

use super::stage::*;
use crate::support::place::{Done, Place};

/// One probe, and a system or a job without the protection that it watches.
struct Broken {
    probe: &'static str,
    system: System,
    tier: Tier,
    spoil: Spoil,
    /// Needs capabilities in the first place, which an ordinary user's job never has.
    root: bool,
}

const fn job(probe: &'static str, spoil: Spoil) -> Broken {
    Broken { probe, system: System::Here, tier: Tier::Namespaces, spoil, root: false }
}

const fn kernel(probe: &'static str, protection: Protection) -> Broken {
    let system = System::Broken(protection);
    Broken { probe, system, tier: Tier::Namespaces, spoil: Spoil::Nothing, root: false }
}

const ALL_BROKEN: [Broken; 11] = [
    job("secret-file", Spoil::ShowsBait),
    kernel("caller-environment", Protection::HiddenInit),
    kernel("inherited-descriptor", Protection::ClosedDescriptors),
    job("tcp-connect", Spoil::HostNetwork),
    job("unix-path-connect", Spoil::ShowsBait),
    job("unix-abstract-connect", Spoil::HostNetwork),
    job("write-outside", Spoil::SharesBait),
    kernel("new-namespace", Protection::Filters),
    Broken { root: true, ..kernel("mount", Protection::FiltersAndCapabilities) },
    Broken { root: true, ..kernel("privileges", Protection::Capabilities) },
    // In the strong tier it is the kernel that ends a namespace with its init, which nobody can take
    // away; the tiers without one rest on reapers.
    Broken { tier: Tier::Landlock, ..kernel("surviving-descendant", Protection::Reaper) },
];

fn probed(tier: Tier, system: System, spoil: Spoil) -> ProbeReport {
    on(system, move || async move { warden().probe_spoiled(tier, spoil).await.unwrap() })
}

fn can_break(broken: &Broken) -> bool {
    let can = !broken.root || rustix::process::geteuid().is_root();
    if !can {
        let said = format!("probe {}: only root's job can be broken so; not tried\n", broken.probe);
        std::io::Write::write_all(&mut std::io::stderr(), said.as_bytes()).unwrap();
    }
    can
}

#[test]
fn each_probe_fails_by_its_name_when_its_protection_is_taken_away() {
    let known: Vec<String> = probed(Tier::Namespaces, System::Here, Spoil::Nothing)
        .probes
        .into_iter()
        .map(|probe| probe.name)
        .collect();
    assert_eq!(known, ALL_BROKEN.map(|broken| broken.probe));
    for broken in ALL_BROKEN.into_iter().filter(can_break) {
        let Broken { probe: name, system, tier, spoil, .. } = broken;
        // The same job with its protections passes.
        let whole = probed(tier, System::Here, Spoil::Nothing);
        assert!(whole.probes.iter().all(|probe| probe.stopped), "{whole:#?}");
        let report = probed(tier, system, spoil);
        let probe = report.probes.iter().find(|probe| probe.name == name).unwrap();
        assert!(!probe.stopped, "{name} noticed nothing: {report:#?}");
        assert!(report.failures().contains(name), "{}", report.failures());
        // Neither this report nor the whole one gives leave to run anything.
        for report in [&whole, &report] {
            assert!(Permit::grant(report, false).is_err(), "{name}");
        }
    }
}

/// The program, started by a thread of that system.
fn bakeoff(system: System, command: Command) -> Done {
    on(system, move || async move { Done::run(command) })
}

#[test]
fn doctor_names_the_probe_that_fails_and_exits_with_4() {
    let place = Place::new();
    let broken = ALL_BROKEN.into_iter().filter(|b| b.system != System::Here);
    for Broken { probe, system, .. } in
        broken.filter(|b| b.tier == Tier::Namespaces).filter(can_break)
    {
        let done = bakeoff(system, place.bakeoff(["doctor"])).exits(4);
        assert!(done.out.contains("namespaces tier, not proven"), "{}", done.out);
        assert!(done.out.contains(&format!("NO  {probe} ")), "{}", done.out);
        assert!(done.out.contains("report this"), "{}", done.out);
        let untried = "NO  pty                    not tried: no sandbox was proved";
        assert!(done.out.contains(untried), "{}", done.out);
    }
}

#[test]
fn without_a_proof_run_exits_with_4_and_says_what_to_do() {
    // contract C18
    let place = Place::new();
    let run = || place.bakeoff(["run", "raise the value"]);
    let system = System::Broken(Protection::ClosedDescriptors);
    bakeoff(system, run()).exits(4).says(&[
        "no sandbox, no execution",
        "probe inherited-descriptor was not stopped",
        "--waive-sandbox",
    ]);
    // The place is of the tests' own user.
    for system in [System::NoNamespaces, System::Nothing] {
        bakeoff(system, run()).exits(4).says(&[
            "no sandbox, no execution",
            "secret-file",
            "create the",
            "--waive-sandbox",
        ]);
    }
    assert!(place.runs().iter().all(|run| !run.join("record.json").exists()));
    let waived = bakeoff(System::NoNamespaces, {
        let mut command = run();
        command.arg("--waive-sandbox");
        command
    });
    waived.exits(0);
    let record = place.record();
    assert_eq!(record["sandbox"]["permit"], "waiver");
    assert_eq!(record["sandbox"]["tier"], "landlock");
}

/// No selftest is green where nothing can run, and each may be left out there by its name; but for the one that needs no
/// sandbox.
#[test]
fn a_selftest_that_can_not_run_fails_unless_its_name_is_given() {
    let place = Place::new();
    let list = place.run(["selftest", "--list"]).exits(0).out;
    let all: Vec<&str> = list.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let refused = |args: &[&str]| bakeoff(System::NoNamespaces, place.bakeoff(args));
    let named = ["crash-leaves-nothing", "per-run-reap", "sandbox-canaries"];
    let mut args = vec!["selftest"];
    args.extend(named.iter().flat_map(|name| [name, "--allow-skip", name]));
    refused(&args).exits(0).prints(&[
        "skip crash-leaves-nothing ",
        "skip per-run-reap ",
        "skip sandbox-canaries ",
        "0 passed, 0 failed",
        "no sandbox, no execution",
    ]);
    // All the others are left out by their names; these three are not.
    let others = all.iter().filter(|name| !named.contains(name));
    let mut args = vec!["selftest", "--json"];
    args.extend(others.flat_map(|name| ["--allow-skip", name]));
    let told = refused(&args).exits(1).json();
    let tests = told["selftests"].as_array().unwrap();
    let names = |which: &dyn Fn(&serde_json::Value) -> bool| -> Vec<&str> {
        tests.iter().filter(|test| which(test)).map(|test| test["name"].as_str().unwrap()).collect()
    };
    let is_fine = |test: &serde_json::Value| test["faults"].as_array().unwrap().is_empty();
    assert_eq!(names(&is_fine), ["judge-red-team"], "{told}");
    assert_eq!(names(&|test| !is_fine(test) && test["skipped"] == false), named, "{told}");
    assert_eq!(tests.len(), all.len());
}
