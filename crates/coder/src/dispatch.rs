//! From a frame to a method and back. Where a method is carried out follows from its weight in the table: what is light
//! on the reader's own thread, what touches files on a thread for that, what is slow in a task.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use convoke_kward::capabilities;
use convoke_kward::frame::FrameError;
use convoke_kward::methods::{Method, Scope, Weight};
use convoke_kward::params::{self, decode};
use convoke_kward::results::Ok as Done;
use convoke_kward::rpc::{self, Id, Request, RpcError};
use futures_util::FutureExt as _;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::backend::Backend;
use crate::environment::shown;
use crate::lanes::Lane;

/// Requests that may be in progress at once. Beyond them a client is told to come back.
const MAX_IN_PROGRESS: usize = 256;

static IN_PROGRESS: AtomicUsize = AtomicUsize::new(0);

/// An answer, and what is to be done once it is on its way.
pub(crate) struct Reply {
    result: Box<RawValue>,
    after: Option<Box<dyn FnOnce() + Send>>,
    /// The client asked for the secrets in it.
    keeps_secrets: bool,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").finish_non_exhaustive()
    }
}

pub(crate) type Answered = Result<Reply, RpcError>;

impl Reply {
    pub(crate) fn new<T: Serialize>(result: &T) -> Self {
        // Results have text keys only, so they can always be written.
        let result = serde_json::value::to_raw_value(result).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self { result, after: None, keeps_secrets: false }
    }

    /// Something that must come after the answer.
    pub(crate) fn and_then(self, after: impl FnOnce() + Send + 'static) -> Self {
        Self { after: Some(Box::new(after)), ..self }
    }

    pub(crate) fn with_secrets(self) -> Self {
        Self { keeps_secrets: true, ..self }
    }
}

fn reply<T: Serialize>(result: Result<T, RpcError>) -> Answered {
    result.map(|result| Reply::new(&result))
}

/// Where an answer is sent from: the reader's thread may wait for the client, a task may not.
#[derive(Clone, Copy)]
enum Where {
    Reader,
    Task,
}

/// Counts a request as long as it is in progress.
struct InProgress;

