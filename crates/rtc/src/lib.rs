//! PeerJS peers over WebRTC data channels, without a socket and without a clock: signals of the broker, datagrams and the
//! time go in; signals, datagrams and what happened come out. One certificate serves all connections of an [`Endpoint`],
//! so that whoever proved something about it on one of them is the same on the others; an id that speaks for somebody else
//! has one of its own ([`Endpoint::certify`]).
//!
//! Two connections between the same two addresses cannot be told apart once they are encrypted. So an endpoint that dials
//! the same peer twice has a socket for each ([`Endpoint::dial_from`]).
//!
//! The WebRTC itself is str0m's. Media that is offered is answered `inactive`: here are data channels only.

mod link;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoke_kibitz::mesh::fingerprint;
use convoke_kibitz::mesh::pack::Value;
use convoke_kibitz::signal::Message;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use str0m::change::{SdpAnswer, SdpOffer};
use str0m::config::{CryptoProvider, DtlsCert};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Input, Rtc};

use crate::link::{Happened, Link};

/// How long a connection may take until its channel is open.
const OPEN_WITHIN: Duration = Duration::from_secs(20);
/// Largest session description that is read.
const MAX_SDP: usize = 48 * 1024;

/// One connection to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(u64);

/// How an endpoint is reached, and how much it takes.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where it is reached by who dials it, and whence it dials.
    pub address: SocketAddr,
    /// It has an address that everybody reaches, and so only answers checks (ICE-lite).
    pub lite: bool,
    /// Most connections, and most of them that are not open yet.
    pub links: (usize, usize),
}

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// No certificate.
    #[error("cannot create a certificate")]
    Certificate,
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// Tell this to the broker.
    Signal(Message),
    /// A data channel is open.
    Open {
        /// The connection.
        link: LinkId,
        /// Under which of our ids.
        me: String,
        /// The other's.
        peer: String,
        /// The fingerprint of the certificate that it showed.
        fingerprint: String,
    },
    /// A message came.
    Message(LinkId, Value),
    /// The connection is gone.
    Closed {
        /// The connection.
        link: LinkId,
        /// Under which of our ids.
        me: String,
        /// The other's.
        peer: String,
    },
}

/// A datagram to send.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// From which of our addresses.
    pub from: SocketAddr,
    /// To whom.
    pub to: SocketAddr,
    /// What.
    pub bytes: Vec<u8>,
}

/// All connections with one certificate.
pub struct Endpoint {
    config: Config,
    provider: Arc<CryptoProvider>,
    certificate: DtlsCert,
    fingerprint: String,
    /// The certificates of ids that have one of their own.
    certificates: HashMap<String, DtlsCert>,
    links: BTreeMap<LinkId, Link>,
    /// Who sends from where, so that not every connection is asked about every datagram.
    senders: HashMap<(SocketAddr, SocketAddr), LinkId>,
    next: u64,
    sending: VecDeque<Datagram>,
    events: VecDeque<Event>,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("fingerprint", &self.fingerprint).field("links", &self.links.len()).finish()
    }
}

/// What an offer, an answer or a candidate carries.
#[derive(Deserialize)]
struct Payload {
    #[serde(default)]
    sdp: Option<Sdp>,
    #[serde(default, rename = "type")]
    kind: Option<String>,
    #[serde(default, rename = "connectionId")]
    connection: Option<String>,
    #[serde(default)]
    serialization: Option<String>,
    #[serde(default)]
    candidate: Option<Trickled>,
}

#[derive(Deserialize)]
struct Sdp {
    sdp: String,
}

#[derive(Deserialize)]
struct Trickled {
    #[serde(default)]
    candidate: Option<String>,
}

impl Endpoint {
    /// One without connections, with a fresh certificate.
    pub fn new(config: Config) -> Result<Self, EndpointError> {
        let provider = Arc::new(str0m::crypto::from_feature_flags());
        let certificate = provider.dtls_provider.generate_certificate().ok_or(EndpointError::Certificate)?;
        let fingerprint = fingerprint(&provider.sha256_provider.sha256(&certificate.certificate));
        let (links, senders) = (BTreeMap::new(), HashMap::new());
        let (sending, events) = (VecDeque::new(), VecDeque::new());
        let certificates = HashMap::new();
        Ok(Self {
            config,
            provider,
            certificate,
            fingerprint,
            certificates,
            links,
            senders,
            next: 0,
            sending,
            events,
        })
    }

    /// From now on one of our ids has a certificate of its own.
    pub fn certify(&mut self, me: &str) -> Result<(), EndpointError> {
        let certificate = self.provider.dtls_provider.generate_certificate().ok_or(EndpointError::Certificate)?;
        self.certificates.insert(me.to_owned(), certificate);
        Ok(())
    }

