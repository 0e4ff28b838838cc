//! What a job may use and see: mounts, limits, its own loopback.

use std::path::Path;
use std::time::Duration;

use bakeoff::sandbox::{JobSpec, JobStatus, Launcher, Limits, Mount, Tier};

use super::stage::*;

fn read_only(from: &Path, at: &str) -> Mount {
    Mount::ReadOnly { from: from.into(), at: at.into() }
}

#[test]
fn mounts_are_laid_in_order_at_their_paths() {
    for system in STRONG {
        on(system, || async {
            let dir = folder();
            for name in ["a", "b"] {
                std::fs::create_dir(dir.path().join(name)).unwrap();
                std::fs::write(dir.path().join(name).join("file"), name).unwrap();
            }
            let mounts = vec![
                read_only(&dir.path().join("a"), "/work/here"),
                Mount::Tmp { at: "/cache/deep".into(), bytes: 1 << 20 },
                read_only(&dir.path().join("b"), "/cache/deep/inside"),
                Mount::ReadWrite { from: dir.path().join("b"), at: "/work/there".into() },
                read_only(&dir.path().join("a/file"), "/work/there/one"),
            ];
            let script = "cat here/file there/file there/one /cache/deep/inside/file; echo x > /cache/deep/y; \
                          (echo x > here/no) 2>/dev/null || echo ro; echo new > there/new; \
                          (echo x > /cache/deep/inside/no) 2>/dev/null || echo ro";
            let spec = JobSpec { mounts, cwd: "/work".into(), ..sh(script) };
            assert_eq!(output(&launcher().await, spec).await, "abab".to_owned() + "ro\nro\n");
            assert_eq!(std::fs::read_to_string(dir.path().join("b/new")).unwrap(), "new\n");
            assert!(!dir.path().join("a/no").exists());
        });
    }
}

#[test]
fn a_file_system_in_memory_bounds_its_entries_too() {
    for system in STRONG {
        on(system, || async {
            let mounts = vec![Mount::Tmp { at: "/cache".into(), bytes: 1 << 20 }];
            let script = "i=0; while [ $i -lt 3000 ] && (: > /cache/$i) 2>/dev/null; do i=$((i+1)); done; \
                          [ $i -gt 500 ] && [ $i -lt 1100 ] && echo bounded || echo $i";
            let spec = JobSpec { mounts, cwd: "/cache".into(), ..sh(script) };
            assert_eq!(output(&launcher().await, spec).await, "bounded\n");
        });
    }
}

#[test]
fn paths_with_symbolic_links_are_resolved_first() {
    // contract C19
    for system in STRONG {
        on(system, || async {
            let dir = folder();
            std::fs::create_dir(dir.path().join("real")).unwrap();
            std::fs::write(dir.path().join("real/file"), "found").unwrap();
            let linked = dir.path().join("link");
            std::os::unix::fs::symlink("real", &linked).unwrap();
            let spec = JobSpec {
                mounts: vec![shared(&linked)],
                cwd: linked.clone(),
                ..sh("cat file; echo made > made")
            };
            assert_eq!(output(&launcher().await, spec).await, "found");
            assert!(dir.path().join("real/made").exists());
        });
    }
}

#[test]
fn a_hostile_link_at_a_mount_point_leads_nowhere() {
    for system in STRONG {
        on(system, || async {
            let (dir, outside) = (folder(), folder());
            let point = dir.path().join("cache");
            std::os::unix::fs::symlink(outside.path(), &point).unwrap();
            let launcher = launcher().await;
            let mount = Mount::Tmp { at: point.clone(), bytes: 1 << 20 };
            let script = format!("echo x > {}/made", point.display());
            let spec = JobSpec { mounts: vec![shared(dir.path()), mount.clone()], ..sh(&script) };
            let _ = run(&launcher, spec).await;
            assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
            // Even to a directory that the view has, it stays in the view.
            std::fs::remove_file(&point).unwrap();
            std::os::unix::fs::symlink("/usr/lib", &point).unwrap();
            let spec = JobSpec { mounts: vec![shared(dir.path()), mount], ..sh(&script) };
            let _ = run(&launcher, spec).await;
            assert!(!Path::new("/usr/lib/made").exists());
        });
    }
}

