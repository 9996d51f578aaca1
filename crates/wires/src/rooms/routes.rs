//! Rooms over HTTP.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use axum::response::IntoResponse as _;
use convoke_api::rooms::{
    Admission, Admit, AgentKeyView, GrantChange, GrantView, InviteView, Kick, NewAgentKey, NewInvite, NewRoom,
    ParticipantChange, ParticipantView, Posts, RoomAudit, RoomDoor, RoomList, RoomQuery, RoomView,
};
use convoke_api::yonexus::Target;
use convoke_core::door::Door;
use convoke_core::grant::Missing;
use convoke_core::time::Timestamp;
use convoke_kibitz::admission::{AgentKey, MAX_KEYS, MAX_LABEL};
use convoke_kibitz::grant::{Capability, Grant, Hold, Kind};
use convoke_kibitz::key::PublicKey;
use convoke_kibitz::name;
use convoke_kibitz::room::{Decision, Person, Topic, Transport, invite_id};
use serde_json::json;

use crate::Wires;
use crate::rooms::admission;
use crate::rooms::manage::{self, Plan, RoomError};
use crate::rooms::{LiveRoom, now, peer};
use convoke_doors::ApiError;
use convoke_doors::error::clip;
use convoke_doors::extract::{By, Json, PathOf, QueryOf, limit};
use convoke_doors::keeper::record_refusal;
use convoke_doors::page::Page;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// How long an invite is good for when nobody says.
const INVITE_S: u64 = 86_400;
/// Longest that an invite may be good for.
const MAX_INVITE_S: u64 = 366 * 86_400;
/// Longest name on an invite, in characters.
const MAX_NAME: usize = 80;

impl From<RoomError> for ApiError {
    fn from(why: RoomError) -> Self {
        match why {
            RoomError::Exists
            | RoomError::TooMany
            | RoomError::KeyExists
            | RoomError::TooManyKeys
            | RoomError::TooManyGrants => Self::conflict(why.to_string()),
            RoomError::Gone | RoomError::NoSuch | RoomError::NoKey => Self::not_found(why.to_string()),
            RoomError::NotAPoint => Self::bad_request(format!("`key`: {why}")),
            RoomError::Crypto => Self::internal(),
            RoomError::Store(why) => why.into(),
        }
    }
}

/// The room, if there is one and it is within the caller's reach.
pub(super) async fn in_reach(hub: &Wires, caller: &Caller, named: &str) -> Result<Arc<LiveRoom>, ApiError> {
    let normal = name::normal(named);
    let room = normal.as_deref().unwrap_or_default();
    if let Err(missing) = caller.token.grant.check_reach::<String>(&peer(room), &[]) {
        record_refusal(hub, caller, "a room out of reach", normal.as_deref().map(peer).as_deref()).await;
        return Err(ApiError::forbidden(&missing));
    }
    hub.rooms.find(room).ok_or_else(|| no_room(named))
}

/// There is no such room.
pub fn no_room(name: &str) -> ApiError {
    ApiError::not_found(format!("room `{}` does not exist", clip(name)))
        .hint("`convoke room list` shows all rooms; `convoke room create NAME` creates one")
}

fn grant_view(grant: &Grant, explicit: bool) -> GrantView {
    let (perceive, act): (Vec<_>, Vec<_>) = grant.named().partition(|c| c.perceives());
    let names = |list: Vec<Capability>| list.into_iter().map(|c| c.name().to_owned()).collect();
    GrantView {
        perceive: names(perceive),
        act: names(act),
        expires_at: grant.expires_at.map(|at| Timestamp::from_millis(at.saturating_mul(1000))),
        explicit,
        backend: grant.backend.clone(),
        egress: grant.egress,
    }
}

fn participant(person: Person) -> ParticipantView {
    ParticipantView {
        grant: grant_view(&person.grant, person.is_explicit),
        id: person.id,
        name: person.name,
        kind: person.kind.into(),
        via: person.via.into(),
        state: person.standing.name().into(),
        host: person.is_host,
        kicked: person.is_blocked,
        hold: person.hold.map(|hold| hold.name().into()),
        doing: person.doing,
        bridged: person.is_bridged,
    }
}

