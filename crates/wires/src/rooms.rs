//! Rooms on the relay (`/rooms/<name>/ws`) and on the mesh (WebRTC, found through the broker at `/peerjs`). Drives [`convoke_kibitz::room::Room`] over sockets, keeps what it decides, and
//! posts into it what a Yonexus rule sends there.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`live`] | a room that runs: the authority under a lock, and its connections' queues |
//! | [`broker`] | `/peerjs`: how PeerJS peers find each other |
//! | [`mesh`] | the hub as the authority of mesh rooms: the UDP socket and its WebRTC connections |
//! | `link` | the hub's end of a connection: a bounded queue |
//! | `serve` | a connection, from its first byte to its last |
//! | [`manage`] | what operators do: make, grant, kick, invite, keys |
//! | `admission` | a room's standing policies and credits, as the API has them |
//! | `jwks` | the keys that issuers of workload tokens and credits publish |
//! | [`ops`] | what of the fleet is posted, and what operators ask the hub for in a room |
//! | [`assistants`] | participants that the hub runs for assistants |
//! | [`tools`] | the MCP tools with which assistants take part |
//! | [`turn`] | credentials for TURN servers |
//! | `sign` | the room's own key, and whose signatures count |

pub mod adapter;
mod admission;
pub mod assistants;
pub mod broker;
mod connection;
mod events;
mod jwks;
mod link;
pub mod live;
pub mod manage;
pub mod mesh;
pub mod ops;
pub mod routes;
mod serve;
mod sign;
pub mod tools;
pub mod turn;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use convoke_kibitz::Now;
use convoke_kibitz::close;
use convoke_kibitz::room::{Charter, Limits, Post, PostError};
use convoke_store::{RoomRow, Store, StoreError};

use crate::Wires;
use convoke_gate::clock;
use convoke_gate::operators::throttle::Throttle;
use convoke_gate::settings::Settings;

pub use live::LiveRoom;
pub use serve::{Guest, serve};

/// Credentials that do not count which an address may show in a minute.
const MAX_FAILURES: u32 = 60;
/// TURN credentials that strangers at one address get in a minute.
const MAX_TURNS: u32 = 20;
/// Connections at one room's door that are not in.
const MAX_OUTSIDE: usize = 64;

/// All rooms.
#[derive(Debug)]
pub struct Rooms {
    all: RwLock<BTreeMap<String, Arc<LiveRoom>>>,
    /// The turn of one who makes a room: there may be so many, however many are asked for at once.
    making: tokio::sync::Mutex<()>,
    limits: Limits,
    /// The broker.
    signals: Arc<dyn broker::Signals>,
    /// To the task of the mesh, and its own ends until it starts.
    sending: tokio::sync::mpsc::Sender<mesh::ToLink>,
    queues: Mutex<Option<mesh::Queues>>,
    /// The keys of issuers.
    published: jwks::Published,
    next: AtomicU64,
    /// Failures per address.
    pub throttle: Throttle,
    /// Requests for TURN credentials by strangers, per address.
    turns: Throttle,
    /// Participants that the hub runs for assistants.
    pub assistants: assistants::Assistants,
}

impl Rooms {
    /// Starts from what is stored.
    pub async fn load(store: &dyn Store, settings: &Settings) -> Result<Self, StoreError> {
        let limits = Limits {
            participants: settings.rooms.max_participants,
            outside: MAX_OUTSIDE,
            frames_per_second: settings.rooms.frames_per_second,
            bridged: settings.rooms.max_bridged,
        };
        let (signals, heard) = broker::InMemory::new();
        let signals: Arc<dyn broker::Signals> = Arc::new(signals);
        let (sending, to_send) = mesh::queue();
        let mut all = BTreeMap::new();
        for row in store.rooms().await? {
            let name = row.name.clone();
            match Self::read(row, limits, (&signals, &sending)) {
                Ok(room) => {
                    for id in mesh::ids(&room) {
                        signals.reserve(&id);
                    }
                    all.insert(name, Arc::new(room));
                }
                // Written by another version, or damaged: the others open, and this one is not lost.
                Err(why) => tracing::error!(room = name, why, "cannot open a stored room"),
            }
        }
        let (all, next, throttle) = (RwLock::new(all), AtomicU64::new(1), Throttle::new(MAX_FAILURES));
        let queues = Mutex::new(Some(mesh::Queues { signals: heard, sending: to_send }));
        let making = tokio::sync::Mutex::default();
        let published = jwks::Published::default();
        let (turns, assistants) = (Throttle::new(MAX_TURNS), assistants::Assistants::default());
        Ok(Self { all, making, limits, signals, sending, queues, published, next, throttle, turns, assistants })
    }