#[test]
fn an_overlay_takes_writes_and_leaves_its_layers_alone() {
    for system in STRONG {
        on(system, || async {
            let dir = folder();
            for name in ["base", "setup: 2,\\x", "upper", "work"] {
                std::fs::create_dir(dir.path().join(name)).unwrap();
            }
            let (base, setup) = (dir.path().join("base"), dir.path().join("setup: 2,\\x"));
            let upper = dir.path().join("upper");
            std::fs::write(base.join("kept"), "kept").unwrap();
            std::fs::write(base.join("gone"), "gone").unwrap();
            std::fs::write(base.join("hidden"), "of the base").unwrap();
            std::fs::write(setup.join("hidden"), "of the setup").unwrap();
            std::fs::create_dir(base.join("sub")).unwrap();
            let mounts = vec![Mount::Overlay {
                lower: vec![setup.clone(), base.clone()],
                upper: upper.clone(),
                work: dir.path().join("work"),
                at: "/repo".into(),
            }];
            let script = "cat hidden; echo changed > kept; rm gone; echo new > sub/new; rm -r sub; mkdir sub; ls | tr '\\n' ' '";
            let spec = JobSpec { mounts, cwd: "/repo".into(), ..sh(script) };
            assert_eq!(output(&launcher().await, spec).await, "of the setuphidden kept sub ");
            assert_eq!(std::fs::read_to_string(upper.join("kept")).unwrap(), "changed\n");
            assert_eq!(std::fs::read_to_string(base.join("kept")).unwrap(), "kept");
            assert_eq!(std::fs::read_to_string(base.join("gone")).unwrap(), "gone");
            let left: Vec<_> = std::fs::read_dir(&base).unwrap().collect();
            assert_eq!(left.len(), 4);
        });
    }
}

#[test]
fn the_weaker_tiers_refuse_what_they_can_not_mount() {
    for system in [System::NoNamespaces, System::Nothing] {
        on(system, || async {
            let launcher = launcher().await;
            assert!(!launcher.tier().can_mount());
            let dir = folder();
            let overlay = Mount::Overlay {
                lower: vec![dir.path().into()],
                upper: dir.path().into(),
                work: dir.path().into(),
                at: "/repo".into(),
            };
            for (mount, word) in [(overlay, "overlay"), (read_only(dir.path(), "/else"), "/else")] {
                let spec = JobSpec { mounts: vec![mount], ..sh("true") };
                let error = run(&launcher, spec).await.unwrap_err().to_string();
                assert!(error.contains(word) && error.contains("no mounts"), "{error}");
            }
        });
    }
}

#[test]
fn private_directories_are_empty_writable_and_gone_afterwards_in_every_tier() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let dir = folder();
            std::fs::write(dir.path().join("source"), "source").unwrap();
            let home = "/home/of-the-job";
            let mounts = vec![
                Mount::Tmp { at: home.into(), bytes: 1 << 20 },
                read_only(&dir.path().join("source"), "/home/of-the-job/cache/source"),
            ];
            let script = "ls -A $HOME; cat $HOME/cache/source; echo x > $HOME/x; echo y > $TMPDIR/y; ls $HOME $TMPDIR | wc -l; test -e /tmp/y && echo at-tmp";
            let mut spec = with_env(sh(script), "HOME", home);
            spec = with_env(spec, "TMPDIR", "/tmp");
            spec.mounts = mounts;
            let exit = run(&launcher, spec).await.unwrap();
            let text = String::from_utf8_lossy(&exit.output).into_owned();
            assert!(text.starts_with("cache\nsource"), "{text}");
            assert_eq!(text.contains("at-tmp"), launcher.tier() == Tier::Namespaces, "{text}");
            assert!(!Path::new(home).exists() && !Path::new("/tmp/y").exists());
        });
    }
}

#[test]
fn a_private_directory_has_a_size() {
    for system in STRONG {
        on(system, || async {
            let mounts = vec![Mount::Tmp { at: "/small".into(), bytes: 1 << 20 }];
            let script = "head -c 4000000 /dev/zero > /small/x 2>/dev/null || echo full";
            let spec = JobSpec { mounts, ..sh(script) };
            assert_eq!(output(&launcher().await, spec).await, "full\n");
        });
    }
}

