use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::fence::Fencer;
use crate::model::chat::{Message, Role, ToolSpec};
use crate::model::{EventSink, Fate, LaneId, RunToken, Sender, Steer, Usage, WorkerLimits};
use crate::prompt::Templates;
use crate::provider::Provider;
use crate::tools::{Registry, ToolContext, ToolOutput, open_workspace};
use crate::worker::{Attended, Floor, Review, Seat, Steering, Toolbox, Turns, Voice};

type Answer = Result<ModelReply, ProviderError>;

/// Answers from a list; what is behind its end never answers. Keeps every request.
struct Fake {
    answers: Mutex<VecDeque<Answer>>,
    requests: Mutex<Vec<ModelRequest>>,
    /// What the operator says to the worker while each request is answered.
    said: Mutex<VecDeque<&'static str>>,
    steering: Steering,
}

impl Provider for Fake {
    fn call<'a>(
        &'a self,
        request: &'a ModelRequest,
        sink: &'a mut (dyn FnMut(Delta) + Send),
        _: &'a CancellationToken,
    ) -> BoxFuture<'a, Answer> {
        self.requests.lock().unwrap().push(request.clone());
        let answer = self.answers.lock().unwrap().pop_front();
        if let Some(word) = self.said.lock().unwrap().pop_front().filter(|word| !word.is_empty()) {
            self.steering.post("fast/1", &ada(), word).unwrap();
        }
        sink(Delta::ToolStart { name: "echo".to_owned() });
        async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

/// `echo` gives its text back, `fail` refuses, `big` is long, `hang` never ends, `submit` submits.
#[derive(Default)]
struct Tools {
    called: Mutex<Vec<String>>,
}

impl Toolbox for Tools {
    fn specs(&self) -> Arc<[ToolSpec]> {
        let spec = |name: &str| ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
        };
        ["echo", "submit"].map(spec).into()
    }

    fn call<'a>(
        &'a self,
        _: &'a ToolContext,
        name: &'a str,
        arguments: &'a str,
    ) -> BoxFuture<'a, ToolOutput> {
        self.called.lock().unwrap().push(format!("{name} {arguments}"));
        let parsed: Result<Value, _> = serde_json::from_str(arguments);
        async move {
            match (name, parsed) {
                (_, Err(error)) => {
                    ToolOutput::refused(format!("the arguments are no JSON: {error}"))
                }
                ("hang", _) => std::future::pending().await,
                ("fail", _) => ToolOutput::refused("no such file"),
                ("big", _) => ToolOutput::ok(format!("HEAD{}TAIL", "x".repeat(1 << 20))),
                ("submit", Ok(value)) => ToolOutput {
                    submission: Some(Submission {
                        answer: value["answer"].as_str().unwrap_or_default().to_owned(),
                        claims: vec![Claim { text: "c".to_owned(), path: None, line: None }],
                    }),
                    ..ToolOutput::ok("submitted")
                },
                _ => ToolOutput::ok(arguments),
            }
        }
        .boxed()
    }
}

fn calls(calls: &[(&str, &str, &str)]) -> ModelReply {
    let block = |(id, name, arguments): &(&str, &str, &str)| Block::ToolCall {
        id: (*id).to_owned(),
        name: (*name).to_owned(),
        arguments: (*arguments).to_owned(),
    };
    reply(calls.iter().map(block).collect(), ReplyStop::ToolUse)
}

fn text(words: &str) -> ModelReply {
    reply(vec![Block::text(words)], ReplyStop::EndTurn)
}

fn reply(blocks: Vec<Block>, stop: ReplyStop) -> ModelReply {
    let usage = Usage { calls: 1, input_tokens: 90, output_tokens: 10, ..Usage::default() };
    ModelReply { blocks, stop, usage, model: "m".to_owned() }
}

fn error(class: ErrorClass) -> Answer {
    Err(ProviderError::new(class, "it broke"))
}

struct Bench {
    fake: Arc<Fake>,
    tools: Arc<Tools>,
    limits: WorkerLimits,
    turns: Turns,
    cancel: CancellationToken,
    whole: Option<Duration>,
    dir: PathBuf,
    registry: Option<Registry>,
    review: Option<Arc<dyn Review>>,
    events: EventSink,
    seat: Seat,
    past: Vec<Message>,
}

