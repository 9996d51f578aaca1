//! Yonexus clients and pairings over HTTP.

use std::sync::Arc;

use axum::extract::State;
use convoke_api::inbox::Waiting;
use convoke_api::yonexus::{
    AllowClient, ClientList, ClientQuery, ClientView, DecidePairing, PairingList, PairingView, RotateKey,
};
use convoke_core::grant::Right;
use convoke_core::peer::{Liveness, Trust};
use convoke_yonexus::record::trust_name;
use serde_json::json;

use crate::Wires;
use crate::yonexus::clients::{Client, check_identifier};
use crate::yonexus::pairing::{self, fingerprint};
use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, MaybeJson, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_doors::page::Page;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

fn reaches(caller: &Caller, identifier: &str) -> bool {
    caller.token.grant.scopes.reaches::<String>(&format!("yonexus:{identifier}"), &[])
}

/// The client, if there is one and it is within the caller's reach.
async fn in_reach(hub: &Wires, caller: &Caller, identifier: &str) -> Result<Arc<Client>, ApiError> {
    check_reach(hub, caller, identifier).await?;
    hub.yonexus.clients.find(identifier).ok_or_else(|| no_client(identifier))
}

async fn check_reach(hub: &Wires, caller: &Caller, identifier: &str) -> Result<(), ApiError> {
    let peer = format!("yonexus:{identifier}");
    if let Err(missing) = caller.token.grant.check_reach::<String>(&peer, &[]) {
        let target = check_identifier(identifier).is_ok().then_some(peer.as_str());
        record_refusal(hub, caller, "a client out of reach", target).await;
        return Err(ApiError::forbidden(&missing));
    }
    Ok(())
}

fn no_client(identifier: &str) -> ApiError {
    ApiError::not_found(format!("client `{}` does not exist", convoke_doors::error::clip(identifier)))
        .hint("`convoke clients list` shows all clients; `convoke clients allow ID` lets a new one pair")
}

fn view(hub: &Wires, client: &Client) -> ClientView {
    let state = client.state();
    let rotation = state.record.rotation.filter(|rotation| rotation.until > clock::now());
    ClientView {
        identifier: client.identifier.to_string(),
        id: client.peer(),
        trust: state.record.trust,
        state: trust_name(state.record.trust).into(),
        liveness: state.liveness(),
        allowed: state.is_allowed() && state.record.trust != Trust::Revoked,
        from_settings: state.configured,
        key_fingerprint: state.record.key.as_ref().map(fingerprint),
        address: state.address.map(|a| a.to_string()),
        connected_at: state.connected_at,
        paired_at: state.record.paired_at,
        last_auth: state.last_auth,
        last_seen: state.last_seen,
        reset: state.record.reset.map(|reason| reason.name().into()),
        rotation_until: rotation.map(|rotation| rotation.until),
        rotation_fingerprint: rotation.and_then(|rotation| rotation.key).as_ref().map(fingerprint),
        waiting: hub.yonexus.outbox.waiting(&client.identifier),
    }
}

#[utoipa::path(get, path = "/api/yonexus/clients", params(ClientQuery), responses((status = 200, body = ClientList)), tag = "yonexus")]
/// List the clients with trust and liveness.
pub async fn clients(
    State(hub): State<Wires>,
    By(caller): By,
    QueryOf(query): QueryOf<ClientQuery>,
) -> Result<Json<ClientList>, ApiError> {
    let limit = limit(query.limit)? as usize;
    let (mut clients, mut next) = (Page::<ClientView>::new(limit), None);
    for client in hub.yonexus.clients.list(query.after.as_deref()) {
        let online = client.state().liveness() != Liveness::Offline;
        if !reaches(&caller, &client.identifier) || query.online.is_some_and(|wanted| wanted != online) {
            continue;
        }
        if clients.is_full() {
            next = clients.last().map(|last| last.identifier.clone());
            break;
        }
        clients.push(view(&hub, &client));
    }
    Ok(Json(ClientList { clients: clients.into_items(), next }))
}

#[utoipa::path(post, path = "/api/yonexus/clients", request_body = AllowClient, responses((status = 200, body = ClientView), (status = 409)), tag = "yonexus")]
/// Put a client on the allow-list; a revoked one may pair again.
pub async fn allow(
    State(hub): State<Wires>,
    By(caller): By,
    Json(body): Json<AllowClient>,
) -> Result<Json<ClientView>, ApiError> {
    check_identifier(&body.identifier).map_err(|why| ApiError::bad_request(format!("`identifier`: {why}")))?;
    check_reach(&hub, &caller, &body.identifier).await?;
    match pairing::allow(&hub, &caller, &body.identifier).await? {
        Some(client) => Ok(Json(view(&hub, &client))),
        None => Err(ApiError::conflict("the limit of clients is reached (yonexus.max_clients)")),
    }
}

#[utoipa::path(get, path = "/api/yonexus/clients/{identifier}", params(("identifier" = String, Path)), responses((status = 200, body = ClientView), (status = 404)), tag = "yonexus")]
/// Show one client.
pub async fn client(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(identifier): PathOf<String>,
) -> Result<Json<ClientView>, ApiError> {
    Ok(Json(view(&hub, &*in_reach(&hub, &caller, &identifier).await?)))
}

