//! Time-boxed grants: a person's yes to one assistant, one tool and one machine for a while. It stands in for the person at
//! the gate's confirm step and nowhere else: rights and deny rules are looked at as ever. It ends with its time, and with the
//! right of whoever gave it or of whoever has it.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_core::event::{Event, PolicyEvent, RuleList};
use convoke_core::grant::Right;
use convoke_core::id::GrantId;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_store::{GrantRow, StoreError};
use serde_json::json;

use crate::calls::Recipient;
use crate::clock;
use crate::hub::Hub;
use crate::operators::Token;

/// Longest time of a grant.
pub const MAX_TIME: Duration = Duration::from_secs(8 * 3600);
/// Most grants at once.
pub const MAX_GRANTS: usize = 1_000;

/// The grants in force.
#[derive(Debug, Default)]
pub struct TimeBoxed {
    grants: RwLock<Vec<GrantRow>>,
    /// The turn of one who changes them.
    pub turn: tokio::sync::Mutex<()>,
}

/// What a call that waits for a person asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) asker: &'a Token,
    pub(crate) tool: &'a str,
    pub(crate) effect: Effect,
    pub(crate) to: &'a Recipient,
    pub(crate) second_person: bool,
}

impl TimeBoxed {
    /// Takes in what is stored.
    pub fn load(&self, rows: Vec<GrantRow>) {
        *self.grants.write().unwrap_or_else(PoisonError::into_inner) = rows;
    }

    /// One more is in force.
    pub fn put(&self, row: GrantRow) {
        self.grants.write().unwrap_or_else(PoisonError::into_inner).push(row);
    }

    /// All of them, oldest first.
    pub fn list(&self) -> Vec<GrantRow> {
        self.grants.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One is in force no more.
    fn take(&self, id: GrantId) -> Option<GrantRow> {
        let mut grants = self.grants.write().unwrap_or_else(PoisonError::into_inner);
        let at = grants.iter().position(|grant| grant.id == id)?;
        Some(grants.remove(at))
    }

    /// The grant that stands in for a person's yes to this, if there is one.
    pub(crate) fn covers(&self, hub: &Hub, wanted: &Wanted<'_>) -> Option<GrantId> {
        let grants = self.grants.read().unwrap_or_else(PoisonError::into_inner);
        if grants.is_empty() {
            return None;
        }
        let now = clock::now();
        let fits = |grant: &&GrantRow| {
            grant.assistant == wanted.asker.id
                && grant.tool == wanted.tool
                && grant.agent.as_str() == wanted.to.id
                && now < grant.expires_at
                && gives(hub, grant, wanted, now)
        };
        grants.iter().find(fits).map(|grant| grant.id)
    }
}

/// Whether whoever gave a grant could say yes to this now.
fn gives(hub: &Hub, grant: &GrantRow, wanted: &Wanted<'_>, now: Timestamp) -> bool {
    let Some(approver) = hub.operators.find(grant.approver).filter(|approver| approver.is_active(now)) else {
        return false;
    };
    let is_second = approver.person() != wanted.asker.person();
    approver.grant.check(Right::Approve).is_ok()
        && approver.grant.check_scopes(wanted.effect, wanted.tool).is_ok()
        && approver.grant.check_reach(&wanted.to.id, &wanted.to.tags).is_ok()
        && (is_second || !wanted.second_person)
}

/// Why a grant holds no more, if it does not.
fn over(hub: &Hub, grant: &GrantRow, now: Timestamp) -> Option<&'static str> {
    if now >= grant.expires_at {
        return Some("its time is over");
    }
    let Some(assistant) = hub.operators.find(grant.assistant) else { return Some("the assistant is gone") };
    if matches!(assistant.state(now), "revoked" | "expired") || !assistant.grant.is_for_assistant() {
        return Some("the assistant's token is no longer valid");
    }
    let Some(agent) = hub.agents.find(grant.agent.as_str()) else { return Some("the machine is gone") };
    let to = Recipient { id: grant.agent.to_string(), tags: std::sync::Arc::clone(&agent.state().tags) };
    // Of a machine that was enrolled again nobody said yes.
    if agent.state().enrolled_at.is_some_and(|at| at > grant.created_at) {
        return Some("the machine was enrolled again");
    }
    let effect = hub.adapters.of(&agent.id).effect(hub, &agent, &grant.tool);
    let wanted = Wanted { asker: &assistant, tool: &grant.tool, effect, to: &to, second_person: false };
    (!gives(hub, grant, &wanted, now)).then_some("whoever gave it may no longer approve this")
}

/// Ends the grants that hold no more, and records why.
pub async fn end_those_over(hub: &Hub) {
    let now = clock::now();
    for grant in hub.grants.list() {
        let Some(why) = over(hub, &grant, now) else { continue };
        if let Err(why) = end(hub, grant.id, "hub", None, why).await {
            tracing::error!(grant = %grant.id, %why, "cannot record the end of a time-boxed grant");
        }
    }
}

/// Ends a grant: in force at once, then kept. False when there is none.
pub async fn end(
    hub: &Hub,
    id: GrantId,
    who: &str,
    door: Option<convoke_core::door::Door>,
    why: &str,
) -> Result<bool, StoreError> {
    let _turn = hub.grants.turn.lock().await;
    let Some(grant) = hub.grants.take(id) else { return Ok(false) };
    let mut record = record(&grant, "grant ended");
    record = record.detail(&json!({ "what": "grant ended", "grant": id, "why": why }));
    record.who = Some(who.to_owned());
    record.door = door;
    hub.events.publish(Event::Policy(PolicyEvent { list: RuleList::Grant, rule: id.to_string(), removed: true }));
    hub.store.end_grant(id, record).await?;
    Ok(true)
}

/// A record about a grant.
pub fn record(grant: &GrantRow, what: &str) -> Draft {
    let detail = json!({
        "what": what, "grant": grant.id, "assistant": grant.assistant, "expires_at": grant.expires_at,
    });
    let mut record = Draft::new(clock::now(), Kind::Policy).detail(&detail);
    record.target = Some(grant.agent.as_str().into());
    record.tool = Some(grant.tool.clone());
    record.decision = Some(Decision::Allowed);
    record
}
