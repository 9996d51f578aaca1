//! What operators decide about pairings and trust, and what the clock does with them.

use std::sync::Arc;

use convoke_core::door::Door;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_core::peer::Trust;
use convoke_core::secret::SecretText;
use convoke_store::StoreError;
use convoke_yonexus::reason::PairFailure;
use convoke_yonexus::record::{Notification, Rotation};
use convoke_yonexus::{answer, close};
use ed25519_dalek::VerifyingKey;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::clients::{Client, Keep};
use super::link::Out;
use super::{notify, now};
use crate::Wires;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// SHA-256 of a key, for comparing by eye.
pub fn fingerprint(key: &VerifyingKey) -> String {
    hex::encode(Sha256::digest(key.as_bytes()))
}

/// A new secret: 32 random bytes.
pub(super) fn fresh_secret() -> SecretText {
    clock::token("")
}

/// A record about a client, by an operator.
fn by(caller: &Caller, kind: Kind, client: &Client, what: &str, decision: Decision) -> Draft {
    let mut draft = Draft::new(clock::now(), kind).detail(&json!({ "what": what }));
    draft.who = Some(caller.token.name.clone());
    draft.door = Some(caller.door);
    draft.target = Some(client.peer());
    draft.decision = Some(decision);
    draft
}

/// A record about a client, by itself or by the hub.
pub(super) fn record(
    client: &Client,
    kind: Kind,
    detail: &serde_json::Value,
    outcome: Option<&'static str>,
) -> Draft {
    let mut draft = Draft::new(clock::now(), kind).detail(detail);
    draft.who = Some(format!("client:{}", client.identifier));
    draft.door = Some(Door::Wire);
    draft.target = Some(client.peer());
    draft.outcome = outcome.map(Into::into);
    draft
}

/// Puts a client on the allow-list; a revoked one may pair again. `None` when there are as many as there may be.
pub async fn allow(hub: &Wires, caller: &Caller, identifier: &str) -> Result<Option<Arc<Client>>, StoreError> {
    let most = hub.settings.yonexus.max_clients;
    let clients = &hub.yonexus.clients;
    loop {
        let Some(client) = clients.find_or_add(identifier, most) else { return Ok(None) };
        let draft = by(caller, Kind::Trust, &client, "allowed", Decision::Allowed);
        let changed = clients.change(hub, &client, |change| {
            let news = change.record.readmit() | !std::mem::replace(&mut change.listed, true);
            ((), if news { Keep::Yes(Some(draft)) } else { Keep::No })
        });
        let stored = changed.await;
        if stored.is_err() {
            clients.forget_unless_allowed(&client);
        }
        stored?;
        // It may have been removed while this waited for its turn; then it is a new one that is allowed.
        if !client.is_gone() {
            return Ok(Some(client));
        }
    }
}

/// Takes a client off the allow-list with everything that is known of it. `None` when the settings list it.
pub async fn remove(hub: &Wires, caller: &Caller, client: &Arc<Client>) -> Result<Option<Stored>, StoreError> {
    if client.state().configured {
        return Ok(None);
    }
    let draft = by(caller, Kind::Trust, client, "removed", Decision::Allowed);
    let removed = hub.yonexus.clients.remove(hub, client, draft).await;
    // Whether that is kept or not: its trust is gone.
    end_links(hub, client, "removed");
    let stored = removed?;
    super::events::client(hub, client, true);
    hub.yonexus.outbox.forget(&client.identifier);
    Ok(Some(stored))
}

/// Withdraws a client's trust: its key and secret are refused from now on, its link is closed at once.
pub async fn revoke(hub: &Wires, caller: &Caller, client: &Arc<Client>) -> Result<Stored, StoreError> {
    let draft = by(caller, Kind::Trust, client, "revoked", Decision::Allowed);
    let revoked = hub.yonexus.clients.change(hub, client, |change| {
        change.record.revoke();
        ((), Keep::Always(Some(draft)))
    });
    let stored = revoked.await;
    end_links(hub, client, "revoked");
    Stored::of(stored)
}

fn end_links(hub: &Wires, client: &Arc<Client>, why: &str) {
    let notice = answer::disconnect_notice(&client.identifier, why, now(hub)).encode();
    hub.yonexus.clients.close_link(client, vec![notice], close::REVOKED);
    super::live::tell_watchers(hub, &client.identifier, convoke_yonexus::reason::Status::Offline, Some(why));
}

