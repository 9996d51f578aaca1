//! What only this engine has: its disk can be full, and its groups can fail.

use std::sync::Arc;

use convoke_core::call::CallState;
use convoke_core::door::Door;
use convoke_core::id::{CallId, PeerId, TokenId};
use convoke_core::journal::{Draft, Kind};
use convoke_core::time::Timestamp;

use super::*;
use crate::audit;
use crate::sql::{telemetry, writer};
use crate::{
    CallRow, Calls, ClientRow, Journal, JournalFilter, Lossy, Messages, OutboxRow, Peers, Retention, Store, Telemetry,
};

fn record() -> Draft {
    Draft::new(Timestamp::from_millis(0), Kind::Hub).detail(&"x".repeat(2_000).into())
}

fn open(dir: &tempfile::TempDir) -> Arc<SqlStore> {
    Arc::new(SqlStore::open(OpenOptions::new(dir.path())).expect("opens"))
}

/// Lets the database grow by no more than `pages`; none lifts the limit.
async fn limit(store: &SqlStore, pages: Option<i64>) {
    let set = move |tx: &mut writer::Tx<'_>| {
        let now: i64 = tx.conn.query_row("PRAGMA page_count", [], |row| row.get(0))?;
        let limit = pages.map_or(i64::from(i32::MAX), |pages| now + pages);
        tx.conn.query_row(&format!("PRAGMA max_page_count = {limit}"), [], |_| Ok(()))?;
        Ok(())
    };
    store.queue.run(0, set).await.expect("sets");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_acknowledges_nothing_and_is_left_behind_when_there_is_space() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    store.append(record()).await.expect("appends");
    limit(&store, Some(4)).await;
    let mut acknowledged = vec![1];
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let store = Arc::clone(&store);
        tasks.spawn(async move { store.append(record()).await });
    }
    let answers = tasks.join_all().await;
    let refused = answers.iter().filter(|a| matches!(a, Err(StoreError::DiskFull))).count();
    acknowledged.extend(answers.into_iter().flatten());
    assert!(refused > 0);
    assert_eq!(acknowledged.len() + refused, 65, "everyone has an answer");
    // What is lost while nobody waits for it is counted.
    for _ in 0..32 {
        store.enqueue(Lossy::Record(record())).await.expect("takes");
    }
    let full = store.append(record()).await;
    assert!(matches!(full, Err(StoreError::DiskFull)), "{full:?}");
    assert!(store.stats().failing && store.stats().lost > 0, "{:?}", store.stats());
    assert_eq!(store.stats().journal_seq as usize, records(&store).await);

    limit(&store, None).await;
    assert!(!store.stats().failing);
    let next = store.append(record()).await.expect("appends again");
    assert_eq!(next as usize, records(&store).await, "no place was used up by what failed");
    acknowledged.sort_unstable();
    acknowledged.push(next);
    assert!(acknowledged.is_sorted_by(|a, b| a < b));
    store.close().await.expect("closes");
    assert!(audit::verify_dir(dir.path(), Default::default()).expect("reads").is_good());
}

#[tokio::test]
async fn a_writer_that_panics_leaves_nobody_waiting_and_the_directory_free() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    store.append(record()).await.expect("appends");
    let fall = |tx: &mut writer::Tx<'_>| -> Result<()> {
        tx.append(&record())?;
        panic!("for this test");
    };
    let (fallen, behind) = tokio::join!(store.queue.run(0, fall), store.append(record()));
    assert!(matches!((fallen, behind), (Err(StoreError::Closed), Err(StoreError::Closed))));
    assert!(matches!(store.append(record()).await, Err(StoreError::Closed)));
    drop(store);
    let store = loop {
        // The thread releases the directory when it has ended.
        match SqlStore::open(OpenOptions::new(dir.path())) {
            Ok(store) => break store,
            Err(StoreError::Locked { .. }) => tokio::task::yield_now().await,
            Err(other) => panic!("{other:?}"),
        }
    };
    assert_eq!(records(&store).await, 1);
    store.close().await.expect("closes");
}

#[test]
fn a_store_outlives_the_runtime_in_which_it_was_opened() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let first = runtime();
    let store = first.block_on(async {
        let store = open(&dir);
        store.append(record()).await.expect("appends");
        store
    });
    drop(first);
    runtime().block_on(async {
        assert_eq!(store.append(record()).await.expect("appends"), 2);
        assert_eq!(records(&store).await, 2);
        store.close().await.expect("closes");
    });
}

