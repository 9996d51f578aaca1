//! After a stop that was no stop: what waited waits again, what was approved runs, what was under way is told to have
//! been interrupted. Every intent gets its outcome.

use std::sync::Arc;

use convoke_core::approval::{Approval, ApprovalState};
use convoke_core::call::{CallState, code};
use convoke_core::effect::Effect;
use convoke_core::event;
use convoke_core::id::HubId;
use convoke_core::journal::{Draft, Kind, Phase};
use convoke_store::{CallRow, StoreError};
use serde_json::json;

use super::planned::record_of_row;
use super::{Call, Done, approve};
use crate::clock;
use crate::hub::Hub;

/// What became of a call when the hub stopped.
pub const INTERRUPTED: &str = "the hub stopped before the agent answered; the agent may have finished";

/// What became of one that was not sent.
const NOT_SENT: &str = "the hub stopped before the call was sent";
/// The message of a call that waited in a store which went back to an earlier time.
const RESTORED: &str = "the hub started from older data (a restored backup or an accepted damaged log), and the call may \
                        have run since; place it again if it has not";
/// The message of a call whose end was lost.
const UNRECORDED: &str = "the outcome could not be recorded; the agent may have finished";

/// Picks up what a hub before this one left behind.
pub async fn recover(hub: &Hub) -> Result<(), StoreError> {
    // What waited in a backup, or before what a damaged log has lost, may have run since, and nobody here can know.
    let restored = hub.store.is_restored().await?;
    end_left(hub, hub.store.hub_id(), restored, None).await?;
    if restored {
        let ended = approve::end_open(hub, RESTORED).await?;
        let started =
            Draft::new(clock::now(), Kind::Hub).detail(&json!({ "what": "started from data of an earlier time" }));
        hub.store.settle_restored(started).await?;
        tracing::warn!(ended, "the hub started from older data; ended the calls that waited in it");
    }
    wait_for_pending(hub).await?;
    start_approved(hub).await
}

/// What waits for a person goes on waiting.
async fn wait_for_pending(hub: &Hub) -> Result<(), StoreError> {
    for (approval, row) in all(hub, ApprovalState::Pending).await? {
        let call = hub.calls.revive(&row);
        call.set_approval(approval.id, approval.expires_at);
        hub.calls.wait_for(approval.id, row.caller, approval.expires_at);
    }
    Ok(())
}

/// Ends what another hub left behind that is taken for gone. Only one hub does: in its turn.
pub async fn end_open_of(hub: &Hub, of: HubId, name: &str) -> Result<(), StoreError> {
    end_left(hub, of, false, Some(name)).await?;
    wait_for_pending(hub).await?;
    start_approved(hub).await
}

/// Ends what a hub left open; it is named where it is another.
async fn end_left(hub: &Hub, of: HubId, restored: bool, name: Option<&str>) -> Result<(), StoreError> {
    let text = outcome_text(code::INTERRUPTED, INTERRUPTED);
    for mut intent in hub.store.open_intents_of(of).await? {
        intent.kind = Kind::Call;
        intent.at = clock::now();
        intent.phase = Some(Phase::Outcome);
        intent.outcome = Some(code::INTERRUPTED.into());
        if let Some(name) = name {
            intent = intent.detail(&json!({ "what": "ended for a hub that is taken for gone", "hub": name }));
        }
        match intent.call_id {
            Some(id) if hub.store.call(id).await?.is_some() => hub.store.finish_call(id, &text, intent).await?,
            _ => hub.store.append(intent).await.map(drop)?,
        }
    }
    // What was approved has no intent until it is sent, and without approval what only looks has none at all.
    for row in hub.store.stranded_calls_of(of).await? {
        if restored {
            end(hub, &row, code::INTERRUPTED, RESTORED).await?;
            continue;
        }
        // What a person has said yes to can still be done.
        if hub.store.unuse_approval(row.id, approve::given_back(hub, &row)).await? {
            continue;
        }
        let looks = approve::effect_of(hub, &row) == Effect::Observe;
        end(hub, &row, code::INTERRUPTED, if looks { INTERRUPTED } else { NOT_SENT }).await?;
    }
    Ok(())
}

