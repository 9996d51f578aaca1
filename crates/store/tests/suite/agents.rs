use convoke_core::journal::Kind;
use convoke_core::peer::Trust;
use convoke_core::secret::{SecretText, TokenHash};
use convoke_store::{AgentRow, EnrolOutcome, EnrolToken, JournalFilter, LogFilter, LogRow, Lossy, Store};

use super::telemetry::snapshot;
use super::{Backend, at, peer, record, records};

fn hash(token: &str) -> TokenHash {
    SecretText::new(token).hash()
}

pub(crate) async fn mint(store: &dyn Store, agent: &str, token: &str, replaces_key: bool) {
    let trust =
        find(store, agent).await.map_or(Trust::Pending, |a| a.trust.after(convoke_core::peer::TrustEvent::Invited));
    let token = EnrolToken { agent: peer(agent), hash: hash(token), expires_at: at(1_000), replaces_key };
    store.mint_enrol_token(token, trust, at(0), record(Kind::Enrol)).await.expect("mints");
}

pub(crate) async fn enrol(store: &dyn Store, agent: &str, token: &str, key: u8, millis: i64) -> EnrolOutcome {
    store.enrol(&peer(agent), &hash(token), [key; 32], at(millis), record(Kind::Enrol)).await.expect("enrols")
}

pub(crate) async fn find(store: &dyn Store, agent: &str) -> Option<AgentRow> {
    store.agents().await.expect("reads").into_iter().find(|a| a.id.as_str() == agent)
}

pub(crate) async fn agents_survive_a_restart(backend: &impl Backend) {
    let store = backend.open();
    let hub_id = store.hub_id();
    mint(&*store, "pc-1", "t", false).await;
    assert_eq!(enrol(&*store, "pc-1", "t", 7, 5).await, EnrolOutcome::Bound);
    store.close().await.expect("closes");
    let store = backend.open();
    assert_eq!(store.hub_id(), hub_id);
    let agent = find(&*store, "pc-1").await.expect("still there");
    assert_eq!((agent.trust, agent.public_key), (Trust::Trusted, Some([7; 32])));
    assert_eq!((agent.created_at, agent.enrolled_at), (at(0), Some(at(5))));
}

pub(crate) async fn a_token_binds_one_key_once(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    assert_eq!(records(&*store).await, 1);
    assert_eq!(enrol(&*store, "pc-1", "other", 1, 5).await, EnrolOutcome::BadToken);
    assert_eq!(enrol(&*store, "pc-2", "t", 1, 5).await, EnrolOutcome::BadToken, "another agent's token");
    assert_eq!(records(&*store).await, 1, "nothing was bound, so nothing is recorded");
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 5).await, EnrolOutcome::Bound);
    assert_eq!(enrol(&*store, "pc-1", "t", 2, 5).await, EnrolOutcome::BadToken, "with another key");
    assert_eq!(records(&*store).await, 2);
}

pub(crate) async fn a_lost_reply_can_be_repeated(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 5).await, EnrolOutcome::Bound);
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 6).await, EnrolOutcome::AlreadySame);
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 1_000).await, EnrolOutcome::BadToken, "its life is over");
    assert_eq!(records(&*store).await, 2);
}

pub(crate) async fn a_bound_key_is_replaced_only_by_a_token_that_may(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "first", false).await;
    assert_eq!(enrol(&*store, "pc-1", "first", 1, 5).await, EnrolOutcome::Bound);
    mint(&*store, "pc-1", "second", false).await;
    assert_eq!(enrol(&*store, "pc-1", "second", 2, 5).await, EnrolOutcome::AlreadyEnrolled);
    mint(&*store, "pc-1", "third", true).await;
    assert_eq!(find(&*store, "pc-1").await.expect("there").public_key, Some([1; 32]), "the old key holds until then");
    assert_eq!(enrol(&*store, "pc-1", "third", 3, 5).await, EnrolOutcome::Bound);
    assert_eq!(find(&*store, "pc-1").await.expect("there").public_key, Some([3; 32]));
    assert_eq!(enrol(&*store, "pc-1", "first", 1, 5).await, EnrolOutcome::BadToken, "its key is gone");
    mint(&*store, "pc-1", "fourth", true).await;
    assert_eq!(enrol(&*store, "pc-1", "fourth", 3, 5).await, EnrolOutcome::OldKey, "that would replace nothing");
    assert_eq!(enrol(&*store, "pc-1", "fourth", 1, 5).await, EnrolOutcome::OldKey, "that was replaced");
    assert_eq!(enrol(&*store, "pc-1", "fourth", 4, 5).await, EnrolOutcome::Bound, "the token is still good");
}

