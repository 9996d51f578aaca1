//! What the methods answer: keys exactly as clients read them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::events::TurnEvent;
use crate::transcript::Shown;

macro_rules! results {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}

mod auth;
mod logs;
mod memory;

pub use auth::*;
pub use logs::*;
pub use memory::*;

results! {
    /// `initialize`.
    Initialized {
        /// 1.
        protocol_version: u32,
        /// `kward`: clients look for it.
        server_name: String,
        /// Method names and payloads may still change.
        experimental: bool,
        /// [`crate::capabilities`].
        capabilities: Value,
    }
    /// Done.
    Ok {
        /// True.
        ok: bool,
    }
    /// `workspace/validate`.
    WorkspaceRoot {
        /// The real path.
        root: String,
    }
    /// `workspace/info`.
    WorkspaceInfo {
        /// The real path.
        root: String,
        /// Its last part.
        basename: String,
        /// Whether files can be made in it.
        writable: bool,
    }
    /// A session that is open here. Absent facts are null.
    Session {
        /// The RPC id: lives as long as this process, or shorter.
        id: String,
        /// The id in the file.
        persistent_id: String,
        /// The file.
        path: String,
        /// The workspace.
        workspace_root: String,
        /// The workspace, by its older name.
        cwd: String,
        /// What a person called it.
        name: Option<String>,
        /// When the file was made.
        created_at: String,
        /// When it was last written to.
        modified_at: Option<String>,
        /// What it was cloned or forked from.
        parent_id: Option<String>,
        /// That one's file.
        parent_path: Option<String>,
        /// The assistant's name.
        active_persona_label: String,
    }
    /// `sessions/list`.
    Sessions {
        /// Newest first, children under their parents.
        sessions: Vec<ListedSession>,
    }
    /// One session on disk.
    ListedSession {
        /// The id in the file.
        id: String,
        /// The file.
        path: String,
        /// The workspace.
        cwd: String,
        /// The workspace.
        workspace_root: String,
        /// When the file was made.
        created_at: String,
        /// When it was last written to.
        modified_at: String,
        /// What a person called it.
        name: Option<String>,
        /// How it begins.
        first_message: String,
        /// Without records about the session itself.
        message_count: u64,
        /// What it was cloned or forked from.
        parent_id: Option<String>,
        /// That one's file.
        parent_path: Option<String>,
        /// 0 at the root.
        depth: u32,
        /// Last among its siblings.
        is_last: bool,
        /// For each ancestor from depth 1 down: whether it has later siblings.
        ancestor_continues: Vec<bool>,
    }
    /// `sessions/compact`.
    Compacted {
        /// What stands for the older messages now.
        summary: String,
        /// The first message that was kept as it is.
        first_kept_entry_id: Option<String>,
        /// The estimate before.
        tokens_before: u64,
        /// The files that were worked on.
        details: FileDetails,
    }
    /// `sessions/forkMessages`.
    ForkMessages {
        /// What a person said, oldest first.
        messages: Vec<ForkMessage>,
    }
    /// Something a person said.
    ForkMessage {
        /// `message:N`.
        entry_id: String,
        /// The first 120 characters.
        text: String,
    }
    /// `sessions/fork`.
    Forked {
        /// The new session.
        session: Session,
        /// The message that was left out, for the composer.
        text: String,
        /// False.
        cancelled: bool,
    }
    /// `sessions/export`.
    Exported {
        /// Where it is.
        path: String,
        /// `markdown` or `html`.
        format: String,
    }
    /// `sessions/delete`.
    Deleted {
        /// Whether the file is gone.
        deleted: bool,
        /// Which one.
        path: String,
    }
    /// `sessions/close`.
    Closed {
        /// True.
        closed: bool,
    }
    /// `sessions/transcript`.
    Transcript {
        /// Whose.
        session: Session,
        /// The conversation.
        messages: Vec<Shown>,
    }
    /// `turns/events`.
    TurnEvents {
        /// As it stands now.
        turn: Turn,
        /// What is still remembered.
        events: Vec<TurnEvent>,
    }
    /// `runtime/updateSetting`.
    SettingApplied {
        /// `live`.
        applied: String,
        /// For the person.
        message: String,
    }
    /// Done, with a sentence.
    OkMessage {
        /// True.
        ok: bool,
        /// For the person.
        message: String,
    }
    /// `models/list` and `openrouter/catalog`.
    Models {
        /// By provider and id.
        models: Vec<Model>,
    }
    /// `tools/list`.
    Tools {
        /// As the model sees them, with where they come from.
        tools: Vec<Value>,
    }
    /// `commands/list`.
    Commands {
        /// Templates, then skills, then plugins.
        commands: Vec<Command>,
    }
    /// `resources/startup`.
    Startup {
        /// Those that have something.
        sections: Vec<Section>,
    }
    /// A heading and what is under it.
    Section {
        /// `Context`, `Skills`, `Prompts` or `Plugins`.
        name: String,
        /// One line each.
        items: Vec<String>,
    }
    /// `prompts/list`.
    Prompts {
        /// By name.
        prompts: Vec<Prompt>,
    }
    /// A prompt template.
    Prompt {
        /// Its name, without `/`.
        command: String,
        /// From its front matter.
        description: String,
        /// From its front matter.
        argument_hint: String,
        /// Its file.
        path: String,
    }
    /// `prompts/expand`.
    Expanded {
        /// Its name.
        command: String,
        /// With the arguments in place.
        text: String,
    }
    /// `config/read` and `config/update`.
    Config {
        /// The file.
        path: String,
        /// What is in it.
        config: Value,
    }
}

