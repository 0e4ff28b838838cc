//! Open inputs and pseudo terminals of jobs, with real programs, on every kind of system.

use std::sync::{Arc, Mutex};

use bakeoff::sandbox::{
    Feed, Feeding, InputState, JobExit, JobSpec, JobStatus, Launch, Launcher, Live, LiveEvent,
    Process, TerminalSize, Tier,
};
use tokio::sync::Notify;

use super::stage::*;

/// A live job, and what it wrote.
struct Talk {
    process: Box<dyn Process>,
    heard: Arc<(Mutex<Vec<u8>>, Notify)>,
}

const TERMINAL: Feed = Feed::Terminal(TerminalSize { rows: 40, columns: 120 });

impl Talk {
    fn start(launcher: &Launcher, spec: JobSpec, feed: Feed) -> Self {
        Self::start_with(launcher, spec, feed, None)
    }

    fn start_with(launcher: &Launcher, spec: JobSpec, feed: Feed, credit: Option<u64>) -> Self {
        let heard: Arc<(Mutex<Vec<u8>>, Notify)> = Arc::default();
        let ear = heard.clone();
        let sink = Arc::new(move |event: LiveEvent<'_>| {
            if let LiveEvent::Output(bytes) = event {
                ear.0.lock().unwrap().extend(bytes);
                ear.1.notify_waiters();
            }
        });
        let process = launcher.start_live(spec, Live { feed, credit, ..Live::new(sink) }).unwrap();
        Self { process, heard }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.heard.0.lock().unwrap()).into_owned()
    }

    /// Waits until the output holds `part`.
    async fn until(&self, part: &str) {
        let come = self.heard(|text| text.contains(part)).await;
        assert!(come, "{part:?} never came: {:?}", self.text());
    }

    /// Waits until the output has so many bytes.
    async fn writes(&self, bytes: usize) {
        assert!(self.heard(|text| text.len() >= bytes).await, "{:?}", self.text());
    }

    async fn heard(&self, so: impl Fn(&str) -> bool) -> bool {
        let come = async {
            loop {
                let woken = self.heard.1.notified();
                if so(&self.text()) {
                    return;
                }
                woken.await;
            }
        };
        tokio::time::timeout(PATIENCE, come).await.is_ok()
    }

    /// Waits until its input stands so.
    async fn stands(&self, so: impl Fn(&InputState) -> bool) {
        let come = async {
            while !so(&self.process.feed(Feeding::Look).await.unwrap()) {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, come).await;
        assert!(waited.is_ok(), "{:?}", self.process.feed(Feeding::Look).await);
    }

    async fn write(&self, text: &str) -> Result<InputState, String> {
        self.process.feed(Feeding::Write { bytes: text.into(), hidden: false }).await
    }

    async fn hide(&self, text: &str) -> Result<InputState, String> {
        self.process.feed(Feeding::Write { bytes: text.into(), hidden: true }).await
    }

    async fn end(&self) -> JobExit {
        tokio::time::timeout(PATIENCE, self.process.ended()).await.unwrap().unwrap()
    }
}

fn dark(state: &InputState) -> bool {
    state.terminal.is_some_and(|modes| !modes.echo)
}

#[test]
fn a_pipe_takes_input_until_it_is_closed() {
    // contract R16 in part: the pipe
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let spec = JobSpec { stdin: b"first ".into(), ..sh("cat; echo over; exit 4") };
            let talk = Talk::start(&launcher, spec, Feed::Pipe);
            talk.write("a").await.unwrap();
            talk.until("first a").await;
            talk.write("b\n").await.unwrap();
            assert_eq!(
                talk.process.feed(Feeding::Resize(TerminalSize::default())).await,
                Err("it has no terminal".into())
            );
            talk.process.feed(Feeding::Close).await.unwrap();
            // It may have ended by now.
            assert!(talk.write("late").await.is_err());
            assert_eq!(talk.end().await.status, JobStatus::Exited(4));
            assert_eq!(talk.text(), "first ab\nover\n");
            // Closing what is over is fine, writing to it is not.
            talk.process.feed(Feeding::Close).await.unwrap();
            assert_eq!(talk.write("x").await, Err("the job has ended".into()));
            let talk = Talk::start(&launcher, sh("exec sleep 1000"), Feed::Pipe);
            talk.process.feed(Feeding::Close).await.unwrap();
            assert_eq!(talk.write("late").await, Err("its input is closed".into()));
            // One that reads nothing takes no more than so much, and none that has closed its input.
            let talk = Talk::start(&launcher, sh("exec sleep 1000"), Feed::Pipe);
            talk.write(&"x".repeat(1 << 20)).await.unwrap();
            assert!(
                talk.write(&"x".repeat(1 << 20)).await.unwrap_err().contains("input wait already")
            );
            let talk =
                Talk::start(&launcher, sh("exec <&-; echo closed; exec sleep 1000"), Feed::Pipe);
            talk.until("closed").await;
            let refused = async {
                // Its init lets go of the other end soon after the program has begun.
                while talk.write("x").await.is_ok() {
                    tokio::task::yield_now().await;
                }
            };
            assert!(tokio::time::timeout(PATIENCE, refused).await.is_ok());
            let none = Talk::start(&launcher, sh("cat; exec sleep 1000"), Feed::Nothing);
            assert!(none.write("x").await.is_err());
        });
    }
}

