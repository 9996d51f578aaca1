//! Rooms on the mesh: the hub holds the id of each such room at the broker, answers who dials it, and tells everyone over
//! their connections who is there and who may what. What participants say goes directly between them.
//!
//! One task owns the UDP socket and all WebRTC; rooms are told what came, and what they want sent comes over a queue.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket as StdUdp};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_kibitz::Now;
use convoke_kibitz::mesh::pack::Value;
use convoke_kibitz::mesh::presence::{Presence, ToPeer};
use convoke_kibitz::mesh::{ROOM_PREFIX, room_peer};
use convoke_kibitz::room::{Arrival, Caller, Conn, Room};
use convoke_kibitz::signal::Message;
use convoke_rtc::{Config, Endpoint, Event, LinkId};
use serde_json::value::RawValue;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

use super::adapter::{act, asker};
use super::broker::Signals;
use super::live::After;
use super::sign::Desk;
use super::{LiveRoom, now};
use crate::Wires;
use convoke_gate::clock;
use convoke_gate::settings::Settings;
use convoke_gate::shares::network;

/// Connections of all rooms, and those of them that are not open yet.
const LINKS: (usize, usize) = (4_096, 512);
/// Messages to participants that may wait for the task that sends them.
const MAX_SENDING: usize = 8_192;
/// Largest datagram.
const MAX_DATAGRAM: usize = 2_048;
/// Datagrams in a row before anything else has its turn.
const BURST: usize = 64;

/// Something for a connection of the mesh.
#[derive(Debug)]
pub(super) enum ToLink {
    Send(LinkId, Value),
    Close(LinkId),
    /// The hub speaks for somebody with this media peer from now on: it has a certificate of its own.
    Certify(String),
    /// It does so no more.
    Retire(String),
}

/// What a connection of the mesh shows of who is behind it.
#[derive(Debug)]
pub(super) struct Shown {
    certificate: String,
    address: Option<IpAddr>,
}

/// What a mesh room has beside its authority.
#[derive(Debug)]
pub(super) struct MeshSide {
    presence: Presence,
    /// The presence connections.
    links: HashMap<Conn, LinkId>,
    /// The connections between the hub's media peers and the participants', by both ids.
    content: HashMap<(String, String), LinkId>,
    signals: Arc<dyn Signals>,
    sending: mpsc::Sender<ToLink>,
    hub: String,
    lost: u64,
}

impl MeshSide {
    pub(super) fn new(signals: Arc<dyn Signals>, sending: mpsc::Sender<ToLink>, now: Duration) -> Self {
        // After every id that the broker gives out, so that browsers dial it.
        let hub = format!("zzzz{}", hex::encode(clock::random::<12>()));
        let presence = Presence::new(hub.clone(), now);
        Self { presence, links: HashMap::new(), content: HashMap::new(), signals, sending, hub, lost: 0 }
    }

    /// The id of the hub's media peer.
    pub(super) fn hub(&self) -> &str {
        &self.hub
    }

    pub(super) fn has(&self, conn: Conn) -> bool {
        self.presence.has(conn)
    }

