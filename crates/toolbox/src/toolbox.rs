//! The tools of one session, together.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{Call, Live, Outcome, QuestionHost, Skill};

/// What a session's tools work with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The workspace; must be an existing directory.
    pub root: PathBuf,
    /// Skills that can be read. With none, `read_skill` is not offered.
    pub skills: Vec<Skill>,
    /// Who puts questions to the user. With nobody, `ask_user_question` is not offered.
    pub questions: Option<Arc<dyn QuestionHost>>,
    /// Whether `web_search` and `fetch_content` are offered.
    pub web: bool,
    /// Where `web_search` asks: an MCP server over HTTP with Exa's `web_search_exa` tool.
    pub search_url: String,
    /// Whether `fetch_content` may reach addresses of this machine and of private networks.
    pub private_addresses: bool,
    /// Variables of the environment that shell commands do not get to see.
    pub hidden_variables: Vec<String>,
}

impl Settings {
    /// The usual settings for a workspace.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            skills: Vec::new(),
            questions: None,
            web: true,
            search_url: "https://mcp.exa.ai/mcp".into(),
            private_addresses: false,
            hidden_variables: Vec::new(),
        }
    }
}

/// A tool as a model is offered it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub description: String,
    /// A JSON Schema of its arguments.
    pub parameters: Value,
}

impl ToolSpec {
    /// The form of `tools/list` and of chat completions: `{type, function: {name, description, parameters}}`.
    pub fn to_json(&self) -> Value {
        json!({
            "type": "function",
            "function": { "name": self.name, "description": self.description, "parameters": self.parameters },
        })
    }
}

/// The tools of one session. Calls may run at the same time; a session that wants them one after another awaits each.
#[derive(Debug)]
pub struct Toolbox {
    settings: Settings,
}

impl Toolbox {
    /// Opens the workspace.
    pub fn open(settings: Settings) -> std::io::Result<Self> {
        Ok(Self { settings })
    }

    /// The workspace, links resolved.
    pub fn root(&self) -> &Path {
        &self.settings.root
    }

    /// The tools on offer, in the order in which clients show them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        Vec::new()
    }

    /// Runs a call. Cancelling, or dropping the future, ends what it started.
    pub async fn run(&self, call: &Call, live: &mut dyn Live, cancel: &CancellationToken) -> Outcome {
        let _ = (live, cancel);
        Outcome::text(format!("Unknown tool: {}", call.name))
    }

    /// Files that were read and may therefore be replaced: paths relative to the workspace, sorted.
    pub fn read_paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Marks a file as read, when a session is restored. A path that is not in the workspace is ignored.
    pub fn mark_read(&self, path: &str) {
        let _ = path;
    }

    /// Forgets what was read, after a compaction.
    pub fn forget_reads(&self) {}
}