#[test]
fn output_waits_until_it_is_allowed_and_none_is_lost() {
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            for feed in [Feed::Pipe, TERMINAL] {
                let spec = sh("exec seq 1 100000");
                let talk = Talk::start_with(&launcher, spec, feed, Some(1000));
                for allowed in [1000, 1500] {
                    talk.writes(allowed).await;
                    assert_eq!(talk.text().len(), allowed);
                    talk.process.allow(Some(500));
                }
                talk.process.allow(None);
                assert_eq!(talk.end().await.status, JobStatus::Exited(0));
                let all: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
                assert!(talk.text().replace('\r', "") == all);
                // One that waits for it is ended all the same.
                let talk = Talk::start_with(&launcher, sh("exec yes"), feed, Some(1000));
                talk.writes(1000).await;
                talk.process.end().await.unwrap();
            }
        });
    }
}

#[test]
fn a_terminal_is_the_job_s_own_controlling_one_under_the_same_policy() {
    // contract R12
    // contract R13
    // contract R14 in part: the size at the start
    for system in ALL {
        on(system, move || async move {
            let launcher = launcher().await;
            let dir = folder();
            let secret = dir.path().join("secret");
            std::fs::write(&secret, "BAIT").unwrap();
            let script = "read -r pid comm state ppid pgrp session tty tpgid rest < /proc/$$/stat
                echo \"$((session == pid)) $((tty != 0)) $((tpgid == pgrp))\"
                [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && tty && echo own > /dev/tty
                cat \"$SECRET\" || echo kept; exit 3";
            let spec = with_env(sh(script), "SECRET", &secret);
            let talk = Talk::start(&launcher, spec, TERMINAL);
            assert_eq!(talk.end().await.status, JobStatus::Exited(3));
            let text = talk.text().replace('\r', "");
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines[..2], ["1 1 1", "40 120"], "{text}");
            assert!(lines[2].starts_with("/dev/pts/") && lines[3] == "own", "{text}");
            if launcher.tier() == Tier::Namespaces {
                assert_eq!(lines[2], "/dev/pts/0", "of an instance of its own");
            }
            assert!(launcher.tier() == Tier::None || !text.contains("BAIT"), "{text}");
        });
    }
}

#[test]
fn a_terminal_is_resized_and_its_programs_are_told() {
    // contract R14 together: who attaches does so in a real terminal
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let talk = Talk::start(
                &launcher,
                sh("trap 'stty size; exit 9' WINCH; echo ready; while :; do sleep 0.02; done"),
                TERMINAL,
            );
            talk.until("ready").await;
            let size = TerminalSize { rows: 50, columns: 132 };
            talk.process.feed(Feeding::Resize(size)).await.unwrap();
            talk.until("50 132").await;
            assert_eq!(talk.end().await.status, JobStatus::Exited(9));
        });
    }
}

#[test]
fn the_end_of_a_terminal_is_no_error_and_the_exit_status_is_kept() {
    // contract R18
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            for (script, status, told) in [
                ("echo hi; exit 7", JobStatus::Exited(7), "hi\n"),
                ("printf 'no line end'; kill -9 $$", JobStatus::Signalled(9), "no line end"),
                // A program that lets its terminal go works on, and may come back to it.
                (
                    "exec <&- >&- 2>&-; sleep 0.1; echo late > /dev/tty; exit 5",
                    JobStatus::Exited(5),
                    "late\n",
                ),
                ("seq 20000", JobStatus::Exited(0), ""),
            ] {
                let talk = Talk::start(&launcher, sh(script), TERMINAL);
                assert_eq!(talk.end().await.status, status, "{script}: {}", talk.text());
                let text = talk.text().replace('\r', "");
                match told {
                    "" => assert!(text.starts_with("1\n2\n") && text.ends_with("\n20000\n")),
                    told => assert_eq!(text, told),
                }
            }
            let talk = Talk::start(
                &launcher,
                sh("trap '' TERM HUP; echo up; while :; do sleep 1000; done"),
                TERMINAL,
            );
            talk.until("up").await;
            let reaped = talk.process.end().await.unwrap();
            assert_eq!((reaped.killed, reaped.survivors), (1, vec![]));
            assert_eq!(talk.end().await.status, JobStatus::Killed);
        });
    }
}

