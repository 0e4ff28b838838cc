//! A worker's conversation. It only grows (contract R28): nothing here takes a message back.

use crate::model::chat::{Block, Message, ModelReply, Role};
use crate::model::clip;

/// The largest tool result in a conversation, in bytes; a longer one keeps its head and tail.
pub const RESULT_CAP: usize = 64 * 1024;

/// A call of a tool, as the model made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The server's id.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments' text.
    pub arguments: String,
}

/// The conversation.
#[derive(Clone, Debug)]
pub struct History(Vec<Message>);

impl History {
    /// Begins with the task.
    pub fn new(task: String) -> Self {
        Self(vec![Message::user(task)])
    }

    /// What was said so far.
    pub fn messages(&self) -> &[Message] {
        &self.0
    }

    /// The whole conversation.
    pub fn into_messages(self) -> Vec<Message> {
        self.0
    }

    /// Adds a user message.
    pub fn say(&mut self, text: &str) {
        self.0.push(Message::user(text));
    }

    /// Adds what the model answered, as it came (an empty text or an empty answer is no message that
    /// a server would take back), and returns its calls.
    pub fn reply(&mut self, reply: &ModelReply) -> Vec<Call> {
        let is_empty = |block: &&Block| matches!(block, Block::Text { text } if text.is_empty());
        let blocks: Vec<Block> = reply.blocks.iter().filter(|b| !is_empty(b)).cloned().collect();
        if !blocks.is_empty() {
            self.0.push(Message { role: Role::Assistant, blocks });
        }
        reply.blocks.iter().filter_map(call_of).collect()
    }

    /// Adds the results of a turn's calls, in the order of the calls.
    pub fn results(&mut self, blocks: Vec<Block>) {
        self.0.push(Message { role: Role::Tool, blocks });
    }
}

/// A tool's result, cut to the cap.
pub fn result(call: &Call, text: &str, is_error: bool) -> Block {
    Block::ToolResult { id: call.id.clone(), content: clip(text, RESULT_CAP).text, is_error }
}

fn call_of(block: &Block) -> Option<Call> {
    match block {
        Block::ToolCall { id, name, arguments } => {
            Some(Call { id: id.clone(), name: name.clone(), arguments: arguments.clone() })
        }
        _ => None,
    }
}
