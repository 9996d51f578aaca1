//! Enrolment, key rotation, revocation, removal.

use serde_json::json;

use crate::support::{PATIENCE, TOKEN, TestAgent, TestHub, base64, key_of};

async fn mint(hub: &TestHub, path: &str) -> String {
    let reply = hub.post(path, json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn a_token_binds_one_key_once() {
    let hub = TestHub::start().await;
    let token = mint(&hub, "/api/agents/pc/token").await;
    assert_eq!(hub.get("/api/agents/pc").await.body["trust"], "pending");
    assert_eq!(hub.enrol_with("pc", &token, &key_of("pc")).await.status, 200);
    assert_eq!(hub.enrol_with("pc", &token, &key_of("pc")).await.status, 200, "a lost reply strands nobody");
    assert_eq!(hub.enrol_with("pc", &token, &key_of("other")).await.status, 401);
    let minted = hub.post("/api/agents/pc/token", json!({})).await.body;
    assert!(minted["hint"].as_str().is_some_and(|hint| hint.contains("rotate-key")), "who mints is told: {minted}");
    let second = minted["token"].as_str().expect("a token");
    assert_eq!(hub.enrol_with("pc", second, &key_of("other")).await.status, 409, "a key is bound already");
}

#[tokio::test]
async fn what_is_wrong_with_an_enrolment_is_told_apart() {
    let hub = TestHub::start().await;
    let token = mint(&hub, "/api/agents/pc/token").await;
    let path = "/api/agents/pc/enroll";
    let ask = async |token: Option<&str>, body| hub.request("POST", path, token, Some(body)).await.status;
    let good = base64(key_of("pc").verifying_key().as_bytes());
    assert_eq!(ask(Some(&token), json!({})).await, 400);
    assert_eq!(ask(Some(&token), json!({ "public_key": "%%" })).await, 400);
    assert_eq!(ask(Some(&token), json!({ "public_key": base64(&[1; 31]) })).await, 400);
    assert_eq!(ask(None, json!({ "public_key": good })).await, 401);
    assert_eq!(ask(Some("wrong"), json!({ "public_key": good })).await, 401);
    let elsewhere = hub.enrol_with("other-pc", &token, &key_of("pc")).await;
    assert_eq!(elsewhere.status, 401, "a token is good for its own agent only");
    assert_eq!(ask(None, json!({ "public_key": good, "token": token })).await, 200, "in the body it counts too");
}

#[tokio::test]
async fn an_id_that_no_agent_can_have_is_refused_at_minting() {
    let hub = TestHub::start().await;
    for id in ["a%20b", "sonde:x", "%C3%BC", &"x".repeat(129)] {
        assert_eq!(hub.post(&format!("/api/agents/{id}/token"), json!({})).await.status, 400, "{id}");
    }
}

#[tokio::test]
async fn rotation_binds_a_new_key_and_ends_the_old_ones_link() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let token = mint(&hub, "/api/agents/pc/rotate-key").await;
    assert_eq!(hub.get("/api/agents/pc").await.body["online"], true, "the old key holds until then");
    assert_eq!(hub.enrol_with("pc", &token, &key_of("new")).await.status, 200);
    assert_eq!(agent.socket.closed().await, Some(4401));
    let refused = TestAgent::open(&hub, "pc", key_of("pc")).await.handshake().await;
    assert_eq!(refused, Err(Some(4401)));
    hub.connect("pc", key_of("new")).await;
}

#[tokio::test]
async fn revocation_closes_the_link_at_once_and_only_a_new_token_brings_it_back() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let reply = hub.post("/api/agents/pc/revoke", json!({})).await;
    assert_eq!((&reply.body["trust"], &reply.body["online"]), (&json!("revoked"), &json!(false)), "{reply:?}");
    assert_eq!(agent.socket.closed().await, Some(4401));
    let refused = TestAgent::open(&hub, "pc", key_of("pc")).await.handshake().await;
    assert_eq!(refused, Err(Some(4401)));
    let token = mint(&hub, "/api/agents/pc/token").await;
    let old = hub.enrol_with("pc", &token, &key_of("pc")).await;
    assert_eq!(
        (old.status, &old.body["error"]["code"]),
        (403, &json!("old_key")),
        "whoever has a copy of it: {old:?}"
    );
    assert_eq!(hub.enrol_with("pc", &token, &key_of("new")).await.status, 200);
    hub.connect("pc", key_of("new")).await;
    let token = mint(&hub, "/api/agents/pc/rotate-key").await;
    assert_eq!(hub.enrol_with("pc", &token, &key_of("new")).await.status, 403, "nothing would be replaced");
    let records = hub.journal("kind=trust&agent=pc").await;
    assert_eq!(records[0]["detail"]["what"], "revoked");
}

