//! `GET /api/turn`: where participants of a mesh room find a relay for their connections, with credentials that coturn
//! takes for ten minutes (its `use-auth-secret`).

use aws_lc_rs::hmac;
use axum::extract::State;
use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_api::rooms::{IceServer, IceServers, TurnQuery};
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;

use super::sign::Desk;
use super::{now, routes};
use crate::Wires;
use convoke_doors::extract::{Json, MaybeCaller, QueryOf};
use convoke_doors::keeper::bearer;
use convoke_doors::{ApiError, From};
use convoke_gate::clock;

/// How long credentials are good for.
const GOOD_FOR_S: i64 = 600;

#[utoipa::path(get, path = "/api/turn", params(TurnQuery), responses((status = 200, body = IceServers), (status = 401), (status = 429)), tag = "rooms")]
/// Get TURN servers with credentials that are good for ten minutes: for a token, a session, an invite to the room as bearer,
/// or anybody if the room is open.
pub async fn turn(
    State(hub): State<Wires>,
    From(address): From,
    MaybeCaller(caller): MaybeCaller,
    QueryOf(TurnQuery { room: named }): QueryOf<TurnQuery>,
    headers: HeaderMap,
) -> Result<Json<IceServers>, ApiError> {
    let name = match (&caller, &named) {
        (Some(caller), Some(named)) => routes::in_reach(&hub, caller, named).await?.name.clone(),
        (Some(_), None) => "operator".into(),
        (None, named) => {
            let throttle = &hub.rooms.throttle;
            if let Some(seconds) = throttle.blocked_for(address, clock::now()) {
                return Err(ApiError::throttled(seconds));
            }
            let found =
                named.as_deref().and_then(convoke_kibitz::name::normal).and_then(|name| hub.rooms.find(&name));
            let invite = bearer(&headers);
            let at = now(&hub);
            let enters = found.as_ref().is_some_and(|room| {
                room.look(|room| match invite {
                    Some(invite) => room.takes_invite(invite, &Desk(&hub), at),
                    None => room.charter().open,
                })
            });
            let Some(room) = found.filter(|_| enters) else {
                throttle.failed(address, clock::now());
                return Err(ApiError::unauthorized("no token, session or invite that opens this room")
                    .hint("name the room as `?room=NAME`"));
            };
            if invite.is_none() {
                let turns = &hub.rooms.turns;
                if let Some(seconds) = turns.blocked_for(address, clock::now()) {
                    let words = "too many requests for TURN credentials from this address";
                    return Err(ApiError::limited(words, seconds));
                }
                turns.failed(address, clock::now());
            }
            room.name.clone()
        }
    };
    let settings = &hub.settings.rooms;
    let servers = match &settings.turn_secret {
        Some(secret) if !settings.turn_url.is_empty() => {
            vec![credentials(&settings.turn_url, secret, &name, clock::now())]
        }
        _ => Vec::new(),
    };
    Ok(Json(IceServers { ice_servers: servers }))
}

/// A user that is named by when it ends, and whose password is that name's digest under the shared secret.
fn credentials(urls: &[String], secret: &SecretText, name: &str, now: Timestamp) -> IceServer {
    let username = format!("{}:{name}", now.millis().div_euclid(1000) + GOOD_FOR_S);
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.reveal().as_bytes());
    let credential = STANDARD.encode(hmac::sign(&key, username.as_bytes()));
    IceServer { urls: urls.to_vec(), username, credential }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_what_coturn_computes() {
        let urls = ["turn:turn.example:3478".to_owned()];
        let made = credentials(&urls, &SecretText::new("north"), "lab", Timestamp::from_millis(1_700_000_000_999));
        assert_eq!(made.username, "1700000600:lab");
        // echo -n 1700000600:lab | openssl dgst -sha1 -hmac north -binary | base64
        assert_eq!(made.credential, "d+pLZeMxsJ5yzCnwqrAIXk90LKg=");
    }
}
