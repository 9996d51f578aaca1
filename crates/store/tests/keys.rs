//! The data key: made once, never made twice, rotated whole.

use std::fs;
use std::path::Path;

use convoke_core::approval::ApprovalState;
use convoke_core::call::CallState;
use convoke_core::door::Door;
use convoke_core::id::{CallId, PeerId, TokenId};
use convoke_core::journal::{Draft, Expected, Kind};
use convoke_core::peer::{Liveness, Trust};
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use convoke_store::audit::{self, Verdict};
use convoke_store::{
    CallRow, Calls as _, ClientRow, Journal as _, JournalFilter, Messages as _, OpenOptions, PairingRow, RoomRow,
    Rooms as _, RuleRow, SqlStore, Store as _, StoreError, keys,
};
use ed25519_dalek::SigningKey;
use serde_json::json;
use uuid::Uuid;

const SECRET: &[u8] = b"the-secret-of-the-test";
const ARGS: &[u8] = b"{\"password\":\"in-the-arguments\"}";

async fn fill(store: &SqlStore) {
    store.put_secret("ca", &SecretBytes::new(SECRET)).await.expect("keeps");
    let now = Timestamp::from_millis(0);
    let call = CallRow {
        id: CallId::new(Uuid::from_u128(1)),
        caller: TokenId::new(Uuid::from_u128(2)),
        idempotency_key: None,
        target: PeerId::kenny("pc-1").expect("valid"),
        tool: "shell_exec".into(),
        args_digest: "d".into(),
        door: Door::Mcp,
        args: Some(SecretBytes::new(ARGS)),
        timeout_ms: None,
        requested_by: None,
        state: CallState::Waiting,
        outcome: None,
        created_at: now,
        keep_until: now,
    };
    store.put_call(call, None, None).await.expect("keeps");
    store.put_client(client(), None).await.expect("keeps");
    let rule = RuleRow { rule: "hook".into(), body: "{}".into(), secret: Some(SecretBytes::new(SECRET)) };
    store.put_rule(rule, Draft::new(now, Kind::Policy)).await.expect("keeps");
    let room = RoomRow { name: "lab".into(), body: "{}".into(), key: SecretBytes::new(SECRET), created_at: now };
    store.add_room(room, Draft::new(now, Kind::Grant)).await.expect("keeps");
}

fn client() -> ClientRow {
    let now = Timestamp::from_millis(0);
    ClientRow {
        identifier: "client-a".into(),
        listed: true,
        trust: Trust::Trusted,
        public_key: Some([7; 32]),
        secret: Some(SecretBytes::new(SECRET)),
        old_secrets: vec![SecretBytes::new(SECRET), SecretBytes::new(*b"older")],
        pairing: Some(PairingRow {
            code: SecretBytes::new(SECRET),
            public_key: [8; 32],
            created_at: now,
            expires_at: now,
            wrong: 2,
            notification: "sent".into(),
            notified: "inbox".into(),
            approved: false,
            address: "127.0.0.1".into(),
        }),
        pause_until: None,
        rotation_until: None,
        rotation_key: None,
        reset: None,
        created_at: now,
        paired_at: Some(now),
        last_auth: None,
        last_seen: None,
        liveness: Liveness::Offline,
    }
}

async fn check(store: &SqlStore) {
    assert_eq!(store.secret("ca").await.expect("opens"), Some(SecretBytes::new(SECRET)));
    let call = store.call(CallId::new(Uuid::from_u128(1))).await.expect("opens").expect("there");
    assert_eq!(call.args, Some(SecretBytes::new(ARGS)));
    assert_eq!(store.clients().await.expect("opens"), [client()]);
    assert_eq!(store.rules().await.expect("opens")[0].secret, Some(SecretBytes::new(SECRET)));
    assert_eq!(store.rooms().await.expect("opens")[0].key, SecretBytes::new(SECRET));
    assert!(store.approvals(Some(ApprovalState::Pending), None, 1).await.expect("reads").is_empty());
}

