//! A disk that is full to the last byte, and what is withdrawn meanwhile.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use convoke_core::grant::{Role, Scopes};
use convoke_core::id::TokenId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_store::{Journal as _, OpenOptions, People as _, SqlStore, Store as _, StoreError, TokenRow, audit};
use uuid::Uuid;

/// A small disk of its own, gone with the test.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(dir.path()).output();
        mounted.is_ok_and(|mounted| mounted.status.success()).then(|| Self(dir))
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    /// Takes whatever space there is.
    fn fill(&self) {
        let mut file = File::options().append(true).create(true).open(self.filler()).expect("opens");
        for size in [64 << 10, 4096, 1] {
            while file.write_all(&vec![b'x'; size]).is_ok() {}
        }
    }

    fn filler(&self) -> PathBuf {
        self.0.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
    }
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn record(what: &str) -> Draft {
    let mut draft = Draft::new(at(0), Kind::Token);
    draft.who = Some(what.to_owned());
    draft
}

fn token(number: u128) -> TokenRow {
    TokenRow {
        id: TokenId::new(Uuid::from_u128(number)),
        name: format!("token-{number}"),
        owner: None,
        hash: SecretText::new(number.to_string()).hash(),
        role: Role::Viewer,
        scopes: Scopes::default(),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
        last_used: None,
    }
}

fn open(dir: &Path) -> SqlStore {
    SqlStore::open(OpenOptions::new(dir)).expect("opens")
}

async fn revoke(store: &SqlStore, number: u128) -> Result<bool, StoreError> {
    store.revoke_token(token(number).id, at(1), record("revoked")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_keeps_what_is_withdrawn_or_owes_it() {
    let Some(disk) = Disk::mount() else {
        return convoke_testing::skip("mounting a disk of its own needs root");
    };
    let store = open(&disk.data());
    for number in 1..=3 {
        store.put_token(token(number), record("minted")).await.expect("there is space");
    }
    // Until not one record fits any more, whatever SQLite still has.
    disk.fill();
    while store.append(record(&"x".repeat(400))).await.is_ok() {}
    assert!(store.stats().failing);

    assert!(revoke(&store, 1).await.expect("the reserve's space is for this"));

    // The answer comes before the space is taken again; what the writer does next comes after both.
    let _ = store.write_owed().await;
    // Without the reserve it is owed.
    std::fs::remove_file(&store.paths().reserve).expect("is there again");
    disk.fill();
    while store.append(record(&"x".repeat(400))).await.is_ok() {}
    let owed = revoke(&store, 2).await;
    assert!(matches!(owed, Err(StoreError::Owed)), "{owed:?}");
    assert_eq!(store.stats().owed, 1);
    assert!(store.write_owed().await.is_err());

    std::fs::remove_file(disk.filler()).expect("removes");
    let next = store.append(record("next")).await.expect("there is space");
    assert_eq!(store.stats().owed, 0);
    let is_revoked = |rows: Vec<TokenRow>| rows.iter().map(|row| row.revoked_at.is_some()).collect::<Vec<_>>();
    assert_eq!(is_revoked(store.tokens().await.expect("reads")), [true, true, false]);
    let filter = convoke_store::JournalFilter { after: Some(next - 2), limit: 10, ..Default::default() };
    let last: Vec<_> = store.journal(filter).await.expect("reads").into_iter().map(|row| row.json).collect();
    assert!(last[0].get().contains("revoked") && last[1].get().contains("next"), "it came first: {last:?}");
    store.close().await.expect("closes");
    let store = open(&disk.data());
    assert_eq!(is_revoked(store.tokens().await.expect("reads")), [true, true, false]);
    store.close().await.expect("closes");
    assert!(audit::verify_dir(&disk.data(), Default::default()).expect("reads").is_good());
}
