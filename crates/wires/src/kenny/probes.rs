//! Probes of kenny agents that answer them (`probes` in `register.meta.features`): our own addition to the protocol. The
//! gate, its rules and the journal see the probe itself; the agent gets it wrapped in `probe_run`.

use std::sync::Arc;
use std::time::Duration;

use convoke_core::guard::Surface;
use convoke_core::id::{CallId, PeerId};
use convoke_kenny::tools::{FEATURE_PROBES, PROBE_LIST, PROBE_RUN};
use convoke_sonde::probe::Answer as ProbeAnswer;
use convoke_sonde::register::Register;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;

use crate::Wires;
use crate::joined::route;
use crate::sonde::ask;
use convoke_core::call::code;
use convoke_gate::agents::{Agent, AgentState};
use convoke_gate::calls::Outgoing;
use convoke_gate::clock;
use convoke_gate::cluster::Held;
use convoke_gate::link::{Answer, Command, Failure, Link, Request};

/// How long an agent may take to list its probes.
const LIST: Duration = Duration::from_secs(30);

/// Whether a call of this name asks for a probe: every probe has a dot in its name, and no tool has.
pub(super) fn is_probe(tool: &str) -> bool {
    tool.contains('.')
}

/// Refuses what the hub wraps, and probes of agents that answer none.
pub(super) fn check(target: &Agent, tool: &str) -> Result<(), String> {
    if [PROBE_LIST, PROBE_RUN].contains(&tool) {
        return Err(format!("`{tool}` is the hub's own; ask for a probe by its name, as in system.disk.usage"));
    }
    let has = |state: &AgentState| state.has_feature(FEATURE_PROBES) || state.tunnel().is_some();
    if is_probe(tool) && !has(&target.state()) {
        return Err(format!("agent {} answers no probes; its program is another one, or too old", target.id));
    }
    Ok(())
}

/// What the guard must see of a probe.
pub(super) fn surfaces(args: &Value) -> Vec<Surface<'_>> {
    crate::sonde::adapter::surfaces(args)
}

/// Sends a probe, or takes its answer from the cache.
pub(super) async fn send(hub: &Wires, call: &Outgoing<'_>) -> Answer {
    if let Some(tunnel) = route(hub, call.target, &call.call.tool) {
        let over = Outgoing { target: &tunnel, ..*call };
        return ask::cached(hub, call, |left| over.through_link(hub, left)).await;
    }
    ask::cached(hub, call, async |left: Duration| {
        let params: &RawValue = call.args;
        let wrapped = Wrapped { probe: &call.call.tool, params, timeout_s: left.as_secs_f64() };
        let args = to_raw_value(&wrapped).map_err(|why| Failure::new(code::INTERNAL, why.to_string()))?;
        let answer = call.through_link_as(hub, left, PROBE_RUN.into(), args).await?;
        match ProbeAnswer::decode(answer.get(), false) {
            Ok(answer) => ask::shown(&answer, call.call.id.uuid()),
            Err(why) => Err(Failure::of_peer(code::INTERNAL, format!("cannot read the answer of the probe: {why}"))),
        }
    })
    .await
}

#[derive(serde::Serialize)]
struct Wrapped<'a> {
    probe: &'a str,
    params: &'a RawValue,
    timeout_s: f64,
}

/// Learns which probes an agent has, once it is connected. An agent that does not say can still be asked; what nobody
/// described counts as `manage`.
pub(super) async fn learn(hub: &Wires, agent: &Arc<Agent>, link: &Arc<Link>, held: &Held) {
    let (id, has) = (&agent.id, agent.state().has_feature(FEATURE_PROBES));
    if !has {
        hub.sonde.registry.forget_machine(id);
        return;
    }
    let about = agent.state().meta.as_deref().map(convoke_kenny::frame::Meta::read).unwrap_or_default();
    hub.sonde.registry.put_machine(id, &about, None);
    let (reply, answer) = oneshot::channel();
    let request = Request {
        id: CallId::new(clock::uuid()),
        tool: PROBE_LIST.into(),
        args: RawValue::from_string("{}".into()).unwrap_or_default(),
        requested_by: "hub".into(),
        below: None,
        timeout: LIST,
        deadline: hub.mono() + LIST,
        reply,
    };
    if link.push(Command::Call(request)).is_err() {
        return;
    }
    let Ok(answer) = answer.await else { return };
    let listed = answer.map_err(|failure| failure.message).and_then(|text| {
        let register = read(id, text.get())?;
        Ok((register, text.get().to_owned()))
    });
    match listed {
        Ok((register, text)) => {
            hub.sonde.registry.put_machine(id, &about, Some(register));
            held.listed(text).await;
        }
        Err(why) => {
            if let Some(note) = hub.tells_of(id) {
                tracing::warn!(agent = %id, why, note = note.words(), "cannot learn which probes an agent has");
            }
        }
    }
}

/// What an agent listed, read and bounded as what a Sonde agent registers.
fn read(id: &PeerId, text: &str) -> Result<Register, String> {
    let mut map: serde_json::Map<String, Value> = serde_json::from_str(text).map_err(|why| why.to_string())?;
    map.retain(|key, _| ["packs", "capabilities", "manifests"].contains(&key.as_str()));
    map.insert("name".into(), id.as_str().into());
    map.insert("os".into(), "-".into());
    map.insert("version".into(), "-".into());
    Register::decode(&Value::Object(map).to_string()).map_err(|bad| bad.what)
}

/// An agent is connected to another hub, which says what it listed there.
pub(crate) fn learn_elsewhere(hub: &Wires, agent: &Agent, listed: Option<&str>) {
    let (has, about) = {
        let state = agent.state();
        let about = state.meta.as_deref().map(convoke_kenny::frame::Meta::read).unwrap_or_default();
        (state.has_feature(FEATURE_PROBES), about)
    };
    if has {
        let listed = listed.and_then(|text| read(&agent.id, text).ok());
        hub.sonde.registry.put_machine(&agent.id, &about, listed);
    } else {
        hub.sonde.registry.forget_machine(&agent.id);
    }
}