fn open(dir: &Path, key: Option<&SecretBytes>) -> Result<SqlStore, StoreError> {
    SqlStore::open(OpenOptions { data_key: key.cloned(), ..OpenOptions::new(dir) })
}

/// A filled directory, closed; with the hub's public key.
async fn filled(key: Option<&SecretBytes>) -> (tempfile::TempDir, [u8; 32]) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), key).expect("opens");
    fill(&store).await;
    store.close().await.expect("closes");
    let public_key = store.hub_key().verifying_key().to_bytes();
    (dir, public_key)
}

#[tokio::test]
async fn nothing_secret_is_on_the_disk_in_the_open() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path(), None).expect("opens");
    fill(&store).await;
    for entry in fs::read_dir(dir.path()).expect("lists") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("reads");
        for secret in [SECRET, ARGS, store.hub_key().as_bytes()] {
            assert!(!bytes.windows(secret.len()).any(|w| w == secret));
        }
    }
    assert!(!format!("{store:?}").contains("secret-of-the-test"));
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_lost_or_wrong_key_is_named_and_never_replaced() {
    let (dir, _) = filled(None).await;
    let file = dir.path().join("data.key");
    let right = fs::read(&file).expect("reads");
    fs::remove_file(&file).expect("removes");
    let error = open(dir.path(), None).map(drop).expect_err("no key");
    assert!(matches!(error, StoreError::KeyMissing { .. }) && error.to_string().contains("data.key"), "{error}");
    assert!(!file.exists(), "a new key would only hide that the old one is gone");
    fs::write(&file, "bm90IGEga2V5").expect("writes");
    assert!(matches!(open(dir.path(), None), Err(StoreError::MalformedKey { .. })));
    fs::write(&file, format!("{}=\n", "A".repeat(43))).expect("writes");
    let error = open(dir.path(), None).map(drop).expect_err("wrong key");
    assert!(matches!(error, StoreError::WrongKey { .. }) && error.to_string().contains("data.key"), "{error}");
    let given = SecretBytes::new([9; 32]);
    assert!(matches!(open(dir.path(), Some(&given)), Err(StoreError::WrongKey { .. })));
    fs::write(&file, right).expect("writes");
    let store = open(dir.path(), None).expect("opens");
    check(&store).await;
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_lost_database_is_not_begun_anew() {
    let (dir, _) = filled(None).await;
    fs::remove_file(dir.path().join("hub.db")).expect("removes");
    let lost = open(dir.path(), None);
    assert!(matches!(lost, Err(StoreError::Lost(_))), "{lost:?}");
    fs::write(dir.path().join("hub.db"), b"").expect("writes");
    assert!(matches!(open(dir.path(), None), Err(StoreError::Lost(_))));
    // Whoever wants it says so.
    fs::remove_file(dir.path().join("hub.lock")).expect("removes");
    open(dir.path(), None).expect("opens").close().await.expect("closes");
}

#[tokio::test]
async fn a_key_from_outside_leaves_no_file() {
    let key = keys::parse(&SecretText::new(format!("{}=", "B".repeat(43)))).map_err(drop);
    assert!(key.is_err(), "the last digit of 32 bytes has two bits to spare, which must be zero");
    let key = keys::parse(&SecretText::new(format!(" {}=\n", "A".repeat(43)))).expect("a key");
    let (dir, _) = filled(Some(&key)).await;
    assert!(!dir.path().join("data.key").exists());
    let store = open(dir.path(), Some(&key)).expect("opens");
    check(&store).await;
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_rotation_seals_everything_anew() {
    let (dir, hub_key) = filled(None).await;
    let file = dir.path().join("data.key");
    let old = fs::read(&file).expect("reads");
    let rotated = keys::rotate(dir.path(), None, None).expect("rotates");
    assert_eq!((rotated.values, rotated.in_file), (8, true));
    let kept = rotated.old_key.expect("the old key is kept");
    assert_eq!(fs::read(&kept).expect("reads"), old);
    assert_ne!(fs::read(&file).expect("reads"), old);
    assert!(!dir.path().join("data.key.new").exists());
    let store = open(dir.path(), None).expect("opens");
    check(&store).await;
    assert_eq!(store.hub_key().verifying_key().to_bytes(), hub_key, "the hub is still the same one");
    let busy = keys::rotate(dir.path(), None, None);
    assert!(matches!(busy, Err(StoreError::Locked { .. })), "{busy:?}");
    store.close().await.expect("closes");

    // To a key from outside, and back into a file.
    let outside = SecretBytes::new([7; 32]);
    let second = fs::read(&file).expect("reads");
    let rotated = keys::rotate(dir.path(), None, Some(&outside)).expect("rotates");
    assert!(!rotated.in_file && !file.exists());
    assert_eq!(fs::read(rotated.old_key.expect("kept")).expect("reads"), second);
    // What comes from outside is not written down.
    let rotated = keys::rotate(dir.path(), Some(&outside), None).expect("rotates");
    assert!(rotated.in_file && rotated.old_key.is_none());
    assert_eq!(fs::read(&kept).expect("reads"), old, "each stays");
    let store = open(dir.path(), None).expect("opens");
    check(&store).await;
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_rotation_is_in_the_journal() {
    let (dir, _) = filled(None).await;
    let last = |dir: &Path| match audit::verify_dir(dir, Expected::default()).expect("reads") {
        Verdict::Good(summary) => summary.last_seq,
        bad => panic!("{bad:?}"),
    };
    let before = last(dir.path());
    let replaced = keys::rotate(dir.path(), None, None).expect("rotates").old_key.expect("kept");
    assert_eq!(last(dir.path()), before + 1, "one record, and the chain holds");
    let store = open(dir.path(), None).expect("opens");
    let filter = JournalFilter { after: Some(before), limit: 10, ..JournalFilter::default() };
    let records = store.journal(filter).await.expect("reads");
    let record: serde_json::Value = serde_json::from_str(records[0].json.get()).expect("a record");
    assert_eq!((&record["kind"], &record["door"]), (&json!("hub"), &json!("cli")));
    assert_eq!(record["detail"]["what"], "data key rotated");
    let id = record["detail"]["replaced"].as_str().expect("names the old key");
    assert!(replaced.ends_with(format!("data.key.{id}")), "{replaced:?} is not {id}");
    store.close().await.expect("closes");
    assert_eq!(last(dir.path()), before + 1);
}

#[tokio::test]
async fn a_key_in_the_file_that_was_not_in_force_is_kept_and_not_taken_for_the_old_one() {
    let outside = SecretBytes::new([7; 32]);
    let (dir, _) = filled(Some(&outside)).await;
    let file = dir.path().join("data.key");
    let stray = format!("{}=\n", "A".repeat(43));
    fs::write(&file, &stray).expect("writes");
    // From one key outside to another the file is nobody's business.
    let second = SecretBytes::new([8; 32]);
    let rotated = keys::rotate(dir.path(), Some(&outside), Some(&second)).expect("rotates");
    assert_eq!((rotated.old_key, rotated.other_key), (None, None));
    assert_eq!(fs::read_to_string(&file).expect("reads"), stray);
    let rotated = keys::rotate(dir.path(), Some(&second), None).expect("rotates");
    assert_eq!((rotated.in_file, rotated.old_key), (true, None));
    assert_eq!(fs::read_to_string(rotated.other_key.expect("kept")).expect("reads"), stray);
    // One that is in both places is the old one.
    let same = keys::parse(&SecretText::new(fs::read_to_string(&file).expect("reads"))).expect("a key");
    let rotated = keys::rotate(dir.path(), Some(&same), None).expect("rotates");
    assert!(rotated.old_key.is_some() && rotated.other_key.is_none());
}

#[tokio::test]
async fn a_backup_from_before_a_rotation_opens_with_the_key_that_was_kept() {
    let (dir, _) = filled(None).await;
    let file = dir.path().join("backup");
    let manifest = convoke_store::backup::create(dir.path(), &file, None, None).expect("backs up");
    // An attempt that a power cut ended left half of the copy behind.
    let kept = dir.path().join(format!("data.key.{}", manifest.key_id));
    fs::write(&kept, "QUJD").expect("writes");
    assert_eq!(keys::rotate(dir.path(), None, None).expect("rotates").old_key, Some(kept.clone()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(fs::metadata(&kept).expect("there").permissions().mode() & 0o777, 0o600);
    }
    let restored = dir.path().join("restored");
    convoke_store::backup::restore(&file, &restored, None, None, convoke_store::backup::Accept::Proven)
        .expect("restores");
    fs::copy(&kept, restored.join("data.key")).expect("copies");
    let store = open(&restored, None).expect("opens with the old key");
    check(&store).await;
    store.close().await.expect("closes");
}

#[tokio::test]
async fn an_interrupted_rotation_is_undone_or_finished() {
    let (dir, _) = filled(None).await;
    let (file, next) = (dir.path().join("data.key"), dir.path().join("data.key.new"));
    // Before its commit: the next key is there, whole or cut off, and nothing is sealed with it.
    for leftover in [format!("{}=\n", "A".repeat(43)), "QUJD".into(), String::new()] {
        fs::write(&next, leftover).expect("writes");
        let store = open(dir.path(), None).expect("opens with the old key");
        check(&store).await;
        store.close().await.expect("closes");
        assert!(!next.exists());
    }
    // After its commit: only the rename is missing.
    let old = fs::read(&file).expect("reads");
    keys::rotate(dir.path(), None, None).expect("rotates");
    fs::rename(&file, &next).expect("renames");
    fs::write(&file, &old).expect("writes");
    let store = open(dir.path(), None).expect("opens with the new key");
    check(&store).await;
    store.close().await.expect("closes");
    assert!(!next.exists() && fs::read(&file).expect("reads") != old);
    let kept = fs::read_dir(dir.path()).expect("lists").flatten().any(|e| fs::read(e.path()).is_ok_and(|b| b == old));
    assert!(kept, "the old key is there whoever finishes the rotation");
}

#[tokio::test]
async fn a_hub_key_from_outside_is_kept_and_none_takes_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let open_with = |seed: Option<u8>| {
        let hub_seed = seed.map(|byte| SecretBytes::new([byte; 32]));
        SqlStore::open(OpenOptions { hub_seed, ..OpenOptions::new(dir.path()) })
    };
    let given = SigningKey::from_bytes(&[5; 32]).verifying_key();
    for seed in [Some(5), None, Some(5)] {
        let store = open_with(seed).expect("opens");
        assert_eq!(store.hub_key().verifying_key(), given, "{seed:?}");
        store.close().await.expect("closes");
    }
    assert!(matches!(open_with(Some(6)), Err(StoreError::OtherHubKey)));
    // As a program left it that did not keep the key.
    let conn = rusqlite::Connection::open(dir.path().join("hub.db")).expect("opens");
    conn.execute("DELETE FROM secrets WHERE name = 'hub_key'", []).expect("deletes");
    drop(conn);
    assert!(matches!(open_with(None), Err(StoreError::HubKeyNotKept)));
    open_with(Some(5)).expect("opens").close().await.expect("closes");
    open_with(None).expect("opens").close().await.expect("closes");
}

#[tokio::test]
async fn a_hub_that_made_its_key_keeps_it() {
    let (dir, kept) = filled(None).await;
    let other = OpenOptions { hub_seed: Some(SecretBytes::new([5; 32])), ..OpenOptions::new(dir.path()) };
    assert!(matches!(SqlStore::open(other), Err(StoreError::OtherHubKey)));
    let store = open(dir.path(), None).expect("opens");
    assert_eq!(store.hub_key().verifying_key().to_bytes(), kept);
    store.close().await.expect("closes");
}
