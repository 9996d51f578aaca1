//! Ops rooms: what happens in the fleet is posted into rooms that want it, and operators in a room answer calls that wait,
//! or ask for calls. What they ask goes through the gate like everything else.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::approval::{ApprovalError, ApprovalState};
use convoke_core::effect::Effect;
use convoke_core::event::{AgentChange, ApprovalEvent, Event, FindingEvent, FindingSource};
use convoke_core::id::{ApprovalId, PeerId};
use convoke_core::redact;
use convoke_doors::agents::in_reach;
use convoke_gate::calls::{self, Ask, Call, DecideError, Placed, place};
use convoke_gate::operators::Caller;
use convoke_kibitz::room::{Command, Post, Topic, Wish};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{LiveRoom, now};
use crate::Wires;

/// Agents that come and go are told of together after so long.
const GATHER: Duration = Duration::from_secs(2);
/// Most that are named in one line.
const MAX_NAMED: usize = 10;
/// Agents that are remembered as away, so that their return is told.
const MAX_AWAY: usize = 10_000;

/// Posts what happens, until the hub stops.
pub async fn run(hub: Wires) {
    let mut events = hub.events.subscribe();
    let mut moves = Moves::default();
    loop {
        let due = moves.due;
        tokio::select! {
            next = events.next(&hub.events) => match next {
                Ok(published) => about(&hub, &published.event, &mut moves).await,
                // A room is no record: what it missed is on the page.
                Err(_) => tracing::warn!("some events were not posted into rooms: there were too many at once"),
            },
            () = tokio::time::sleep_until(due.unwrap_or_else(tokio::time::Instant::now)), if due.is_some() => {
                moves.due = None;
                for (what, gone) in [("went offline", std::mem::take(&mut moves.gone)), ("came back", std::mem::take(&mut moves.back))] {
                    if !gone.is_empty() {
                        post(&hub, Topic::Offline, "offline", "fleet", &named(&gone, what)).await;
                    }
                }
            }
            () = hub.stopping.cancelled() => return,
        }
    }
}

/// Agents that went and came since the last line about them.
#[derive(Default)]
struct Moves {
    away: BTreeSet<PeerId>,
    gone: BTreeSet<PeerId>,
    back: BTreeSet<PeerId>,
    due: Option<tokio::time::Instant>,
}

impl Moves {
    fn note(&mut self, agent: &PeerId, change: AgentChange) {
        match change {
            AgentChange::Offline if self.away.len() < MAX_AWAY => {
                self.away.insert(agent.clone());
                self.back.remove(agent);
                self.gone.insert(agent.clone());
            }
            AgentChange::Online if self.away.remove(agent) => {
                // Whoever was not told that it went need not be told that it is there.
                if !self.gone.remove(agent) {
                    self.back.insert(agent.clone());
                }
            }
            AgentChange::Removed => {
                self.away.remove(agent);
                self.gone.remove(agent);
                self.back.remove(agent);
            }
            _ => return,
        }
        self.due.get_or_insert_with(|| tokio::time::Instant::now() + GATHER);
    }
}

fn named(agents: &BTreeSet<PeerId>, what: &str) -> String {
    let names: Vec<&str> = agents.iter().take(MAX_NAMED).map(PeerId::as_str).collect();
    let more = agents.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more} {what}", names.join(", "))
}

async fn about(hub: &Wires, event: &Event, moves: &mut Moves) {
    match event {
        Event::Agent(event) => moves.note(&event.agent, event.change),
        Event::Finding(finding) => {
            post(hub, Topic::Findings, "finding", finding.agent.as_str(), &found(finding)).await;
        }
        Event::Approval(event) => approval(hub, event).await,
        _ => {}
    }
}

fn found(FindingEvent { source, subject, status, before, .. }: &FindingEvent) -> String {
    let subject = redact::clean_text(subject);
    let by = match source {
        FindingSource::Health => "",
        FindingSource::Runbook => "runbook ",
    };
    let before = before.map(|before| format!(" (was {})", before.name())).unwrap_or_default();
    format!("{by}{subject} is {}{before}", status.name())
}

