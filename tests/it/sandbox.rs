//! The sandbox, attacked.
use bakeoff::model::RunToken;
use bakeoff::sandbox::*;

fn spec(script: &str) -> JobSpec {
    JobSpec {
        token: RunToken::new("t"),
        label: "x".into(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        env: vec![],
        cwd: "/".into(),
        mounts: vec![],
        network: Network::Off,
        limits: Limits::default(),
        stdin: vec![],
    }
}

#[tokio::test]
async fn first() {
    let warden =
        Warden::start(&WardenOptions { program: env!("CARGO_BIN_EXE_bakeoff").into() }).unwrap();
    let t = std::time::Instant::now();
    let report = warden.prove().await;
    eprintln!("{report:#?} {:?}", t.elapsed());
    eprintln!("{}", report.advice());
    let permit = Permit::grant(&report, true).unwrap();
    let l = Launcher::new(warden, permit);
    let c = tokio_util::sync::CancellationToken::new();
    for s in [
        "id; ls -la / /dev /etc; ps ax; cat /proc/self/status | grep -E 'Cap|Sec|NoNew'; ip addr; mount; env; cat /proc/sys/kernel/pid_max; ulimit -a; ls -la /proc/self/fd; hostname",
        "exit 3",
        "kill -9 $$",
    ] {
        let t = std::time::Instant::now();
        let r = l.run(spec(s), &c).await.unwrap();
        eprintln!("{:?} {:?}\n{}", r.status, t.elapsed(), String::from_utf8_lossy(&r.output));
    }
    eprintln!("{:?}", l.run(JobSpec { argv: vec!["nonesuch".into()], ..spec("") }, &c).await);
    eprintln!("{:?}", l.run(JobSpec { cwd: "/nonesuch".into(), ..spec("") }, &c).await);
    eprintln!(
        "{:?}",
        l.run(
            JobSpec {
                mounts: vec![Mount::ReadOnly { from: "/nonesuch".into(), at: "/x".into() }],
                ..spec("")
            },
            &c
        )
        .await
    );
}
