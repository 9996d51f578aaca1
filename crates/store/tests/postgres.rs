//! The shared suite on PostgreSQL. One server for all of it, and a database for each test: tests that are processes of their own
//! would start a server each.
#![cfg(unix)]

mod suite;

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use convoke_store::{OpenOptions, SqlStore, Store};
use convoke_testing::postgres::Postgres;

static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();

/// A database that lives as long as the server, opened as often as the test likes.
struct PostgresBackend {
    dir: tempfile::TempDir,
    url: String,
}

impl suite::Backend for PostgresBackend {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut backend = Self { dir, url: String::new() };
        backend.url = server().database(&backend.name());
        backend
    }

    fn open(&self) -> Arc<dyn Store> {
        let server = Some((self.url.parse().expect("an address"), "hub".to_owned()));
        let options = OpenOptions { server, ..OpenOptions::new(self.dir.path()) };
        // As the hub does: opening blocks.
        let opened = std::thread::spawn(|| SqlStore::open(options)).join().expect("no panic");
        Arc::new(opened.expect("opens"))
    }
}

/// What only a server has, and what several hubs do to each other.
mod server {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use convoke_core::id::PeerId;
    use convoke_core::journal::Kind;
    use convoke_core::secret::SecretBytes;
    use convoke_store::{
        Announced, Hubs as _, Journal as _, JournalFilter, OpenOptions, PeerLink, Peers as _, SqlStore, Store as _,
        StoreError,
    };

    use super::suite::journal::verify;
    use super::suite::{Backend as _, record, records};
    use super::{PostgresBackend, server};

    /// How long the lease of a hub is here.
    const LEASE: Duration = Duration::from_secs(1);

    /// Opens the store as the hub of this name, with a directory of its own.
    fn open(backend: &PostgresBackend, hub: &str) -> Result<SqlStore, StoreError> {
        open_with(backend, hub, Some(LEASE))
    }

    fn open_with(backend: &PostgresBackend, hub: &str, lease: Option<Duration>) -> Result<SqlStore, StoreError> {
        let options = OpenOptions {
            lease,
            data_key: Some(SecretBytes::new([7; 32])),
            server: Some((backend.url.parse().expect("an address"), hub.to_owned())),
            ..OpenOptions::new(backend.dir.path().join(hub).join(uuid::Uuid::new_v4().to_string()))
        };
        std::fs::create_dir_all(&options.dir).expect("a directory");
        std::thread::spawn(|| SqlStore::open(options)).join().expect("no panic")
    }

    pub(super) async fn both_engines_have_the_same_tables_and_columns(backend: &PostgresBackend) {
        let dir = tempfile::tempdir().expect("a directory");
        SqlStore::open(OpenOptions::new(dir.path())).expect("opens").close().await.expect("closes");
        backend.open().close().await.expect("closes");
        let db = rusqlite::Connection::open(dir.path().join("hub.db")).expect("opens");
        let embedded: BTreeSet<String> = db
            .prepare(
                "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c
                 WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%'",
            )
            .and_then(|mut all| all.query_map([], |row| row.get(0))?.collect())
            .expect("reads");
        let columns = server().run(
            &backend.name(),
            "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'",
        );
        // What only several hubs need.
        let of_hubs = |column: &str| {
            ["schema_version.", "hubs.", "links.", "changes.", "change_count."]
                .iter()
                .any(|table| column.starts_with(table))
                || ["journal.hub_id", "checkpoints.hub_id"].contains(&column)
        };
        let shared = columns.lines().filter(|column| !of_hubs(column)).map(str::to_owned).collect::<BTreeSet<_>>();
        assert_eq!(embedded, shared);
    }

    pub(super) async fn three_hubs_start_at_once_and_have_a_chain_each(backend: &PostgresBackend) {
        let stores: Vec<_> = std::thread::scope(|scope| {
            let starts = ["a", "b", "c"].map(|name| scope.spawn(move || open(backend, name)));
            starts.map(|start| start.join().expect("no panic").expect("opens")).into()
        });
        let hubs: BTreeSet<_> = stores.iter().map(|store| store.hub_id().to_string()).collect();
        assert_eq!(hubs.len(), 3);
        assert!(stores.iter().all(|store| store.hub_key() == stores[0].hub_key()), "agents know them by one key");
        for (n, store) in stores.iter().enumerate() {
            for _ in 0..=n {
                store.append(record(Kind::Hub)).await.expect("appends");
            }
        }
        let mut keys = BTreeSet::new();
        for (n, store) in stores.iter().enumerate() {
            store.checkpoint(super::suite::at(1)).await.expect("signs");
            let summary = verify(store).await;
            assert_eq!((summary.last_seq, summary.signed_up_to), (n as u64 + 1, n as u64 + 1));
            keys.insert(store.checkpoints(None, 1).await.expect("reads")[0].public_key);
            store.close().await.expect("closes");
        }
        assert_eq!(keys.len(), 3, "each signs with its own");
    }