    /// One of our ids is nobody's any more: its connections close.
    pub fn retire(&mut self, me: &str, now: Instant) {
        self.certificates.remove(me);
        let (open, opening): (Vec<_>, Vec<_>) = self
            .links
            .iter()
            .filter(|(_, link)| link.is_of(me))
            .map(|(id, link)| (*id, link.is_open()))
            .partition(|(_, is_open)| *is_open);
        open.into_iter().for_each(|(id, _)| self.close(id, now));
        opening.into_iter().for_each(|(id, _)| self.forget(id));
    }

    /// The fingerprint of its certificate.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// A datagram to send.
    pub fn next_datagram(&mut self) -> Option<Datagram> {
        self.sending.pop_front()
    }

    /// Something that happened.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`Endpoint::on_time`] is due next.
    pub fn due(&self) -> Option<Instant> {
        self.links.values().map(Link::due).min()
    }

    fn rtc(&self, me: &str, address: SocketAddr, now: Instant) -> Option<Rtc> {
        let certificate = self.certificates.get(me).unwrap_or(&self.certificate);
        let mut rtc = str0m::RtcConfig::new()
            .set_crypto_provider(Arc::clone(&self.provider))
            .set_dtls_cert(certificate.clone())
            .set_ice_lite(self.config.lite)
            .build(now);
        rtc.add_local_candidate(Candidate::host(address, "udp").ok()?);
        Some(rtc)
    }

    fn is_full(&self) -> bool {
        let opening = self.links.values().filter(|link| !link.is_open()).count();
        self.links.len() >= self.config.links.0 || opening >= self.config.links.1
    }

    /// Dials a peer under one of our ids.
    pub fn dial(&mut self, me: &str, peer: &str, now: Instant) -> Option<LinkId> {
        self.dial_from(self.config.address, me, peer, now)
    }

    /// Dials a peer under one of our ids, from another of our addresses.
    pub fn dial_from(&mut self, address: SocketAddr, me: &str, peer: &str, now: Instant) -> Option<LinkId> {
        if self.is_full() {
            return None;
        }
        let mut rtc = self.rtc(me, address, now)?;
        self.next += 1;
        let id = LinkId(self.next);
        // Bound to our certificate and counted: nobody else's connection has the same.
        let connection = format!("dc_{}{:x}", &self.fingerprint.replace(':', "")[..12], self.next);
        let label = connection.clone();
        let mut api = rtc.sdp_api();
        let channel = api.add_channel(label.clone());
        let (offer, pending) = api.apply()?;
        let payload = json!({
            "sdp": { "type": "offer", "sdp": offer.to_sdp_string() }, "type": "data", "connectionId": connection,
            "label": label, "reliable": true, "serialization": "binary",
        });
        self.signal("OFFER", me, peer, &payload);
        let mut link = Link::new((rtc, address), me, peer, &connection, now + OPEN_WITHIN);
        link.dialled(channel, pending);
        self.links.insert(id, link);
        self.drive(id, now);
        Some(id)
    }

    fn signal(&mut self, kind: &str, me: &str, peer: &str, payload: &serde_json::Value) {
        let payload = to_raw_value(payload).ok();
        let (kind, src, dst) = (kind.into(), Some(me.to_owned()), Some(peer.to_owned()));
        self.events.push_back(Event::Signal(Message { kind, src, dst, payload }));
    }

    /// The broker passed on what a peer told one of our ids.
    pub fn on_signal(&mut self, message: &Message, now: Instant) {
        let (Some(me), Some(peer)) = (message.dst.as_deref(), message.src.as_deref()) else { return };
        if matches!(message.kind.as_str(), "EXPIRE" | "LEAVE") {
            // Nobody holds that id: what was dialled will not open.
            let waits = |link: &Link| link.is_between(me, peer) && (!link.is_open() || message.kind == "LEAVE");
            let gone: Vec<LinkId> = self.links.iter().filter(|(_, link)| waits(link)).map(|(id, _)| *id).collect();
            return gone.into_iter().for_each(|id| self.forget(id));
        }
        let Some(payload) = message.payload.as_deref().and_then(payload) else { return };
        let Some(connection) = payload.connection.as_deref() else { return };
        let found = self.links.iter().find(|(_, link)| link.is(me, peer, connection)).map(|(id, _)| *id);
        match (message.kind.as_str(), found, payload.sdp, payload.candidate) {
            ("OFFER", None, Some(sdp), _) => {
                let media = payload.kind.as_deref() == Some("media");
                let plain =
                    payload.serialization.as_deref().is_none_or(|s| s.starts_with("binary") || s == "default");
                if media || plain {
                    self.answer(me, peer, connection, &sdp.sdp, media, now);
                }
            }
            ("ANSWER", Some(id), Some(sdp), _) => {
                let answered = SdpAnswer::from_sdp_string(&sdp.sdp).ok();
                let taken = self.links.get_mut(&id).zip(answered).is_some_and(|(link, sdp)| link.answered(sdp));
                if taken { self.drive(id, now) } else { self.forget(id) }
            }
            ("CANDIDATE", Some(id), _, Some(Trickled { candidate: Some(text) })) => {
                // Names that only the browser's own network resolves are no address; the peer's checks bring its own.
                if let (Ok(candidate), Some(link)) = (Candidate::from_sdp_string(&text), self.links.get_mut(&id)) {
                    link.add_candidate(candidate);
                    self.drive(id, now);
                }
            }
            _ => {}
        }
    }

