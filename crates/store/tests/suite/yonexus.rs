use convoke_core::journal::Kind;
use convoke_core::peer::{Liveness, Trust};
use convoke_core::secret::SecretBytes;
use convoke_store::{ClientRow, Lossy, MessageFilter, MessageRow, OutboxRow, PairingRow, RuleRow};

use super::operators::token;
use super::{Backend, at, record, records};

fn client(identifier: &str) -> ClientRow {
    ClientRow {
        identifier: identifier.into(),
        listed: true,
        trust: Trust::Pending,
        public_key: None,
        secret: None,
        old_secrets: Vec::new(),
        pairing: Some(PairingRow {
            code: SecretBytes::new(*b"H7KM-2QXR-9TDE"),
            public_key: [3; 32],
            created_at: at(1),
            expires_at: at(300_000),
            wrong: 1,
            notification: "failed".into(),
            notified: "Discord said no".into(),
            approved: true,
            address: "192.0.2.7".into(),
        }),
        pause_until: Some(at(5)),
        rotation_until: Some(at(6)),
        rotation_key: Some([7; 32]),
        reset: Some("nonce_collision".into()),
        created_at: at(0),
        paired_at: None,
        last_auth: None,
        last_seen: None,
        liveness: Liveness::Offline,
    }
}

pub(crate) async fn clients_and_pairings_survive_a_restart(backend: &impl Backend) {
    let store = backend.open();
    store.put_client(client("b"), Some(record(Kind::Pairing))).await.expect("keeps");
    let paired = ClientRow {
        trust: Trust::Trusted,
        public_key: Some([9; 32]),
        secret: Some(SecretBytes::new(*b"secret")),
        old_secrets: vec![SecretBytes::new(*b"newer"), SecretBytes::new(*b"older")],
        pairing: None,
        pause_until: None,
        rotation_until: None,
        rotation_key: None,
        reset: None,
        paired_at: Some(at(9)),
        ..client("a")
    };
    store.put_client(paired.clone(), Some(record(Kind::Pairing))).await.expect("keeps");
    assert_eq!(records(&*store).await, 2);
    store.close().await.expect("closes");
    assert_eq!(backend.open().clients().await.expect("reads"), [paired, client("b")]);
}

pub(crate) async fn a_pairing_goes_when_it_is_over(backend: &impl Backend) {
    let store = backend.open();
    store.put_client(client("a"), None).await.expect("keeps");
    let over = ClientRow { pairing: None, ..client("a") };
    store.put_client(over.clone(), None).await.expect("keeps");
    assert_eq!(store.clients().await.expect("reads"), [over]);
    assert!(store.remove_client("a", record(Kind::Trust)).await.expect("removes"));
    assert!(!store.remove_client("a", record(Kind::Trust)).await.expect("answers"));
    assert!(store.clients().await.expect("reads").is_empty());
    assert_eq!(records(&*store).await, 1);
}

pub(crate) async fn what_is_seen_later_stays(backend: &impl Backend) {
    let store = backend.open();
    store.put_client(client("a"), None).await.expect("keeps");
    let seen = |at_ms, liveness, authenticated| Lossy::ClientSeen {
        identifier: "a".into(),
        liveness,
        at: at(at_ms),
        authenticated,
    };
    store.enqueue(seen(10, Liveness::Online, true)).await.expect("takes");
    store.enqueue(seen(20, Liveness::Unstable, false)).await.expect("takes");
    store.put_client(client("a"), None).await.expect("a snapshot from before keeps the times");
    let kept = store.clients().await.expect("reads").remove(0);
    assert_eq!((kept.last_auth, kept.last_seen), (Some(at(10)), Some(at(20))));
}

pub(crate) async fn rules_keep_their_place_and_secret(backend: &impl Backend) {
    let store = backend.open();
    let rule = |rule: &str, body: &str| RuleRow {
        rule: rule.into(),
        body: body.into(),
        secret: Some(SecretBytes::new(body.as_bytes())),
    };
    for name in ["z", "a", "m"] {
        store.put_rule(rule(name, "1"), record(Kind::Policy)).await.expect("keeps");
    }
    store.put_rule(rule("a", "2"), record(Kind::Policy)).await.expect("replaces");
    assert!(store.delete_rule("z", record(Kind::Policy)).await.expect("removes"));
    assert!(!store.delete_rule("z", record(Kind::Policy)).await.expect("answers"));
    assert_eq!(store.rules().await.expect("reads"), [rule("a", "2"), rule("m", "1")]);
    assert_eq!(records(&*store).await, 5);
}