/// A room at a glance.
fn brief(hub: &Wires, room: &LiveRoom) -> RoomView {
    room.look(|live| {
        let charter = live.charter();
        let key = |(participant, key): (String, &AgentKey)| AgentKeyView {
            thumbprint: key.key.thumbprint(),
            participant,
            label: key.label.clone(),
        };
        RoomView {
            name: room.name.clone(),
            transport: charter.transport.name().into(),
            open: charter.open,
            lobby: charter.lobby,
            locked: charter.locked,
            created_at: room.created_at,
            relay: manage::relay(hub, &room.name),
            present: live.present(),
            posts: charter.posts.iter().map(|topic| topic.name().into()).collect(),
            floor: live.floor().map(Into::into),
            agent_keys: live.key_holders().map(key).collect(),
            participants: None,
            audit: None,
            link: None,
            manifest: None,
            admission: None,
            host_invite: None,
        }
    })
}

/// All about a room.
fn whole(hub: &Wires, room: &LiveRoom) -> RoomView {
    let mut view = brief(hub, room);
    let (people, audit) = room.look(|room| {
        let line = |line: &convoke_kibitz::room::AuditLine| RoomAudit {
            at: line.at,
            participant: line.participant.clone(),
            kind: line.kind.into(),
            detail: line.detail.clone(),
        };
        (room.people(now(hub)), room.audit().map(line).collect())
    });
    view.participants = Some(people.into_iter().map(participant).collect());
    view.audit = Some(audit);
    view.admission = Some(room.look(|room| admission::view(room.charter())));
    view.manifest = manage::manifest(room);
    view.link = Some(manage::link(hub, room, view.manifest.as_deref()));
    view
}

#[utoipa::path(get, path = "/api/rooms", params(RoomQuery), responses((status = 200, body = RoomList)), tag = "rooms")]
/// List the rooms.
pub async fn list(
    State(hub): State<Wires>,
    By(caller): By,
    QueryOf(query): QueryOf<RoomQuery>,
) -> Result<Json<RoomList>, ApiError> {
    let limit = limit(query.limit)? as usize;
    let scopes = &caller.token.grant.scopes;
    let (mut rooms, mut next) = (Page::<RoomView>::new(limit), None);
    for room in hub.rooms.list(query.after.as_deref()) {
        if !scopes.reaches::<String>(&peer(&room.name), &[]) {
            continue;
        }
        if rooms.is_full() {
            next = rooms.last().map(|last| last.name.clone());
            break;
        }
        rooms.push(brief(&hub, &room));
    }
    Ok(Json(RoomList { rooms: rooms.into_items(), next }))
}

#[utoipa::path(post, path = "/api/rooms", request_body = NewRoom, responses((status = 200, body = RoomView), (status = 409)), tag = "rooms")]
/// Make a room. The answer has an invite for its host, shown once.
pub async fn create(
    State(hub): State<Wires>,
    By(caller): By,
    Json(body): Json<NewRoom>,
) -> Result<Json<RoomView>, ApiError> {
    let transport = match body.transport.as_deref() {
        None => Transport::Relay,
        Some(text) => {
            Transport::parse(text).ok_or_else(|| ApiError::bad_request("`transport` is `relay` or `mesh`"))?
        }
    };
    if transport == Transport::Mesh && hub.settings.rooms.udp_listen.as_deref() == Some("off") {
        return Err(ApiError::bad_request("`transport`: this hub supports only the relay, not WebRTC")
            .hint("leave `transport` out, or set rooms.udp_listen"));
    }
    let named = name::normal(&body.name)
        .ok_or_else(|| ApiError::bad_request("`name` needs a letter from a to z or a digit"))?;
    if let Err(missing) = caller.token.grant.check_reach::<String>(&peer(&named), &[]) {
        record_refusal(&hub, &caller, "a room out of reach", Some(&peer(&named))).await;
        return Err(ApiError::forbidden(&missing));
    }
    if body.agent_keys.len() > MAX_KEYS {
        return Err(ApiError::bad_request(format!("`agent_keys` takes at most {MAX_KEYS} keys")));
    }
    let agent_keys = body.agent_keys.into_iter().map(agent_key).collect::<Result<Vec<_>, _>>()?;
    let (open, lobby) = (body.open.unwrap_or(false), body.lobby.unwrap_or(false));
    let plan = Plan { name: named, transport, open, lobby, agent_keys };
    let (room, host_invite) = manage::create(&hub, &caller, plan).await?;
    Ok(Json(RoomView { host_invite: Some(host_invite), ..whole(&hub, &room) }))
}

fn agent_key(new: NewAgentKey) -> Result<AgentKey, ApiError> {
    let key = PublicKey::from_jwk(&new.key.to_string()).map_err(|why| ApiError::bad_request(why.to_string()))?;
    let caps = new.caps.map(|caps| granted(&caps, &Grant::default_of(Kind::Agent))).transpose()?;
    if new.label.as_ref().is_some_and(|l| l.chars().count() > MAX_LABEL || l.chars().any(char::is_control)) {
        return Err(ApiError::bad_request(format!("`label` takes at most {MAX_LABEL} characters, on one line")));
    }
    Ok(AgentKey { key, caps, label: new.label.filter(|label| !label.trim().is_empty()) })
}

