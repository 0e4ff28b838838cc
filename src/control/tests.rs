use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::jobs::testing::Fake;
use crate::jobs::{Input, Size};
use crate::model::{CardSink, CardState, EventSink, Fate, LaneId, RunEvent, RunId};
use crate::worker::Floor;

/// An engine without a run.
struct Engine {
    run: PathBuf,
    served: Served,
    control: Control,
}

impl Engine {
    fn new(run: &Path) -> Self {
        let served = Served {
            watch: Watch::default(),
            stop: CancellationToken::new(),
            floor: Floor::default(),
            host: crate::jobs::HostJobs::new(crate::journal::Learnt::default(), CardSink::none()),
        };
        let lanes = [LaneId::of("one", 1), LaneId::of("two", 1)];
        served.floor.steering.open(lanes, Vec::new(), Arc::new(|_| Ok(())));
        let control = Control::serve(run, served.clone()).unwrap();
        Self { run: run.to_owned(), served, control }
    }

    async fn ask(&self, request: Request) -> Result<Reply, ControlError> {
        let run = self.run.clone();
        tokio::task::spawn_blocking(move || ask(&run, &request)).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_can_be_looked_at_and_stopped_whatever_its_path() {
    let top = tempfile::tempdir().unwrap();
    let run = top.path().join("long/".repeat(30));
    std::fs::create_dir_all(&run).unwrap();
    let engine = Engine::new(&run);
    let sink = engine.served.watch.over(EventSink::none());
    let (id, title) = (RunId::new("r"), "t".to_owned());
    sink.send(RunEvent::Started { run: id.clone(), title, attempts: 1, scripted: true });
    let Reply::Snapshot { snapshot } = engine.ask(Request::Probe).await.unwrap() else {
        panic!("no snapshot")
    };
    assert_eq!(snapshot.run, Some(id));
    assert_eq!(engine.ask(Request::Stop { id: None }).await.unwrap(), Reply::Stopping);
    assert!(engine.served.stop.is_cancelled());
    let Engine { control, run, .. } = engine;
    control.close().await;
    assert!(matches!(ask(&run, &Request::Probe), Err(ControlError::NotRunning(_))));
    assert!(std::fs::read_dir(&run).unwrap().next().is_none(), "the socket is removed");
}

// contract R1 in part
// contract R2 in part
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_live_is_listed_and_stopped_by_its_id_alone() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    let (one, two) = (Fake::new("one/1"), Fake::new("one/1#1"));
    engine.served.floor.board.add(one.clone());
    engine.served.floor.board.add(two.clone());
    one.become_state(CardState::NeedsApproval { prompt: "[y/N]".to_owned(), secret: false });
    let listed = async |ended| {
        let Reply::Jobs { jobs } = engine.ask(Request::Jobs { ended }).await.unwrap() else {
            panic!("no list")
        };
        jobs.into_iter().map(|card| (card.id, card.state.words())).collect::<Vec<_>>()
    };
    let row = |id: &str, state: &str| (id.to_owned(), state.to_owned());
    assert_eq!(listed(false).await, [row("one/1", "asks: [y/N]"), row("one/1#1", "running")]);
    let stop = Request::Stop { id: Some("one/1#1".to_owned()) };
    let Reply::Stopped { id, report } = engine.ask(stop).await.unwrap() else { panic!("no stop") };
    assert_eq!((id.as_str(), report.how.as_str()), ("one/1#1", "killed"));
    assert_eq!(listed(false).await, [row("one/1", "asks: [y/N]")]);
    assert_eq!(listed(true).await.len(), 2);
    assert!(!engine.served.stop.is_cancelled());
    let stop = Request::Stop { id: Some("one/1#9".to_owned()) };
    let refused = engine.ask(stop).await.unwrap_err().to_string();
    assert_eq!(refused, "nothing is called \"one/1#9\"; there are one/1, one/1#1");
}

/// One that gave up while the engine stood still was told that nothing was done.
#[tokio::test]
async fn what_somebody_asked_who_is_gone_is_not_done() {
    use std::io::Write;
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    // On this thread nothing is served until it waits.
    let mut gone =
        std::os::unix::net::UnixStream::connect(dir.path().join("control.sock")).unwrap();
    gone.write_all(b"{\"ask\":\"stop\",\"protocol\":1}\n").unwrap();
    drop(gone);
    for _ in 0..3 {
        engine.ask(Request::Probe).await.unwrap();
    }
    assert!(!engine.served.stop.is_cancelled());
    assert_eq!(engine.ask(Request::Stop { id: None }).await.unwrap(), Reply::Stopping);
    assert!(engine.served.stop.is_cancelled());
}

/// More callers than are served at once, who say nothing, keep nobody out once they are gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_has_gone_keeps_nobody_out() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    let socket = dir.path().join("control.sock");
    let crowd: Vec<_> =
        (0..300).map_while(|_| std::os::unix::net::UnixStream::connect(&socket).ok()).collect();
    assert!(crowd.len() > 128, "{}", crowd.len());
    drop(crowd);
    let reply = engine.ask(Request::Jobs { ended: false }).await.unwrap();
    assert_eq!(reply, Reply::Jobs { jobs: Vec::new() });
}

