//! How far a reader has come: a position per hub, as opaque text.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::id::HubId;

/// Longest text that is read as a cursor.
const MAX_TEXT: usize = 16 * 1024;

/// A place in the stream of one hub. A hub that starts anew begins a new epoch: what it had in memory is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Position {
    /// The hub's start; a later one is greater.
    pub epoch: u64,
    /// The number of the last event that was read, 0 for none.
    pub seq: u64,
}

/// A position per hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor(BTreeMap<HubId, Position>);

impl Cursor {
    /// A cursor for one hub.
    pub fn at(hub: HubId, position: Position) -> Self {
        Self(BTreeMap::from([(hub, position)]))
    }

    /// Where the reader is in the stream of that hub, if it has read it.
    pub fn position(&self, hub: HubId) -> Option<Position> {
        self.0.get(&hub).copied()
    }

    /// Goes on to a position of one hub; the others stay. A position never goes back.
    pub fn advance(&mut self, hub: HubId, to: Position) {
        let position = self.0.entry(hub).or_insert(to);
        *position = (*position).max(to);
    }

    /// Reads a cursor's text. Anything else is none: it came from elsewhere, or from another version.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > MAX_TEXT {
            return None;
        }
        let json = URL_SAFE_NO_PAD.decode(text.trim()).ok()?;
        let positions: BTreeMap<HubId, (u64, u64)> = serde_json::from_slice(&json).ok()?;
        Some(Self(positions.into_iter().map(|(hub, (epoch, seq))| (hub, Position { epoch, seq })).collect()))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions: BTreeMap<HubId, (u64, u64)> =
            self.0.iter().map(|(hub, at)| (*hub, (at.epoch, at.seq))).collect();
        let json = serde_json::to_vec(&positions).unwrap_or_default();
        f.write_str(&URL_SAFE_NO_PAD.encode(json))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn hub(n: u128) -> HubId {
        HubId::new(Uuid::from_u128(n))
    }

    #[test]
    fn a_later_start_is_further_than_any_place_of_an_earlier_one() {
        let mut cursor = Cursor::at(hub(1), Position { epoch: 1, seq: 900 });
        cursor.advance(hub(1), Position { epoch: 1, seq: 3 });
        assert_eq!(cursor.position(hub(1)), Some(Position { epoch: 1, seq: 900 }));
        cursor.advance(hub(1), Position { epoch: 2, seq: 1 });
        cursor.advance(hub(2), Position { epoch: 1, seq: 5 });
        assert_eq!(cursor.position(hub(1)), Some(Position { epoch: 2, seq: 1 }));
        assert_eq!(cursor.position(hub(2)), Some(Position { epoch: 1, seq: 5 }));
        assert_eq!(cursor.position(hub(3)), None);
    }

    proptest! {
        #[test]
        fn text_reads_back(positions in proptest::collection::btree_map(any::<u128>(), any::<(u64, u64)>(), 0..5)) {
            let positions = positions.into_iter().map(|(n, (epoch, seq))| (hub(n), Position { epoch, seq }));
            let cursor = Cursor(positions.collect());
            let text = cursor.to_string();
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)), "{text}");
            prop_assert_eq!(Cursor::parse(&text), Some(cursor));
        }

        #[test]
        fn anything_else_is_no_cursor_and_no_panic(text in ".{0,60}") {
            let _ = Cursor::parse(&text);
        }
    }
}
