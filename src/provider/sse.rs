//! Server-sent events of one answer: bytes to events, with deadlines and size limits.
//!
//! The parsing is `eventsource-stream`'s. What is added here: the first-byte and idle deadlines count
//! bytes, so that comments keep a stream alive; a byte order mark is taken off (the parser can't take
//! one); one line and the whole answer have a largest size; a last event without its blank line
//! still counts, as some servers end so.
//! Never here: what an event means.

use std::time::Duration;

use eventsource_stream::{Event, EventStream, EventStreamError};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt};
use tokio::time::{Instant, timeout_at};

/// The longest line of a stream, in bytes (4 MiB). The parser reads a line from its start again with
/// every piece of it, so that a longer one would cost too much.
pub(super) const MAX_LINE: usize = 4 << 20;
/// The longest answer as it stands on the wire, in bytes (128 MiB): with what carries nothing, such as pings.
pub(super) const MAX_ANSWER: usize = 128 << 20;

/// Why a stream of events ended before its end.
#[derive(Debug)]
pub(super) enum Fault<E> {
    /// No first byte in time.
    FirstByte,
    /// No next byte in time.
    Idle,
    /// A line is longer than [`MAX_LINE`].
    Line,
    /// The whole is longer than [`MAX_ANSWER`].
    Whole,
    /// The connection broke.
    Transport(E),
    /// Not UTF-8.
    Encoding,
}

/// Turns an answer's body into events. `first` is when the first byte must be there.
pub(super) fn events<S, B, E>(
    body: S,
    first: Instant,
    idle: Duration,
) -> BoxStream<'static, Result<Event, Fault<E>>>
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: AsRef<[u8]>,
    E: Send + 'static,
{
    let state =
        Watched { body, deadline: first, idle, started: false, line: 0, all: 0, over: false };
    let bytes = futures_util::stream::unfold(state, |mut state| async {
        let next = state.next().await?;
        Some((next, state))
    });
    EventStream::new(bytes.boxed()).map(|event| event.map_err(fault)).boxed()
}

fn fault<E>(error: EventStreamError<Fault<E>>) -> Fault<E> {
    match error {
        EventStreamError::Transport(fault) => fault,
        EventStreamError::Utf8(_) | EventStreamError::Parser(_) => Fault::Encoding,
    }
}

/// The body with its deadlines and limits.
struct Watched<S> {
    body: S,
    deadline: Instant,
    idle: Duration,
    started: bool,
    line: usize,
    all: usize,
    over: bool,
}

impl<S> Watched<S> {
    async fn next<B, E>(&mut self) -> Option<Result<Vec<u8>, Fault<E>>>
    where
        S: Stream<Item = Result<B, E>> + Unpin,
        B: AsRef<[u8]>,
    {
        if self.over {
            return None;
        }
        let first = !self.started;
        let chunk = match timeout_at(self.deadline, self.body.next()).await {
            Err(_) => return self.fail(if first { Fault::FirstByte } else { Fault::Idle }),
            Ok(Some(Err(error))) => return self.fail(Fault::Transport(error)),
            Ok(Some(Ok(chunk))) => chunk,
            Ok(None) => {
                self.over = true;
                return Some(Ok(b"\n\n".to_vec()));
            }
        };
        self.deadline = Instant::now() + self.idle;
        let chunk = chunk.as_ref();
        self.measure(chunk);
        if self.line > MAX_LINE {
            return self.fail(Fault::Line);
        }
        if self.all > MAX_ANSWER {
            return self.fail(Fault::Whole);
        }
        Some(Ok(self.without_mark(chunk).to_vec()))
    }

    fn fail<E>(&mut self, fault: Fault<E>) -> Option<Result<Vec<u8>, Fault<E>>> {
        self.over = true;
        Some(Err(fault))
    }

    fn measure(&mut self, chunk: &[u8]) {
        self.all += chunk.len();
        self.line = match chunk.iter().rposition(|byte| *byte == b'\n') {
            Some(at) => chunk.len() - at,
            None => self.line + chunk.len(),
        };
    }

    /// Takes a byte order mark off. Its first byte can begin nothing that an answer begins with, so
    /// that a mark cut in pieces is taken off piece by piece.
    fn without_mark<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        if self.started {
            return chunk;
        }
        let rest = chunk.iter().position(|byte| !b"\xef\xbb\xbf".contains(byte));
        self.started = rest.is_some();
        &chunk[rest.unwrap_or(chunk.len())..]
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    async fn collect(chunks: Vec<Vec<u8>>) -> Vec<(String, String)> {
        let chunks = chunks.into_iter().map(Ok::<_, Infallible>);
        let far = Instant::now() + Duration::from_secs(60);
        let stream = events(futures_util::stream::iter(chunks), far, Duration::from_secs(60));
        let all: Vec<_> = stream.collect().await;
        all.into_iter()
            .map(|event| event.unwrap_or_else(|fault| panic!("{fault:?}")))
            .map(|event| (event.event, event.data))
            .collect()
    }

    const TEXT: &str = "\u{feff}: hello\r\n\r\nevent: ping\ndata: {\"é\":1}\n\ndata: a\r\ndata: b\r\n\r\nid: 3\n\ndata: [DONE]";

    #[tokio::test]
    async fn events_are_the_same_however_the_bytes_are_cut() {
        let bytes = TEXT.as_bytes();
        let want = vec![
            ("ping".to_owned(), "{\"é\":1}".to_owned()),
            ("message".to_owned(), "a\nb".to_owned()),
            ("message".to_owned(), "[DONE]".to_owned()),
        ];
        for at in 0..=bytes.len() {
            let parts = vec![bytes[..at].to_vec(), bytes[at..].to_vec()];
            assert_eq!(collect(parts).await, want, "cut at {at}");
        }
        let single = bytes.iter().map(|byte| vec![*byte]).collect();
        assert_eq!(collect(single).await, want);
    }

    #[tokio::test(start_paused = true)]
    async fn silence_is_told_as_first_byte_or_idle_and_comments_are_no_silence() {
        let slow = |waits: &'static [u64]| {
            futures_util::stream::iter(waits)
                .then(|wait| async move {
                    tokio::time::sleep(Duration::from_secs(*wait)).await;
                    Ok::<_, Infallible>(b": still here\n\n".to_vec())
                })
                .boxed()
        };
        let begin = Instant::now();
        let first = begin + Duration::from_secs(20);
        let mut stream = events(slow(&[8, 8, 8, 8, 60]), first, Duration::from_secs(10));
        assert!(matches!(stream.next().await, Some(Err(Fault::Idle))));
        assert_eq!(begin.elapsed().as_secs(), 42);
        let first = Instant::now() + Duration::from_secs(5);
        let mut stream = events(slow(&[8]), first, Duration::from_secs(10));
        assert!(matches!(stream.next().await, Some(Err(Fault::FirstByte))));
        assert!(stream.next().await.is_none());
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut_off() {
        let endless =
            futures_util::stream::repeat_with(|| Ok::<_, Infallible>(vec![b'x'; 1 << 20]));
        let far = Instant::now() + Duration::from_secs(60);
        let mut stream = events(endless, far, Duration::from_secs(60));
        assert!(matches!(stream.next().await, Some(Err(Fault::Line))));
    }
}
