//! An answer that is still coming.

use serde_json::Value;
use uuid::Uuid;

use crate::{Completion, Event, Finish, Limits, ModelError, Partial, ProviderKind, Sink, ToolCall, Usage};

/// What has come of an answer so far, and the rule about what may reach the sink: text and reasoning at once, tool
/// calls at the very end.
#[derive(Debug)]
pub(crate) struct Draft {
    provider: ProviderKind,
    answer_limit: usize,
    call_limit: usize,
    text: String,
    reasoning: String,
    /// A boundary was announced, and becomes visible with the next piece of reasoning.
    boundary: bool,
    calls: Vec<DraftCall>,
    held: usize,
    pub(crate) usage: Option<Usage>,
    pub(crate) finish: Option<Finish>,
    pub(crate) model: Option<String>,
    pub(crate) response_id: Option<String>,
}

/// A tool call that is being put together.
#[derive(Debug, Default)]
pub(crate) struct DraftCall {
    /// Where the provider counts it, or how it names it until it is whole.
    pub(crate) key: Option<String>,
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
    pub(crate) is_whole: bool,
}

impl Draft {
    pub(crate) fn new(provider: ProviderKind, limits: &Limits) -> Self {
        Self {
            provider,
            answer_limit: limits.answer_bytes,
            call_limit: limits.tool_calls,
            text: String::new(),
            reasoning: String::new(),
            boundary: false,
            calls: Vec::new(),
            held: 0,
            usage: None,
            finish: None,
            model: None,
            response_id: None,
        }
    }

    /// Whether the sink has seen anything of it. If so, it cannot be asked for again.
    pub(crate) fn is_visible(&self) -> bool {
        !self.text.is_empty() || !self.reasoning.is_empty()
    }

    pub(crate) fn has_text(&self) -> bool {
        !self.text.is_empty()
    }

    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    pub(crate) fn add_text(&mut self, delta: &str, sink: &mut dyn Sink) -> Result<(), ModelError> {
        if delta.is_empty() {
            return Ok(());
        }
        self.grow(delta.len())?;
        self.text.push_str(delta);
        sink.event(Event::Text(delta.to_owned()));
        Ok(())
    }

    pub(crate) fn add_reasoning(&mut self, delta: &str, sink: &mut dyn Sink) -> Result<(), ModelError> {
        if delta.is_empty() {
            return Ok(());
        }
        self.grow(delta.len())?;
        if std::mem::take(&mut self.boundary) && !self.reasoning.is_empty() {
            self.reasoning.push_str("\n\n");
            sink.event(Event::ReasoningBoundary);
        }
        self.reasoning.push_str(delta);
        sink.event(Event::Reasoning(delta.to_owned()));
        Ok(())
    }

    /// What comes next of reasoning is another block.
    pub(crate) fn end_reasoning_block(&mut self) {
        self.boundary = !self.reasoning.is_empty();
    }

    /// The call that the provider counts or names so, new if there is none.
    pub(crate) fn call(&mut self, key: &str) -> Result<&mut DraftCall, ModelError> {
        let at = match self.calls.iter().position(|call| call.key.as_deref() == Some(key)) {
            Some(at) => at,
            None => {
                self.add_call()?.key = Some(key.to_owned());
                self.calls.len() - 1
            }
        };
        Ok(&mut self.calls[at])
    }

    pub(crate) fn position(&self, wanted: impl Fn(&DraftCall) -> bool) -> Option<usize> {
        self.calls.iter().position(wanted)
    }

    pub(crate) fn call_at(&mut self, at: usize) -> &mut DraftCall {
        &mut self.calls[at]
    }

    pub(crate) fn last_call(&self) -> Option<usize> {
        self.calls.len().checked_sub(1)
    }

    pub(crate) fn add_call(&mut self) -> Result<&mut DraftCall, ModelError> {
        if self.calls.len() >= self.call_limit {
            let message = format!("more than {} tool calls in one answer", self.call_limit);
            return Err(ModelError::Malformed { provider: self.provider, message });
        }
        self.calls.push(DraftCall::default());
        Ok(self.calls.last_mut().expect("a call was pushed just now"))
    }

    /// Counts bytes that are kept.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.held += bytes;
        if self.held > self.answer_limit {
            let (provider, limit) = (self.provider, self.answer_limit);
            return Err(ModelError::TooLarge { provider, what: "an answer", limit });
        }
        Ok(())
    }

    /// What the sink has seen of it.
    pub(crate) fn into_partial(self) -> Partial {
        Partial { text: self.text, reasoning: self.reasoning }
    }

    /// The answer is complete: tool calls become visible.
    pub(crate) fn complete(
        self,
        asked: &str,
        request_bytes: usize,
        attempts: u32,
        sink: &mut dyn Sink,
    ) -> Completion {
        // A call that the model's output limit has cut is no call. It can only be the last one.
        let was_cut = self.finish == Some(Finish::Length);
        let last = self.calls.len().wrapping_sub(1);
        let is_cut = |index: usize, call: &DraftCall| was_cut && index == last && !call.is_whole && !call.is_json();
        let calls = self.calls.into_iter().enumerate();
        let calls =
            calls.filter(|(index, call)| !call.name.is_empty() && !is_cut(*index, call)).map(|(_, call)| call);
        let tool_calls: Vec<ToolCall> = calls.map(DraftCall::into_call).collect();
        let finish = match self.finish {
            Some(Finish::Stop) | None if !tool_calls.is_empty() => Finish::ToolCalls,
            Some(finish) => finish,
            None => Finish::Stop,
        };
        for call in &tool_calls {
            sink.event(Event::ToolCall(call.clone()));
        }
        Completion {
            text: self.text,
            reasoning: self.reasoning,
            tool_calls,
            finish,
            usage: self.usage,
            model: self.model.filter(|model| !model.is_empty()).unwrap_or_else(|| asked.to_owned()),
            response_id: self.response_id,
            request_bytes,
            attempts,
        }
    }
}

impl DraftCall {
    fn is_json(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }

    fn into_call(self) -> ToolCall {
        // Some servers number no calls; what runs them needs a name to answer to.
        let id = if self.id.is_empty() { format!("call_{}", Uuid::new_v4().simple()) } else { self.id };
        let is_empty = self.arguments.trim().is_empty();
        ToolCall { id, name: self.name, arguments: if is_empty { "{}".into() } else { self.arguments } }
    }
}

/// A text field of a provider's object.
pub(crate) fn text<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value.get(key).and_then(Value::as_str)
}

/// A count in a provider's object; absent, null and nonsense are zero.
pub(crate) fn count(value: &Value, path: &[&str]) -> u64 {
    let found = path.iter().try_fold(value, |value, key| value.get(key));
    found.and_then(|number| number.as_u64().or_else(|| number.as_f64().map(|n| n.max(0.0) as u64))).unwrap_or(0)
}
