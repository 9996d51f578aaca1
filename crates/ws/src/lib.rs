//! WebSocket frames (RFC 6455, either side) from bytes, with a limit that can change while the connection lives.
//!
//! The header parser is tungstenite's. Its connection type is not used, for two reasons: it reserves a frame's
//! announced length before a byte of it has come, so that a stranger could make the hub reserve sixteen megabytes with
//! fourteen bytes; and it keeps a read buffer for as long as the connection lives, which ten thousand idle agents pay
//! for. Here an idle connection holds no buffer at all.

use std::io::Cursor;
use std::mem;

use tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tungstenite::protocol::frame::{FrameHeader, coding::CloseCode};

/// Something that arrived whole.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A text message.
    Text(String),
    /// A binary message.
    Binary(Vec<u8>),
    /// A ping, to be answered with the same bytes.
    Ping(Vec<u8>),
    /// A pong, with the bytes of the ping it answers.
    Pong(Vec<u8>),
    /// The other side closes, with its code and its reason.
    Close(Option<u16>, String),
    /// A message that is not kept. Nothing more is heard of it. Whoever gave it up says this ([`Decoder::skip`]).
    Skipped(Skipped),
}

/// What is left of a message that was not kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Skipped {
    /// How it began, as far as it was here when it was given up: [`Skipped::KEPT`] bytes at the most.
    pub start: Vec<u8>,
    /// How long it is, as far as its frames have said.
    pub size: u64,
}

impl Skipped {
    /// Enough to tell whose message it was.
    pub const KEPT: usize = 1024;
}

/// A message that is not kept, while it still comes in.
#[derive(Debug)]
struct Skipping {
    size: u64,
    /// The frame of it that is under way: bytes that are still to come, and whether it is the last one.
    frame: Option<(usize, bool)>,
}

/// Why the connection must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WsError {
    /// A message over the limit.
    #[error("a message of {size} bytes is over the limit of {limit}")]
    TooLarge {
        /// Announced or gathered.
        size: u64,
        /// In force.
        limit: usize,
    },
    /// Text that is not UTF-8.
    #[error("a text message is not UTF-8")]
    NotUtf8,
    /// Something RFC 6455 does not allow.
    #[error("{0}")]
    Protocol(&'static str),
}

impl WsError {
    /// The code to close with.
    pub const fn close_code(self) -> u16 {
        match self {
            Self::TooLarge { .. } => 1009,
            Self::NotUtf8 => 1007,
            Self::Protocol(_) => 1002,
        }
    }
}

/// Whose end of the connection decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Server,
    Client,
}

/// The decoder: bytes in, events out.
#[derive(Debug)]
pub struct Decoder {
    side: Side,
    buffer: Vec<u8>,
    /// Where in `buffer` the next frame starts.
    start: usize,
    header: Option<(FrameHeader, usize)>,
    /// A message that comes in several frames: its kind and what is there.
    partial: Option<(Data, Vec<u8>)>,
    /// Boxed: hardly any connection ever has one.
    skipping: Option<Box<Skipping>>,
    limit: usize,
}

