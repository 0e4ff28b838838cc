//! Permits, and what a job is given at its start.

use bakeoff::sandbox::{JobSpec, JobStatus, Launch, Mount, Permit, SandboxError};
use tokio_util::sync::CancellationToken;

use super::stage::*;

#[test]
fn every_attack_of_the_probes_is_stopped_and_gives_a_proof() {
    // contract C18
    for system in STRONG {
        on(system, move || async move {
            let report = warden().prove().await;
            assert!(report.probes.iter().all(|probe| probe.stopped), "{system:?}: {report:#?}");
            assert!(report.probes.len() >= 11, "{report:#?}");
            assert_eq!(report.tier, expected_tier(system));
            assert_eq!(Permit::grant(&report, false).unwrap().name(), "proof");
            assert_eq!(report.advice(), "");
        });
    }
}

#[test]
fn without_the_strong_tier_nothing_runs_unless_it_is_waived() {
    // contract C18
    for system in [System::NoNamespaces, System::Nothing] {
        on(system, move || async move {
            let report = warden().prove().await;
            assert_eq!(report.tier, expected_tier(system), "{report:#?}");
            let refused = Permit::grant(&report, false).unwrap_err().to_string();
            assert!(refused.starts_with("no sandbox, no execution"), "{refused}");
            assert!(refused.contains("--waive-sandbox"), "{refused}");
            assert!(refused.contains("namespaces"), "{refused}");
            let waived = Permit::grant(&report, true).unwrap();
            assert_eq!((waived.name(), waived.tier()), ("waiver", expected_tier(system)));
        });
    }
}

#[test]
fn the_weaker_tier_stops_all_but_what_needs_a_namespace() {
    on(System::NoNamespaces, || async {
        let report = warden().prove().await;
        let open: Vec<_> = report.probes.iter().filter(|probe| !probe.stopped).collect();
        assert!(open.is_empty(), "{open:#?}");
    });
}

#[test]
fn a_warden_that_can_not_be_started_is_an_error() {
    let options = bakeoff::sandbox::WardenOptions { program: "/nonesuch".into() };
    let error = bakeoff::sandbox::Warden::start(&options).unwrap_err();
    assert!(matches!(&error, SandboxError::WardenGone(text) if text.contains("/nonesuch")));
}

#[test]
fn a_program_that_is_no_warden_gives_no_proof() {
    on(System::Here, || async {
        let options = bakeoff::sandbox::WardenOptions { program: "/bin/true".into() };
        let warden = bakeoff::sandbox::Warden::start(&options).unwrap();
        let report = warden.prove().await;
        assert!(report.probes.iter().all(|probe| !probe.stopped), "{report:#?}");
        assert!(Permit::grant(&report, false).is_err());
    });
}

#[test]
fn the_environment_is_exactly_the_given_one() {
    for system in ALL {
        on(system, || async {
            let mut spec = sh("tr '\\0' '\\n' < /proc/$$/environ");
            spec.env = vec![
                ("PATH".into(), "/usr/bin:/bin".into()),
                ("EMPTY".into(), "".into()),
                ("WORD".into(), "a b=c".into()),
            ];
            let text = output(&launcher().await, spec).await;
            assert_eq!(text, "PATH=/usr/bin:/bin\nEMPTY=\nWORD=a b=c\n");
        });
    }
}

#[test]
fn bytes_that_are_not_utf_8_arrive_in_arguments_and_variables() {
    use std::os::unix::ffi::OsStringExt;
    on(System::Here, || async {
        let odd = std::ffi::OsString::from_vec(vec![b'x', 0xff, b'y']);
        let mut spec = with_env(sh("printf %s \"$1$ODD\""), "ODD", odd.clone());
        spec.argv.extend(["sh".into(), odd]);
        let exit = run(&launcher().await, spec).await.unwrap();
        assert_eq!(exit.output, b"x\xffyx\xffy");
    });
}

#[test]
fn standard_input_is_given_and_closed() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let spec = JobSpec { stdin: vec![b'x'; 1 << 20], ..sh("wc -c") };
            assert_eq!(output(&launcher, spec).await.trim(), "1048576");
            assert_eq!(output(&launcher, sh("wc -c")).await.trim(), "0");
            // A job that does not read is no trouble.
            let spec = JobSpec { stdin: vec![b'x'; 1 << 20], ..sh("true") };
            output(&launcher, spec).await;
        });
    }
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let status = |script| {
                let launcher = launcher.clone();
                async move { run(&launcher, sh(script)).await.unwrap().status }
            };
            assert_eq!(status("exit 0").await, JobStatus::Exited(0));
            assert_eq!(status("exit 255").await, JobStatus::Exited(255));
            assert_eq!(status("kill -SEGV $$").await, JobStatus::Signalled(11));
            assert_eq!(status("true # a comment").await, JobStatus::Exited(0));
        });
    }
}

#[test]
fn a_missing_program_is_a_start_error_and_a_bad_mount_names_its_step() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let spec = JobSpec { argv: vec!["no-such-program".into()], ..sh("") };
            let error = run(&launcher, spec).await.unwrap_err();
            assert!(
                matches!(&error, SandboxError::Start { program, reason }
                    if program == "no-such-program" && reason.contains("/usr/bin")),
                "{error:?}"
            );
            let spec = JobSpec { argv: vec!["/etc/passwd".into()], ..sh("") };
            let error = run(&launcher, spec).await.unwrap_err();
            assert!(matches!(error, SandboxError::Start { .. }), "{error:?}");
            let mounts =
                vec![Mount::ReadOnly { from: "/no/such/dir".into(), at: "/no/such/dir".into() }];
            let error = run(&launcher, JobSpec { mounts, ..sh("true") }).await.unwrap_err();
            assert!(
                matches!(&error, SandboxError::Setup(step) if step.contains("/no/such/dir")),
                "{error:?}"
            );
            let spec = JobSpec { cwd: "/no/such/cwd".into(), ..sh("true") };
            let error = run(&launcher, spec).await.unwrap_err();
            assert!(
                matches!(&error, SandboxError::Setup(step) if step.contains("working directory")),
                "{error:?}"
            );
        });
    }
}

#[test]
fn a_mount_point_with_dots_is_refused() {
    on(System::Here, || async {
        let mounts = vec![Mount::Tmp { at: "/a/../etc".into(), bytes: 4096 }];
        let error = run(&launcher().await, JobSpec { mounts, ..sh("true") }).await.unwrap_err();
        assert!(matches!(&error, SandboxError::Setup(step) if step.contains("..")), "{error:?}");
    });
}

#[test]
fn a_cancelled_job_is_not_started_and_a_running_one_is_dead_when_the_caller_hears() {
    on(System::Here, || async {
        let launcher = launcher().await;
        let cancel = CancellationToken::new();
        cancel.cancel();
        let answer = launcher.run(sh("true"), &cancel).await;
        assert!(matches!(answer, Err(SandboxError::Cancelled)));
    });
}
