//! The broker through which PeerJS peers find each other: who holds which id, and messages from one to the other. It
//! looks into no offer.
//!
//! Ids that are the hub's own (its rooms) are held here and by nobody else; what is sent to them comes out as
//! [`Output::Local`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::rate::Rate;

/// Longest id and token.
const MAX_ID: usize = 100;
/// Largest message: a session description with many candidates.
pub const MAX_MESSAGE: usize = 64 * 1024;
/// How long a message waits for a peer that is not there yet.
const QUEUED_FOR: Duration = Duration::from_secs(5);
/// Messages that wait, of one sender and of all.
const MAX_QUEUED: (usize, usize) = (32, 1_024);
/// Without a sign of life for so long a peer is gone.
const SILENT: Duration = Duration::from_secs(90);
/// Messages of one peer a second; an offer comes with a dozen candidates, for several peers at once.
const PER_SECOND: u32 = 100;

/// A message between two peers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Message {
    /// `OFFER`, `ANSWER`, `CANDIDATE`, `LEAVE`, `EXPIRE`, `HEARTBEAT`, `OPEN`, `ID-TAKEN`, `ERROR`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The sender, as the broker says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<String>,
    /// The addressee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst: Option<String>,
    /// What it carries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
}

impl Message {
    /// Reads one.
    pub fn read(text: &str) -> Option<Self> {
        let is_object = text.trim_start().starts_with('{');
        if is_object { serde_json::from_str(text).ok() } else { None }
    }

    /// As it travels.
    pub fn write(&self) -> String {
        // Texts and JSON under fixed names: nothing that could fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn bare(kind: &str) -> Self {
        Self { kind: kind.into(), src: None, dst: None, payload: None }
    }

    fn told(kind: &str, words: &str) -> Self {
        let payload = serde_json::value::to_raw_value(&serde_json::json!({ "msg": words })).ok();
        Self { payload, ..Self::bare(kind) }
    }
}

/// One connection to the broker. The runtime chooses the number and never uses it twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Line(pub u64);

/// How much there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Peers in all.
    pub peers: usize,
    /// Peers of one address.
    pub each: usize,
}

/// Something for the runtime to do.
#[derive(Clone, Debug)]
pub enum Output {
    /// Send this text.
    Send(Line, String),
    /// Close it, after what was sent.
    Close(Line),
    /// A message to one of the hub's own ids.
    Local(Message),
}

/// Who asks for an id.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The id.
    pub id: String,
    /// The secret by which its holder may take it again.
    pub token: String,
    /// Where from.
    pub address: IpAddr,
}

#[derive(Debug)]
struct Peer {
    id: String,
    token: String,
    address: IpAddr,
    heard: Duration,
    rate: Rate,
}

/// The broker.
#[derive(Debug)]
pub struct Broker {
    limits: Limits,
    peers: BTreeMap<Line, Peer>,
    ids: HashMap<String, Line>,
    own: HashSet<String>,
    queued: VecDeque<(Duration, Message)>,
    out: Vec<Output>,
}

