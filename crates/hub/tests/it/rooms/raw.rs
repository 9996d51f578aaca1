//! A peer on the mesh that says whatever a test wants, and holds itself to nothing.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_kibitz::mesh::pack::Value as Packed;
use convoke_kibitz::mesh::room_peer;
use convoke_kibitz::signal::Message as Signal;
use convoke_rtc::{Config, Endpoint, Event, LinkId};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

use crate::support::{Bare, PATIENCE, TestHub};

pub struct Raw {
    pub me: String,
    endpoint: Endpoint,
    broker: Bare,
    sockets: HashMap<SocketAddr, Arc<UdpSocket>>,
    arrived: mpsc::Receiver<(SocketAddr, SocketAddr, Vec<u8>)>,
    arriving: mpsc::Sender<(SocketAddr, SocketAddr, Vec<u8>)>,
    readers: JoinSet<()>,
    links: HashMap<String, LinkId>,
    peers: HashMap<LinkId, String>,
    /// What was heard, by whom it was said.
    pub heard: Vec<(String, Value)>,
}

impl Raw {
    /// A peer with this id, known to the broker.
    pub async fn open(hub: &TestHub, me: &str) -> Self {
        let url = format!("{}/peerjs?key=peerjs&id={me}&token=t&version=1.5.5", hub.http.replace("http://", "ws://"));
        let (socket, _) = tokio_tungstenite::connect_async(url).await.expect("upgrades");
        let mut broker = Bare(socket);
        assert!(broker.next().await.expect("a text").contains("OPEN"));
        let (arriving, arrived) = mpsc::channel(256);
        let (sockets, readers) = (HashMap::new(), JoinSet::new());
        let config = Config { address: ([127, 0, 0, 1], 9).into(), lite: false, links: (16, 16) };
        let endpoint = Endpoint::new(config).expect("an endpoint");
        let (links, peers) = (HashMap::new(), HashMap::new());
        let me = me.to_owned();
        Self { me, endpoint, broker, sockets, arrived, arriving, readers, links, peers, heard: Vec::new() }
    }

    pub fn fingerprint(&self) -> &str {
        self.endpoint.fingerprint()
    }

    async fn socket(&mut self) -> SocketAddr {
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await.expect("a port"));
        let to = socket.local_addr().expect("an address");
        self.sockets.insert(to, Arc::clone(&socket));
        let arriving = self.arriving.clone();
        self.readers.spawn(async move {
            let mut buffer = [0; 2048];
            while let Ok((size, from)) = socket.recv_from(&mut buffer).await {
                let _ = arriving.send((from, to, buffer[..size].to_vec())).await;
            }
        });
        to
    }

    /// Dials a peer and waits until the channel is open.
    pub async fn dial(&mut self, peer: &str) {
        let from = self.socket().await;
        self.endpoint.dial_from(from, &self.me, peer, Instant::now()).expect("dials");
        let peer = peer.to_owned();
        self.until(|raw| raw.links.contains_key(&peer).then_some(())).await;
    }

    /// Dials the authority of a room.
    pub async fn presence(&mut self, room: &str) {
        self.dial(&room_peer(room)).await;
    }

    pub fn send(&mut self, peer: &str, value: &Value) {
        let link = self.links[peer];
        assert!(self.endpoint.send(link, &Packed::from_json(value), Instant::now()), "the connection is there");
    }

    /// Announces itself, with what is given beside its name and media peer.
    pub fn voice(&mut self, room: &str, more: &Value) {
        let mut frame = json!({ "t": "voice", "on": true, "name": self.me, "voiceId": self.me });
        frame.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        self.send(&room_peer(room), &frame);
    }

    /// Goes on until something is found.
    pub async fn until<T>(&mut self, mut find: impl FnMut(&mut Self) -> Option<T>) -> T {
        let look = async {
            loop {
                if let Some(found) = find(self) {
                    return found;
                }
                self.step().await;
            }
        };
        tokio::time::timeout(PATIENCE, look).await.expect("in time")
    }

    /// The next frame of the authority's with this `t`.
    pub async fn told(&mut self, room: &str, t: &str) -> Value {
        let from = room_peer(room);
        self.until(|raw| {
            let at = raw.heard.iter().position(|(peer, value)| *peer == from && value["t"] == t)?;
            Some(raw.heard.remove(at).1)
        })
        .await
    }

    async fn step(&mut self) {
        self.flush().await;
        let due = self.endpoint.due().unwrap_or_else(|| Instant::now() + Duration::from_secs(1));
        tokio::select! {
            text = self.broker.0.next() => if let Some(Ok(Message::Text(text))) = text
                && let Some(signal) = Signal::read(&text)
            {
                self.endpoint.on_signal(&signal, Instant::now());
            },
            Some((from, to, bytes)) = self.arrived.recv() => self.endpoint.on_datagram(from, to, &bytes, Instant::now()),
            () = tokio::time::sleep_until(due.into()) => {}
        }
        self.endpoint.on_time(Instant::now());
        self.flush().await;
    }

    async fn flush(&mut self) {
        while let Some(event) = self.endpoint.next_event() {
            match event {
                Event::Signal(message) => self.broker.0.send(Message::text(message.write())).await.expect("sends"),
                Event::Open { link, peer, .. } => {
                    self.links.insert(peer.clone(), link);
                    self.peers.insert(link, peer);
                }
                Event::Message(link, value) => {
                    let peer = self.peers.get(&link).cloned().unwrap_or_default();
                    self.heard.push((peer, value.to_json()));
                }
                Event::Closed { peer, .. } => drop(self.links.remove(&peer)),
            }
        }
        while let Some(datagram) = self.endpoint.next_datagram() {
            if let Some(socket) = self.sockets.get(&datagram.from) {
                let _ = socket.try_send_to(&datagram.bytes, datagram.to);
            }
        }
    }
}
