//! The tools of one session, together.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::files::{Located, Workspace, edit_file, list_directory, read_file, write_file};
use crate::search::code_search;
use crate::shell::run_shell_command;
use crate::skills::read_skill;
use crate::specs::specs;
use crate::web::{Reach, Web, fetch_content, web_search};
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
    workspace: Arc<Workspace>,
    /// Files whose content the model knows, relative to the root.
    known: Arc<Mutex<BTreeSet<PathBuf>>>,
    /// For pages that a model asks for.
    pages: Web,
    /// For the operator's search server.
    search: Web,
}

impl Toolbox {
    /// Opens the workspace.
    pub fn open(settings: Settings) -> std::io::Result<Self> {
        let workspace = Arc::new(Workspace::open(&settings.root)?);
        let reach = if settings.private_addresses { Reach::Anywhere } else { Reach::Public };
        let (pages, search) = (Web::new(reach), Web::new(Reach::Anywhere));
        Ok(Self { settings, workspace, known: Arc::default(), pages, search })
    }

    /// The workspace, links resolved.
    pub fn root(&self) -> &Path {
        self.workspace.root()
    }

    /// The tools on offer, in the order in which clients show them.
    pub fn specs(&self) -> Vec<ToolSpec> {
        specs(&self.settings)
    }

    /// Runs a call. Cancelling, or dropping the future, ends what it started; a file that is being replaced is replaced
    /// whole all the same.
    pub async fn run(&self, call: &Call, live: &mut dyn Live, cancel: &CancellationToken) -> Outcome {
        if cancel.is_cancelled() {
            return Outcome::cancelled();
        }
        let arguments = match call.parsed() {
            Ok(arguments) => Arguments(arguments),
            Err(why) => return Outcome::error(why),
        };
        let ended = self.dispatch(&call.name, arguments, live, cancel).await;
        ended.unwrap_or_else(Outcome::error)
    }

    async fn dispatch(
        &self,
        name: &str,
        arguments: Arguments,
        live: &mut dyn Live,
        cancel: &CancellationToken,
    ) -> Result<Outcome, String> {
        let (workspace, known) = (self.workspace.clone(), self.known.clone());
        match name {
            "list_directory" => blocking(move || list_directory(&workspace, &arguments)).await,
            "read_file" => blocking(move || remember(&known, read_file(&workspace, &arguments))).await,
            "write_file" => {
                blocking(move || {
                    let written = write_file(&workspace, &arguments, |place| knows(&known, place));
                    remember(&known, written)
                })
                .await
            }
            "edit_file" => {
                blocking(move || {
                    let edited = edit_file(&workspace, &arguments, |place| knows(&known, place));
                    remember(&known, edited)
                })
                .await
            }
            "run_shell_command" => {
                run_shell_command(self.root(), &self.settings.hidden_variables, &arguments, live, cancel).await
            }
            "code_search" => {
                // Ends the search also when this future is dropped.
                let stop = cancel.child_token();
                let _guard = stop.clone().drop_guard();
                blocking(move || code_search(&workspace, &arguments, &stop)).await
            }
            "web_search" if self.settings.web => {
                let search = web_search(&self.search, &self.settings.search_url, &arguments);
                or_cancelled(search, cancel).await
            }
            "fetch_content" if self.settings.web => {
                or_cancelled(fetch_content(&self.pages, &arguments), cancel).await
            }
            "read_skill" => {
                let skills = self.settings.skills.clone();
                blocking(move || read_skill(&skills, &arguments)).await
            }
            "ask_user_question" => self.ask(&arguments, cancel).await,
            unknown => Ok(Outcome::text(format!("Unknown tool: {unknown}"))),
        }
    }

    async fn ask(&self, arguments: &Arguments, cancel: &CancellationToken) -> Result<Outcome, String> {
        let Some(host) = &self.settings.questions else { return Err("this session cannot ask questions".into()) };
        let questions = convoke_kward::question::parse(arguments.0.get("questions"))?;
        let answers = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            answers = host.ask(questions, cancel) => answers,
        };
        let Some(answers) = answers else { return Ok(Outcome::cancelled()) };
        let lines: Vec<_> = answers.iter().map(|given| format!("{}: {}", given.question, given.answer)).collect();
        Ok(Outcome::text(lines.join("\n")))
    }

    /// Files that were read and may therefore be replaced: paths relative to the workspace, sorted.
    pub fn read_paths(&self) -> Vec<String> {
        lock(&self.known).iter().map(|path| path.to_string_lossy().into_owned()).collect()
    }

    /// Marks a file as read, when a session is restored. A path that is not in the workspace is ignored.
    pub fn mark_read(&self, path: &str) {
        if let Ok(place) = self.workspace.locate(path) {
            lock(&self.known).insert(place.relative);
        }
    }

    /// Forgets what was read, after a compaction.
    pub fn forget_reads(&self) {
        lock(&self.known).clear();
    }
}

type Known = Mutex<BTreeSet<PathBuf>>;

fn lock(known: &Known) -> MutexGuard<'_, BTreeSet<PathBuf>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

fn knows(known: &Known, place: &Located) -> bool {
    lock(known).contains(&place.relative)
}

/// Marks a file as known once a tool has read or written it.
fn remember(known: &Known, done: Result<(Outcome, Located), String>) -> Result<Outcome, String> {
    done.map(|(outcome, place)| {
        lock(known).insert(place.relative);
        outcome
    })
}

/// Runs what touches the disk where it may block.
async fn blocking(work: impl FnOnce() -> Result<Outcome, String> + Send + 'static) -> Result<Outcome, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|why| Err(format!("the tool failed unexpectedly: {why}")))
}

async fn or_cancelled(
    work: impl Future<Output = Result<Outcome, String>>,
    cancel: &CancellationToken,
) -> Result<Outcome, String> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => Ok(Outcome::cancelled()),
        done = work => done,
    }
}
