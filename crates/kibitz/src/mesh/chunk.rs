//! Messages that are larger than one piece, as PeerJS cuts them: each piece is an object with the message's number, its
//! own place, and how many there are.

use std::collections::{BTreeMap, VecDeque};

use super::pack::{BadPack, Value};

/// Largest piece, as the field cuts them.
pub const CHUNK: usize = 16_300;
/// Largest message that is put together.
pub const MAX_MESSAGE: usize = 1024 * 1024;
/// Messages of one channel that may be unfinished; beyond it the oldest is dropped.
const MAX_UNFINISHED: usize = 4;

/// Cuts messages.
#[derive(Debug)]
pub struct Chunker {
    next: i64,
}

impl Default for Chunker {
    fn default() -> Self {
        Self { next: 1 }
    }
}

impl Chunker {
    /// The messages of the channel that carry this value.
    pub fn cut(&mut self, value: &Value) -> Vec<Vec<u8>> {
        let packed = value.encode();
        if packed.len() <= CHUNK {
            return vec![packed];
        }
        let number = self.next;
        self.next += 1;
        let total = packed.len().div_ceil(CHUNK);
        let int = |n: usize| Value::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let piece = |(n, data): (usize, &[u8])| {
            Value::Map(vec![
                ("__peerData".into(), Value::Int(number)),
                ("n".into(), int(n)),
                ("data".into(), Value::Bytes(data.into())),
                ("total".into(), int(total)),
            ])
            .encode()
        };
        packed.chunks(CHUNK).enumerate().map(piece).collect()
    }
}

/// What a message of the channel was.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// A whole value.
    Value(Value),
    /// A piece of one.
    Piece,
    /// The other end closes the connection.
    Close,
}

/// Why a message of the channel is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadChunk {
    /// No value.
    #[error(transparent)]
    Pack(#[from] BadPack),
    /// A piece that fits nothing.
    #[error("a piece of a message has no place in it")]
    Piece,
    /// More than is put together.
    #[error("the message is over the limit of {MAX_MESSAGE} bytes")]
    TooLarge,
}

/// Puts pieces together.
#[derive(Debug, Default)]
pub struct Assembler {
    unfinished: VecDeque<Unfinished>,
}

#[derive(Debug)]
struct Unfinished {
    number: i64,
    total: usize,
    size: usize,
    pieces: BTreeMap<usize, Vec<u8>>,
}

impl Assembler {
    /// A message of the channel.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Taken, BadChunk> {
        if bytes.len() > MAX_MESSAGE {
            return Err(BadChunk::TooLarge);
        }
        let value = Value::decode(bytes)?;
        match value.at("__peerData") {
            None => Ok(Taken::Value(value)),
            Some(Value::Int(number)) => self.piece(*number, &value),
            Some(control) if control.at("type").and_then(Value::text) == Some("close") => Ok(Taken::Close),
            Some(_) => Err(BadChunk::Piece),
        }
    }

    fn piece(&mut self, number: i64, value: &Value) -> Result<Taken, BadChunk> {
        let whole = |key| value.at(key).and_then(Value::int).and_then(|n| usize::try_from(n).ok());
        let (Some(n), Some(total), Some(Value::Bytes(data))) = (whole("n"), whole("total"), value.at("data")) else {
            return Err(BadChunk::Piece);
        };
        if total.saturating_mul(CHUNK) > MAX_MESSAGE + CHUNK {
            return Err(BadChunk::TooLarge);
        }
        if n >= total {
            return Err(BadChunk::Piece);
        }
        if !self.unfinished.iter().any(|message| message.number == number) {
            if self.unfinished.len() == MAX_UNFINISHED {
                self.unfinished.pop_front();
            }
            self.unfinished.push_back(Unfinished { number, total, size: 0, pieces: BTreeMap::new() });
        }
        let Some(at) = self.unfinished.iter().position(|message| message.number == number) else {
            return Err(BadChunk::Piece);
        };
        let message = &mut self.unfinished[at];
        message.size += data.len();
        let is_odd = message.total != total || message.pieces.insert(n, data.clone()).is_some();
        if is_odd || message.size > MAX_MESSAGE {
            let why = if is_odd { BadChunk::Piece } else { BadChunk::TooLarge };
            self.unfinished.remove(at);
            return Err(why);
        }
        if message.pieces.len() < total {
            return Ok(Taken::Piece);
        }
        let pieces = self.unfinished.remove(at).map(|message| message.pieces).unwrap_or_default();
        let whole = Value::decode(&pieces.into_values().flatten().collect::<Vec<u8>>())?;
        // A message in pieces holds no piece of another.
        if whole.at("__peerData").is_some() { Err(BadChunk::Piece) } else { Ok(Taken::Value(whole)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large(bytes: usize) -> Value {
        Value::Text("x".repeat(bytes))
    }

    #[test]
    fn large_messages_are_cut_and_put_together_in_any_order() {
        let (mut chunker, mut assembler) = (Chunker::default(), Assembler::default());
        assert_eq!(chunker.cut(&large(16_297)).len(), 1, "with its head exactly one piece");
        let mut pieces = chunker.cut(&large(40_000));
        assert_eq!(pieces.len(), 3);
        let first = Value::decode(&pieces[0]).expect("a value");
        let keys =
            |v: &Value| if let Value::Map(e) = v { e.iter().map(|(k, _)| k.clone()).collect() } else { vec![] };
        assert_eq!(keys(&first), ["__peerData", "n", "data", "total"], "in the field's order");
        pieces.reverse();
        assert_eq!(assembler.take(&pieces[0]), Ok(Taken::Piece));
        assert_eq!(assembler.take(&pieces[1]), Ok(Taken::Piece));
        assert_eq!(assembler.take(&pieces[2]), Ok(Taken::Value(large(40_000))));
        assert!(assembler.unfinished.is_empty());
    }

    #[test]
    fn a_close_is_seen() {
        let close = Value::from_text(r#"{"__peerData":{"type":"close"}}"#).expect("JSON");
        assert_eq!(Assembler::default().take(&close.encode()), Ok(Taken::Close));
    }

    #[test]
    fn pieces_that_fit_nothing_are_refused_and_hold_no_memory() {
        let piece = |number: i64, n: i64, total: i64, size: usize| {
            Value::Map(vec![
                ("__peerData".into(), Value::Int(number)),
                ("n".into(), Value::Int(n)),
                ("data".into(), Value::Bytes(vec![0; size])),
                ("total".into(), Value::Int(total)),
            ])
            .encode()
        };
        let mut assembler = Assembler::default();
        assert_eq!(assembler.take(&piece(1, 2, 2, 1)), Err(BadChunk::Piece));
        assert_eq!(assembler.take(&piece(1, -1, 2, 1)), Err(BadChunk::Piece));
        assert_eq!(assembler.take(&piece(1, 0, 1_000, 1)), Err(BadChunk::TooLarge));
        assert_eq!(assembler.take(&piece(1, 0, 2, 1)), Ok(Taken::Piece));
        assert_eq!(assembler.take(&piece(1, 0, 2, 1)), Err(BadChunk::Piece), "twice");
        assert_eq!(assembler.take(&piece(2, 0, 2, MAX_MESSAGE - 100)), Ok(Taken::Piece));
        assert_eq!(assembler.take(&piece(2, 1, 2, 500)), Err(BadChunk::TooLarge));
        for number in 10..30 {
            assert_eq!(assembler.take(&piece(number, 0, 2, 1)), Ok(Taken::Piece));
        }
        assert_eq!(assembler.unfinished.len(), MAX_UNFINISHED);
    }
}
