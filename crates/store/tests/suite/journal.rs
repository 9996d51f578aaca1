use std::sync::Arc;

use convoke_core::grant::{Role, Scopes};
use convoke_core::id::{CallId, TokenId};
use convoke_core::journal::{Draft, Expected, ExportHeader, Kind, Summary, Verifier, checkpoint_line};
use convoke_core::secret::SecretText;
use convoke_store::{JournalFilter, Lossy, Store, StoreError, TokenRow};
use uuid::Uuid;

use super::{Backend, at, record, records};

fn about(target: &str, tool: &str, call: u128) -> Draft {
    Draft {
        target: Some(target.into()),
        tool: Some(tool.into()),
        call_id: Some(CallId::new(Uuid::from_u128(call))),
        ..record(Kind::Call)
    }
}

/// Reads everything through the interface and verifies it as an export.
pub(crate) async fn verify(store: &dyn Store) -> Summary {
    let checkpoints = store.checkpoints(None, 10_000).await.expect("reads");
    let key = checkpoints.last().map_or([0; 32], |c| c.public_key);
    let mut verifier = Verifier::new(Expected::default());
    verifier.line(ExportHeader::new(store.hub_id(), key, at(0)).line().as_bytes());
    let mut after = None;
    loop {
        let page =
            store.journal(JournalFilter { after, limit: 1_000, ..JournalFilter::default() }).await.expect("reads");
        let Some(last) = page.last() else { break };
        after = Some(last.seq);
        for row in page {
            verifier.line(row.json.get().as_bytes());
            for checkpoint in checkpoints.iter().filter(|c| c.seq == row.seq) {
                verifier.line(checkpoint_line(checkpoint).as_bytes());
            }
        }
    }
    verifier.finish().expect("the chain holds")
}

pub(crate) async fn records_are_numbered_and_chained(backend: &impl Backend) {
    let store = backend.open();
    assert_eq!(store.append(about("pc-1", "fs_read", 1)).await.expect("appends"), 1);
    assert_eq!(store.append(about("pc-2", "fs_read", 2)).await.expect("appends"), 2);
    store.enqueue(Lossy::Record(record(Kind::Refusal))).await.expect("takes");
    store.close().await.expect("closes");
    let store = backend.open();
    assert_eq!(store.stats().journal_seq, 3);
    assert_eq!(store.append(record(Kind::Hub)).await.expect("appends"), 4);
    let summary = verify(&*store).await;
    assert_eq!((summary.last_seq, summary.hub_id, summary.signed_up_to), (4, Some(store.hub_id()), 3));
}

pub(crate) async fn filters_and_pages(backend: &impl Backend) {
    let store = backend.open();
    for n in 0..30 {
        let tool = if n % 2 == 0 { "fs_read" } else { "fs_list" };
        store.append(about(&format!("pc-{}", n % 3), tool, n / 2)).await.expect("appends");
    }
    store.append(record(Kind::Policy)).await.expect("appends");
    let read = async |filter: JournalFilter| {
        store
            .journal(JournalFilter { limit: filter.limit.max(1), ..filter })
            .await
            .expect("reads")
            .iter()
            .map(|r| r.seq)
            .collect::<Vec<_>>()
    };
    let all = JournalFilter { limit: 100, ..JournalFilter::default() };
    assert_eq!(read(all.clone()).await.len(), 31);
    assert_eq!(read(JournalFilter { after: Some(3), limit: 2, ..all.clone() }).await, [4, 5]);
    assert!(
        read(JournalFilter { after: Some(u64::MAX), ..all.clone() }).await.is_empty(),
        "there is nothing after it"
    );
    assert_eq!(read(JournalFilter { before: Some(4), ..all.clone() }).await, [3, 2, 1]);
    assert_eq!(read(JournalFilter { before: Some(u64::MAX), limit: 2, ..all.clone() }).await, [31, 30]);
    assert_eq!(read(JournalFilter { before: Some(5), after: Some(2), ..all.clone() }).await, [4, 3]);
    let agent = JournalFilter { agent: Some("pc-1".into()), ..all.clone() };
    assert_eq!(read(JournalFilter { before: Some(8), limit: 1, ..agent.clone() }).await, [5]);
    assert_eq!(read(agent.clone()).await.len(), 10);
    assert_eq!(read(JournalFilter { after: Some(2), limit: 2, ..agent.clone() }).await, [5, 8]);
    assert_eq!(read(JournalFilter { tool: Some("fs_read".into()), ..agent.clone() }).await.len(), 5);
    assert_eq!(read(JournalFilter { tool: Some("fs_list".into()), ..all.clone() }).await.len(), 15);
    assert_eq!(read(JournalFilter { kind: Some("policy".into()), ..all.clone() }).await, [31]);
    assert_eq!(read(JournalFilter { kind: Some("call".into()), ..all.clone() }).await.len(), 30);
    assert_eq!(read(JournalFilter { kind: Some("policy".into()), ..agent }).await.len(), 0);
    let call = JournalFilter { call_id: Some(CallId::new(Uuid::from_u128(4))), ..all };
    assert_eq!(read(call.clone()).await, [9, 10]);
    assert_eq!(read(JournalFilter { tool: Some("fs_read".into()), kind: Some("call".into()), ..call }).await, [9]);
}