#[test]
fn loopback_is_up_and_socket_pairs_and_pseudo_terminals_work() {
    for system in STRONG {
        on(system, || async {
            let launcher = launcher().await;
            let text =
                output(&launcher, sh("cat /proc/net/fib_trie; ls /dev/pts; ls -l /dev/ptmx")).await;
            assert!(text.contains("127.0.0.1") && text.contains("ptmx"), "{text}");
            if !python() {
                return;
            }
            let script = "import asyncio,pty,socket,threading\n\
                s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname())\n\
                a,b=socket.socketpair(); a.send(b'x'); assert b.recv(1)==b'x'\n\
                u=socket.socket(socket.AF_UNIX); u.bind('/tmp/s'); u.listen()\n\
                v=socket.socket(socket.AF_UNIX); v.connect('/tmp/s')\n\
                asyncio.run(asyncio.sleep(0)); pty.openpty()\n\
                t=threading.Thread(target=print,args=('works',)); t.start(); t.join()";
            let mut spec = sh("");
            spec.argv = ["/usr/bin/python3", "-c", script].map(Into::into).into();
            assert_eq!(output(&launcher, spec).await, "works\n");
        });
    }
}

#[test]
fn socket_pairs_work_in_the_weaker_tier_and_sockets_do_not() {
    if !python() {
        return;
    }
    on(System::NoNamespaces, || async {
        let script = "import asyncio,socket\na,b=socket.socketpair(); a.send(b'x'); b.recv(1)\nasyncio.run(asyncio.sleep(0))\n\
            for f in (socket.AF_UNIX,socket.AF_INET,socket.AF_INET6):\n try: socket.socket(f); print('open')\n except OSError: pass";
        let mut spec = sh("");
        spec.argv = ["/usr/bin/python3", "-c", script].map(Into::into).into();
        assert_eq!(output(&launcher().await, spec).await, "");
    });
}

async fn limited(launcher: &Launcher, script: &str, limits: Limits) -> (JobStatus, String) {
    let limits = Limits { wall: PATIENCE, ..limits };
    let exit = run(launcher, JobSpec { limits, ..sh(script) }).await.unwrap();
    (exit.status, String::from_utf8_lossy(&exit.output).into_owned())
}

#[test]
fn a_file_has_a_largest_size() {
    for system in ALL {
        on(system, || async {
            let limits = Limits { file_bytes: 1 << 20, ..Limits::default() };
            let dir = folder();
            let mut spec = sh("head -c 4000000 /dev/zero > big; echo end");
            (spec.limits, spec.cwd) = (limits, dir.path().into());
            spec.mounts.push(shared(dir.path()));
            run(&launcher().await, spec).await.unwrap();
            assert!(dir.path().join("big").metadata().unwrap().len() <= 1 << 20);
        });
    }
}

#[test]
fn memory_has_an_end() {
    for system in ALL {
        on(system, || async {
            let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
            let launcher = launcher().await;
            // A line of 300 MB, held in memory whole.
            let script = "head -c 300000000 /dev/zero | tr '\\0' x | sort > /dev/null 2>&1; \
                          x=$(head -c 300000000 /dev/zero | tr '\\0' x); echo ${#x}";
            let (_, text) = limited(&launcher, script, limits).await;
            assert!(!text.contains("300000000"), "{text}");
        });
    }
}

/// Whether this system's tier holds a job to a number of processes: without a namespace, for root, only a control
/// group does, and without that a bomb would be one. It is looked for with a loop that ends.
async fn holds_to_a_number(launcher: &Launcher) -> bool {
    let limits = Limits { processes: 100, ..Limits::default() };
    let script = "i=0; while [ $i -lt 300 ]; do sleep 60 & i=$((i+1)); done; echo all";
    !limited(launcher, script, limits).await.1.contains("all\n")
}

#[test]
fn a_fork_bomb_is_held_to_its_number_and_nothing_of_it_is_left() {
    for system in ALL {
        on(system, move || async move {
            let launcher = launcher().await;
            if !holds_to_a_number(&launcher).await {
                assert!(WEAK.contains(&system), "{system:?}");
                eprintln!("a fork bomb on {system:?}: no number is held here, not tried");
                return;
            }
            let nonce = nonce();
            // The shell itself forks no more and goes on, so that the bomb does until its time is over.
            let script = "b() { b | b & }; b; while :; do :; done";
            let limits =
                Limits { processes: 200, wall: Duration::from_secs(3), ..Limits::default() };
            let spec = JobSpec { limits, ..with_env(sh(script), "NONCE", nonce.clone()) };
            let exit = run(&launcher, spec).await.unwrap();
            assert_eq!(exit.status, JobStatus::TimedOut, "{system:?}");
            nothing_alive(&nonce);
            // Who comes after it has all that it needs.
            output(&launcher, sh("sleep 0 | sleep 0; true")).await;
        });
    }
}

