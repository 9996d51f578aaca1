//! Pairing by a person.

use convoke_wires::Wires;
use serde_json::json;

use crate::support::{TOKEN, TestHub};

#[tokio::test]
async fn a_client_pairs_with_the_code_that_a_person_carries() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    assert_eq!(hub.client_view("client-a").await["state"], "unpaired");
    let mut client = hub.client("client-a").await;
    client.hello().await;
    let ack = client.next().await;
    assert_eq!(ack["payload"], json!({ "identifier": "client-a", "nextAction": "pair_required" }));
    assert_eq!(ack["requestId"], "req_001");
    let request = client.next().await;
    assert_eq!(request["payload"]["adminNotification"], "sent");
    assert_eq!(request["payload"]["codeDelivery"], "out_of_band");
    assert!((299..=300).contains(&request["payload"]["ttlSeconds"].as_i64().expect("a number")));

    let pending = hub.get("/api/yonexus/pairings").await.body["pairings"][0].clone();
    assert_eq!(pending["identifier"], "client-a");
    assert_eq!(pending["address"], "127.0.0.1");
    assert_eq!(pending["connected"], true);
    assert_eq!(pending["key_fingerprint"].as_str().map(str::len), Some(64));
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let seen = hub.request("GET", "/api/yonexus/pairings", Some(&viewer), None).await.body;
    assert!(seen["pairings"][0]["pairing_code"].is_null(), "only who may approve sees the code");

    let code = hub.code("client-a").await;
    client.confirm(&code.to_lowercase()).await;
    let success = client.next().await;
    assert_eq!(success["type"], "pair_success");
    let secret = success["payload"]["secret"].as_str().expect("a secret").to_owned();
    assert_eq!(secret.len(), 43, "32 bytes in base64url");
    assert_eq!(hub.client_view("client-a").await["state"], "paired");
    assert_eq!(hub.client_view("client-a").await["trust"], "trusted");
    assert!(hub.get("/api/yonexus/pairings").await.body["pairings"].as_array().expect("a list").is_empty());
    client.session.on_text(&client.heard[2].clone(), super::now());
    client.authenticate().await;
    assert_eq!(client.next().await["type"], "auth_success");
    hub.until_client("client-a", "liveness", "online").await;

    for text in &client.heard {
        assert!(!text.contains(&code), "a code on the wire: {text}");
    }
    let journal = hub.journal("").await;
    let text = serde_json::to_string(&journal).expect("JSON");
    assert!(!text.contains(&code) && !text.contains(&secret), "a secret in the journal");
    let whats: Vec<_> = journal
        .iter()
        .filter(|r| r["kind"] == "pairing")
        .map(|r| r["detail"]["what"].as_str().expect("a text").to_owned())
        .collect();
    assert_eq!(whats, ["started", "paired"]);
}

#[tokio::test]
async fn who_is_not_allowed_is_rejected_and_looks_like_the_revoked() {
    let hub = TestHub::start().await;
    hub.pair("client-a").await;
    let reply = hub.post("/api/yonexus/clients/client-a/revoke", json!({})).await;
    assert_eq!(reply.body["state"], "revoked");
    let mut frames = Vec::new();
    for identifier in ["client-a", "nobody", "no such identifier!"] {
        let mut client = hub.client(identifier).await;
        client.hello().await;
        assert_eq!(client.next().await["payload"]["nextAction"], "rejected");
        let error = client.next().await;
        frames.push(error["payload"].clone());
        assert_eq!(client.closed().await, Some(4403));
    }
    assert_eq!(frames[0]["code"], "IDENTIFIER_NOT_ALLOWED");
    assert!(frames.iter().all(|frame| *frame == frames[0]));
    hub.allow("client-a").await;
    assert_eq!(hub.client_view("client-a").await["state"], "unpaired", "and an operator may let it pair again");
}

#[tokio::test]
async fn wrong_codes_burn_the_code_and_anothers_code_is_a_wrong_one() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    hub.allow("client-b").await;
    let mut a = hub.client("client-a").await;
    a.hello().await;
    let mut b = hub.client("client-b").await;
    b.hello().await;
    for client in [&mut a, &mut b] {
        client.next().await;
        client.next().await;
    }
    let (code_a, code_b) = (hub.code("client-a").await, hub.code("client-b").await);
    assert_ne!(code_a, code_b);
    for _ in 0..5 {
        b.confirm(&code_a).await;
        assert_eq!(b.reason().await, "invalid_code");
    }
    b.confirm(&code_b).await;
    assert_eq!(b.reason().await, "expired", "burnt");
    a.confirm(&code_a).await;
    assert_eq!(a.next().await["type"], "pair_success", "and nobody else is harmed");
    let mut again = hub.client("client-b").await;
    again.hello().await;
    assert_eq!(again.next().await["payload"]["nextAction"], "rejected");
    assert_eq!(again.reason().await, "RATE_LIMITED");
}

