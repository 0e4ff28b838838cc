//! Facts of the kernel that the warden is made for, and what it makes of them.

use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use bakeoff::sandbox::{Launcher, Permit};

use super::stage::*;

#[test]
fn a_parent_death_signal_follows_the_thread_and_not_the_process() {
    let start = || {
        let mut command = Command::new("sleep");
        // SAFETY: prctl is safe between fork and exec.
        unsafe {
            command.arg("1000").pre_exec(|| {
                match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
        }
        command.spawn().unwrap()
    };
    // This process lives on, but the thread that started the child does not.
    let mut child = std::thread::spawn(start).join().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
}

#[test]
fn the_warden_does_not_die_with_the_thread_that_started_it() {
    let warden = std::thread::spawn(warden).join().unwrap();
    on(System::Here, || async move {
        let report = warden.prove().await;
        let launcher = Launcher::new(warden, Permit::grant(&report, false).unwrap());
        assert_eq!(output(&launcher, sh("echo alive")).await, "alive\n");
    });
}