/// A grant as somebody wrote it, on top of what there is.
pub(super) fn granted(change: &GrantChange, before: &Grant) -> Result<Grant, ApiError> {
    let side = |list: &Option<Vec<String>>, perceives: bool| -> Result<Vec<Capability>, ApiError> {
        let Some(list) = list else { return Ok(before.named().filter(|c| c.perceives() == perceives).collect()) };
        let known = |name: &String| {
            let found = Capability::parse(name).filter(|c| c.perceives() == perceives);
            found.ok_or_else(|| {
                let all = Capability::ALL.iter().filter(|c| c.perceives() == perceives).map(|c| c.name());
                let (field, all) = (if perceives { "perceive" } else { "act" }, all.collect::<Vec<_>>().join(", "));
                ApiError::bad_request(format!("`{field}` does not take `{}`; it takes {all}", clip(name)))
            })
        };
        list.iter().map(known).collect()
    };
    let (perceive, act) = (side(&change.perceive, true)?, side(&change.act, false)?);
    // Whole seconds on the wire: up, so that a grant does not end before it was said to.
    let expires_at = change.expires_at.map(|at| at.millis().saturating_add(999).div_euclid(1000));
    Ok(Grant::of(perceive.into_iter().chain(act)).until(expires_at))
}

#[utoipa::path(get, path = "/api/rooms/{room}", params(("room" = String, Path)), responses((status = 200, body = RoomView), (status = 404)), tag = "rooms")]
/// Show one room with its participants, grants, log, link and manifest.
pub async fn show(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
) -> Result<Json<RoomView>, ApiError> {
    Ok(Json(whole(&hub, &*in_reach(&hub, &caller, &room).await?)))
}

#[utoipa::path(get, path = "/api/rooms/{room}/door", params(("room" = String, Path)), responses((status = 200, body = RoomDoor), (status = 404)), tag = "rooms")]
/// Show how a room is entered. Whoever has its name may ask, as they may knock.
pub async fn door(
    State(hub): State<Wires>,
    convoke_doors::From(address): convoke_doors::From,
    PathOf(room): PathOf<String>,
) -> Result<Json<RoomDoor>, ApiError> {
    let room = at_door(&hub, address, &room)?;
    let transport = if room.is_mesh() { Transport::Mesh } else { Transport::Relay };
    let open = room.look(|room| room.charter().open);
    Ok(Json(RoomDoor { name: room.name.clone(), transport: transport.name().into(), open }))
}

/// The room that somebody without a credential names. Only who names none is slowed: others at their address have a good
/// invite.
pub fn at_door(hub: &Wires, address: IpAddr, named: &str) -> Result<Arc<LiveRoom>, ApiError> {
    let found = name::normal(named).and_then(|name| hub.rooms.find(&name));
    found.ok_or_else(|| {
        hub.strangers.refused(address, Door::Room);
        if let Some(seconds) = hub.rooms.throttle.blocked_for(address, clock::now()) {
            return ApiError::throttled(seconds);
        }
        hub.rooms.throttle.failed(address, clock::now());
        no_room(named)
    })
}

#[utoipa::path(delete, path = "/api/rooms/{room}", params(("room" = String, Path)), responses((status = 200), (status = 404)), tag = "rooms")]
/// Delete a room. Its participants are told; the journal stays. The answer names the rules that still post into it.
pub async fn remove(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let stored = manage::remove(&hub, &caller, &room).await?;
    let posts =
        |rule: &convoke_api::yonexus::Rule| matches!(&rule.target, Target::Room { room: to } if *to == room.name);
    let rules: Vec<String> = hub.yonexus.rules.list().into_iter().filter(posts).map(|rule| rule.rule).collect();
    stored.answer(&json!({ "ok": true, "room": room.name, "rules": rules }))
}

#[utoipa::path(patch, path = "/api/rooms/{room}/grants/{participant}", params(("room" = String, Path), ("participant" = String, Path)),
    request_body = GrantChange, responses((status = 200, body = ParticipantView), (status = 404)), tag = "rooms")]
