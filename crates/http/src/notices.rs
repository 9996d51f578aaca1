//! Where people's notices go, over HTTP.

use axum::extract::State;
use axum::http::StatusCode;
use convoke_api::notices::{ChannelList, ChannelQuery, ChannelRequest, ChannelView};
use convoke_api::people::Secret;
use convoke_core::grant::Right;
use convoke_core::id::ChannelId;
use convoke_core::secret::SecretBytes;
use convoke_store::ChannelRow;
use serde_json::{Value, json};
use url::Url;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf, QueryOf};
use convoke_doors::keeper::record_refusal;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::notices::push::{Keys, Subscription};
use convoke_gate::notices::{Channel, MAX_CHANNELS, Notice, Target, address, push, try_once};
use convoke_gate::operators::Caller;
use convoke_gate::people::User;

use crate::users::{record, unknown};

/// Longest address and longest secret of a channel.
const MAX_LEN: usize = 2_000;

#[utoipa::path(get, path = "/api/notices", params(ChannelQuery), responses((status = 200, body = ChannelList)), tag = "people")]
/// List where one's own notices go, or another user's for those who may change users.
pub async fn list(
    State(hub): State<Hub>,
    By(caller): By,
    QueryOf(query): QueryOf<ChannelQuery>,
) -> Result<Json<ChannelList>, ApiError> {
    let user = whose(&hub, &caller, query.user.as_deref()).await?;
    let own = hub.notices.list().into_iter().filter(|channel| channel.row.user == user.principal.id);
    let channels = own.map(|channel| view(&user.principal.name, &channel)).collect();
    Ok(Json(ChannelList { channels, vapid_public_key: hub.notices.public_key() }))
}

#[utoipa::path(post, path = "/api/notices", request_body = ChannelRequest, responses((status = 200, body = ChannelView), (status = 409)), tag = "people")]
/// Be told at a browser (web push), an ntfy topic or a webhook when something waits.
pub async fn add(
    State(hub): State<Hub>,
    By(caller): By,
    Json(asked): Json<ChannelRequest>,
) -> Result<Json<ChannelView>, ApiError> {
    let user = whose(&hub, &caller, asked.user.as_deref()).await?;
    let name = asked.name.clone().unwrap_or_else(|| asked.kind.clone());
    if name.trim().is_empty() || name.chars().count() > 64 || name.chars().any(char::is_control) {
        return Err(ApiError::bad_request("`name` must be 1 to 64 characters without line breaks"));
    }
    let target = target(asked)?;
    address::check(target.url(), &hub.settings.notices.allow_hosts).map_err(|why| forbidden(&why.to_string()))?;
    let kept = serde_json::to_vec(&target).map_err(|_| ApiError::internal())?;
    let row = ChannelRow {
        id: ChannelId::new(clock::uuid()),
        user: user.principal.id,
        kind: target.kind().into(),
        name,
        target: SecretBytes::new(kept),
        created_at: clock::now(),
    };
    let _turn = hub.notices.turn.lock().await;
    let own = hub.notices.list().into_iter().filter(|channel| channel.row.user == row.user);
    if own.count() >= MAX_CHANNELS {
        return Err(ApiError::conflict(format!("a user has at most {MAX_CHANNELS} channels; remove one first")));
    }
    let detail = json!({ "channel": row.id, "kind": row.kind, "name": row.name, "host": host(&target) });
    let record = record(&caller, &user.principal.name, "notices added", detail);
    hub.store.put_channel(row.clone(), record).await?;
    let channel = hub.notices.put(&hub, row, target);
    Ok(Json(view(&user.principal.name, &channel)))
}

#[utoipa::path(delete, path = "/api/notices/{id}", params(("id" = String, Path)), responses((status = 200), (status = 404)), tag = "people")]
/// Be told there no more.
pub async fn remove(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let (channel, user) = channel(&hub, &caller, &id).await?;
    let _turn = hub.notices.turn.lock().await;
    // In force before it is kept.
    hub.notices.remove(channel.row.id);
    let detail = json!({ "channel": channel.row.id, "kind": channel.row.kind, "name": channel.row.name });
    let record = record(&caller, &user.principal.name, "notices removed", detail);
    let stored = Stored::of(hub.store.remove_channel(channel.row.id, record).await)?;
    stored.answer(&json!({ "ok": true, "id": channel.row.id }))
}

