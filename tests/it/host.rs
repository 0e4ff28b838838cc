//! The operator's own commands, with real programs: their table, their input, what they ask for.

use std::path::PathBuf;
use std::sync::Arc;

use bakeoff::jobs::{
    Alone, Command, Ground, HostJob, HostJobs, Input, JobBook, JobLimits, Order, RunScope, Size,
    Viewer, mint_token,
};
use bakeoff::journal::Learnt;
use bakeoff::model::{CardKind, CardSink, CardState, LaneId, LeaseId, Sender};
use bakeoff::sandbox::{JobSpec, Launcher};

use crate::sandbox::stage::*;

/// Nobody who could answer.
const NOBODY: Alone = Alone { no_terminal: true, no_input: false, ci: false };

/// A directory as a lane's workspace.
struct Place(PathBuf);

impl Ground for Place {
    fn lease(&self) -> LeaseId {
        LeaseId::new("a")
    }

    fn job(&self, command: &Command) -> Result<JobSpec, String> {
        let mut spec = sh(&command.script);
        spec.mounts.push(shared(&self.0));
        spec.cwd = self.0.clone();
        Ok(spec)
    }
}

/// The operator's jobs of a run with one lane.
struct Run {
    jobs: HostJobs,
    launcher: Launcher,
    learnt: Learnt,
    dir: tempfile::TempDir,
    _entrance: bakeoff::jobs::Entrance,
}

impl Run {
    async fn new() -> Self {
        let (launcher, dir, learnt) = (launcher().await, folder(), Learnt::default());
        let jobs = HostJobs::new(learnt.clone(), CardSink::none());
        jobs.open(launcher.clone());
        let ground = Arc::new(Place(dir.path().to_owned()));
        let entrance = jobs.enter(&LaneId::of("fast", 1), ground);
        Self { jobs, launcher, learnt, dir, _entrance: entrance }
    }

    fn command(&self, script: &str, pty: bool) -> Command {
        let terminal = pty.then_some(Size { rows: 40, columns: 120 });
        Command {
            script: script.to_owned(),
            dir: String::new(),
            terminal,
            alone: Alone::default(),
            viewer: Viewer::Nobody,
        }
    }

    fn start(&self, script: &str) -> HostJob {
        self.jobs.start(None, &self.command(script, false)).unwrap()
    }

    fn start_in_terminal(&self, script: &str) -> HostJob {
        self.jobs.start(None, &self.command(script, true)).unwrap()
    }
}

/// Waits until a job stands so.
async fn stands(job: &HostJob, so: impl Fn(&CardState) -> bool) -> CardState {
    let handle = job.handle();
    let come = async {
        loop {
            let card = handle.card();
            if so(&card.state) {
                return card.state;
            }
            assert!(card.state.is_live(), "it ended: {:?}: {}", card.state, text(job));
            // Woken by output and ends; a question is looked for.
            let soon = std::time::Duration::from_millis(20);
            let _ = tokio::time::timeout(soon, handle.written_beyond(card.bytes)).await;
        }
    };
    tokio::time::timeout(PATIENCE, come).await.expect("it never stood so")
}

async fn over(job: &HostJob) -> i32 {
    let handle = job.handle();
    let come = async {
        while handle.is_live() {
            handle.written_beyond(handle.card().bytes).await;
        }
    };
    tokio::time::timeout(PATIENCE, come).await.expect("it does not end");
    job.end().unwrap().code()
}

fn text(job: &HostJob) -> String {
    job.handle().read_from(0).text()
}

async fn put(job: &HostJob, input: Input) -> Result<(), String> {
    job.handle().feed_input(input, &Sender::of_peer(0, None)).await
}

fn submit(text: &str) -> Input {
    Input::Submit { text: text.to_owned() }
}

fn asks(state: &CardState) -> bool {
    matches!(state, CardState::NeedsApproval { .. })
}

