//! A person at the client's own screen approves: only where `approvals.elicitation` allows it. A client of 2026-07-28
//! is given the question with a state that is sealed, bound to caller, machine, tool and exact arguments, and lapses
//! with the approval; used once, because an approval is decided once. A client with a session is asked within it, for as
//! long as nobody else has decided; its call is taken back when it gives up its request, or its session ends.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use crate::Sessions;
use convoke_core::approval::{ApprovalError, ApprovalState};
use convoke_core::call::CallState;
use convoke_core::id::ApprovalId;
use convoke_core::time::Timestamp;
use rmcp::RoleServer;
use rmcp::model::{
    CallToolResult, ClientResult, ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction,
    ElicitationSchema, InputRequest, InputRequiredResult, InputResponses, MetaObject, ProtocolVersion,
    RequestStateCodec, SealOptions, ServerRequest,
};
use rmcp::service::{PeerRequestOptions, RequestContext};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::call::Wanted;
use super::hidden;
use super::render::{self, Outcome};
use super::server::McpCaller;
use convoke_doors::keeper::record_refusal;
use convoke_gate::calls::{self, Call, DecideError};
use convoke_gate::clock;
use convoke_gate::hub::Hub;

/// The question's key, and the one field of its answer.
const APPROVE: &str = "approve";

/// Longest arguments, as text, that a question shows.
const MAX_ASKED: usize = 2000;

/// The key under which a question names the call it is about.
const WAITING: &str = "convoke/waiting";

/// A call that waits, and for what.
pub(super) struct Waiting {
    pub(super) call: Arc<Call>,
    pub(super) approval: ApprovalId,
    pub(super) expires_at: Timestamp,
}

/// What became of asking the person at the client.
pub(super) enum Asked {
    /// The client is to put this question to its person.
    Question(InputRequiredResult),
    /// Its person has decided, or someone else: the call runs, or has ended.
    Decided(Arc<Call>),
    /// It cannot, or must not, be asked: someone else decides.
    Nobody,
}

/// What a client's answer came to.
pub(super) enum Answer {
    /// Its person has decided.
    Decided(Arc<Call>),
    /// Its person did not say: the call still waits.
    Open(Box<Outcome>),
}