    /// Messages that were dropped since the last look, since nobody took them.
    pub(super) fn take_lost(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn put(&mut self, to: ToLink) {
        if self.sending.try_send(to).is_err() {
            self.lost += 1;
        }
    }

    /// Speaks for those who are in the roster over the relay, and for nobody else.
    pub(super) fn bridge(&mut self, room: &Room) {
        let there = room.bridged();
        let gone = self.presence.bridged().keys().filter(|id| !there.contains(id));
        for identity in gone.cloned().collect::<Vec<_>>() {
            let Some(media) = self.presence.unbridge(&identity) else { continue };
            self.content.retain(|(me, _), _| *me != media);
            self.signals.release(&media);
            self.put(ToLink::Retire(media));
        }
        for identity in there {
            if !self.presence.bridged().contains_key(&identity) {
                let media = format!("{}-{}", self.hub, hex::encode(clock::random::<8>()));
                self.signals.reserve(&media);
                self.presence.bridge(&identity, &media);
                self.put(ToLink::Certify(media));
            }
        }
    }

    /// The connection between one of the hub's media peers and a participant's.
    fn content_of(&self, me: &str, conn: Conn) -> Option<LinkId> {
        let (media, _) = self.presence.media(conn)?;
        self.content.get(&(me.to_owned(), media.to_owned())).copied()
    }

    /// What the room says to one of its connections.
    pub(super) fn say(&mut self, conn: Conn, text: &str, now: Now) {
        for out in self.presence.outgoing(conn, text, now) {
            let (link, value) = match out {
                ToPeer::Presence(value) => (self.links.get(&conn).copied(), value),
                ToPeer::Content(value) => (self.content_of(&self.hub, conn), value),
                ToPeer::Bridged(me, value) => (self.content_of(&me, conn), value),
            };
            // Grants that came before the connection are said once it is there.
            if let Some(link) = link {
                self.put(ToLink::Send(link, value));
            }
        }
    }

    /// The room closes one of its connections.
    pub(super) fn close(&mut self, room: &mut Room, conn: Conn, now: Now) {
        let media = self.presence.media(conn).map(|(media, _)| media.to_owned());
        let content =
            self.content.iter().filter(|((_, peer), _)| Some(peer) == media.as_ref()).map(|(_, link)| *link);
        for link in content.chain(self.links.remove(&conn)).collect::<Vec<_>>() {
            self.put(ToLink::Close(link));
        }
        self.presence.closed(room, conn, now);
    }

    pub(super) fn open(&mut self, room: &mut Room, conn: Conn, link: LinkId, from: &Shown, now: Now) {
        let arrival = Arrival {
            challenge: clock::random(),
            host: String::new(),
            certificate: None,
            network: from.address.map(network),
            caller: Caller::Stranger,
        };
        self.links.insert(conn, link);
        self.presence.open(room, conn, &from.certificate, arrival, now);
    }

    pub(super) fn on_value(&mut self, room: &mut Room, conn: Conn, value: &Value, desk: &Desk<'_>, now: Now) {
        self.presence.on_value(room, conn, value, desk, now);
    }

    pub(super) fn gone(&mut self, room: &mut Room, conn: Conn, now: Now) {
        self.links.remove(&conn);
        self.presence.closed(room, conn, now);
    }

    pub(super) fn on_tick(&mut self, room: &mut Room, now: Now) {
        for (conn, value) in self.presence.on_tick(room, now) {
            if let Some(link) = self.links.get(&conn).copied() {
                self.put(ToLink::Send(link, value));
            }
        }
    }

    /// A data connection opened between one of the hub's media peers and one that says it is this participant's. False when
    /// it is not: an agent's must show the certificate that its key was asserted for.
    pub(super) fn content_open(
        &mut self,
        room: &Room,
        (me, media): (&str, &str),
        link: LinkId,
        certificate: &str,
        now: Now,
    ) -> bool {
        let Some(conn) = self.presence.conn_of(media) else { return false };
        let proved = self.presence.media(conn).is_some_and(|(_, shown)| shown == certificate);
        if !proved && self.presence.is_bound(conn) {
            return false;
        }
        let first = if me == self.hub {
            self.presence.caps_for(conn).into_iter().collect()
        } else {
            let Some(identity) = self.presence.bridged_as(me) else { return false };
            let schemas = room.schemas_of(identity, conn, now);
            schemas.iter().filter_map(|schema| Value::from_text(schema)).collect::<Vec<_>>()
        };
        if let Some(older) = self.content.insert((me.to_owned(), media.to_owned()), link) {
            self.put(ToLink::Close(older));
        }
        for value in first {
            self.put(ToLink::Send(link, value));
        }
        true
    }

    /// A participant said something to the hub, or to somebody whom it speaks for.
    pub(super) fn said(&mut self, room: &mut Room, (me, media): (&str, &str), value: &Value, now: Now) {
        let Some(conn) = self.presence.conn_of(media) else { return };
        let Ok(payload) = RawValue::from_string(value.to_json().to_string()) else { return };
        if me == self.hub {
            room.speak_to_hub(conn, &payload, now);
        } else if let Some(identity) = self.presence.bridged_as(me) {
            room.speak_over(conn, identity, &payload, now);
        }
    }

    pub(super) fn content_gone(&mut self, (me, media): (&str, &str), link: LinkId) {
        let ends = (me.to_owned(), media.to_owned());
        if self.content.get(&ends) == Some(&link) {
            self.content.remove(&ends);
        }
    }
}

/// What the mesh of a hub starts from.
pub struct Mesh {
    socket: UdpSocket,
    endpoint: Endpoint,
    public: SocketAddr,
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mesh").field("public", &self.public).finish_non_exhaustive()
    }
}