impl Decoder {
    /// A server's decoder, which takes messages of at most `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { side: Side::Server, buffer: Vec::new(), start: 0, header: None, partial: None, skipping: None, limit }
    }

    /// A client's decoder, which takes messages of at most `limit` bytes.
    pub fn client(limit: usize) -> Self {
        Self { side: Side::Client, ..Self::new(limit) }
    }

    /// Takes messages of at most `limit` bytes from now on.
    pub const fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes bytes that arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        let whole = self.header.as_ref().map(|(_, length)| self.start + length);
        if whole == Some(self.buffer.len() + bytes.len()) {
            // The last piece: what the buffer holds then may become the message, which should not be larger than it is.
            self.buffer.reserve_exact(bytes.len());
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The buffer to read into directly, and how many bytes the frame under way still needs. Only worth it for large
    /// frames: it grows by at most `chunk` bytes, whatever was announced.
    pub fn buffer(&mut self, chunk: usize) -> Option<&mut Vec<u8>> {
        let (_, length) = self.header.as_ref()?;
        let missing = (self.start + length).saturating_sub(self.buffer.len());
        if missing <= chunk {
            return None;
        }
        self.buffer.reserve(chunk);
        Some(&mut self.buffer)
    }

    /// The message under way, if it is to be kept: how much of it is here, and how long it is or may become at the most.
    pub fn under_way(&self) -> Option<(usize, usize)> {
        let gathered = self.partial.as_ref().map(|(_, bytes)| bytes.len());
        match &self.header {
            Some((header, length)) if matches!(header.opcode, OpCode::Data(_)) => {
                let before = gathered.unwrap_or(0);
                let whole = if header.is_final { before + length } else { self.limit };
                Some((before + self.buffer.len() - self.start, whole))
            }
            _ => gathered.map(|gathered| (gathered, self.limit)),
        }
    }

    /// Reserves memory for the whole of the frame under way, for a caller that has counted it against a budget.
    pub fn reserve(&mut self) {
        if let Some((_, length)) = &self.header {
            self.buffer.reserve_exact((self.start + length).saturating_sub(self.buffer.len()));
        }
    }

    /// The message under way is not kept: what is here of it goes, and so does what still comes.
    pub fn skip(&mut self) -> Option<Skipped> {
        if self.skipping.is_some() {
            return None;
        }
        let header = self.header.take_if(|(header, _)| matches!(header.opcode, OpCode::Data(_)));
        if header.is_none() && self.partial.is_none() {
            return None;
        }
        let mut start = self.partial.take().map(|(_, bytes)| bytes).unwrap_or_default();
        let mut size = start.len() as u64;
        start.truncate(Skipped::KEPT);
        let mut frame = None;
        if let Some((header, length)) = header {
            let mut here = mem::take(&mut self.buffer);
            self.buffer = here.split_off((self.start + length).min(here.len()));
            here.drain(..mem::take(&mut self.start));
            let mut wanted = here[..here.len().min(Skipped::KEPT - start.len())].to_vec();
            apply_mask(&mut wanted, header.mask.unwrap_or_default());
            start.append(&mut wanted);
            size += length as u64;
            frame = Some((length - here.len(), header.is_final));
        }
        start.shrink_to_fit();
        self.skipping = Some(Box::new(Skipping { size, frame }));
        Some(Skipped { start, size })
    }

    /// The next event, once it is whole.
    pub fn next_event(&mut self) -> Result<Option<Event>, WsError> {
        loop {
            if !self.pass_over() {
                return Ok(None);
            }
            let Some((header, length)) = self.header()? else { return Ok(None) };
            if let (Some(skipping), OpCode::Data(data)) = (&mut self.skipping, header.opcode) {
                if data != Data::Continue {
                    return Err(WsError::Protocol("a new message inside another"));
                }
                skipping.size += length as u64;
                skipping.frame = Some((length, header.is_final));
                continue;
            }
            if self.buffer.len() - self.start < length {
                self.header = Some((header, length));
                return Ok(None);
            }
            let end = self.start + length;
            let alone = self.is_alone(end);
            let payload = &mut self.buffer[self.start..end];
            if let Some(mask) = header.mask {
                apply_mask(payload, mask);
            }
            let event = match header.opcode {
                OpCode::Control(control) => Some(control_event(control, payload)?),
                OpCode::Data(kind @ (Data::Text | Data::Binary)) if header.is_final && alone => {
                    let mut bytes = mem::take(&mut self.buffer);
                    bytes.drain(..mem::take(&mut self.start));
                    return message(kind, bytes).map(Some);
                }
                OpCode::Data(data) => gather(&mut self.partial, data, header.is_final, payload)?,
            };
            self.start = end;
            self.give_back();
            if let Some(event) = event {
                return Ok(Some(event));
            }
        }
    }

    /// Lets go of what is here of a frame that is not kept. Whether that was all of it.
    fn pass_over(&mut self) -> bool {
        let Some(skipping) = &mut self.skipping else { return true };
        let Some((left, is_last)) = &mut skipping.frame else { return true };
        let here = (*left).min(self.buffer.len() - self.start);
        (*left, self.start) = (*left - here, self.start + here);
        let is_all = *left == 0;
        if is_all && *is_last {
            self.skipping = None;
        } else if is_all {
            skipping.frame = None;
        }
        self.give_back();
        is_all
    }

    /// The header of the frame under way, checked.
    fn header(&mut self) -> Result<Option<(FrameHeader, usize)>, WsError> {
        if let Some(header) = self.header.take() {
            return Ok(Some(header));
        }
        let mut cursor = Cursor::new(&self.buffer[self.start..]);
        let parsed = FrameHeader::parse(&mut cursor).map_err(|_| WsError::Protocol("malformed frame header"))?;
        let Some((header, length)) = parsed else { return Ok(None) };
        if header.rsv1 || header.rsv2 || header.rsv3 {
            return Err(WsError::Protocol("reserved bits are set, but no extension was agreed on"));
        }
        match (self.side, header.mask) {
            (Side::Server, Some(_)) | (Side::Client, None) => {}
            (Side::Server, None) => return Err(WsError::Protocol("a client's frame must be masked")),
            (Side::Client, Some(_)) => return Err(WsError::Protocol("a server's frame must not be masked")),
        }
        if matches!(header.opcode, OpCode::Control(_)) && (length > 125 || !header.is_final) {
            return Err(WsError::Protocol("a control frame is small and whole"));
        }
        let gathered = match (&self.skipping, &self.partial) {
            (Some(skipping), _) => skipping.size,
            (None, Some((_, bytes))) => bytes.len() as u64,
            (None, None) => 0,
        };
        let size = length.saturating_add(gathered);
        if size > self.limit as u64 {
            return Err(WsError::TooLarge { size, limit: self.limit });
        }
        self.start += usize::try_from(cursor.position()).unwrap_or(usize::MAX);
        Ok(Some((header, usize::try_from(length).unwrap_or(usize::MAX))))
    }

    /// Whether the frame that ends at `end` is all that the buffer holds, and the buffer hardly larger than it: then it
    /// can be the message, without a copy.
    fn is_alone(&self, end: usize) -> bool {
        self.partial.is_none() && end == self.buffer.len() && self.buffer.capacity() <= end + end / 4
    }

    /// Once all is read the buffer goes back: an idle connection holds none.
    fn give_back(&mut self) {
        if self.start == self.buffer.len() {
            self.buffer = Vec::new();
            self.start = 0;
        } else if self.start > 64 * 1024 {
            // A large message leaves no memory behind.
            self.buffer = self.buffer.split_off(self.start);
            self.start = 0;
        }
    }
}

