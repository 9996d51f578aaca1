//! What the methods take. Unknown members are skipped; a missing or ill-typed one is named in the error.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rpc::RpcError;

/// Reads parameters as a type, and says which one is wrong.
pub fn decode<T: DeserializeOwned>(params: Value) -> Result<T, RpcError> {
    serde_path_to_error::deserialize(params).map_err(|error| {
        let path = error.path().to_string();
        let why = error.inner().to_string();
        let text = match missing(&why) {
            Some(name) if path == "." => format!("Missing required parameter: {name}"),
            Some(name) => format!("Missing required parameter: {path}.{name}"),
            None => format!("Invalid parameter {path}: {why}"),
        };
        RpcError::invalid_params(text)
    })
}

fn missing(why: &str) -> Option<&str> {
    why.strip_prefix("missing field `")?.split('`').next()
}

/// No parameters; whatever comes is skipped.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub struct Nothing {}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident : $type:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
    )*};
}

params! {
    /// A workspace; without one, the directory the backend was started in.
    Workspace {
        /// An existing directory. `~` and relative paths are resolved.
        workspace_root: Option<String>,
    }
    /// `sessions/create`.
    Create {
        /// An existing directory.
        workspace_root: Option<String>,
        /// The session's name.
        name: Option<String>,
        /// Resume the newest session of the workspace instead, if there is one.
        resume_last: Option<bool>,
    }
    /// `sessions/resume`.
    Resume {
        /// The session's file.
        path: String,
        /// Where a relative path is looked for.
        workspace_root: Option<String>,
    }
    /// `sessions/list`.
    List {
        /// An existing directory.
        workspace_root: Option<String>,
        /// How many; 20 when absent or not above 0.
        limit: Option<i64>,
        /// The session that the client shows. Clients that send it want all sessions when they name no limit.
        current_session_path: Option<String>,
    }
    /// A session, by the id under which it is open here.
    OfSession {
        /// The RPC id.
        session_id: String,
    }
    /// `sessions/rename`.
    Rename {
        /// The RPC id.
        session_id: String,
        /// The new name; blank, null or absent clears it.
        name: Option<String>,
    }
    /// `sessions/compact`.
    Compact {
        /// The RPC id.
        session_id: String,
        /// What the summary should look at in particular.
        custom_instructions: Option<String>,
    }
    /// `sessions/fork`.
    Fork {
        /// The RPC id.
        session_id: String,
        /// One of `sessions/forkMessages`.
        entry_id: String,
    }
    /// `sessions/export`.
    Export {
        /// The RPC id.
        session_id: String,
        /// Where to; inside the workspace or the session directory.
        path: Option<String>,
        /// `markdown` (also `md`) or `html`.
        format: Option<String>,
    }
    /// `turns/start`.
    StartTurn {
        /// The RPC id.
        session_id: String,
        /// What the person says.
        input: String,
        /// `newTurn`, `followUp` or `steer`.
        streaming_behavior: Option<String>,
        /// Images; read by [`crate::attachment`].
        attachments: Option<Value>,
    }
    /// A turn.
    OfTurn {
        /// Its id.
        turn_id: String,
    }
    /// `turns/events`.
    TurnEvents {
        /// The turn's id.
        turn_id: String,
        /// Only what came after this one.
        after_sequence: Option<u64>,
    }
    /// `ui/answerQuestion`.
    AnswerQuestion {
        /// The RPC id.
        session_id: String,
        /// From the `ui/question` notification.
        question_request_id: String,
        /// One per question, as text or as `{question, answer}`.
        answers: Vec<Value>,
    }
    /// `runtime/updateSetting`.
    UpdateSetting {
        /// The RPC id.
        session_id: String,
        /// `defaultModel` or `defaultThinkingLevel`.
        setting_id: String,
        /// The new value.
        value: Value,
    }
    /// `logging/stats`.
    LogStats {
        /// Such as `2 days`; `1 week` when absent.
        range: Option<String>,
    }
    /// `logging/tokenCsv`.
    TokenCsv {
        /// Such as `2 days`; `1 week` when absent.
        range: Option<String>,
        /// `second` to `year`; the range's unit when absent.
        bucket: Option<String>,
    }
    /// `memory/list`.
    MemoryList {
        /// Also forgotten ones.
        include_inactive: Option<bool>,
        /// Whose workspace counts; the open session's when there is one.
        session_id: Option<String>,
        /// Whose workspace counts.
        workspace_root: Option<String>,
    }
    /// `memory/add` and `memory/addCore`.
    MemoryAdd {
        /// What to remember.
        text: String,
        /// `global`, `workspace` or `workspace:<path>`.
        scope: Option<String>,
        /// A list, or one text with commas.
        tags: Option<Value>,
        /// Which workspace `workspace` means; the open session's when there is one.
        session_id: Option<String>,
        /// Which workspace `workspace` means.
        workspace_root: Option<String>,
    }
    /// A memory.
    OfMemory {
        /// Such as `soft_001`.
        id: String,
    }
    /// `memory/relax`.
    MemoryRelax {
        /// As in lists.
        id: String,
        /// The session whose workspace is meant.
        session_id: Option<String>,
        /// The workspace that is meant.
        workspace_root: Option<String>,
    }
    /// `memory/why`.
    MemoryWhy {
        /// The RPC id.
        session_id: Option<String>,
    }
    /// `models/set`.
    SetModel {
        /// The model's id.
        model: String,
        /// The current one when absent.
        provider: Option<String>,
    }
    /// `reasoning/set`.
    SetReasoning {
        /// Such as `high`.
        effort: String,
        /// The current one when absent.
        provider: Option<String>,
    }
    /// `tools/list`.
    Tools {
        /// The RPC id.
        session_id: Option<String>,
    }
    /// `commands/run`.
    RunCommand {
        /// The RPC id.
        session_id: String,
        /// With or without `/`.
        name: String,
        /// What stands behind the name.
        arguments: Option<String>,
    }
    /// `prompts/expand`.
    ExpandPrompt {
        /// With or without `/`.
        command: String,
        /// Put where the template says `$ARGUMENTS`.
        arguments: Option<String>,
    }
    /// `config/read`.
    ReadConfig {
        /// Without secrets; true when absent.
        redacted: Option<bool>,
    }
    /// `config/update`.
    UpdateConfig {
        /// Keys and their new values.
        values: Value,
    }
    /// `auth/logoutProvider`.
    OfProvider {
        /// `openai` or `openrouter`.
        provider_id: String,
    }
    /// `auth/startOpenAILogin`.
    StartLogin {
        /// How long to wait for the browser; 120 when absent or not above 0.
        timeout_seconds: Option<f64>,
    }
    /// `auth/loginWithOAuth`.
    OauthLogin {
        /// `openai`.
        provider_id: String,
        /// How long to wait for the browser; 120 when absent or not above 0.
        timeout_seconds: Option<f64>,
    }
    /// A login.
    OfLogin {
        /// Its id.
        login_id: String,
    }
}

