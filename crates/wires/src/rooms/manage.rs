//! What operators do with rooms. A change is kept before it is in force, but for one that withdraws something: that is in
//! force even if the disk fails.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_core::journal::{Draft, Kind};
use convoke_core::time::Timestamp;
use convoke_kibitz::Now;
use convoke_kibitz::admission::{AgentKey, Invite, MAX_KEYS, Manifest};
use convoke_kibitz::close;
use convoke_kibitz::credential::{CreditPolicy, IssuerPolicy};
use convoke_kibitz::grant::{Grant, Hold};
use convoke_kibitz::key::Signer as _;
use convoke_kibitz::room::{Charter, Decision, MAX_GRANTS, Person, Room, Topic, Transport, invite_id};
use convoke_store::{RoomRow, StoreError};
use serde_json::{Value, json};

use super::sign::{RoomKey, is_point, name_in_pass};
use super::{LiveRoom, events, now, peer};
use crate::Wires;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;
use convoke_gate::operators::Caller;

/// How long a manifest is good for; a fresh one is signed whenever it is asked for.
const MANIFEST_FOR: Duration = Duration::from_secs(30 * 86_400);
/// How long a host's first invite is good for.
const HOST_INVITE_FOR: Duration = Duration::from_secs(7 * 86_400);

/// How long a pass lets somebody in.
const PASS_FOR: Duration = Duration::from_secs(600);

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// The name is taken.
    #[error("a room of this name already exists")]
    Exists,
    /// As many as there may be.
    #[error("the limit of rooms is reached (rooms.max_rooms)")]
    TooMany,
    /// Somebody else removed it meanwhile.
    #[error("room does not exist")]
    Gone,
    /// Nobody of that id.
    #[error("the room has no participant with this id")]
    NoSuch,
    /// No key of that name.
    #[error("the room has no key with this thumbprint")]
    NoKey,
    /// The key is there already.
    #[error("the room already has this key; to change its holder's grant, remove it first")]
    KeyExists,
    /// Too many keys.
    #[error("a room takes at most {MAX_KEYS} agent keys")]
    TooManyKeys,
    /// Too many grants.
    #[error("a room keeps at most {MAX_GRANTS} grants that differ from the default; reset one first")]
    TooManyGrants,
    /// Numbers that are no point on the curve.
    #[error("the key's `x` and `y` are not a point on P-256")]
    NotAPoint,
    /// No randomness.
    #[error("cannot create a key or a signature")]
    Crypto,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a new room is like.
#[derive(Debug)]
pub struct Plan {
    /// Its name, already in its normal form.
    pub name: String,
    /// How content travels.
    pub transport: Transport,
    /// Whether anybody may come in.
    pub open: bool,
    /// Whether a host decides about guests.
    pub lobby: bool,
    /// Keys of agents that may come in.
    pub agent_keys: Vec<AgentKey>,
}

fn record(caller: &Caller, room: &str, detail: &Value) -> Draft {
    let mut draft = Draft::new(clock::now(), Kind::Grant).detail(detail);
    draft.who = Some(caller.token.name.clone());
    draft.door = Some(caller.door);
    draft.target = Some(peer(room));
    draft
}