#[test]
fn processes_have_a_largest_number() {
    for system in STRONG {
        on(system, || async {
            let limits = Limits { processes: 400, ..Limits::default() };
            let launcher = launcher().await;
            let script = "i=0; while [ $i -lt 900 ]; do sleep 60 & i=$((i+1)); done; ls /proc | grep -c '^[0-9]'";
            let (status, text) = limited(&launcher, script, limits).await;
            let count: u32 = text.lines().last().unwrap_or_default().parse().unwrap_or(0);
            assert!(count <= 400 && text.lines().count() < 1000, "{status:?} {text}");
            // The limit is one job's own.
            output(&launcher, sh("true")).await;
        });
    }
}

#[test]
fn a_whole_job_of_root_has_a_limit_of_memory_where_there_are_control_groups() {
    let groups = ["/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory.max"];
    if !rustix::process::geteuid().is_root() || !groups.iter().any(|file| Path::new(file).exists())
    {
        return eprintln!("not root, or no control groups for memory: not tried");
    }
    on(System::Here, || async {
        let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
        // What no limit of a single process sees: a file system in memory.
        let script = "head -c 200000000 /dev/zero > /dev/shm/x && echo written";
        let (_, text) = limited(&launcher().await, script, limits).await;
        assert!(!text.contains("written"), "{text}");
    });
}

#[test]
fn output_is_capped_with_head_and_tail_kept() {
    for system in ALL {
        on(system, || async {
            let limits = Limits { output_bytes: 3000, ..Limits::default() };
            let script = "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last >&2";
            let exit = run(&launcher().await, JobSpec { limits, ..sh(script) }).await.unwrap();
            assert_eq!(exit.output.len(), 3000);
            assert_eq!(exit.dropped, 6 + 20_000_000 + 1 + 5 - 3000);
            assert!(exit.output.starts_with(b"first\n") && exit.output.ends_with(b"\nlast\n"));
        });
    }
}

#[test]
fn output_without_end_is_ended_by_the_time_limit() {
    on(System::Here, || async {
        let launcher = launcher().await;
        // The limit grows until the machine is fast enough to have written something by then.
        for millis in [300, 3_000, 30_000, 300_000] {
            let limits = Limits { wall: Duration::from_millis(millis), ..Limits::default() };
            let exit = run(&launcher, JobSpec { limits, ..sh("exec yes") }).await.unwrap();
            assert_eq!(exit.status, JobStatus::TimedOut);
            if exit.dropped > 0 {
                assert!(exit.output.starts_with(b"y\ny\n"));
                return;
            }
        }
        panic!("it never wrote anything");
    });
}

#[test]
fn many_jobs_run_side_by_side() {
    for system in STRONG {
        on(system, || async {
            let launcher = launcher().await;
            let jobs = (0..40).map(|number| {
                let launcher = launcher.clone();
                async move {
                    let text = output(&launcher, sh(&format!("cat; echo {number}"))).await;
                    assert_eq!(text, format!("{number}\n"));
                }
            });
            futures_util::future::join_all(jobs).await;
        });
    }
}

#[test]
fn two_jobs_do_not_see_each_other() {
    for system in STRONG {
        on(system, || async {
            let launcher = launcher().await;
            let dir = folder();
            let post = Signpost::new(dir.path());
            let mut spec = with_env(
                sh("echo x > /tmp/x; echo x > /dev/shm/x; echo there > $SIGNPOST; sleep 1000"),
                "SIGNPOST",
                post.path(),
            );
            spec.mounts.push(shared(dir.path()));
            let _job = launcher.start(spec).unwrap();
            post.reached().await;
            let text =
                output(&launcher, sh("ls -A /tmp /dev/shm; ls /proc | grep -c '^[0-9]'")).await;
            assert!(!text.contains('x'), "{text}");
            // The init, the shell, and `ls` and `grep` as far as they run at that instant.
            let count: u32 = text.lines().last().unwrap().parse().unwrap();
            assert!((3..=5).contains(&count), "{text}");
        });
    }
}

