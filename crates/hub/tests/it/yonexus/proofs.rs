//! Proofs over real sockets, and what becomes of those who fail.

use convoke_core::secret::SecretText;
use serde_json::json;

use crate::support::TestHub;

const NONCE: &str = "RANDOM24CHARACTERSTRINGX";

#[tokio::test]
async fn each_failure_has_its_reason_and_leaves_another_try() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut client = hub.client_with("client-a", Some(secret.clone())).await;
    client.hello().await;
    client.next().await;
    client.prove("other", &secret, NONCE, 0).await;
    assert_eq!(client.reason().await, "invalid_signature");
    client.prove("client-a", &SecretText::new("guess"), NONCE, 0).await;
    assert_eq!(client.reason().await, "invalid_signature");
    client.prove("client-a", &secret, NONCE, -20).await;
    assert_eq!(client.reason().await, "stale_timestamp");
    client.prove("client-a", &secret, NONCE, 20).await;
    assert_eq!(client.reason().await, "future_timestamp");
    client.prove("client-a", &secret, NONCE, 0).await;
    assert_eq!(client.next().await["type"], "auth_success");
    let records = hub
        .until("/api/journal?kind=auth&limit=100", |body| body["records"].as_array().is_some_and(|r| r.len() >= 3));
    let outcomes: Vec<_> =
        records.await["records"].as_array().expect("a list").iter().map(|r| r["outcome"].clone()).collect();
    assert_eq!(outcomes, ["stale_timestamp", "future_timestamp", "ok"], "strangers are counted, not listed");
}

#[tokio::test]
async fn a_reused_nonce_resets_trust_and_ends_the_session_it_opened() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let other = hub.live("client-b").await;
    let mut first = hub.client_with("client-a", Some(secret.clone())).await;
    first.hello().await;
    first.next().await;
    first.prove("client-a", &secret, NONCE, 0).await;
    assert_eq!(first.next().await["type"], "auth_success");
    let mut replay = hub.client_with("client-a", Some(secret.clone())).await;
    replay.hello().await;
    replay.next().await;
    replay.prove("client-a", &secret, NONCE, 0).await;
    assert_eq!(replay.reason().await, "nonce_collision");
    let again = replay.next().await;
    assert_eq!(
        (&again["type"], &again["payload"]["reason"]),
        (&json!("re_pair_required"), &json!("nonce_collision"))
    );
    assert_eq!(first.next().await["type"], "re_pair_required");
    assert_eq!(first.closed().await, Some(4401));
    let view = hub.client_view("client-a").await;
    assert_eq!((&view["state"], &view["reset"]), (&json!("unpaired"), &json!("nonce_collision")));
    replay.hello().await;
    assert_eq!(replay.next().await["payload"]["nextAction"], "pair_required", "a fresh notification goes out");
    hub.until_client("client-b", "liveness", "online").await;
    drop(other);
}

#[tokio::test]
async fn more_than_ten_attempts_in_ten_seconds_reset_trust() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut last = String::new();
    for n in 0..11 {
        let mut client = hub.client_with("client-a", Some(secret.clone())).await;
        client.hello().await;
        client.next().await;
        client.authenticate().await;
        let frame = client.next().await;
        last = frame["payload"]["reason"].as_str().unwrap_or("ok").to_owned();
        assert!(n == 10 || last == "ok", "{n}: {frame}");
        if n == 10 {
            assert_eq!(client.next().await["type"], "re_pair_required");
        }
    }
    assert_eq!(last, "rate_limited");
}

#[tokio::test]
async fn a_second_connection_replaces_the_first_once_it_has_proved_itself() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut first = hub.enter("client-a", secret.clone()).await;
    let mut second = hub.client_with("client-a", Some(secret.clone())).await;
    second.hello().await;
    second.next().await;
    second.prove("other", &secret, NONCE, 0).await;
    assert_eq!(second.reason().await, "invalid_signature");
    first.heartbeat().await;
    first.settled().await;
    second.authenticate().await;
    assert_eq!(second.next().await["type"], "auth_success");
    let notice = first.next().await;
    assert_eq!(notice["type"], "disconnect_notice");
    assert_eq!(notice["payload"]["reason"], "replaced");
    assert_eq!(first.closed().await, Some(4409));
    second.settled().await;
    assert_eq!(hub.client_view("client-a").await["liveness"], "online", "the older's end does not touch the newer");
}