/// Runs the calls that are approved and were not sent, once their machines are there. Where several hubs do, the approval is
/// used once.
async fn start_approved(hub: &Hub) -> Result<(), StoreError> {
    for (approval, _) in all(hub, ApprovalState::Approved).await? {
        // With its arguments, which it runs with.
        let Some((approval, row)) = hub.store.approval(approval.id).await? else { continue };
        if hub.calls.find(row.id).is_some_and(|call| call.state() == CallState::Running) {
            continue;
        }
        let call = hub.calls.revive(&row);
        call.set_approval(approval.id, approval.expires_at);
        call.set_state(CallState::Running);
        start_when_there(hub, approval, row, call);
    }
    Ok(())
}

/// A call that the store has, as it stands. What runs or waits is known here, so one that has no end and is not known is
/// one whose outcome could not be recorded: nobody will end it, and who waited for it would wait for ever.
pub async fn of_row(hub: &Hub, row: CallRow) -> Result<Arc<Call>, StoreError> {
    if let Some(call) = hub.calls.find(row.id) {
        return Ok(call);
    }
    if row.state == CallState::Done {
        return Ok(hub.calls.revive(&row));
    }
    let is_stranded = hub.store.stranded_calls().await?.iter().any(|stranded| stranded.id == row.id);
    let ended = if is_stranded { end(hub, &row, code::INTERNAL, UNRECORDED).await } else { Ok(()) };
    // It may have ended a moment before, by itself or because another asked for it.
    let row = hub.store.call(row.id).await?.unwrap_or(row);
    if row.state != CallState::Done {
        ended?;
    }
    let call = hub.calls.revive(&row);
    if hub.cluster.is_some() && row.state != CallState::Done {
        // It waits or runs at another hub, which says how it ends.
        call.set_elsewhere();
        if let Some(approval) = hub.store.approval_of(row.id).await? {
            call.set_approval(approval.id, approval.expires_at);
        }
    }
    Ok(call)
}

/// Ends a kept call that nobody runs.
async fn end(hub: &Hub, row: &CallRow, code: &'static str, message: &str) -> Result<(), StoreError> {
    let mut record = record_of_row(hub, row, Kind::Call);
    record.phase = Some(Phase::Outcome);
    record.outcome = Some(code.into());
    hub.store.finish_call(row.id, &outcome_text(code, message), record).await
}

/// The end of a call as the store keeps it.
fn outcome_text(code: &'static str, message: &str) -> String {
    Done { message: Some(message.to_owned()), ..Done::new(code) }.to_json()
}

/// Nobody is connected yet to a hub that starts: an approved call waits for its machine, as long as its approval holds.
fn start_when_there(hub: &Hub, approval: Approval, row: CallRow, call: Arc<Call>) {
    let mut news = hub.events.subscribe();
    let task_hub = hub.clone();
    hub.tasks.spawn(async move {
        let hub = task_hub;
        let lapses = approval.expires_at.since(clock::now());
        let adapter = hub.adapters.of(&row.target);
        // A call whose agent is gone ends at once.
        let is_there = || {
            adapter
                .target(&hub, &row.target)
                .is_none_or(|target| adapter.check_online(&hub, &target, &row.tool).is_ok())
        };
        let coming = async {
            while !is_there() {
                // Whatever became of an agent or client, and also if some events were missed.
                while news
                    .next(&hub.events)
                    .await
                    .is_ok_and(|heard| !matches!(heard.event.kind(), event::Kind::Agent | event::Kind::Client))
                {
                }
            }
        };
        tokio::select! {
            () = coming => {}
            () = tokio::time::sleep(lapses) => {}
            // The next start picks it up.
            () = hub.stopping.cancelled() => return,
        }
        approve::start(&hub, approval, row, call);
    });
}

/// All approvals in a state, with their calls but without the arguments of those: there may be many, and all of the latter
/// together would be too large. The store gives a page at a time, however many are asked for.
pub(super) async fn all(hub: &Hub, state: ApprovalState) -> Result<Vec<(Approval, CallRow)>, StoreError> {
    let mut found: Vec<(Approval, CallRow)> = Vec::new();
    loop {
        let last = found.last().map(|(approval, _)| approval.id);
        let page = hub.store.approvals_without_args(state, last, u32::MAX).await?;
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page);
    }
}