#[test]
fn a_command_s_input_output_and_exit_are_its_own() {
    // contract R11 in part: text sent to a shell goes to its stdin
    for system in ALL {
        on(system, || async {
            let run = Run::new().await;
            let job = run.start("pwd; read a; read b; echo \"$a-$b\"; cat; exit 3 # a comment");
            put(&job, submit("one")).await.unwrap();
            put(&job, Input::Write { text: "tw".into() }).await.unwrap();
            put(&job, Input::Write { text: "o\nrest".into() }).await.unwrap();
            put(&job, Input::Close).await.unwrap();
            assert_eq!(over(&job).await, 3);
            assert_eq!(text(&job), format!("{}\none-two\nrest", run.dir.path().display()));
            assert_eq!(put(&job, Input::Close).await, Ok(()));
            assert!(put(&job, submit("x")).await.unwrap_err().contains("has ended"));
            let card = job.handle().card();
            assert_eq!((card.id.as_str(), card.kind), ("shell#1", CardKind::Shell));
            for (script, code) in
                [("kill -9 $$", 137), ("exec /no/such/program", 127), ("no-such-program", 127)]
            {
                assert_eq!(over(&run.start(script)).await, code, "{script}");
            }
        });
    }
}

#[test]
fn what_the_operator_leaves_running_is_no_worker_s_and_ends_with_the_run_unreported() {
    // contract S1
    // contract S7
    // contract S9
    // contract S10
    // contract R5 in part: a shell is no job of a worker's
    for system in [System::Here, System::NoNamespaces] {
        on(system, || async {
            let run = Run::new().await;
            let book = JobBook::new(JobLimits { running: 1, ..JobLimits::default() });
            let table = book.open(&LaneId::of("fast", 1));
            let nonce = nonce();
            let jobs: Vec<HostJob> =
                (0..3).map(|_| run.start(&format!("echo up; sleep 1000 # {nonce}"))).collect();
            for job in &jobs {
                job.handle().written_beyond(0).await;
            }
            // The worker of that lane has the same workspace, and room for its own job.
            let token = mint_token();
            let mut spec = sh("sleep 1000");
            spec.token = token.clone();
            let order =
                Order { spec, lease: LeaseId::new("a"), label: "own".into(), by: 0, watch: None };
            let own = table.start(&run.launcher, order).unwrap();
            let listed: Vec<_> =
                book.of_lease(&LeaseId::new("a")).into_iter().map(|j| j.id).collect();
            assert_eq!(listed, [own]);
            assert!(
                table.read(jobs[0].id(), 0).is_none() && table.kill(jobs[0].id()).await.is_none()
            );
            // Its worker's end is not theirs (contract R10).
            RunScope::new(token, run.launcher.clone()).with_table(table).finish().await;
            assert!(jobs.iter().all(|job| job.handle().is_live()));
            let quick = run.start("true");
            over(&quick).await;
            let told = run.jobs.told(quick.id(), false);
            assert!(told.contains("shell#1") && told.contains("until the run ends"), "{told}");
            let detached = run.jobs.told(jobs[0].id(), true);
            assert!(
                detached.starts_with("shell#1 is started, and runs until the run ends"),
                "{detached}"
            );
            for words in [&told, &detached] {
                assert!(!words.contains("bash_jobs") && !words.contains("run_bash"), "{words}");
            }
            let reaped = run.jobs.finish().await;
            assert_eq!((reaped.killed, reaped.survivors), (3, vec![]));
            nothing_alive(&nonce);
            assert!(run.jobs.start(None, &run.command("true", false)).is_err());
        });
    }
}

