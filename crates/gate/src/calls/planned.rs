//! A call that the gate has read: everything that the decision, the records and the dispatch need.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use convoke_core::approval::Binding;
use convoke_core::call::CallState;
use convoke_core::confirm::Facts;
use convoke_core::door::Door;
use convoke_core::effect::Effect;
use convoke_core::gate::{self, Consent, Verdict};
use convoke_core::grant::Missing;
use convoke_core::guard::{Guard, Hit};
use convoke_core::id::{ApprovalId, CallId, GrantId};
use convoke_core::journal::{Decision, Draft, Kind, Phase};
use convoke_core::json;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use convoke_store::CallRow;
use serde_json::Value;
use serde_json::value::RawValue;

use super::adapter::{Adapter, Recipient};
use super::{Ask, Call, KEEP, PlaceError};
use crate::agents::Agent;
use crate::clock;
use crate::grants::Wanted;
use crate::hub::Hub;
use crate::operators::Token;
use crate::policy::InForce;

/// `requestedBy` in a probe request that no runbook made.
pub(super) const BY_CALLER: &str = "api";

/// One call on its way.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) call: Arc<Call>,
    pub(super) adapter: Arc<dyn Adapter>,
    pub(super) token: Arc<Token>,
    pub(super) door: Door,
    pub(super) agent: Arc<Agent>,
    pub(super) effect: Effect,
    /// As text: the parsed value takes many times as much, and is let go once it has been decided on.
    pub(super) args: Box<RawValue>,
    pub(super) args_shown: Box<RawValue>,
    pub(super) args_digest: String,
    pub(super) timeout: Duration,
    /// Kept in the store as well: it has an approval or an idempotency key.
    pub(super) kept: bool,
    pub(super) approval: Option<ApprovalId>,
    /// The time-boxed grant that stood in for a person's yes, once it was decided on.
    pub(super) granted: OnceLock<GrantId>,
    /// `api`, or the runbook that asks.
    pub(super) requested_by: Arc<str>,
}

impl Planned {
    /// Reads what a caller asks for. The arguments are parsed once; what is guarded, recorded and sent is written from
    /// that: with a key given twice, the guard and the agent could otherwise each read a different one.
    pub(super) fn read(hub: &Hub, ask: Ask) -> Result<(Self, Value, Option<String>), PlaceError> {
        let Ask { caller, agent, tool, args, timeout, idempotency_key, requested_by } = ask;
        let value: Value = serde_json::from_str(args.get())
            .map_err(|why| PlaceError::BadArgs(format!("cannot read `args` as JSON: {why}")))?;
        if !value.is_object() {
            return Err(PlaceError::BadArgs("`args` must be a JSON object".into()));
        }
        let args = serde_json::value::to_raw_value(&value).map_err(|why| PlaceError::BadArgs(why.to_string()))?;
        // The journal shows them within a record, and pages of records have to be read.
        if json::is_too_deep(args.get()) {
            return Err(PlaceError::BadArgs(format!("`args` may be nested at most {} levels deep", json::MAX_DEPTH)));
        }
        let adapter = hub.adapters.of(&agent.id);
        adapter.check(&agent, &tool).map_err(PlaceError::BadArgs)?;
        let timeout = hub.deadlines.of(timeout, value.get("timeout_s"), adapter.least_timeout(&tool));
        let effect = adapter.effect(hub, &agent, &tool);
        let call =
            Call::new(CallId::new(clock::dated_uuid()), caller.token.id, agent.id.clone(), tool, CallState::Running);
        let planned = Self {
            args_shown: adapter.shown(&args),
            args_digest: hub.digest(args.get().as_bytes()),
            call: Arc::new(call),
            adapter,
            token: caller.token,
            door: caller.door,
            agent,
            effect,
            args,
            timeout,
            kept: false,
            approval: None,
            granted: OnceLock::new(),
            requested_by: requested_by.unwrap_or_else(|| BY_CALLER.into()),
        };
        Ok((planned, value, idempotency_key))
    }

    /// Decides on it; `args` are its arguments. `tried` are rules to try in place of those in force.
    pub(super) async fn decide(
        &self,
        hub: &Hub,
        args: &Value,
        tried: Option<&Arc<InForce>>,
        consent: Consent,
    ) -> Verdict {
        let recipients = self.adapter.recipients(&self.agent, args);
        let files = self.adapter.contents(hub, &self.agent, &self.call.tool, args);
        let readable = || self.token.grant.check_contents(&files, &hub.settings.policy.viewer_paths);
        if let Err(missing) = self.check_right(&recipients).and_then(|()| readable()) {
            return Verdict::Denied(missing);
        }
        let surfaces = self.adapter.surfaces(&self.call.tool, args);
        let is_long = Guard::is_long(&surfaces);
        loop {
            let policy = tried.map_or_else(|| hub.policy.current(), Arc::clone);
            let hit = if is_long {
                let what = [self.agent.id.protocol().name(), &self.call.tool, &self.args_digest].join(" ");
                hub.policy.check_long(&policy, what, &surfaces).await
            } else {
                None
            };
            // Rules that came while the guard was at work hold for the call, too.
            if is_long && tried.is_none() && !Arc::ptr_eq(&policy, &hub.policy.current()) {
                continue;
            }
            let guard = || match self.adapter.restriction(hub, &self.agent, &self.call.tool, args) {
                Some(restricted) => Some(restricted),
                None if is_long => hit.clone(),
                None => policy.guard.check(&surfaces),
            };
            return self.strictest(hub, &policy, &recipients, guard, consent);
        }
    }

