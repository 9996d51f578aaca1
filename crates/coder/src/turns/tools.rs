//! A tool call of a model, from its announcement to its place in the conversation.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use convoke_kward::events::{ToolDelta, ToolEvent, TurnHappening};
use convoke_kward::params;
use convoke_kward::results::Tools;
use convoke_kward::rpc::RpcError;
use convoke_kward::tool::{self, ToolOutcome};
use convoke_kward::transcript::Stored;
use convoke_models::ToolCall;
use convoke_toolbox::{Call, Outcome, Output, Settings, ToolSpec, Toolbox, skills};
use serde_json::{Value, json};

use super::question::Asker;
use super::run::{Stopped, append};
use super::turn::Turn;
use crate::backend::{Backend, file_failed};
use crate::clock;
use crate::logs::Status;
use crate::sessions::live::Live;
use crate::sessions::record::Record;

/// Environment variables that a model's commands do not get.
const HIDDEN: [&str; 4] = ["OPENAI_ACCESS_TOKEN", "OPENAI_API_KEY", "OPENROUTER_API_KEY", "LOCAL_API_KEY"];

/// A call as providers and files write it.
pub(crate) fn raw(call: &ToolCall) -> Value {
    json!({ "id": call.id, "type": "function", "function": { "name": call.name, "arguments": call.arguments } })
}

impl Backend {
    pub(crate) async fn run_tool(&self, live: &Arc<Live>, turn: &Arc<Turn>, call: &ToolCall) -> Result<(), Stopped> {
        let args = tool::parse_arguments(&call.arguments);
        let raw = raw(call);
        let event = ToolEvent {
            tool_call: raw.clone(),
            raw_tool_call: raw,
            tool: tool::legacy(&call.name, &args),
            tool_call_id: call.id.clone(),
            tool_name: tool::event_name(&call.name).to_owned(),
            args: tool::event_args(&call.name, &args),
            content: None,
            result: None,
        };
        turn.emit(TurnHappening::ToolCall(Box::new(event.clone())));
        let began = Instant::now();
        let mut live_output = |output: Output| {
            turn.emit(TurnHappening::ToolUpdate {
                tool_call_id: call.id.clone(),
                tool_name: event.tool_name.clone(),
                delta: ToolDelta { content: output.text },
                elapsed_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            });
        };
        let asked = Call { id: call.id.clone(), name: call.name.clone(), arguments: call.arguments.clone() };
        let mut outcome = live.tools().run(&asked, &mut live_output, &turn.cancel).await;
        // A command may print a secret of this process.
        outcome.content = self.redactor.text(&outcome.content).into_owned();
        outcome.diff = outcome.diff.map(|diff| self.redactor.text(&diff).into_owned());
        let status = match (outcome.cancelled, outcome.is_error) {
            (true, _) => Status::Cancelled,
            (false, true) => Status::Error,
            (false, false) => Status::Ok,
        };
        self.logs.tool(&self.log_switches(), &call.name, began.elapsed(), status, outcome.content.len());
        self.keep_result(live, turn, event, &call.name, outcome)
    }

    /// Writes a result to the session file, then sends its event.
    fn keep_result(
        &self,
        live: &Live,
        turn: &Turn,
        mut event: ToolEvent,
        name: &str,
        outcome: Outcome,
    ) -> Result<(), Stopped> {
        let images: Vec<Value> = outcome
            .images
            .iter()
            .map(|image| json!({ "type": "image", "data": image.data, "mimeType": image.mime_type }))
            .collect();
        let content = match images.as_slice() {
            [] => Value::String(outcome.content.clone()),
            images => {
                let mut parts = vec![json!({ "type": "text", "text": outcome.content })];
                parts.extend(images.iter().cloned());
                Value::Array(parts)
            }
        };
        let message = json!({
            "role": "tool", "tool_call_id": event.tool_call_id, "name": name, "content": content, "is_error": outcome.is_error,
        });
        append(live, Stored::from_value(message))?;
        let result = ToolOutcome {
            content: outcome.content.clone(),
            is_error: outcome.is_error,
            images,
            diff: outcome.diff,
            changed_files: (!outcome.changed_files.is_empty()).then_some(outcome.changed_files),
            first_changed_line: outcome.first_changed_line.map(|line| line as u64),
        };
        // The pictures stand in the message already.
        let noted = json!(ToolOutcome { images: Vec::new(), ..result.clone() });
        let record = Record::ToolExecutionEnd {
            timestamp: clock::now_text(),
            tool_call_id: &event.tool_call_id,
            tool_name: &event.tool_name,
            args: &event.args,
            result: &noted,
            is_error: outcome.is_error,
        };
        tokio::task::block_in_place(|| live.state().note(&record))?;
        event.content = Some(outcome.content);
        event.result = Some(result);
        turn.emit(TurnHappening::ToolResult(Box::new(event)));
        Ok(())
    }

    /// What a session's tools work with.
    pub(crate) fn tool_settings(self: &Arc<Self>, session_id: &str, root: &Path) -> Settings {
        let mut settings = self.plain_tool_settings(root);
        let asker = Asker { session_id: session_id.to_owned(), backend: Arc::downgrade(self) };
        settings.questions = Some(Arc::new(asker));
        settings
    }

    fn plain_tool_settings(&self, root: &Path) -> Settings {
        let config = self.config.read_or_default();
        let mut settings = Settings::new(root);
        settings.skills = skills::discover(&self.paths.dir.join("skills"));
        settings.web = config.switch("web_search", "enabled").unwrap_or(true);
        if let Some(url) = config.member("web_search", "url").and_then(Value::as_str) {
            settings.search_url = url.to_owned();
        }
        settings.private_addresses = config.switch("web_search", "private_addresses").unwrap_or(false);
        settings.hidden_variables = HIDDEN.iter().map(|name| (*name).to_owned()).collect();
        settings
    }

    /// `tools/list`. Without a session no questions can be asked.
    pub(crate) fn list_tools(&self, params: params::Tools) -> Result<Tools, RpcError> {
        let specs = match params.session_id.as_deref() {
            Some(id) => self.session(id)?.tools().specs(),
            None => {
                let root = self.environment.launch_dir();
                let root = if root.is_dir() { root.to_owned() } else { std::env::temp_dir() };
                Toolbox::open(self.plain_tool_settings(&root)).map_err(file_failed)?.specs()
            }
        };
        let shown = |spec: &ToolSpec| {
            let mut tool = spec.to_json();
            tool["metadata"] = json!({ "source": "builtin", "displayName": spec.name });
            tool
        };
        Ok(Tools { tools: specs.iter().map(shown).collect() })
    }
}
