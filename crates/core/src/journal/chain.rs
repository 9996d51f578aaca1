//! The chain itself: canonical bytes, and a hash over them that the next record carries.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use super::Draft;
use crate::id::HubId;

/// SHA-256 of a record.
pub type Hash = [u8; 32];

/// The `prev` of the first record.
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

    /// The hub of this chain.
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
    text.push_str(&hex::encode(hash));
    text.push_str("\"}");
    text
}

pub(super) const HASH_KEY: &str = ",\"hash\":\"";
/// Length of `,"hash":"<64 hex digits>"}`.
pub(super) const HASH_SUFFIX: usize = HASH_KEY.len() + 64 + 2;

/// The canonical bytes: `hub_id`, `seq`, the draft's fields in their order, `prev`; nothing between them, on one line.
///
/// Written here field by field, although [`Draft`] serialises to the same: every call is written this way, and this
/// takes a quarter of the work. A test holds the two together.
pub(super) fn encode(hub_id: HubId, seq: u64, draft: &Draft, prev: &Hash) -> String {
    let Draft { at, kind, phase, who, door, target, tool, call_id, args, args_digest, decision, rule, .. } = draft;
    let Draft { approval, outcome, duration_ms, detail, .. } = draft;
    let mut body = String::with_capacity(768);
    let mut buffer = Uuid::encode_buffer();
    body.push_str("{\"hub_id\":\"");
    body.push_str(hub_id.uuid().as_hyphenated().encode_lower(&mut buffer));
    // Writing to a String cannot fail.
    let _ = write!(body, "\",\"seq\":{seq},\"at\":\"{at}");
    push_name(&mut body, "\",\"kind\":\"", kind.name());
    if let Some(phase) = phase {
        push_name(&mut body, ",\"phase\":\"", phase.name());
    }
    push_text(&mut body, ",\"who\":\"", who.as_deref());
    if let Some(door) = door {
        push_name(&mut body, ",\"door\":\"", door.name());
    }
    push_text(&mut body, ",\"target\":\"", target.as_deref());
    push_text(&mut body, ",\"tool\":\"", tool.as_deref());
    if let Some(id) = call_id {
        push_name(&mut body, ",\"call_id\":\"", id.uuid().as_hyphenated().encode_lower(&mut buffer));
    }
    push_raw(&mut body, ",\"args\":", args.as_deref());
    push_text(&mut body, ",\"args_digest\":\"", args_digest.as_deref());
    if let Some(decision) = decision {
        push_name(&mut body, ",\"decision\":\"", decision.name());
    }
    push_text(&mut body, ",\"rule\":\"", rule.as_deref());
    if let Some(id) = approval {
        push_name(&mut body, ",\"approval\":\"", id.uuid().as_hyphenated().encode_lower(&mut buffer));
    }
    push_text(&mut body, ",\"outcome\":\"", outcome.as_deref());
    if let Some(ms) = duration_ms {
        let _ = write!(body, ",\"duration_ms\":{ms}");
    }
    push_raw(&mut body, ",\"detail\":", detail.as_deref());
    body.push_str(",\"prev\":\"");
    body.push_str(&hex::encode(prev));
    body.push_str("\"}");
    body
}

/// A text in which nothing can need an escape, after its key and the quote that opens it.
fn push_name(body: &mut String, key: &str, name: &str) {
    body.push_str(key);
    body.push_str(name);
    body.push('"');
}

fn push_text(body: &mut String, key: &str, text: Option<&str>) {
    let Some(text) = text else { return };
    // All are looked at, whatever is found: that way many are looked at at once.
    let escapes = text.bytes().fold(false, |found, b| found | (b < b' ') | (b == b'"') | (b == b'\\'));
    if !escapes {
        return push_name(body, key, text);
    }
    let written = serde_json::to_string(text).expect("a text always serialises");
    body.push_str(key);
    // It brings both its quotes.
    body.push_str(&written[1..]);
}

/// JSON as it is, on one line: only white space between its tokens can be below 0x20 (in strings it is escaped), and a
/// line break would split the record in an export.
fn push_raw(body: &mut String, key: &str, raw: Option<&RawValue>) {
    // Read back, a `null` would be an absent field.
    let Some(raw) = raw.map(RawValue::get).filter(|raw| *raw != "null") else { return };
    body.push_str(key);
    if raw.bytes().all(|b| b >= b' ') {
        body.push_str(raw);
    } else {
        body.extend(raw.chars().map(|c| if c < ' ' { ' ' } else { c }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::door::Door;
    use crate::id::{ApprovalId, CallId};
    use crate::journal::{Decision, Kind, Phase};
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

    /// Any draft: each field there or not, with texts that need escapes and JSON over several lines.
    fn drafts() -> impl Strategy<Value = Draft> {
        let text = || of(prop_oneof![".{0,8}", "[\\x00-\\x7f]{0,8}", Just("pc-7".to_owned())]);
        let json = || of(select(&["null", "{}", "{\n\t\"a\":\r\n[1, \"ü\\n\"]}", "\"\u{7f}\"", " 1"][..]));
        let uuid = || of(any::<u128>().prop_map(Uuid::from_u128));
        let words = (
            select(&Kind::ALL[..]),
            of(select(&Phase::ALL[..])),
            of(select(&Door::ALL[..])),
            of(select(&Decision::ALL[..])),
        );
        let texts = (text(), text(), text(), text(), text(), text());
        let rest = (any::<i64>(), uuid(), uuid(), json(), json(), of(any::<u64>()));
        (words, texts, rest).prop_map(|(words, texts, (at, call_id, approval, args, detail, duration_ms))| {
            let mut draft = Draft::new(Timestamp::from_millis(at), words.0);
            (draft.phase, draft.door, draft.decision) = (words.1, words.2, words.3);
            let outcome;
            (draft.who, draft.target, draft.tool, draft.args_digest, draft.rule, outcome) = texts;
            draft.outcome = outcome.map(Into::into);
            (draft.call_id, draft.approval) = (call_id.map(CallId::new), approval.map(ApprovalId::new));
            (draft.args, draft.detail) = (args.and_then(raw), detail.and_then(raw));
            draft.duration_ms = duration_ms;
            draft
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_what_serialises(draft in drafts(), seq in any::<u64>(), hub in any::<u128>()) {
            let hub = HubId::new(Uuid::from_u128(hub));
            let fields = serde_json::to_string(&draft).expect("serialises");
            // Only white space of raw JSON is below a space in it.
            let fields = fields.replace(|c| c < ' ', " ");
            let fields = &fields[1..fields.len() - 1];
            let written = format!("{{\"hub_id\":\"{hub}\",\"seq\":{seq},{fields},\"prev\":\"{}\"}}", "0".repeat(64));
            prop_assert_eq!(encode(hub, seq, &draft, &GENESIS), written);
        }
    }
}
