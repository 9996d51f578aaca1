//! One connection to one peer: WebRTC, its one data channel, and the messages on it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::Datagram;
use convoke_kibitz::mesh::chunk::{Assembler, Chunker, Taken};
use convoke_kibitz::mesh::fingerprint;
use convoke_kibitz::mesh::pack::Value;
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::channel::ChannelId;
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc};

/// Most bytes that may wait for a peer that does not read.
const MAX_WAITING: usize = 4 * 1024 * 1024;
/// Messages in a row that are none.
const MAX_MALFORMED: u8 = 8;
/// How long what was sent before a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// What happened on a connection.
pub(crate) enum Happened {
    /// Its channel opened; the certificate of the other end has this fingerprint.
    Open(String),
    /// A message came.
    Value(Value),
    /// It ended.
    Closed,
}

pub(crate) struct Link {
    rtc: Rtc,
    /// Our end of it.
    address: SocketAddr,
    me: String,
    peer: String,
    connection: String,
    is_media: bool,
    channel: Option<ChannelId>,
    is_open: bool,
    pending: Option<SdpPendingOffer>,
    chunker: Chunker,
    assembler: Assembler,
    malformed: u8,
    waiting: VecDeque<Vec<u8>>,
    waiting_bytes: usize,
    happened: Vec<Happened>,
    due: Instant,
    /// Until when it must be open, or gone.
    deadline: Option<Instant>,
}

impl Link {
    pub(crate) fn new(
        (rtc, address): (Rtc, SocketAddr),
        me: &str,
        peer: &str,
        connection: &str,
        deadline: Instant,
    ) -> Self {
        Self {
            rtc,
            address,
            me: me.into(),
            peer: peer.into(),
            connection: connection.into(),
            is_media: false,
            channel: None,
            is_open: false,
            pending: None,
            chunker: Chunker::default(),
            assembler: Assembler::default(),
            malformed: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            happened: Vec::new(),
            due: deadline,
            deadline: Some(deadline),
        }
    }

    pub(crate) fn for_media(mut self, is_media: bool) -> Self {
        self.is_media = is_media;
        self
    }

    pub(crate) fn dialled(&mut self, channel: ChannelId, pending: SdpPendingOffer) {
        self.channel = Some(channel);
        self.pending = Some(pending);
    }

    pub(crate) fn is(&self, me: &str, peer: &str, connection: &str) -> bool {
        self.is_between(me, peer) && self.connection == connection
    }

    pub(crate) fn is_between(&self, me: &str, peer: &str) -> bool {
        self.me == me && self.peer == peer
    }

    pub(crate) fn is_of(&self, me: &str) -> bool {
        self.me == me
    }

    pub(crate) fn ends(&self) -> (String, String) {
        (self.me.clone(), self.peer.clone())
    }

    pub(crate) const fn is_open(&self) -> bool {
        self.is_open
    }

    pub(crate) fn due(&self) -> Instant {
        self.deadline.map_or(self.due, |deadline| deadline.min(self.due))
    }

    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now >= deadline)
    }

    /// Whether a datagram that came to this address is its. Of two connections to the same peer each has its own.
    pub(crate) fn accepts(&self, to: SocketAddr, input: &Input<'_>) -> bool {
        self.address == to && self.rtc.accepts(input)
    }

    /// The answer to what was offered. False when it fits nothing.
    pub(crate) fn answered(&mut self, answer: SdpAnswer) -> bool {
        let Some(pending) = self.pending.take() else { return false };
        self.rtc.sdp_api().accept_answer(pending, answer).is_ok()
    }

    pub(crate) fn add_candidate(&mut self, candidate: Candidate) {
        self.rtc.add_remote_candidate(candidate);
    }

    /// False when the connection is broken.
    pub(crate) fn on_input(&mut self, input: Input<'_>) -> bool {
        self.rtc.handle_input(input).is_ok()
    }

    /// Sends a message, as soon as there is room. False when the peer does not keep up.
    pub(crate) fn send(&mut self, value: &Value) -> bool {
        if !self.is_open {
            return false;
        }
        for piece in self.chunker.cut(value) {
            self.waiting_bytes += piece.len();
            self.waiting.push_back(piece);
        }
        self.waiting_bytes <= MAX_WAITING
    }

    /// Tells the other end, and gives it a moment to hear it.
    pub(crate) fn say_goodbye(&mut self, now: Instant) {
        let close = Value::Map(vec![("type".into(), Value::Text("close".into()))]);
        let _ = self.send(&Value::Map(vec![("__peerData".into(), close)]));
        self.deadline = Some(now + GOODBYE);
    }

    pub(crate) fn take_happened(&mut self) -> Vec<Happened> {
        std::mem::take(&mut self.happened)
    }

    /// Runs until it waits for something. False when it has ended.
    pub(crate) fn poll(&mut self, now: Instant, sending: &mut VecDeque<Datagram>) -> bool {
        loop {
            self.write();
            match self.rtc.poll_output() {
                Ok(Output::Timeout(at)) => {
                    self.due = at.max(now);
                    return self.rtc.is_alive();
                }
                Ok(Output::Transmit(out)) => {
                    sending.push_back(Datagram {
                        from: out.source,
                        to: out.destination,
                        bytes: out.contents.to_vec(),
                    });
                }
                Ok(Output::Event(event)) => self.on_event(event),
                Err(why) => {
                    tracing::debug!(%why, peer = self.peer, "a WebRTC connection failed");
                    return false;
                }
            }
        }
    }

    fn write(&mut self) {
        let Some(mut channel) = self.channel.filter(|_| self.is_open).and_then(|id| self.rtc.channel(id)) else {
            return;
        };
        while let Some(piece) = self.waiting.front() {
            if !matches!(channel.write(true, piece), Ok(true)) {
                return;
            }
            self.waiting_bytes -= piece.len();
            self.waiting.pop_front();
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::ChannelOpen(id, _) if !self.is_open && self.channel.is_none_or(|ours| ours == id) => {
                let shown = self.rtc.direct_api().remote_dtls_fingerprint().map(|print| fingerprint(&print.bytes));
                let Some(shown) = shown else { return self.happened.push(Happened::Closed) };
                (self.channel, self.is_open, self.deadline) = (Some(id), true, None);
                self.happened.push(Happened::Open(shown));
            }
            Event::ChannelData(data) if Some(data.id) == self.channel => match self.assembler.take(&data.data) {
                Ok(Taken::Value(value)) => {
                    self.malformed = 0;
                    self.happened.push(Happened::Value(value));
                }
                Ok(Taken::Piece) => {}
                Ok(Taken::Close) => self.happened.push(Happened::Closed),
                Err(why) => {
                    tracing::debug!(%why, peer = self.peer, "a message on a data channel is none");
                    self.malformed += 1;
                    if self.malformed >= MAX_MALFORMED {
                        self.happened.push(Happened::Closed);
                    }
                }
            },
            Event::ChannelClose(id) if Some(id) == self.channel => self.happened.push(Happened::Closed),
            // A connection of media has no channel; it is kept as long as it lives.
            Event::Connected if self.is_media => self.deadline = None,
            Event::IceConnectionStateChange(IceConnectionState::Disconnected) => {
                self.happened.push(Happened::Closed);
            }
            _ => {}
        }
    }
}
