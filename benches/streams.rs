//! Many answers that stream at once: resident memory for each of them, and core time for each token,
//! against reading the same bytes with a plain HTTP client.
//!
//! `cargo bench --bench streams` asks for 1,000 answers at 50 tokens a second on loopback;
//! `cargo bench --bench streams -- STREAMS SECONDS` for others. The server and every client are processes
//! of their own (this program again), so that what is measured is the client's alone.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark that can't run has nothing better to say"
)]

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bakeoff::model::chat::{Message, ModelRequest, Purpose, ToolChoice};
use bakeoff::model::{LaneId, Wire};
use bakeoff::provider::{Endpoint, Provider, connect};
use futures_util::StreamExt;
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};
use tokio_util::sync::CancellationToken;

/// Tokens that every stream gets in a second.
const RATE: u64 = 50;
/// How long the server waits before the first token: all streams stand by then.
const LEAD: Duration = Duration::from_secs(3);
const CLIENTS: [&str; 4] = ["plain", "openai-chat", "openai-responses", "anthropic"];

fn main() {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", seconds] => runtime().block_on(serve(number(seconds))),
        ["ask", client, url, streams, seconds] => {
            runtime().block_on(ask(client, url, number(streams), number(seconds)));
        }
        [streams, seconds] => measure(number(streams), number(seconds)),
        _ => measure(1000, 20),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a whole number")
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime")
}

fn again(arguments: &[&str]) -> (Child, String) {
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program runs again");
    let mut line = String::new();
    let output = child.stdout.take().expect("its output");
    BufReader::new(output).read_line(&mut line).expect("one line");
    (child, line.trim().to_owned())
}

fn measure(streams: u64, seconds: u64) {
    println!("{streams} streams, {RATE} tokens a second each, for {seconds} s");
    println!("client            bytes a stream   microseconds a token   late at most");
    let seconds_text = seconds.to_string();
    let (server, url) = again(&["serve", &seconds_text]);
    for client in CLIENTS {
        let (mut child, line) = again(&["ask", client, &url, &streams.to_string(), &seconds_text]);
        child.wait().expect("the client ends");
        println!("{line}");
    }
    kill_process(Pid::from_child(&server), Signal::KILL).ok();
}

/// Asks, and prints what it cost.
async fn ask(client: &str, url: &str, streams: u64, seconds: u64) {
    let asked = Asked::new(client, url);
    // One answer first: what the process needs once is not a stream's.
    asked.clone().once(1).await;
    let before = resident();
    let tokens = streams * seconds * RATE;
    let begun = Instant::now();
    let all: Vec<_> = (0..streams).map(|_| tokio::spawn(asked.clone().once(seconds))).collect();
    tokio::time::sleep_until(begun + LEAD - Duration::from_millis(200)).await;
    let core = core_time();
    tokio::time::sleep_until(begun + LEAD + Duration::from_secs(seconds) / 2).await;
    let held = resident().saturating_sub(before);
    for one in all {
        one.await.expect("an answer");
    }
    let late = begun.elapsed().saturating_sub(LEAD + Duration::from_secs(seconds));
    let core = core_time() - core;
    assert_eq!(asked.seen.load(Ordering::Relaxed) as u64, tokens + RATE, "every token came");
    println!(
        "{client:<17} {:>14} {:>22.2} {:>11.2} s",
        held / streams,
        core.as_secs_f64() * 1e6 / tokens as f64,
        late.as_secs_f64()
    );
}

/// A client that counts the tokens it sees.
#[derive(Clone)]
struct Asked {
    plain: reqwest::Client,
    url: String,
    wire: Option<Arc<dyn Provider>>,
    seen: Arc<AtomicUsize>,
}

impl Asked {
    fn new(client: &str, url: &str) -> Self {
        let wire = match client {
            "openai-chat" => Some(Wire::OpenaiChat),
            "openai-responses" => Some(Wire::OpenaiResponses),
            "anthropic" => Some(Wire::Anthropic),
            _ => None,
        };
        let wire = wire.map(|wire| connect(&Endpoint::new("bench", wire, url)).expect("a client"));
        rustls::crypto::ring::default_provider().install_default().ok();
        let plain = reqwest::Client::builder().no_proxy().tls_certs_only([]).build();
        let seen = Arc::default();
        Self {
            plain: plain.expect("a client"),
            url: format!("{url}/v1/chat/completions"),
            wire,
            seen,
        }
    }

    async fn once(self, seconds: u64) {
        match &self.wire {
            Some(wire) => {
                let request = request(seconds);
                let mut sink = |_| {
                    self.seen.fetch_add(1, Ordering::Relaxed);
                };
                let cancel = CancellationToken::new();
                let reply = wire.call(&request, &mut sink, &cancel).await.expect("an answer");
                assert!(reply.text().len() as u64 >= seconds * RATE, "the whole text");
            }
            None => {
                let body = json!({"model": seconds.to_string()}).to_string();
                let answer = self.plain.post(&self.url).body(body).send().await.expect("an answer");
                let mut bytes = answer.bytes_stream();
                let mut kept = Vec::new();
                while let Some(piece) = bytes.next().await {
                    kept.extend_from_slice(&piece.expect("a piece"));
                }
                let text = String::from_utf8(kept).expect("text");
                self.seen.fetch_add(text.matches(WORD).count(), Ordering::Relaxed);
            }
        }
    }
}

