use std::sync::LazyLock;

use ed25519_dalek::SigningKey;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use crate::door::Door;
use crate::id::CallId;
use crate::journal::{Decision, Kind, Phase};
use crate::time::Timestamp;

const HUB: HubId = HubId::new(Uuid::from_u128(0xc0_4f0c_e000));
const RECORDS: u64 = 12;
/// Checkpoints stand after these records.
const SIGNED: [u64; 3] = [4, 8, 11];

fn key() -> SigningKey {
    SigningKey::from_bytes(&[42; 32])
}

fn draft(n: u64) -> Draft {
    let mut draft = Draft::new(Timestamp::from_millis(1_780_596_000_000 + n as i64 * 137), Kind::Call);
    draft.phase = Some(if n.is_multiple_of(2) { Phase::Outcome } else { Phase::Intent });
    draft.who = Some("first \"operator\"".into());
    draft.door = Some(Door::Http);
    draft.target = Some(format!("pc-{}", n % 3));
    draft.tool = Some("shell_exec".into());
    draft.call_id = Some(CallId::new(Uuid::from_u128(u128::from(n.div_ceil(2)))));
    draft.args = serde_json::value::RawValue::from_string(format!("{{\"command\": \"echo {n}\"}}")).ok();
    draft.args_digest = Some(hex::encode([n as u8; 16]));
    draft.decision = Some(Decision::Allowed);
    if n.is_multiple_of(2) {
        draft.outcome = Some("ok".into());
        draft.duration_ms = Some(n * 3);
    }
    draft
}

/// An export: a header, records and checkpoints, one line each.
fn export() -> Vec<String> {
    EXPORT.clone()
}

static EXPORT: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut chain = Chain::new(HUB);
    let header = ExportHeader::new(HUB, key().verifying_key().to_bytes(), Timestamp::from_millis(1_780_600_000_000));
    let mut lines = vec![header.line()];
    for n in 1..=RECORDS {
        let sealed = chain.seal(&draft(n));
        lines.push(shown(&sealed.body, &sealed.hash));
        if SIGNED.contains(&n) {
            let checkpoint = Checkpoint::sign(&key(), HUB, n, sealed.hash, draft(n).at);
            lines.push(checkpoint_line(&checkpoint));
        }
    }
    lines
});

fn verify(lines: &[impl AsRef<[u8]>], expected: Expected) -> Result<Summary, Finding> {
    let mut verifier = Verifier::new(expected);
    for line in lines {
        verifier.line(line.as_ref());
    }
    verifier.finish()
}

fn anchor_at(seq: u64) -> Anchor {
    let mut chain = Chain::new(HUB);
    (1..=seq).for_each(|n| drop(chain.seal(&draft(n))));
    Anchor::from(&chain)
}

/// Where the record `seq` stands in [`export`].
fn line_of(seq: u64) -> usize {
    seq as usize + SIGNED.iter().filter(|signed| **signed < seq).count()
}

#[test]
fn the_golden_export_verifies_and_is_what_we_write() {
    let golden = include_str!("../../../../../fixtures/journal/export.jsonl");
    let lines: Vec<&str> = golden.lines().collect();
    assert_eq!(lines, export(), "the canonical bytes are a promise: old journals must stay verifiable");
    let pinned =
        Expected { keys: vec![key().verifying_key().to_bytes()], kept: vec![anchor_at(9)], ..Expected::default() };
    let summary = verify(&lines, pinned).expect("untouched");
    assert_eq!((summary.last_seq, summary.checkpoints, summary.signed_up_to), (12, 3, 11));
    assert_eq!(summary.keys, [key().verifying_key().to_bytes()]);
    assert_eq!(summary.hub_id, Some(HUB));
}

#[test]
fn each_damage_has_its_name() {
    let good = export();
    let check = |change: &dyn Fn(&mut Vec<String>), expect: Finding| {
        let mut lines = good.clone();
        change(&mut lines);
        assert_eq!(verify(&lines, Expected::default()), Err(expect));
    };
    check(&|l| l[3] = l[3].replace("echo 3", "echo 4"), Finding::ChangedRecord { seq: 3 });
    check(&|l| drop(l.remove(line_of(6))), Finding::Missing { from: 6, to: 6 });
    check(&|l| drop(l.drain(line_of(1)..=line_of(2))), Finding::Missing { from: 1, to: 2 });
    check(&|l| l.swap(line_of(6), line_of(7)), Finding::Reordered { seq: 6, found: "record 7".into() });
    check(&|l| l.insert(line_of(3), l[1].clone()), Finding::Reordered { seq: 3, found: "record 1".into() });
    check(
        &|l| l.swap(line_of(4), line_of(4) + 1),
        Finding::Reordered { seq: 4, found: "the checkpoint at record 4".into() },
    );
    check(&|l| drop(l.drain(line_of(11)..=line_of(11))), Finding::Missing { from: 11, to: 11 });
    check(
        &|l| {
            l.truncate(line_of(12));
            l.remove(line_of(11));
        },
        Finding::Truncated { last: 10, covered: 11 },
    );
    check(
        &|l| l[0] = "{}".into(),
        Finding::Malformed { seq: 1, why: "the file does not begin with the header of a journal export".into() },
    );
}

