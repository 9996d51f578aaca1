//! Rules whose messages go to an address: posted in order, signed, tried again until they are taken or expire.

use std::sync::PoisonError;
use std::time::Duration;

use convoke_store::OutboxRow;
use serde_json::json;

use super::notify::post_signed;
use super::outbox;
use super::rules::Action;
use crate::Wires;
use convoke_gate::clock;

/// The first pause before another try, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Messages read at once.
const BATCH: u32 = 16;

/// Where a rule's messages wait. No client has a colon in its identifier.
pub(super) fn destination(rule: &str) -> String {
    format!("webhook:{rule}")
}

/// Something waits for a rule's webhook: a task works on it, one per rule.
pub(super) fn wake(hub: &Wires, rule: &str) {
    let fresh = hub.yonexus.outbox.busy.lock().unwrap_or_else(PoisonError::into_inner).insert(rule.to_owned());
    if !fresh {
        return;
    }
    let (hub, rule, stopping) = (hub.clone(), rule.to_owned(), hub.stopping.clone());
    tokio::spawn(async move {
        loop {
            tokio::select! {
                () = work(&hub, &rule) => {}
                () = stopping.cancelled() => return,
            }
            hub.yonexus.outbox.busy.lock().unwrap_or_else(PoisonError::into_inner).remove(&rule);
            // A message may have come between the last look and the removal; whoever sees it first goes on.
            let waiting = hub.yonexus.outbox.waiting(&destination(&rule)) > 0 && is_webhook(&hub, &rule);
            let mut busy = hub.yonexus.outbox.busy.lock().unwrap_or_else(PoisonError::into_inner);
            if !waiting || !busy.insert(rule.clone()) {
                return;
            }
        }
    });
}

/// Goes on with what a stop interrupted.
pub(super) fn resume(hub: &Wires) {
    let book = hub.yonexus.rules.current();
    for rule in book.webhooks().filter(|rule| hub.yonexus.outbox.waiting(&destination(rule)) > 0) {
        wake(hub, rule);
    }
}

fn is_webhook(hub: &Wires, rule: &str) -> bool {
    matches!(hub.yonexus.rules.current().find(rule), Some(Action::Webhook { .. }))
}

/// Posts what waits until nothing does, or the rule is gone.
async fn work(hub: &Wires, rule: &str) {
    let to = destination(rule);
    let mut pause = PAUSES.0;
    loop {
        let rows = match hub.store.outbox(&to, 0, BATCH, clock::now()).await {
            Ok(rows) => rows,
            Err(why) => {
                tracing::error!(rule, %why, "cannot read the outbox");
                Vec::new()
            }
        };
        if rows.is_empty() {
            // What has expired stays counted until it is removed; waiting for that here would spin.
            tokio::time::sleep(PAUSES.0).await;
            return;
        }
        for row in rows {
            match post(hub, rule, &row).await {
                None => return,
                Some(Ok(())) => {
                    pause = PAUSES.0;
                    if let Err(why) = outbox::done(hub, &to, &row).await {
                        tracing::error!(rule, %why, "cannot store a webhook delivery; it will be repeated");
                        tokio::time::sleep(pause).await;
                        break;
                    }
                }
                Some(Err(not)) => {
                    tracing::warn!(rule, why = not.why, "a webhook rejected a message; trying again");
                    tokio::time::sleep(not.after.unwrap_or(pause)).await;
                    pause = (pause * 2).min(PAUSES.1);
                    break;
                }
            }
        }
    }
}

/// One call, to where the rule points now. `None` when it points nowhere any more.
async fn post(hub: &Wires, rule: &str, row: &OutboxRow) -> Option<Result<(), super::notify::NotifyError>> {
    let book = hub.yonexus.rules.current();
    let Some(Action::Webhook { url, secret, .. }) = book.find(rule) else { return None };
    let body = json!({
        "id": row.id,
        "rule": row.rule,
        "sender": row.sender,
        "content": row.content,
        "at": row.created_at,
    });
    Some(post_signed(hub.yonexus.http(), url, secret.as_ref(), &body.to_string()).await)
}
