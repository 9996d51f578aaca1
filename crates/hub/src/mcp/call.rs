//! One tool of the catalogue, called on one machine; and what became of a call.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::call::CallState;
use convoke_core::effect::Effect;
use convoke_core::id::CallId;
use convoke_kenny::tools::{self as kenny, Tool as KennyTool};
use rmcp::RoleServer;
use rmcp::model::{CallToolRequestParams, CallToolResponse, CallToolResult, InputResponses, JsonObject};
use rmcp::service::RequestContext;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::render::{self, Outcome};
use super::server::Asker;
use super::tools::{AGENT, TIMEOUT};
use super::{approve, progress};
use crate::agents::Agent;
use crate::calls::{self, Ask, Call, CancelUnlessDone, Done, PlaceError, Placed, Run};
use crate::http::ApiError;
use crate::http::agents::in_reach;
use crate::http::calls::{Found, MAX_WAIT_S, find, taken_back};
use crate::hub::Hub;

/// How long `call_status` waits when nobody says.
const DEFAULT_WAIT_S: f64 = 30.0;

/// An answer that takes noticeable time to read.
pub(super) const LARGE: usize = 256 * 1024;

/// A call as it was asked for, not yet placed.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) agent: Arc<Agent>,
    /// Of the catalogue; or a probe, by whatever name an agent or a caller has for it.
    pub(super) tool: Cow<'static, str>,
    pub(super) effect: Effect,
    /// As text, and, until it is placed, as it was read.
    pub(super) args: Box<RawValue>,
    pub(super) read: Option<Value>,
    pub(super) timeout: Option<Duration>,
}

/// Calls a tool.
pub(super) async fn call(
    hub: &Hub,
    asker: &Asker,
    tool: &'static KennyTool,
    request: CallToolRequestParams,
    context: &RequestContext<RoleServer>,
) -> CallToolResponse {
    let CallToolRequestParams { arguments, request_state, input_responses, .. } = request;
    match want(hub, asker, tool, arguments.unwrap_or_default()).await {
        Ok(wanted) => carry_out(hub, asker, wanted, request_state, input_responses, context).await,
        Err(refused) => (*refused).into(),
    }
}

/// Takes a call to the gate and follows it to its end, or to the person it waits for. A request that brings the state
/// of a question brings that person's answer.
pub(super) async fn carry_out(
    hub: &Hub,
    asker: &Asker,
    mut wanted: Wanted,
    state: Option<String>,
    answers: Option<InputResponses>,
    context: &RequestContext<RoleServer>,
) -> CallToolResponse {
    if let Some(state) = state {
        return match approve::answered(hub, asker, &wanted, &state, &answers.unwrap_or_default()).await {
            Ok(approve::Answer::Decided(call)) => follow(hub, &call, None, context).await.into(),
            Ok(approve::Answer::Open(outcome)) => outcome.into_result().into(),
            Err(refused) => (*refused).into(),
        };
    }
    match place(hub, asker, &mut wanted).await {
        Ok((Placed::Running(call), run)) => follow(hub, &call, run, context).await.into(),
        Ok((Placed::Pending { call, approval, expires_at }, _)) => {
            let waiting = approve::Waiting { call, approval, expires_at };
            match approve::ask(hub, asker, &wanted, &waiting, context).await {
                approve::Asked::Question(question) => question.into(),
                approve::Asked::Decided(call) => follow(hub, &call, None, context).await.into(),
                approve::Asked::Nobody => {
                    Outcome::pending(&waiting.call, approval, expires_at, &hub.base_url()).into_result().into()
                }
            }
        }
        Err(error) => refusal(&error, Some(wanted.agent.id.as_str()), &wanted.tool).into_result().into(),
    }
}

/// Reads the arguments: the hub's own are taken out, the tool's are checked, the machine is found.
pub(super) async fn want(
    hub: &Hub,
    asker: &Asker,
    tool: &'static KennyTool,
    mut args: JsonObject,
) -> Result<Wanted, Box<CallToolResult>> {
    let bad = |message: String| Box::new(render::error("bad_args", &message));
    let agent = match args.remove(AGENT) {
        None | Some(Value::Null) => None,
        Some(Value::String(id)) => Some(id),
        Some(_) => return Err(bad("`agent` must be an agent's id".into())),
    };
    let timeout = if tool.arg(TIMEOUT).is_some() { None } else { seconds(args.remove(TIMEOUT)).map_err(bad)? };
    let read = Value::Object(args);
    kenny::validate_args(tool.name, &read).map_err(bad)?;
    let args = to_raw_value(&read).map_err(|why| bad(why.to_string()))?;
    let id = agent.map_or_else(|| selected(hub, asker, tool), Ok)?;
    let agent = in_reach(hub, &asker.caller, &id).await.map_err(|error| Box::new(render::api_error(&error)))?;
    Ok(Wanted { agent, tool: tool.name.into(), effect: tool.effect, args, read: Some(read), timeout })
}