impl Bench {
    fn new(answers: Vec<Answer>) -> Self {
        Self {
            fake: Arc::new(Fake {
                answers: Mutex::new(answers.into()),
                requests: Mutex::default(),
                said: Mutex::default(),
                steering: Steering::default(),
            }),
            tools: Arc::default(),
            limits: WorkerLimits {
                max_tool_iterations: 90,
                max_seconds: None,
                max_tokens: None,
                budget: None,
                max_output_tokens: 4096,
            },
            turns: Turns::default(),
            cancel: CancellationToken::new(),
            whole: None,
            dir: std::env::temp_dir(),
            registry: None,
            review: None,
            events: EventSink::none(),
            seat: Seat::default(),
            past: Vec::new(),
        }
    }

    async fn run(&self) -> WorkerOutcome {
        let workspace = open_workspace(&self.dir).unwrap();
        let input = WorkerInput {
            lane: LaneId::of("fast", 1),
            provider: self.fake.clone(),
            model: "m".to_owned(),
            toolbox: match &self.registry {
                Some(registry) => Arc::new(registry.clone()),
                None => self.tools.clone(),
            },
            context: ToolContext::new(
                Arc::new(workspace),
                RunToken::new("0"),
                None,
                CancellationToken::new(),
            ),
            voice: Voice::new(Templates::embedded(), Fencer::new([3; 32])),
            review: self.review.clone(),
            limits: self.limits,
            turns: self.turns.clone(),
            system: "be good".to_owned(),
            task_message: "fix it".to_owned(),
            past: self.past.clone(),
            seed: Some(1),
            temperature: None,
            events: self.events.clone(),
            seat: self.seat.clone(),
            cancel: self.cancel.clone(),
        };
        // Spawned, so that the whole worker is shown to be `Send`.
        tokio::spawn(Loop::within(input, self.whole).run()).await.unwrap()
    }

    fn requests(&self) -> Vec<ModelRequest> {
        self.fake.requests.lock().unwrap().clone()
    }

    fn called(&self) -> Vec<String> {
        self.tools.called.lock().unwrap().clone()
    }
}

fn results(message: &Message) -> Vec<(String, String, bool)> {
    let result = |block: &Block| match block {
        Block::ToolResult { id, content, is_error } => (id.clone(), content.clone(), *is_error),
        other => panic!("{other:?} is no result"),
    };
    assert_eq!(message.role, Role::Tool);
    message.blocks.iter().map(result).collect()
}