/// What was answered when the store is closed is in the journal, and nothing else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closing_answers_everyone_and_keeps_what_was_acknowledged() {
    for round in 0..20_u64 {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(&dir);
        let mut callers = tokio::task::JoinSet::new();
        for _ in 0..4 {
            let store = Arc::clone(&store);
            callers.spawn(async move {
                let mut acknowledged = 0;
                while store.append(record()).await.is_ok() {
                    acknowledged += 1;
                }
                acknowledged
            });
        }
        while store.stats().journal_seq < round {
            tokio::task::yield_now().await;
        }
        store.close().await.expect("closes");
        let acknowledged: u64 = callers.join_all().await.into_iter().sum();
        let audit::Verdict::Good(summary) = audit::verify_dir(dir.path(), Default::default()).expect("reads") else {
            panic!("it holds");
        };
        assert_eq!(summary.last_seq, acknowledged);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_is_removed_though_what_it_left_cannot_be_swept_away_yet() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let agent = PeerId::kenny("pc-1").expect("an id");
    store.ensure_agent(&agent, Timestamp::from_millis(0)).await.expect("is there");
    let sql = async |sql: &'static str| {
        store.queue.run(0, move |tx| tx.conn.execute_batch(sql)).await.expect("is done");
    };
    let left = async || {
        let count = |conn: &Connection| {
            let rows = "SELECT (SELECT count(*) FROM logs) + (SELECT count(*) FROM sweeps)";
            conn.query_row(rows, [], |row| row.get::<i64>(0))
        };
        store.readers.read(count).await.expect("reads")
    };
    sql("INSERT INTO logs (received_at, agent, source, level, at, target, message)
             WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
             SELECT 0, 'pc-1', 'agent', 'info', '', '', '' FROM n;
         CREATE TRIGGER full BEFORE DELETE ON logs BEGIN SELECT RAISE(ABORT, 'no'); END;")
    .await;
    assert!(store.remove_agent(&agent, record()).await.expect("the removal itself is kept"));
    assert!(store.agents().await.expect("reads").is_empty());
    store.sweep().await.expect_err("not yet");
    assert_eq!(left().await, 1_001);
    sql("DROP TRIGGER full").await;
    store.sweep().await.expect("sweeps");
    assert_eq!(left().await, 0);
    store.close().await.expect("closes");
}

fn waiting_call(id: CallId) -> CallRow {
    CallRow {
        id,
        caller: TokenId::new(uuid::Uuid::from_u128(9)),
        idempotency_key: None,
        target: PeerId::kenny("pc-1").expect("an id"),
        tool: "shell_exec".into(),
        args_digest: "x".into(),
        door: Door::Http,
        args: None,
        timeout_ms: None,
        requested_by: None,
        state: CallState::Waiting,
        outcome: None,
        created_at: Timestamp::from_millis(0),
        keep_until: Timestamp::from_millis(1),
    }
}

async fn records(store: &SqlStore) -> usize {
    store.journal(JournalFilter { limit: 10_000, ..JournalFilter::default() }).await.expect("reads").len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_fails_is_undone_alone_with_its_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..60 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let work = move |tx: &mut writer::Tx<'_>| {
                tx.append(&record())?;
                set_meta(tx.conn, &format!("n{n}"), "there")?;
                if n % 3 == 0 { Err(StoreError::Conflict("no".into())) } else { Ok(()) }
            };
            (n, store.queue.run(0, work).await.is_ok())
        });
    }
    for (n, kept) in tasks.join_all().await {
        assert_eq!(kept, n % 3 != 0);
        let there = store.readers.read(move |conn| meta(conn, &format!("n{n}"))).await.expect("reads");
        assert_eq!(there.is_some(), kept);
    }
    assert_eq!(records(&store).await, 40);
    store.close().await.expect("closes");
    assert!(audit::verify_dir(dir.path(), Default::default()).expect("reads").is_good());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_find_among_many_records() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    for n in 1..=3_000_u32 {
        let mut draft = Draft::new(Timestamp::from_millis(0), Kind::Call);
        draft.target = Some(if n == 700 || n == 2_900 { "rare".into() } else { format!("pc-{}", n % 50) });
        store.enqueue(Lossy::Record(draft)).await.expect("takes");
    }
    store.checkpoint(Timestamp::from_millis(0)).await.expect("commits");
    let find = async |agent: &str, after, limit| {
        let filter = JournalFilter { agent: Some(agent.into()), after, limit, ..JournalFilter::default() };
        store.journal(filter).await.expect("reads").iter().map(|r| r.seq).collect::<Vec<_>>()
    };
    assert_eq!(find("rare", None, 10).await, [700, 2_900]);
    assert_eq!(find("rare", None, 1).await, [700]);
    assert_eq!(find("rare", Some(700), 10).await, [2_900]);
    assert_eq!(find("nobody", None, 10).await, [0; 0]);
    assert_eq!(find("pc-7", Some(1_100), 2).await, [1_107, 1_157]);
    assert_eq!(find("pc-7", None, 10_000).await.len(), 60);
    store.close().await.expect("closes");
}