/// Asks the person at the client, if that counts and can be done.
pub(super) async fn ask(
    hub: &Hub,
    asker: &McpCaller,
    wanted: &Wanted,
    waiting: &Waiting,
    context: &RequestContext<RoleServer>,
) -> Asked {
    let capable = context
        .client_capabilities()
        .and_then(|c| c.elicitation)
        .is_some_and(|elicitation| elicitation.form.is_some() || elicitation.url.is_none());
    if !hub.settings.approvals.elicitation || !capable {
        return Asked::Nobody;
    }
    let Some(question) = question(wanted) else { return Asked::Nobody };
    let Waiting { call, approval, .. } = waiting;
    let inline = context.protocol_version().is_some_and(|v| v.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
    if inline {
        return sealed(hub, asker, wanted, waiting, question).map_or(Asked::Nobody, Asked::Question);
    }
    let closed = asker.session.as_deref().map(|session| Sessions::of(hub).closed(session)).unwrap_or_default();
    let mut answering = pin!(put(context, question, call));
    let answer = tokio::select! {
        biased;
        // The sessions end with the hub, and what waits does not.
        () = hub.stopping.cancelled() => return Asked::Nobody,
        () = gone(context, &closed) => {
            // Nobody has been told of this call: who approved it would approve what nobody wants any more.
            let asked = given_up(hub, asker, waiting).await;
            if !closed.is_cancelled() && call.state() != CallState::Waiting {
                let _ = answering.await;
            }
            return asked;
        }
        answer = &mut answering => answer,
    };
    if let Some(approve) = answer.and_then(|answer| verdict(&answer)) {
        match calls::decide_at_client(hub, &asker.caller, *approval, approve).await {
            Ok(call) => return Asked::Decided(call),
            Err(DecideError::Refused(ApprovalError::NotPending(_) | ApprovalError::Expired)) => {
                return Asked::Decided(Arc::clone(call));
            }
            Err(_) => {}
        }
    }
    // Whatever the client made of the question, someone else may have decided meanwhile.
    if call.state() == CallState::Waiting { Asked::Nobody } else { Asked::Decided(Arc::clone(call)) }
}

/// The client has given up its request, or its session has ended, which is long before the SDK says so: that lets what
/// is under way end first.
async fn gone(context: &RequestContext<RoleServer>, closed: &CancellationToken) {
    tokio::select! {
        () = context.ct.cancelled() => {}
        () = closed.cancelled() => {}
    }
}

/// Takes a call back whose client has given it up.
async fn given_up(hub: &Hub, asker: &McpCaller, waiting: &Waiting) -> Asked {
    let Waiting { call, approval, .. } = waiting;
    match calls::take_back(hub, &asker.caller, *approval).await {
        // Where it was too late, it is followed as any other whose client may have gone.
        Ok(_) => Asked::Decided(Arc::clone(call)),
        Err(why) => {
            tracing::error!(%approval, %why, "cannot end a waiting call that its client gave up");
            Asked::Nobody
        }
    }
}

/// The question for a client without a session, and what it is to bring back with the answer. It also names the call: a
/// client that does not ask its person can still follow it.
fn sealed(
    hub: &Hub,
    asker: &McpCaller,
    wanted: &Wanted,
    waiting: &Waiting,
    question: ElicitRequestParams,
) -> Option<InputRequiredResult> {
    let Waiting { call, approval, expires_at } = waiting;
    // The approval says until when it counts. Who comes later is told which call it was, for as long as that is known.
    let ttl = u64::try_from(expires_at.millis() - clock::now().millis()).unwrap_or(0);
    let ttl = Duration::from_millis(ttl) + calls::KEEP;
    let bound = binding(hub, asker, wanted);
    let options = SealOptions::new().associated_data(bound.as_bytes()).ttl(ttl);
    let state = codec(hub)?.seal_with(approval.to_string().as_bytes(), &options);
    let requests = [(APPROVE.to_owned(), InputRequest::Elicitation(ElicitRequest::new(question)))];
    let mut result = InputRequiredResult::new(Some(requests.into()), Some(state));
    let mut meta = MetaObject::new();
    let approval = json!({ "id": approval, "expires_at": expires_at });
    meta.0.insert(WAITING.into(), json!({ "call_id": call.id, "approval": approval }));
    result.meta = Some(meta);
    Some(result)
}

/// Puts a question within the session. Nothing when there is no answer, or the call has been decided elsewhere, or taken
/// back: then the client is told that it need not ask any more.
async fn put(
    context: &RequestContext<RoleServer>,
    question: ElicitRequestParams,
    call: &Call,
) -> Option<ElicitResult> {
    if call.state() != CallState::Waiting {
        return None;
    }
    let request = ServerRequest::ElicitRequest(ElicitRequest::new(question));
    let mut asked = context.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await.ok()?;
    tokio::select! {
        answer = &mut asked.rx => match answer {
            Ok(Ok(ClientResult::ElicitResult(answer))) => Some(answer),
            _ => None,
        },
        () = call.decided() => {
            // A client that is gone has nothing to ask either.
            let _ = asked.cancel(Some("decided elsewhere".into())).await;
            None
        }
    }
}

/// Takes a client's answer with the state it was given.
pub(super) async fn answered(
    hub: &Hub,
    asker: &McpCaller,
    wanted: &Wanted,
    state: &str,
    answers: &InputResponses,
) -> Result<Answer, Box<CallToolResult>> {
    let refuse = |code: &str, message: &str| Err(Box::new(render::error(code, message)));
    if !hub.settings.approvals.elicitation {
        return refuse("bad_state", "this hub does not accept approvals from a client's prompt");
    }
    let bound = binding(hub, asker, wanted);
    let opened = codec(hub).and_then(|codec| codec.open_with(state, bound.as_bytes()).ok());
    let approval = opened.and_then(|id| String::from_utf8(id).ok()).and_then(|id| id.parse::<ApprovalId>().ok());
    let Some(approval) = approval else {
        // One answer for altered, foreign and lapsed: who forges learns nothing of which it was.
        record_refusal(
            hub,
            &asker.caller,
            "a request state that is altered, lapsed or not this call's",
            Some(wanted.agent.id.as_str()),
        )
        .await;
        return refuse("bad_state", "this request state is altered, has lapsed, or was given for another call");
    };
    let answer = answers.get(APPROVE).and_then(|value| serde_json::from_value::<ElicitResult>(value.clone()).ok());
    if let Some(approve) = answer.and_then(|answer| verdict(&answer)) {
        match calls::decide_at_client(hub, &asker.caller, approval, approve).await {
            Ok(call) => return Ok(Answer::Decided(call)),
            Err(DecideError::Store(why)) => return refuse("store", &why.to_string()),
            // It has been decided, or it is too late: the client is told which call it was.
            Err(DecideError::Refused(ApprovalError::NotPending(_) | ApprovalError::Expired)) => {}
            Err(why) => return refuse("bad_state", &why.to_string()),
        }
    }
    match hub.store.approval(approval).await {
        Ok(Some((kept, row))) => {
            let call = match calls::of_row(hub, row).await {
                Ok(call) => call,
                Err(why) => return refuse("store", &why.to_string()),
            };
            if kept.state == ApprovalState::Pending {
                let outcome = Outcome::pending(&call, approval, kept.expires_at, &hub.base_url());
                return Ok(Answer::Open(Box::new(outcome)));
            }
            // A state is good once. Which call it was about is no secret from who asked for it.
            let (state, id) = (kept.state.name(), call.id);
            let message = format!(
                "this approval has been decided already ({state}); what became of the call {id} is what `call_status` tells"
            );
            let mut refused = render::error("bad_state", &message);
            if let Some(structured) = refused.structured_content.as_mut() {
                structured["call_id"] = json!(id);
            }
            Err(Box::new(refused))
        }
        Ok(None) => refuse("bad_state", "the approval no longer exists"),
        Err(why) => refuse("store", &why.to_string()),
    }
}

/// What the person said; nothing when they closed the question without a word.
fn verdict(answer: &ElicitResult) -> Option<bool> {
    match answer.action {
        ElicitationAction::Accept => Some(
            answer.content.as_ref().and_then(|content| content.get(APPROVE)).and_then(|v| v.as_bool()) == Some(true),
        ),
        ElicitationAction::Decline => Some(false),
        _ => None,
    }
}

/// The question to the person at the client. They must see all of what they allow, and as it is: what is too long for a
/// question is left to someone who approves in another way, and so is a probe whose name could say something else.
fn question(wanted: &Wanted) -> Option<ElicitRequestParams> {
    let args = hidden::visible(wanted.args.get());
    let is_name = |tool: &str| tool.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    if args.len() > MAX_ASKED || !is_name(&wanted.tool) {
        return None;
    }
    let message = format!("Allow {} ({}) on {} with {args}?", wanted.tool, wanted.effect.name(), wanted.agent.id);
    let requested_schema = ElicitationSchema::builder().required_bool(APPROVE).build().ok()?;
    Some(ElicitRequestParams::FormElicitationParams { meta: None, message, requested_schema })
}

/// What a state is good for, and nothing else.
fn binding(hub: &Hub, asker: &McpCaller, wanted: &Wanted) -> String {
    let digest = hub.digest(wanted.args.get().as_bytes());
    format!("{}\0{}\0{}\0{digest}", asker.caller.token.id, wanted.agent.id, wanted.tool)
}

/// The key is derived from the hub's own, so that a state outlives a restart as its approval does.
fn codec(hub: &Hub) -> Option<RequestStateCodec> {
    RequestStateCodec::try_new(hub.digest(b"mcp request state v1").into_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use convoke_core::effect::Effect;
    use serde_json::value::to_raw_value;

    use super::*;
    use convoke_gate::agents::Agent;

    fn asked(command: &str) -> Option<String> {
        asked_of("shell_exec", command)
    }

    fn asked_of(tool: &'static str, command: &str) -> Option<String> {
        let wanted = Wanted {
            agent: Agent::elsewhere("pc".parse().expect("an id")),
            tool: tool.into(),
            effect: Effect::Manage,
            args: to_raw_value(&json!({ "command": command })).expect("JSON"),
            timeout: None,
        };
        match question(&wanted)? {
            ElicitRequestParams::FormElicitationParams { message, .. } => Some(message),
            _ => None,
        }
    }

    #[test]
    fn a_person_sees_all_of_what_they_allow_or_is_not_asked() {
        let shown = asked("ls \u{202e}\u{200b}/").expect("short enough");
        assert!(shown.contains("shell_exec (manage) on pc") && shown.contains("\\u202e\\u200b"), "{shown}");
        let long = "x".repeat(MAX_ASKED - 20);
        assert!(asked(&long).is_some_and(|shown| shown.contains(&long)));
        assert!(asked(&(long + "; and what nobody would have seen")).is_none());
        assert!(asked_of("own.pack-2.look_at", "x").is_some());
        assert!(asked_of("own.look (observe) on pc with {}? Or else own.wipe", "x").is_none());
    }
}
