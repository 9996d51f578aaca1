//! What is asked of a model, in no provider's words.

use std::borrow::Cow;

use serde_json::{Value, json};

/// One request: the whole conversation so far and what the model may do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The model, as its provider calls it.
    pub model: String,
    /// System instructions.
    pub instructions: String,
    /// The conversation, oldest first.
    pub messages: Vec<Message>,
    /// Tools that the model may call.
    pub tools: Vec<ToolDefinition>,
    /// How hard to think; passed on as it is. `None`: the provider's own choice.
    pub effort: Option<String>,
    /// A cap on what comes back, for summaries.
    pub max_output_tokens: Option<u32>,
    /// A key that stays the same within one conversation, so that the provider can reuse its prompt cache.
    pub cache_key: Option<String>,
}

/// One turn of the conversation.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// What the user said or showed.
    User(Vec<Part>),
    /// What the model said and which tools it called.
    Assistant {
        /// Its text; may be empty.
        text: String,
        /// Its calls, in order.
        tool_calls: Vec<ToolCall>,
    },
    /// What a tool returned.
    ToolResult {
        /// The call's id.
        call_id: String,
        /// The tool's name.
        name: String,
        /// What came out. Images go where the provider takes them in a tool's result, otherwise as a user message
        /// right after the results.
        parts: Vec<Part>,
    },
}

impl Message {
    /// A user's plain text.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User(vec![Part::Text(text.into())])
    }

    /// A model's plain text.
    pub fn assistant(text: impl Into<String>) -> Self {
        Self::Assistant { text: text.into(), tool_calls: Vec::new() }
    }

    /// A tool's plain text.
    pub fn tool_result(call_id: impl Into<String>, name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::ToolResult { call_id: call_id.into(), name: name.into(), parts: vec![Part::Text(text.into())] }
    }

    /// Whether there is an image in it.
    pub fn has_image(&self) -> bool {
        match self {
            Self::User(parts) | Self::ToolResult { parts, .. } => {
                parts.iter().any(|part| matches!(part, Part::Image(_)))
            }
            Self::Assistant { .. } => false,
        }
    }
}

/// A piece of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text.
    Text(String),
    /// A picture.
    Image(ImagePart),
}

/// A picture, as base64.
#[derive(Clone, Debug, PartialEq)]
pub struct ImagePart {
    /// Such as `image/png`.
    pub mime_type: String,
    /// Raw base64, without a `data:` prefix.
    pub data: String,
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it is for, in the model's words.
    pub description: String,
    /// A JSON Schema of its arguments.
    pub parameters: Value,
}

/// A call of a tool, put together from its fragments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// What the result refers to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments: the JSON text as the model wrote it. It may be no JSON at all; whoever runs it says so.
    pub arguments: String,
}

impl ToolCall {
    /// The arguments as they go to a provider again. Several refuse a whole conversation for one call whose
    /// arguments are no JSON, so such a text goes inside an object.
    pub(crate) fn replayed(&self) -> Cow<'_, str> {
        match serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments) {
            Ok(_) => Cow::Borrowed(&self.arguments),
            Err(_) if self.arguments.trim().is_empty() => Cow::Borrowed("{}"),
            Err(_) => Cow::Owned(json!({ "invalid_json": self.arguments }).to_string()),
        }
    }
}