#[tokio::test]
async fn a_removed_agent_is_gone_and_its_records_stay() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    assert_eq!(hub.request("DELETE", "/api/agents/pc", Some(TOKEN), None).await.status, 200);
    assert_eq!(agent.socket.closed().await, Some(4401));
    assert_eq!(hub.get("/api/agents/pc").await.status, 404);
    assert!(!hub.journal("agent=pc").await.is_empty());
    let refused = TestAgent::open(&hub, "pc", key_of("pc")).await.handshake().await;
    assert_eq!(refused, Err(Some(4401)));
}

#[tokio::test]
async fn an_update_offers_the_newest_binary_by_a_short_lived_link() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("kenny-agent-0.2.0-linux-x86_64"), b"the new agent").expect("writes");
    let hub = TestHub::with(&[("kenny.update_dir", dir.path().to_str().expect("UTF-8"))]).await;
    hub.enrol("new").await;
    let unknown = hub.post("/api/agents/new/update", json!({})).await;
    assert_eq!(unknown.status, 409, "nobody knows what it runs on: {unknown:?}");
    let mut agent = hub.agent("pc").await;
    let answer = async {
        let request = agent.request().await;
        assert_eq!(request.tool, "agent_update");
        agent.answer(&request.id, json!({ "ok": true, "staged_version": "0.2.0" })).await;
        request.args
    };
    let (reply, args) = tokio::join!(hub.post("/api/agents/pc/update", json!({})), answer);
    assert_eq!((&reply.body["ok"], &reply.body["version"]), (&json!(true), &json!("0.2.0")), "{reply:?}");
    let url = args["url"].as_str().expect("an address");
    let body = hub.http_client.get(url).send().await.expect("answers").bytes().await.expect("a body");
    assert_eq!(&body[..], b"the new agent");
    assert_eq!(args["sha256"], reply.body["sha256"]);
    assert_eq!(hub.http_client.get(format!("{url}x")).send().await.expect("answers").status(), 404);
}

#[tokio::test]
async fn an_update_that_waited_for_a_person_has_a_link_that_lives() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("kenny-agent-0.2.0-linux-x86_64"), b"the new agent").expect("writes");
    let folder = dir.path().to_str().expect("UTF-8");
    let settings = [("kenny.update_dir", folder), ("hub.public_url", "http://hub.test")];
    let mut hub = TestHub::with(&settings).await;
    // Nobody has to find the name that it is told.
    hub.http = format!("http://{}", hub.hub().listen);
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let asker = hub.token("asker", "operator", json!({})).await;
    drop(hub.agent("pc").await);
    let asked = hub.post_as(&asker, "/api/agents/pc/update", json!({})).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let approval = asked.body["approval"]["id"].as_str().expect("an id").to_owned();
    let shown = hub.get("/api/approvals").await.body["approvals"][0]["args"]["url"].clone();
    let path = shown.as_str().expect("an address").strip_prefix("http://hub.test").expect("the hub's").to_owned();
    let fetch = async |hub: &TestHub, path: &str| {
        let reply = hub.http_client.get(format!("{}{path}", hub.http)).send().await.expect("answers");
        (reply.status().as_u16(), reply.bytes().await.expect("a body"))
    };
    assert_eq!(fetch(&hub, &path).await.0, 404, "not before someone approves");
    hub.restart(&settings).await;
    hub.http = format!("http://{}", hub.hub().listen);
    let mut agent = TestAgent::open(&hub, "pc", key_of("pc")).await;
    agent.handshake().await.expect("is let in");
    let answer = async {
        let request = agent.request().await;
        let fetched = fetch(&hub, &path).await;
        agent.answer(&request.id, json!({ "ok": true, "staged_version": "0.2.0" })).await;
        (request, fetched)
    };
    let at = format!("/api/approvals/{approval}");
    let yes = hub.post(&at, json!({ "approve": true }));
    let (approved, (request, fetched)) = tokio::join!(yes, answer);
    assert_eq!((approved.status, request.args["url"] == shown), (200, true), "{approved:?}");
    assert_eq!((fetched.0, &fetched.1[..]), (200, &b"the new agent"[..]));
    // Only links that this hub has made lead anywhere.
    let forged = path.replace("kenny%2Dagent", "..%2Fkenny%2Dagent");
    let ask = json!({ "tool": "agent_update", "args": { "version": "9", "url": format!("http://hub.test{forged}"), "sha256": "0" } });
    let asked = hub.post("/api/agents/pc/call", ask).await;
    assert_eq!(asked.body["error"]["code"], "blocked", "{asked:?}");
    assert_eq!(fetch(&hub, &forged).await.0, 404);
}