/// Every filter by itself and with the others; each is answered by an index, or there is no need of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_filter_finds_what_it_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let id = |n: u128| CallId::new(uuid::Uuid::from_u128(n));
    for n in 0..8_u32 {
        let mut draft = Draft::new(Timestamp::from_millis(0), if n & 1 == 0 { Kind::Call } else { Kind::Enrol });
        draft.target = Some(format!("pc-{}", n >> 1 & 1));
        draft.tool = Some(format!("tool-{}", n >> 2 & 1));
        draft.call_id = Some(id(u128::from(n % 3)));
        store.append(draft).await.expect("appends");
    }
    for asked in 0..16_u32 {
        for n in 0..8_u32 {
            let filter = JournalFilter {
                limit: 10,
                after: None,
                before: None,
                kind: (asked & 1 > 0).then(|| if n & 1 == 0 { "call" } else { "enrol" }.into()),
                agent: (asked & 2 > 0).then(|| format!("pc-{}", n >> 1 & 1)),
                tool: (asked & 4 > 0).then(|| format!("tool-{}", n >> 2 & 1)),
                call_id: (asked & 8 > 0).then(|| id(u128::from(n % 3))),
            };
            let found: Vec<_> = store.journal(filter).await.expect("reads").iter().map(|r| r.seq - 1).collect();
            let fits = |m: &u64| {
                let m = *m as u32;
                (m ^ n) & asked & 7 == 0 && (asked & 8 == 0 || m % 3 == n % 3)
            };
            assert_eq!(found, (0..8).filter(fits).collect::<Vec<_>>(), "{asked} {n}");
        }
    }
    store.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_hub_keeps_here_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let at = Timestamp::from_millis(1);
    let ids = [1, 2].map(|n| CallId::new(uuid::Uuid::from_u128(n)));
    let client = |identifier: &str| ClientRow {
        identifier: identifier.into(),
        listed: true,
        trust: convoke_core::peer::Trust::Trusted,
        public_key: None,
        secret: None,
        old_secrets: Vec::new(),
        pairing: None,
        pause_until: None,
        rotation_until: None,
        rotation_key: None,
        reset: None,
        created_at: at,
        paired_at: None,
        last_auth: None,
        last_seen: None,
        liveness: convoke_core::peer::Liveness::Offline,
    };
    store.put_client(client("away"), None).await.expect("keeps");
    // What waits for a client is given out by the hub that it comes to.
    const HOOK: &str = "webhook:r";
    let mut messages = Vec::new();
    for id in ids {
        let mut intent = Draft::new(at, Kind::Call);
        intent.phase = Some(convoke_core::journal::Phase::Intent);
        intent.call_id = Some(id);
        store.append(intent).await.expect("appends");
        store.put_call(waiting_call(id), None, None).await.expect("keeps");
        let message = OutboxRow {
            id: 0,
            created_at: at,
            expires_at: Timestamp::from_millis(100),
            rule: "r".into(),
            sender: "s".into(),
            with_id: false,
            content: "c".into(),
        };
        messages.push(store.put_outbox(message, vec![HOOK.into()]).await.expect("keeps"));
    }
    let (other, message) = (ids[0].uuid().into_bytes(), messages[0]);
    let give_away = move |tx: &mut writer::Tx<'_>| {
        tx.conn.execute("UPDATE calls SET hub_id = 'another' WHERE id = ?1", [other])?;
        tx.conn.execute("UPDATE open_intents SET hub_id = 'another' WHERE call_id = ?1", [other])?;
        tx.conn.execute("UPDATE outbox SET hub_id = 'another' WHERE id = ?1", [message])?;
        Ok(())
    };
    store.queue.run(0, give_away).await.expect("is done");
    store.close().await.expect("closes");

    let store = open(&dir);
    let open: Vec<_> = store.open_intents().await.expect("reads").into_iter().map(|intent| intent.call_id).collect();
    assert_eq!(open, [Some(ids[1])]);
    let stranded: Vec<_> = store.stranded_calls().await.expect("reads").into_iter().map(|call| call.id).collect();
    assert_eq!(stranded, [ids[1]]);
    let waits = async || store.outbox(HOOK, 0, 10, at).await.expect("reads");
    assert_eq!(waits().await.iter().map(|row| row.id).collect::<Vec<_>>(), [messages[1]]);
    assert_eq!(store.outbox_totals().await.expect("reads")[0].count, 1);
    store.delivered(HOOK, vec![messages[1]]).await.expect("is noted");
    assert!(waits().await.is_empty());
    let left = |conn: &Connection| conn.query_row("SELECT group_concat(message) FROM deliveries", [], |r| r.get(0));
    let left: String = store.readers.read(left).await.expect("reads");
    assert_eq!(left, messages[0].to_string(), "the other hub still has its own to deliver");
    // Much later: what has expired here goes, and what has expired there is the other's to remove.
    let ended = |tx: &mut writer::Tx<'_>| tx.conn.execute("UPDATE calls SET state = 'done'", []).map(drop);
    store.queue.run(0, ended).await.expect("is done");
    let late = Timestamp::from_millis(i64::MAX / 2);
    assert_eq!(store.lapse(late, None).await.expect("prunes"), 0);
    store.prune(Retention::default(), late).await.expect("prunes");
    let kept = async |id| store.call(id).await.expect("reads").is_some();
    assert_eq!((kept(ids[0]).await, kept(ids[1]).await), (true, false));
    assert!(store.remove_client("away", record()).await.expect("removes"));
    store.close().await.expect("closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_hub_is_kept_out_and_told_who_has_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let second = SqlStore::open(OpenOptions::new(dir.path())).map(drop);
    let Err(StoreError::Locked { holder, .. }) = second else { panic!("{second:?}") };
    assert_eq!(holder, format!("process {}", std::process::id()));
    store.close().await.expect("closes");
    open(&dir).close().await.expect("free again");
}

