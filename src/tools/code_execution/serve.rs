//! The engine's end of a snippet's socket: answers its tool calls, one at a time.
//!
//! A line of JSON each way: `{"code"}` first, then `{"id", "tool", "arguments"}` and `{"value", "error", "id"}`. What
//! comes is foreign: a snippet can write anything. Never here: processes.

use std::os::unix::net::UnixStream;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use super::super::{Registry, ToolContext, ToolOutput};

/// The longest question, in bytes.
pub(super) const MAX_QUESTION: u64 = 8 << 20;

/// A tool call as a snippet makes it.
#[derive(Deserialize)]
struct Question {
    /// It comes back with the answer.
    id: u64,
    tool: String,
    arguments: Value,
}

/// Hands the code over and answers calls until the snippet hangs up or speaks nonsense without end.
pub(super) async fn calls(socket: UnixStream, code: &str, tools: &Registry, context: &ToolContext) {
    // A socket that fails is a snippet that gets no answer, which it is told by the end of file.
    let _ = talk(socket, code, tools, context).await;
}

async fn talk(
    socket: UnixStream,
    code: &str,
    tools: &Registry,
    context: &ToolContext,
) -> std::io::Result<()> {
    socket.set_nonblocking(true)?;
    let (read, mut write) = tokio::net::UnixStream::from_std(socket)?.into_split();
    let mut read = BufReader::new(read);
    send(&mut write, &json!({ "code": code })).await?;
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut read).take(MAX_QUESTION).read_until(b'\n', &mut line).await?;
        if !line.ends_with(b"\n") {
            return Ok(());
        }
        let (id, output) = answer(&line, tools, context).await;
        let value = match output.handle {
            Some(handle) if !output.is_error => handle,
            _ => output.text,
        };
        send(&mut write, &json!({ "value": value, "error": output.is_error, "id": id })).await?;
    }
}

async fn answer(line: &[u8], tools: &Registry, context: &ToolContext) -> (Option<u64>, ToolOutput) {
    match serde_json::from_slice::<Question>(line) {
        Ok(Question { id, tool, arguments }) => {
            (Some(id), tools.call(context, &tool, &arguments.to_string()).await)
        }
        Err(error) => (None, ToolOutput::refused(format!("the call is no valid JSON: {error}"))),
    }
}

async fn send(write: &mut (impl AsyncWriteExt + Unpin), message: &Value) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    write.write_all(&line).await
}