/// The files of a conversation. These two keys are written with underscores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileDetails {
    /// Read and not changed.
    #[serde(default)]
    pub read_files: Vec<String>,
    /// Written or edited.
    #[serde(default)]
    pub modified_files: Vec<String>,
}

/// How a turn stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TurnStatus {
    /// Behind another.
    Queued,
    /// At work.
    Running,
    /// Answered.
    Completed,
    /// Ended by an error.
    Failed,
    /// Ended by the person.
    Canceled,
}

impl TurnStatus {
    /// Whether nothing more will happen.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

/// A turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Lives as long as this process remembers it.
    pub id: String,
    /// The RPC id of its session.
    pub session_id: String,
    /// How it stands.
    pub status: TurnStatus,
    /// Whether the person wants it to end.
    pub cancel_requested: bool,
    /// When it was asked for.
    pub created_at: String,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TurnError>,
}

/// Why a turn failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TurnError {
    /// For the person.
    pub message: String,
    /// For programs.
    pub code: String,
    /// False: the session goes on.
    pub fatal: bool,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// `Codex`, `OpenAI`, `OpenRouter` or `Local`.
    pub provider: String,
    /// What the provider calls it.
    pub id: String,
    /// For people.
    pub name: String,
    /// Whether it can think first.
    pub reasoning: bool,
    /// How much it thinks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<String>,
    /// In tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Whether it is the one in use.
    pub current: bool,
    /// The id, by its older name.
    pub model: String,
}

/// `runtime/state`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeState {
    /// The one in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
    /// The effort in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<String>,
    /// A turn is running.
    pub is_streaming: bool,
    /// A summary is being made.
    pub is_compacting: bool,
    /// `in-flight`.
    pub steering_mode: String,
    /// `one-at-a-time`.
    pub follow_up_mode: String,
    /// The file.
    pub session_file: String,
    /// The id in the file, by its older name.
    pub session_id: String,
    /// The id to send.
    pub rpc_session_id: String,
    /// The id in the file.
    pub persistent_session_id: String,
    /// What a person called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// Whether a long conversation is summarised by itself.
    pub auto_compaction_enabled: bool,
    /// The room that is kept for the answer.
    pub auto_compaction_reserve_tokens: u64,
    /// Whether failed requests are tried again.
    pub auto_retry_enabled: bool,
    /// From the configuration.
    pub default_provider: String,
    /// `Provider/id`.
    pub default_model: String,
    /// From the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_thinking_level: Option<String>,
    /// False.
    pub hide_thinking_block: bool,
    /// False.
    pub quiet_startup: bool,
    /// `kward-rpc`.
    pub transport: String,
    /// False.
    pub image_auto_resize: bool,
    /// False.
    pub block_images: bool,
    /// Empty: models are not scoped.
    pub enabled_models: Vec<String>,
    /// True.
    pub enable_skill_commands: bool,
    /// The assistant's name.
    pub active_persona_label: String,
    /// Without the system's.
    pub message_count: u64,
    /// Turns queued and running.
    pub pending_message_count: u64,
}

/// Tokens so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenTotals {
    /// Read by the model, cached ones left out.
    pub input: u64,
    /// Written by it.
    pub output: u64,
    /// Read from its cache.
    pub cache_read: u64,
    /// Written to its cache.
    pub cache_write: u64,
    /// All of them.
    pub total: u64,
}

/// How full the context is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    /// Of the next request.
    pub tokens: u64,
    /// Of the model.
    pub context_window: u64,
    /// Two digits after the point.
    pub percent: f64,
    /// True.
    pub estimated: bool,
}

/// `runtime/stats`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeStats {
    /// The file.
    pub session_file: String,
    /// The id in the file, by its older name.
    pub session_id: String,
    /// The id to send.
    pub rpc_session_id: String,
    /// The id in the file.
    pub persistent_session_id: String,
    /// What a person called it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_name: Option<String>,
    /// From people.
    pub user_messages: u64,
    /// From models.
    pub assistant_messages: u64,
    /// Asked for.
    pub tool_calls: u64,
    /// Answered.
    pub tool_results: u64,
    /// Without the system's.
    pub total_messages: u64,
    /// Whether the provider is paid by subscription.
    pub using_subscription: bool,
    /// Whether a long conversation is summarised by itself.
    pub auto_compaction_enabled: bool,
    /// Since the session began, as far as its file knows.
    pub tokens: TokenTotals,
    /// In dollars, where the provider or a price list tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// How full the context is, where the model's window is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<ContextUsage>,
}

/// A slash command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Command {
    /// Without `/`; a skill's is `skill:<name>`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to write behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument_hint: Option<String>,
    /// `prompt`, `skill` or `plugin`.
    pub source: String,
    /// Where prompts come from: `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Its file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Whether `commands/run` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<bool>,
    /// Nothing more is known of a prompt's origin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<Value>,
}

/// `commands/run`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CommandRun {
    /// A plugin ran.
    Ran {
        /// Which.
        command: String,
        /// What it said, in parts.
        output: Vec<String>,
        /// What it answered.
        result: Option<Value>,
    },
    /// The client does this itself.
    Unsupported {
        /// False.
        ok: bool,
        /// `unsupported`.
        error: String,
        /// Why.
        reason: String,
    },
}
