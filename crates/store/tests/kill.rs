//! A hub killed at any moment starts again with everything it acknowledged.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;

use convoke_core::guard::{AppliesTo, Rule};
use convoke_core::id::CallId;
use convoke_core::journal::{Draft, Kind, Phase};
use convoke_core::time::Timestamp;
use convoke_store::{Calls as _, Journal as _, JournalFilter, OpenOptions, People as _, SqlStore, Store as _, audit};
use uuid::Uuid;

const DIR: &str = "CONVOKE_KILL_TEST_DIR";

/// What the killed process runs: it appends for ever and prints what was acknowledged. Run by itself it does nothing.
#[test]
fn appends_until_killed() {
    let Some(dir) = std::env::var_os(DIR) else { return };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = Arc::new(SqlStore::open(OpenOptions::new(dir)).expect("opens"));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..8 {
            let store = Arc::clone(&store);
            tasks.spawn(async move {
                loop {
                    let call = Draft {
                        call_id: Some(CallId::new(Uuid::new_v4())),
                        who: Some("y".repeat(500)),
                        ..Draft::new(Timestamp::from_millis(0), Kind::Call)
                    };
                    // Some calls are announced, all of them end; and a change with a record of its own goes another way.
                    if task == 0 {
                        let rule = Rule {
                            id: "r".into(),
                            applies_to: AppliesTo::Posix,
                            pattern: "x".into(),
                            reason: "a reason".into(),
                        };
                        let record = Draft::new(Timestamp::from_millis(0), Kind::Policy);
                        store.put_deny_rule(&rule, record).await.expect("keeps");
                    }
                    if task % 2 == 0 {
                        let intent = Draft { phase: Some(Phase::Intent), ..call.clone() };
                        println!("ack {}", store.append(intent).await.expect("appends"));
                    }
                    let outcome = Draft { phase: Some(Phase::Outcome), ..call };
                    println!("ack {}", store.append(outcome).await.expect("appends"));
                }
            });
        }
        tasks.join_all().await;
    });
}

#[test]
fn a_killed_writer_keeps_what_it_acknowledged() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut acknowledged = BTreeSet::new();
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "appends_until_killed", "--nocapture", "--test-threads=1"])
            .env(DIR, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let mut seen = 0;
        for line in output.lines() {
            // The end of the pipe may cut a line; a cut line was not acknowledged to anyone.
            let Ok(line) = line else { break };
            let Some((_, seq)) = line.split_once("ack ") else { continue };
            acknowledged.insert(seq.trim().parse::<u64>().expect("a whole line"));
            seen += 1;
            if seen == 150 + round * 97 {
                child.kill().expect("kills");
            }
        }
        child.wait().expect("ends");
        assert!(seen >= 150, "it wrote something: {seen}");
        // Before anything is repaired or closed: the files as the kill left them.
        let verdict = audit::verify_dir(dir.path(), Default::default()).expect("reads");
        assert!(verdict.is_good(), "{verdict:?}");
    }
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let store = SqlStore::open(OpenOptions::new(dir.path())).expect("opens again");
        let mut kept = BTreeSet::new();
        let mut open = BTreeSet::new();
        loop {
            let after = kept.last().copied();
            let page = JournalFilter { after, limit: 10_000, ..JournalFilter::default() };
            let rows = store.journal(page).await.expect("reads");
            if rows.is_empty() {
                break;
            }
            for row in rows {
                kept.insert(row.seq);
                let record: Draft = serde_json::from_str(row.json.get()).expect("a record");
                let Some(id) = record.call_id.map(|id| id.to_string()) else { continue };
                if record.phase == Some(Phase::Intent) {
                    open.insert(id);
                } else {
                    open.remove(&id);
                }
            }
        }
        let lost: Vec<_> = acknowledged.difference(&kept).collect();
        assert!(lost.is_empty(), "acknowledged and gone: {lost:?}");
        let listed = store.open_intents().await.expect("reads");
        let listed = listed.into_iter().map(|intent| intent.call_id.expect("a call").to_string()).collect();
        assert_eq!(open, listed, "the calls that were announced and have not ended");
        store.close().await.expect("closes");
    });
    assert!(audit::verify_dir(dir.path(), Default::default()).expect("reads").is_good());
}
