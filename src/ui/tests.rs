use std::io;
use std::sync::{Arc, Mutex};

use indicatif::{ProgressDrawTarget, TermLike};

use super::*;
use crate::model::*;

/// A writer whose text can be read afterwards; it fails behind `room` bytes.
#[derive(Clone)]
struct Paper {
    text: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Paper {
    fn new(room: usize) -> Self {
        Self { text: Arc::default(), room }
    }

    fn text(&self) -> String {
        String::from_utf8(self.text.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = self.text.lock().unwrap();
        if text.len() + bytes.len() > self.room {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn usage() -> Usage {
    let cost = Cost { known: MicroUsd(1500), partly_unknown: false };
    Usage { calls: 2, input_tokens: 900, cost, ..Usage::default() }
}

fn activity(text: &str) -> RunEvent {
    RunEvent::LaneActivity {
        lane: LaneId::of("alpha", 1),
        turn: 3,
        activity: text.to_owned(),
        usage: usage(),
        context: 12_345,
    }
}

fn events() -> Vec<RunEvent> {
    let (c1, c2) = (CandidateId::new("c1"), CandidateId::new("c2"));
    let report = GateReport {
        command: "cargo check".to_owned(),
        millis: 3210,
        ..GateReport::bare(
            GateKind::Typecheck,
            Verdict::Fail { reason: "1 new error\u{1b}[2J".to_owned() },
        )
    };
    let refusal = Refusal {
        code: "hunk-not-found".to_owned(),
        message: "not there".to_owned(),
        path: None,
        hunk: None,
        expected: None,
        found: None,
    };
    let ballot = Ballot {
        judge: JudgeId::new("correctness"),
        model: "m".to_owned(),
        origin: JudgeOrigin { layer: "builtin".to_owned(), sha256: String::new() },
        left: c1.clone(),
        right: c2.clone(),
        order: Order::Reverse,
        choice: Choice::Right,
        vetoes: Vec::new(),
        reason: String::new(),
        evidence: Vec::new(),
        duel: None,
        usage: Usage::default(),
    };
    let decision = Decision {
        outcome: Outcome::Winner { candidate: c2.clone(), tree: TreeId::new("t") },
        basis: Some(Basis::Judges),
        confidence: Confidence::High,
        reason: "c2 won its pair".to_owned(),
        evidence: Vec::new(),
    };
    let lane = LaneId::of("alpha", 1);
    vec![
        RunEvent::Started {
            run: RunId::new("r1"),
            title: "fix\u{7} it".to_owned(),
            attempts: 2,
            scripted: true,
        },
        RunEvent::StageBegan { stage: Stage::FanOut, units: Some(2) },
        RunEvent::LaneBegan { lane: lane.clone(), model: "p:m".to_owned() },
        activity("edit_file src/lib.rs"),
        RunEvent::LaneEnded {
            lane: lane.clone(),
            stop: Stop::Quit,
            left_change: true,
            usage: usage(),
        },
        RunEvent::Admitted { candidate: c1.clone(), lane, admission: Admission::Refused(refusal) },
        RunEvent::GateBegan { candidate: None, command: "cargo check".to_owned() },
        RunEvent::Gated { candidate: Some(c2), report },
        RunEvent::Balloted { ballot },
        RunEvent::Warned { warning: Warning { code: "w".to_owned(), message: "look".to_owned() } },
        RunEvent::Decided { decision },
        RunEvent::Ended { exit: Exit::Done, usage: usage(), millis: 61_000 },
    ]
}

#[test]
fn lines_for_people() {
    let paper = Paper::new(usize::MAX);
    let mut lines = lines::Lines::new(paper.clone());
    for (at, event) in events().iter().enumerate() {
        lines.tell(event, Duration::from_millis(at as u64 * 100));
    }
    insta::assert_snapshot!(paper.text(), @r#"
         0.0 s  run r1: fix<U+0007> it (2 attempts, the models are SCRIPTED)
         0.1 s  workers: 2 to do
         0.2 s  alpha/1 began with p:m
         0.4 s  alpha/1 PARTIAL (quit), left a change, $0.0015
         0.5 s  c1 of alpha/1 refused, hunk-not-found: not there
         0.6 s  base runs cargo check
         0.7 s  c2 check ✗ 1 new error (3.2 s)
         0.8 s  correctness: c2 over c1 (first shown last)
         0.9 s  warning: look
         1.0 s  winner c2, confidence high: c2 won its pair
         1.1 s  done (exit 0) after 1 min 01 s, $0.0015
"#);
}

#[test]
fn a_long_silence_is_broken_by_what_a_worker_does() {
    let paper = Paper::new(usize::MAX);
    let mut lines = lines::Lines::new(paper.clone());
    for seconds in [1, 29, 31, 32, 62] {
        lines.tell(&activity(&format!("at {seconds}")), Duration::from_secs(seconds));
    }
    assert_eq!(
        paper.text(),
        "    31.0 s  alpha/1 turn 3: at 31\n1 min 02 s  alpha/1 turn 3: at 62\n"
    );
}

#[test]
fn json_lines_read_back_as_the_events() {
    let paper = Paper::new(usize::MAX);
    let listener = Listener::events_to(paper.clone());
    let sink = listener.audience().events;
    events().into_iter().for_each(|event| sink.send(event));
    listener.close();
    let read: Vec<RunEvent> =
        paper.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, events());
    sink.send(activity("after the end"));
    assert_eq!(paper.text().lines().count(), events().len());
}

#[test]
fn a_reader_that_goes_away_is_given_up() {
    let paper = Paper::new(100);
    let listener = Listener::events_to(paper.clone());
    let sink = listener.audience().events;
    events().into_iter().for_each(|event| sink.send(event));
    listener.close();
    assert!(paper.text().len() <= 100);
}

/// A terminal that keeps everything written to it.
#[derive(Clone, Debug, Default)]
struct Screen(Arc<Mutex<String>>);

impl TermLike for Screen {
    fn width(&self) -> u16 {
        80
    }
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }
    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)?;
        self.write_str("\n")
    }
    fn write_str(&self, text: &str) -> io::Result<()> {
        self.0.lock().unwrap().push_str(text);
        Ok(())
    }
    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }
    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

// contract R31
#[test]
fn bars_show_what_goes_on_and_leave_what_happened() {
    let screen = Screen::default();
    let mut bars = bars::Bars::on(ProgressDrawTarget::term_like(Box::new(screen.clone())));
    for event in events() {
        bars.tell(&event, Duration::from_secs(1));
        bars.tick(Duration::from_secs(1));
    }
    bars.close();
    let text = screen.0.lock().unwrap().clone();
    for part in [
        "edit_file src/lib.rs",
        "turn 3, 12.3k context, 900 tokens, $0.0015",
        "PARTIAL (quit)",
        "winner c2",
        "workers",
        "$0.0015",
    ] {
        assert!(text.contains(part), "{part} is missing in {text:?}");
    }
    assert!(!text.contains("\u{1b}[2J") && !text.contains('\u{7}'), "{text:?}");
}

// contract R2 in part: what lives beside the run's stages
// contract S3 in part: it is no line and no event
#[test]
fn a_command_of_the_operator_s_has_a_row_beside_the_stages_and_no_line() {
    let screen = Screen::default();
    let mut bars = bars::Bars::on(ProgressDrawTarget::term_like(Box::new(screen.clone())));
    let shown = || std::mem::take(&mut *screen.0.lock().unwrap());
    let card = |state| {
        let kind = CardKind::Shell;
        let card = Card::job(&JobId::new("shell#1"), "operator", "make watch");
        Card { state, kind, ..card }
    };
    let stage = |stage| RunEvent::StageBegan { stage, units: None };
    let second = Duration::from_secs(1);
    bars.tell(&stage(Stage::FanOut), second);
    let events = Paper::new(usize::MAX);
    let (mut json, mut lines) =
        (lines::Events::new(events.clone()), lines::Lines::new(events.clone()));
    let prompt = "Sure? [y/N]".to_owned();
    for (state, words) in [
        (CardState::Running, "running"),
        (CardState::NeedsApproval { prompt, secret: false }, "asks: Sure? [y/N]"),
        (CardState::Stopping { alive: Vec::new() }, "stopping"),
    ] {
        let card = card(state);
        bars.card(&card, second);
        bars.tick(second);
        let text = shown();
        assert!(text.contains("background: 1 shell") && text.contains(words), "{words}: {text}");
        json.card(&card, second);
        lines.card(&card, second);
    }
    bars.tell(&stage(Stage::Gate), second);
    shown();
    bars.tick(second);
    assert!(shown().contains("shell#1  shell  stopping"), "it outlives a stage");
    bars.card(&card(CardState::Ended { how: "killed".to_owned() }), second);
    shown();
    bars.tick(second);
    assert!(!shown().contains("shell"), "its end is the row's");
    assert_eq!(events.text(), "");
}
