//! One call of one agent, from the gate to its end; and what became of a call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::toolset::Tools;
use convoke_core::call::CallState;
use convoke_core::effect::Effect;
use convoke_core::id::CallId;
use rmcp::RoleServer;
use rmcp::model::{CallToolResponse, CallToolResult, InputResponses, JsonObject};
use rmcp::service::RequestContext;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::render::{self, Outcome};
use super::server::McpCaller;
use super::{approve, progress, toolset};
use convoke_doors::ApiError;
use convoke_doors::calls::{Found, MAX_WAIT_S, find, taken_back};
use convoke_gate::agents::Agent;
use convoke_gate::calls::{self, Ask, Call, CancelUnlessDone, Done, PlaceError, Placed};
use convoke_gate::hub::Hub;

/// How long `call_status` waits when nobody says.
const DEFAULT_WAIT_S: f64 = 30.0;

/// An answer that takes noticeable time to read.
const LARGE: usize = 256 * 1024;

/// A call as it was asked for, not yet placed.
#[derive(Debug)]
pub struct Wanted {
    pub agent: Arc<Agent>,
    /// By whatever name an agent or a caller has for it.
    pub tool: Cow<'static, str>,
    pub effect: Effect,
    pub args: Box<RawValue>,
    pub timeout: Option<Duration>,
}

/// Takes a call to the gate and follows it to its end, or to the person it waits for. A request that brings the state
/// of a question brings that person's answer.
pub async fn carry_out(
    hub: &Hub,
    asker: &McpCaller,
    wanted: Wanted,
    state: Option<String>,
    answers: Option<InputResponses>,
    context: &RequestContext<RoleServer>,
) -> CallToolResponse {
    if let Some(state) = state {
        return match approve::answered(hub, asker, &wanted, &state, &answers.unwrap_or_default()).await {
            Ok(approve::Answer::Decided(call)) => follow(hub, &call, context).await.into(),
            Ok(approve::Answer::Open(outcome)) => outcome.into_result().into(),
            Err(refused) => (*refused).into(),
        };
    }
    match place(hub, asker, &wanted).await {
        Ok(Placed::Running(call)) => follow(hub, &call, context).await.into(),
        Ok(Placed::Pending { call, approval, expires_at }) => {
            let waiting = approve::Waiting { call, approval, expires_at };
            match approve::ask(hub, asker, &wanted, &waiting, context).await {
                approve::Asked::Question(question) => question.into(),
                approve::Asked::Decided(call) => follow(hub, &call, context).await.into(),
                approve::Asked::Nobody => {
                    Outcome::pending(&waiting.call, approval, expires_at, &hub.base_url()).into_result().into()
                }
            }
        }
        Err(error) => refusal(&error, Some(wanted.agent.id.as_str()), &wanted.tool).into_result().into(),
    }
}

/// Said where nobody said of which machine.
pub fn agent_required(message: &str) -> CallToolResult {
    render::error("agent_required", message)
}

/// Said of a probe that does more than look when nobody said of which machine.
pub fn say_which() -> CallToolResult {
    agent_required(
        "name the machine with `agent`: this does more than look, and only what `select_agent` chose in a session \
         stands in for that",
    )
}

/// The hub's `timeout_s`.
pub fn seconds(value: Option<Value>) -> Result<Option<Duration>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => value
            .as_f64()
            .filter(|s| *s > 0.0)
            .and_then(|s| Duration::try_from_secs_f64(s).ok())
            .map(Some)
            .ok_or_else(|| "`timeout_s` must be a number of seconds above 0".into()),
    }
}

/// Takes a call to the gate.
pub async fn place(hub: &Hub, asker: &McpCaller, wanted: &Wanted) -> Result<Placed, PlaceError> {
    let ask = Ask {
        caller: asker.caller.clone(),
        agent: Arc::clone(&wanted.agent),
        tool: wanted.tool.clone().into_owned(),
        args: wanted.args.clone(),
        timeout: wanted.timeout,
        idempotency_key: None,
        requested_by: None,
    };
    calls::place(hub, ask).await
}

/// Why a call was not placed.
pub fn refusal(error: &PlaceError, agent: Option<&str>, tool: &str) -> Outcome {
    Outcome::refused(agent, tool, error.code(), error.to_string())
}

/// A call as people are told of it.
fn named(call: &Call) -> String {
    render::on_one_line(&format!("{} on {}", call.tool, call.target))
}

