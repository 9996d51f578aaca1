//! What is asked at the same time, and what its client does not wait for: memory and store must end with the same.

use convoke_core::call::CallState;
use convoke_core::door::Door;
use convoke_core::id::{CallId, PeerId, TokenId};
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;
use convoke_store::CallRow;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::support::{PATIENCE, TOKEN, TestHub, base64, key_of};

/// Sends a request on a connection of its own, and breaks that off after so many turns of the runtime.
async fn abandon(hub: &TestHub, path: &str, token: &str, body: &Value, turns: usize) {
    let address = hub.http.strip_prefix("http://").expect("plain HTTP");
    let mut connection = TcpStream::connect(address).await.expect("the hub listens");
    connection.set_zero_linger().expect("a reset at the end");
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all((head + &body).as_bytes()).await.expect("writes");
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

/// What was queued before is committed when this is.
async fn settled(hub: &TestHub, name: String) {
    hub.token(&name, "viewer", json!({})).await;
}

#[tokio::test]
async fn an_enrolment_whose_client_hung_up_strands_nobody() {
    let hub = TestHub::start().await;
    for n in 0..40 {
        let id = format!("pc-{n}");
        let token = hub.post(&format!("/api/agents/{id}/token"), json!({})).await.body;
        let token = token["token"].as_str().expect("a token");
        let body = json!({ "public_key": base64(key_of(&id).verifying_key().as_bytes()) });
        abandon(&hub, &format!("/api/agents/{id}/enroll"), token, &body, n * 8).await;
        settled(&hub, id.clone()).await;
        let records = hub.journal(&format!("agent={id}")).await;
        if records.iter().any(|r| r["detail"]["what"] == "key bound") {
            hub.until(&format!("/api/agents/{id}"), |agent| agent["trust"] == "trusted").await;
        }
        assert_eq!(hub.enrol_with(&id, token, &key_of(&id)).await.status, 200);
        hub.connect(&id, key_of(&id)).await;
    }
}

#[tokio::test]
async fn a_rule_is_kept_and_in_force_or_neither_whoever_hung_up() {
    let hub = TestHub::start().await;
    let mut kept = 0;
    for n in 0..40 {
        let id = format!("r-{n}");
        let rule = json!({ "id": id, "applies_to": "path", "pattern": id, "reason": "no" });
        abandon(&hub, "/api/policy/rules", TOKEN, &rule, n * 8).await;
        settled(&hub, id.clone()).await;
        if hub.journal("kind=policy").await.iter().any(|r| r["rule"] == id) {
            kept += 1;
            hub.until("/api/policy/rules", |listed| {
                listed["operator"].as_array().is_some_and(|rules| rules.iter().any(|rule| rule["id"] == id))
            })
            .await;
        }
    }
    assert!(kept > 0, "none was begun before its client was gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn rules_that_are_put_at_once_are_all_in_force() {
    let hub = TestHub::start().await;
    for round in 0..8 {
        let put = (0..12).map(|n| {
            let id = format!("r-{round}-{n}");
            let deny = json!({ "id": id, "applies_to": "path", "pattern": id, "reason": "no" });
            let confirm = json!({ "id": id, "tools": ["fs_list"], "agents": [id] });
            let (hub, deny_first) = (&hub, n % 2 == 0);
            async move {
                let (path, body) =
                    if deny_first { ("/api/policy/rules", deny) } else { ("/api/policy/confirm", confirm) };
                let reply = hub.post(path, body).await;
                assert_eq!(reply.status, 200, "{reply:?}");
            }
        });
        join_all(put).await;
        let in_force = |listed: &Value, list: &str| {
            let prefix = format!("r-{round}-");
            let rules = listed[list].as_array().expect("a list");
            rules.iter().filter(|r| r["id"].as_str().is_some_and(|id| id.starts_with(&prefix))).count()
        };
        assert_eq!(in_force(&hub.get("/api/policy/rules").await.body, "operator"), 6, "round {round}");
        assert_eq!(in_force(&hub.get("/api/policy/confirm").await.body, "rules"), 6, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn messages_rules_that_are_put_at_once_are_all_in_force() {
    let mut hub = TestHub::start().await;
    for round in 0..20 {
        let put = (0..12).map(|n| {
            let body = json!({ "rule": format!("r-{round}-{n}"), "target": { "inbox": {} } });
            hub.post("/api/rules", body)
        });
        for reply in join_all(put).await {
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        let listed = hub.get("/api/rules").await.body;
        assert_eq!(listed["rules"].as_array().expect("a list").len(), 12 * (round + 1), "round {round}");
    }
    let before = hub.get("/api/rules").await.body;
    hub.restart(&[]).await;
    assert_eq!(hub.get("/api/rules").await.body, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_last_tags_of_the_journal_are_those_an_agent_has() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    for round in 0..20 {
        let set = (0..6).map(|n| {
            let body = json!({ "tags": [format!("t-{round}-{n}")] });
            hub.request("PATCH", "/api/agents/pc", Some(TOKEN), Some(body))
        });
        for reply in join_all(set).await {
            assert_eq!(reply.status, 200, "{reply:?}");
        }
        let records = hub.journal("agent=pc&kind=trust").await;
        let last = records.iter().rev().find(|r| r["detail"]["what"] == "tags").expect("a record");
        assert_eq!(hub.get("/api/agents/pc").await.body["tags"], last["detail"]["tags"], "round {round}");
    }
}

#[tokio::test]
async fn a_client_that_is_allowed_and_removed_at_once_is_kept_as_it_is_shown() {
    let mut hub = TestHub::start().await;
    for n in 0..40 {
        let identifier = format!("c-{n}");
        let path = format!("/api/yonexus/clients/{identifier}");
        let body = json!({ "identifier": identifier });
        assert_eq!(hub.post("/api/yonexus/clients", body.clone()).await.status, 200);
        let allow = async {
            for _ in 0..n * 3 {
                tokio::task::yield_now().await;
            }
            hub.post("/api/yonexus/clients", body).await
        };
        let (removed, allowed) = tokio::join!(hub.request("DELETE", &path, Some(TOKEN), None), allow);
        assert_eq!((removed.status, allowed.status), (200, 200), "{removed:?} {allowed:?}");
    }
    let before = hub.get("/api/yonexus/clients?limit=100").await.body;
    hub.restart(&[]).await;
    let after = hub.get("/api/yonexus/clients?limit=100").await.body;
    let named = |list: &Value| -> Vec<(String, bool)> {
        let clients = list["clients"].as_array().expect("a list").iter();
        clients.map(|c| (c["identifier"].to_string(), c["allowed"] == true)).collect()
    };
    assert_eq!(named(&after), named(&before));
}

#[tokio::test]
async fn the_last_word_of_the_journal_about_an_agents_trust_is_what_holds() {
    let hub = TestHub::start().await;
    for n in 0..60 {
        let id = format!("pc-{n}");
        let token = hub.post(&format!("/api/agents/{id}/token"), json!({})).await.body;
        let token = token["token"].as_str().expect("a token");
        let revoke = async {
            for _ in 0..n * 3 {
                tokio::task::yield_now().await;
            }
            hub.post(&format!("/api/agents/{id}/revoke"), json!({})).await
        };
        let key = key_of(&id);
        let (enrolled, revoked) = tokio::join!(hub.enrol_with(&id, token, &key), revoke);
        assert_eq!(revoked.status, 200, "{revoked:?}");
        let records = hub.journal(&format!("agent={id}")).await;
        let last = records.iter().rev().find(|r| r["kind"] == "trust" || r["detail"]["what"] == "key bound");
        let expected = if last.expect("a record")["kind"] == "trust" { "revoked" } else { "trusted" };
        assert_eq!(hub.get(&format!("/api/agents/{id}")).await.body["trust"], expected, "{id}: {enrolled:?}");
    }
}

#[tokio::test]
async fn one_idempotency_key_sent_many_times_at_once_is_one_call_and_answers_all() {
    let hub = TestHub::start().await;
    let confirm = json!({ "id": "ask", "tools": ["fs_read"] });
    assert_eq!(hub.post("/api/policy/confirm", confirm).await.status, 200);
    let echo = hub.agent("pc").await.echo();
    for round in 0..12 {
        for (tool, args, status) in
            [("fs_list", json!({ "path": "/" }), 200), ("fs_read", json!({ "path": "/tmp/x" }), 202)]
        {
            let call = json!({ "tool": tool, "args": args, "idempotency_key": format!("{tool}-{round}") });
            let asked = (0..5).map(|_| hub.post("/api/agents/pc/call", call.clone()));
            let replies = tokio::time::timeout(PATIENCE, join_all(asked)).await.expect("nobody waits for ever");
            for reply in &replies {
                assert_eq!(reply.status, status, "{reply:?}");
                assert_eq!(reply.body["call_id"], replies[0].body["call_id"], "one call");
            }
        }
    }
    echo.abort();
}

#[tokio::test]
async fn a_kept_call_that_a_killed_hub_left_is_told_to_have_been_interrupted() {
    let mut hub = TestHub::start().await;
    hub.enrol("pc").await;
    let (id, now) = (CallId::new(uuid::Uuid::now_v7()), convoke_gate::clock::now());
    let caller = hub.get("/api/tokens").await.body["tokens"][0]["id"].as_str().expect("an id").parse::<TokenId>();
    let row = CallRow {
        id,
        caller: caller.expect("an id"),
        idempotency_key: Some("k".into()),
        target: PeerId::kenny("pc").expect("an id"),
        tool: "fs_list".into(),
        args_digest: "x".into(),
        door: Door::Http,
        args: None::<SecretBytes>,
        timeout_ms: None,
        requested_by: None,
        state: CallState::Running,
        outcome: None,
        created_at: now,
        keep_until: Timestamp::from_millis(now.millis() + 86_400_000),
    };
    hub.hub().store.put_call(row, None, None).await.expect("keeps");
    hub.restart(&[]).await;
    let found = hub.get(&format!("/api/calls/{id}")).await.body;
    assert_eq!((&found["state"], &found["outcome"]), (&json!("done"), &json!("interrupted")), "{found}");
    let outcomes = hub.journal("kind=call").await;
    let of_it: Vec<_> = outcomes.iter().filter(|r| r["call_id"] == id.to_string()).collect();
    assert_eq!(of_it.len(), 1, "{outcomes:?}");
    assert_eq!((&of_it[0]["phase"], &of_it[0]["outcome"]), (&json!("outcome"), &json!("interrupted")));
}
