//! Tests against servers that this project did not write. `tests/peers/run.sh` installs and starts
//! them and says in the environment where they are; without it every test here is ignored.
//!
//! `BAKEOFF_PEER_PROJECT` holds the directory of a real project.
//! `BAKEOFF_PEER_AIMOCK` and `BAKEOFF_PEER_LLMOCK` hold the servers' base URLs (`http://127.0.0.1:PORT`),
//! and `BAKEOFF_PEER_LLAMA` that of a real model's, where one was asked for.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that fails may panic, and helpers of tests are no test functions"
)]

mod llama;
mod provider;
mod whole_run;

use std::io::{Read, Write};
use std::net::TcpStream;

/// The base URL of a peer.
fn peer(name: &str) -> String {
    let variable = format!("BAKEOFF_PEER_{name}");
    std::env::var(&variable).unwrap_or_else(|_| {
        panic!("${variable} is not set; run tests/peers/run.sh, which starts the peers")
    })
}

/// One plain HTTP exchange with a peer's control interface; gives the body of a 2xx answer.
fn control(method: &str, url: &str, body: &str) -> String {
    let rest = url.strip_prefix("http://").expect("a plain http URL");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("the peer listens");
    let length = body.len();
    let head = format!(
        "{method} /{path} HTTP/1.0\r\nhost: {host}\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).expect("the peer reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the peer answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split_whitespace().nth(1).unwrap_or_default();
    assert!(status.starts_with('2'), "{method} {url}: {answer}");
    body.to_owned()
}
