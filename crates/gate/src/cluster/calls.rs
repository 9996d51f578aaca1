//! Calls that wait or run at another hub: it says when one has moved, and what became of it is read from the database.

use std::sync::Arc;

use convoke_bus::Subject;
use convoke_core::call::CallState;
use convoke_core::id::CallId;
use convoke_store::StoreError;

use crate::calls::Call;
use crate::hub::Hub;

fn subject() -> Subject {
    Subject::parse("convoke.calls").expect("a subject takes words with a dot between them")
}

/// A call that the store keeps has moved here.
pub fn tell(hub: &Hub, id: CallId) {
    let Some(cluster) = hub.cluster.clone() else { return };
    hub.tasks.spawn(async move { cluster.publish(&subject(), id.uuid().as_bytes()).await });
}

/// Hears of calls that moved at other hubs, for as long as this one runs.
pub(crate) async fn run(hub: Hub) {
    let Some(cluster) = hub.cluster.clone() else { return };
    let subject = subject();
    let mut moved = loop {
        match cluster.bus.subscribe(&subject).await {
            Ok(subscription) => break subscription,
            Err(why) => tracing::warn!(%why, "cannot subscribe to calls of other hubs; trying again"),
        }
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    };
    loop {
        let message = tokio::select! {
            message = moved.next() => message,
            () = hub.stopping.cancelled() => return,
        };
        let Some(message) = message else { return };
        let Some((from, body)) = cluster.open(&subject, &message.body) else { continue };
        let Ok(id) = uuid::Uuid::from_slice(&body) else { continue };
        if from != hub.store.hub_id()
            && let Some(call) = hub.calls.find(CallId::new(id))
            && let Err(why) = read(&hub, &call).await
        {
            tracing::warn!(call = %call.id, %why, "cannot read what became of a call at another hub");
        }
    }
}

/// Looks after all calls that wait or run elsewhere: a word of one may have been missed.
pub(crate) async fn look(hub: &Hub) -> Result<(), StoreError> {
    for call in hub.calls.elsewhere() {
        read(hub, &call).await?;
    }
    Ok(())
}

async fn read(hub: &Hub, call: &Arc<Call>) -> Result<(), StoreError> {
    if call.done().is_some() {
        return Ok(());
    }
    let Some(row) = hub.store.call(call.id).await? else { return Ok(()) };
    if row.state == CallState::Waiting {
        return Ok(());
    }
    if let Some((approval, _)) = call.approval() {
        hub.calls.no_longer_waits(approval);
    }
    if row.state == CallState::Running && call.state() == CallState::Waiting {
        call.set_elsewhere();
        call.set_state(CallState::Running);
    }
    if row.state == CallState::Done {
        hub.calls.revive(&row);
    }
    Ok(())
}
