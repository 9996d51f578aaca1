//! Messages to Yonexus clients, as the gate sees them: calls with as many recipients as the message names.

use std::sync::Arc;

use async_trait::async_trait;
use convoke_api::yonexus::{SendMessage, Sent};
use convoke_core::call::code;
use convoke_core::effect::Effect;
use convoke_core::id::PeerId;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::messages;
use convoke_gate::agents::Agent;
use convoke_gate::calls::{Adapter, Outgoing, Recipient, not_any_more};
use convoke_gate::hub::Hub;

use crate::Wires;
use convoke_gate::link::{Answer, Failure};

/// Recipients that a record names; the rest are counted.
const MAX_NAMES: usize = 32;

/// Messages.
#[derive(Debug)]
pub struct YonexusAdapter;

fn names(args: &Value) -> impl Iterator<Item = &str> {
    args.get("to").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[async_trait]
impl Adapter for YonexusAdapter {
    fn effect(&self, _: &Hub, _: &Agent, _: &str) -> Effect {
        Effect::Interact
    }

    fn recipients(&self, _: &Agent, args: &Value) -> Vec<Recipient> {
        names(args).map(|name| Recipient { id: messages::peer(name), tags: Arc::default() }).collect()
    }

    /// What a message says is between its sender and its readers: the digest proves it.
    fn shown(&self, args: &RawValue) -> Box<RawValue> {
        let mut value: Value = serde_json::from_str(args.get()).unwrap_or_default();
        let (count, first) = (names(&value).count(), json!(names(&value).take(MAX_NAMES).collect::<Vec<_>>()));
        let bytes = value.get("content").and_then(Value::as_str).map(str::len);
        if let Value::Object(map) = &mut value {
            map.remove("content");
            map.insert("content_bytes".into(), bytes.into());
            map.insert("to".into(), first);
            map.insert("recipients".into(), count.into());
        }
        serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }

    /// The registry of clients knows who is online; delivery reports who was not.
    fn target(&self, _: &Hub, id: &PeerId) -> Option<Arc<Agent>> {
        Some(Agent::elsewhere(id.clone()))
    }

    fn admitted_at(&self, hub: &Hub, _: &Agent, args: &Value) -> Option<Timestamp> {
        let hub = &Wires::of(hub);
        let clients = names(args).filter_map(|name| hub.yonexus.clients.find(name));
        clients.filter_map(|client| client.state().record.paired_at).max()
    }

    fn check_online(&self, _: &Hub, _: &Agent, _: &str) -> Result<(), Failure> {
        Ok(())
    }

    /// Where nobody got it, it failed; who missed it otherwise stands in the result.
    async fn send(&self, hub: &Hub, call: &Outgoing<'_>) -> Answer {
        let hub = &Wires::of(hub);
        let request: SendMessage = serde_json::from_str(call.args.get())
            .map_err(|why| Failure::new(code::INTERNAL, format!("cannot read the stored message: {why}")))?;
        let sent = messages::deliver(hub, &request, call.token.id)
            .await
            .map_err(|why| Failure::new(code::INTERNAL, format!("cannot store the message: {why}")))?
            .ok_or_else(not_any_more)?;
        if sent.sent.is_empty() && sent.kept.is_empty() {
            return Err(Failure::new(code::OFFLINE, messages::nobody(&sent.offline)));
        }
        serde_json::value::to_raw_value(&sent)
            .map(Into::into)
            .map_err(|why| Failure::new(code::INTERNAL, why.to_string()))
    }

    fn detail(&self, result: &RawValue) -> Option<Value> {
        let sent: Sent = serde_json::from_str(result.get()).ok()?;
        let (live, kept, offline) = (sent.sent.len(), sent.kept.len(), sent.offline.len());
        Some(json!({ "sent": live, "kept": kept, "offline": offline, "id": sent.id }))
    }
}