fn control_event(control: Control, payload: &[u8]) -> Result<Event, WsError> {
    match control {
        Control::Ping => Ok(Event::Ping(payload.to_vec())),
        Control::Pong => Ok(Event::Pong(payload.to_vec())),
        Control::Close => match payload {
            [] => Ok(Event::Close(None, String::new())),
            [high, low, reason @ ..] => {
                let code = u16::from_be_bytes([*high, *low]);
                match std::str::from_utf8(reason) {
                    Ok(reason) if CloseCode::from(code).is_allowed() => {
                        Ok(Event::Close(Some(code), reason.to_owned()))
                    }
                    _ => Err(WsError::Protocol("malformed close frame")),
                }
            }
            [_] => Err(WsError::Protocol("malformed close frame")),
        },
        Control::Reserved(_) => Err(WsError::Protocol("unknown control frame")),
    }
}

fn gather(
    partial: &mut Option<(Data, Vec<u8>)>,
    data: Data,
    is_final: bool,
    payload: &[u8],
) -> Result<Option<Event>, WsError> {
    let (kind, bytes) = match (data, partial.take()) {
        (Data::Continue, Some((kind, mut bytes))) => {
            bytes.extend_from_slice(payload);
            (kind, bytes)
        }
        (Data::Continue, None) => return Err(WsError::Protocol("a continuation of nothing")),
        (Data::Text | Data::Binary, Some(_)) => {
            return Err(WsError::Protocol("a new message inside another"));
        }
        (kind @ (Data::Text | Data::Binary), None) => (kind, payload.to_vec()),
        (Data::Reserved(_), _) => return Err(WsError::Protocol("unknown data frame")),
    };
    if !is_final {
        *partial = Some((kind, bytes));
        return Ok(None);
    }
    message(kind, bytes).map(Some)
}