#[tokio::test]
async fn a_code_whose_time_is_over_is_told_and_of_no_use() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    let mut client = hub.client("client-a").await;
    client.hello().await;
    client.next().await;
    client.next().await;
    let code = hub.code("client-a").await;
    {
        let known = Wires::of(hub.hub()).yonexus.clients.find("client-a").expect("known");
        let mut state = known.state();
        state.record.pairing.as_mut().expect("under way").expires_at = super::now().wall;
    }
    assert_eq!(client.reason().await, "expired", "the hub says so by itself");
    client.confirm(&code).await;
    assert_eq!(client.reason().await, "expired");
    assert_eq!(hub.client_view("client-a").await["state"], "unpaired");
    client.hello().await;
    assert_eq!(client.next().await["payload"]["nextAction"], "pair_required", "and it can begin anew");
}

#[tokio::test]
async fn a_second_hello_waits_with_the_same_key_and_is_rejected_with_another() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    let mut first = hub.client("client-a").await;
    first.hello().await;
    first.next().await;
    first.next().await;
    let code = hub.code("client-a").await;
    let mut thief = hub.client("client-a").await;
    let hello = thief.session.hello(super::now()).encode();
    let other = convoke_yonexus::key::encode(&crate::support::key_of("other").verifying_key());
    let own = convoke_yonexus::key::encode(&crate::support::key_of("client-a").verifying_key());
    thief.send(hello.replace(&own, &other)).await;
    assert_eq!(thief.next().await["payload"]["nextAction"], "rejected");
    assert_eq!(thief.closed().await, Some(4403));
    let mut second = hub.client("client-a").await;
    second.hello().await;
    assert_eq!(second.next().await["payload"]["nextAction"], "waiting_pair_confirm");
    assert_eq!(second.next().await["type"], "pair_request");
    assert_eq!(hub.code("client-a").await, code);
    second.confirm(&code).await;
    assert_eq!(second.next().await["type"], "pair_success");
}

#[tokio::test]
async fn whoever_has_read_the_public_key_takes_no_waiting_clients_place() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    let mut client = hub.client("client-a").await;
    client.hello().await;
    client.next().await;
    client.next().await;
    // A `hello` with the same key needs nothing that is secret.
    let mut thief = hub.client("client-a").await;
    thief.hello().await;
    assert_eq!(thief.next().await["payload"]["nextAction"], "waiting_pair_confirm");
    assert_eq!(thief.next().await["type"], "pair_request");
    let decided = hub.post("/api/yonexus/pairings/client-a", json!({ "approve": true })).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(client.next().await["type"], "pair_success", "the one that waited has the secret");
    assert!(thief.heard.iter().all(|frame| !frame.contains("pair_success")));
}

#[tokio::test]
async fn an_operator_approves_a_client_that_waits_and_one_that_comes_back() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    let mut client = hub.client("client-a").await;
    client.hello().await;
    client.next().await;
    client.next().await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let path = "/api/yonexus/pairings/client-a";
    assert_eq!(hub.post_as(&viewer, path, json!({ "approve": true })).await.status, 403);
    assert_eq!(hub.post(path, json!({ "approve": true })).await.body["state"], "paired");
    assert_eq!(client.next().await["type"], "pair_success");
    assert_eq!(hub.post(path, json!({ "approve": true })).await.status, 404);

    hub.allow("client-b").await;
    let mut client = hub.client("client-b").await;
    client.hello().await;
    client.next().await;
    client.next().await;
    drop(client);
    hub.until("/api/yonexus/pairings", |body| body["pairings"][0]["connected"] == false).await;
    let reply = hub.post("/api/yonexus/pairings/client-b", json!({ "approve": true })).await;
    assert_eq!(reply.body["state"], "pending", "it has no secret yet");
    let mut client = hub.client("client-b").await;
    client.hello().await;
    assert_eq!(client.next().await["payload"]["nextAction"], "waiting_pair_confirm");
    assert_eq!(client.next().await["type"], "pair_success");
}

