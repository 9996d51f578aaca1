//! The chain itself: canonical bytes, and a hash over them that the next record carries.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::Draft;
use crate::id::HubId;

/// SHA-256 of a record.
pub type Hash = [u8; 32];

/// What the first record carries as `prev`.
pub const GENESIS: Hash = [0; 32];

/// Keeps a record's hash from meaning anything in another place that hashes JSON.
const LABEL: &[u8] = b"convoke-journal-v1\0";

/// The end of a hub's chain: where the next record goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    hub_id: HubId,
    seq: u64,
    head: Hash,
}

/// A record in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its place, from 1.
    pub seq: u64,
    /// The canonical bytes that are hashed: one line of JSON.
    pub body: String,
    /// Their hash.
    pub hash: Hash,
}

impl Chain {
    /// An empty chain.
    pub const fn new(hub_id: HubId) -> Self {
        Self { hub_id, seq: 0, head: GENESIS }
    }

    /// A chain that goes on after the record `seq` with the hash `head`.
    pub const fn resume(hub_id: HubId, seq: u64, head: Hash) -> Self {
        Self { hub_id, seq, head }
    }

    /// Whose chain it is.
    pub const fn hub_id(&self) -> HubId {
        self.hub_id
    }

    /// The last record's place; 0 when there is none.
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The last record's hash; [`GENESIS`] when there is none.
    pub const fn head(&self) -> &Hash {
        &self.head
    }

    /// Gives the draft the next place and moves the chain's end onto it.
    pub fn seal(&mut self, draft: &Draft) -> Sealed {
        let seq = self.seq + 1;
        let body = encode(self.hub_id, seq, draft, &self.head);
        let hash = record_hash(body.as_bytes());
        self.seq = seq;
        self.head = hash;
        Sealed { seq, body, hash }
    }
}

/// The hash of a record with these canonical bytes.
pub fn record_hash(body: &[u8]) -> Hash {
    Sha256::new().chain_update(LABEL).chain_update(body).finalize().into()
}

/// A record as the API and exports show it: its canonical bytes with `hash` as one more key at the end.
pub fn shown(body: &str, hash: &Hash) -> String {
    let open = body.strip_suffix('}').unwrap_or(body);
    let mut text = String::with_capacity(open.len() + HASH_SUFFIX);
    text.push_str(open);
    text.push_str(HASH_KEY);
    push_hex(&mut text, hash);
    text.push_str("\"}");
    text
}

pub(super) const HASH_KEY: &str = ",\"hash\":\"";
/// Length of `,"hash":"<64 hex digits>"}`.
pub(super) const HASH_SUFFIX: usize = HASH_KEY.len() + 64 + 2;

/// The canonical bytes: `hub_id`, `seq`, the draft's fields in their order, `prev`; nothing between them, on one line.
pub(super) fn encode(hub_id: HubId, seq: u64, draft: &Draft, prev: &Hash) -> String {
    let mut body = String::with_capacity(512);
    // Writing to a String cannot fail.
    let _ = write!(body, "{{\"hub_id\":\"{hub_id}\",\"seq\":{seq}");
    let mut bytes = body.into_bytes();
    let mark = bytes.len();
    serde_json::to_writer(&mut bytes, draft)
        .expect("a draft has no map keys and no fallible field, and memory takes it");
    // The draft is an object of its own: its braces become the comma before it and the rest after it.
    bytes[mark] = b',';
    bytes.pop();
    for byte in &mut bytes[mark..] {
        // Only white space between the tokens of raw JSON can be below 0x20 here (in strings it is escaped). A line
        // break would split the record in an export.
        if *byte < b' ' {
            *byte = b' ';
        }
    }
    let mut body = String::from_utf8(bytes).expect("serde_json writes UTF-8, and only ASCII was replaced");
    body.push_str(",\"prev\":\"");
    push_hex(&mut body, prev);
    body.push_str("\"}");
    body
}

fn push_hex(text: &mut String, bytes: &Hash) {
    let mut digits = [0; 64];
    hex::encode_to_slice(bytes, &mut digits).expect("64 digits for 32 bytes");
    text.push_str(std::str::from_utf8(&digits).expect("hex digits are ASCII"));
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;
    use uuid::Uuid;

    use super::*;
    use crate::journal::Kind;
    use crate::time::Timestamp;

    fn raw(text: &str) -> Option<Box<RawValue>> {
        Some(RawValue::from_string(text.into()).expect("test JSON"))
    }

    #[test]
    fn a_record_is_one_line_in_a_fixed_order() {
        let mut chain = Chain::new(HubId::new(Uuid::from_u128(7)));
        let mut draft = Draft::new(Timestamp::from_millis(0), Kind::Call);
        draft.who = Some("line\nbreak".into());
        draft.args = raw("{\n\t\"a\" : [1,\r\n2]\n}");
        draft.detail = raw("null");
        let sealed = chain.seal(&draft);
        assert_eq!(
            sealed.body,
            format!(
                "{{\"hub_id\":\"00000000-0000-0000-0000-000000000007\",\"seq\":1,\"at\":\"1970-01-01T00:00:00.000Z\",\
                 \"kind\":\"call\",\"who\":\"line\\nbreak\",\"args\":{{  \"a\" : [1,  2] }},\"prev\":\"{}\"}}",
                "0".repeat(64)
            )
        );
        assert_eq!((chain.seq(), *chain.head()), (1, sealed.hash));
        assert_eq!(shown(&sealed.body, &sealed.hash).len(), sealed.body.len() - 1 + HASH_SUFFIX);
    }

    #[test]
    fn each_record_carries_the_hash_of_the_one_before() {
        let mut chain = Chain::new(HubId::new(Uuid::from_u128(7)));
        let first = chain.seal(&Draft::new(Timestamp::from_millis(0), Kind::Hub));
        let second = chain.seal(&Draft::new(Timestamp::from_millis(0), Kind::Hub));
        assert!(second.body.contains(&hex::encode(first.hash)));
        assert_eq!(second.hash, record_hash(second.body.as_bytes()));
    }
}