/// Makes a room. Answers it with an invite whose holder may moderate.
pub async fn create(hub: &Wires, caller: &Caller, plan: Plan) -> Result<(Arc<LiveRoom>, String), RoomError> {
    let Plan { name, transport, open, lobby, agent_keys } = plan;
    check_keys(&agent_keys)?;
    let _turn = hub.rooms.making.lock().await;
    if hub.rooms.find(&name).is_some() {
        return Err(RoomError::Exists);
    }
    if hub.rooms.count() >= hub.settings.rooms.max_rooms {
        return Err(RoomError::TooMany);
    }
    let (key, kept) = RoomKey::generate().ok_or(RoomError::Crypto)?;
    let keys: Vec<String> = agent_keys.iter().map(|key| key.key.thumbprint()).collect();
    let charter = Charter {
        name: name.clone(),
        transport,
        open,
        lobby,
        locked: false,
        key: key.public_key(),
        agent_keys,
        host_keys: Vec::new(),
        posts: BTreeSet::new(),
        grants: std::collections::BTreeMap::new(),
        blocked: Vec::new(),
        credentials: std::collections::BTreeMap::new(),
        held: std::collections::BTreeMap::new(),
        agents: BTreeSet::new(),
        issuers: Vec::new(),
        credits: None,
        suspects: std::collections::BTreeMap::new(),
    };
    let created_at = clock::now();
    let body = serde_json::to_string(&charter).unwrap_or_default();
    let row = RoomRow { name: name.clone(), body, key: kept, created_at };
    let detail = json!({ "what": "room made", "transport": transport.name(), "open": open, "lobby": lobby, "agent_keys": keys });
    if !hub.store.add_room(row, record(caller, &name, &detail)).await? {
        return Err(RoomError::Exists);
    }
    let room = Arc::new(LiveRoom::new(
        charter,
        key,
        created_at,
        hub.rooms.limits,
        (&hub.rooms.signals, &hub.rooms.sending),
        now(hub),
    ));
    for id in super::mesh::ids(&room) {
        hub.rooms.signals.reserve(&id);
    }
    hub.rooms.all.write().unwrap_or_else(PoisonError::into_inner).insert(name, Arc::clone(&room));
    events::room(hub, &room.name, "room made", None);
    let host =
        sign_invite(&room, "Host", Some("host"), created_at.after(HOST_INVITE_FOR)).ok_or(RoomError::Crypto)?;
    Ok((room, host))
}

fn check_keys(keys: &[AgentKey]) -> Result<(), RoomError> {
    if keys.len() > MAX_KEYS {
        return Err(RoomError::TooManyKeys);
    }
    if !keys.iter().all(|key| is_point(&key.key)) {
        return Err(RoomError::NotAPoint);
    }
    let mut names: Vec<_> = keys.iter().map(|key| key.key).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() < keys.len() { Err(RoomError::KeyExists) } else { Ok(()) }
}

/// Removes a room. Everybody in it is told.
pub async fn remove(hub: &Wires, caller: &Caller, room: &LiveRoom) -> Result<Stored, RoomError> {
    let _turn = room.turn.lock().await;
    let gone =
        hub.store.remove_room(&room.name, record(caller, &room.name, &json!({ "what": "room removed" }))).await;
    let gone = StoreError::owed(gone)?;
    if gone == Some(false) {
        return Err(RoomError::Gone);
    }
    hub.rooms.all.write().unwrap_or_else(PoisonError::into_inner).remove(&room.name);
    for id in super::mesh::ids(room) {
        hub.rooms.signals.release(&id);
    }
    let words = "the room was removed";
    let ((), after) = room.with(now(hub), |room| room.close_all("removed", words, close::REMOVED));
    after.settle(hub, room).await;
    room.guests_left(hub, None);
    events::room(hub, &room.name, "room removed", None);
    Ok(if gone.is_some() { Stored::Yes } else { Stored::Owed })
}

/// Whether a change gives or takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Kept first: what is not kept must not be in force.
    KeepFirst,
    /// In force first: what was taken is taken even if the disk fails.
    ForceFirst,
}