const SUBMIT: (&str, &str, &str) = ("s", "submit", r#"{"answer":"done"}"#);

// contract R28, C33-loop-1
#[tokio::test]
async fn every_request_extends_the_one_before_byte_for_byte() {
    let thought = Block::Reasoning { wire: "w".to_owned(), raw: json!({"z": 1, "a": [1.0, "é"]}) };
    let mut first = calls(&[("1", "echo", "{\"b\": 1,  \"a\":2}")]);
    first.blocks.insert(0, thought.clone());
    let bench = Bench::new(vec![
        Ok(first),
        Ok(text("I think that is all")),
        Ok(calls(&[("2", "fail", "{}"), ("3", "echo", "{broken")])),
        Ok(calls(&[SUBMIT])),
    ]);
    let outcome = bench.run().await;
    assert_eq!(outcome.stop, Stop::Submitted);
    let requests = bench.requests();
    assert_eq!(requests.len(), 4);
    for pair in requests.windows(2) {
        let of = |request: &ModelRequest| {
            let mut part = request.clone();
            part.purpose = Purpose::Synthesizer { attempt: 0 }; // Never sent.
            part.messages.clear();
            let messages = serde_json::to_string(&request.messages).unwrap();
            (serde_json::to_string(&part).unwrap(), messages)
        };
        let ((rest, shorter), (same, longer)) = (of(&pair[0]), of(&pair[1]));
        assert_eq!(rest, same);
        assert!(longer.starts_with(&shorter[..shorter.len() - 1]) && longer.len() > shorter.len());
    }
    assert_eq!(requests[3].messages[1].blocks[0], thought);
    assert_eq!(outcome.transcript[..requests[3].messages.len()], requests[3].messages[..]);
}

// contract C33-loop-1
#[tokio::test]
async fn a_submission_brings_answer_and_claims_and_ends_the_turn() {
    let all = [("1", "echo", "{}"), SUBMIT, ("2", "echo", "{}")];
    let bench = Bench::new(vec![Ok(calls(&all))]);
    let outcome = bench.run().await;
    assert_eq!((outcome.stop, outcome.answer.as_str()), (Stop::Submitted, "done"));
    assert_eq!((outcome.claims.len(), outcome.turns, outcome.usage.tokens()), (1, 1, 100));
    let last = results(outcome.transcript.last().unwrap());
    let ids: Vec<&str> = last.iter().map(|(id, ..)| id.as_str()).collect();
    assert_eq!(ids, ["1", "s", "2"]);
    assert_eq!(last[2], ("2".to_owned(), texts::AFTER_SUBMIT.to_owned(), true));
    assert_eq!(bench.called().len(), 2);
}

#[tokio::test]
async fn a_submission_beside_a_failed_call_is_held_back() {
    let bench = Bench::new(vec![Ok(calls(&[("1", "fail", "{}"), SUBMIT])), Ok(calls(&[SUBMIT]))]);
    let outcome = bench.run().await;
    assert_eq!((outcome.stop, outcome.turns), (Stop::Submitted, 2));
    assert_eq!(results(&outcome.transcript[2])[1].1, texts::SUBMIT_HELD);
}

// contract C33-loop-2
#[tokio::test]
async fn invalid_arguments_and_failures_go_back_to_the_model() {
    let bench = Bench::new(vec![Ok(calls(&[("1", "echo", "{\"a\":")])), Ok(calls(&[SUBMIT]))]);
    assert_eq!(bench.run().await.stop, Stop::Submitted);
    let (_, words, is_error) = results(&bench.requests()[1].messages[2]).remove(0);
    assert!(is_error && words.contains("no JSON"), "{words}");
}

#[tokio::test]
async fn a_long_result_keeps_head_and_tail() {
    let bench = Bench::new(vec![Ok(calls(&[("1", "big", "{}")])), Ok(calls(&[SUBMIT]))]);
    bench.run().await;
    let (_, words, _) = results(&bench.requests()[1].messages[2]).remove(0);
    assert!(words.starts_with("HEADx") && words.ends_with("xTAIL"));
    assert!(words.len() < crate::worker::RESULT_CAP + 100);
}

// contract C33-loop-2
#[tokio::test]
async fn a_model_that_only_talks_is_nudged_once() {
    let bench = Bench::new(vec![Ok(text("done?")), Ok(text("I am done"))]);
    let outcome = bench.run().await;
    assert_eq!((outcome.stop, outcome.answer.as_str()), (Stop::Quit, "I am done"));
    assert_eq!(bench.requests()[1].messages[2], Message::user(texts::NUDGE));
    let again = Bench::new(vec![
        Ok(text("a")),
        Ok(calls(&[("1", "echo", "{}")])),
        Ok(reply(Vec::new(), ReplyStop::EndTurn)),
        Ok(calls(&[SUBMIT])),
    ]);
    assert_eq!(again.run().await.stop, Stop::Submitted);
    let refused = Bench::new(vec![Ok(reply(vec![Block::text("no")], ReplyStop::Refusal))]);
    assert_eq!(refused.run().await.stop, Stop::Quit);
}

#[tokio::test]
async fn a_call_that_the_output_limit_may_have_cut_is_not_made() {
    let mut cut = calls(&[("1", "echo", "{}"), ("2", "echo", "{\"text\":\"hal")]);
    cut.stop = ReplyStop::MaxTokens;
    let bench = Bench::new(vec![Ok(cut), Ok(calls(&[SUBMIT]))]);
    assert_eq!(bench.run().await.stop, Stop::Submitted);
    let answers = results(&bench.requests()[1].messages[2]);
    assert_eq!((answers[0].2, answers[1].1.as_str()), (false, texts::CUT_CALL));
    assert_eq!(bench.called(), ["echo {}", "submit {\"answer\":\"done\"}"]);
}

// contract R23, R27
#[tokio::test]
async fn an_exhausted_worker_says_a_last_word_and_is_partial() {
    let turn = || Ok(calls(&[("1", "echo", "{}")]));
    let mut disobedient = text("half is done");
    disobedient.blocks.push(calls(&[SUBMIT]).blocks.remove(0));
    let mut bench = Bench::new(vec![turn(), turn(), Ok(disobedient)]);
    bench.limits.max_tool_iterations = 2;
    let outcome = bench.run().await;
    assert_eq!(outcome.stop, Stop::Limit { limit: Limit::Iterations });
    assert!(outcome.stop.is_partial() && !outcome.stop.is_complete());
    assert_eq!((outcome.answer.as_str(), outcome.turns), ("half is done", 3));
    let requests = bench.requests();
    assert_eq!(requests[2].tool_choice, ToolChoice::Forbidden);
    assert_eq!(requests[2].tools, requests[1].tools);
    assert!(requests[2].messages.starts_with(&requests[1].messages));
    assert_eq!(bench.called().len(), 2, "a call in the last word is not made");
    assert_eq!(results(outcome.transcript.last().unwrap())[0].1, texts::STOPPED);
}

// contract R27
#[tokio::test]
async fn a_last_word_that_fails_is_let_go() {
    let mut first = calls(&[("1", "echo", "{}")]);
    first.blocks.insert(0, Block::text("looking"));
    let mut bench = Bench::new(vec![Ok(first), error(ErrorClass::Unreachable)]);
    bench.limits.max_tool_iterations = 1;
    let outcome = bench.run().await;
    assert_eq!(outcome.stop, Stop::Limit { limit: Limit::Iterations });
    assert_eq!(outcome.answer, "looking");
}

#[tokio::test]
async fn budget_tokens_and_context_are_limits_too() {
    let turn = || Ok(calls(&[("1", "echo", "{}")]));
    let bench = Bench::new(vec![turn(), error(ErrorClass::Budget), error(ErrorClass::Budget)]);
    assert_eq!(bench.run().await.stop, Stop::Limit { limit: Limit::Cost });
    let mut bench = Bench::new(vec![turn(), turn(), Ok(text("so far"))]);
    bench.limits.max_tokens = Some(350);
    let outcome = bench.run().await;
    assert_eq!(outcome.stop, Stop::Limit { limit: Limit::Cost });
    assert_eq!((outcome.answer.as_str(), outcome.usage.tokens()), ("so far", 300));
    let mut bench = Bench::new(vec![turn(), turn(), Ok(text("so far"))]);
    bench.turns = Turns::new(Some(2));
    assert_eq!(bench.run().await.stop, Stop::Limit { limit: Limit::Iterations });
    assert_eq!(bench.requests().len(), 3, "two turns, and the last summary");
    let bench = Bench::new(vec![turn(), error(ErrorClass::ContextOverflow)]);
    assert_eq!(bench.run().await.stop, Stop::Limit { limit: Limit::Context });
    assert_eq!(bench.requests().len(), 2, "nothing more fits, so nothing more is asked");
}

#[tokio::test(start_paused = true)]
async fn time_ends_a_model_and_a_tool_that_hang() {
    for (answers, asked) in [(Vec::new(), 1), (vec![Ok(calls(&[("1", "hang", "{}")]))], 2)] {
        let mut bench = Bench::new(answers);
        bench.whole = Some(Duration::from_millis(50));
        let outcome = bench.run().await;
        assert_eq!(outcome.stop, Stop::Limit { limit: Limit::Time });
        assert_eq!(bench.requests().len(), asked);
    }
}

// contract C33-loop-3
#[tokio::test]
async fn cancelling_ends_a_worker_with_what_is_there() {
    let bench = Bench::new(vec![Ok(calls(&[("1", "echo", "{}"), ("2", "hang", "{}"), SUBMIT]))]);
    let cancel = bench.cancel.clone();
    let tools = bench.tools.clone();
    let stop = async move {
        while tools.called.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(bench.run(), stop);
    assert_eq!(outcome.stop, Stop::Cancelled);
    let answers = results(outcome.transcript.last().unwrap());
    assert_eq!(answers.len(), 3);
    assert!(answers[1..].iter().all(|answer| answer.1 == texts::STOPPED));
    assert_eq!(bench.requests().len(), 1, "a cancelled worker has no last word");
}

// contract R31
#[tokio::test(start_paused = true)]
async fn the_meter_is_told_every_second_while_the_server_is_silent() {
    // The second request is never answered.
    let mut bench = Bench::new(vec![Ok(calls(&[("1", "echo", "{}")]))]);
    bench.whole = Some(Duration::from_secs(20));
    let told = Arc::<Mutex<Vec<_>>>::default();
    let (keep, begun) = (told.clone(), Instant::now());
    bench.events = EventSink::new(move |event| {
        if let RunEvent::LaneActivity { activity, usage, context, .. } = event {
            let at = begun.elapsed().as_secs();
            keep.lock().unwrap().push((at, activity, usage.tokens(), context));
        }
    });
    assert_eq!(bench.run().await.stop, Stop::Limit { limit: Limit::Time });
    let told = told.lock().unwrap();
    let silent: Vec<_> = told.iter().filter(|(at, ..)| (1..18).contains(at)).collect();
    let at: Vec<u64> = silent.iter().map(|(at, ..)| *at).collect();
    assert_eq!(at, (1..18).collect::<Vec<_>>());
    let (_, words, tokens, context) = silent[6];
    assert_eq!((words.as_str(), *tokens, *context), ("writing echo (silent for 7 s)", 100, 100));
}

// contract C33-loop-1
#[tokio::test]
async fn a_server_that_fails_is_named() {
    let bench = Bench::new(vec![error(ErrorClass::Auth)]);
    let failed = Stop::Failed { class: "auth".to_owned(), message: "it broke".to_owned() };
    assert_eq!(bench.run().await.stop, failed);
}

// contract C33-loop-3
#[tokio::test]
async fn the_real_tools_edit_the_workspace() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.txt"), "one\ntwo\n").unwrap();
    let edit = json!({"path": "a.txt", "old_string": "two", "new_string": "2"}).to_string();
    let claims = json!({"answer": "done", "claims": [{"text": "two is 2", "path": "a.txt"}]});
    let mut bench = Bench::new(vec![
        Ok(calls(&[("1", "read_file", "{\"path\":\"a.txt\"}"), ("2", "nothing", "{}")])),
        Ok(calls(&[("3", "edit_file", &edit), ("4", "read_file", "{\"path\":\"../x\"}")])),
        Ok(calls(&[("5", "read_file", "{\"path\":")])),
        Ok(calls(&[("6", "submit", &claims.to_string())])),
    ]);
    (bench.dir, bench.registry) = (dir.path().to_owned(), Some(Registry::standard()));
    let outcome = bench.run().await;
    assert_eq!(outcome.stop, Stop::Submitted);
    assert_eq!(std::fs::read_to_string(dir.path().join("a.txt")).unwrap(), "one\n2\n");
    assert_eq!(outcome.claims[0].path.as_deref(), Some("a.txt"));
    let errors: Vec<bool> = outcome
        .transcript
        .iter()
        .filter(|message| message.role == Role::Tool)
        .flat_map(results)
        .map(|(_, _, is_error)| is_error)
        .collect();
    assert_eq!(errors, [false, true, false, true, true, false]);
}

fn ada() -> Sender {
    Sender::of_peer(1000, Some("ada".to_owned()))
}

/// A bench whose worker an operator says these words to, one while each request is answered.
fn steered(answers: Vec<Answer>, said: &[&'static str], past: Vec<Steer>) -> (Bench, Attended) {
    let (mut bench, lane) = (Bench::new(Vec::new()), LaneId::of("fast", 1));
    let floor = Floor::default();
    floor.steering.open([lane.clone()], past, Arc::new(|_| Ok(())));
    let attended = Attended::begin(&floor, &lane, CancellationToken::new());
    bench.fake = Arc::new(Fake {
        answers: Mutex::new(answers.into()),
        requests: Mutex::default(),
        said: Mutex::new(said.iter().copied().collect()),
        steering: floor.steering,
    });
    bench.seat = attended.seat("p:m");
    (bench, attended)
}

fn user_texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| match &message.blocks[..] {
        [Block::Text { text }] if message.role == Role::User => Some(text.clone()),
        _ => None,
    };
    messages.iter().filter_map(text).collect()
}

// contract C32 in part: the way over the socket is tested with a whole run
// contract R28
#[tokio::test]
async fn the_operators_word_stands_in_the_next_turn_under_who_sent_it() {
    let answers = || {
        vec![
            Ok(calls(&[("1", "echo", "{}")])),
            Ok(text("I have read it.")),
            Ok(calls(&[("2", "echo", "{}")])),
            Ok(calls(&[SUBMIT])),
        ]
    };
    let (bench, attended) =
        steered(answers(), &["leave the lexer alone", "", "", "too late"], Vec::new());
    let outcome = bench.run().await;
    assert_eq!(outcome.stop, Stop::Submitted);
    let requests = bench.requests();
    let said = user_texts(&requests[1].messages);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(
        said[1].starts_with("OPERATOR STEERING s1 from ada (uid 1000):\n\nleave the lexer alone\n"),
        "{}",
        said[1]
    );
    for pair in requests.windows(2) {
        assert!(pair[1].messages.starts_with(&pair[0].messages));
    }
    drop(attended);
    let fates: Vec<Fate> = bench.fake.steering.all().into_iter().map(|one| one.fate).collect();
    assert_eq!(fates, [Fate::Told { turn: 2 }, Fate::Missed]);
    // Gone through again, with what the journal holds, the requests are the same and nothing is told twice.
    let past = bench.fake.steering.all();
    let (mut again, _attended) = steered(answers(), &[], past);
    again.past = requests[2].messages.clone();
    again.run().await;
    assert_eq!(again.requests()[..3], requests[..3]);
    assert_eq!(user_texts(&again.requests()[3].messages), user_texts(&requests[3].messages));
}

#[tokio::test]
async fn a_word_that_was_kept_and_not_told_when_the_engine_died_is_told_after_the_past() {
    let answers = vec![Ok(calls(&[("1", "echo", "{}")])), Ok(calls(&[SUBMIT]))];
    let steer = Steer {
        whole: None,
        id: "s1".to_owned(),
        lane: LaneId::of("fast", 1),
        from: ada(),
        text: "use tabs".to_owned(),
        fate: Fate::Waiting,
    };
    let (mut bench, _attended) = steered(answers, &[], vec![steer]);
    // The first request was recorded without it, and is made again as it was.
    bench.past = vec![Message::user("fix it")];
    bench.run().await;
    let requests = bench.requests();
    assert_eq!(requests[0].messages, bench.past);
    assert!(user_texts(&requests[1].messages)[1].contains("use tabs"));
    assert_eq!(bench.fake.steering.all()[0].fate, Fate::Told { turn: 2 });
}

#[tokio::test]
async fn a_worker_that_ended_its_turn_is_woken_by_a_word_and_a_failed_call_tells_none() {
    let answers = vec![Ok(calls(&[("1", "echo", "{}")])), error(ErrorClass::Auth)];
    let (bench, attended) = steered(answers, &["look again"], Vec::new());
    assert!(matches!(bench.run().await.stop, Stop::Failed { .. }));
    drop(attended);
    assert_eq!(bench.fake.steering.all()[0].fate, Fate::Missed, "nobody answered");

    let answers = vec![Ok(text("done?")), Ok(calls(&[SUBMIT]))];
    let (bench, _attended) = steered(answers, &["look again"], Vec::new());
    let outcome = bench.run().await;
    assert_eq!((outcome.stop, outcome.turns), (Stop::Submitted, 2));
    let said = user_texts(&outcome.transcript);
    assert!(said.len() == 2 && said[1].contains("look again"), "no nudge stands between: {said:?}");
}