/// Lets a client bind another key with its next proof: this one, or any if none is named. False when it is not paired.
pub async fn allow_rotation(
    hub: &Wires,
    caller: &Caller,
    client: &Arc<Client>,
    key: Option<VerifyingKey>,
) -> Result<bool, StoreError> {
    let what = json!({ "what": "key rotation allowed", "fingerprint": key.as_ref().map(fingerprint) });
    let draft = by(caller, Kind::Trust, client, "key rotation allowed", Decision::Allowed).detail(&what);
    let until = clock::now().after(std::time::Duration::from_secs(3600));
    let allowed = hub.yonexus.clients.change(hub, client, |change| {
        // It may have been revoked while this waited for its turn.
        if change.record.trust != Trust::Trusted {
            return (false, Keep::No);
        }
        change.record.rotation = Some(Rotation { until, key });
        (true, Keep::Yes(Some(draft)))
    });
    allowed.await
}

/// An operator says yes or no to a pairing. False when there is none.
pub async fn decide(hub: &Wires, caller: &Caller, client: &Arc<Client>, yes: bool) -> Result<bool, StoreError> {
    if yes { approve(hub, caller, client).await } else { deny(hub, caller, client).await }
}

async fn approve(hub: &Wires, caller: &Caller, client: &Arc<Client>) -> Result<bool, StoreError> {
    let at = now(hub);
    let mut draft = by(caller, Kind::Pairing, client, "approved", Decision::Confirmed);
    let approved = hub.yonexus.clients.change(hub, client, |change| {
        if !change.record.approve(at) {
            return (None, Keep::No);
        }
        let key = change.record.pairing.as_ref().map(|pairing| pairing.key);
        if let Some(key) = &key {
            draft = draft.detail(&json!({ "what": "approved", "fingerprint": fingerprint(key) }));
        }
        // A client that waits gets its secret at once; one that is away when it comes back.
        let link = change.pairing.link.clone().filter(|link| !link.queue.has_ended());
        let done = match (&link, key) {
            (Some(_), Some(key)) => change.record.complete(&key, fresh_secret(), at),
            _ => false,
        };
        let success = if done { answer::pair_success(&change.record, None, at) } else { None };
        (Some((link, success)), Keep::Yes(Some(draft)))
    });
    let Some((link, success)) = approved.await? else { return Ok(false) };
    if let (Some(link), Some(success)) = (link, success) {
        let _ = link.push(Out::Paired(success.encode()));
    }
    Ok(true)
}

async fn deny(hub: &Wires, caller: &Caller, client: &Arc<Client>) -> Result<bool, StoreError> {
    let (at, pause) = (now(hub), hub.settings.yonexus.pairing_ttl_s);
    let draft = by(caller, Kind::Pairing, client, "denied", Decision::Rejected);
    let denied = hub.yonexus.clients.change(hub, client, |change| {
        let link = change.pairing.link.clone();
        if change.record.deny(at, pause) { (Some(link), Keep::Always(Some(draft))) } else { (None, Keep::No) }
    });
    let denied = match denied.await {
        // In force, and stored when there is space. Whoever waits learns of it by its own time.
        Err(StoreError::Owed) => return Ok(true),
        denied => denied?,
    };
    let Some(link) = denied else { return Ok(false) };
    if let Some(link) = link {
        let failed = answer::pair_failed(&client.identifier, PairFailure::IdentifierNotAllowed, None, at);
        let _ = link.push(Out::Close(vec![failed.encode()], close::REJECTED));
    }
    Ok(true)
}

/// Another hub changed a client: a connection that waits here for its pairing is told, and one that is trusted no more is closed.
pub(crate) async fn follow(hub: &Wires, identifier: &str) -> Result<(), StoreError> {
    let row = hub.store.client(identifier).await?;
    let (client, over) = hub.yonexus.clients.follow(identifier, row).await;
    let Some(client) = client else { return Ok(()) };
    let at = now(hub);
    if let Some(link) = over {
        let failed = answer::pair_failed(&client.identifier, PairFailure::IdentifierNotAllowed, None, at);
        let _ = link.push(Out::Close(vec![failed.encode()], close::REJECTED));
    }
    let is_trusted = {
        let state = client.state();
        state.record.trust == Trust::Trusted && state.is_allowed()
    };
    if !is_trusted {
        let notice = answer::disconnect_notice(&client.identifier, "revoked", at).encode();
        hub.yonexus.clients.close_link(&client, vec![notice], close::REVOKED);
    }
    complete(hub, &client).await
}

