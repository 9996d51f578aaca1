//! Events as the parts of the hub have them at hand.

use convoke_core::event::{AgentChange, AgentEvent, CallEvent, Event, LogEvent, PolicyEvent, RuleList};
use convoke_core::id::PeerId;
use convoke_store::{LogRow, Lossy};
use serde_json::value::RawValue;

use super::Events;
use crate::calls::Call;

impl Events {
    /// Something about an agent changed.
    pub fn agent(&self, id: &PeerId, change: AgentChange) {
        self.agent_had(id, change, &[]);
    }

    /// Something about an agent changed, and it may not have these tags any more.
    pub fn agent_had(&self, id: &PeerId, change: AgentChange, tags_before: &[String]) {
        self.publish(Event::Agent(AgentEvent { agent: id.clone(), change, tags_before: tags_before.to_vec() }));
    }

    /// A call is where it is now. `caller` is the name of the token that asked.
    pub fn call(&self, call: &Call, caller: Option<&str>) {
        let done = call.done();
        self.publish(Event::Call(CallEvent {
            call_id: call.id,
            state: call.state(),
            target: call.target.clone(),
            tool: call.tool.clone(),
            caller: caller.map(str::to_owned),
            approval: call.approval().map(|(id, _)| id),
            outcome: done.map(|done| done.outcome.clone().into_owned()),
            duration_ms: done.and_then(|done| done.duration_ms),
            owner: call.caller,
        }));
    }

    /// A rule was put or removed.
    pub fn rule(&self, list: RuleList, rule: &str, removed: bool) {
        self.publish(Event::Policy(PolicyEvent { list, rule: rule.to_owned(), removed }));
    }

    /// Log lines and snapshots that the store has committed.
    pub fn committed(&self, item: Lossy) {
        match item {
            Lossy::Logs(lines) => lines.into_iter().for_each(|line| self.publish(Event::Log(log(line)))),
            Lossy::Snapshot(snapshot) => self.agent(&snapshot.agent, AgentChange::Telemetry),
            _ => {}
        }
    }
}

fn log(line: LogRow) -> LogEvent {
    LogEvent {
        id: line.id,
        at: line.at,
        agent: line.agent,
        source: line.source,
        level: line.level,
        target: line.target,
        message: line.message,
        fields: line.fields.and_then(|text| RawValue::from_string(text).ok()),
    }
}