pub(crate) async fn what_fails_leaves_no_record(backend: &impl Backend) {
    let store = backend.open();
    let token = |n: u128| TokenRow {
        id: TokenId::new(Uuid::from_u128(n)),
        name: "same".into(),
        owner: None,
        hash: SecretText::new(format!("{n}")).hash(),
        role: Role::Viewer,
        scopes: Scopes::default(),
        created_at: at(0),
        expires_at: None,
        revoked_at: None,
        last_used: None,
    };
    // Many at once, so that failures stand between successes in the same commits.
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..100 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            match n % 2 {
                0 => store.append(about("pc", "t", n)).await.map(drop),
                _ => store.put_token(token(n), record(Kind::Token)).await,
            }
        });
    }
    let answers = tasks.join_all().await;
    let conflicts = answers.iter().filter(|a| matches!(a, Err(StoreError::Conflict(_)))).count();
    assert_eq!((answers.iter().filter(|a| a.is_ok()).count(), conflicts), (51, 49));
    assert_eq!(records(&*store).await, 51);
    verify(&*store).await;
}

pub(crate) async fn checkpoints_sign_the_end_once(backend: &impl Backend) {
    let store = backend.open();
    store.checkpoint(at(1)).await.expect("nothing to sign");
    assert!(store.checkpoints(None, 10).await.expect("reads").is_empty());
    store.append(record(Kind::Hub)).await.expect("appends");
    store.checkpoint(at(2)).await.expect("signs");
    store.checkpoint(at(3)).await.expect("signed already");
    store.append(record(Kind::Hub)).await.expect("appends");
    store.close().await.expect("closes, and signs the end");
    let store = backend.open();
    let signed = store.checkpoints(None, 10).await.expect("reads");
    assert_eq!(signed.iter().map(|c| c.seq).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(signed[0].at, at(2));
    assert_eq!(store.checkpoints(Some(1), 10).await.expect("reads"), signed[1..]);
    assert_eq!(verify(&*store).await.checkpoints, 2);
}

pub(crate) async fn every_thousand_records_are_signed(backend: &impl Backend) {
    let store = backend.open();
    for _ in 0..2_500 {
        store.enqueue(Lossy::Record(record(Kind::Refusal))).await.expect("takes");
    }
    store.append(record(Kind::Hub)).await.expect("appends");
    // A change waits for all that was queued before it.
    store.sweep().await.expect("sweeps");
    let signed = store.checkpoints(None, 10).await.expect("reads");
    assert!(!signed.is_empty());
    assert!(2_501 - signed.last().expect("some").seq < 1_000);
    verify(&*store).await;
}

pub(crate) async fn a_closed_store_refuses(backend: &impl Backend) {
    let store = backend.open();
    store.close().await.expect("closes");
    assert!(matches!(store.append(record(Kind::Hub)).await, Err(StoreError::Closed)));
    assert!(matches!(store.enqueue(Lossy::Record(record(Kind::Hub))).await, Err(StoreError::Closed)));
    assert!(matches!(store.agents().await, Err(StoreError::Closed)));
    assert!(store.close().await.is_err());
}

pub(crate) async fn many_writers_share_commits(backend: &impl Backend) {
    let store = backend.open();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..64 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            let mut seqs = Vec::new();
            for m in 0..10 {
                seqs.push(store.append(about("pc", "t", n * 100 + m)).await.expect("appends"));
            }
            assert!(seqs.is_sorted());
            seqs
        });
    }
    let mut seqs: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    seqs.sort_unstable();
    assert_eq!(seqs, (1..=640).collect::<Vec<_>>(), "each has a place of its own and none is left out");
    verify(&*store).await;
    let stats = store.stats();
    // A read may have asked for a commit of its own.
    assert_eq!((stats.journal_seq, stats.queued), (640, 0));
    assert!((640..650).contains(&stats.writes), "{stats:?}");
    assert!(stats.commits < 640, "{} commits", stats.commits);
}