#[tokio::test]
async fn no_caller_chooses_where_an_update_comes_from() {
    let dir = tempfile::tempdir().expect("a folder");
    std::fs::write(dir.path().join("kenny-agent-0.2.0-linux-x86_64"), b"the new agent").expect("writes");
    let hub = TestHub::with(&[("kenny.update_dir", dir.path().to_str().expect("UTF-8"))]).await;
    let mut agent = hub.agent("pc").await;
    let updater = hub.token("updater", "operator", json!({ "tools": ["agent_update"] })).await;
    let elsewhere = ["http://127.0.0.1:17999/evil", "https://github.com/a/b", "x", ""];
    let ours = [format!("{}/d/binary/x", hub.http), format!("{}/d/binary/a.b.c", hub.http)];
    let none = [json!({}), json!({ "url": 1 }), json!({ "url": ["x"] })];
    let urls = elsewhere.map(str::to_owned).into_iter().chain(ours).map(|url| json!({ "url": url }));
    let mut tried = 0;
    for mut args in urls.chain(none) {
        args["version"] = "9".into();
        args["sha256"] = "0".repeat(64).into();
        let ask = json!({ "tool": "agent_update", "args": args });
        let refused = hub.post_as(&updater, "/api/agents/pc/call", ask).await;
        let refused = (&refused.body["error"]["code"], &refused.body["ok"]);
        assert!(refused.0 == "blocked" || refused.0 == "bad_args", "{args}: {refused:?}");
        tried += 1;
    }
    let records = hub.journal("tool=agent_update").await;
    assert!(records.iter().all(|record| record["outcome"] != "ok"), "{records:?}");
    assert_eq!(records.iter().filter(|record| record["rule"] == "update_link").count(), tried, "{records:?}");
    // Its first request is the one that follows: none of those went out.
    let after = hub.post("/api/agents/pc/call", json!({ "tool": "net_config", "args": {} }));
    let (_, tool) = tokio::join!(after, async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({})).await;
        request.tool
    });
    assert_eq!(tool, "net_config");
}

#[tokio::test]
async fn an_agent_that_does_not_read_is_cut_off_all_the_same() {
    for stop in [false, true] {
        let mut hub = TestHub::with(&[("hub.drain_s", "0")]).await;
        let key = hub.enrol("pc").await;
        let mut agent = TestAgent::on(hub.narrow_socket().await, &hub, "pc", key);
        agent.handshake().await.expect("is let in");
        let call = json!({ "tool": "fs_write", "args": { "path": "/tmp/x", "content": "x".repeat(500_000) } });
        // More than the system's buffers take.
        let calls: Vec<_> = (0..20)
            .map(|_| {
                let request = hub.http_client.post(format!("{}/api/agents/pc/call", hub.http)).bearer_auth(TOKEN);
                tokio::spawn(request.json(&call).send())
            })
            .collect();
        let known = hub.hub().agents.find("pc").expect("is there");
        let link = known.link().expect("connected");
        while link.depth() == 0 {
            tokio::task::yield_now().await;
        }
        if stop {
            hub.stop().await;
        } else {
            assert_eq!(hub.post("/api/agents/pc/revoke", json!({})).await.status, 200);
        }
        let mut codes = Vec::new();
        for call in calls {
            let reply = tokio::time::timeout(PATIENCE, call).await.expect("in time").expect("no panic");
            // A hub that stops takes no more of those that are on their way.
            let Ok(reply) = reply else { continue };
            let body: serde_json::Value = reply.json().await.expect("whole");
            codes.push(body["error"]["code"].as_str().unwrap_or_default().to_owned());
        }
        let expect = if stop { "interrupted" } else { "disconnected" };
        assert!(codes.iter().any(|code| code == expect), "{codes:?}");
        // `timeout` is of those that waited unread for too long before that, on a slow machine.
        let may_be = [expect, "offline", "busy", "timeout"];
        assert!(codes.iter().all(|code| may_be.contains(&code.as_str())), "{codes:?}");
        drop(agent);
    }
}

#[tokio::test]
async fn who_has_a_good_token_need_not_wait_for_what_others_do_at_the_same_address() {
    let hub = TestHub::start().await;
    let (first, second) = (mint(&hub, "/api/agents/pc/token").await, mint(&hub, "/api/agents/other/token").await);
    let mut last = 0;
    for _ in 0..12 {
        last = hub.enrol_with("pc", "cve_wrong", &key_of("pc")).await.status;
    }
    assert_eq!(last, 429);
    assert_eq!(hub.enrol_with("pc", &second, &key_of("pc")).await.status, 429, "it is another's");
    assert_eq!(hub.request("POST", "/api/agents/pc/enroll", None, Some(json!({}))).await.status, 429);
    assert_eq!(hub.enrol_with("pc", &first, &key_of("pc")).await.status, 200);
    assert_eq!(hub.enrol_with("pc", &first, &key_of("pc")).await.status, 200, "the first answer may have been lost");
    assert_eq!(hub.enrol_with("pc", &first, &key_of("another")).await.status, 429, "it is used");
}