fn message(kind: Data, bytes: Vec<u8>) -> Result<Event, WsError> {
    match kind {
        Data::Text => String::from_utf8(bytes).map(Event::Text).map_err(|_| WsError::NotUtf8),
        _ => Ok(Event::Binary(bytes)),
    }
}

/// Masks a payload, or unmasks it. Word by word, which the compiler vectorises.
pub fn apply_mask(payload: &mut [u8], mask: [u8; 4]) {
    let [a, b, c, d] = mask;
    let wide = u64::from_ne_bytes([a, b, c, d, a, b, c, d]);
    let (words, rest) = payload.as_chunks_mut();
    for word in words {
        *word = (u64::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(wide.to_ne_bytes()) {
        *byte ^= mask;
    }
}

/// The fuzz target's body: whatever the bytes, in whatever pieces, the decoder ends in order and within its limit.
pub fn exercise(bytes: &[u8]) {
    run_through(Decoder::new(1024), bytes);
    run_through(Decoder::client(1024), bytes);
}

fn run_through(mut decoder: Decoder, bytes: &[u8]) {
    for piece in bytes.chunks(bytes.len() % 7 + 1) {
        decoder.feed(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(Event::Text(text))) => assert!(text.len() <= 1024),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(decoder.buffer.len() <= 1024 + 32 + 64 * 1024 + 7);
        if decoder.under_way().is_some_and(|(here, _)| here > 200) {
            let skipped = decoder.skip();
            assert!(skipped.is_some_and(|Skipped { start, size }| start.len() as u64 <= size && size <= 1024));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tungstenite::protocol::frame::Frame;

    use super::*;

    fn client_frame(data: &[u8], opcode: OpCode, is_final: bool) -> Vec<u8> {
        let mask = Some([1, 2, 3, 4]);
        let header = FrameHeader { is_final, rsv1: false, rsv2: false, rsv3: false, opcode, mask };
        let frame = Frame::from_payload(header, data.to_vec().into());
        let mut out = Vec::new();
        frame.format(&mut out).expect("writes to memory");
        out
    }

    fn text(data: &[u8]) -> Vec<u8> {
        client_frame(data, OpCode::Data(Data::Text), true)
    }

    fn run(bytes: &[u8], limit: usize) -> Result<Vec<Event>, WsError> {
        let mut decoder = Decoder::new(limit);
        decoder.feed(bytes);
        let mut events = Vec::new();
        while let Some(event) = decoder.next_event()? {
            events.push(event);
        }
        Ok(events)
    }

    #[test]
    fn a_message_comes_out_as_it_was_sent() {
        assert_eq!(run(&text("grüße".as_bytes()), 100), Ok(vec![Event::Text("grüße".into())]));
    }

    #[test]
    fn fragments_join_with_a_ping_between() {
        let mut bytes = client_frame(b"ab", OpCode::Data(Data::Text), false);
        bytes.extend(client_frame(b"?", OpCode::Control(Control::Ping), true));
        bytes.extend(client_frame(b"cd", OpCode::Data(Data::Continue), true));
        assert_eq!(run(&bytes, 100), Ok(vec![Event::Ping(b"?".to_vec()), Event::Text("abcd".into())]));
    }

    #[test]
    fn fragments_count_together_against_the_limit() {
        let mut bytes = client_frame(&[b'x'; 60], OpCode::Data(Data::Text), false);
        bytes.extend(client_frame(&[b'x'; 60], OpCode::Data(Data::Continue), true));
        assert_eq!(run(&bytes, 100), Err(WsError::TooLarge { size: 120, limit: 100 }));
    }

    #[test]
    fn an_announced_length_reserves_nothing() {
        let header = &text(&vec![b'x'; 100_000])[..14];
        let mut decoder = Decoder::new(1 << 24);
        decoder.feed(header);
        assert_eq!(decoder.next_event(), Ok(None));
        assert!(decoder.buffer.capacity() < 1024);
    }

    #[test]
    fn a_message_in_two_pieces_takes_no_more_than_its_length() {
        let frame = text(&[b'x'; 6000]);
        let mut decoder = Decoder::new(10_000);
        decoder.feed(&frame[..4096]);
        assert_eq!(decoder.next_event(), Ok(None));
        decoder.feed(&frame[4096..]);
        let Ok(Some(Event::Text(text))) = decoder.next_event() else { panic!("a text was sent") };
        assert_eq!(text.len(), 6000);
        assert_eq!(text.capacity(), frame.len(), "the read buffer itself");
        assert_eq!(decoder.buffer.capacity(), 0);
    }

    #[test]
    fn a_message_does_not_keep_a_buffer_much_larger_than_itself() {
        let frame = text(&[b'x'; 100]);
        let mut decoder = Decoder::new(10_000);
        decoder.buffer.reserve(4096);
        decoder.feed(&frame);
        let Ok(Some(Event::Text(text))) = decoder.next_event() else { panic!("a text was sent") };
        assert_eq!(text.capacity(), 100);
    }

    #[test]
    fn the_limit_can_grow_while_the_connection_lives() {
        let mut decoder = Decoder::new(10);
        decoder.feed(&text(b"short"));
        assert_eq!(decoder.next_event(), Ok(Some(Event::Text("short".into()))));
        assert_eq!(decoder.buffer.capacity(), 0, "an idle connection holds no buffer");
        decoder.set_limit(100);
        decoder.feed(&text(&[b'x'; 50]));
        assert!(matches!(decoder.next_event(), Ok(Some(Event::Text(_)))));
    }

    #[test]
    fn a_client_reads_what_servers_write_and_nothing_masked() {
        let mut bytes = Vec::new();
        let frame = Frame::message(b"hello".to_vec(), OpCode::Data(Data::Text), true);
        frame.format(&mut bytes).expect("memory");
        let mut decoder = Decoder::client(10);
        decoder.feed(&bytes);
        assert_eq!(decoder.next_event(), Ok(Some(Event::Text("hello".into()))));
        decoder.feed(&text(b"x"));
        assert!(matches!(decoder.next_event(), Err(WsError::Protocol(_))));
    }

    #[test]
    fn what_the_rfc_forbids_ends_the_connection() {
        let mut unmasked = Vec::new();
        Frame::message(b"x".to_vec(), OpCode::Data(Data::Text), true).format(&mut unmasked).expect("memory");
        assert!(matches!(run(&unmasked, 10), Err(WsError::Protocol(_))));
        assert_eq!(run(&text(&[0xff]), 10), Err(WsError::NotUtf8));
        let orphan = client_frame(b"x", OpCode::Data(Data::Continue), true);
        assert!(matches!(run(&orphan, 10), Err(WsError::Protocol(_))));
        let mut reserved = text(b"x");
        reserved[0] |= 0x40;
        assert!(matches!(run(&reserved, 10), Err(WsError::Protocol(_))));
        let close = client_frame(&[0x03, 0xed], OpCode::Control(Control::Close), true);
        assert!(matches!(run(&close, 10), Err(WsError::Protocol(_))), "1005 is never sent");
        let close = client_frame(&[0x03, 0xe8], OpCode::Control(Control::Close), true);
        assert_eq!(run(&close, 10), Ok(vec![Event::Close(Some(1000), String::new())]));
    }

    /// All that comes of these bytes in pieces of `cut`, where no message is kept of which more than `most` bytes are here.
    fn run_skipping(bytes: &[u8], limit: usize, cut: usize, most: usize) -> Result<Vec<Event>, WsError> {
        let mut decoder = Decoder::new(limit);
        let mut events = Vec::new();
        for piece in bytes.chunks(cut) {
            decoder.feed(piece);
            while let Some(event) = decoder.next_event()? {
                events.push(event);
            }
            if decoder.under_way().is_some_and(|(here, whole)| here > most && whole > here) {
                events.extend(decoder.skip().map(Event::Skipped));
                assert_eq!(decoder.buffer.capacity(), 0);
            }
        }
        Ok(events)
    }

    /// Whether this tells of that message.
    fn tells_of(event: &Event, message: &[u8]) -> bool {
        matches!(event, Event::Skipped(Skipped { start, size }) if *size == message.len() as u64 && message.starts_with(start))
    }

    #[test]
    fn a_message_that_is_not_kept_is_told_with_its_start_and_its_length() {
        let message: Vec<u8> = (0..3000u32).map(|i| b'a' + (i % 23) as u8).collect();
        let bytes = [text(b"before"), text(&message), text(b"after")].concat();
        let got = run_skipping(&bytes, 10_000, 1500, 1000).expect("well formed");
        let [before, Event::Skipped(skipped), after] = &got[..] else { panic!("{got:?}") };
        assert_eq!((before, after), (&Event::Text("before".into()), &Event::Text("after".into())));
        assert_eq!((&skipped.start[..], skipped.size), (&message[..Skipped::KEPT], 3000));
    }

    #[test]
    fn fragments_of_it_go_too_and_a_ping_between_them_does_not() {
        let mut bytes = client_frame(&[b'a'; 600], OpCode::Data(Data::Text), false);
        bytes.extend(client_frame(&[b'b'; 600], OpCode::Data(Data::Continue), false));
        bytes.extend(client_frame(b"?", OpCode::Control(Control::Ping), true));
        bytes.extend(client_frame(&[b'c'; 600], OpCode::Data(Data::Continue), true));
        bytes.extend(text(b"next"));
        let known = [[b'a'; 600], [b'b'; 600]].concat();
        let got = run_skipping(&bytes, 10_000, 700, 650).expect("well formed");
        assert!(tells_of(&got[0], &known), "{got:?}");
        assert_eq!(got[1..], [Event::Ping(b"?".to_vec()), Event::Text("next".into())]);
        assert_eq!(run_skipping(&bytes, 1500, 700, 650), Err(WsError::TooLarge { size: 1800, limit: 1500 }));
    }

    #[test]
    fn what_comes_between_two_fragments_can_end_the_keeping_too() {
        let mut decoder = Decoder::new(10_000);
        decoder.feed(&client_frame(b"some", OpCode::Data(Data::Text), false));
        assert_eq!(decoder.next_event(), Ok(None));
        assert_eq!(decoder.under_way(), Some((4, 10_000)), "nobody knows how much more there will be");
        decoder.skip();
        assert_eq!(decoder.under_way(), None);
        decoder.feed(&text(b"new"));
        assert!(matches!(decoder.next_event(), Err(WsError::Protocol(_))), "the first has not ended");
        let mut idle = Decoder::new(10);
        idle.skip();
        idle.feed(&text(b"x"));
        assert_eq!(idle.next_event(), Ok(Some(Event::Text("x".into()))), "there was nothing to skip");
    }

    proptest! {
        #[test]
        fn messages_are_whole_or_skipped_whole(
            lengths in prop::collection::vec(0usize..3000, 0..6),
            cut in 1usize..2000,
            most in 0usize..3000,
        ) {
            let messages: Vec<Vec<u8>> = lengths.iter().map(|n| (0..*n).map(|i| b'a' + (i % 23) as u8).collect()).collect();
            let bytes: Vec<u8> = messages.iter().flat_map(|m| text(m)).collect();
            let got = run_skipping(&bytes, 10_000, cut, most).expect("well formed");
            prop_assert_eq!(got.len(), messages.len());
            for (event, message) in got.into_iter().zip(messages) {
                match event {
                    Event::Text(text) => prop_assert_eq!(text.as_bytes(), message),
                    event => prop_assert!(tells_of(&event, &message), "{:?}", event),
                }
            }
        }

        #[test]
        fn arbitrary_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            exercise(&bytes);
        }

        #[test]
        fn messages_survive_any_cutting(
            messages in prop::collection::vec(".{0,300}", 0..6),
            cut in 1usize..50,
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(|m| text(m.as_bytes())).collect();
            let mut decoder = Decoder::new(10_000);
            let mut got = Vec::new();
            for piece in bytes.chunks(cut) {
                decoder.feed(piece);
                while let Some(event) = decoder.next_event().expect("well formed") {
                    let Event::Text(text) = event else { panic!("only texts were sent") };
                    got.push(text);
                }
            }
            prop_assert_eq!(got, messages);
        }
    }
}