#[test]
fn what_others_look_at_is_not_left_and_too_many_are_refused_in_the_operator_s_words() {
    on(System::Here, || async {
        let run = Run::new().await;
        let watched = Command { viewer: Viewer::Text, ..run.command("exec sleep 1000", false) };
        let watched = run.jobs.start(None, &watched).unwrap();
        let quick = run.start("true");
        over(&quick).await;
        let viewer = watched.viewer();
        assert_eq!(run.jobs.told(quick.id(), false), "", "it ends with its viewer");
        drop(viewer);
        let told = run.jobs.told(quick.id(), false);
        assert!(told.starts_with("left by earlier commands") && told.contains("shell#1"), "{told}");
        let command = run.command("exec sleep 1000", false);
        let refused = (0..20).find_map(|_| run.jobs.start(None, &command).err());
        let refused = refused.expect("there is an end");
        assert!(refused.starts_with("16 commands run already"), "{refused}");
        assert!(refused.contains("`bakeoff stop ID`") && !refused.contains("kill"), "{refused}");
        assert_eq!(run.jobs.finish().await.killed, 16);
    });
}

#[test]
fn a_thousand_quick_commands_leave_one_row() {
    // contract S8
    on(System::Here, || async {
        let run = Run::new().await;
        let source: Arc<dyn bakeoff::jobs::Source> = Arc::new(run.jobs.clone());
        let first = run.start("echo first");
        over(&first).await;
        for _ in 0..999 {
            let job = run.start("exit 0");
            assert_eq!(over(&job).await, 0);
            assert_eq!(source.clone().handles().len(), 1);
        }
        assert_eq!(text(&first), "first\n", "who looks at one keeps it readable");
    });
}

#[test]
fn a_command_needs_a_workspace_and_a_sandbox() {
    on(System::Here, || async {
        let run = Run::new().await;
        let command = run.command("true", false);
        let refused = |jobs: &HostJobs, lane| jobs.start(lane, &command).map(drop).unwrap_err();
        assert!(refused(&run.jobs, Some("slow/1")).contains("there are fast/1"));
        let more = run.jobs.enter(&LaneId::of("slow", 1), Arc::new(Place("/tmp".into())));
        assert!(refused(&run.jobs, None).contains("fast/1, slow/1"));
        drop(more);
        assert!(run.jobs.start(None, &command).is_ok());
        let none = HostJobs::new(Learnt::default(), CardSink::none());
        assert!(refused(&none, None).contains("no lane has a workspace now"));
        let _lane = none.enter(&LaneId::of("slow", 1), Arc::new(Place("/tmp".into())));
        assert!(refused(&none, None).contains("no sandbox"));
    });
}

#[test]
fn a_secret_is_asked_for_without_attaching_and_never_kept_in_output() {
    // contract R19
    // contract R21 together: attach answers unseen, and what is cleared at the end
    if !python() {
        return;
    }
    for system in ALL {
        on(system, || async {
            let run = Run::new().await;
            let script = "python3 -c \"import getpass; w = getpass.getpass('Secret password: '); print('got', w, w[:4], w)\"";
            let job = run.start_in_terminal(script);
            let state = stands(&job, asks).await;
            let prompt = "Secret password:".to_owned();
            assert_eq!(state, CardState::NeedsApproval { prompt, secret: true });
            put(&job, Input::Secret { text: "open-sesame".into() }).await.unwrap();
            assert_eq!(over(&job).await, 0, "{}", text(&job));
            assert_eq!(text(&job), "Secret password: \ngot [masked] open [masked]\n");
            // The same command asks again, and is answered without the operator.
            let again = run.start_in_terminal(script);
            assert_eq!(over(&again).await, 0);
            assert_eq!(text(&again), "Secret password: \ngot [masked] open [masked]\n");
            // Another one's output, a worker's and what is written to disk hide it, too.
            let echo = run.start("printf 'open-'; sleep 0.05; echo sesame");
            over(&echo).await;
            assert_eq!(text(&echo), "[masked]\n");
            assert_eq!(run.learnt.hide("an open-sesame"), "an [masked]");
            // A wrong answer is not given twice.
            let wrong = run.start_in_terminal(
                "stty -echo; for i in 1 2 3; do printf 'PIN: '; read w; echo; [ \"$w\" = 4711 ] && exit 0; done; exit 1",
            );
            for answer in ["1234", "4711"] {
                stands(&wrong, asks).await;
                put(&wrong, submit(answer)).await.unwrap();
            }
            assert_eq!(over(&wrong).await, 0, "{}", text(&wrong));
        });
    }
}