/// The machine that a call without `agent` goes to. Without a session the selection is the token's, which other chats
/// may share: it serves only to look.
fn selected(hub: &Hub, asker: &Asker, tool: &KennyTool) -> Result<String, Box<CallToolResult>> {
    let session = asker.session.as_deref();
    if session.is_none() && tool.effect > Effect::Observe {
        return Err(Box::new(agent_required(
            "name the machine with `agent`: without a session, a selection applies only to tools that look",
        )));
    }
    match hub.mcp.selected(session, asker.caller.token.id) {
        Some(agent) => Ok(agent.as_str().to_owned()),
        None => Err(Box::new(agent_required(
            "name the machine with `agent`, or choose one with `select_agent`; `list_agents` shows them",
        ))),
    }
}

fn agent_required(message: &str) -> CallToolResult {
    render::error("agent_required", message)
}

/// Said of a probe that does more than look when nobody said of which machine.
pub(super) fn say_which() -> CallToolResult {
    agent_required(
        "name the machine with `agent`: this does more than look, and only what `select_agent` chose in a session \
         stands in for that",
    )
}

/// The hub's `timeout_s`.
pub(super) fn seconds(value: Option<Value>) -> Result<Option<Duration>, String> {
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

/// Takes a call to the gate. It runs in the task of whoever follows it: one less to start, and to wake, per call.
pub(super) async fn place(
    hub: &Hub,
    asker: &Asker,
    wanted: &mut Wanted,
) -> Result<(Placed, Option<Run>), PlaceError> {
    let ask = Ask {
        caller: asker.caller.clone(),
        agent: Arc::clone(&wanted.agent),
        tool: wanted.tool.clone().into_owned(),
        args: wanted.args.clone(),
        timeout: wanted.timeout,
        idempotency_key: None,
    };
    calls::place_to_follow(hub, ask, wanted.read.take()).await
}

/// Why a call was not placed.
pub(super) fn refusal(error: &PlaceError, agent: Option<&str>, tool: &str) -> Outcome {
    let code = match error {
        PlaceError::Denied(_) => "forbidden",
        PlaceError::NotInForce => "unauthorized",
        PlaceError::KeyReused => "conflict",
        PlaceError::BadArgs(_) => "bad_args",
        PlaceError::Limited { .. } => "limited",
        PlaceError::Busy(_) => "busy",
        PlaceError::Store(_) => "store",
    };
    Outcome::refused(agent, tool, code, error.to_string())
}

/// A call as people are told of it.
pub(super) fn named(call: &Call) -> String {
    render::on_one_line(&format!("{} on {}", call.tool, call.target))
}

/// Waits for a call's end. When the client gives up, so does the call: its outcome is `cancelled`, and what the machine
/// still answers is recorded as late.
pub(super) async fn follow(
    hub: &Hub,
    call: &Arc<Call>,
    run: Option<Run>,
    context: &RequestContext<RoleServer>,
) -> CallToolResult {
    // A task that is dropped while it waits has nobody to answer to either.
    let abandoned = CancelUnlessDone::new(call);
    let done = match progress::wait(hub, context, || named(call), ended(call, run)).await {
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

/// Runs a call, if that is ours to do, and waits for its end.
pub(super) async fn ended(call: &Call, run: Option<impl Future<Output = ()>>) -> &Done {
    if let Some(run) = run {
        run.await;
    }
    call.wait().await
}

/// A call's end as the client sees it. A large answer is read and cut on a thread where it holds up nobody.
pub(super) async fn shown(hub: &Hub, call: &Arc<Call>, done: &Done) -> CallToolResult {
    outcome(hub, call, done, hub.settings.size("mcp.max_result_bytes")).await.into_result()
}

/// The same, within a budget of its own.
pub(super) async fn outcome(hub: &Hub, call: &Arc<Call>, done: &Done, budget: usize) -> Outcome {
    if done.result.as_ref().is_none_or(|result| result.get().len() <= LARGE) {
        return Outcome::ended(call, done, budget);
    }
    let _turn = hub.answers.turn().await;
    let (ended, result) = (Arc::clone(call), done.clone());
    let rendered = tokio::task::spawn_blocking(move || Outcome::ended(&ended, &result, budget)).await;
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
    asker: &Asker,
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
pub(super) async fn take_back(hub: &Hub, asker: &Asker, args: JsonObject) -> Result<CallToolResult, ApiError> {
    let CancelArgs { call_id } = super::fleet::args(args)?;
    let id = call_id.parse::<CallId>();
    let id = id.map_err(|_| ApiError::bad_request("`call_id` must be a call id from an earlier answer"))?;
    let call = taken_back(hub, &asker.caller, id).await?;
    let line = format!("The call {id} ({} on {}) will not run.", call.tool, call.target.as_str());
    Ok(render::own_words(&line, json!({ "cancelled": id })))
}
