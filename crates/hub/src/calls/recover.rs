//! After a stop that was no stop: what waited waits again, what was approved runs, what was under way is told to have
//! been interrupted. Every intent gets its outcome.

use convoke_core::approval::ApprovalState;
use convoke_core::call::{CallState, code};
use convoke_core::journal::{Kind, Phase};

use super::{Done, approve};
use crate::clock;
use crate::hub::Hub;

/// Picks up what a hub before this one left behind.
pub async fn recover(hub: &Hub) -> Result<(), convoke_store::StoreError> {
    for mut intent in hub.store.open_intents().await? {
        intent.kind = Kind::Call;
        intent.at = clock::now();
        intent.phase = Some(Phase::Outcome);
        intent.outcome = Some(code::INTERRUPTED.into());
        let message = "the hub stopped before the agent answered; the agent may have finished".to_owned();
        let done = Done {
            outcome: code::INTERRUPTED.into(),
            result: None,
            message: Some(message),
            duration_ms: None,
            by_agent: false,
        };
        let text = serde_json::to_string(&done).unwrap_or_else(|_| "{}".into());
        match intent.call_id {
            Some(id) if hub.store.call(id).await?.is_some() => hub.store.finish_call(id, &text, intent).await?,
            _ => hub.store.append(intent).await.map(drop)?,
        }
    }
    for (approval, row) in hub.store.approvals(Some(ApprovalState::Pending), None, u32::MAX).await? {
        let call = hub.calls.revive(&row);
        call.set_approval(approval.id, approval.expires_at);
        hub.calls.wait_for(approval.id, row.id, approval.expires_at);
    }
    for (approval, row) in hub.store.approvals(Some(ApprovalState::Approved), None, u32::MAX).await? {
        let call = hub.calls.revive(&row);
        call.set_approval(approval.id, approval.expires_at);
        call.set_state(CallState::Running);
        approve::start(hub, approval, row, call);
    }
    Ok(())
}