/// One change: in turn, kept and in force in the order that is safe. `edit` makes it on a copy of what there is when the
/// turn has come, and says no if it does not fit that; `apply` makes it in the room.
async fn change<T>(
    hub: &Wires,
    room: &LiveRoom,
    order: Order,
    edit: impl FnOnce(&mut Charter) -> Result<T, RoomError>,
    apply: impl FnOnce(&mut Room, T, Now),
    draft: Draft,
) -> Result<Stored, RoomError> {
    let turn = room.turn.lock().await;
    let mut charter = room.charter();
    let edited = edit(&mut charter)?;
    let body = serde_json::to_string(&charter).unwrap_or_default();
    let at = now(hub);
    let mut apply = Some(|| room.with(at, |room| apply(room, edited, at)).1);
    let mut after = None;
    if order == Order::ForceFirst {
        after = apply.take().map(|apply| apply());
    }
    let detail = draft.detail.clone();
    let kept = match order {
        Order::ForceFirst => hub.store.withdraw_in_room(&room.name, body, Some(draft)).await,
        Order::KeepFirst => hub.store.set_room(&room.name, body, Some(draft)).await,
    };
    if matches!(kept, Ok(true)) {
        after = after.or_else(|| apply.take().map(|apply| apply()));
    }
    drop(turn);
    if let Some(after) = after {
        after.settle(hub, room).await;
        events::change(hub, &room.name, detail.as_deref());
    }
    match StoreError::owed(kept)? {
        Some(true) => Ok(Stored::Yes),
        Some(false) => Err(RoomError::Gone),
        None => Ok(Stored::Owed),
    }
}

/// Sets what somebody may, or with `None` goes back to the default.
pub async fn set_grant(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    before: &Person,
    grant: Option<Grant>,
) -> Result<Stored, RoomError> {
    let id = before.id.as_str();
    if !room.look(|room| room.knows(id)) {
        return Err(RoomError::NoSuch);
    }
    let draft = record(caller, &room.name, &json!({ "what": "granted", "participant": id, "grant": grant }));
    let credentials = room.look(|room| room.credentials_of(id));
    let (kept, forced) = (grant.clone(), grant.clone());
    let is_held = |capability| before.grant.named().any(|held| held == capability);
    let takes = grant.is_some_and(|grant| grant.named().all(is_held));
    let order = if takes { Order::ForceFirst } else { Order::KeepFirst };
    let edit = |charter: &mut Charter| {
        if kept.is_some() && !charter.grants.contains_key(id) && charter.grants.len() >= MAX_GRANTS {
            return Err(RoomError::TooManyGrants);
        }
        charter.set_grant(id, &credentials, kept.as_ref());
        Ok(())
    };
    change(hub, room, order, edit, |room, (), at| _ = room.set_grant(id, forced, at), draft).await
}

/// Pauses or silences somebody, or lets them go on.
pub async fn set_hold(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    id: &str,
    hold: Option<Hold>,
) -> Result<Stored, RoomError> {
    let what = hold.map_or("resumed", Hold::name);
    let draft = record(caller, &room.name, &json!({ "what": what, "participant": id }));
    let credentials = room.look(|room| room.credentials_of(id));
    let edit = |charter: &mut Charter| {
        if hold.is_some() && !charter.held.contains_key(id) && charter.held.len() >= MAX_GRANTS {
            return Err(RoomError::TooManyGrants);
        }
        charter.set_hold(id, &credentials, hold);
        Ok(())
    };
    let order = if hold.is_some() { Order::ForceFirst } else { Order::KeepFirst };
    change(hub, room, order, edit, |room, (), at| _ = room.set_hold(id, hold, at), draft).await
}

/// Says that somebody is an agent.
pub async fn set_agent(hub: &Wires, caller: &Caller, room: &LiveRoom, id: &str) -> Result<Stored, RoomError> {
    let draft = record(caller, &room.name, &json!({ "what": "agent", "participant": id }));
    let credentials = room.look(|room| room.credentials_of(id));
    let edit = |charter: &mut Charter| {
        if !charter.agents.contains(id) && charter.agents.len() >= MAX_GRANTS {
            return Err(RoomError::TooManyGrants);
        }
        charter.set_agent(id, &credentials);
        Ok(())
    };
    change(hub, room, Order::ForceFirst, edit, |room, (), at| _ = room.set_agent(id, at), draft).await
}