/// Whether a text can be an id or a token.
fn is_plain(text: &str) -> bool {
    (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_ .~".contains(&b))
}

impl Broker {
    /// One with no peers.
    pub fn new(limits: Limits) -> Self {
        let (peers, ids) = (BTreeMap::new(), HashMap::new());
        Self { limits, peers, ids, own: HashSet::new(), queued: VecDeque::new(), out: Vec::new() }
    }

    /// What there is to do. Everything else adds to it.
    pub fn drain(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.out)
    }

    /// How many peers there are.
    pub fn count(&self) -> usize {
        self.peers.len()
    }

    /// From now on the id is the hub's. Whoever holds it loses it.
    pub fn reserve(&mut self, id: &str) {
        if let Some(line) = self.ids.get(id).copied() {
            self.refuse(line, &Message::told("ID-TAKEN", "ID is taken"));
            self.closed(line);
        }
        self.own.insert(id.to_owned());
    }

    /// The id is the hub's no more.
    pub fn release(&mut self, id: &str) {
        self.own.remove(id);
    }

    /// Whether somebody holds the id.
    pub fn holds(&self, id: &str) -> bool {
        self.ids.contains_key(id) || self.own.contains(id)
    }

    fn send(&mut self, line: Line, message: &Message) {
        self.out.push(Output::Send(line, message.write()));
    }

    fn refuse(&mut self, line: Line, message: &Message) {
        self.send(line, message);
        self.out.push(Output::Close(line));
    }

    /// A peer connects and asks for an id.
    pub fn open(&mut self, line: Line, claim: Claim, now: Duration) {
        let Claim { id, token, address } = claim;
        if !is_plain(&id) || !is_plain(&token) {
            return self.refuse(line, &Message::told("ERROR", "No id, token, or key supplied to websocket server"));
        }
        let holder = self.ids.get(&id).copied();
        let is_taken = |line: &Line| self.peers.get(line).is_some_and(|peer| peer.token != token);
        if self.own.contains(&id) || holder.as_ref().is_some_and(is_taken) {
            return self.refuse(line, &Message::told("ID-TAKEN", "ID is taken"));
        }
        let same = self.peers.values().filter(|peer| peer.address == address).count();
        if holder.is_none() && (self.peers.len() >= self.limits.peers || same >= self.limits.each) {
            return self.refuse(line, &Message::told("ERROR", "Server has reached its concurrent user limit"));
        }
        if let Some(older) = holder {
            self.peers.remove(&older);
            self.out.push(Output::Close(older));
        }
        self.ids.insert(id.clone(), line);
        let rate = Rate::new(PER_SECOND, now);
        self.peers.insert(line, Peer { id: id.clone(), token, address, heard: now, rate });
        self.send(line, &Message::bare("OPEN"));
        let (due, rest) = std::mem::take(&mut self.queued).into_iter().partition(|(_, m)| is_for(m, &id));
        self.queued = rest;
        for (_, message) in Vec::from(due) {
            self.send(line, &message);
        }
    }

    /// A text came from a peer.
    pub fn on_text(&mut self, line: Line, text: &str, now: Duration) {
        let Some(peer) = self.peers.get_mut(&line) else { return };
        peer.heard = now;
        if !peer.rate.take(now) || text.len() > MAX_MESSAGE {
            return;
        }
        let src = peer.id.clone();
        let Some(message) = Message::read(text) else { return };
        match message.kind.as_str() {
            "OFFER" | "ANSWER" | "CANDIDATE" | "LEAVE" | "EXPIRE" => {
                self.forward(Message { src: Some(src), ..message }, now);
            }
            _ => {}
        }
    }

    /// The hub itself says something, under one of its own ids.
    pub fn say(&mut self, message: Message, now: Duration) {
        self.forward(message, now);
    }

    fn forward(&mut self, message: Message, now: Duration) {
        let Some(dst) = message.dst.clone().filter(|dst| is_plain(dst)) else { return };
        if self.own.contains(&dst) {
            return self.out.push(Output::Local(message));
        }
        if let Some(line) = self.ids.get(&dst).copied() {
            return self.send(line, &message);
        }
        if matches!(message.kind.as_str(), "LEAVE" | "EXPIRE") {
            return;
        }
        let of_same = self.queued.iter().filter(|(_, queued)| queued.src == message.src).count();
        if of_same < MAX_QUEUED.0 && self.queued.len() < MAX_QUEUED.1 {
            self.queued.push_back((now.saturating_add(QUEUED_FOR), message));
        } else {
            self.expire(&message);
        }
    }

    /// Tells a sender that nobody has the id it wrote to.
    fn expire(&mut self, message: &Message) {
        let (Some(src), Some(dst)) = (&message.src, &message.dst) else { return };
        let told = Message { src: Some(dst.clone()), dst: Some(src.clone()), ..Message::bare("EXPIRE") };
        if self.own.contains(src) {
            self.out.push(Output::Local(told));
        } else if let Some(line) = self.ids.get(src).copied() {
            self.send(line, &told);
        }
    }

    /// A connection is gone, and its id is free.
    pub fn closed(&mut self, line: Line) {
        if let Some(peer) = self.peers.remove(&line)
            && self.ids.get(&peer.id) == Some(&line)
        {
            self.ids.remove(&peer.id);
        }
    }

    /// Does what is due. Once a second is often enough.
    pub fn on_tick(&mut self, now: Duration) {
        let mut told = HashSet::new();
        while let Some((_, message)) = self.queued.pop_front_if(|(until, _)| *until <= now) {
            if told.insert((message.src.clone(), message.dst.clone())) {
                self.expire(&message);
            }
        }
        let silent = |peer: &Peer| now.saturating_sub(peer.heard) >= SILENT;
        let gone: Vec<Line> = self.peers.iter().filter(|(_, peer)| silent(peer)).map(|(line, _)| *line).collect();
        for line in gone {
            self.out.push(Output::Close(line));
            self.closed(line);
        }
    }
}

