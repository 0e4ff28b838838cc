//! A small HTTP/1.1 server on loopback, for tests of what speaks HTTP.
//!
//! Each test starts its own with replies in order ([`Server::scripted`]) or with a function of the
//! request ([`Server::start`]), and looks at the requests that came in. A reply can stall until the
//! client goes away, or break off. Threads and blocking sockets only; nothing sleeps.

#![allow(dead_code, reason = "each test binary uses its own part of the support code")]

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case, in order.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// Since the server was started.
    pub at: Duration,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("the request's body is JSON")
    }
}

/// A piece of a reply's body.
#[derive(Clone, Debug)]
enum Part {
    /// Bytes, as one chunk.
    Bytes(Vec<u8>),
    /// Nothing more until the client goes away.
    Stall,
    /// The connection ends in the middle of the body.
    Break,
}

/// What the server answers.
#[derive(Clone, Debug)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    parts: Vec<Part>,
    /// Stall before the status line.
    silent: bool,
}

impl Reply {
    /// A reply with this status and content type.
    pub fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        Self { status, headers, parts: vec![Part::Bytes(body.into())], silent: false }
    }

    /// A JSON reply.
    pub fn json(status: u16, body: &str) -> Self {
        Self::new(status, "application/json", body)
    }

    /// A whole event stream.
    pub fn sse(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200, "text/event-stream; charset=utf-8", body)
    }

    /// No word at all until the client goes away.
    pub fn silence() -> Self {
        Self { silent: true, ..Self::sse("") }
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With one more piece of the body.
    pub fn then(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.parts.push(Part::Bytes(body.into()));
        self
    }

    /// Nothing after that until the client goes away.
    pub fn stalled(mut self) -> Self {
        self.parts.push(Part::Stall);
        self
    }

    /// The connection breaks after that.
    pub fn broken(mut self) -> Self {
        self.parts.push(Part::Break);
        self
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

struct Shared {
    handler: Box<Handler>,
    begun: Instant,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    /// How many clients have gone away before the end of their reply.
    left: Mutex<usize>,
    changed: Condvar,
    stop: AtomicBool,
}

/// The server. It stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Server {
    /// Answers every request by `handler`.
    pub fn start(handler: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port on loopback");
        let address = listener.local_addr().expect("the port that was bound");
        let shared = Arc::new(Shared {
            handler: Box::new(handler),
            begun: Instant::now(),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            left: Mutex::new(0),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        let accepting = shared.clone();
        std::thread::spawn(move || accept(&listener, &accepting));
        Self { address, shared }
    }

    /// Answers by these replies in order; 500 once they are used up.
    pub fn scripted(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
        Self::start(move |_| {
            let next = replies.lock().expect("no panic while locked").pop_front();
            next.unwrap_or_else(|| Reply::json(500, r#"{"error":"no reply is left"}"#))
        })
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("no panic while locked").clone()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until `count` clients have gone away before the end of their reply, whether the server
    /// noticed it while it wrote or while it stalled; false after `limit`.
    pub fn wait_for_leaving(&self, count: usize, limit: Duration) -> bool {
        let left = self.shared.left.lock().expect("no panic while locked");
        let wait = self.shared.changed.wait_timeout_while(left, limit, |left| *left < count);
        !wait.expect("no panic while locked").1.timed_out()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then ends.
        TcpStream::connect(self.address).ok();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = shared.clone();
        // A client that goes away in the middle is no error of the test's.
        std::thread::spawn(move || serve(stream, &shared).ok());
    }
}

fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream.try_clone()?);
    while let Some(request) = read_request(&mut reader, shared)? {
        let reply = (shared.handler)(&request);
        let written = write_reply(&stream, &reply);
        if matches!(written, Ok(Written::Left) | Err(_)) {
            *shared.left.lock().expect("no panic while locked") += 1;
            shared.changed.notify_all();
        }
        if written? != Written::Whole {
            break;
        }
    }
    stream.shutdown(std::net::Shutdown::Both)
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
    shared: &Shared,
) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let request = Request { method, path, headers, body, at: shared.begun.elapsed() };
    shared.requests.lock().expect("no panic while locked").push(request.clone());
    Ok(Some(request))
}

/// How far a reply got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// To its end: the connection can be used again.
    Whole,
    /// To the break that was asked for.
    Broken,
    /// The client went away while the reply stalled.
    Left,
}

/// Writes a reply in chunks. A client that goes away meanwhile is an error of writing, or of reading.
fn write_reply(mut stream: &TcpStream, reply: &Reply) -> std::io::Result<Written> {
    if reply.silent {
        return stall(stream);
    }
    let mut head = format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    stream.write_all(format!("{head}\r\n").as_bytes())?;
    for part in &reply.parts {
        match part {
            Part::Bytes(bytes) if bytes.is_empty() => {}
            Part::Bytes(bytes) => {
                stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes())?;
                stream.write_all(bytes)?;
                stream.write_all(b"\r\n")?;
            }
            Part::Stall => return stall(stream),
            Part::Break => return Ok(Written::Broken),
        }
    }
    stream.write_all(b"0\r\n\r\n")?;
    Ok(Written::Whole)
}

/// Returns once the client has closed its side, by an orderly end or by a reset.
fn stall(mut stream: &TcpStream) -> std::io::Result<Written> {
    stream.read(&mut [0]).map(|_| Written::Left)
}