#[utoipa::path(post, path = "/api/notices/{id}/test", params(("id" = String, Path)), responses((status = 200), (status = 404), (status = 502)), tag = "people")]
/// Send a notice there now, and say whether it was taken.
pub async fn test(
    State(hub): State<Hub>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let (channel, _) = channel(&hub, &caller, &id).await?;
    let notice = Notice {
        kind: "test",
        handle: format!("test:{}", clock::uuid()),
        title: "A test".into(),
        text: "Notices of this hub arrive here.".into(),
        url: format!("{}/", hub.page_url()),
    };
    try_once(&hub, &channel, &notice).await.map_err(|why| {
        ApiError::new(StatusCode::BAD_GATEWAY, "not_delivered", format!("the notice was not delivered: {why}"))
    })?;
    Ok(Json(json!({ "ok": true, "id": channel.row.id })))
}

/// Whose notices somebody means: their own, as a user or with a user's token, or with the right `users` anybody's.
async fn whose(hub: &Hub, caller: &Caller, named: Option<&str>) -> Result<User, ApiError> {
    let own = caller.token.person();
    let name = named.unwrap_or(own);
    if name != own
        && let Err(missing) = caller.token.grant.check(Right::Users)
    {
        record_refusal(hub, caller, "another user's notices", None).await;
        return Err(ApiError::forbidden(&missing));
    }
    hub.operators.people.find(name).ok_or_else(|| match named {
        Some(name) => unknown(name),
        None => {
            ApiError::conflict("this token belongs to no user, and notices are for people").hint("name one as `user`")
        }
    })
}

/// A channel of one's own, or anybody's for those who may change users.
async fn channel(hub: &Hub, caller: &Caller, id: &str) -> Result<(std::sync::Arc<Channel>, User), ApiError> {
    let unknown = || ApiError::not_found("the channel does not exist");
    let id: ChannelId = id.parse().map_err(|_| unknown())?;
    let channel = hub.notices.find(id).ok_or_else(unknown)?;
    let user = hub.operators.people.user(channel.row.user).ok_or_else(unknown)?;
    if user.principal.name != caller.token.person() && caller.token.grant.check(Right::Users).is_err() {
        record_refusal(hub, caller, "another user's notices", None).await;
        return Err(unknown());
    }
    Ok((channel, user))
}

fn target(asked: ChannelRequest) -> Result<Target, ApiError> {
    let text = |secret: Option<Secret>, name: &str| match secret.map(|secret| secret.0.reveal().to_owned()) {
        Some(text) if text.is_empty() || text.len() > MAX_LEN || text.chars().any(char::is_control) => {
            Err(ApiError::bad_request(format!("`{name}` must be 1 to {MAX_LEN} characters without line breaks")))
        }
        other => Ok(other),
    };
    let url = |url| text(url, "url")?.ok_or_else(|| ApiError::bad_request("`url` is missing"));
    match asked.kind.as_str() {
        "ntfy" => Ok(Target::Ntfy { url: url(asked.url)?, token: text(asked.token, "token")? }),
        "webhook" => Ok(Target::Webhook { url: url(asked.url)?, secret: text(asked.secret, "secret")? }),
        "push" => {
            let given = asked.subscription.ok_or_else(|| ApiError::bad_request("`subscription` is missing"))?;
            let part = |part, name| text(Some(part), name).map(Option::unwrap_or_default);
            let subscription = Subscription {
                endpoint: part(given.endpoint, "subscription.endpoint")?,
                keys: Keys {
                    p256dh: part(given.keys.p256dh, "subscription.keys.p256dh")?,
                    auth: part(given.keys.auth, "subscription.keys.auth")?,
                },
            };
            push::seal(&subscription, b"").map_err(|why| ApiError::bad_request(format!("`subscription`: {why}")))?;
            Ok(Target::Push(subscription))
        }
        _ => Err(ApiError::bad_request("`kind` must be push, ntfy or webhook")),
    }
}

fn forbidden(why: &str) -> ApiError {
    ApiError::bad_request(format!("`url`: {why}"))
}

fn host(target: &Target) -> String {
    Url::parse(target.url()).ok().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}

fn view(user: &str, channel: &Channel) -> ChannelView {
    let health = channel.health();
    ChannelView {
        id: channel.row.id,
        user: user.to_owned(),
        kind: channel.row.kind.clone(),
        name: channel.row.name.clone(),
        host: host(&channel.target),
        failures: health.failures,
        error: health.error,
        created_at: channel.row.created_at,
    }
}