impl InProgress {
    fn begin() -> Option<Self> {
        if IN_PROGRESS.fetch_add(1, Ordering::SeqCst) >= MAX_IN_PROGRESS {
            IN_PROGRESS.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        Some(Self)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        IN_PROGRESS.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Backend {
    /// Takes a frame from the client. Called on the reader's thread.
    pub(crate) fn accept(self: &Arc<Self>, frame: Result<Vec<u8>, FrameError>) {
        let request = match frame {
            Ok(body) => rpc::decode(&body),
            Err(why) => return self.refuse(None, &RpcError::invalid_request(why.to_string())),
        };
        match request {
            Ok(request) => self.begin(request),
            Err(refused) => self.refuse(refused.id.as_ref(), &refused.error),
        }
    }

    fn begin(self: &Arc<Self>, request: Request) {
        let Request { id, method: name, params } = request;
        let Some(method) = Method::of(&name) else {
            if id.is_some() {
                self.refuse(id.as_ref(), &RpcError::method_not_found(&name));
            }
            return;
        };
        if method.weight() == Weight::Light {
            let answered = std::panic::catch_unwind(AssertUnwindSafe(|| self.light(method, params)));
            return self.answer(id.as_ref(), answered.unwrap_or_else(|_| Err(panicked(method))), Where::Reader);
        }
        let Some(counted) = InProgress::begin() else {
            return self.refuse(id.as_ref(), &RpcError::overloaded(MAX_IN_PROGRESS));
        };
        let lane = lane_of(method, &params);
        let backend = self.clone();
        self.submit(
            lane,
            Box::pin(async move {
                let answered = match method.weight() {
                    Weight::Disk => {
                        let disk = backend.clone();
                        let joined = tokio::task::spawn_blocking(move || disk.disk(method, params)).await;
                        joined.unwrap_or_else(|_| Err(panicked(method)))
                    }
                    _ => {
                        let slow = AssertUnwindSafe(backend.slow(method, params)).catch_unwind().await;
                        slow.unwrap_or_else(|_| Err(panicked(method)))
                    }
                };
                backend.answer(id.as_ref(), answered, Where::Task);
                drop(counted);
            }),
        );
    }

    fn refuse(&self, id: Option<&Id>, error: &RpcError) {
        self.out.send_now(rpc::error(id, error));
    }

    /// Carries out a notification. It is never answered.
    fn answer(&self, id: Option<&Id>, answered: Answered, place: Where) {
        let (body, reply) = match answered {
            Ok(reply) => (id.map(|id| rpc::response(id, &reply.result)), Some(reply)),
            Err(error) => (id.map(|id| rpc::error(Some(id), &error)), None),
        };
        let keeps_secrets = reply.as_ref().is_some_and(|reply| reply.keeps_secrets);
        match (body, place) {
            (None, _) => {}
            (Some(body), _) if keeps_secrets => self.out.send_as_it_is(body),
            (Some(body), Where::Reader) => self.out.send_now(body),
            (Some(body), Where::Task) => self.out.send(body),
        }
        if let Some(after) = reply.and_then(|reply| reply.after) {
            after();
        }
    }

    /// What looks at memory only.
    pub(crate) fn light(self: &Arc<Self>, method: Method, params: Value) -> Answered {
        match method {
            Method::Initialize => Ok(Reply::new(&capabilities::initialized(&shown(&self.paths.logs())))),
            Method::Shutdown => {
                let end = self.end.clone();
                Ok(Reply::new(&Done { ok: true }).and_then(move || end.cancel()))
            }
            Method::WorkspaceValidate => reply(self.workspace_validate(decode(params)?)),
            Method::WorkspaceInfo => reply(self.workspace_info(decode(params)?)),
            Method::SessionsForkMessages => reply(self.fork_messages(decode(params)?)),
            Method::TurnsCancel => reply(self.cancel_turn(decode(params)?)),
            Method::TurnsStatus => reply(self.turn_status(decode(params)?)),
            Method::TurnsEvents => self.turn_events(decode(params)?),
            Method::AnswerQuestion => reply(self.answer_question(decode(params)?)),
            Method::RuntimeState => reply(self.runtime_state(decode(params)?)),
            Method::RuntimeStats => reply(self.runtime_stats(decode(params)?)),
            Method::MemoryWhy => reply(self.memory_why(decode(params)?)),
            Method::AuthLoginStatus => reply(self.login_status(decode(params)?)),
            other => Err(misplaced(other)),
        }
    }

    /// What touches files.
    pub(crate) fn disk(self: &Arc<Self>, method: Method, params: Value) -> Answered {
        match method {
            Method::SessionsCreate => reply(self.create_session(decode(params)?)),
            Method::SessionsResume => reply(self.resume_session(decode(params)?)),
            Method::SessionsList => reply(self.list_sessions(decode(params)?)),
            Method::SessionsRename => reply(self.rename_session(decode(params)?)),
            Method::SessionsClone => reply(self.clone_session(decode(params)?)),
            Method::SessionsFork => reply(self.fork_session(decode(params)?)),
            Method::SessionsExport => reply(self.export_session(decode(params)?)),
            Method::SessionsTranscript => reply(self.transcript(decode(params)?)),
            Method::TurnsStart => self.start_turn(decode(params)?),
            Method::RuntimeUpdateSetting => reply(self.update_setting(decode(params)?)),
            Method::RuntimeReload => reply(self.reload(decode(params)?)),
            Method::LoggingStats => reply(self.log_stats(decode(params)?)),
            Method::LoggingTokenCsv => reply(self.token_csv(decode(params)?)),
            Method::MemoryStatus => reply(self.memory_status()),
            Method::MemoryEnable => reply(self.memory_enable(true)),
            Method::MemoryDisable => reply(self.memory_enable(false)),
            Method::AutoSummaryEnable => reply(self.auto_summary_enable(true)),
            Method::AutoSummaryDisable => reply(self.auto_summary_enable(false)),
            Method::MemoryList => reply(self.memory_list(decode(params)?)),
            Method::MemoryAdd => reply(self.memory_add(decode(params)?)),
            Method::MemoryAddCore => reply(self.memory_add_core(decode(params)?)),
            Method::MemoryForget => reply(self.memory_forget(decode(params)?)),
            Method::MemoryPromote => reply(self.memory_promote(decode(params)?)),
            Method::MemoryRelax => reply(self.memory_relax(decode(params)?)),
            Method::MemoryInspect => reply(self.memory_inspect()),
            Method::ModelsCurrent => reply(self.current_model()),
            Method::ModelsSet => reply(self.set_model(decode(params)?)),
            Method::ReasoningSet => reply(self.set_reasoning(decode(params)?)),
            Method::ToolsList => reply(self.list_tools(decode(params)?)),
            Method::CommandsList => reply(self.list_commands(decode(params)?)),
            Method::ResourcesStartup => reply(self.startup(decode(params)?)),
            Method::PromptsList => reply(self.list_prompts()),
            Method::PromptsExpand => reply(self.expand_prompt(decode(params)?)),
            Method::ConfigRead => self.config_read(decode(params)?),
            Method::ConfigUpdate => reply(self.config_update(decode(params)?)),
            Method::AuthStatus => reply(self.auth_status()),
            Method::AuthProviders => reply(self.auth_providers()),
            Method::LoginWithApiKey => reply(self.login_with_api_key(decode(params)?)),
            Method::LogoutProvider => reply(self.logout_provider(decode(params)?)),
            other => Err(misplaced(other)),
        }
    }

    /// What takes its time.
    pub(crate) async fn slow(self: &Arc<Self>, method: Method, params: Value) -> Answered {
        match method {
            Method::SessionsCompact => reply(self.compact_session(decode(params)?).await),
            Method::SessionsDelete => reply(self.delete_session(decode(params)?).await),
            Method::SessionsClose => reply(self.close_session(decode(params)?).await),
            Method::MemorySummarize => reply(self.memory_summarize(decode(params)?).await),
            Method::ModelsList => reply(self.list_models().await),
            Method::OpenRouterCatalog => reply(self.openrouter_catalog().await),
            Method::CommandsRun => reply(self.run_command(decode(params)?).await),
            Method::LoginWithOauth => reply(self.login_with_oauth(decode(params)?).await),
            Method::StartOpenAiLogin => reply(self.start_login(decode(params)?).await),
            Method::SubmitOpenAiCode => reply(self.submit_code(decode(params)?).await),
            other => Err(misplaced(other)),
        }
    }
}

fn lane_of(method: Method, params: &Value) -> Option<Lane> {
    match method.scope() {
        Scope::Free => None,
        Scope::Sessions => Some(Lane::Sessions),
        Scope::Config => Some(Lane::Config),
        Scope::Memory => Some(Lane::Memory),
        // Without an id it is refused in any order.
        Scope::Session => {
            let of: params::OfSession = decode(params.clone()).ok()?;
            Some(Lane::Session(of.session_id))
        }
    }
}

fn misplaced(method: Method) -> RpcError {
    RpcError::internal(format!("{} is not implemented", method.name()))
}

fn panicked(method: Method) -> RpcError {
    RpcError::internal(format!("{} failed because of an internal error", method.name()))
}