/// Writes a file of 1 MiB after another, until it is stopped.
const FILL: &str = "i=0; while head -c 1048576 /dev/zero > f$i; do i=$((i+1)); done; sleep 1000";

/// Makes one empty file after another.
const CROWD: &str = "i=0; while [ $i -lt 200000 ]; do : > e$i; i=$((i+1)); done; sleep 1000";

/// Jobs that may hold 8 MiB, each with all that it can write on a disk: the upper layer of an overlay,
/// a directory of the host, the private folder of the weaker tiers.
fn writers(tier: Tier, dir: &Path, script: &str) -> Vec<JobSpec> {
    let limits = Limits { disk_bytes: 8 << 20, wall: PATIENCE, ..Limits::default() };
    let job = |mounts, cwd: &str| JobSpec { mounts, limits, cwd: cwd.into(), ..sh(script) };
    for name in ["base", "upper", "work", "shared"] {
        std::fs::create_dir(dir.join(name)).unwrap();
    }
    let own = dir.join("shared");
    let mut jobs = vec![job(vec![shared(&own)], own.to_str().unwrap())];
    if tier.can_mount() {
        let overlay = Mount::Overlay {
            lower: vec![dir.join("base")],
            upper: dir.join("upper"),
            work: dir.join("work"),
            at: "/repo".into(),
        };
        jobs.push(job(vec![overlay], "/repo"));
    } else {
        jobs.push(job(Vec::new(), "/tmp"));
    }
    jobs
}

#[test]
fn a_job_that_fills_the_disk_is_ended_and_says_what_it_held() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let (dirs, tier) = ([folder(), folder()], launcher.tier());
            let fill = writers(tier, dirs[0].path(), FILL);
            for spec in fill.into_iter().chain(writers(tier, dirs[1].path(), CROWD)) {
                let exit = run(&launcher, spec).await.unwrap();
                let JobStatus::DiskLimit { held, left: None } = exit.status else {
                    panic!("{:?}: {}", exit.status, String::from_utf8_lossy(&exit.output));
                };
                assert!(held > 8 << 20, "{held}");
            }
        });
    }
}

#[test]
fn what_a_shared_directory_held_before_is_not_counted() {
    on(System::Here, || async {
        let dir = folder();
        for number in 0..16 {
            std::fs::write(dir.path().join(number.to_string()), vec![1; 1 << 20]).unwrap();
        }
        let limits = Limits { disk_bytes: 8 << 20, ..Limits::default() };
        // Long enough for several looks.
        let script = "head -c 1048576 /dev/zero > more; sleep 1";
        let spec = JobSpec { mounts: vec![shared(dir.path())], limits, ..sh(script) };
        let spec = JobSpec { cwd: dir.path().into(), ..spec };
        output(&launcher().await, spec).await;
    });
}

#[test]
fn on_a_full_disk_the_job_that_holds_most_is_ended_and_the_others_go_on() {
    on(System::Here, || async {
        let launcher = launcher().await;
        let (dir, small) = (folder(), folder());
        let post = Signpost::new(small.path());
        let limits = Limits { wall: PATIENCE, ..Limits::default() };
        // Holds little, and only the big one has a limit of the free space, which no disk can meet.
        let spec = with_env(
            sh("head -c 65536 /dev/zero > x; echo there > $SIGNPOST; sleep 1000"),
            "SIGNPOST",
            post.path(),
        );
        let mounts = vec![shared(small.path())];
        let spec = JobSpec { mounts, limits, cwd: small.path().into(), ..spec };
        let other = launcher.start(spec).unwrap();
        post.reached().await;
        let limits = Limits { free_bytes: u64::MAX, ..limits };
        let spec = JobSpec { mounts: vec![shared(dir.path())], limits, ..sh(FILL) };
        let exit = run(&launcher, JobSpec { cwd: dir.path().into(), ..spec }).await.unwrap();
        let JobStatus::DiskLimit { left: Some(left), .. } = exit.status else {
            panic!("{:?}", exit.status);
        };
        assert!(left < u64::MAX);
        other.kill();
        assert_eq!(other.ended().await.unwrap().status, JobStatus::Killed);
    });
}