/// Puts other standing policies in force, and whether agents pay.
pub async fn set_admission(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    issuers: Vec<IssuerPolicy>,
    credits: Option<CreditPolicy>,
) -> Result<Stored, RoomError> {
    let named: Vec<&str> = issuers.iter().map(|policy| policy.issuer.as_str()).collect();
    let paid = credits.as_ref().map(|policy| &policy.issuers);
    let detail = json!({ "what": "admission changed", "issuers": named, "credits": paid });
    let draft = record(caller, &room.name, &detail);
    let edit = |charter: &mut Charter| {
        charter.issuers.clone_from(&issuers);
        charter.credits.clone_from(&credits);
        Ok((issuers, credits))
    };
    let order = Order::KeepFirst;
    change(hub, room, order, edit, |room, (issuers, credits), at| room.set_admission(issuers, credits, at), draft)
        .await
}

/// Sets what of the fleet is posted into the room.
pub async fn set_posts(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    posts: BTreeSet<Topic>,
) -> Result<Stored, RoomError> {
    let named: Vec<&str> = posts.iter().map(|topic| topic.name()).collect();
    let draft = record(caller, &room.name, &json!({ "what": "posts changed", "posts": named }));
    let edit = |charter: &mut Charter| {
        charter.posts.clone_from(&posts);
        Ok(posts)
    };
    change(hub, room, Order::KeepFirst, edit, |room, posts, _| room.set_posts(posts), draft).await
}

/// Removes somebody, and keeps them out.
pub async fn kick(hub: &Wires, caller: &Caller, room: &LiveRoom, id: &str) -> Result<Stored, RoomError> {
    if !room.look(|room| room.knows(id)) {
        return Err(RoomError::NoSuch);
    }
    let credentials = room.look(|room| room.credentials_of(id));
    let draft = record(caller, &room.name, &json!({ "what": "kicked", "participant": id }));
    let edit = |charter: &mut Charter| {
        charter.block(id, &credentials);
        Ok(())
    };
    change(hub, room, Order::ForceFirst, edit, |room, (), at| _ = room.kick(id, at), draft).await
}

/// Lets in who waits or was kicked, or turns away who waits.
pub async fn decide(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    id: &str,
    decision: Decision,
) -> Result<Stored, RoomError> {
    let waits = room.look(|room| {
        let waiting = room.people(now(hub)).iter().any(|p| p.id == id && p.standing.name() == "waiting");
        waiting || (decision == Decision::Admit && room.charter().blocked.iter().any(|blocked| blocked == id))
    });
    if !waits {
        return Err(RoomError::NoSuch);
    }
    let what = if decision == Decision::Admit { "admitted" } else { "denied" };
    let draft = record(caller, &room.name, &json!({ "what": what, "participant": id }));
    let edit = |charter: &mut Charter| {
        if decision == Decision::Admit {
            charter.unblock(id);
        }
        Ok(())
    };
    let order = if decision == Decision::Admit { Order::KeepFirst } else { Order::ForceFirst };
    change(hub, room, order, edit, |room, (), at| _ = room.decide(id, decision, at), draft).await
}

/// Puts an agent's key on the list.
pub async fn add_key(hub: &Wires, caller: &Caller, room: &LiveRoom, key: AgentKey) -> Result<Stored, RoomError> {
    let detail = json!({ "what": "key added", "key": key.key.thumbprint(), "label": key.label, "caps": key.caps });
    let draft = record(caller, &room.name, &detail);
    let edit = |charter: &mut Charter| {
        charter.agent_keys.push(key);
        check_keys(&charter.agent_keys)?;
        Ok(charter.agent_keys.clone())
    };
    change(hub, room, Order::KeepFirst, edit, Room::set_keys, draft).await
}

/// Takes an agent's key off the list: its holder is out at once, and does not come in again.
pub async fn remove_key(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    thumbprint: &str,
) -> Result<Stored, RoomError> {
    let draft = record(caller, &room.name, &json!({ "what": "key removed", "key": thumbprint }));
    let edit = |charter: &mut Charter| {
        let before = charter.agent_keys.len();
        charter.agent_keys.retain(|key| key.key.thumbprint() != thumbprint);
        if charter.agent_keys.len() < before { Ok(charter.agent_keys.clone()) } else { Err(RoomError::NoKey) }
    };
    change(hub, room, Order::ForceFirst, edit, Room::set_keys, draft).await
}