    fn answer(&mut self, me: &str, peer: &str, connection: &str, sdp: &str, media: bool, now: Instant) {
        if self.is_full() {
            tracing::debug!(peer, "an offer was left unanswered: too many connections");
            return;
        }
        let Some(mut rtc) = self.rtc(me, self.config.address, now) else { return };
        let answer = SdpOffer::from_sdp_string(sdp).map_err(|why| why.to_string());
        let answer = answer.and_then(|offer| rtc.sdp_api().accept_offer(offer).map_err(|why| why.to_string()));
        let text = match answer {
            Ok(answer) => answer.to_sdp_string(),
            Err(why) => return tracing::debug!(peer, why, "cannot answer an offer"),
        };
        let kind = if media { "media" } else { "data" };
        let text = if media { inactive(&text) } else { text };
        let payload = json!({ "sdp": { "type": "answer", "sdp": text }, "type": kind, "connectionId": connection });
        self.signal("ANSWER", me, peer, &payload);
        self.next += 1;
        let id = LinkId(self.next);
        self.links.insert(
            id,
            Link::new((rtc, self.config.address), me, peer, connection, now + OPEN_WITHIN).for_media(media),
        );
        self.drive(id, now);
    }

    /// Sends a message. False when the connection is gone or does not keep up; then it is closed.
    pub fn send(&mut self, id: LinkId, value: &Value, now: Instant) -> bool {
        let taken = self.links.get_mut(&id).is_some_and(|link| link.send(value));
        if taken {
            self.drive(id, now)
        } else {
            self.forget(id)
        }
        taken
    }

    /// Closes a connection, after what was sent on it.
    pub fn close(&mut self, id: LinkId, now: Instant) {
        if let Some(link) = self.links.get_mut(&id) {
            link.say_goodbye(now);
            self.drive(id, now);
        }
    }

    /// Where a connection's datagrams come from.
    pub fn address_of(&self, id: LinkId) -> Option<IpAddr> {
        self.senders.iter().find(|(_, link)| **link == id).map(|((from, _), _)| from.ip())
    }

    /// Drops a connection at once, without a word.
    pub fn abandon(&mut self, id: LinkId) {
        self.forget(id);
    }

    /// A datagram came.
    pub fn on_datagram(&mut self, from: SocketAddr, to: SocketAddr, bytes: &[u8], now: Instant) {
        let input =
            |to| Receive::new(Protocol::Udp, from, to, bytes).ok().map(|receive| Input::Receive(now, receive));
        let Some(asked) = input(to) else { return };
        let known = self
            .senders
            .get(&(from, to))
            .copied()
            .filter(|id| self.links.get(id).is_some_and(|l| l.accepts(to, &asked)));
        let found = known.or_else(|| self.links.iter().find(|(_, link)| link.accepts(to, &asked)).map(|(id, _)| *id));
        let Some(id) = found else { return };
        self.senders.insert((from, to), id);
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.on_input(asked) { self.drive(id, now) } else { self.forget(id) }
    }

    /// Does what is due.
    pub fn on_time(&mut self, now: Instant) {
        let due: Vec<LinkId> = self.links.iter().filter(|(_, link)| link.due() <= now).map(|(id, _)| *id).collect();
        for id in due {
            let lives =
                self.links.get_mut(&id).is_some_and(|link| !link.is_late(now) && link.on_input(Input::Timeout(now)));
            if lives { self.drive(id, now) } else { self.forget(id) }
        }
    }

    /// Takes out of a connection what it has to say.
    fn drive(&mut self, id: LinkId, now: Instant) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let mut ends = !link.poll(now, &mut self.sending);
        for happened in link.take_happened() {
            let (me, peer) = link.ends();
            self.events.push_back(match happened {
                Happened::Open(fingerprint) => Event::Open { link: id, me, peer, fingerprint },
                Happened::Value(value) => Event::Message(id, value),
                Happened::Closed => {
                    ends = true;
                    continue;
                }
            });
        }
        if ends {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        self.senders.retain(|_, link| *link != id);
        let (me, peer) = link.ends();
        self.events.push_back(Event::Closed { link: id, me, peer });
    }
}

fn payload(raw: &RawValue) -> Option<Payload> {
    let fits = raw.get().len() <= MAX_SDP;
    fits.then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

/// The answer to an offer of media that says that none is sent and none is wanted.
fn inactive(sdp: &str) -> String {
    let line = |line: &str| match line.trim_end() {
        "a=sendrecv" | "a=recvonly" | "a=sendonly" => "a=inactive\r\n".to_owned(),
        other => format!("{other}\r\n"),
    };
    sdp.lines().map(line).collect()
}
