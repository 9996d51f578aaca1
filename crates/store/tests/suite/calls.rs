use convoke_core::approval::{Approval, ApprovalState, Binding};
use convoke_core::call::CallState;
use convoke_core::door::Door;
use convoke_core::id::{ApprovalId, CallId, TokenId};
use convoke_core::journal::{Draft, Kind, Phase};
use convoke_core::secret::SecretBytes;
use convoke_store::{ApprovalMove, CallRow, Reservation, Retention, StoreError};
use uuid::Uuid;

use super::{Backend, at, peer, record, records};

const CALLER: TokenId = TokenId::new(Uuid::from_u128(100));
const OTHER: TokenId = TokenId::new(Uuid::from_u128(200));

fn id(n: u128) -> CallId {
    CallId::new(Uuid::from_u128(n))
}

fn call(n: u128, caller: TokenId, key: Option<&str>) -> CallRow {
    CallRow {
        id: id(n),
        caller,
        idempotency_key: key.map(Into::into),
        target: peer("pc-1"),
        tool: "shell_exec".into(),
        args_digest: format!("digest {n}"),
        door: Door::Mcp,
        args: Some(SecretBytes::new(*b"{\"command\":\"id\"}")),
        timeout_ms: Some(30_000),
        requested_by: None,
        state: CallState::Waiting,
        outcome: None,
        created_at: at(0),
        keep_until: at(1_000),
    }
}

fn approval(call: &CallRow) -> Approval {
    Approval {
        id: ApprovalId::new(call.id.uuid()),
        call_id: call.id,
        binding: Binding {
            caller: call.caller,
            target: call.target.clone(),
            tool: call.tool.clone(),
            args_digest: call.args_digest.clone(),
        },
        created_at: call.created_at,
        expires_at: at(500),
        second_person: true,
        state: ApprovalState::Pending,
    }
}

pub(crate) async fn an_idempotency_key_finds_its_first_call(backend: &impl Backend) {
    let store = backend.open();
    let put = async |call: CallRow| match store.put_call(call, None, Some(record(Kind::Call))).await.expect("keeps") {
        Reservation::Fresh => None,
        Reservation::Existing(first) => Some(first.id),
    };
    assert_eq!(put(call(1, CALLER, Some("k"))).await, None);
    assert_eq!(put(call(2, CALLER, Some("k"))).await, Some(id(1)));
    assert_eq!(put(call(3, OTHER, Some("k"))).await, None, "keys are each caller's own");
    assert_eq!(put(call(4, CALLER, None)).await, None);
    assert_eq!(put(call(5, CALLER, None)).await, None, "without a key every call is new");
    assert_eq!(records(&*store).await, 4);
    assert!(store.call(id(2)).await.expect("reads").is_none());
    let later = CallRow { created_at: at(1_000), keep_until: at(2_000), ..call(6, CALLER, Some("k")) };
    assert_eq!(put(later.clone()).await, Some(id(1)), "it has not ended");
    store.finish_call(id(1), "{}", record(Kind::Call)).await.expect("ends");
    assert_eq!(put(later).await, None, "the key's life is over, pruned or not");
}

pub(crate) async fn a_waiting_call_survives_a_restart(backend: &impl Backend) {
    let store = backend.open();
    let asked = call(1, CALLER, Some("k"));
    store.put_call(asked.clone(), Some(approval(&asked)), Some(record(Kind::Approval))).await.expect("keeps");
    store.close().await.expect("closes");
    let store = backend.open();
    let waiting = store.approvals(Some(ApprovalState::Pending), None, 10).await.expect("reads");
    assert_eq!(waiting.len(), 1);
    let (kept, row) = &waiting[0];
    assert_eq!(*kept, approval(&asked));
    assert_eq!(row.args.as_ref().map(|a| a.reveal()), Some(&b"{\"command\":\"id\"}"[..]));
    assert_eq!((row.id, row.door, row.timeout_ms, row.state), (id(1), Door::Mcp, Some(30_000), CallState::Waiting));
    let bare = store.approvals_without_args(ApprovalState::Pending, None, 10).await.expect("reads");
    let same: Vec<_> =
        waiting.iter().map(|(kept, row)| (kept.clone(), CallRow { args: None, ..row.clone() })).collect();
    assert_eq!(format!("{bare:?}"), format!("{same:?}"), "nothing is opened");
    assert_eq!(store.approvals_without_args(ApprovalState::Used, None, 10).await.expect("reads").len(), 0);
    assert!(store.approval(kept.id).await.expect("reads").is_some());
    assert!(store.approval(ApprovalId::new(Uuid::from_u128(9))).await.expect("reads").is_none());
}

