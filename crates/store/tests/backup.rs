//! Backups: made while the hub runs, checked, restored.

use std::fs;
use std::path::Path;

use convoke_core::journal::{Draft, Kind};
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use convoke_store::backup::Authenticity;
use convoke_store::{Journal as _, OpenOptions, SqlStore, Store as _, StoreError, audit, backup};
use sha2::{Digest as _, Sha256};

fn record() -> Draft {
    Draft::new(Timestamp::from_millis(0), Kind::Hub)
}

fn open(dir: &Path) -> SqlStore {
    SqlStore::open(OpenOptions::new(dir)).expect("opens")
}

async fn running() -> (tempfile::TempDir, SqlStore) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir.path().join("data"));
    store.put_secret("ca", &SecretBytes::new(*b"sealed")).await.expect("keeps");
    for _ in 0..20 {
        store.append(record()).await.expect("appends");
    }
    (dir, store)
}

#[tokio::test]
async fn a_backup_of_a_running_hub_restores_what_was_there() {
    let (dir, store) = running().await;
    let (data, file, again) = (dir.path().join("data"), dir.path().join("one ?#%.backup"), dir.path().join("again"));
    let phrase = SecretText::new("correct horse");
    let manifest = backup::create(&data, &file, Some(&phrase), None).expect("copies");
    assert_eq!((manifest.journal_seq, manifest.hub_id, manifest.has_key()), (20, store.hub_id(), true));
    store.append(record()).await.expect("the hub goes on");
    store.close().await.expect("closes");

    let (_, summary) = backup::verify(&file).expect("whole");
    assert_eq!(summary.last_seq, 20);
    let wrong = backup::restore(&file, &again, Some(&SecretText::new("wrong")), None, backup::Accept::Proven);
    assert!(matches!(wrong, Err(StoreError::BadPassphrase)), "{wrong:?}");
    assert!(!again.exists(), "and nothing was begun");
    assert!(backup::restore(&file, &again, Some(&phrase), None, backup::Accept::Proven).expect("restores").with_key);
    assert!(audit::verify_dir(&again, Default::default()).expect("reads").is_good());
    let restored = open(&again);
    assert_eq!(restored.hub_key().as_bytes(), store.hub_key().as_bytes());
    assert_eq!(restored.secret("ca").await.expect("opens"), Some(SecretBytes::new(*b"sealed")));
    assert_eq!(restored.append(record()).await.expect("goes on"), 21);
    restored.close().await.expect("closes");
}

#[tokio::test]
async fn without_a_passphrase_the_key_stays_where_it_is() {
    let (dir, store) = running().await;
    let (file, again) = (dir.path().join("b"), dir.path().join("again"));
    store.backup(&file, None).await.expect("copies");
    let text = fs::read_to_string(store.paths().key.clone()).expect("reads");
    let bytes = fs::read(&file).expect("reads");
    assert!(!bytes.windows(text.trim().len()).any(|w| w == text.trim().as_bytes()));
    assert!(!backup::restore(&file, &again, None, None, backup::Accept::Proven).expect("restores").with_key);
    assert!(matches!(SqlStore::open(OpenOptions::new(&again)), Err(StoreError::KeyMissing { .. })));
    fs::copy(&store.paths().key, again.join("data.key")).expect("copies");
    open(&again).close().await.expect("closes");
    let nothing =
        backup::restore(&file, &dir.path().join("x"), Some(&SecretText::new("p")), None, backup::Accept::Proven);
    assert!(matches!(nothing, Err(StoreError::BadBackup { .. })), "{nothing:?}");
    store.close().await.expect("closes");
}