/// `auth/loginWithApiKey`. Has no `Debug` that shows the key.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApiKeyLogin {
    /// `openrouter`.
    pub provider_id: String,
    /// The key.
    pub api_key: String,
}

impl std::fmt::Debug for ApiKeyLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiKeyLogin").field("provider_id", &self.provider_id).finish_non_exhaustive()
    }
}

/// `auth/submitOpenAICode`. Has no `Debug` that shows the code.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubmitCode {
    /// The login's id.
    pub login_id: String,
    /// The code, or the address the browser was sent back to.
    pub code: String,
}

impl std::fmt::Debug for SubmitCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SubmitCode").field("login_id", &self.login_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused<T: DeserializeOwned + std::fmt::Debug>(params: Value) -> String {
        let error = decode::<T>(params).unwrap_err();
        assert_eq!(error.code, crate::rpc::code::INVALID_PARAMS);
        error.message
    }

    #[test]
    fn the_parameter_that_is_wrong_is_named() {
        assert_eq!(refused::<StartTurn>(json!({ "input": "x" })), "Missing required parameter: sessionId");
        let text = refused::<StartTurn>(json!({ "sessionId": 5, "input": "x" }));
        assert!(text.starts_with("Invalid parameter sessionId: ") && text.contains("expected a string"), "{text}");
        let text = refused::<TurnEvents>(json!({ "turnId": "t", "afterSequence": -1 }));
        assert!(text.starts_with("Invalid parameter afterSequence: "), "{text}");
    }

    #[test]
    fn unknown_ones_are_skipped_and_null_is_absent() {
        let create: Create = decode(json!({ "workspaceRoot": null, "colour": 1 })).unwrap();
        assert_eq!(create.workspace_root, None);
    }

    #[test]
    fn secrets_do_not_print() {
        let login: ApiKeyLogin = decode(json!({ "providerId": "openrouter", "apiKey": "hunter2" })).unwrap();
        let code: SubmitCode = decode(json!({ "loginId": "l", "code": "hunter2" })).unwrap();
        assert!(!format!("{login:?}{code:?}").contains("hunter2"));
    }
}