fn decided(id: ApprovalId, from: ApprovalState, to: ApprovalState) -> ApprovalMove {
    ApprovalMove { id, from, to, decided_by: Some(OTHER), record: record(Kind::Approval) }
}

pub(crate) async fn an_approval_moves_once(backend: &impl Backend) {
    use ApprovalState::{Approved, Denied, Pending};
    let store = backend.open();
    for n in 1..=3 {
        let asked = CallRow { created_at: at(n as i64), ..call(n, CALLER, None) };
        store.put_call(asked.clone(), Some(approval(&asked)), None).await.expect("keeps");
    }
    let first = ApprovalId::new(Uuid::from_u128(1));
    let step = async |from, to| store.move_approval(decided(first, from, to)).await.expect("answers");
    assert!(step(Pending, Approved).await);
    assert!(!step(Pending, Denied).await, "someone was faster");
    assert_eq!(records(&*store).await, 1);
    let pending = store.approvals(Some(Pending), None, 10).await.expect("reads");
    assert_eq!(pending.iter().map(|(_, c)| c.id).collect::<Vec<_>>(), [id(3), id(2)], "newest first");
    assert_eq!(store.approvals(None, None, 10).await.expect("reads").len(), 3);
    let first = store.approvals(None, None, 2).await.expect("reads");
    assert_eq!(first.len(), 2);
    let rest = store.approvals(None, Some(first[1].0.id), 10).await.expect("reads");
    assert_eq!(rest.len(), 1);
    assert!(first.iter().all(|(seen, _)| seen.id != rest[0].0.id), "no approval is on two pages");
    // Nobody can slip in an approval that is bound to something else than its call.
    let asked = call(7, CALLER, None);
    let mut forged = approval(&asked);
    forged.binding.tool = "fs_read".into();
    let answer = store.put_call(asked, Some(forged), None).await;
    assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}");
    assert!(store.call(id(7)).await.expect("reads").is_none(), "and its call is not half kept");
}

pub(crate) async fn a_call_starts_and_ends_once(backend: &impl Backend) {
    let store = backend.open();
    let asked = call(1, CALLER, None);
    let approval_id = approval(&asked).id;
    store.put_call(asked.clone(), Some(approval(&asked)), None).await.expect("keeps");
    assert!(store.start_call(id(1)).await.is_err(), "nobody approved it");
    let yes = decided(approval_id, ApprovalState::Pending, ApprovalState::Approved);
    assert!(store.move_approval(yes).await.expect("moves"));
    store.start_call(id(1)).await.expect("starts");
    let (kept, row) = store.approval(approval_id).await.expect("reads").expect("there");
    assert_eq!((kept.state, row.state), (ApprovalState::Used, CallState::Running));
    assert!(row.args.is_some(), "the arguments stay until it is done");
    assert!(matches!(store.start_call(id(1)).await, Err(StoreError::Conflict(_))), "an approval is used once");
    assert!(store.unuse_approval(id(1), record(Kind::Approval)).await.expect("gives back"));
    let (kept, row) = store.approval(approval_id).await.expect("reads").expect("there");
    assert_eq!((kept.state, row.state), (ApprovalState::Approved, CallState::Waiting));
    assert!(!store.unuse_approval(id(1), record(Kind::Approval)).await.expect("looks"), "it is not used");
    store.start_call(id(1)).await.expect("starts");
    store.finish_call(id(1), "{\"ok\":true}", record(Kind::Call)).await.expect("ends");
    assert!(!store.unuse_approval(id(1), record(Kind::Approval)).await.expect("looks"), "the call is done");
    let row = store.call(id(1)).await.expect("reads").expect("there");
    assert_eq!((row.state, row.outcome.as_deref()), (CallState::Done, Some("{\"ok\":true}")));
    assert!(row.args.is_none());
    let twice = store.finish_call(id(1), "{\"ok\":false}", record(Kind::Call)).await;
    assert!(matches!(twice, Err(StoreError::Conflict(_))), "the first outcome is the outcome");
    assert_eq!(records(&*store).await, 3);
    store.finish_call(id(99), "{}", record(Kind::Call)).await.expect("a forgotten call still gets its record");
    assert_eq!(records(&*store).await, 4);
}