    fn read(
        row: RoomRow,
        limits: Limits,
        ends: (&Arc<dyn broker::Signals>, &tokio::sync::mpsc::Sender<mesh::ToLink>),
    ) -> Result<LiveRoom, String> {
        let charter: Charter = serde_json::from_str(&row.body).map_err(|why| why.to_string())?;
        let key = sign::RoomKey::open(&row.key).ok_or("cannot read its key")?;
        // No clock yet: grants are looked at for their end from the first tick on.
        let now = Now { wall: clock::now(), mono: std::time::Duration::ZERO };
        Ok(LiveRoom::new(charter, key, row.created_at, limits, ends, now))
    }

    /// A number that no connection had.
    fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The task's ends of the queues; once.
    fn take_queues(&self) -> Option<mesh::Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The mesh room that one of the hub's own ids at the broker belongs to.
    fn find_on_mesh(&self, id: &str) -> Option<Arc<LiveRoom>> {
        if let Some(name) = id.strip_prefix(convoke_kibitz::mesh::ROOM_PREFIX) {
            return self.find(name).filter(|room| room.is_mesh());
        }
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        // Those with which it speaks for others begin with its own.
        let is_of = |hub: String| id.strip_prefix(&hub).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
        all.values().find(|room| room.mesh_hub().is_some_and(is_of)).cloned()
    }

    /// How many peers the broker has.
    pub fn peers(&self) -> usize {
        self.signals.count()
    }

    /// A room by its name.
    pub fn find(&self, name: &str) -> Option<Arc<LiveRoom>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All rooms after this name.
    pub fn list(&self, after: Option<&str>) -> Vec<Arc<LiveRoom>> {
        let all = self.all.read().unwrap_or_else(PoisonError::into_inner);
        all.iter()
            .filter(|(name, _)| after.is_none_or(|after| name.as_str() > after))
            .map(|(_, r)| r.clone())
            .collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many participants are in them.
    pub fn present(&self) -> usize {
        self.list(None).iter().map(|room| room.present()).sum()
    }
}

/// Both clocks of the hub.
pub fn now(hub: &Wires) -> Now {
    Now { wall: clock::now(), mono: hub.mono() }
}

/// How a room is named among peers, in records and in scopes.
pub fn peer(name: &str) -> String {
    format!("room:{name}")
}

/// Why nothing was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPosted {
    /// There is no such room (any more).
    #[error("room does not exist")]
    NoRoom,
    /// The room did not take it.
    #[error(transparent)]
    Refused(#[from] PostError),
}

/// Says something in a room on behalf of a rule. Answers how many heard it.
pub async fn post(hub: &Wires, room: &str, post: Post<'_>) -> Result<usize, NotPosted> {
    let room = hub.rooms.find(room).ok_or(NotPosted::NoRoom)?;
    let (done, after) = room.with(now(hub), |room| room.post(post, now(hub)));
    after.settle(hub, &room).await;
    Ok(done?)
}

/// What is due, every second.
pub async fn tick(hub: &Wires) {
    for room in hub.rooms.list(None) {
        room.tick(&sign::Desk(hub), now(hub)).settle(hub, &room).await;
    }
    hub.rooms.signals.on_tick(hub.mono());
}

/// The hub stops: closes every connection with that reason.
pub fn stop(hub: &Wires) {
    for room in hub.rooms.list(None) {
        let words = "the hub is stopping; connect again shortly";
        let ((), _) = room.with(now(hub), |room| room.close_all("stopping", words, close::SHUTTING_DOWN));
        room.guests_left(hub, None);
    }
}