#[tokio::test]
async fn nothing_is_overwritten() {
    let (dir, store) = running().await;
    let file = dir.path().join("b");
    store.backup(&file, None).await.expect("copies");
    assert!(matches!(store.backup(&file, None).await, Err(StoreError::Exists(_))));
    let taken = backup::restore(&file, &store.paths().dir, None, None, backup::Accept::Proven);
    assert!(matches!(taken, Err(StoreError::NotEmpty { .. })), "{taken:?}");
    let left: Vec<_> = fs::read_dir(dir.path()).expect("lists").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(left.len(), 2, "nothing half done lies about: {left:?}");
    store.close().await.expect("closes");
    let nowhere = backup::create(&dir.path().join("nowhere"), &dir.path().join("c"), None, None);
    assert!(matches!(nowhere, Err(StoreError::NoData(_))), "{nowhere:?}");
}

#[tokio::test]
async fn a_damaged_backup_is_found_before_anything_is_restored() {
    let (dir, store) = running().await;
    let (file, again) = (dir.path().join("b"), dir.path().join("again"));
    store.backup(&file, None).await.expect("copies");
    store.close().await.expect("closes");
    let good = fs::read(&file).expect("reads");
    let step = good.len() / 23;
    for at in (0..good.len()).step_by(step).chain([good.len() - 1, good.len() - 20, good.len() - 100]) {
        let mut bad = good.clone();
        bad[at] ^= 4;
        fs::write(&file, &bad).expect("writes");
        assert!(
            backup::restore(&file, &again, None, None, backup::Accept::Proven).is_err(),
            "byte {at} of {}",
            good.len()
        );
        assert!(!again.exists());
    }
    for length in [0, 10, good.len() / 2, good.len() - 1] {
        fs::write(&file, &good[..length]).expect("writes");
        assert!(matches!(backup::verify(&file), Err(StoreError::BadBackup { .. })), "{length} bytes");
    }
    fs::write(&file, &good).expect("writes");
    backup::restore(&file, &again, None, None, backup::Accept::Proven).expect("the good one still does");
}

#[tokio::test]
async fn an_interrupted_restore_is_no_place_to_begin_anew_and_can_be_run_again() {
    let (dir, store) = running().await;
    let (data, file) = (dir.path().join("data"), dir.path().join("b"));
    let phrase = SecretText::new("correct horse");
    backup::create(&data, &file, Some(&phrase), None).expect("copies");
    store.close().await.expect("closes");
    let key = fs::read(data.join("data.key")).expect("reads");
    // What is there after a power cut: while the database is copied, while the key is written, and before the last step.
    let half = |name: &str, bytes: &[u8]| (name.to_owned(), bytes[..bytes.len() / 2].to_owned());
    let copied = half("hub.db.restoring", &fs::read(data.join("hub.db")).expect("reads"));
    for (n, left) in [
        vec![copied.clone()],
        vec![copied.clone(), half("data.key.new", &key)],
        vec![copied.clone(), ("data.key".to_owned(), key.clone())],
    ]
    .into_iter()
    .enumerate()
    {
        let again = dir.path().join(format!("again-{n}"));
        fs::create_dir(&again).expect("is made");
        fs::write(again.join("hub.lock"), "1\n").expect("writes");
        for (name, bytes) in &left {
            fs::write(again.join(name), bytes).expect("writes");
        }
        let begun = SqlStore::open(OpenOptions::new(&again)).map(drop);
        let Err(StoreError::HalfRestored(_)) = begun else { panic!("{n}: {begun:?}") };
        assert!(
            backup::restore(&file, &again, Some(&phrase), None, backup::Accept::Proven).expect("goes on").with_key,
            "{n}"
        );
        let restored = open(&again);
        assert_eq!(restored.hub_id(), store.hub_id());
        restored.close().await.expect("closes");
        assert!(!again.join("hub.db.restoring").exists() && !again.join("data.key.new").exists(), "{n}");
    }
}