pub(crate) async fn kept_calls_are_forgotten_in_time(backend: &impl Backend) {
    let store = backend.open();
    for n in 1..=450 {
        let asked = CallRow { keep_until: at(n as i64), ..call(n, CALLER, Some(&format!("key {n}"))) };
        store.put_call(asked.clone(), Some(approval(&asked)), None).await.expect("keeps");
    }
    let again = CallRow { created_at: at(500), ..call(451, CALLER, Some("key 1")) };
    let first = store.put_call(again, None, None).await.expect("answers");
    assert!(matches!(first, Reservation::Existing(row) if row.id == id(1)), "it is still the first's key");
    assert_eq!(store.prune(Retention::default(), at(440)).await.expect("prunes").other, 0, "they have not ended");
    for n in 1..=450 {
        store.finish_call(id(n), "{}", record(Kind::Call)).await.expect("ends");
    }
    assert_eq!(store.prune(Retention::default(), at(440)).await.expect("prunes").other, 440);
    assert_eq!(store.approvals(None, None, 1_000).await.expect("reads").len(), 10, "approvals go with their calls");
}

pub(crate) async fn calls_that_nobody_will_end_are_found(backend: &impl Backend) {
    let store = backend.open();
    let running = |n: u128| CallRow { state: CallState::Running, ..call(n, CALLER, Some(&format!("key {n}"))) };
    for n in 1..=2 {
        store.put_call(running(n), None, None).await.expect("keeps");
    }
    for (n, to) in [(3, None), (4, Some(ApprovalState::Approved)), (5, Some(ApprovalState::Denied))] {
        let asked = CallRow { state: CallState::Waiting, ..call(n, CALLER, None) };
        store.put_call(asked.clone(), Some(approval(&asked)), None).await.expect("keeps");
        if let Some(to) = to {
            let moved = decided(approval(&asked).id, ApprovalState::Pending, to);
            assert!(store.move_approval(moved).await.expect("moves"));
        }
    }
    store.finish_call(id(2), "{}", record(Kind::Call)).await.expect("ends");
    store.close().await.expect("closes");
    let store = backend.open();
    let found = async || store.stranded_calls().await.expect("reads").iter().map(|row| row.id).collect::<Vec<_>>();
    assert_eq!(found().await, [id(1), id(5)], "not what has ended, nor what may still be approved, or run");
    store.start_call(id(4)).await.expect("starts");
    assert_eq!(found().await.len(), 3, "approved, sent, and then nobody was there");
}

pub(crate) async fn open_intents_are_what_a_killed_hub_left(backend: &impl Backend) {
    let phase = |n: u128, phase: Phase| Draft {
        phase: Some(phase),
        call_id: Some(id(n)),
        tool: Some(format!("tool {n}")),
        ..record(Kind::Call)
    };
    let store = backend.open();
    for n in 1..=3 {
        store.append(phase(n, Phase::Intent)).await.expect("appends");
    }
    store.append(phase(2, Phase::Outcome)).await.expect("appends");
    store.append(phase(4, Phase::Outcome)).await.expect("appends");
    store.append(phase(1, Phase::Late)).await.expect("appends");
    store.close().await.expect("closes");
    let store = backend.open();
    let open = store.open_intents().await.expect("reads");
    assert_eq!(open.iter().map(|d| d.call_id).collect::<Vec<_>>(), [Some(id(1)), Some(id(3))]);
    assert_eq!(open[0].tool.as_deref(), Some("tool 1"));
    store.put_call(CallRow { state: CallState::Running, ..call(3, CALLER, None) }, None, None).await.expect("keeps");
    store.finish_call(id(3), "{}", phase(3, Phase::Outcome)).await.expect("ends");
    assert_eq!(store.open_intents().await.expect("reads").len(), 1);
}