    pub(super) async fn a_name_is_one_hubs_and_who_takes_it_over_ends_the_one_before(backend: &PostgresBackend) {
        let first = open(backend, "a").expect("opens");
        first.append(record(Kind::Hub)).await.expect("appends");
        let second = open(backend, "a").map(drop);
        assert!(matches!(&second, Err(StoreError::NameInUse(name)) if name == "a"), "{second:?}");
        // As if the first one had been cut off from the server.
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
                   AND pid <> pg_backend_pid()";
        server().run(&backend.name(), end);
        let second = open(backend, "a").expect("opens");
        assert_eq!(first.hub_id(), second.hub_id());
        let broken = first.append(record(Kind::Hub)).await;
        assert!(broken.is_err(), "{broken:?}");
        let late = first.append(record(Kind::Hub)).await;
        assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
        assert_eq!(second.append(record(Kind::Hub)).await.expect("appends"), 2);
        assert_eq!(verify(&second).await.last_seq, 2);
        second.close().await.expect("closes");
    }

    pub(super) async fn without_a_lease_a_hub_has_the_database_alone(backend: &PostgresBackend) {
        let first = open_with(backend, "a", None).expect("opens");
        let second = open(backend, "b").map(drop);
        assert!(matches!(second, Err(StoreError::DatabaseInUse)), "{second:?}");
        first.close().await.expect("closes");
        open(backend, "b").expect("opens").close().await.expect("closes");
    }

    fn link(epoch: u64, store: &SqlStore) -> PeerLink {
        let (hub, since) = (store.hub_id(), super::suite::at(1));
        PeerLink { peer: "pc".into(), epoch, hub, since, facts: "{}".into(), is_live: true }
    }

    pub(super) async fn the_newest_link_stands_and_ends_with_its_hub(backend: &PostgresBackend) {
        let (a, b) = (open(backend, "a").expect("opens"), open(backend, "b").expect("opens"));
        let (one, two) = (a.next_link().await.expect("a number"), b.next_link().await.expect("a number"));
        assert!(one < two, "whichever hub asks");
        assert!(b.claim_link(link(two, &b)).await.expect("claims"));
        assert!(!a.claim_link(link(one, &a)).await.expect("is told"), "an older one came late");
        let standing = async || a.links(Some(vec!["pc".into()])).await.expect("reads").pop();
        assert!(standing().await.is_some_and(|link| (link.epoch, link.hub, link.is_live) == (two, b.hub_id(), true)));
        assert!(!a.fence(b.hub_id()).await.expect("is told"), "its lease lives");
        let ended = async { while standing().await.is_some_and(|link| link.is_live) {} };
        tokio::time::timeout(LEASE * 10, ended).await.expect("its lease ends");
        assert!(standing().await.is_some_and(|link| !link.is_live));
        assert!(a.fence(b.hub_id()).await.expect("fences"));
        assert!(standing().await.is_none());
        let late = b.append(record(Kind::Hub)).await;
        assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
        assert!(!b.renew(Announced::default(), 0).await.expect("is told"));
        a.close().await.expect("closes");
    }

    pub(super) async fn changes_are_numbered_in_the_order_of_their_commits(backend: &PostgresBackend) {
        let (a, b) = (open(backend, "a").expect("opens"), open(backend, "b").expect("opens"));
        let from = a.last_change().await.expect("reads");
        let (told, mut hears) = tokio::sync::mpsc::channel(100);
        b.on_change(Box::new(move || {
            let _ = told.try_send(());
        }))
        .expect("listens");
        let agents = (0..20).map(|n| PeerId::kenny(&format!("pc-{n}")).expect("an id")).collect::<Vec<_>>();
        let add = async |store: &SqlStore, which: usize| {
            for agent in agents.iter().skip(which).step_by(2) {
                store.ensure_agent(agent, super::suite::at(1)).await.expect("keeps");
            }
        };
        tokio::join!(add(&a, 0), add(&b, 1));
        hears.recv().await.expect("is told");
        let changes = b.changes(from).await.expect("reads");
        let numbers: Vec<_> = changes.iter().map(|change| change.num).collect();
        assert_eq!(numbers, (from + 1..=from + 20).collect::<Vec<_>>());
        assert!(changes.iter().all(|change| change.what == "agent"));
        assert_eq!(changes.iter().filter(|change| change.is_own).count(), 10);
        assert!(b.agent(&agents[0]).await.expect("reads").is_some());
        b.renew(Announced::default(), from + 20).await.expect("renews");
        a.renew(Announced::default(), from + 5).await.expect("renews");
        a.forget_changes().await.expect("forgets");
        assert_eq!(b.changes(from).await.expect("reads").len(), 15, "a has yet to see them");
        a.close().await.expect("closes");
        b.close().await.expect("closes");
    }

