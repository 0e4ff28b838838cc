//! What a job is kept from within a directory that it may write.

use bakeoff::sandbox::{JobSpec, Mount, SandboxError};

use super::stage::*;

/// Tries to read, write, move and remove the directory `d` and the file `f`, and what holds them.
const ATTACK: &str = "ls -A d; cat f; echo x > d/x; echo x > f; mv d e; mv f g; rm -rf d f; ln -sf /etc f; \
                      test -e d/inner || test -s f || test -e e || test -e g || echo held; mv in out; cat out/f; \
                      echo x > out/f; rm -rf out; echo new > made";

#[test]
fn what_is_covered_is_empty_and_stays_as_it_is() {
    for system in STRONG {
        on(system, || async {
            let dir = folder();
            let at = |name: &str| dir.path().join(name);
            for name in ["d", "in"] {
                std::fs::create_dir(at(name)).unwrap();
            }
            for name in ["d/inner", "f", "in/f"] {
                std::fs::write(at(name), "secret").unwrap();
            }
            let covers = ["d", "f", "in/f"].map(|name| Mount::Covered { at: at(name) });
            let mounts = [vec![shared(dir.path())], covers.into()].concat();
            let script = format!("({ATTACK}) 2>/dev/null");
            let spec = JobSpec { mounts, cwd: dir.path().into(), ..sh(&script) };
            assert_eq!(output(&launcher().await, spec).await, "held\n");
            let read = |name: &str| std::fs::read_to_string(at(name)).unwrap();
            assert_eq!([read("d/inner"), read("f"), read("made")], ["secret", "secret", "new\n"]);
            // What holds a covered file may be moved, but not be removed.
            assert_eq!(read("out/f"), "secret");
            assert_eq!(std::fs::read_dir(at("d")).unwrap().count(), 1);
        });
    }
}

#[test]
fn what_can_not_be_covered_is_no_job() {
    for system in ALL {
        on(system, move || async move {
            let dir = folder();
            std::fs::create_dir(dir.path().join("d")).unwrap();
            std::os::unix::fs::symlink("d", dir.path().join("link")).unwrap();
            let names: &[&str] = if STRONG.contains(&system) { &["link", "none"] } else { &["d"] };
            let launcher = launcher().await;
            for name in names {
                let covered = Mount::Covered { at: dir.path().join(name) };
                let mounts = vec![shared(dir.path()), covered];
                let ended = run(&launcher, JobSpec { mounts, ..sh("echo ran") }).await;
                let Err(SandboxError::Setup(why)) = ended else { panic!("{system:?}: {ended:?}") };
                assert!(why.contains(name), "{why}");
            }
        });
    }
}