pub(crate) async fn a_revoked_key_is_never_bound_again(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 5).await, EnrolOutcome::Bound);
    assert!(store.set_trust(&peer("pc-1"), Trust::Revoked, true, record(Kind::Trust)).await.expect("sets"));
    mint(&*store, "pc-1", "again", true).await;
    assert_eq!(enrol(&*store, "pc-1", "again", 1, 5).await, EnrolOutcome::OldKey);
    assert!(store.remove_agent(&peer("pc-1"), record(Kind::Trust)).await.expect("removes"));
    mint(&*store, "pc-2", "other", false).await;
    assert_eq!(enrol(&*store, "pc-2", "other", 1, 5).await, EnrolOutcome::OldKey, "under no name");
    assert_eq!(enrol(&*store, "pc-2", "other", 2, 5).await, EnrolOutcome::Bound);
}

pub(crate) async fn lapsed_and_older_tokens_bind_nothing(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "old", false).await;
    mint(&*store, "pc-1", "new", false).await;
    assert_eq!(enrol(&*store, "pc-1", "old", 1, 5).await, EnrolOutcome::BadToken);
    assert_eq!(enrol(&*store, "pc-1", "new", 1, 1_000).await, EnrolOutcome::BadToken);
    assert_eq!(enrol(&*store, "pc-1", "new", 1, 999).await, EnrolOutcome::Bound);
}

pub(crate) async fn an_invitation_that_ran_out_is_withdrawn(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "lapses", "a", false).await;
    mint(&*store, "bound", "b", false).await;
    assert_eq!(enrol(&*store, "bound", "b", 7, 5).await, EnrolOutcome::Bound);
    assert!(store.lapse_invitations(at(999)).await.expect("looks").is_empty(), "its time is not over");
    let before = records(&*store).await;
    assert_eq!(store.lapse_invitations(at(1_000)).await.expect("looks"), [peer("lapses")]);
    assert_eq!(records(&*store).await, before + 1);
    assert!(store.lapse_invitations(at(2_000)).await.expect("looks").is_empty(), "once is enough");
    let trust = async |agent| find(&*store, agent).await.expect("there").trust;
    assert_eq!((trust("lapses").await, trust("bound").await), (Trust::Unpaired, Trust::Trusted));
}

pub(crate) async fn a_revoked_agent_is_not_bound_by_its_old_token(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    assert!(store.set_trust(&peer("pc-1"), Trust::Revoked, false, record(Kind::Trust)).await.expect("sets"));
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 5).await, EnrolOutcome::BadToken);
    mint(&*store, "pc-1", "again", true).await;
    assert_eq!(enrol(&*store, "pc-1", "again", 1, 5).await, EnrolOutcome::Bound);
    assert!(store.set_trust(&peer("pc-1"), Trust::Revoked, true, record(Kind::Trust)).await.expect("sets"));
    assert_eq!(find(&*store, "pc-1").await.expect("there").public_key, None);
    assert_eq!(enrol(&*store, "pc-1", "again", 1, 6).await, EnrolOutcome::BadToken);
}