/// Gives a client that waits here its secret, where somebody has said yes at another hub.
async fn complete(hub: &Wires, client: &Arc<Client>) -> Result<(), StoreError> {
    let at = now(hub);
    let draft = record(client, Kind::Pairing, &json!({ "what": "paired", "how": "approved" }), Some("ok"));
    let completed = hub.yonexus.clients.change(hub, client, |change| {
        let approved = change.record.pairing.as_ref().filter(|pairing| pairing.approved).map(|pairing| pairing.key);
        let link = change.pairing.link.clone().filter(|link| !link.queue.has_ended());
        let (Some(key), Some(link)) = (approved, link) else { return (None, Keep::No) };
        if !change.record.complete(&key, fresh_secret(), at) {
            return (None, Keep::No);
        }
        (answer::pair_success(&change.record, None, at).map(|told| (link, told)), Keep::Yes(Some(draft)))
    });
    if let Some((link, success)) = completed.await? {
        let _ = link.push(Out::Paired(success.encode()));
    }
    Ok(())
}

/// Ends pairings whose time is over, and tells those who wait.
pub(super) async fn expire_due(hub: &Wires) {
    let at = now(hub);
    for client in hub.yonexus.clients.pairings() {
        let due = client.state().record.pairing.as_ref().is_some_and(|p| at.wall >= p.expires_at);
        if due {
            expire(hub, &client).await;
        }
    }
}

async fn expire(hub: &Wires, client: &Arc<Client>) {
    let at = now(hub);
    let draft = record(client, Kind::Pairing, &json!({ "what": "expired" }), Some("expired"));
    let expired = hub.yonexus.clients.change(hub, client, |change| {
        let link = change.pairing.link.clone();
        if change.record.expire(at) { (Some(link), Keep::Always(Some(draft))) } else { (None, Keep::No) }
    });
    match expired.await {
        Ok(Some(Some(link))) => {
            let failed = answer::pair_failed(&client.identifier, PairFailure::Expired, None, at);
            let _ = link.push(Out::Text(failed.encode()));
        }
        Ok(_) => {}
        Err(why) => tracing::error!(client = %client.identifier, %why, "cannot store that a pairing expired"),
    }
}

/// The administrator was told, or was not: the client hears of it.
pub(super) async fn notified(hub: &Wires, client: &Arc<Client>, code: &str, outcome: Notification, words: String) {
    let at = now(hub);
    let detail = json!({ "what": "notification", "notification": outcome.name(), "notified": words });
    let mut draft = record(client, Kind::Pairing, &detail, Some(outcome.name()));
    draft.who = Some("hub".into());
    let told = hub.yonexus.clients.change(hub, client, |change| {
        // Another pairing may have begun meanwhile.
        let Some(pairing) = change.record.pairing.as_mut().filter(|p| p.code.reveal() == code) else {
            return (None, Keep::No);
        };
        let news = pairing.notification != outcome || change.pairing.notified != words;
        pairing.notification = outcome;
        change.pairing.notified = words;
        let request = answer::pair_request(&change.record, None, at);
        let link = change.pairing.link.clone();
        (news.then_some((link, request)), if news { Keep::Yes(Some(draft)) } else { Keep::No })
    });
    match told.await {
        Ok(Some((Some(link), Some(request)))) => drop(link.push(Out::Text(request.encode()))),
        Ok(_) => {}
        Err(why) => tracing::error!(client = %client.identifier, %why, "cannot store a notification's outcome"),
    }
}

/// Goes on with notifications that a stop interrupted.
pub(super) fn resume(hub: &Wires) {
    for client in hub.yonexus.clients.pairings() {
        let open = client.state().record.pairing.as_ref().is_some_and(|p| p.notification != Notification::Sent);
        if open {
            notify::begin(hub, &client);
        }
    }
}
