//! Notifications: what the backend tells without being asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::question::Question;
use crate::results::{Compacted, Login, TurnError, TurnStatus};
use crate::tool::{LegacyTool, ToolOutcome};

/// Names of notifications.
pub mod name {
    /// Something happened in a turn.
    pub const TURN: &str = "turn/event";
    /// Something happened to a session outside its turns.
    pub const SESSION: &str = "session/event";
    /// The model asks the person.
    pub const QUESTION: &str = "ui/question";
    /// A login came to its end.
    pub const LOGIN_FINISHED: &str = "auth/loginFinished";
}

/// `turn/event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnEvent {
    /// From 1, without gaps, per turn.
    pub sequence: u64,
    /// When.
    pub timestamp: String,
    /// The RPC id.
    pub session_id: String,
    /// The turn.
    pub turn_id: String,
    /// What.
    #[serde(flatten)]
    pub what: TurnHappening,
}

/// What can happen in a turn: `type` and `payload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TurnHappening {
    /// It waits for its turn.
    TurnQueued {
        /// `queued`.
        status: TurnStatus,
    },
    /// The person added something while it ran.
    TurnSteered {
        /// What.
        input: String,
        /// When.
        created_at: String,
    },
    /// What the person added has reached the model's next request.
    SteeringApplied {
        /// How many inputs.
        count: usize,
    },
    /// It began.
    TurnStarted {
        /// `running`.
        status: TurnStatus,
    },
    /// The model thinks.
    ReasoningDelta {
        /// A piece of it.
        delta: String,
    },
    /// One train of thought ended; what follows is another.
    ReasoningBoundary {},
    /// The model speaks.
    AssistantDelta {
        /// A piece of it.
        delta: String,
    },
    /// One answer of the model, whole.
    AssistantMessage {
        /// As it is stored.
        message: Value,
    },
    /// A request failed and will be sent again.
    ModelRetry {
        /// To whom.
        provider: String,
        /// Which model.
        model: String,
        /// The coming attempt, from 2.
        attempt: u32,
        /// The last one.
        max_attempts: u32,
        /// Until then.
        delay_seconds: f64,
        /// Why.
        error: String,
        /// Size of the request.
        request_bytes: u64,
    },
    /// A tool is about to run.
    ToolCall(Box<ToolEvent>),
    /// A running tool has something to show.
    ToolUpdate {
        /// Which call.
        tool_call_id: String,
        /// Which tool.
        tool_name: String,
        /// What came since the last.
        delta: ToolDelta,
        /// Since it began.
        elapsed_ms: u64,
    },
    /// A tool has run.
    ToolResult(Box<ToolEvent>),
    /// The last word of the turn.
    Answer {
        /// The text.
        content: String,
    },
    /// The person wants it to end.
    TurnCancelRequested {},
    /// It went wrong.
    Error(TurnError),
    /// It ended. The last event, exactly one per turn.
    TurnFinished {
        /// How.
        status: TurnStatus,
        /// Null unless it failed.
        error: Option<TurnError>,
    },
}

/// Live output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDelta {
    /// Text.
    pub content: String,
}

/// A tool call, and its result once there is one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolEvent {
    /// The model's own words.
    pub tool_call: Value,
    /// The same.
    pub raw_tool_call: Value,
    /// For older clients.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<LegacyTool>,
    /// The call's id.
    pub tool_call_id: String,
    /// `read`, `write`, `edit`, `bash`, or the tool's own name.
    pub tool_name: String,
    /// Normalised.
    pub args: Value,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What it said, in parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<ToolOutcome>,
}

/// `session/event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionEvent {
    /// When.
    pub timestamp: String,
    /// The RPC id.
    pub session_id: String,
    /// What.
    #[serde(flatten)]
    pub what: SessionHappening,
}

/// What can happen to a session outside its turns: `type` and `payload`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "payload", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum SessionHappening {
    /// A summary is being made.
    CompactionStart {
        /// Present when nobody asked: `threshold` or `overflow`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// It is made, or not.
    CompactionEnd {
        /// Null when it failed.
        result: Option<Compacted>,
        /// Whether it failed.
        aborted: bool,
        /// Whether the request that was too long is sent again.
        will_retry: bool,
        /// Why it failed.
        error_message: Option<String>,
        /// Present when nobody asked: `threshold` or `overflow`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Another process wrote into the session's file, and the conversation was read again: it goes on from there.
    ConversationReloaded {
        /// How many messages it has now.
        message_count: usize,
    },
}

/// `ui/question`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionAsked {
    /// The RPC id.
    pub session_id: String,
    /// To be sent back with the answers.
    pub question_request_id: String,
    /// One to four.
    pub questions: Vec<Question>,
}

/// `auth/loginFinished`.
pub type LoginFinished = Login;