#[test]
fn a_record_that_was_replaced_and_hashed_again_breaks_the_next_link() {
    let mut lines = export();
    let mut chain = Chain::new(HUB);
    (1..=5).for_each(|n| drop(chain.seal(&draft(n))));
    let forged = chain.seal(&Draft::new(Timestamp::from_millis(0), Kind::Call));
    lines[line_of(6)] = shown(&forged.body, &forged.hash);
    assert_eq!(verify(&lines, Expected::default()), Err(Finding::BrokenLink { seq: 7 }));
}

#[test]
fn a_chain_written_anew_is_found_by_its_checkpoints_key_or_a_kept_place() {
    let other = SigningKey::from_bytes(&[1; 32]);
    let mut chain = Chain::new(HUB);
    let sealed = chain.seal(&draft(99));
    let forged = [
        ExportHeader::new(HUB, other.verifying_key().to_bytes(), draft(1).at).line(),
        shown(&sealed.body, &sealed.hash),
        checkpoint_line(&Checkpoint::sign(&other, HUB, 1, sealed.hash, draft(1).at)),
    ];
    assert!(verify(&forged, Expected::default()).is_ok(), "alone, it cannot be told");
    let pinned = Expected { keys: vec![key().verifying_key().to_bytes()], ..Expected::default() };
    assert!(matches!(verify(&forged, pinned.clone()), Err(Finding::UnknownKey { seq: 1, .. })));
    assert_eq!(verify(&forged[..2], pinned), Err(Finding::Unsigned { last: 1 }));
    let kept = Expected { kept: vec![anchor_at(1)], ..Expected::default() };
    assert_eq!(verify(&forged, kept), Err(Finding::CheckpointMismatch { seq: 1 }));
    let elsewhere = Expected { hub_id: Some(HubId::new(Uuid::from_u128(1))), ..Expected::default() };
    assert!(matches!(verify(&forged, elsewhere), Err(Finding::WrongHub { .. })));
}

#[test]
fn an_anchor_is_written_as_people_keep_it() {
    let anchor = anchor_at(3);
    assert_eq!(anchor.to_string().parse(), Ok(anchor));
    for bad in ["", "3", "x:00", "3:00", ":"] {
        assert_eq!(bad.parse::<Anchor>(), Err(BadAnchor));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// One bit or one byte anywhere, but for the time in the header, which is for people.
    #[test]
    fn any_changed_byte_is_found(at in any::<prop::sample::Index>(), mask in 1u8..) {
        let mut bytes = export().join("\n").into_bytes();
        let for_people = export()[0].find("exported_at").expect("in the header");
        let at = at.index(bytes.len());
        prop_assume!(at < for_people || at >= export()[0].len());
        bytes[at] ^= mask;
        let lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').collect();
        prop_assert!(verify(&lines, Expected::default()).is_err());
    }

    #[test]
    fn any_removed_records_are_found_unless_they_are_the_end(from in 1u64..RECORDS, count in 1u64..5) {
        let to = (from + count - 1).min(RECORDS - 1);
        let mut lines = export();
        for seq in (from..=to).rev() {
            lines.remove(line_of(seq));
        }
        prop_assert_eq!(verify(&lines, Expected::default()).map_err(|f| f.seq()), Err(Some(from)));
    }

    #[test]
    fn any_swap_is_found(a in 0usize..15, b in 0usize..15) {
        prop_assume!(a != b);
        let mut lines = export();
        lines.swap(a, b);
        prop_assert!(verify(&lines, Expected::default()).is_err());
    }

    #[test]
    fn anything_put_in_is_found(what in 0usize..16, at in 0usize..17) {
        let mut lines = export();
        let copy = lines[what].clone();
        lines.insert(at, copy);
        prop_assert!(verify(&lines, Expected::default()).is_err());
    }

    /// Cut anywhere: what a checkpoint in the file, or a place kept elsewhere, covers is missed.
    #[test]
    fn a_cut_end_is_found_back_to_what_was_kept(keep in 1usize..16, kept in 1u64..=RECORDS) {
        let lines = &export()[..keep];
        let left = lines.iter().filter(|l| l.starts_with("{\"hub_id\"")).count() as u64;
        let expected = Expected { kept: vec![anchor_at(kept)], ..Expected::default() };
        let answer = verify(lines, expected);
        if left < kept {
            prop_assert_eq!(answer, Err(Finding::Truncated { last: left, covered: kept }));
        } else {
            prop_assert_eq!(answer.map(|s| s.last_seq), Ok(left));
        }
    }
}