pub(crate) async fn the_inbox_pages_and_is_bounded(backend: &impl Backend) {
    let store = backend.open();
    for n in 0..10 {
        let rule = if n % 2 == 0 { "even" } else { "odd" };
        let message =
            MessageRow {
                id: 0, at: at(n), rule: rule.into(), sender: "a".into(), content: format!("{n}::\n\u{0}é")
            };
        assert_eq!(store.put_message(message, 8).await.expect("keeps"), n + 1);
    }
    let read = async |rule: Option<&str>, after, limit| -> Vec<i64> {
        let filter = MessageFilter { rule: rule.map(Into::into), after, limit };
        store.messages(filter).await.expect("reads").iter().map(|m| m.id).collect()
    };
    assert_eq!(read(None, None, 100).await, [3, 4, 5, 6, 7, 8, 9, 10], "the two oldest had to go");
    assert_eq!(read(Some("even"), None, 2).await, [3, 5]);
    assert_eq!(read(Some("even"), Some(5), 2).await, [7, 9]);
    let last = store.messages(MessageFilter { after: Some(9), limit: 1, ..Default::default() }).await.expect("reads");
    assert_eq!(last[0].content, "9::\n\u{0}é");
}

fn waiting(content: &str, expires: i64) -> OutboxRow {
    OutboxRow {
        id: 0,
        created_at: at(0),
        expires_at: at(expires),
        rule: "chat".into(),
        sender: "s".into(),
        with_id: true,
        content: content.into(),
    }
}

pub(crate) async fn the_outbox_waits_until_it_is_delivered(backend: &impl Backend) {
    let store = backend.open();
    let to = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let first = store.put_outbox(waiting("one", 100), to(&["a", "b"])).await.expect("keeps");
    let second = store.put_outbox(waiting("two", 100), to(&["a", "a"])).await.expect("keeps");
    assert!(second > first);
    store.close().await.expect("closes");
    let store = backend.open();
    let read = async |who: &str, after| -> Vec<String> {
        store.outbox(who, after, 10, at(1)).await.expect("reads").into_iter().map(|m| m.content).collect()
    };
    assert_eq!(read("a", 0).await, ["one", "two"]);
    assert_eq!(read("a", first).await, ["two"]);
    assert_eq!(read("b", 0).await, ["one"]);
    let totals = store.outbox_totals().await.expect("reads");
    assert_eq!(
        totals.iter().map(|t| (t.destination.as_str(), t.count, t.bytes)).collect::<Vec<_>>(),
        [("a", 2, 6), ("b", 1, 3)]
    );
    store.delivered("a", vec![first]).await.expect("removes");
    assert_eq!(read("a", 0).await, ["two"]);
    assert_eq!(read("b", 0).await, ["one"], "another's copy stays");
    store.delivered("b", vec![first]).await.expect("removes");
    store.delivered("a", vec![second]).await.expect("removes");
    assert!(store.outbox_totals().await.expect("reads").is_empty());
    let next = store.put_outbox(waiting("three", 100), to(&["a"])).await.expect("keeps");
    assert!(next > second, "an id never comes back");
}

pub(crate) async fn nothing_is_kept_for_a_token_that_is_revoked(backend: &impl Backend) {
    let store = backend.open();
    let by = token(1, "first");
    store.put_token(by.clone(), record(Kind::Token)).await.expect("keeps");
    let keep = async || store.put_outbox_of(by.id, waiting("one", 100), vec!["a".into()]).await.expect("answers");
    assert!(keep().await.is_some());
    assert!(store.revoke_token(by.id, at(1), record(Kind::Token)).await.expect("revokes"));
    assert_eq!(keep().await, None);
    assert_eq!(store.outbox("a", 0, 10, at(1)).await.expect("reads").len(), 1, "what was kept before stays");
}

pub(crate) async fn what_expires_and_who_leaves_is_forgotten(backend: &impl Backend) {
    let store = backend.open();
    store.put_client(client("a"), None).await.expect("keeps");
    for n in 0..3 {
        store.put_outbox(waiting("x", 10 * n), vec!["a".into(), "b".into()]).await.expect("keeps");
        let message = MessageRow { id: 0, at: at(n), rule: "r".into(), sender: "s".into(), content: "x".into() };
        store.put_message(message, 100).await.expect("keeps");
    }
    assert_eq!(store.outbox("a", 0, 10, at(10)).await.expect("reads").len(), 1, "the expired are not given out");
    assert_eq!(store.lapse(at(10), Some(at(2))).await.expect("lapses"), 4);
    assert_eq!(store.outbox("a", 0, 10, at(0)).await.expect("reads").len(), 1);
    assert_eq!(store.messages(MessageFilter { limit: 10, ..Default::default() }).await.expect("reads").len(), 1);
    assert!(store.remove_client("a", record(Kind::Trust)).await.expect("removes"));
    assert!(store.outbox("a", 0, 10, at(0)).await.expect("reads").is_empty());
    assert_eq!(store.outbox("b", 0, 10, at(0)).await.expect("reads").len(), 1);
}
