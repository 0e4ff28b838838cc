use tokio_util::sync::CancellationToken;

use super::super::Provider;
use super::*;
use crate::model::LaneId;
use crate::model::chat::{Message, Purpose, Role};
use crate::provider::testing;

/// The example of the published documentation: its second block, after the one of the config.
fn example() -> String {
    let text = include_str!("../../../docs/scripted-models.md");
    let block = text.split("```").nth(3).unwrap();
    block.strip_prefix("toml\n").unwrap().to_owned()
}

fn scripted(text: &str) -> Scripted {
    Scripted::new(Script::parse(text).unwrap())
}

fn asking(purpose: Purpose, text: &str) -> ModelRequest {
    ModelRequest { purpose, messages: vec![Message::user(text)], ..testing::request() }
}

fn worker(lane: &str, turn: u32) -> ModelRequest {
    asking(Purpose::Worker { lane: LaneId::new(lane), turn }, "Fix it.")
}

fn judge(judge: &str, ballot: &str, text: &str) -> ModelRequest {
    asking(Purpose::Judge { judge: judge.into(), ballot: ballot.into() }, text)
}

async fn ask(provider: &Scripted, request: &ModelRequest) -> Result<ModelReply, ProviderError> {
    provider.call(request, &mut |_| {}, &CancellationToken::new()).await
}

#[tokio::test]
async fn the_documented_example_works() {
    let provider = scripted(&example());
    let first = ask(&provider, &worker("careful/1", 0)).await.unwrap();
    let arguments = r#"{"path":"src/lib.rs"}"#.to_owned();
    let call = Block::ToolCall { id: "call_0_0".into(), name: "read_file".into(), arguments };
    assert_eq!(first.blocks, [Block::text("I read the file first."), call]);
    assert_eq!((first.stop, first.usage.input_tokens), (ReplyStop::ToolUse, 900));
    assert!(!first.usage.cost.partly_unknown);
    // Turn 1: limited once, then invalid JSON as it stands; other lanes count for themselves.
    for lane in ["careful/1", "careful/2"] {
        let error = ask(&provider, &worker(lane, 1)).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::RateLimited);
        assert_eq!(error.retry_after, Some(Duration::from_millis(20)));
        let reply = ask(&provider, &worker(lane, 1)).await.unwrap();
        let Block::ToolCall { arguments, .. } = &reply.blocks[0] else { panic!("{reply:?}") };
        assert_eq!(arguments, "{\"answer\": \"done\"");
    }
    let text = "# FIRST\n+ left.checked_add(right)\n# SECOND\n+ left + right\n\"nonce\": \"ab1\"";
    let broken = ask(&provider, &judge("correctness", "c1:c2:forward:0", text)).await.unwrap();
    assert_eq!(broken.text(), "not JSON");
    // Asked again with another nonce: the sides stand in the older message.
    let mut again = judge("correctness", "c1:c2:forward:1", text);
    again.messages.push(Message { role: Role::Assistant, blocks: broken.blocks });
    again.messages.push(Message::user("Once more, with \"nonce\": \"cd2\"."));
    let vote = ask(&provider, &again).await.unwrap();
    let vote: serde_json::Value = serde_json::from_str(&vote.text()).unwrap();
    assert_eq!((&vote["nonce"], &vote["choice"]), (&json!("cd2"), &json!("first")));
    assert_eq!(vote["evidence"], json!(["left.checked_add(right)"]));
    let error = ask(&provider, &judge("style", "c1:c2:forward:0", text)).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Auth);
    let synth = asking(Purpose::Synthesizer { attempt: 0 }, "");
    assert_eq!(ask(&provider, &synth).await.unwrap().text(), "…");
}

#[tokio::test]
async fn a_judge_prefers_what_one_side_alone_holds_wherever_it_is_shown() {
    let provider = scripted(
        "version = 1\n[[judge]]\nprefer = ['best', 'good']\n[judge.reply]\ntext = '{choice}'\n",
    );
    let shown = |first: &str, second: &str| {
        format!(
            "<<<UNTRUSTED first diff id=1>>>\n{first}\n<<<UNTRUSTED second diff id=2>>>\n{second}\n"
        )
    };
    for (first, second, want) in [
        ("best", "good", "first"),
        ("good", "best", "second"),
        ("best good", "best", "first"),
        ("poor", "good", "second"),
        ("poor", "poor", "tie"),
    ] {
        let request = judge("j", "c1:c2:forward:0", &shown(first, second));
        assert_eq!(ask(&provider, &request).await.unwrap().text(), want, "{first} {second}");
    }
    let error = ask(&provider, &judge("j", "b", "no sides")).await.unwrap_err();
    assert!(error.message.contains("second ="), "{error}");
}

#[tokio::test]
async fn what_a_script_does_not_have_is_told_and_not_asked_again() {
    let provider = scripted("version = 1\n[[worker]]\nlane = 'a/1'\nturns = [{ text = 'x' }]\n");
    for request in [
        worker("b/1", 0),
        worker("a/2", 0),
        worker("a/1", 1),
        judge("j", "b", ""),
        asking(Purpose::Synthesizer { attempt: 0 }, ""),
    ] {
        let error = ask(&provider, &request).await.unwrap_err();
        assert_eq!(error.class, ErrorClass::BadRequest);
        assert!(error.message.contains("the script can't answer"), "{error}");
    }
    assert_eq!(ask(&provider, &worker("a/1", 0)).await.unwrap().text(), "x");
}

#[test]
fn a_malformed_script_is_refused_with_its_place() {
    for (text, words) in [
        ("version = 2", "version = 1"),
        ("version = 1\n[[worker]]\nturns = [{ txt = 'x' }]", "line 3"),
        ("version = 1\n[[worker]]\nturns = [{ error = { class = 'odd' } }]", "\"odd\""),
        ("version = 1\n[[judge]]\nalways = 'both'\nreply = {}", "\"both\""),
        ("version = 1\n[[judge]]\nsecond = '('\nreply = {}", "regular expression"),
        ("{\"version\": 1,", "line 1"),
    ] {
        let error = Script::parse(text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    let json = r#"{"version": 1, "worker": [{"turns": [{"text": "x"}]}]}"#;
    assert_eq!(Script::parse(json).unwrap().worker[0].turns.len(), 1);
    let missing = Script::load(std::path::Path::new("/nowhere/script.toml")).unwrap_err();
    assert!(missing.to_string().contains("/nowhere/script.toml"));
}

#[tokio::test(start_paused = true)]
async fn a_delay_passes_and_can_be_cancelled() {
    let provider = scripted("version = 1\n[[worker]]\nturns = [{ text = 'x', delay_ms = 5000 }]\n");
    let begun = tokio::time::Instant::now();
    ask(&provider, &worker("a/1", 0)).await.unwrap();
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    let cancel = CancellationToken::new();
    cancel.cancel();
    let error = provider.call(&worker("a/1", 0), &mut |_| {}, &cancel).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Cancelled);
}