/// Nor do those that stay: who has not spoken gives way, and who is served does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_says_nothing_gives_way_to_whoever_speaks() {
    use std::io::{BufRead, BufReader};
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    let fake = Fake::new("one/1#1");
    engine.served.floor.board.add(fake.clone());
    let (run, socket) = (engine.run.clone(), dir.path().join("control.sock"));
    let crowd = move || {
        let (_, follow, speak) = attach(&run, "one/1#1", None).unwrap();
        let connect = |_| std::os::unix::net::UnixStream::connect(&socket).unwrap();
        ((follow, speak), (0..300).map(connect).collect::<Vec<_>>())
    };
    let ((mut follow, speak), crowd) = tokio::task::spawn_blocking(crowd).await.unwrap();
    for _ in 0..3 {
        let reply = engine.ask(Request::Jobs { ended: false }).await.unwrap();
        assert!(matches!(reply, Reply::Jobs { jobs } if jobs.len() == 1));
    }
    fake.write("still there");
    let seen = move || {
        let frame = follow.frame().unwrap();
        assert_eq!(frame, Some(Frame::Output { text: "still there".to_owned() }));
        let mut answer = String::new();
        BufReader::new(&crowd[0]).read_line(&mut answer).unwrap();
        assert!(answer.contains("others took all 128 places"), "{answer}");
    };
    tokio::task::spawn_blocking(seen).await.unwrap();
    drop(speak);
}

