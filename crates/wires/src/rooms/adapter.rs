//! Actions in rooms, as the gate sees them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use convoke_core::call::code;
use convoke_core::confirm::ConfirmRule;
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::grant::{Grant, Role, Scopes};
use convoke_core::id::PeerId;
use convoke_kibitz::room::{Act, Delivered};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{LiveRoom, now, peer, sign};
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Ask, Call, Outgoing, Placed, cancelled, place};
use convoke_gate::clock;
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::{Answer, Failure};
use convoke_gate::operators::Caller;

/// The name of an action in records, scopes and confirm rules.
pub const ACT: &str = "room_act";
/// How long an application may take to say what became of an action.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The code of an action that the application says failed.
const APP_ERROR: &str = "app_error";

/// Actions.
#[derive(Debug)]
pub struct RoomAdapter;

/// The arguments of an action as a call.
#[derive(Debug, Serialize, Deserialize)]
struct ActArgs {
    /// Who asks.
    participant: String,
    /// Whom alone it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    /// The hub's id of the action: applications answer to it. The call's own, where nobody else waits for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    act: String,
    /// The envelope.
    data: Box<RawValue>,
}

/// What became of an action that was delivered.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    /// `answered`, or `delivered` when no application said anything.
    detail: Cow<'static, str>,
    heard_by: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
}

#[async_trait]
impl Adapter for RoomAdapter {
    fn effect(&self, hub: &Hub, _: &Agent, _: &str) -> Effect {
        hub.settings.rooms.act_effect.into()
    }

    fn target(&self, hub: &Hub, id: &PeerId) -> Option<Arc<Agent>> {
        let hub = &Wires::of(hub);
        let name = id.as_str().strip_prefix("room:")?;
        hub.rooms.find(name).map(|_| Agent::elsewhere(id.clone()))
    }

    /// The room's `act` grant is a person's yes already. Another one takes a rule that names the room or the tool.
    fn rules<'r>(&self, rules: &'r [ConfirmRule]) -> Cow<'r, [ConfirmRule]> {
        rules.iter().filter(|rule| rule.agents.is_some() || rule.tools.is_some()).cloned().collect()
    }

    fn check_online(&self, _: &Hub, _: &Agent, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        let internal = |why: serde_json::Error| Failure::new(code::INTERNAL, why.to_string());
        let name = call.target.id.as_str().strip_prefix("room:").unwrap_or_default();
        let Some(room) = hub.rooms.find(name) else {
            return Err(Failure::new(code::OFFLINE, format!("room {name} does not exist")));
        };
        let ActArgs { participant, to, act, data } = serde_json::from_str(call.args.get()).map_err(internal)?;
        let id = if act.is_empty() { call.call.id.to_string() } else { act };
        let act = Act { participant, to, reference: None, id: None, data: data.get().to_owned() };
        let answer = room.await_answer(&id);
        let at = now(hub);
        let (delivered, after) = room.with(at, |room| room.deliver(&act, &id, at));
        room.delivered(&id);
        // Nothing here waits for a participant, so nothing of the call is held up.
        Box::pin(after.settle(hub, &room)).await;
        let Delivered { heard, answers } = delivered.map_err(|why| Failure::new(why.reason(), why.to_string()))?;
        let answered = if answers { answer_of(call.call, answer).await } else { Ok(None) };
        let ((), after) = room.with(now(hub), |room| room.forget_act(&id));
        Box::pin(after.settle(hub, &room)).await;
        room.forget(&id);
        let (detail, result) = match answered? {
            None => ("delivered", None),
            Some(Ok(result)) => ("answered", result.map(RawValue::from_string).transpose().map_err(internal)?),
            Some(Err(words)) => return Err(Failure::of_peer(APP_ERROR, words)),
        };
        let outcome = Outcome { detail: detail.into(), heard_by: heard, result };
        to_raw_value(&outcome).map(Into::into).map_err(internal)
    }

    fn detail(&self, result: &RawValue) -> Option<Value> {
        let Outcome { detail, heard_by, .. } = serde_json::from_str(result.get()).ok()?;
        Some(json!({ "what": detail, "heard_by": heard_by }))
    }
}

/// What an application says became of an action: its result or its error.
pub(super) type Said = Result<Option<String>, String>;