async fn approval(hub: &Wires, event: &ApprovalEvent) {
    let rooms = wanted(hub, Topic::Approvals);
    if rooms.is_empty() {
        return;
    }
    let ApprovalEvent { id, call_id, state, target, tool, caller, decided_by, .. } = event;
    let (tool, by) = (redact::clean_text(tool), decided_by.as_deref().unwrap_or("nobody"));
    let asker = caller.as_deref().unwrap_or("somebody");
    let url = format!("{}/approvals/{id}", hub.page_url());
    let text = match state {
        ApprovalState::Pending => {
            format!("asks for {tool} on {target}. Look at {url}, then /approve {id} or /deny {id}")
        }
        ApprovalState::Approved => format!("{tool} on {target}: {by} said yes"),
        ApprovalState::Denied => format!("{tool} on {target}: {by} said no"),
        ApprovalState::Expired => format!("{tool} on {target}: nobody answered in time"),
        ApprovalState::Used => return,
    };
    // Never the arguments: who may see those is not who is in the room.
    let card = json!({ "__convoke": "approval", "id": id, "call_id": call_id, "state": state.name(), "target": target,
        "tool": tool, "caller": caller, "decided_by": decided_by, "url": url });
    for room in rooms {
        say(hub, &room, "approval", asker, &text).await;
        show(hub, &room, &card).await;
    }
}

/// The rooms into which this is posted.
fn wanted(hub: &Wires, topic: Topic) -> Vec<Arc<LiveRoom>> {
    hub.rooms.list(None).into_iter().filter(|room| room.look(|room| room.charter().posts.contains(&topic))).collect()
}

async fn post(hub: &Wires, topic: Topic, rule: &str, sender: &str, text: &str) {
    for room in wanted(hub, topic) {
        say(hub, &room, rule, sender, text).await;
    }
}

async fn say(hub: &Wires, room: &LiveRoom, rule: &str, sender: &str, text: &str) {
    let at = now(hub);
    // Nobody there is nobody to tell.
    let (_, after) = room.with(at, |room| room.post(Post { text, rule, sender }, at));
    Box::pin(after.settle(hub, room)).await;
}

async fn show(hub: &Wires, room: &LiveRoom, card: &Value) {
    let Ok(card) = to_raw_value(card) else { return };
    let at = now(hub);
    let (_, after) = room.with(at, |room| room.show(&card, at));
    Box::pin(after.settle(hub, room)).await;
}

/// What operators asked the hub for, each in a task of its own. `operator` is whoever has the connection; without one it is
/// whose pass the participant came by.
pub(super) fn carry_out(hub: &Wires, room: &Arc<LiveRoom>, operator: Option<&Caller>, commands: Vec<Command>) {
    for command in commands {
        let caller = operator.cloned().or_else(|| super::adapter::asker(hub, room, &command.participant));
        let Some(caller) = caller else { continue };
        let (hub, room) = (hub.clone(), Arc::clone(room));
        hub.clone().tasks.spawn(async move {
            let done = match &command.what {
                Wish::Decide { id, approve, reason } => decide(&hub, &caller, id, *approve, reason.as_deref()).await,
                Wish::Call { id, agent, tool, args } => {
                    propose(&hub, &room, &caller, &command, id.as_deref(), (agent, tool, args)).await
                }
            };
            let at = now(&hub);
            let ((), after) = room.with(at, |room| match done {
                Ok(answer) => {
                    if let Ok(answer) = to_raw_value(&answer) {
                        room.answer_command(&command, &answer);
                    }
                }
                Err((reason, words)) => room.refuse_command(&command, &reason, &words),
            });
            after.settle(&hub, &room).await;
        });
    }
}

/// Why nothing came of what was asked for: a fixed word and a sentence.
type Refusal = (String, String);

fn refusal(code: &str, words: impl Into<String>) -> Refusal {
    (code.to_owned(), words.into())
}