/// Makes an invite. Its making is recorded, since it lets somebody in.
pub async fn invite(
    hub: &Wires,
    caller: &Caller,
    room: &LiveRoom,
    name: &str,
    role: Option<&str>,
    expires_at: Timestamp,
) -> Result<String, RoomError> {
    let signed = sign_invite(room, name, role, expires_at).ok_or(RoomError::Crypto)?;
    let id = invite_id(&signed);
    let detail = json!({ "what": "invited", "name": name, "role": role, "expires_at": expires_at, "invite": id });
    hub.store.append(record(caller, &room.name, &detail)).await?;
    Ok(signed)
}

/// A pass: an invite of the operator's own, for as long as they are one and for a few minutes to enter with.
pub fn pass(room: &LiveRoom, caller: &Caller) -> Result<(String, Timestamp), RoomError> {
    let expires_at = clock::now().after(PASS_FOR);
    let exp = expires_at.millis().div_euclid(1000);
    let (name, operator) = (caller.token.name.clone(), Some(name_in_pass(caller)));
    let invite = Invite { name, room: room.name.clone(), exp, role: None, operator };
    Ok((invite.sign(&room.key).ok_or(RoomError::Crypto)?, expires_at))
}

/// Revokes an invite, by its id or its text: nobody comes in with it, and whoever did is out.
pub async fn revoke_invite(hub: &Wires, caller: &Caller, room: &LiveRoom, invite: &str) -> Result<Stored, RoomError> {
    let id = if is_invite_id(invite) { invite.to_owned() } else { invite_id(invite) };
    let draft = record(caller, &room.name, &json!({ "what": "invite revoked", "invite": id }));
    let edit = |charter: &mut Charter| {
        charter.block(&format!("invite:{id}"), &[]);
        Ok(())
    };
    change(hub, room, Order::ForceFirst, edit, |room, (), at| room.revoke_invite(&id, at), draft).await
}

/// Whether this is an invite's id, and not the invite.
fn is_invite_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit() && !b.is_ascii_uppercase())
}

fn sign_invite(room: &LiveRoom, name: &str, role: Option<&str>, expires_at: Timestamp) -> Option<String> {
    let exp = expires_at.millis().div_euclid(1000);
    let invite =
        Invite { name: name.into(), room: room.name.clone(), exp, role: role.map(Into::into), operator: None };
    invite.sign(&room.key)
}

/// The room's signed list of agent keys, if it has any.
pub fn manifest(room: &LiveRoom) -> Option<String> {
    let charter = room.charter();
    if charter.agent_keys.is_empty() {
        return None;
    }
    let exp = clock::now().after(MANIFEST_FOR).millis().div_euclid(1000);
    let (mode, name) = ("invite".into(), charter.name);
    Manifest { members: Vec::new(), mode, room: name, exp, agent_keys: charter.agent_keys }.sign(&room.key)
}

/// The room's link: where it is, and in the part that browsers do not send, its key and its manifest.
pub fn link(hub: &Wires, room: &LiveRoom, manifest: Option<&str>) -> String {
    let mode = if room.look(|room| room.charter().open) { "open" } else { "invite" };
    let key = serde_json::to_string(&room.key.public_key()).unwrap_or_default();
    let key = URL_SAFE_NO_PAD.encode(key);
    let manifest = manifest.map(|manifest| format!("&gm={manifest}")).unwrap_or_default();
    let (base, name) = (hub.base_url(), &room.name);
    format!("{base}/room/{name}#{name}?g={mode}&gk={key}{manifest}")
}

/// Where participants connect.
pub fn relay(hub: &Wires, room: &str) -> String {
    format!("{}/rooms/{room}/ws", hub.base_url().replacen("http", "ws", 1))
}