/// Waits for the application's word. `None`: it said nothing, which is the same as having heard it.
async fn answer_of(call: &Call, answer: oneshot::Receiver<Said>) -> Result<Option<Said>, Failure> {
    tokio::select! {
        said = answer => Ok(said.ok()),
        () = tokio::time::sleep(ANSWER_WITHIN) => Ok(None),
        () = call.cancelled() => Err(cancelled()),
    }
}

/// Sends an action through the gate, in a task of its own: what became of it may take a while. What comes back is done once
/// the action was delivered, or is not going to be.
pub(super) fn act(hub: &Wires, room: &Arc<LiveRoom>, caller: Caller, asked: Act) -> oneshot::Receiver<()> {
    let id = clock::uuid().to_string();
    let (delivered, is_delivered) = oneshot::channel();
    room.announce_act(&id, delivered);
    let (hub, room) = (hub.clone(), Arc::clone(room));
    tokio::spawn(async move {
        let run = run(&hub, &room, caller, &asked, &id);
        let ended = tokio::select! {
            ended = run => Some(ended),
            () = hub.stopping.cancelled() => None,
        };
        // Whoever waits until it is delivered waits no longer.
        room.forget(&id);
        let Some(ended) = ended else { return };
        let at = now(&hub);
        let ((), after) = room.with(at, |room| match &ended {
            Ok(outcome) => room.answer_act(&asked, outcome.result.as_deref()),
            Err((reason, words)) => room.fail_act(&asked, reason, words),
        });
        after.settle(&hub, &room).await;
    });
    is_delivered
}

/// Why nothing became of an action: a reason and a sentence.
type Failed = (String, String);

/// An action as a call: of whom, and with what. `id` is the hub's id of it, if somebody waits for it beside the call.
pub(super) fn wanted(room: &str, act: &Act, id: &str) -> Result<(Arc<Agent>, Box<RawValue>), String> {
    let data = RawValue::from_string(act.data.clone()).map_err(|why| why.to_string())?;
    let args = ActArgs { participant: act.participant.clone(), to: act.to.clone(), act: id.to_owned(), data };
    let args = to_raw_value(&args).map_err(|why| why.to_string())?;
    let target = PeerId::parse(&peer(room)).map_err(|why| why.to_string())?;
    Ok((Agent::elsewhere(target), args))
}

async fn run(hub: &Wires, room: &LiveRoom, caller: Caller, act: &Act, id: &str) -> Result<Outcome, Failed> {
    let (agent, args) = wanted(&room.name, act, id).map_err(|why| (code::INTERNAL.to_owned(), why))?;
    let ask = Ask { caller, agent, tool: ACT.into(), args, timeout: None, idempotency_key: None, requested_by: None };
    let call = match place(hub, ask).await {
        Ok(Placed::Running(call)) => call,
        Ok(Placed::Pending { call, approval, .. }) => {
            let ((), after) = room.with(now(hub), |room| room.hold_act(act, &approval.to_string()));
            Box::pin(after.settle(hub, room)).await;
            // It is not going to be delivered soon: whatever else this participant says goes on.
            room.delivered(id);
            call
        }
        Err(refused) => return Err((refused.code().into(), refused.to_string())),
    };
    let done = call.wait().await;
    if !done.is_ok() {
        return Err((done.outcome.clone().into_owned(), done.message.clone().unwrap_or_default()));
    }
    let result = done.result.as_ref().and_then(|result| serde_json::from_str(result.get()).ok());
    Ok(result.unwrap_or(Outcome { detail: "delivered".into(), heard_by: 0, result: None }))
}

/// Who asks for a participant's actions: the operator whose pass they came by, or the participant, who reaches this room
/// and nothing else. `None`: they have left.
pub(super) fn asker(hub: &Wires, room: &LiveRoom, participant: &str) -> Option<Caller> {
    let pass = room.look(|room| room.pass_of(participant).map(str::to_owned));
    if let Some(caller) = pass.and_then(|pass| sign::by_pass(hub, &pass)) {
        return Some(caller);
    }
    room.guest(participant, || {
        let peer = peer(&room.name);
        let name = format!("{peer}/{participant}");
        let scopes = Scopes { tools: Some(vec![ACT.into()]), agents: Some(vec![peer]), ..Scopes::default() };
        let token = hub.operators.guest(name, Grant { role: Role::Operator, scopes }, clock::now());
        Caller::with_token(token, Door::Room, std::net::Ipv4Addr::UNSPECIFIED.into())
    })
}
