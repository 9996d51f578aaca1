//! What a model says, in the stream formats of the providers.

use serde_json::{Value, json};

use super::{Answer, Step};
use crate::ProviderKind;

/// An answer of a model. Fragments come as they were given, one event each.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    reasoning: Vec<String>,
    text: Vec<String>,
    calls: Vec<(String, String, Vec<String>)>,
    usage: (u64, u64, u64, u64),
    cost: Option<f64>,
}

impl Reply {
    /// One that says this.
    pub fn text(text: &str) -> Self {
        Self::default().and_text(text)
    }

    /// More text, as a delta of its own.
    #[must_use]
    pub fn and_text(mut self, delta: &str) -> Self {
        self.text.push(delta.to_owned());
        self
    }

    /// Reasoning, as a delta of its own.
    #[must_use]
    pub fn and_reasoning(mut self, delta: &str) -> Self {
        self.reasoning.push(delta.to_owned());
        self
    }

    /// A tool call whose arguments come in two fragments.
    #[must_use]
    pub fn and_call(mut self, id: &str, name: &str, arguments: &Value) -> Self {
        let whole = arguments.to_string();
        let half = (0..=whole.len() / 2).rev().find(|at| whole.is_char_boundary(*at)).unwrap_or(0);
        let fragments = vec![whole[..half].to_owned(), whole[half..].to_owned()];
        self.calls.push((id.to_owned(), name.to_owned(), fragments));
        self
    }

    /// What it used: input, cached input, output, reasoning.
    #[must_use]
    pub fn and_usage(mut self, input: u64, cached: u64, output: u64, reasoning: u64) -> Self {
        self.usage = (input, cached, output, reasoning);
        self
    }

    /// What it cost, in dollars; chat completions only.
    #[must_use]
    pub fn and_cost(mut self, cost: f64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// The answer as this provider streams it, one chunk of the body per event.
    pub fn answer(&self, provider: ProviderKind) -> Answer {
        let events = self.events(provider);
        let steps = events.into_iter().map(|event| Step::Send(event.into_bytes())).collect();
        Answer::stream(steps)
    }

    /// The events as this provider streams them.
    pub fn events(&self, provider: ProviderKind) -> Vec<String> {
        match provider {
            ProviderKind::Codex | ProviderKind::OpenAi => self.responses(),
            ProviderKind::OpenRouter | ProviderKind::Local => self.chat(),
        }
    }

    fn responses(&self) -> Vec<String> {
        let mut events = Vec::new();
        let mut push = |kind: &str, mut body: Value| {
            body["type"] = json!(kind);
            body["sequence_number"] = json!(events.len());
            events.push(format!("event: {kind}\ndata: {body}\n\n"));
        };
        let response =
            |status: &str| json!({ "id": "resp_1", "object": "response", "model": "scripted", "status": status });
        push("response.created", json!({ "response": response("in_progress") }));
        let mut index = 0;
        if !self.reasoning.is_empty() {
            let item = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
            push("response.output_item.added", json!({ "output_index": index, "item": item }));
            push("response.reasoning_summary_part.added", json!({ "item_id": "rs_1", "summary_index": 0 }));
            for delta in &self.reasoning {
                push("response.reasoning_summary_text.delta", json!({ "item_id": "rs_1", "delta": delta }));
            }
            push("response.output_item.done", json!({ "output_index": index, "item": item }));
            index += 1;
        }
        if !self.text.is_empty() {
            let item = json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [] });
            push("response.output_item.added", json!({ "output_index": index, "item": item }));
            for delta in &self.text {
                let delta = json!({ "item_id": "msg_1", "output_index": index, "content_index": 0, "delta": delta });
                push("response.output_text.delta", delta);
            }
            let content = json!([{ "type": "output_text", "text": self.text.concat() }]);
            let item = json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": content });
            push("response.output_item.done", json!({ "output_index": index, "item": item }));
            index += 1;
        }
        for (call_id, name, fragments) in &self.calls {
            let id = format!("fc_{index}");
            let item = |arguments: &str, status: &str| {
                json!({ "type": "function_call", "id": id, "call_id": call_id, "name": name,
                        "arguments": arguments, "status": status })
            };
            let added = json!({ "output_index": index, "item": item("", "in_progress") });
            push("response.output_item.added", added);
            for delta in fragments {
                let delta = json!({ "item_id": id, "output_index": index, "delta": delta });
                push("response.function_call_arguments.delta", delta);
            }
            let done = json!({ "output_index": index, "item": item(&fragments.concat(), "completed") });
            push("response.output_item.done", done);
            index += 1;
        }
        let (input, cached, output, reasoning) = self.usage;
        let mut end = response("completed");
        end["usage"] = json!({
            "input_tokens": input,
            "input_tokens_details": { "cached_tokens": cached },
            "output_tokens": output,
            "output_tokens_details": { "reasoning_tokens": reasoning },
            "total_tokens": input + output,
        });
        push("response.completed", json!({ "response": end }));
        events
    }

    fn chat(&self) -> Vec<String> {
        let mut events = vec![": OPENROUTER PROCESSING\n\n".to_owned()];
        let mut push = |choices: Value, usage: Option<Value>| {
            let mut chunk = json!({
                "id": "chatcmpl-1",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "scripted",
                "choices": choices,
            });
            if let Some(usage) = usage {
                chunk["usage"] = usage;
            }
            events.push(format!("data: {chunk}\n\n"));
        };
        let delta = |delta: Value| json!([{ "index": 0, "delta": delta, "finish_reason": null }]);
        push(delta(json!({ "role": "assistant", "content": "" })), None);
        for reasoning in &self.reasoning {
            push(delta(json!({ "content": "", "reasoning": reasoning })), None);
        }
        for text in &self.text {
            push(delta(json!({ "content": text })), None);
        }
        for (index, (id, name, fragments)) in self.calls.iter().enumerate() {
            let function = json!({ "name": name, "arguments": "" });
            let first = json!([{ "index": index, "id": id, "type": "function", "function": function }]);
            push(delta(json!({ "tool_calls": first })), None);
            for fragment in fragments {
                let more = json!([{ "index": index, "function": { "arguments": fragment } }]);
                push(delta(json!({ "tool_calls": more })), None);
            }
        }
        let reason = if self.calls.is_empty() { "stop" } else { "tool_calls" };
        push(json!([{ "index": 0, "delta": {}, "finish_reason": reason }]), None);
        let (input, cached, output, reasoning) = self.usage;
        let mut usage = json!({
            "prompt_tokens": input,
            "prompt_tokens_details": { "cached_tokens": cached },
            "completion_tokens": output,
            "completion_tokens_details": { "reasoning_tokens": reasoning },
            "total_tokens": input + output,
        });
        if let Some(cost) = self.cost {
            usage["cost"] = json!(cost);
        }
        push(json!([]), Some(usage));
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}