fn is_for(message: &Message, id: &str) -> bool {
    message.dst.as_deref() == Some(id)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use serde_json::{Value, json};

    use super::*;

    struct World {
        broker: Broker,
        now: Duration,
        heard: BTreeMap<u64, Vec<Value>>,
        closed: Vec<u64>,
        local: Vec<Message>,
    }

    impl World {
        fn new() -> Self {
            let broker = Broker::new(Limits { peers: 5, each: 3 });
            Self { broker, now: Duration::ZERO, heard: BTreeMap::new(), closed: Vec::new(), local: Vec::new() }
        }

        fn settle(&mut self) {
            for output in self.broker.drain() {
                match output {
                    Output::Send(line, text) => {
                        self.heard.entry(line.0).or_default().push(serde_json::from_str(&text).expect("JSON"));
                    }
                    Output::Close(line) => {
                        self.closed.push(line.0);
                        self.broker.closed(line);
                    }
                    Output::Local(message) => self.local.push(message),
                }
            }
        }

        fn open(&mut self, line: u64, id: &str, token: &str) {
            let address = Ipv4Addr::new(10, 0, 0, u8::try_from(line / 10).expect("few")).into();
            self.broker.open(Line(line), Claim { id: id.into(), token: token.into(), address }, self.now);
            self.settle();
        }

        fn send(&mut self, line: u64, message: Value) {
            self.broker.on_text(Line(line), &message.to_string(), self.now);
            self.settle();
        }

        fn wait(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
            self.broker.on_tick(self.now);
            self.settle();
        }

        fn last(&self, line: u64) -> Value {
            self.heard[&line].last().cloned().expect("something")
        }
    }

    #[test]
    fn messages_go_to_who_holds_the_id_and_name_the_true_sender() {
        let mut world = World::new();
        world.open(1, "a", "t");
        world.open(2, "b", "t");
        assert_eq!(world.last(1), json!({ "type": "OPEN" }));
        world.send(1, json!({ "type": "OFFER", "src": "b", "dst": "b", "payload": { "x": 1 } }));
        assert_eq!(world.last(2), json!({ "type": "OFFER", "src": "a", "dst": "b", "payload": { "x": 1 } }));
        world.send(1, json!({ "type": "HEARTBEAT" }));
        world.send(1, json!({ "type": "NONSENSE", "dst": "b" }));
        assert_eq!(world.heard[&2].len(), 2);
    }

    #[test]
    fn an_id_is_one_peers_until_it_goes() {
        let mut world = World::new();
        world.open(1, "a", "t");
        world.open(2, "a", "other");
        assert_eq!(world.last(2), json!({ "type": "ID-TAKEN", "payload": { "msg": "ID is taken" } }));
        assert_eq!(world.closed, [2]);
        world.open(3, "a", "t");
        assert_eq!((world.last(3), world.closed.clone()), (json!({ "type": "OPEN" }), vec![2, 1]));
        world.broker.closed(Line(1));
        assert!(world.broker.holds("a"), "the end of the older line frees nothing");
        world.broker.closed(Line(3));
        world.open(4, "a", "other");
        assert_eq!(world.last(4), json!({ "type": "OPEN" }));
    }

    #[test]
    fn ids_of_the_hub_are_nobody_elses() {
        let mut world = World::new();
        world.open(1, "kbz-v1-x", "t");
        world.broker.reserve("kbz-v1-x");
        world.settle();
        assert_eq!((world.last(1)["type"].clone(), world.closed.clone()), (json!("ID-TAKEN"), vec![1]));
        world.open(2, "kbz-v1-x", "t");
        assert_eq!(world.last(2)["type"], "ID-TAKEN");
        world.open(3, "a", "t");
        world.send(3, json!({ "type": "OFFER", "dst": "kbz-v1-x", "payload": 1 }));
        let offer = world.local.pop().expect("it came");
        assert_eq!((offer.src.as_deref(), offer.kind.as_str()), (Some("a"), "OFFER"));
        let answer = Message { kind: "ANSWER".into(), src: offer.dst, dst: offer.src, payload: None };
        world.broker.say(answer, world.now);
        world.settle();
        assert_eq!(world.last(3), json!({ "type": "ANSWER", "src": "kbz-v1-x", "dst": "a" }));
    }

    #[test]
    fn a_message_waits_for_a_moment_and_then_its_sender_is_told() {
        let mut world = World::new();
        world.open(1, "a", "t");
        world.send(1, json!({ "type": "OFFER", "dst": "b", "payload": 1 }));
        world.wait(4);
        world.open(2, "b", "t");
        assert_eq!(world.last(2)["type"], "OFFER");
        world.send(1, json!({ "type": "OFFER", "dst": "c" }));
        world.send(1, json!({ "type": "CANDIDATE", "dst": "c" }));
        world.wait(5);
        let told: Vec<_> = world.heard[&1].iter().filter(|m| m["type"] == "EXPIRE").collect();
        assert_eq!(told, [&json!({ "type": "EXPIRE", "src": "c", "dst": "a" })], "once");
    }

    #[test]
    fn there_is_a_most_of_everything() {
        let mut world = World::new();
        for (line, id) in [(1, "a"), (2, "b"), (3, "c"), (4, "d")] {
            world.open(line, id, "t");
        }
        assert_eq!(
            (world.last(4)["type"].clone(), world.closed.clone()),
            (json!("ERROR"), vec![4]),
            "of one address"
        );
        for (line, id) in [(11, "e"), (12, "f"), (21, "g")] {
            world.open(line, id, "t");
        }
        assert_eq!(world.last(21)["type"], "ERROR", "of all");
        for (line, id) in [(31, ""), (32, &*"x".repeat(101)), (33, "<b>")] {
            world.open(line, id, "t");
            assert_eq!(world.last(line)["type"], "ERROR", "{id}");
        }
        for _ in 0..500 {
            world.send(1, json!({ "type": "OFFER", "dst": "b" }));
        }
        assert_eq!(world.heard[&2].len(), 101, "a second's worth");
        world.wait(89);
        world.send(1, json!({ "type": "HEARTBEAT" }));
        world.wait(1);
        assert_eq!(world.broker.count(), 1, "the silent ones are gone");
    }
}