pub(crate) async fn tags_and_trust_are_kept(backend: &impl Backend) {
    let store = backend.open();
    let tags = ["lab".to_owned(), "eu".to_owned(), "lab".to_owned()];
    assert!(!store.set_tags(&peer("pc-1"), &tags, record(Kind::Trust)).await.expect("answers"));
    assert!(!store.set_trust(&peer("pc-1"), Trust::Revoked, true, record(Kind::Trust)).await.expect("answers"));
    assert_eq!(records(&*store).await, 0);
    mint(&*store, "pc-1", "t", false).await;
    assert!(store.set_tags(&peer("pc-1"), &tags, record(Kind::Trust)).await.expect("answers"));
    assert_eq!(find(&*store, "pc-1").await.expect("there").tags, ["eu", "lab"]);
}

pub(crate) async fn an_agent_goes_with_all_it_left(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "pc-1", "t", false).await;
    mint(&*store, "pc-2", "u", false).await;
    for n in 0..450 {
        store.enqueue(Lossy::Snapshot(snapshot("pc-1", n))).await.expect("takes");
    }
    store.enqueue(Lossy::Snapshot(snapshot("pc-2", 1))).await.expect("takes");
    let line = |agent: &str| LogRow {
        id: 0,
        at: "then".into(),
        received_at: at(0),
        agent: Some(peer(agent)),
        source: "agent".into(),
        level: "info".into(),
        target: "t".into(),
        message: "m".into(),
        fields: None,
    };
    store.enqueue(Lossy::Logs(vec![line("pc-1"); 450])).await.expect("takes");
    store.enqueue(Lossy::Logs(vec![line("pc-2")])).await.expect("takes");
    assert!(store.remove_agent(&peer("pc-1"), record(Kind::Trust)).await.expect("removes"));
    assert!(!store.remove_agent(&peer("pc-1"), record(Kind::Trust)).await.expect("answers"));
    assert!(find(&*store, "pc-1").await.is_none());
    assert_eq!(enrol(&*store, "pc-1", "t", 1, 5).await, EnrolOutcome::BadToken);
    // An agent of the same name starts with nothing, and keeps what is its own, before what is left is swept away and after.
    let logs = async |agent: Option<&str>| {
        let filter = LogFilter { agent: agent.map(peer), limit: 1_000, ..LogFilter::default() };
        let lines = store.logs(filter).await.expect("reads").into_iter();
        lines.map(|line| (line.agent.expect("of an agent").as_str().to_owned(), line.message)).collect::<Vec<_>>()
    };
    let of = |agent: &str, message: &str| (agent.to_owned(), message.to_owned());
    mint(&*store, "pc-1", "v", false).await;
    assert!(store.latest_snapshot(&peer("pc-1")).await.expect("reads").is_none());
    assert_eq!(logs(None).await, [of("pc-2", "m")]);
    assert_eq!(logs(Some("pc-1")).await, []);
    let line = LogRow { message: "new".into(), ..line("pc-1") };
    store.enqueue(Lossy::Logs(vec![line])).await.expect("takes");
    store.enqueue(Lossy::Snapshot(snapshot("pc-1", 9_000))).await.expect("takes");
    for swept in [false, true] {
        if swept {
            store.sweep().await.expect("sweeps");
        } else {
            store.checkpoint(at(0)).await.expect("commits what is enqueued");
        }
        assert_eq!(logs(None).await, [of("pc-2", "m"), of("pc-1", "new")], "swept: {swept}");
        assert_eq!(logs(Some("pc-1")).await, [of("pc-1", "new")], "swept: {swept}");
        let history = store.snapshots(&peer("pc-1"), None, 1_000).await.expect("reads");
        assert_eq!(history.iter().map(|s| s.received_at).collect::<Vec<_>>(), [at(9_000)], "swept: {swept}");
    }
    assert!(store.latest_snapshot(&peer("pc-2")).await.expect("reads").is_some());
    let about = JournalFilter { limit: 100, ..JournalFilter::default() };
    assert_eq!(store.journal(about).await.expect("reads").len(), 4, "the journal keeps its records");
}