/// Change a participant's grant, at once and permanently.
pub async fn grant(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((room, id)): PathOf<(String, String)>,
    Json(body): Json<GrantChange>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let before = find(&hub, &room, &id)?;
    let grant = match body {
        GrantChange { default: true, perceive: None, act: None, expires_at: None } => None,
        GrantChange { default: true, .. } => {
            return Err(ApiError::bad_request("`default` cannot be combined with other fields"));
        }
        GrantChange { perceive: None, act: None, expires_at: None, .. } => {
            return Err(ApiError::bad_request("name what to change: `perceive`, `act`, `expires_at` or `default`"));
        }
        change => Some(granted(&change, &before.grant)?),
    };
    let stored = manage::set_grant(&hub, &caller, &room, &before, grant).await?;
    // One who is away and has nothing of its own any more is nobody.
    let after = find(&hub, &room, &id).unwrap_or(Person { grant: Grant::none(), is_explicit: false, ..before });
    stored.answer(&participant(after))
}

#[utoipa::path(patch, path = "/api/rooms/{room}/participants/{participant}", params(("room" = String, Path), ("participant" = String, Path)),
    request_body = ParticipantChange, responses((status = 200, body = ParticipantView), (status = 404)), tag = "rooms")]
/// Pause or silence a participant, let them go on, or say that they are an agent. In force at once and permanently.
pub async fn change(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((room, id)): PathOf<(String, String)>,
    Json(body): Json<ParticipantChange>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    find(&hub, &room, &id)?;
    let stored = match (body.hold.as_deref(), body.agent) {
        (None, true) => manage::set_agent(&hub, &caller, &room, &id).await?,
        (Some("none"), false) => manage::set_hold(&hub, &caller, &room, &id, None).await?,
        (Some(text), false) => {
            let hold =
                Hold::parse(text).ok_or_else(|| ApiError::bad_request("`hold` is `paused`, `silenced` or `none`"))?;
            manage::set_hold(&hub, &caller, &room, &id, Some(hold)).await?
        }
        _ => return Err(ApiError::bad_request("name one thing to change: `hold`, or `agent` with true")),
    };
    // One who is away and is not held back any more is nobody.
    let after = find(&hub, &room, &id).map(participant).map(|after| json!(after));
    stored.answer(&after.unwrap_or_else(|_| json!({ "ok": true })))
}

#[utoipa::path(post, path = "/api/rooms/{room}/admission", params(("room" = String, Path)), request_body = Admission, responses((status = 200, body = RoomView), (status = 404)), tag = "rooms")]
/// Replace the room's standing policies, and say whether agents pay. Who came by a policy that is gone is out at once.
pub async fn set_admission(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
    Json(body): Json<Admission>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let (issuers, credits) = admission::read(&hub, body)?;
    let stored = manage::set_admission(&hub, &caller, &room, issuers, credits).await?;
    stored.answer(&whole(&hub, &room))
}

#[utoipa::path(post, path = "/api/rooms/{room}/posts", params(("room" = String, Path)), request_body = Posts, responses((status = 200, body = RoomView), (status = 404)), tag = "rooms")]
/// Say what of the fleet is posted into the room. It is posted for all who are in it, whatever else they may see.
pub async fn set_posts(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
    Json(body): Json<Posts>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let topic = |text: &String| {
        let all = || Topic::ALL.map(Topic::name).join(", ");
        Topic::parse(text).ok_or_else(|| {
            ApiError::bad_request(format!("`posts` does not take `{}`; it takes {}", clip(text), all()))
        })
    };
    let posts = body.posts.iter().map(topic).collect::<Result<BTreeSet<_>, _>>()?;
    let scopes = &caller.token.grant.scopes;
    // Whoever sees a part of the fleet would show all of it to themselves.
    let narrow = [("agents", scopes.agents.is_some()), ("tags", scopes.tags.is_some())];
    if let Some((scope, _)) = narrow.into_iter().find(|(_, is_narrow)| *is_narrow).filter(|_| !posts.is_empty()) {
        record_refusal(&hub, &caller, "posts of the whole fleet", Some(&peer(&room.name))).await;
        return Err(ApiError::forbidden(&Missing::Scope(scope)));
    }
    let stored = manage::set_posts(&hub, &caller, &room, posts).await?;
    stored.answer(&whole(&hub, &room))
}

fn find(hub: &Wires, room: &LiveRoom, id: &str) -> Result<Person, ApiError> {
    let people = room.look(|room| room.people(now(hub)));
    people.into_iter().find(|person| person.id == id).ok_or_else(|| {
        ApiError::not_found(format!("participant `{}` does not exist in room `{}`", clip(id), room.name))
            .hint(format!("`convoke room show {}` has the ids", room.name))
    })
}