#[test]
fn closing_a_terminal_ends_what_reads_from_it_and_kills_nothing() {
    // contract R16
    // contract R17 in part: end of input; descriptors are counted elsewhere
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            for typed in ["", "whole\n", "part"] {
                let talk = Talk::start(
                    &launcher,
                    sh("stty -echo; echo go; cat; echo; echo over; exit 6"),
                    TERMINAL,
                );
                talk.until("go").await;
                talk.write(typed).await.unwrap();
                talk.process.feed(Feeding::Close).await.unwrap();
                assert_eq!(talk.end().await.status, JobStatus::Exited(6), "{typed:?}");
                let text = talk.text().replace('\r', "");
                assert_eq!(text, format!("go\n{typed}\nover\n"), "{typed:?}");
                talk.process.feed(Feeding::Close).await.unwrap();
            }
            // What minds no end of input is not ended by one.
            let talk = Talk::start(&launcher, sh("echo up; exec sleep 1000"), TERMINAL);
            talk.until("up").await;
            talk.process.feed(Feeding::Close).await.unwrap();
            assert!(talk.process.is_live());
            assert!(!talk.process.feed(Feeding::Look).await.unwrap().open);
        });
    }
}

#[test]
fn hidden_input_is_not_echoed_and_the_echo_comes_back() {
    // contract R19 in part: the terminal's echo
    for system in ALL {
        on(system, || async {
            let launcher = launcher().await;
            let talk = Talk::start(
                &launcher,
                sh("printf 'name: '; read a; read b; echo \"lengths ${#a} ${#b}\"; read c; exit 2"),
                TERMINAL,
            );
            talk.until("name: ").await;
            assert!(!dark(&talk.process.feed(Feeding::Look).await.unwrap()));
            talk.hide("open-sesame\n").await.unwrap();
            talk.stands(|state| !dark(state)).await;
            talk.write("shown\n").await.unwrap();
            talk.until("lengths 11 5").await;
            talk.write("seen\n").await.unwrap();
            assert_eq!(talk.end().await.status, JobStatus::Exited(2));
            let text = talk.text();
            assert!(text.contains("shown") && text.contains("seen"), "{text}");
            assert!(!text.contains("sesame"), "{text}");
        });
    }
}

#[test]
fn programs_can_make_their_terminal_dark_and_that_is_seen() {
    // contract R19 in part: what the program does
    if !python() {
        return;
    }
    let python = "import getpass; print(len(getpass.getpass('Secret word: ')))";
    for system in ALL {
        on(system, move || async move {
            let launcher = launcher().await;
            let mut spec = sh("");
            spec.argv = ["python3", "-c", python].map(Into::into).into();
            for (spec, prompt) in [
                (spec, "Secret word: "),
                (sh("stty -echo; printf 'Word? '; read w; stty echo; echo; echo ${#w}"), "Word? "),
            ] {
                let talk = Talk::start(&launcher, spec, TERMINAL);
                talk.until(prompt).await;
                talk.stands(dark).await;
                talk.hide("open-sesame\n").await.unwrap();
                assert_eq!(talk.end().await.status, JobStatus::Exited(0), "{}", talk.text());
                let text = talk.text();
                assert!(text.contains("11") && !text.contains("sesame"), "{text}");
                assert!(!text.to_lowercase().contains("warning"), "getpass could not hide: {text}");
            }
        });
    }
}

/// Open files of a process, as far as they are terminals or pipes.
fn open_files(pid: i32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.map(|path| path.display().to_string()).collect()
}

#[test]
fn no_descriptor_is_left_of_jobs_with_an_input() {
    // contract R17
    for system in ALL {
        on(system, || async {
            let warden = warden();
            let report = warden.prove().await;
            let permit = bakeoff::sandbox::Permit::grant(&report, true).unwrap();
            let launcher = Launcher::new(warden.clone(), permit);
            let pid = warden.identity().unwrap().pid;
            let before = open_files(pid).len();
            for round in 0..12 {
                for feed in [TERMINAL, Feed::Pipe] {
                    let talk = Talk::start(&launcher, sh("echo up; cat > /dev/null"), feed);
                    talk.until("up").await;
                    match round % 3 {
                        0 => assert!(talk.process.feed(Feeding::Close).await.is_ok()),
                        1 => drop(talk.process.end().await.unwrap()),
                        _ => {
                            talk.hide("x\n").await.unwrap();
                            talk.process.feed(Feeding::Close).await.unwrap();
                        }
                    }
                    talk.end().await;
                    talk.process.feed(Feeding::Close).await.unwrap();
                }
            }
            assert_eq!(open_files(pid).len(), before, "{:#?}", open_files(pid));
            // The engine itself never holds a terminal of a job.
            let own = std::process::id().cast_signed();
            assert!(
                !open_files(own)
                    .iter()
                    .any(|path| path.contains("ptmx") || path.contains("/pts/ptmx"))
            );
        });
    }
}