impl Mesh {
    /// Binds the socket, if there is to be one.
    pub async fn bind(settings: &Settings) -> io::Result<Option<Self>> {
        let wrong = |name: &str, why: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{name}: {why}"));
        let listen = match settings.rooms.udp_listen.as_deref() {
            Some("off") => return Ok(None),
            None => SocketAddr::new(settings.hub.listen.ip(), 0),
            Some(text) => {
                text.parse().map_err(|_| wrong("rooms.udp_listen", "takes an address and port, or `off`"))?
            }
        };
        let socket = UdpSocket::bind(listen).await?;
        let bound = socket.local_addr()?;
        let public = match settings.rooms.udp_public.as_deref() {
            None => SocketAddr::new(reachable(bound.ip())?, bound.port()),
            Some(text) => match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
                (Ok(address), _) => address,
                (_, Ok(ip)) => SocketAddr::new(ip, bound.port()),
                _ => return Err(wrong("rooms.udp_public", "takes an address, with or without a port")),
            },
        };
        let config = Config { address: public, lite: true, links: LINKS };
        let endpoint = Endpoint::new(config).map_err(io::Error::other)?;
        Ok(Some(Self { socket, endpoint, public }))
    }

    /// Where participants reach it.
    pub const fn public(&self) -> SocketAddr {
        self.public
    }
}

/// The address under which a socket that listens everywhere is reached: the one that the way out begins with. Nothing is
/// sent for this.
fn reachable(ip: IpAddr) -> io::Result<IpAddr> {
    if !ip.is_unspecified() {
        return Ok(ip);
    }
    let (here, there): (SocketAddr, SocketAddr) = match ip {
        IpAddr::V4(_) => (([0; 4], 0).into(), ([192, 0, 2, 1], 9).into()),
        IpAddr::V6(_) => {
            (([0; 16], 0).into(), ([0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], 9).into())
        }
    };
    let probe = StdUdp::bind(here)?;
    let way = probe.connect(there).and_then(|()| probe.local_addr());
    // Without any network there is the machine itself.
    Ok(way.map_or_else(
        |_| if ip.is_ipv4() { [127, 0, 0, 1].into() } else { IpAddr::from([0u16, 0, 0, 0, 0, 0, 0, 1]) },
        |a| a.ip(),
    ))
}

/// The ends of the queues between rooms, the broker and the task of the mesh.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) signals: mpsc::Receiver<Message>,
    pub(super) sending: mpsc::Receiver<ToLink>,
}

/// A queue to the task of the mesh.
pub(super) fn queue() -> (mpsc::Sender<ToLink>, mpsc::Receiver<ToLink>) {
    mpsc::channel(MAX_SENDING)
}

/// Whose connection a link is.
#[derive(Debug)]
enum Whose {
    /// A participant's presence in a room.
    Presence(Arc<LiveRoom>, Conn),
    /// Between one of the hub's media peers of a room and this participant's.
    Content(Arc<LiveRoom>, String, String),
}

struct Task {
    hub: Wires,
    endpoint: Endpoint,
    whose: HashMap<LinkId, Whose>,
}

/// Serves the mesh until the hub stops.
pub async fn run(hub: Wires, mesh: Mesh) {
    let Some(Queues { mut signals, mut sending }) = hub.rooms.take_queues() else { return };
    let Mesh { socket, endpoint, public } = mesh;
    let mut task = Task { hub: hub.clone(), endpoint, whose: HashMap::new() };
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let due = task.endpoint.due().unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
        tokio::select! {
            // Each of these loses nothing when another is first: a datagram is taken only once the socket is ready.
            ready = socket.readable() => if ready.is_ok() {
                for _ in 0..BURST {
                    let Ok((size, from)) = socket.try_recv_from(&mut buffer) else { break };
                    task.endpoint.on_datagram(from, public, &buffer[..size], Instant::now());
                }
            },
            Some(signal) = signals.recv() => task.on_signal(&signal),
            Some(out) = sending.recv() => task.on_out(out),
            () = tokio::time::sleep_until(due.into()) => {}
            () = hub.stopping.cancelled() => {}
        }
        task.endpoint.on_time(Instant::now());
        task.settle();
        while let Some(datagram) = task.endpoint.next_datagram() {
            // A full socket drops, as a network does.
            let _ = socket.try_send_to(&datagram.bytes, datagram.to);
        }
        if hub.stopping.is_cancelled() {
            return;
        }
    }
}