#[test]
fn an_answer_through_a_pipe_is_a_secret_by_its_question() {
    // contract R21 in part: without a terminal
    on(System::Here, || async {
        let run = Run::new().await;
        let job = run.start("printf 'Passphrase: '; read w; echo \"<$w>\"; printf 'Sure? [y/N] '; read y; echo \"$y\"");
        stands(&job, asks).await;
        put(&job, submit("open-sesame")).await.unwrap();
        let confirm = CardState::NeedsApproval { prompt: "Sure? [y/N]".into(), secret: false };
        assert_eq!(stands(&job, asks).await, confirm);
        put(&job, submit("y")).await.unwrap();
        assert_eq!(over(&job).await, 0);
        assert_eq!(text(&job), "Passphrase: <[masked]>\nSure? [y/N] y\n");
    });
}

#[test]
fn a_program_that_waits_for_who_reads_it_goes_on_though_it_began_like_a_secret() {
    // contract R19 in part: what goes to whoever started a command
    on(System::Here, || async {
        for viewer in [Viewer::Text, Viewer::Bytes] {
            let run = Run::new().await;
            let script = "printf 'Password: '; read w; printf su; read a; echo \"rely, $a: $w\"";
            let command = Command { viewer, ..run.command(script, false) };
            let job = run.jobs.start(None, &command).unwrap();
            let handle = job.viewer();
            stands(&job, asks).await;
            put(&job, submit("surething")).await.unwrap();
            let (mut seen, mut next, mut answered) = (String::new(), 0, false);
            while handle.is_live() {
                handle.written_beyond(next).await;
                let reading = handle.read_from(next);
                (seen, next) = (seen + &reading.text(), reading.next);
                if !answered && seen.ends_with("su") {
                    answered = true;
                    assert_eq!(text(&job), "Password: ", "nothing of a secret is kept");
                    put(&job, submit("you see")).await.unwrap();
                }
            }
            seen += &handle.read_from(next).text();
            assert_eq!(seen, "Password: surely, you see: [masked]\n");
        }
    });
}

#[test]
fn where_nobody_can_answer_a_question_for_a_secret_ends_the_command() {
    // contract R21 in part: headless
    for system in ALL {
        on(system, || async {
            let run = Run::new().await;
            for (pty, script) in [
                (false, "printf 'Password: '; read w; sleep 1000"),
                (true, "stty -echo; printf 'Who? '; read w; sleep 1000"),
            ] {
                let command = Command { alone: NOBODY, ..run.command(script, pty) };
                let job = run.jobs.start(None, &command).unwrap();
                assert_eq!(over(&job).await, 125, "{}", text(&job));
                let why = job.end().unwrap().reason().unwrap();
                assert!(
                    why.contains("asked for a secret (") && why.contains("nobody is there"),
                    "{why}"
                );
                assert!(
                    why.contains("start it from a terminal, or") && !why.contains("--no-input"),
                    "{why}"
                );
            }
            // A yes or a no is no secret: it waits.
            let command = Command {
                alone: NOBODY,
                ..run.command("printf 'Sure? [y/N] '; read y; exit 8", false)
            };
            let job = run.jobs.start(None, &command).unwrap();
            stands(&job, asks).await;
            put(&job, submit("n")).await.unwrap();
            assert_eq!(over(&job).await, 8);
        });
    }
}

/// Python that takes its terminal's echo away, or says that it asks for a secret, and then does this.
fn dark(pty: bool, then: &str) -> String {
    let dark = match pty {
        true => {
            "import termios; m = termios.tcgetattr(0); m[3] &= ~termios.ECHO; termios.tcsetattr(0, termios.TCSANOW, m)"
        }
        false => "print('Password: ', end='', flush=True)",
    };
    format!(
        "import os, select, signal, subprocess, sys, threading, time\n{dark}\n{then}\nsys.exit(7)\n"
    )
}