#[cfg(unix)]
#[tokio::test]
async fn only_the_owner_may_read() {
    use std::os::unix::fs::PermissionsExt as _;
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("data");
    let store = SqlStore::open(OpenOptions::new(&dir)).expect("opens");
    store.append(record()).await.expect("appends");
    let mode = |path: &std::path::Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    for name in ["hub.db", "hub.db-wal", "hub.db-shm", "data.key", "hub.lock"] {
        assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
    }
    store.close().await.expect("closes");
}

#[tokio::test]
async fn a_statement_is_parsed_once_whatever_it_is_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let asked = store.queue.run(0, |tx| {
        for agent in ["a", "b", "c"] {
            telemetry::marks(tx.conn, &PeerId::kenny(agent).expect("valid"))?;
        }
        let conn = tx.conn.sqlite().expect("embedded");
        Ok(conn.prepare_cached(telemetry::MARKS)?.get_status(rusqlite::StatementStatus::RePrepare))
    });
    assert_eq!(asked.await.expect("asks"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_for_one_tool_of_one_target_and_losing_them_is_one_calls_loss() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let ids = [1, 2, 3, 4].map(|n| CallId::new(uuid::Uuid::from_u128(n)));
    for id in ids {
        let call = CallRow { args: Some(SecretBytes::new(*b"{}")), ..waiting_call(id) };
        store.put_call(call, None, None).await.expect("keeps");
    }
    let meddle = |tx: &mut writer::Tx<'_>| {
        for (n, change) in ["target = 'pc-2'", "tool = 'fs_list'", "args = zeroblob(60)"].iter().enumerate() {
            let id = uuid::Uuid::from_u128(n as u128 + 1).into_bytes();
            tx.conn.execute(&format!("UPDATE calls SET {change} WHERE id = ?1"), [id])?;
        }
        Ok(())
    };
    store.queue.run(0, meddle).await.expect("changes them");
    let mut readable = Vec::new();
    for id in ids {
        readable.push(store.call(id).await.expect("reads").expect("is there").args.is_some());
    }
    assert_eq!(readable, [false, false, false, true]);
}

#[test]
fn a_damaged_log_that_cannot_be_copied_whole_leaves_no_copy() {
    use std::io::Read as _;

    /// A disk that is full when so much was copied.
    struct Full;
    impl std::io::Read for Full {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }
    let dir = tempfile::tempdir().expect("a directory");
    let wal = dir.path().join("hub.db-wal");
    let names = || -> Vec<_> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.path()).expect("reads").map(|e| e.expect("there").file_name()).collect();
        names.sort();
        names
    };
    for _ in 0..2 {
        let refused = set_aside(&wal, b"half of it".chain(Full));
        assert!(matches!(refused, Err(StoreError::DiskFull)), "{refused:?}");
        assert_eq!(refused.expect_err("refused").to_string(), "the disk is full");
        assert!(names().is_empty(), "{:?}", names());
    }
    // What a start left that was killed meanwhile is in nobody's way.
    std::fs::write(dir.path().join("hub.db-wal.damaged.part"), "half").expect("writes");
    for log in ["first", "second", "third"] {
        let kept = set_aside(&wal, log.as_bytes()).expect("copies");
        assert_eq!(std::fs::read_to_string(kept).expect("reads"), log);
    }
    assert_eq!(names(), ["hub.db-wal.damaged", "hub.db-wal.damaged.2", "hub.db-wal.damaged.3"]);
}