    pub(super) async fn a_broken_connection_is_made_anew(backend: &PostgresBackend) {
        let store = open(backend, "a").expect("opens");
        for round in 0..5 {
            store.append(record(Kind::Hub)).await.expect("appends");
            let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()
                       AND pid <> pg_backend_pid()";
            server().run(&backend.name(), end);
            let broken = store.append(record(Kind::Hub)).await;
            assert!(matches!(&broken, Err(StoreError::Unreachable(_) | StoreError::NotConfirmed(_))), "{broken:?}");
            assert!(store.stats().failing, "{round}");
            // A reader may notice as well.
            let _ = store.agents().await;
        }
        store.append(record(Kind::Hub)).await.expect("appends");
        assert!(!store.stats().failing);
        let read = store.journal(JournalFilter { limit: 100, ..JournalFilter::default() }).await;
        assert_eq!(read.expect("reads").len(), 6);
        assert_eq!(verify(&store).await.last_seq, 6);
        store.close().await.expect("closes");
    }

    pub(super) async fn a_newer_schema_is_refused(backend: &PostgresBackend) {
        open(backend, "a").expect("opens").close().await.expect("closes");
        server().run(&backend.name(), "UPDATE schema_version SET version = 1000");
        let refused = open(backend, "a").map(drop).expect_err("refused");
        assert!(refused.to_string().contains("run a newer convoke"), "{refused}");
    }

    pub(super) async fn whatever_a_caller_names_is_recorded_and_found(backend: &PostgresBackend) {
        let store = open(backend, "a").expect("opens");
        // A name is kept up to 512 bytes.
        for tool in ["a\0b\u{1a}".to_owned(), "l\0ng ".repeat(100)] {
            let draft = convoke_core::journal::Draft { tool: Some(tool.clone()), ..record(Kind::Refusal) };
            store.append(draft).await.expect("appends");
            let found = JournalFilter { tool: Some(tool), limit: 10, ..JournalFilter::default() };
            assert_eq!(store.journal(found).await.expect("reads").len(), 1);
        }
        assert_eq!(records(&store).await, 2);
        verify(&store).await;
        store.close().await.expect("closes");
    }
}

fn server() -> &'static Postgres {
    SERVER.get().and_then(Option::as_ref).expect("the test has started it")
}

impl PostgresBackend {
    fn name(&self) -> String {
        self.dir.path().file_name().expect("has a name").to_string_lossy().into_owned()
    }
}

type Test = Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! list {
    ($backend:ty; $($module:ident: $($test:ident),* $(,)?;)*) => {
        fn tests() -> Vec<(&'static str, fn() -> Test)> {
            vec![$($(
                (stringify!($test), || Box::pin(async {
                    suite::$module::$test(&<$backend as suite::Backend>::new()).await;
                })),
            )*)*]
        }
    };
}

suite::for_backend!(PostgresBackend, list);

macro_rules! own {
    ($($test:ident),* $(,)?) => {
        fn own_tests() -> Vec<(&'static str, fn() -> Test)> {
            vec![$(
                (stringify!($test), || Box::pin(async {
                    server::$test(&<PostgresBackend as suite::Backend>::new()).await;
                })),
            )*]
        }
    };
}

own!(
    both_engines_have_the_same_tables_and_columns,
    three_hubs_start_at_once_and_have_a_chain_each,
    a_name_is_one_hubs_and_who_takes_it_over_ends_the_one_before,
    without_a_lease_a_hub_has_the_database_alone,
    the_newest_link_stands_and_ends_with_its_hub,
    changes_are_numbered_in_the_order_of_their_commits,
    a_broken_connection_is_made_anew,
    a_newer_schema_is_refused,
    whatever_a_caller_names_is_recorded_and_found,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_test_of_the_suite_holds_on_postgresql() {
    if SERVER.get_or_init(Postgres::start).is_none() {
        convoke_testing::skip("PostgreSQL is not installed: `cargo xtask setup`");
        return;
    }
    let only = std::env::var("CONVOKE_TEST_ONLY").ok();
    let mut failed = Vec::new();
    for (name, test) in tests().into_iter().chain(own_tests()) {
        if only.as_ref().is_some_and(|only| !name.contains(only)) {
            continue;
        }
        if tokio::spawn(test()).await.is_err() {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{} failed: {failed:?}", failed.len());
}
