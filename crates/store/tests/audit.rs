//! A changed byte is found: in rows, in the file, in an export.

use std::path::Path;

use convoke_core::id::CallId;
use convoke_core::journal::{Anchor, Draft, Expected, Finding, Kind, record_hash};
use convoke_core::time::Timestamp;
use convoke_store::audit::{self, Export, Verdict};
use convoke_store::{Journal as _, OpenOptions, SqlStore, Store as _, Telemetry as _};
use rusqlite::Connection;
use uuid::Uuid;

const NOW: Timestamp = Timestamp::from_millis(1_780_000_000_000);

/// A data directory with 1,200 records, signed at 600 and at the end, closed.
async fn filled() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    append(&store, 1..=600).await;
    store.checkpoint(NOW).await.expect("signs");
    append(&store, 601..=1_200).await;
    store.close().await.expect("closes");
    dir
}

async fn append(store: &SqlStore, range: std::ops::RangeInclusive<u128>) {
    for n in range {
        let draft = Draft {
            who: Some(format!("marker-{n:04}")),
            target: Some(format!("pc-{}", n % 7)),
            tool: Some("fs_read".into()),
            call_id: Some(CallId::new(Uuid::from_u128(n))),
            ..Draft::new(NOW, Kind::Call)
        };
        store.enqueue(convoke_store::Lossy::Record(draft)).await.expect("takes");
    }
}

fn verify(dir: &Path) -> Verdict {
    audit::verify_dir(dir, Expected::default()).expect("reads")
}

fn db(dir: &Path) -> Connection {
    Connection::open(dir.join("hub.db")).expect("opens")
}

#[tokio::test]
async fn an_untouched_directory_verifies_open_and_closed() {
    let dir = filled().await;
    let Verdict::Good(summary) = verify(dir.path()) else { panic!("{:?}", verify(dir.path())) };
    assert_eq!((summary.last_seq, summary.signed_up_to), (1_200, 1_200));
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    append(&store, 1_201..=1_250).await;
    store.append(Draft::new(NOW, Kind::Hub)).await.expect("appends");
    let Verdict::Good(summary) = verify(dir.path()) else { panic!("{:?}", verify(dir.path())) };
    assert_eq!((summary.last_seq, summary.signed_up_to), (1_251, 1_200), "while the hub has it open");
    assert_eq!(summary.keys, [store.hub_key().verifying_key().to_bytes()]);
    store.close().await.expect("closes");
}

