//! Run tokens and their scopes.

use bakeoff::jobs::{RunScope, mint_token};
use bakeoff::sandbox::JobStatus;

use crate::sandbox::stage::*;

#[test]
fn tokens_are_long_and_never_equal() {
    let tokens: std::collections::HashSet<_> = (0..1000).map(|_| mint_token()).collect();
    assert_eq!(tokens.len(), 1000);
    for token in tokens {
        assert_eq!(token.as_str().len(), 32);
        assert!(token.as_str().bytes().all(|byte| byte.is_ascii_hexdigit()));
    }
}

#[test]
fn finishing_a_scope_kills_its_jobs_and_leaves_its_siblings() {
    // contract C6
    // contract C7
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let dir = folder();
            let scopes = [0, 1].map(|_| RunScope::new(mint_token(), launcher.clone()));
            let mut jobs = Vec::new();
            for (index, scope) in scopes.iter().enumerate() {
                let own = dir.path().join(index.to_string());
                std::fs::create_dir(&own).unwrap();
                let post = Signpost::new(&own);
                let spec = sh("(setsid sleep 1000 &); echo there > $SIGNPOST; sleep 1000");
                let spec = with_env(spec, "SIGNPOST", post.path());
                let mut spec = with_env(spec, "NONCE", scope.token().as_str());
                spec.token = scope.token().clone();
                spec.mounts.push(shared(dir.path()));
                jobs.push(launcher.start(spec).unwrap());
                post.reached().await;
            }
            let [first, second] = scopes;
            let (one, two) = (first.token().clone(), second.token().clone());
            let reaped = first.finish().await;
            assert_eq!((reaped.killed, reaped.survivors), (1, vec![]));
            nothing_alive(one.as_str());
            assert!(!alive(two.as_str()).is_empty());
            drop(second);
            all_die(two.as_str());
            for job in jobs {
                assert_eq!(job.ended().await.unwrap().status, JobStatus::Killed);
            }
        });
    }
}

#[test]
fn a_scope_outlived_by_nothing_reports_nothing() {
    on(System::Here, || async {
        let launcher = launcher().await;
        let reaped = RunScope::new(mint_token(), launcher).finish().await;
        assert_eq!((reaped.killed, reaped.survivors), (0, vec![]));
    });
}