/// Waits for a call's end. When the client gives up, so does the call: its outcome is `cancelled`, and what the machine
/// still answers is recorded as late.
pub async fn follow(hub: &Hub, call: &Arc<Call>, context: &RequestContext<RoleServer>) -> CallToolResult {
    // A task that is dropped while it waits has nobody to answer to either.
    let abandoned = CancelUnlessDone::new(call);
    let done = match progress::wait(hub, context, || named(call), call.wait()).await {
        Some(done) => done,
        None => {
            call.cancel();
            call.wait().await
        }
    };
    let result = shown(hub, call, done).await;
    drop(abandoned);
    result
}

/// A call's end as the client sees it. A large answer is read and cut on a thread where it holds up nobody.
async fn shown(hub: &Hub, call: &Arc<Call>, done: &Done) -> CallToolResult {
    outcome(hub, call, done, hub.settings.mcp.max_result_bytes).await.into_result()
}

/// The same, within a budget of its own.
pub async fn outcome(hub: &Hub, call: &Arc<Call>, done: &Done, budget: usize) -> Outcome {
    if done.result.as_ref().is_none_or(|result| result.get().len() <= LARGE) {
        return Outcome::ended(Tools::of(hub), call, done, budget);
    }
    let _turn = hub.answers.turn().await;
    let (ended, result, tools) = (Arc::clone(call), done.clone(), Tools::of(hub));
    let rendered = tokio::task::spawn_blocking(move || Outcome::ended(tools, &ended, &result, budget)).await;
    rendered.unwrap_or_else(|_| {
        let message = "cannot show the answer";
        Outcome::refused(Some(call.target.as_str()), &call.tool, "internal", message)
    })
}

/// Said instead of an answer to a token that was revoked, or has lapsed, while it waited for it.
pub(super) fn too_late() -> CallToolResult {
    render::error("unauthorized", "this token is no longer valid; the journal has the outcome of the call")
}

/// `call_status`.
pub(super) async fn status(
    hub: &Hub,
    asker: &McpCaller,
    args: &JsonObject,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    if let Some(unknown) = args.keys().find(|key| !["call_id", "wait_s"].contains(&key.as_str())) {
        let unknown = &unknown[..unknown.floor_char_boundary(100)];
        return render::error("bad_args", &format!("unknown argument `{unknown}`"));
    }
    let Some(id) = args.get("call_id").and_then(Value::as_str).and_then(|id| id.parse::<CallId>().ok()) else {
        return render::error("bad_args", "`call_id` must be a call id from an earlier answer");
    };
    let wait = match args.get("wait_s") {
        None | Some(Value::Null) => DEFAULT_WAIT_S,
        Some(value) => match value.as_f64() {
            Some(seconds) => seconds.clamp(0.0, MAX_WAIT_S),
            None => return render::error("bad_args", "`wait_s` must be a number of seconds"),
        },
    };
    let call = match find(hub, &asker.caller, id).await {
        Ok(Found::Kept(call)) => call,
        Ok(Found::Recorded(status)) => return Outcome::recorded(&status).into_result(),
        Err(error) => return render::api_error(&error),
    };
    let patience = tokio::time::timeout(Duration::from_secs_f64(wait), call.wait());
    // Giving up on this wait is not giving up on the call: someone may still approve it.
    tokio::select! {
        _ = progress::wait(hub, context, || named(&call), patience) => {}
        () = hub.stopping.cancelled() => {}
    }
    let outcome = match (call.done(), call.approval()) {
        (Some(done), _) => return shown(hub, &call, done).await,
        (None, Some((approval, expires_at))) if call.state() == CallState::Waiting => {
            Outcome::pending(&call, approval, expires_at, &hub.base_url())
        }
        (None, _) => Outcome::running(&call),
    };
    outcome.into_result()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelArgs {
    call_id: String,
}

/// `call_cancel`.
pub(super) async fn take_back(hub: &Hub, asker: &McpCaller, args: JsonObject) -> Result<CallToolResult, ApiError> {
    let CancelArgs { call_id } = toolset::args(args)?;
    let id = call_id.parse::<CallId>();
    let id = id.map_err(|_| ApiError::bad_request("`call_id` must be a call id from an earlier answer"))?;
    let call = taken_back(hub, &asker.caller, id).await?;
    let line = format!("The call {id} ({} on {}) will not run.", call.tool, call.target.as_str());
    Ok(render::own_words(&line, json!({ "cancelled": id })))
}