// contract R22 together: the screen is tested in a terminal
// contract R11 together: with a thing that takes input
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_attaches_gets_the_buffer_then_the_tail_and_leaves_without_stopping() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    let fake = Fake::new("one/1#1");
    engine.served.floor.board.add(fake.clone());
    // The ring keeps 30 bytes, 10 of them at the head.
    fake.write(&"0123456789".repeat(4));
    let (run, thing) = (dir.path().to_owned(), fake.clone());
    let viewer = move || {
        let size = Size { rows: 5, columns: 50 };
        let (card, mut follow, mut speak) = attach(&run, "one/1#1", Some(size)).unwrap();
        assert_eq!(card.id, "one/1#1");
        let output = |text: &str| Some(Frame::Output { text: text.to_owned() });
        assert_eq!(follow.frame().unwrap(), output("0123456789"));
        assert_eq!(follow.frame().unwrap(), Some(Frame::Dropped { bytes: 10 }));
        assert_eq!(follow.frame().unwrap(), output(&"0123456789".repeat(2)));
        let input = Input::Submit { text: "hello".to_owned() };
        speak.say(&Said::Input { input }).unwrap();
        assert_eq!(follow.frame().unwrap(), output("got hello\n"));
        speak.say(&Said::Resize { size: Size { rows: 7, columns: 70 } }).unwrap();
        let prompt = "password:".to_owned();
        thing.become_state(CardState::NeedsApproval { prompt, secret: true });
        let Some(Frame::State { card }) = follow.frame().unwrap() else { panic!("no state") };
        assert_eq!(card.state.words(), "asks: password:");
        // Who goes at once may go before the size was heard.
        let begun = std::time::Instant::now();
        while thing.sizes.lock().unwrap().len() < 2 && begun.elapsed().as_secs() < 60 {
            std::thread::yield_now();
        }
        drop((follow, speak));
        // The same thing once more: nothing of it was stopped.
        let (_, mut follow, _speak) = attach(&run, "one/1#1", None).unwrap();
        thing.end("exit 3");
        let ended = loop {
            match follow.frame().unwrap().expect("it is told how it ended") {
                Frame::Ended { card } => break card,
                Frame::Output { .. } | Frame::Dropped { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(ended.state.words(), "exit 3");
        assert_eq!(follow.frame().unwrap(), None);
        let unknown = attach(&run, "nothing", None).unwrap_err().to_string();
        assert!(unknown.contains("there are one/1#1"), "{unknown}");
    };
    tokio::task::spawn_blocking(viewer).await.unwrap();
    let inputs = fake.inputs.lock().unwrap();
    let me = rustix::process::geteuid().as_raw();
    assert!(inputs.len() == 1 && inputs[0].1.contains(&format!("uid {me}")), "{inputs:?}");
    let rows: Vec<u16> = fake.sizes.lock().unwrap().iter().map(|size| size.rows).collect();
    assert_eq!(rows, [5, 7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_to_be_said_of_an_input_comes_before_the_end_that_it_brought_about() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    let fake = Fake::new("one/1#1");
    engine.served.floor.board.add(fake.clone());
    // As if the input had ended it in the same moment.
    *fake.note.lock().unwrap() = Some("it is short".to_owned());
    fake.end("exit 0");
    let run = engine.run.clone();
    let viewer = move || {
        let (_, mut follow, _speak) = attach(&run, "one/1#1", None).unwrap();
        assert_eq!(follow.frame().unwrap(), Some(Frame::Note { text: "it is short".to_owned() }));
        assert!(matches!(follow.frame().unwrap(), Some(Frame::Ended { .. })));
    };
    tokio::task::spawn_blocking(viewer).await.unwrap();
}

// contract C32 in part: whose text it is is the kernel's word
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_for_a_worker_is_answered_with_its_fate() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(dir.path());
    let steer = |lane: &str, wait| {
        let (lane, text) = (lane.to_owned(), "look at the tests".to_owned());
        engine.ask(Request::Steer { lane, text, wait })
    };
    let Reply::Steered { steer: taken } = steer("one", false).await.unwrap() else {
        panic!("not taken")
    };
    assert_eq!((taken.lane.as_str(), taken.fate), ("one/1", Fate::Waiting));
    let me = rustix::process::geteuid().as_raw();
    assert!(taken.from.to_string().contains(&format!("uid {me}")), "{}", taken.from);
    let ended = async {
        // The second one is there before its worker ends.
        while engine.served.floor.steering.all().len() < 2 {
            tokio::task::yield_now().await;
        }
        engine.served.floor.steering.end(&LaneId::of("one", 1));
    };
    let (waited, ()) = tokio::join!(steer("one/1", true), ended);
    let Reply::Steered { steer: missed } = waited.unwrap() else { panic!("not taken") };
    assert_eq!(missed.fate, Fate::Missed);
    assert!(matches!(steer("one/1", true).await.unwrap(), Reply::Missed { .. }));
    let unknown = steer("three", true).await.unwrap_err().to_string();
    assert!(unknown.contains("there are one/1, two/1"), "{unknown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_no_request_is_refused_and_two_engines_are_apart() {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::fs::PermissionsExt;
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (engine, second) = (Engine::new(dir.path()), Engine::new(other.path()));
    let mode = std::fs::metadata(dir.path().join("control.sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "for its owner only");
    let run = dir.path().to_owned();
    let talk = move || {
        let told = |line: &[u8]| {
            let socket = run.join("control.sock");
            let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
            stream.write_all(line).unwrap();
            let mut answer = String::new();
            BufReader::new(stream).read_line(&mut answer).unwrap();
            answer
        };
        for (line, why) in [
            ("{\"ask\":\"probe\"}\n".to_owned(), "names no `protocol`"),
            ("{\"ask\":\"probe\",\"protocol\":99}\n".to_owned(), "version 99"),
            ("nonsense\n".to_owned(), "no JSON"),
            ("x".repeat(1 << 20) + "\n", "longer than"),
        ] {
            let answer = told(line.as_bytes());
            assert!(answer.contains("\"answer\":\"refused\"") && answer.contains(why), "{answer}");
        }
    };
    tokio::task::spawn_blocking(talk).await.unwrap();
    second.ask(Request::Stop { id: None }).await.unwrap();
    assert!(second.served.stop.is_cancelled() && !engine.served.stop.is_cancelled());
}