#[tokio::test]
async fn each_change_of_a_row_is_found_and_named() {
    for (sql, expect) in [
        ("UPDATE journal SET body = replace(body, 'marker-0700', 'marker-0701') WHERE seq = 700", Some(700)),
        ("UPDATE journal SET hash = zeroblob(32) WHERE seq = 3", Some(3)),
        ("UPDATE journal SET body = CAST(x'ff00' AS TEXT) WHERE seq = 9", Some(9)),
        ("UPDATE journal SET target = 'pc-x' WHERE seq = 12", Some(12)),
        ("UPDATE journal SET target = NULL WHERE seq = 12", Some(12)),
        ("UPDATE journal SET tool = 'fs_list' WHERE seq = 13", Some(13)),
        ("UPDATE journal SET kind = 'hub' WHERE seq = 14", Some(14)),
        ("UPDATE journal SET call_id = zeroblob(16) WHERE seq = 15", Some(15)),
        ("UPDATE journal SET seq = 5000 WHERE seq = 1200", Some(1_200)),
        ("DELETE FROM journal WHERE seq = 500", Some(500)),
        ("DELETE FROM journal WHERE seq <= 10", Some(1)),
        ("DELETE FROM journal WHERE seq > 1100", Some(1_101)),
        ("DELETE FROM journal", Some(1)),
        ("UPDATE checkpoints SET signature = zeroblob(64) WHERE seq = 600", Some(600)),
        ("UPDATE checkpoints SET hash = zeroblob(32) WHERE seq = 600", Some(600)),
        ("UPDATE checkpoints SET signature = x'00' WHERE seq = 600", None),
        ("UPDATE meta SET value = '00000000-0000-0000-0000-000000000001' WHERE name = 'hub_id'", Some(1)),
    ] {
        let dir = filled().await;
        assert!(db(dir.path()).execute(sql, []).expect("changes") > 0, "{sql}");
        match verify(dir.path()) {
            Verdict::Bad(finding) => assert_eq!(finding.seq(), expect, "{sql}: {finding}"),
            Verdict::Damaged { .. } => assert_eq!(expect, None, "{sql}"),
            other => panic!("not found: {sql}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_record_that_was_replaced_and_hashed_again_is_found() {
    let dir = filled().await;
    let conn = db(dir.path());
    let body: String =
        conn.query_row("SELECT body FROM journal WHERE seq = 40", [], |row| row.get(0)).expect("reads");
    let forged = body.replace("marker-0040", "marker-9999");
    let hash = record_hash(forged.as_bytes());
    conn.execute("UPDATE journal SET body = ?1, hash = ?2 WHERE seq = 40", (&forged, &hash[..])).expect("changes");
    assert_eq!(verify(dir.path()), Verdict::Bad(Finding::BrokenLink { seq: 41 }));
}

#[tokio::test]
async fn an_end_cut_off_with_its_checkpoint_is_found_by_what_was_kept_elsewhere() {
    let dir = filled().await;
    let Verdict::Good(whole) = verify(dir.path()) else { panic!("untouched") };
    let conn = db(dir.path());
    conn.execute_batch("DELETE FROM journal WHERE seq > 900; DELETE FROM checkpoints WHERE seq > 900").expect("cuts");
    assert!(verify(dir.path()).is_good(), "alone, it cannot be told");
    let kept = Anchor { seq: whole.last_seq, hash: whole.last_hash };
    let expected = Expected { kept: vec![kept], ..Expected::default() };
    let found = audit::verify_dir(dir.path(), expected).expect("reads");
    assert_eq!(found, Verdict::Bad(Finding::Truncated { last: 900, covered: 1_200 }));
    // Cut before a checkpoint that is still there, the hub does not go on as if nothing were.
    conn.execute("DELETE FROM journal WHERE seq > 500", []).expect("cuts");
    let error = SqlStore::open(OpenOptions::new(dir.path())).map(drop).expect_err("refuses");
    assert!(error.to_string().contains("audit verify"), "{error}");
}

#[tokio::test]
async fn a_byte_changed_in_the_file_is_found() {
    let dir = filled().await;
    let path = dir.path().join("hub.db");
    let good = std::fs::read(&path).expect("reads");
    let needle = b"\"who\":\"marker-";
    let mut places = std::collections::BTreeMap::<&[u8], Vec<usize>>::new();
    for (at, _) in good.windows(needle.len()).enumerate().filter(|(_, window)| window == needle) {
        places.entry(&good[at..at + needle.len() + 4]).or_default().push(at);
    }
    assert_eq!(places.len(), 1_200);
    // Where the text is there twice, one is what SQLite left in the unused part of a page.
    let places: Vec<usize> = places.into_values().filter(|at| at.len() == 1).flatten().collect();
    assert!(places.len() > 400, "{}", places.len());
    for (n, place) in places.iter().step_by(11).enumerate() {
        let mut bad = good.clone();
        bad[place + n % 30] ^= 1 << (n % 8);
        std::fs::write(&path, &bad).expect("writes");
        assert!(!verify(dir.path()).is_good(), "byte {}", place + n % 30);
    }
    std::fs::write(&path, &good).expect("writes");
    assert!(verify(dir.path()).is_good());
}

#[tokio::test]
async fn an_export_verifies_and_a_changed_one_does_not() {
    let dir = filled().await;
    let mut export = Vec::new();
    let written = audit::export(dir.path(), &mut export, NOW).expect("exports");
    assert_eq!(written, Export::Written { records: 1_200 });
    let check = |bytes: &[u8]| audit::verify_export(bytes, Expected::default()).expect("reads");
    let Verdict::Good(summary) = check(&export) else { panic!("{:?}", check(&export)) };
    assert_eq!((summary.last_seq, summary.checkpoints), (1_200, 2));
    let mut changed = export.clone();
    let at = changed.len() / 2;
    changed[at] ^= 1;
    assert!(!check(&changed).is_good());
    assert!(!check(&export[..export.len() - 1]).is_good(), "cut in its last line");
    assert!(!check(b"").is_good());
    assert!(!check(b"{}\n").is_good());
}

#[tokio::test]
async fn a_journal_that_does_not_hold_is_not_exported() {
    for sql in [
        "DELETE FROM journal WHERE seq = 1200",
        "DELETE FROM journal WHERE seq > 1100",
        "DELETE FROM journal",
        "DELETE FROM journal WHERE seq = 500",
        "UPDATE journal SET body = replace(body, 'marker-0700', 'marker-0701') WHERE seq = 700",
        "UPDATE journal SET target = 'pc-x' WHERE seq = 12",
        "UPDATE checkpoints SET signature = x'00' WHERE seq = 600",
    ] {
        let dir = filled().await;
        assert!(db(dir.path()).execute(sql, []).expect("changes") > 0, "{sql}");
        let mut export = Vec::new();
        let refused = audit::export(dir.path(), &mut export, NOW).expect("reads");
        assert_eq!(refused, Export::Refused(verify(dir.path())), "{sql}");
        assert!(export.is_empty(), "{sql}");
    }
}

#[tokio::test]
async fn a_journal_that_grows_is_exported_all_the_same() {
    let dir = filled().await;
    let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens");
    let adding = async {
        for _ in 0..200 {
            store.append(Draft::new(NOW, Kind::Hub)).await.expect("appends");
            store.checkpoint(NOW).await.expect("signs");
        }
    };
    let path = dir.path().to_owned();
    let exporting = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            let mut export = Vec::new();
            let written = audit::export(&path, &mut export, NOW).expect("exports");
            assert!(matches!(written, Export::Written { records: 1_200.. }), "{written:?}");
            assert!(audit::verify_export(&export[..], Expected::default()).expect("reads").is_good());
        }
    });
    let ((), exported) = tokio::join!(adding, exporting);
    exported.expect("exports");
    store.close().await.expect("closes");
}

#[tokio::test]
async fn what_does_not_belong_into_the_database_is_found() {
    for (change, told) in [
        ("CREATE TRIGGER t AFTER INSERT ON tokens BEGIN UPDATE tokens SET role = 'admin'; END", "trigger `t`"),
        ("CREATE VIEW v AS SELECT * FROM journal", "view `v`"),
        ("DROP INDEX journal_tool", "`journal_tool` is missing"),
        ("ALTER TABLE tokens ADD COLUMN more TEXT", "table `tokens`"),
    ] {
        let dir = filled().await;
        db(dir.path()).execute_batch(change).expect("is done");
        let Verdict::Damaged { why, .. } = verify(dir.path()) else { panic!("{change}: {:?}", verify(dir.path())) };
        assert!(why.contains(told), "{change}: {why}");
    }
}