#[tokio::test]
async fn the_secret_in_force_before_is_told_apart_from_a_wrong_one() {
    let hub = TestHub::start().await;
    let old = hub.pair("client-a").await;
    let new = hub.pair("client-a").await;
    let mut client = hub.client_with("client-a", Some(new.clone())).await;
    client.hello().await;
    client.next().await;
    client.prove("client-a", &old, NONCE, 0).await;
    assert_eq!(client.reason().await, "invalid_secret");
    client.prove("client-a", &new, NONCE, 0).await;
    assert_eq!(client.next().await["type"], "auth_success");
}

#[tokio::test]
async fn revoking_closes_at_once_and_refuses_from_then_on() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut client = hub.enter("client-a", secret.clone()).await;
    let mut greeted = hub.client_with("client-a", Some(secret.clone())).await;
    greeted.hello().await;
    greeted.next().await;
    hub.post("/api/yonexus/clients/client-a/revoke", json!({})).await;
    assert_eq!(client.next().await["payload"]["reason"], "revoked");
    assert_eq!(client.closed().await, Some(4401));
    greeted.prove("client-a", &secret, NONCE, 0).await;
    assert_eq!(greeted.reason().await, "not_paired", "whoever was half way in does not get in");
    assert_eq!(hub.client_view("client-a").await["liveness"], "offline");
}

#[tokio::test]
async fn a_removed_client_is_unknown_and_an_operator_may_allow_another_key() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut client = hub.client_with("client-a", Some(secret.clone())).await;
    client.hello().await;
    client.next().await;
    let key = crate::support::key_of("new");
    let public_key = |name: &str| json!({ "public_key": convoke_yonexus::key::encode(&crate::support::key_of(name).verifying_key()) });
    let path = "/api/yonexus/clients/client-a/rotate-key";
    assert_eq!(hub.post(path, json!({ "public_key": "no key" })).await.status, 400);
    let rotate = hub.post(path, public_key("another")).await;
    assert!(rotate.body["rotation_until"].is_string(), "{rotate:?}");
    let nonce = convoke_yonexus::proof::nonce(&super::random());
    let time = super::now().unix();
    let request = convoke_yonexus::builtin::AuthRequest {
        identifier: "client-a".into(),
        nonce: nonce.clone(),
        proof_timestamp: time,
        signature: convoke_yonexus::proof::sign(&key, &secret, &nonce, time),
        public_key: Some(convoke_yonexus::key::encode(&key.verifying_key())),
    };
    let body = convoke_yonexus::builtin::Body::AuthRequest(request);
    let proof = convoke_yonexus::builtin::Builtin::new(None, time, body).encode();
    client.send(proof.clone()).await;
    assert_eq!(client.reason().await, "invalid_signature", "the secret alone binds no key that nobody named");
    let rotate = hub.post(path, public_key("new")).await;
    assert!(rotate.body["rotation_fingerprint"].is_string(), "{rotate:?}");
    client.send(proof).await;
    assert_eq!(client.next().await["type"], "auth_success");

    let mut waiting = hub.client_with("client-a", Some(secret.clone())).await;
    waiting.hello().await;
    waiting.next().await;
    assert_eq!(hub.delete("/api/yonexus/clients/client-a").await, 200);
    waiting.prove("client-a", &secret, NONCE, 0).await;
    assert_eq!(waiting.reason().await, "unknown_identifier");
}

#[tokio::test]
async fn guessing_is_counted_against_the_address_and_not_against_the_client() {
    let hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut live = hub.enter("client-a", secret.clone()).await;
    let mut guesser = hub.client_with("client-a", Some(secret.clone())).await;
    guesser.hello().await;
    guesser.next().await;
    for n in 0..60 {
        let nonce = format!("{n:024}");
        guesser.prove("other", &secret, &nonce, 0).await;
        assert_eq!(guesser.reason().await, "invalid_signature");
    }
    assert_eq!(guesser.closed().await, Some(4403), "who is wrong too often is left");
    let mut nobody = hub.client("nobody").await;
    nobody.hello().await;
    nobody.next().await;
    let good = hub.enter("client-a", secret).await;
    assert_eq!(live.closed().await, Some(4409), "and who is right is let in from there all the same");
    live = good;
    live.heartbeat().await;
    live.settled().await;
    assert_eq!(hub.client_view("client-a").await["state"], "paired");
}