    /// Whom it goes to.
    pub(super) fn recipients(&self) -> Vec<Recipient> {
        let args = serde_json::from_str(self.args.get()).unwrap_or_default();
        self.adapter.recipients(&self.agent, &args)
    }

    fn check_right(&self, recipients: &[Recipient]) -> Result<(), Missing> {
        let check = |to: &Recipient| self.token.grant.check_call(self.effect, &self.call.tool, &to.id, &to.tags);
        recipients.iter().try_for_each(check)
    }

    /// The strictest verdict for any recipient.
    fn strictest(
        &self,
        hub: &Hub,
        policy: &InForce,
        recipients: &[Recipient],
        guard: impl Fn() -> Option<Hit>,
        consent: Consent,
    ) -> Verdict {
        if recipients.is_empty() {
            return Verdict::Denied(Missing::Scope("agents"));
        }
        let confirm = self.adapter.rules(&policy.confirm);
        let mut strictest = Verdict::Allowed;
        for to in recipients {
            let facts = Facts {
                tool: &self.call.tool,
                effect: self.effect,
                agent: &to.id,
                tags: &to.tags,
                caller: &self.token.name,
                door: self.door,
            };
            match gate::decide_with(&self.token.grant, &guard, &confirm, &facts, consent) {
                Verdict::Allowed => {}
                Verdict::Confirm { second_person, .. } if self.is_granted(hub, to, second_person) => {}
                asks @ Verdict::Confirm { second_person, .. } => match strictest {
                    Verdict::Confirm { second_person: already, .. } if already || !second_person => {}
                    _ => strictest = asks,
                },
                refused @ (Verdict::Denied(_) | Verdict::Blocked(_)) => return refused,
            }
        }
        strictest
    }

    /// Whether somebody said yes to this for a while.
    fn is_granted(&self, hub: &Hub, to: &Recipient, second_person: bool) -> bool {
        let (tool, effect) = (&*self.call.tool, self.effect);
        let wanted = Wanted { asker: &self.token, tool, effect, to, second_person };
        match hub.grants.covers(hub, &wanted) {
            Some(grant) => {
                let _ = self.granted.set(grant);
                true
            }
            None => false,
        }
    }

    pub(super) fn binding(&self) -> Binding {
        Binding {
            caller: self.token.id,
            target: self.agent.id.clone(),
            tool: self.call.tool.clone(),
            args_digest: self.args_digest.clone(),
        }
    }

    /// The call as the store keeps it.
    pub(super) fn row(&self, idempotency_key: Option<String>, state: CallState) -> CallRow {
        let now = clock::now();
        CallRow {
            id: self.call.id,
            caller: self.token.id,
            idempotency_key,
            target: self.agent.id.clone(),
            tool: self.call.tool.clone(),
            args_digest: self.args_digest.clone(),
            door: self.door,
            args: Some(SecretBytes::new(self.args.get().as_bytes())),
            timeout_ms: u64::try_from(self.timeout.as_millis()).ok(),
            requested_by: Some(self.requested_by.to_string()),
            state,
            outcome: None,
            created_at: now,
            keep_until: now.after(KEEP),
        }
    }

    /// A record of this call.
    pub(super) fn record(&self, at: Timestamp, phase: Phase) -> Draft {
        let mut draft = Draft::new(at, Kind::Call);
        draft.phase = Some(phase);
        draft.who = Some(self.token.name.clone());
        draft.door = Some(self.door);
        draft.target = Some(self.agent.id.as_str().into());
        draft.tool = Some(self.call.tool.clone());
        draft.call_id = Some(self.call.id);
        draft.args = Some(self.args_shown.clone());
        draft.args_digest = Some(self.args_digest.clone());
        let is_confirmed = self.approval.is_some() || self.granted.get().is_some();
        draft.decision = Some(if is_confirmed { Decision::Confirmed } else { Decision::Allowed });
        draft.rule = self.granted.get().map(|grant| format!("grant:{grant}"));
        draft.approval = self.approval;
        draft
    }
}

/// A record of a call that the store keeps.
pub(super) fn record_of_row(hub: &Hub, row: &CallRow, kind: Kind) -> Draft {
    let mut record = Draft::new(clock::now(), kind);
    record.who = hub.operators.find(row.caller).map(|token| token.name.clone());
    record.door = Some(row.door);
    record.target = Some(row.target.as_str().into());
    record.tool = Some(row.tool.clone());
    record.call_id = Some(row.id);
    record.args_digest = Some(row.args_digest.clone());
    record
}