impl Task {
    fn on_signal(&mut self, message: &Message) {
        let dst = message.dst.as_deref().unwrap_or_default();
        if self.hub.rooms.find_on_mesh(dst).is_some() {
            return self.endpoint.on_signal(message, Instant::now());
        }
        // An id of ours with nobody behind it: a room on the relay.
        if message.kind == "OFFER" {
            let (src, dst) = (message.dst.clone(), message.src.clone());
            let expire = Message { kind: "EXPIRE".into(), src, dst, payload: None };
            self.hub.rooms.signals.say(expire, self.hub.mono());
        }
    }

    fn on_out(&mut self, out: ToLink) {
        let at = Instant::now();
        match out {
            ToLink::Send(link, value) => drop(self.endpoint.send(link, &value, at)),
            ToLink::Close(link) => self.endpoint.close(link, at),
            ToLink::Certify(me) => {
                if let Err(why) = self.endpoint.certify(&me) {
                    tracing::error!(%why, "cannot speak for a participant of the relay on the mesh");
                }
            }
            ToLink::Retire(me) => self.endpoint.retire(&me, at),
        }
    }

    /// Tells rooms and the broker what happened.
    fn settle(&mut self) {
        while let Some(event) = self.endpoint.next_event() {
            let hub = self.hub.clone();
            let at = now(&hub);
            match event {
                Event::Signal(message) => hub.rooms.signals.say(message, at.mono),
                Event::Open { link, me, peer, fingerprint } => {
                    let Some(room) = hub.rooms.find_on_mesh(&me) else { continue };
                    if me.starts_with(ROOM_PREFIX) {
                        let conn = Conn(hub.rooms.number());
                        self.whose.insert(link, Whose::Presence(Arc::clone(&room), conn));
                        let address = self.endpoint.address_of(link);
                        let after = room.mesh_open(conn, link, &Shown { certificate: fingerprint, address }, at);
                        record(&hub, room, after);
                    } else if room.mesh_content((&me, &peer), link, &fingerprint, at) {
                        self.whose.insert(link, Whose::Content(room, me, peer));
                    } else {
                        self.endpoint.close(link, Instant::now());
                    }
                }
                Event::Message(link, value) => match self.whose.get(&link) {
                    Some(Whose::Presence(room, conn)) => {
                        let room = Arc::clone(room);
                        let after = room.mesh_value(*conn, &value, &Desk(&hub), at);
                        record(&hub, room, after);
                    }
                    Some(Whose::Content(room, me, peer)) => {
                        let room = Arc::clone(room);
                        let after = room.mesh_said((me, peer), &value, at);
                        record(&hub, room, after);
                    }
                    None => {}
                },
                Event::Closed { link, .. } => match self.whose.remove(&link) {
                    Some(Whose::Presence(room, conn)) => {
                        let after = room.mesh_gone(conn, at);
                        record(&hub, room, after);
                    }
                    Some(Whose::Content(room, me, media)) => room.mesh_content_gone((&me, &media), link),
                    None => {}
                },
            }
        }
    }
}

/// Keeps and records what happened in a room, beside the task that everybody's packets wait for.
fn record(hub: &Wires, room: Arc<LiveRoom>, mut after: After) {
    super::ops::carry_out(hub, &room, None, after.take_commands());
    for asked in after.take_acts() {
        if let Some(caller) = asker(hub, &room, &asked.participant) {
            // It is told what became of it; nobody here waits.
            drop(act(hub, &room, caller, asked));
        }
    }
    if !after.is_empty() {
        let wires = hub.clone();
        hub.tasks.spawn(async move { after.settle(&wires, &room).await });
    }
}

/// The ids at the broker that are a room's, whatever its transport: nobody else holds them.
pub(super) fn ids(room: &LiveRoom) -> Vec<String> {
    let mut ids = vec![room_peer(&room.name)];
    ids.extend(room.mesh_hub());
    ids
}