#[utoipa::path(delete, path = "/api/yonexus/clients/{identifier}", params(("identifier" = String, Path)), responses((status = 200), (status = 404), (status = 409)), tag = "yonexus")]
/// Delete a client with its key, its secret and its waiting messages. The journal stays.
pub async fn remove(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(identifier): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let client = in_reach(&hub, &caller, &identifier).await?;
    match pairing::remove(&hub, &caller, &client).await? {
        Some(stored) => stored.answer(&json!({ "ok": true, "identifier": identifier })),
        None => Err(ApiError::conflict(
            "the setting yonexus.allow lists this client; revoke the client, or change the setting",
        )),
    }
}

#[utoipa::path(post, path = "/api/yonexus/clients/{identifier}/revoke", params(("identifier" = String, Path)), responses((status = 200, body = ClientView), (status = 404)), tag = "yonexus")]
/// Revoke a client: refuses its key and secret from now on and closes its link.
pub async fn revoke(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(identifier): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let client = in_reach(&hub, &caller, &identifier).await?;
    let stored = pairing::revoke(&hub, &caller, &client).await?;
    stored.answer(&view(&hub, &client))
}

#[utoipa::path(post, path = "/api/yonexus/clients/{identifier}/rotate-key", params(("identifier" = String, Path)), request_body(content = RotateKey, description = "May be absent."), responses((status = 200, body = ClientView), (status = 400), (status = 404), (status = 409)), tag = "yonexus")]
/// Allow a client to bind a new key within an hour, with a proof of its secret: the one that is named, or else any.
pub async fn rotate_key(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(identifier): PathOf<String>,
    MaybeJson(body): MaybeJson<RotateKey>,
) -> Result<Json<ClientView>, ApiError> {
    let client = in_reach(&hub, &caller, &identifier).await?;
    let key = body.and_then(|body| body.public_key);
    let key = key.map(|text| convoke_yonexus::key::parse(&text)).transpose();
    let key = key.map_err(|why| ApiError::bad_request(format!("`public_key` {why}")))?;
    if pairing::allow_rotation(&hub, &caller, &client, key).await? {
        Ok(Json(view(&hub, &client)))
    } else {
        Err(ApiError::conflict("only a paired client can change its key"))
    }
}

/// The open pairings of clients within reach, for the inbox. Codes are shown where they are decided.
pub fn waiting(hub: &Wires, caller: &Caller) -> Vec<Waiting> {
    let visible = hub.yonexus.clients.pairings().into_iter().filter(|c| reaches(caller, &c.identifier));
    let item = |client: Arc<Client>| {
        let state = client.state();
        let pairing = state.record.pairing.as_ref().filter(|pairing| !pairing.approved)?;
        Some(Waiting {
            id: client.identifier.to_string(),
            subject: client.identifier.to_string(),
            at: Some(pairing.created_at),
            until: Some(pairing.expires_at),
            detail: serde_json::json!({ "key_fingerprint": fingerprint(&pairing.key) }),
        })
    };
    visible.filter_map(item).collect()
}

#[utoipa::path(get, path = "/api/yonexus/pairings", responses((status = 200, body = PairingList)), tag = "yonexus")]
/// List the open pairings, with codes for those who may approve.
pub async fn pairings(State(hub): State<Wires>, By(caller): By) -> Json<PairingList> {
    let may_approve = caller.token.grant.check(Right::Approve).is_ok();
    let now = clock::now();
    let view = |client: &Arc<Client>| {
        let state = client.state();
        let pairing = state.record.pairing.as_ref()?;
        Some(PairingView {
            identifier: client.identifier.to_string(),
            key_fingerprint: fingerprint(&pairing.key),
            address: state.pairing.address.map(|a| a.to_string()).unwrap_or_default(),
            created_at: pairing.created_at,
            age_s: now.since(pairing.created_at).as_secs(),
            expires_at: pairing.expires_at,
            notification: pairing.notification.name().into(),
            notified: state.pairing.notified.clone(),
            wrong_codes: pairing.wrong,
            approved: pairing.approved,
            connected: state.waits(),
            pairing_code: may_approve.then(|| pairing.code.reveal().to_owned()),
        })
    };
    let visible = hub.yonexus.clients.pairings().into_iter().filter(|c| reaches(&caller, &c.identifier));
    let mut pairings: Vec<_> = visible.filter_map(|client| view(&client)).collect();
    pairings.sort_by_key(|pairing| pairing.created_at);
    Json(PairingList { pairings })
}

#[utoipa::path(post, path = "/api/yonexus/pairings/{identifier}", params(("identifier" = String, Path)), request_body = DecidePairing,
    responses((status = 200, body = ClientView), (status = 404)), tag = "yonexus")]
/// Approve or deny a pairing. Approving completes it without a code: compare the key's fingerprint first.
pub async fn decide(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(identifier): PathOf<String>,
    Json(body): Json<DecidePairing>,
) -> Result<Json<ClientView>, ApiError> {
    let client = in_reach(&hub, &caller, &identifier).await?;
    if pairing::decide(&hub, &caller, &client, body.approve).await? {
        Ok(Json(view(&hub, &client)))
    } else {
        Err(ApiError::not_found(format!("`{}` has no open pairing", convoke_doors::error::clip(&identifier))))
    }
}