#[tokio::test]
async fn a_restore_goes_on_over_nothing_that_is_not_its_own() {
    let (dir, store) = running().await;
    let file = dir.path().join("b");
    store.backup(&file, None).await.expect("copies");
    store.close().await.expect("closes");
    for (n, name) in ["notes.txt", "data.key", "data.key.new", "hub.db"].into_iter().enumerate() {
        let again = dir.path().join(format!("again-{n}"));
        fs::create_dir(&again).expect("is made");
        fs::write(again.join("hub.db.restoring"), "half").expect("writes");
        // Another key than the backup's, which is a key all the same.
        fs::write(again.join(name), "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n").expect("writes");
        let taken = backup::restore(&file, &again, None, None, backup::Accept::Proven);
        let told = taken.expect_err("is somebody's").to_string();
        let why = if name.starts_with("data.key") { "not the data key" } else { "is not empty" };
        assert!(told.contains(name) && told.contains(why), "{name}: {told}");
        assert_eq!(fs::read_to_string(again.join("hub.db.restoring")).expect("is there"), "half", "{name}");
    }
}

/// A backup with an admin more in it and all hashes made anew, as whoever can write to the file makes it.
fn forge(file: &Path, forged: &Path, change: impl Fn(&mut serde_json::Value)) {
    let bytes = fs::read(file).expect("reads");
    let tail = bytes.len() - (32 + 4 + 16);
    let size = u32::from_be_bytes(bytes[tail + 32..tail + 36].try_into().expect("four")) as usize;
    let mut manifest: serde_json::Value = serde_json::from_slice(&bytes[tail - size..tail]).expect("JSON");
    fs::write(forged, &bytes[..tail - size]).expect("writes");
    let conn = rusqlite::Connection::open(forged).expect("opens");
    let add =
        "INSERT INTO tokens (id, name, hash, role, scopes, created_at) VALUES (?1, 'eve', ?2, 'admin', '{}', 0)";
    conn.execute(add, (&[7_u8; 16][..], &[8_u8; 32][..])).expect("adds");
    drop(conn);
    let mut whole = fs::read(forged).expect("reads");
    manifest["db_bytes"] = whole.len().into();
    manifest["db_sha256"] = hex::encode(Sha256::digest(&whole)).into();
    change(&mut manifest);
    let manifest = manifest.to_string();
    whole.extend_from_slice(manifest.as_bytes());
    whole.extend_from_slice(&Sha256::digest(&manifest));
    whole.extend_from_slice(&u32::try_from(manifest.len()).expect("small").to_be_bytes());
    whole.extend_from_slice(&bytes[tail + 36..]);
    fs::write(forged, whole).expect("writes");
}

#[tokio::test]
async fn a_forged_backup_is_told_by_the_data_key() {
    let (dir, store) = running().await;
    let (file, forged, again) = (dir.path().join("b"), dir.path().join("forged"), dir.path().join("again"));
    store.backup(&file, None).await.expect("copies");
    store.close().await.expect("closes");
    let data = dir.path().join("data");
    let made = |file: &Path, dir: Option<&Path>| backup::authenticity(file, None, None, dir);
    assert_eq!(made(&file, Some(&data)).expect("reads"), Authenticity::Proven);
    assert_eq!(made(&file, None).expect("reads"), Authenticity::KeyMissing);

    forge(&file, &forged, |_| {});
    backup::verify(&forged).expect("its hashes fit");
    let told = made(&forged, Some(&data)).expect_err("the key tells");
    assert!(told.to_string().contains("somebody changed"), "{told}");
    fs::create_dir(&again).expect("makes");
    fs::copy(data.join("data.key"), again.join("data.key")).expect("copies");
    assert!(backup::restore(&forged, &again, None, None, backup::Accept::Proven).is_err());
    forge(&file, &forged, |manifest| drop(manifest.as_object_mut().expect("an object").remove("seal")));
    assert_eq!(made(&forged, Some(&data)).expect("reads"), Authenticity::Unsigned);
    assert!(backup::restore(&forged, &again, None, None, backup::Accept::Proven).is_err());
    backup::restore(&file, &again, None, None, backup::Accept::Proven).expect("the true one");
}
