use convoke_core::journal::Kind;
use convoke_core::peer::Trust;
use convoke_core::secret::{SecretText, TokenHash};
use convoke_store::{JoinRow, Joining, SondeAgentRow, SondeEnrolled, SondeTokenRow, Store};

use super::{Backend, at, peer, record, records};

const A: &str = "sonde:00000000-0000-4000-8000-000000000001";
const B: &str = "sonde:00000000-0000-4000-8000-000000000002";

fn hash(token: &str) -> TokenHash {
    SecretText::new(token).hash()
}

fn row(id: &str, name: &str, key: &str) -> SondeAgentRow {
    SondeAgentRow {
        id: peer(id),
        name: name.into(),
        key_hash: hash(key),
        cert_pem: Some("pem".into()),
        cert_fingerprint: Some(hash(key).0),
        own_key: true,
        facts: "{}".into(),
    }
}

async fn mint(store: &dyn Store, token: &str, name: Option<&str>) {
    let token = SondeTokenRow {
        hash: hash(token),
        name: name.map(Into::into),
        created_at: at(0),
        expires_at: at(1_000),
        used_at: None,
        used_by: None,
    };
    store.put_sonde_token(token, record(Kind::Enrol)).await.expect("mints");
}

async fn enrol(store: &dyn Store, token: &str, row: SondeAgentRow, millis: i64) -> SondeEnrolled {
    store.enrol_sonde(&hash(token), row, at(millis), record(Kind::Enrol)).await.expect("enrols")
}

pub(crate) async fn a_sonde_agent_survives_a_restart(backend: &impl Backend) {
    let store = backend.open();
    mint(&*store, "t", None).await;
    assert_eq!(enrol(&*store, "t", row(A, "web-1", "k"), 5).await, SondeEnrolled::Done);
    assert!(store.set_sonde_facts(&peer(A), "{\"x\":1}".into(), Some(record(Kind::Trust))).await.expect("keeps"));
    assert!(!store.set_sonde_facts(&peer(B), "{}".into(), Some(record(Kind::Trust))).await.expect("unknown"));
    assert_eq!(records(&*store).await, 3);
    store.close().await.expect("closes");
    let store = backend.open();
    let agents = store.sonde_agents().await.expect("reads");
    assert_eq!((agents.len(), agents[0].name.as_str(), agents[0].facts.as_str()), (1, "web-1", "{\"x\":1}"));
    assert!(agents[0].own_key && agents[0].key_hash == hash("k") && agents[0].cert_fingerprint == Some(hash("k").0));
    let tokens = store.sonde_tokens().await.expect("reads");
    assert_eq!((tokens.len(), tokens[0].used_at, tokens[0].used_by.as_ref()), (1, Some(at(5)), Some(&peer(A))));
    let all = store.agents().await.expect("reads");
    assert_eq!((all[0].trust, all[0].enrolled_at), (Trust::Trusted, Some(at(5))));
}

pub(crate) async fn a_sonde_token_is_used_once_and_in_time(backend: &impl Backend) {
    let store = backend.open();
    for token in ["t", "late"] {
        mint(&*store, token, None).await;
    }
    mint(&*store, "named", Some("db-1")).await;
    assert_eq!(enrol(&*store, "none", row(A, "web-1", "k"), 5).await, SondeEnrolled::Unknown);
    assert_eq!(enrol(&*store, "late", row(A, "web-1", "k"), 1_000).await, SondeEnrolled::Expired);
    assert_eq!(enrol(&*store, "named", row(A, "web-1", "k"), 5).await, SondeEnrolled::OtherName);
    assert_eq!(enrol(&*store, "t", row(A, "web-1", "k"), 5).await, SondeEnrolled::Done);
    assert_eq!(enrol(&*store, "t", row(A, "web-1", "k2"), 5).await, SondeEnrolled::Used);
    assert_eq!(enrol(&*store, "named", row(B, "db-1", "k3"), 5).await, SondeEnrolled::Done);
    assert_eq!(records(&*store).await, 5, "three minted, two enrolled, no refusal");
}

pub(crate) async fn a_sonde_name_has_one_holder(backend: &impl Backend) {
    let store = backend.open();
    for token in ["1", "2", "3"] {
        mint(&*store, token, None).await;
    }
    assert_eq!(enrol(&*store, "1", row(A, "web-1", "k"), 5).await, SondeEnrolled::Done);
    assert_eq!(enrol(&*store, "2", row(B, "web-1", "k2"), 5).await, SondeEnrolled::NameTaken);
    assert_eq!(enrol(&*store, "3", row(A, "web-1", "k3"), 6).await, SondeEnrolled::Done, "the same agent anew");
    assert_eq!(store.sonde_agents().await.expect("reads")[0].key_hash, hash("k3"));
}

pub(crate) async fn a_removed_sonde_agent_frees_its_name(backend: &impl Backend) {
    let store = backend.open();
    for token in ["1", "2"] {
        mint(&*store, token, None).await;
    }
    assert_eq!(enrol(&*store, "1", row(A, "web-1", "k"), 5).await, SondeEnrolled::Done);
    assert!(store.remove_agent(&peer(A), record(Kind::Trust)).await.expect("removes"));
    assert!(store.sonde_agents().await.expect("reads").is_empty());
    assert_eq!(enrol(&*store, "2", row(B, "web-1", "k2"), 5).await, SondeEnrolled::Done);
}

pub(crate) async fn two_tunnels_are_joined_until_either_is_another(backend: &impl Backend) {
    let join = |how, at| JoinRow { tunnel: peer(A), machine: peer("pc"), how, at };
    let store = backend.open();
    mint(&*store, "t", None).await;
    enrol(&*store, "t", row(A, "web-1", "k"), 5).await;
    super::agents::mint(&*store, "pc", "m", true).await;
    store.put_join(join(Joining::Proven, at(6)), record(Kind::Trust)).await.expect("joins");
    store.put_join(join(Joining::Apart, at(7)), record(Kind::Trust)).await.expect("parts");
    store.close().await.expect("closes");
    let store = backend.open();
    assert_eq!(store.joined().await.expect("reads"), [join(Joining::Apart, at(7))]);
    // The machine binds another key, the other agent enrols anew, and one goes.
    super::agents::enrol(&*store, "pc", "m", 1, 8).await;
    assert_eq!(store.joined().await.expect("reads"), []);
    store.put_join(join(Joining::Admin, at(9)), record(Kind::Trust)).await.expect("joins");
    mint(&*store, "u", None).await;
    enrol(&*store, "u", row(A, "web-1", "k2"), 10).await;
    assert_eq!(store.joined().await.expect("reads"), []);
    store.put_join(join(Joining::Admin, at(11)), record(Kind::Trust)).await.expect("joins");
    assert!(store.remove_agent(&peer("pc"), record(Kind::Trust)).await.expect("removes"));
    assert_eq!(store.joined().await.expect("reads"), []);
}
