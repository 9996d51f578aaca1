//! Actions in rooms, as the gate sees them.

use std::sync::Arc;

use async_trait::async_trait;
use convoke_core::call::code;
use convoke_core::effect::Effect;
use convoke_core::id::PeerId;
use convoke_kibitz::room::Act;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::now;
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Ask, Outgoing, Placed, place};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::{Answer, Failure};
use convoke_gate::operators::Caller;

/// The name of an action in records, scopes and confirm rules.
pub const ACT: &str = "room_act";

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
    /// The content message.
    content: Box<RawValue>,
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

    fn check_online(&self, _: &Agent) -> Result<(), Failure> {
        Ok(())
    }

    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        let internal = |why: serde_json::Error| Failure::new(code::INTERNAL, why.to_string());
        let name = call.target.id.as_str().strip_prefix("room:").unwrap_or_default();
        let Some(room) = hub.rooms.find(name) else {
            return Err(Failure::new(code::OFFLINE, format!("room {name} does not exist")));
        };
        let ActArgs { participant, to, content } = serde_json::from_str(call.args.get()).map_err(internal)?;
        let act = Act { participant, to, reference: None, content: content.get().to_owned() };
        let at = now(hub);
        let (delivered, after) = room.with(at, |room| room.deliver(&act, at));
        // Nothing here waits for a participant, so nothing of the call is held up.
        Box::pin(after.settle(hub, &room)).await;
        let heard = delivered.map_err(|why| Failure::new(why.reason(), why.to_string()))?;
        serde_json::value::to_raw_value(&json!({ "heard_by": heard })).map(Into::into).map_err(internal)
    }
}

/// An action of a participant goes through the gate. Answers why it was not delivered: a reason and a sentence.
pub(super) async fn act(hub: &Wires, room: &str, caller: Caller, act: &Act) -> Result<(), (String, String)> {
    let internal = |why: String| (code::INTERNAL.to_owned(), why);
    let content = RawValue::from_string(act.content.clone()).map_err(|why| internal(why.to_string()))?;
    let args = ActArgs { participant: act.participant.clone(), to: act.to.clone(), content };
    let args = serde_json::value::to_raw_value(&args).map_err(|why| internal(why.to_string()))?;
    let peer = PeerId::parse(&super::peer(room)).map_err(|why| internal(why.to_string()))?;
    let ask = Ask {
        caller,
        agent: Agent::elsewhere(peer),
        tool: ACT.into(),
        args,
        timeout: None,
        idempotency_key: None,
        requested_by: None,
    };
    match place(hub, ask).await {
        Ok(Placed::Running(call)) => {
            let done = call.wait().await;
            if done.is_ok() {
                return Ok(());
            }
            Err((done.outcome.clone().into_owned(), done.message.clone().unwrap_or_default()))
        }
        Ok(Placed::Pending { approval, .. }) => {
            Err(("waiting".into(), format!("a person must approve this action first ({approval})")))
        }
        Err(refused) => Err((refused.code().into(), refused.to_string())),
    }
}