#[tokio::test]
async fn an_operator_denies() {
    let hub = TestHub::start().await;
    hub.allow("client-a").await;
    let mut client = hub.client("client-a").await;
    client.hello().await;
    client.next().await;
    client.next().await;
    let reply = hub.post("/api/yonexus/pairings/client-a", json!({ "approve": false })).await;
    assert_eq!((reply.status, &reply.body["state"]), (200, &json!("unpaired")));
    assert_eq!(client.reason().await, "identifier_not_allowed");
    assert_eq!(client.closed().await, Some(4403));
    let record = hub.journal("kind=pairing").await.pop().expect("one");
    assert_eq!((&record["decision"], &record["who"]), (&json!("rejected"), &json!("operator")));
}

#[tokio::test]
async fn a_restart_in_the_middle_of_a_pairing_loses_nothing() {
    let mut hub = TestHub::with(&[("yonexus.allow", "client-a")]).await;
    let mut client = hub.client("client-a").await;
    client.hello().await;
    client.next().await;
    client.next().await;
    let code = hub.code("client-a").await;
    hub.restart(&[("yonexus.allow", "client-a")]).await;
    assert_eq!(hub.code("client-a").await, code);
    let mut client = hub.client("client-a").await;
    client.hello().await;
    assert_eq!(client.next().await["payload"]["nextAction"], "waiting_pair_confirm");
    client.next().await;
    client.confirm(&code).await;
    let success = client.next().await;
    let secret = success["payload"]["secret"].as_str().expect("a secret").to_owned();
    hub.restart(&[("yonexus.allow", "client-a")]).await;
    hub.enter("client-a", convoke_core::secret::SecretText::new(secret.clone())).await;
    let bytes = std::fs::read(hub.data().join("hub.db")).expect("reads");
    let wal = std::fs::read(hub.data().join("hub.db-wal")).unwrap_or_default();
    for needle in [code.as_bytes(), secret.as_bytes()] {
        let found = |all: &[u8]| all.windows(needle.len()).any(|w| w == needle);
        assert!(!found(&bytes) && !found(&wal), "a secret lies open in the store");
    }
}

#[tokio::test]
async fn the_allow_list_is_of_the_settings_and_of_operators() {
    let hub = TestHub::with(&[("yonexus.allow", "from-settings")]).await;
    hub.allow("from-api").await;
    let list = hub.get("/api/yonexus/clients").await.body;
    let names: Vec<_> = list["clients"].as_array().expect("a list").iter().map(|c| c["identifier"].clone()).collect();
    assert_eq!(names, ["from-api", "from-settings"]);
    assert_eq!(hub.delete("/api/yonexus/clients/from-settings").await, 409);
    assert_eq!(hub.delete("/api/yonexus/clients/from-api").await, 200);
    assert_eq!(hub.delete("/api/yonexus/clients/from-api").await, 404);
    for bad in ["", "a b", "a:b", "a/b", &"x".repeat(129)] {
        let reply = hub.post("/api/yonexus/clients", json!({ "identifier": bad })).await;
        assert_eq!(reply.status, 400, "{bad}");
    }
    let narrow = hub.token("narrow", "admin", json!({ "agents": ["yonexus:lab-*"] })).await;
    let allow = |name: &str| json!({ "identifier": name });
    assert_eq!(hub.post_as(&narrow, "/api/yonexus/clients", allow("other")).await.status, 403);
    assert_eq!(hub.post_as(&narrow, "/api/yonexus/clients", allow("lab-1")).await.status, 200);
    let seen = hub.request("GET", "/api/yonexus/clients", Some(&narrow), None).await.body;
    assert_eq!(seen["clients"].as_array().map(Vec::len), Some(1));
    assert_eq!(hub.request("GET", "/api/yonexus/clients", Some(TOKEN), None).await.status, 200);
}

#[tokio::test]
async fn there_is_a_most_of_codes() {
    let hub = TestHub::with(&[("yonexus.max_pairings", "1"), ("yonexus.allow", "a,b")]).await;
    let mut a = hub.client("a").await;
    a.hello().await;
    assert_eq!(a.next().await["payload"]["nextAction"], "pair_required");
    let mut b = hub.client("b").await;
    b.hello().await;
    assert_eq!(b.next().await["payload"]["nextAction"], "rejected");
    assert_eq!(b.reason().await, "RATE_LIMITED");
}