/// A person's answer to a call that waits.
async fn decide(
    hub: &Wires,
    caller: &Caller,
    id: &str,
    approve: bool,
    reason: Option<&str>,
) -> Result<Value, Refusal> {
    let unknown = || refusal("unknown", "the approval does not exist");
    let parsed: ApprovalId = id.parse().map_err(|_| unknown())?;
    let store = |why: convoke_store::StoreError| refusal("unavailable", why.to_string());
    let (_, row) = hub.store.approval(parsed).await.map_err(store)?.ok_or_else(unknown)?;
    let adapter = hub.adapters.of(&row.target);
    let effect = adapter.target(hub, &row.target).map_or(Effect::Manage, |to| adapter.effect(hub, &to, &row.tool));
    if approve && effect == Effect::Manage {
        let words = format!("what changes a machine is approved on the page: {}/approvals/{id}", hub.page_url());
        return Err(refusal("page_only", words));
    }
    match calls::decide(hub, caller, parsed, approve, reason).await {
        Ok((state, call)) => Ok(json!({ "__convoke": "decided", "id": id, "state": state.name(), "call_id": call })),
        Err(DecideError::Unknown) => Err(unknown()),
        Err(DecideError::NoRight(missing) | DecideError::OutOfReach(missing)) => {
            convoke_doors::keeper::record_refusal(hub, caller, "an approval out of reach", None).await;
            Err(refusal("forbidden", missing.to_string()))
        }
        Err(DecideError::Refused(why @ ApprovalError::StepUp)) => {
            let words = format!("{why}: {}/approvals/{id}", hub.page_url());
            Err(refusal("step_up", words))
        }
        Err(DecideError::Refused(why)) => Err(refusal("refused", why.to_string())),
        Err(DecideError::Store(why)) => Err(store(why)),
    }
}

/// A call that somebody in the room asks for. Everybody sees that they did; who asked sees what became of it.
async fn propose(
    hub: &Wires,
    room: &Arc<LiveRoom>,
    caller: &Caller,
    command: &Command,
    id: Option<&str>,
    (agent, tool, args): (&str, &str, &str),
) -> Result<Value, Refusal> {
    let wrong = |why: convoke_doors::ApiError| refusal(why.code(), why.sentence());
    let agent = in_reach(hub, caller, agent).await.map_err(wrong)?;
    let args = RawValue::from_string(args.to_owned()).map_err(|_| refusal("bad_args", "`args` is no JSON"))?;
    let shown = hub.adapters.of(&agent.id).shown(&args);
    let target = agent.id.clone();
    let ask = Ask {
        caller: caller.clone(),
        agent,
        tool: tool.into(),
        args,
        timeout: None,
        idempotency_key: None,
        requested_by: None,
    };
    let placed = place(hub, ask).await.map_err(|why| refusal(why.code(), why.to_string()))?;
    let (call, approval) = match placed {
        Placed::Running(call) => (call, None),
        Placed::Pending { call, approval, .. } => (call, Some(approval)),
    };
    let card = |state: &str| {
        json!({ "__convoke": "call", "call_id": call.id, "state": state, "target": target, "tool": tool, "args": shown,
            "caller": caller.token.name, "participant": command.participant, "approval": approval })
    };
    show(hub, room, &card(if approval.is_some() { "waiting" } else { "running" })).await;
    if let Some(approval) = &approval
        && !room.look(|room| room.charter().posts.contains(&Topic::Approvals))
    {
        let text = format!("asks for {tool} on {target}: /approve {approval} or /deny {approval}");
        say(hub, room, "approval", &caller.token.name, &text).await;
    }
    let answer = outcome(&call, id).await;
    show(hub, room, &card(if answer["ok"] == true { "done" } else { "failed" })).await;
    Ok(answer)
}

async fn outcome(call: &Arc<Call>, id: Option<&str>) -> Value {
    let done = call.wait().await;
    let id = id.and_then(|id| serde_json::from_str::<Value>(id).ok());
    let mut answer = json!({ "__convoke": "called", "call_id": call.id, "id": id, "ok": done.is_ok() });
    if done.is_ok() {
        answer["result"] =
            done.result.as_ref().and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    } else {
        answer["error"] = json!({ "code": done.outcome, "message": done.message });
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_blinks_is_not_told_of() {
        let id = |text: &str| PeerId::parse(text).expect("an id");
        let mut moves = Moves::default();
        moves.note(&id("a"), AgentChange::Online);
        assert!(moves.due.is_none(), "nobody was told that it was away");
        for agent in ["a", "b"] {
            moves.note(&id(agent), AgentChange::Offline);
        }
        moves.note(&id("a"), AgentChange::Online);
        assert_eq!((named(&moves.gone, "went offline").as_str(), moves.back.len()), ("b went offline", 0));
        moves.gone.clear();
        moves.note(&id("b"), AgentChange::Online);
        assert_eq!(named(&moves.back, "came back"), "b came back");
        let many = (0..12).map(|n| id(&format!("pc-{n:02}"))).collect();
        assert!(named(&many, "went offline").ends_with("pc-09 and 2 more went offline"));
    }
}