/// The server reads the length of the answer from the model's name.
fn request(seconds: u64) -> ModelRequest {
    ModelRequest {
        model: seconds.to_string(),
        system: "You fix bugs.".into(),
        tools: [].into(),
        messages: vec![Message::user("Fix it.")],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: 16_384,
        temperature: None,
        seed: None,
        purpose: Purpose::Worker { lane: LaneId::of("bench", 1), turn: 0 },
    }
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc");
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("a number of pages") * rustix::param::page_size() as u64
}

/// Core time of this process, the kernel's included.
fn core_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A token, as it stands in every dialect's events.
const WORD: &str = "token ";

/// Listens with room for all who come at once: whoever finds none tries again a second later, and would
/// count as late.
fn listen() -> std::io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
    socket.listen(4096)
}

async fn serve(_: u64) {
    let listener = listen().expect("a port");
    println!("http://{}", listener.local_addr().expect("the port"));
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        tokio::spawn(answer(stream));
    }
}

/// Answers every request of a connection. A client that goes away ends it.
async fn answer(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    loop {
        let (path, seconds) = read(&mut stream).await?;
        let [begin, piece, end] = events(&path, seconds * RATE);
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        stream.write_all(format!("{head}{begin}").as_bytes()).await.ok()?;
        let period = Duration::from_secs(1) / RATE as u32;
        let mut pace = match seconds {
            1 => interval(period),
            _ => interval_at(Instant::now() + LEAD, period),
        };
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for _ in 0..seconds * RATE {
            pace.tick().await;
            stream.write_all(piece.as_bytes()).await.ok()?;
        }
        stream.write_all(format!("{end}0\r\n\r\n").as_bytes()).await.ok()?;
    }
}

/// The path of a request and the seconds that its model's name asks for.
async fn read(stream: &mut TcpStream) -> Option<(String, u64)> {
    let mut text = Vec::new();
    loop {
        let mut piece = [0; 4096];
        let length = stream.read(&mut piece).await.ok().filter(|length| *length > 0)?;
        text.extend_from_slice(&piece[..length]);
        let words = String::from_utf8_lossy(&text).into_owned();
        let Some((head, body)) = words.split_once("\r\n\r\n") else { continue };
        // Once its JSON is whole, the request is.
        if let Ok(body) = serde_json::from_str::<Value>(body) {
            let path = head.split_whitespace().nth(1)?.to_owned();
            return Some((path, body["model"].as_str()?.parse().ok()?));
        }
    }
}

/// How an answer begins, one token of it, and how it ends, each in HTTP's chunks.
fn events(path: &str, tokens: u64) -> [String; 3] {
    let usage = json!({"prompt_tokens": 10, "completion_tokens": tokens, "input_tokens": 10, "output_tokens": tokens});
    let text = WORD.repeat(tokens as usize);
    let parts = match path {
        "/v1/messages" => [
            vec![
                json!({"type": "message_start", "message": {"id": "m", "model": "m", "content": [], "usage": usage}}),
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ],
            vec![
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": WORD}}),
            ],
            vec![
                json!({"type": "content_block_stop", "index": 0}),
                json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": usage}),
                json!({"type": "message_stop"}),
            ],
        ],
        "/v1/responses" => [
            vec![
                json!({"type": "response.created", "sequence_number": 0, "response": {"id": "r", "status": "in_progress", "output": []}}),
                json!({"type": "response.output_item.added", "output_index": 0, "item": {"id": "msg_0123456789abcdef", "type": "message", "content": []}}),
            ],
            vec![
                json!({"type": "response.output_text.delta", "sequence_number": 1234, "item_id": "msg_0123456789abcdef",
                "output_index": 0, "content_index": 0, "delta": WORD, "logprobs": [], "obfuscation": "0123456789"}),
            ],
            vec![
                json!({"type": "response.output_item.done", "output_index": 0, "item": {"id": "msg_0123456789abcdef", "type": "message",
                    "role": "assistant", "content": [{"type": "output_text", "text": text, "annotations": []}]}}),
                json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "model": "m", "usage": usage}}),
            ],
        ],
        _ => {
            let chunk = |delta: Value, finish: Value| {
                json!({"id": "chatcmpl-0123456789abcdef", "object": "chat.completion.chunk", "created": 1, "model": "m",
                    "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}], "usage": null})
            };
            let last = json!({"choices": [], "usage": usage});
            [
                vec![chunk(json!({"role": "assistant"}), Value::Null)],
                vec![chunk(json!({"content": WORD}), Value::Null)],
                vec![chunk(json!({}), "stop".into()), last, Value::Null],
            ]
        }
    };
    parts.map(|events| events.iter().map(chunked).collect())
}

fn chunked(event: &Value) -> String {
    let event = match event {
        Value::Null => "data: [DONE]\n\n".to_owned(),
        event => match event["type"].as_str() {
            Some(kind) => format!("event: {kind}\ndata: {event}\n\n"),
            None => format!("data: {event}\n\n"),
        },
    };
    format!("{:x}\r\n{event}\r\n", event.len())
}
