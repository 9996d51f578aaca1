//! A message to clients as a call: the same gate and the same records, but it has as many targets as recipients. Every
//! one of them must be within reach, and one that needs a person is enough to ask for one.

use convoke_api::yonexus::{SendMessage, Sent};
use convoke_core::call::code;
use convoke_core::confirm::Facts;
use convoke_core::effect::Effect;
use convoke_core::gate::{self, Consent, Verdict};
use convoke_core::grant::{Grant, Missing};
use convoke_core::id::Protocol;
use convoke_core::time::Timestamp;
use convoke_store::CallRow;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Done, Planned, dispatch};
use crate::hub::Hub;
use crate::link::{Answer, Failure};
use crate::policy::InForce;
use crate::yonexus::messages;

/// What a message does: it speaks to someone.
pub(super) const EFFECT: Effect = Effect::Interact;
/// Recipients that a record names; the rest are counted.
const MAX_NAMES: usize = 32;

/// Decides on a message: the strictest answer of all recipients.
pub(super) fn decide(planned: &Planned, args: &Value, policy: &InForce, consent: Consent) -> Verdict {
    let names = recipients(args);
    if names.is_empty() {
        return Verdict::Denied(Missing::Scope("agents"));
    }
    let mut asks = None;
    for name in names {
        let facts = Facts {
            tool: &planned.call.tool,
            effect: planned.effect,
            agent: &messages::peer(name),
            tags: &[],
            caller: &planned.token.name,
            door: planned.door,
        };
        match gate::decide(&planned.token.grant, &policy.guard, &[], &policy.confirm, &facts, consent) {
            Verdict::Allowed => {}
            asked @ Verdict::Confirm { .. } => asks = asks.or(Some(asked)),
            refused @ (Verdict::Denied(_) | Verdict::Blocked(_)) => return refused,
        }
    }
    asks.unwrap_or(Verdict::Allowed)
}

/// Whether whoever decides on a message reaches everyone it goes to. Any other call has one target, and that has been
/// looked at.
pub(super) fn check_reach(grant: &Grant, row: &CallRow) -> Result<(), Missing> {
    if row.target.protocol() != Protocol::Yonexus {
        return Ok(());
    }
    let args = row.args.as_ref().and_then(|args| serde_json::from_slice::<Value>(args.reveal()).ok());
    let args = args.unwrap_or_default();
    recipients(&args).into_iter().try_for_each(|name| grant.check_reach::<String>(&messages::peer(name), &[]))
}

/// When the last of those whom a message goes to was paired, as far as they still are.
pub(super) fn last_paired(hub: &Hub, row: &CallRow) -> Option<Timestamp> {
    let args = row.args.as_ref().and_then(|args| serde_json::from_slice::<Value>(args.reveal()).ok())?;
    let clients = recipients(&args).into_iter().filter_map(|name| hub.yonexus.clients.find(name));
    clients.filter_map(|client| client.state().record.paired_at).max()
}

fn recipients(args: &Value) -> Vec<&str> {
    let names = args.get("to").and_then(Value::as_array);
    names.map(|names| names.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

/// A message as records show it. What it says is between its sender and its readers: the digest proves it.
pub(super) fn shown(args: &RawValue) -> Box<RawValue> {
    let mut value: Value = serde_json::from_str(args.get()).unwrap_or_default();
    let names = recipients(&value);
    let (count, first) = (names.len(), json!(names.into_iter().take(MAX_NAMES).collect::<Vec<_>>()));
    let bytes = value.get("content").and_then(Value::as_str).map(str::len);
    if let Value::Object(map) = &mut value {
        map.remove("content");
        map.insert("content_bytes".into(), bytes.into());
        map.insert("to".into(), first);
        map.insert("recipients".into(), count.into());
    }
    serde_json::value::to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Sends it. Nobody got it: then it failed; who missed it otherwise stands in the result.
pub(super) async fn send(hub: &Hub, planned: &Planned) -> Answer {
    let request: SendMessage = serde_json::from_str(planned.args.get())
        .map_err(|why| Failure::new(code::INTERNAL, format!("cannot read the stored message: {why}")))?;
    if planned.call.is_cancelled() {
        return Err(dispatch::cancelled());
    }
    dispatch::record_intent(hub, planned).await?;
    dispatch::check_in_force(planned)?;
    let sent = messages::deliver(hub, &request, planned.token.id)
        .await
        .map_err(|why| Failure::new(code::INTERNAL, format!("cannot store the message: {why}")))?
        .ok_or_else(dispatch::not_any_more)?;
    if sent.sent.is_empty() && sent.kept.is_empty() {
        return Err(Failure::new(code::OFFLINE, messages::nobody(&sent.offline)));
    }
    serde_json::value::to_raw_value(&sent)
        .map(Into::into)
        .map_err(|why| Failure::new(code::INTERNAL, why.to_string()))
}

/// How many got a message, for the record of its outcome.
pub(super) fn detail(planned: &Planned, done: &Done) -> Option<Value> {
    if planned.agent.id.protocol() != Protocol::Yonexus {
        return None;
    }
    let sent: Sent = serde_json::from_str(done.result.as_ref()?.get()).ok()?;
    let (live, kept, offline) = (sent.sent.len(), sent.kept.len(), sent.offline.len());
    Some(json!({ "sent": live, "kept": kept, "offline": offline, "id": sent.id }))
}