#[test]
fn what_works_in_the_dark_asks_for_no_secret_and_what_reads_does() {
    // contract R21 in part: headless; what is no question
    if !python() {
        return;
    }
    // Longer than words alone are waited for.
    const WORK: [&str; 5] = [
        "time.sleep(3)",
        "subprocess.run(['sleep', '3'])",
        "select.select([], [], [], 3)",
        "r, w = os.pipe(); threading.Timer(3, os.write, (w, b'x')).start(); e = select.epoll(); e.register(r, select.EPOLLIN); e.poll()",
        "r, w = os.pipe(); p = select.poll(); p.register(r); p.register(1, select.POLLOUT); os.fork() or (time.sleep(3), os.write(w, b'x')); p = select.poll(); p.register(r, select.POLLIN); p.poll()",
    ];
    const READ: [&str; 6] = [
        "os.read(0, 1)",
        "select.select([0, 1], [], [])",
        "p = select.poll(); p.register(0, select.POLLIN); p.poll()",
        "i = select.epoll(); i.register(0, select.EPOLLIN); e = select.epoll(); e.register(i, select.EPOLLIN); e.poll()",
        "threading.Thread(target=os.read, args=(os.dup(0), 1)).start(); time.sleep(1000)",
        "subprocess.run(['sh', '-c', 'read a'])",
    ];
    for system in [System::Here, System::Ordinary, System::OrdinaryNoNamespaces] {
        on(system, move || async move {
            let run = Run::new().await;
            let start = |pty: bool, then: &str| {
                let path = run.dir.path().join(format!("{}.py", nonce()));
                std::fs::write(&path, dark(pty, then)).unwrap();
                let script = format!("exec python3 {}", path.display());
                let command = Command { alone: NOBODY, ..run.command(&script, pty) };
                (then.to_owned(), pty, run.jobs.start(None, &command).unwrap())
            };
            for (then, pty, job) in
                [true, false].map(|pty| WORK.map(|then| start(pty, then))).as_flattened()
            {
                assert_eq!(over(job).await, 7, "{then}, {pty}: {:?}", job.end());
            }
            for (then, pty, job) in
                [true, false].map(|pty| READ.map(|then| start(pty, then))).as_flattened()
            {
                assert_eq!(over(job).await, 125, "{then}, {pty}: {}", text(job));
                let why = job.end().unwrap().reason().unwrap();
                assert!(why.contains("asked for a secret ("), "{then}, {pty}: {why}");
            }
        });
    }
}

#[test]
fn output_is_text_and_colours_only() {
    // contract R20
    for pty in [false, true] {
        on(System::Here, move || async move {
            let run = Run::new().await;
            let script =
                "printf 'a\\377b\\033[31mred\\033[0m\\033[2J\\033]0;title\\007c\\r\\n\\303'";
            let job = match pty {
                true => run.start_in_terminal(script),
                false => run.start(script),
            };
            assert_eq!(over(&job).await, 0);
            assert_eq!(text(&job), "a\u{fffd}b\u{1b}[31mred\u{1b}[0mc\n\u{fffd}");
        });
    }
}

#[test]
fn what_a_command_leaves_behind_itself_ends_with_it() {
    for system in [System::Here, System::OrdinaryNoNamespaces] {
        for pty in [false, true] {
            on(system, move || async move {
                let run = Run::new().await;
                let nonce = nonce();
                // A daemon, and one that minds neither TERM nor the end of its terminal.
                let script = format!(
                    "NONCE={nonce}; export NONCE; (setsid sh -c 'sleep 1000' > /dev/null 2>&1 &); (trap '' TERM HUP; sleep 1000 &); exit 4"
                );
                let job = match pty {
                    true => run.start_in_terminal(&script),
                    false => run.start(&script),
                };
                assert_eq!(over(&job).await, 4);
                nothing_alive(&nonce);
            });
        }
    }
}