#[utoipa::path(post, path = "/api/rooms/{room}/kick", params(("room" = String, Path)), request_body = Kick, responses((status = 200, body = ParticipantView), (status = 404)), tag = "rooms")]
/// Remove a participant and keep them out until they are admitted again.
pub async fn kick(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
    Json(body): Json<Kick>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    find(&hub, &room, &body.participant)?;
    let stored = manage::kick(&hub, &caller, &room, &body.participant).await?;
    stored.answer(&participant(find(&hub, &room, &body.participant)?))
}

#[utoipa::path(post, path = "/api/rooms/{room}/admit", params(("room" = String, Path)), request_body = Admit, responses((status = 200), (status = 404)), tag = "rooms")]
/// Admit a participant who waits in the lobby, or turn them away. Admitting also reverts a kick.
pub async fn admit(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
    Json(body): Json<Admit>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let decision = if body.admit { Decision::Admit } else { Decision::Deny };
    let stored = manage::decide(&hub, &caller, &room, &body.participant, decision).await?;
    stored.answer(&json!({ "ok": true, "participant": body.participant, "admitted": body.admit }))
}

#[utoipa::path(post, path = "/api/rooms/{room}/invites", params(("room" = String, Path)), request_body = NewInvite, responses((status = 200, body = InviteView), (status = 404)), tag = "rooms")]
/// Create an invite: whoever has it may enter under its name.
pub async fn invite(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
    Json(body): Json<NewInvite>,
) -> Result<Json<InviteView>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let named = body.name.trim();
    if named.is_empty() || named.chars().count() > MAX_NAME || named.chars().any(char::is_control) {
        return Err(ApiError::bad_request(format!("`name` takes 1 to {MAX_NAME} characters, on one line")));
    }
    let seconds = body.expires_in_s.unwrap_or(INVITE_S);
    if seconds == 0 || seconds > MAX_INVITE_S {
        return Err(ApiError::bad_request(format!("`expires_in_s` is at least 1 and at most {MAX_INVITE_S}")));
    }
    let role = match (body.host, body.agent) {
        (false, false) => None,
        (true, false) => Some("host"),
        (false, true) => Some("agent"),
        (true, true) => return Err(ApiError::bad_request("`host` and `agent`: a host is a person")),
    };
    let expires_at = clock::now().after(Duration::from_secs(seconds));
    let invite = manage::invite(&hub, &caller, &room, named, role, expires_at).await?;
    Ok(Json(InviteView { id: invite_id(&invite), invite, expires_at }))
}

#[utoipa::path(post, path = "/api/rooms/{room}/pass", params(("room" = String, Path)), responses((status = 200, body = InviteView), (status = 404)), tag = "rooms")]
/// Get a pass: an invite of the caller's own, for ten minutes, with which they enter under their rights, also on the mesh.
pub async fn pass(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
) -> Result<Json<InviteView>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let (invite, expires_at) = manage::pass(&room, &caller)?;
    Ok(Json(InviteView { id: invite_id(&invite), invite, expires_at }))
}

#[utoipa::path(delete, path = "/api/rooms/{room}/invites/{invite}", params(("room" = String, Path), ("invite" = String, Path)), responses((status = 200), (status = 404)), tag = "rooms")]
/// Revoke an invite, by its id or its text: nobody enters with it, and whoever did is out at once.
pub async fn revoke_invite(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((room, invite)): PathOf<(String, String)>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let stored = manage::revoke_invite(&hub, &caller, &room, &invite).await?;
    stored.answer(&json!({ "ok": true, "room": room.name }))
}

#[utoipa::path(post, path = "/api/rooms/{room}/keys", params(("room" = String, Path)), request_body = NewAgentKey, responses((status = 200, body = RoomView), (status = 409)), tag = "rooms")]
/// Admit the holder of a key, with a grant.
pub async fn add_key(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(room): PathOf<String>,
    Json(body): Json<NewAgentKey>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let stored = manage::add_key(&hub, &caller, &room, agent_key(body)?).await?;
    stored.answer(&whole(&hub, &room))
}

#[utoipa::path(delete, path = "/api/rooms/{room}/keys/{key}", params(("room" = String, Path), ("key" = String, Path)), responses((status = 200, body = RoomView), (status = 404)), tag = "rooms")]
/// Take a key off the list: its holder is out at once.
pub async fn remove_key(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((room, key)): PathOf<(String, String)>,
) -> Result<Json<serde_json::Value>, ApiError> {
    let room = in_reach(&hub, &caller, &room).await?;
    let stored = manage::remove_key(&hub, &caller, &room, &key).await?;
    stored.answer(&whole(&hub, &room))
}

/// `/peerjs/id`: an id for a peer that has none. It sorts before the hub's own, so that such peers dial it.
pub async fn peer_id() -> Response<Body> {
    uuid::Uuid::new_v4().to_string().into_response()
}
