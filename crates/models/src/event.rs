//! What comes back while a model answers, and when it has answered.

use std::time::Duration;

use crate::{ProviderKind, ToolCall, Usage};

/// Something that happened during a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// More of the answer's text. Never empty.
    Text(String),
    /// More of the model's reasoning, as far as the provider shows it. Never empty.
    Reasoning(String),
    /// One block of reasoning has ended and another begins.
    ReasoningBoundary,
    /// A whole call of a tool. Comes after all text, once the answer is complete: until then the request may still be
    /// repeated, and a call that was announced twice would be run twice.
    ToolCall(ToolCall),
    /// The attempt failed and will be repeated.
    Retry(Retry),
}

/// Why and when a request is repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Who failed.
    pub provider: ProviderKind,
    /// Which model was asked.
    pub model: String,
    /// The attempt that comes: 2 for the first repetition.
    pub attempt: u32,
    /// How many there are at most.
    pub max_attempts: u32,
    /// How long until it starts.
    pub delay: Duration,
    /// What went wrong.
    pub error: String,
    /// How large the request is.
    pub request_bytes: usize,
}

/// Where events go. Called from the task that reads the provider's stream: it must not block.
pub trait Sink: Send {
    /// Takes one event.
    fn event(&mut self, event: Event);
}

impl<F: FnMut(Event) + Send> Sink for F {
    fn event(&mut self, event: Event) {
        self(event);
    }
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It had said all.
    Stop,
    /// It wants tools to be run.
    ToolCalls,
    /// It reached the limit of its output.
    Length,
    /// The provider's filter stopped it.
    Filtered,
    /// Something else, in the provider's word.
    Other(String),
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Completion {
    /// All of its text.
    pub text: String,
    /// All of its reasoning, blocks separated by an empty line.
    pub reasoning: String,
    /// The tools it calls, in order.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Finish,
    /// What it used, if the provider said so.
    pub usage: Option<Usage>,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// The provider's id of the answer.
    pub response_id: Option<String>,
    /// How large the request was.
    pub request_bytes: usize,
    /// How many attempts it took.
    pub attempts: u32,
}

/// What had come before a request failed or was cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partial {
    /// Text that reached the sink.
    pub text: String,
    /// Reasoning that reached the sink.
    pub reasoning: String,
}
