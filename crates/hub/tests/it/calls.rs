//! Calls: their way through the gate, their outcomes and their records.

use serde_json::{Value, json};

use crate::support::{PATIENCE, TOKEN, TestAgent, TestHub, key_of};

const LIST: &str = r#"{"tool":"fs_list","args":{"path":"/"}}"#;

fn body(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

#[tokio::test]
async fn a_call_is_answered_and_recorded() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let answer = async {
        let request = agent.request().await;
        assert_eq!((request.tool.as_str(), &request.args), ("fs_list", &json!({ "path": "/" })));
        agent.answer(&request.id, json!({ "entries": [{ "name": "etc", "is_dir": true, "bytes": 0 }] })).await;
        request.id
    };
    let (reply, id) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), answer);
    assert_eq!(reply.status, 200);
    assert_eq!(reply.body["result"]["entries"][0]["name"], "etc");
    assert_eq!(reply.body["call_id"], json!(id), "the frame's id is the call's");
    assert!(reply.body["duration_ms"].is_u64());
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!(records.len(), 1, "an observe call leaves its outcome only");
    let record = &records[0];
    for (field, value) in [
        ("phase", "outcome"),
        ("who", "operator"),
        ("door", "http"),
        ("target", "pc"),
        ("tool", "fs_list"),
        ("decision", "allowed"),
        ("outcome", "ok"),
    ] {
        assert_eq!(record[field], value, "{field} of {record}");
    }
    assert_eq!(record["args"], json!({ "path": "/" }));
    let status = hub.get(&format!("/api/calls/{id}")).await.body;
    assert_eq!((&status["state"], &status["outcome"]), (&json!("done"), &json!("ok")));
}

#[tokio::test]
async fn a_call_that_changes_something_leaves_an_intent_first() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let call = json!({ "tool": "shell_exec", "args": { "command": "export API_KEY=canary; uptime" } });
    let answer = async {
        let request = agent.request().await;
        let before = hub.journal("kind=call").await;
        agent.answer(&request.id, json!({ "stdout": "", "stderr": "", "exit_code": 0 })).await;
        before
    };
    let (reply, before) = tokio::join!(hub.post("/api/agents/pc/call", call), answer);
    assert_eq!(reply.body["ok"], true, "{reply:?}");
    assert_eq!(before.len(), 1, "recorded before it was sent");
    assert_eq!(before[0]["phase"], "intent");
    let records = hub.journal("kind=call").await;
    assert_eq!(records.iter().map(|r| r["phase"].as_str()).collect::<Vec<_>>(), [Some("intent"), Some("outcome")]);
    assert!(!format!("{records:?}").contains("canary"), "secrets do not reach the journal");
}

#[tokio::test]
async fn offline_and_unknown_agents_are_told_apart() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let offline = hub.post("/api/agents/pc/call", body(LIST)).await;
    assert_eq!(offline.status, 200);
    assert_eq!(offline.body["error"]["code"], "offline");
    let unknown = hub.post("/api/agents/nobody/call", body(LIST)).await;
    assert_eq!((unknown.status, unknown.body["error"]["code"].as_str()), (404, Some("not_found")));
}

#[tokio::test]
async fn the_agents_own_errors_come_through_whatever_their_code() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let codes = [
        "timeout",
        "not_found",
        "exec_failed",
        "unsupported",
        "bad_args",
        "internal",
        "disabled",
        "blocked",
        "paused",
        "brand_new",
    ];
    for code in codes {
        let answer = async {
            let request = agent.request().await;
            agent.fail(&request.id, code).await;
        };
        let (reply, ()) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), answer);
        assert_eq!((reply.status, reply.body["error"]["code"].as_str()), (200, Some(code)));
    }
}

#[tokio::test]
async fn a_late_answer_is_recorded_as_late() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let call = json!({ "tool": "fs_list", "args": { "path": "/" }, "timeout_s": 0.2 });
    let (reply, request) = tokio::join!(hub.post("/api/agents/pc/call", call), agent.request());
    assert_eq!(reply.body["error"]["code"], "timeout", "{reply:?}");
    agent.answer(&request.id, json!({})).await;
    let page = hub.until("/api/journal?kind=call", |page| {
        page["records"].as_array().is_some_and(|r| r.iter().any(|r| r["phase"] == "late"))
    });
    let late = page.await["records"].as_array().expect("a list").last().expect("one").clone();
    assert_eq!((&late["call_id"], &late["outcome"]), (&json!(request.id), &json!("ok")));
    let status = hub.get(&format!("/api/calls/{}", request.id)).await.body;
    assert_eq!(status["outcome"], "timeout", "the first outcome stands");
}

#[tokio::test]
async fn an_answer_of_another_agent_is_refused_and_recorded() {
    let hub = TestHub::start().await;
    let mut right = hub.agent("right").await;
    let mut wrong = hub.agent("wrong").await;
    let answers = async {
        let request = right.request().await;
        wrong.answer(&request.id, json!({ "forged": true })).await;
        hub.until("/api/journal?kind=refusal&agent=wrong", |p| !p["records"].as_array().expect("list").is_empty())
            .await;
        right.answer(&request.id, json!({ "forged": false })).await;
    };
    let (reply, ()) = tokio::join!(hub.post("/api/agents/right/call", body(LIST)), answers);
    assert_eq!(reply.body["result"]["forged"], false);
}

#[tokio::test]
async fn one_agents_disconnect_fails_its_own_calls_only_and_at_once() {
    let hub = TestHub::start().await;
    let mut stays = hub.agent("stays").await;
    let mut goes = hub.agent("goes").await;
    let script = async {
        goes.request().await;
        let request = stays.request().await;
        drop(goes);
        hub.until_online("goes", false).await;
        stays.answer(&request.id, json!({})).await;
    };
    let (gone, stayed, ()) = tokio::join!(
        hub.post("/api/agents/goes/call", body(LIST)),
        hub.post("/api/agents/stays/call", body(LIST)),
        script
    );
    assert_eq!(gone.body["error"]["code"], "disconnected");
    assert_eq!(stayed.body["ok"], true);
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_call_and_the_tunnel_lives() {
    let hub = TestHub::with(&[("kenny.max_frame_bytes", "65536")]).await;
    let mut agent = hub.agent("pc").await;
    let big = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "content": "x".repeat(70_000) })).await;
    };
    let (reply, ()) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), big);
    assert_eq!(reply.body["error"]["code"], "too_large");
    let small = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "content": "x".repeat(60_000) })).await;
    };
    let (reply, ()) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), small);
    assert_eq!(reply.body["ok"], true, "the same connection still serves");
    let huge = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "content": "x".repeat(140_000) })).await;
        agent.socket.closed().await
    };
    let (reply, closed) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), huge);
    assert_eq!((reply.body["error"]["code"].as_str(), closed), (Some("disconnected"), Some(1009)));
    let words = reply.body["error"]["message"].as_str().expect("words");
    assert!(words.contains("is over the limit of 131072"), "{words}");
    let said = |logs: &Value| logs.to_string().contains("the connection was closed: a message of");
    hub.until("/api/logs?agent=pc&level=warn", said).await;
}

#[tokio::test]
async fn odd_frames_never_drop_the_tunnel() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    for odd in [
        "{",
        "[]",
        "{}",
        r#"{"type":"brand_new"}"#,
        r#"{"type":"response","id":"x"}"#,
        r#"{"type":"ping","extra":1}"#,
        r#"{"type":"log","agent_id":"pc","at":"x","level":"WARN","target":"t","message":"m","more":1}"#,
        r#"{"type":"telemetry","agent_id":"pc","collected_at":"x","snapshot":[]}"#,
        r#"{"type":"auth","agent_sig":"x"}"#,
    ] {
        agent.socket.send(odd).await;
    }
    assert_eq!(agent.frame().await, json!({ "type": "pong" }), "the ping among them is answered");
    let answer = async {
        let request = agent.request().await;
        let frame = json!({ "type": "response", "id": request.id, "ok": true, "result": {}, "took_ms": 3 });
        agent.socket.send(frame.to_string()).await;
    };
    let (reply, ()) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), answer);
    assert_eq!(reply.body["ok"], true);
    // The operator sees them, a moment later.
    hub.until("/api/logs?agent=pc&level=warn", |logs| logs["entries"].as_array().expect("a list").len() >= 6).await;
}

#[tokio::test]
async fn two_hundred_calls_are_in_flight_at_once() {
    let hub = TestHub::start().await;
    let echo = hub.agent("pc").await.echo();
    let calls = (0..200).map(|n| {
        let call = json!({ "tool": "fs_list", "args": { "path": format!("/{n}") } });
        async move { (n, call) }
    });
    let calls = futures_util::future::join_all(calls).await;
    let replies = calls.into_iter().map(|(n, call)| {
        let hub = &hub;
        async move { (n, hub.post("/api/agents/pc/call", call).await) }
    });
    for (n, reply) in futures_util::future::join_all(replies).await {
        assert_eq!(reply.body["result"]["echo"]["path"], format!("/{n}"), "each gets its own answer");
    }
    drop(hub);
    echo.abort();
}

#[tokio::test]
async fn an_idempotency_key_returns_the_first_outcome() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let call = json!({ "tool": "fs_list", "args": { "path": "/" }, "idempotency_key": "k1" });
    let answer = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "n": 1 })).await;
    };
    let (first, ()) = tokio::join!(hub.post("/api/agents/pc/call", call.clone()), answer);
    let second = hub.post("/api/agents/pc/call", call.clone()).await;
    assert_eq!(first.body, second.body, "nothing was sent again");
    let other = json!({ "tool": "fs_list", "args": { "path": "/etc" }, "idempotency_key": "k1" });
    assert_eq!(hub.post("/api/agents/pc/call", other).await.status, 409);
    let token = hub.token("someone", "operator", json!({})).await;
    let answer = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "n": 2 })).await;
    };
    let (theirs, ()) = tokio::join!(hub.post_as(&token, "/api/agents/pc/call", call), answer);
    assert_eq!(theirs.body["result"]["n"], 2, "a key is its caller's own");
}

#[tokio::test]
async fn a_key_whose_outcome_could_not_be_recorded_leads_to_no_call_that_never_ends() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let call = json!({ "tool": "shell_exec", "args": { "command": "uptime" }, "idempotency_key": "k1" });
    let again = || tokio::time::timeout(PATIENCE, hub.post("/api/agents/pc/call", call.clone()));
    hub.refuse("calls", "done");
    let answer = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({})).await;
        request.id
    };
    let (first, id) = tokio::join!(again(), answer);
    let first = first.expect("in time").body;
    assert_eq!((&first["error"]["code"], &first["call_id"]), (&json!("internal"), &json!(id)), "{first}");
    assert_eq!(again().await.expect("in time").body, first);
    // As many other calls would have it forgotten.
    hub.hub().calls.forget(id.parse().expect("an id"));
    let failing = again().await.expect("whoever asks is told, though the store still fails");
    assert!(failing.status >= 400, "{failing:?}");
    hub.refuse_no_more();
    for _ in 0..2 {
        let later = again().await.expect("in time").body;
        assert_eq!((&later["error"]["code"], &later["call_id"]), (&json!("internal"), &json!(id)), "{later}");
    }
    let status = hub.get(&format!("/api/calls/{id}")).await.body;
    assert_eq!((&status["state"], &status["outcome"]), (&json!("done"), &json!("internal")));
    let outcomes: Vec<_> = hub.journal("kind=call").await.iter().map(|r| r["outcome"].clone()).collect();
    assert_eq!(outcomes, [Value::Null, json!("internal")], "the intent has its outcome");
    assert_eq!(hub.hub().store.open_intents().await.expect("reads").len(), 0);
}

#[tokio::test]
async fn duplicate_keys_cannot_show_the_guard_one_thing_and_the_agent_another() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let text = r#"{"tool":"shell_exec","args":{"command":"uptime","command":"rm -rf /"}}"#;
    let url = format!("{}/api/agents/pc/call", hub.http);
    let request = hub.http_client.post(url).bearer_auth(crate::support::TOKEN).body(text);
    let reply: Value = request.send().await.expect("answers").json().await.expect("JSON");
    assert_eq!(reply["error"]["code"], "blocked");
    let text = r#"{"tool":"shell_exec","args":{"command":"rm -rf /","command":"uptime"}}"#;
    let url = format!("{}/api/agents/pc/call", hub.http);
    let request = hub.http_client.post(url).bearer_auth(crate::support::TOKEN).body(text);
    let answer = async {
        let request = agent.request().await;
        assert_eq!(request.args, json!({ "command": "uptime" }));
        agent.answer(&request.id, json!({})).await;
    };
    let (reply, ()) = tokio::join!(request.send(), answer);
    assert!(reply.expect("answers").status().is_success());
}

#[tokio::test]
async fn malformed_calls_are_told_what_is_wrong() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    for (call, word) in [
        (json!({}), "tool"),
        (json!({ "tool": "" }), "tool"),
        (json!({ "tool": "fs_list", "args": [] }), "args"),
        (json!({ "tool": "fs_list", "args": 5 }), "args"),
        (json!({ "tool": "fs_list", "timeout_s": 0 }), "timeout_s"),
        (json!({ "tool": "fs_list", "timeout_s": -1 }), "timeout_s"),
        (json!({ "tool": "fs_list", "idempotency_key": "" }), "idempotency_key"),
    ] {
        let reply = hub.post("/api/agents/pc/call", call.clone()).await;
        let message = reply.body["error"]["message"].as_str().unwrap_or_default();
        assert!(reply.status == 400 && message.contains(word), "{call} → {reply:?}");
    }
    let huge = json!({ "tool": "fs_list", "args": { "path": "x".repeat(2_000_000) } });
    assert_eq!(hub.post("/api/agents/pc/call", huge).await.status, 413);
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_take_the_record_along() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let url = format!("{}/api/agents/pc/call", hub.http);
    let call = hub.http_client.post(url).bearer_auth(crate::support::TOKEN).body(LIST);
    let caller = tokio::spawn(call.send());
    let request = agent.request().await;
    caller.abort();
    let _ = caller.await;
    agent.answer(&request.id, json!({})).await;
    hub.until("/api/journal?kind=call", |p| p["records"][0]["outcome"] == "ok").await;
}

#[tokio::test]
async fn a_stop_tells_agents_and_a_restart_keeps_what_was_acknowledged() {
    let mut hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    hub.request("PATCH", "/api/agents/pc", Some(crate::support::TOKEN), Some(json!({ "tags": ["lab"] }))).await;
    let (closed, ()) = tokio::join!(agent.socket.closed(), hub.stop());
    assert_eq!(closed, Some(1001));
    hub.restart(&[]).await;
    let shown = hub.get("/api/agents/pc").await.body;
    assert_eq!(
        (&shown["trust"], &shown["tags"], &shown["online"]),
        (&json!("trusted"), &json!(["lab"]), &json!(false))
    );
    hub.connect("pc", key_of("pc")).await;
}

#[tokio::test]
async fn a_token_that_is_revoked_while_it_waits_hears_nothing_of_what_came() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let token = hub.token("brief", "operator", json!({})).await;
    let listed = hub.get("/api/tokens").await.body;
    let found = listed["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "brief").expect("there");
    let revoke = format!("/api/tokens/{}", found["id"].as_str().expect("an id"));
    let meanwhile = async {
        let request = agent.request().await;
        assert_eq!(hub.request("DELETE", &revoke, Some(TOKEN), None).await.status, 200);
        agent.answer(&request.id, json!({ "entries": [] })).await;
    };
    let call = json!({ "tool": "fs_list", "args": { "path": "/" } });
    let (reply, ()) = tokio::join!(hub.post_as(&token, "/api/agents/pc/call", call), meanwhile);
    assert_eq!(reply.status, 401, "{reply:?}");
    let outcomes = hub.journal("kind=call&agent=pc").await;
    assert_eq!(outcomes.last().map(|r| &r["outcome"]), Some(&json!("ok")), "it is recorded all the same");
}

#[tokio::test]
async fn an_agent_cannot_fill_the_journal() {
    let hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    for _ in 0..150 {
        let mut agent = TestAgent::open(&hub, "pc", key.clone()).await;
        agent.handshake().await.expect("is let in");
        agent.answer(&uuid::Uuid::new_v4().to_string(), json!({})).await;
        // In order: what comes before the answer to a ping has been seen when the answer is.
        agent.socket.send(json!({ "type": "ping" }).to_string()).await;
        while agent.frame().await["type"] != "pong" {}
    }
    // At the worst the minute has changed once.
    for kind in ["auth", "refusal"] {
        let records = hub.journal(&format!("kind={kind}&agent=pc")).await.len();
        assert!((60..=122).contains(&records), "{records} of {kind}");
    }
}

#[tokio::test]
async fn a_call_that_the_hub_itself_cuts_off_is_told_so() {
    let mut hub = TestHub::with(&[("hub.drain_s", "0")]).await;
    let mut agent = hub.agent("pc").await;
    let request = hub.http_client.post(format!("{}/api/agents/pc/call", hub.http)).bearer_auth(TOKEN);
    let asked = tokio::spawn(request.json(&body(LIST)).send());
    agent.request().await;
    hub.stop().await;
    let answer: Value = asked.await.expect("no panic").expect("an answer").json().await.expect("JSON");
    assert_eq!(answer["error"]["code"], "interrupted", "it is not the agent's fault: {answer}");
    hub.restart(&[]).await;
    assert_eq!(hub.journal("kind=call&agent=pc").await[0]["outcome"], "interrupted");
}

#[tokio::test]
async fn a_large_call_holds_up_no_other_that_comes_after_it() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let domains: Vec<_> = (0..10_000).map(|n| format!("subdomain-{n:05}.advertising.example.org")).collect();
    let large = json!({ "tool": "webfilter_apply",
        "args": { "domains": domains, "doh_policy": "leave", "list_hash": "0".repeat(16) } });
    let large = hub.post("/api/agents/pc/call", large);
    let small = async {
        let large = agent.request().await;
        // It has come whole, so that nothing waits to be written; and the agent says nothing until it is asked again.
        let (small, ()) = tokio::join!(hub.post("/api/agents/pc/call", body(LIST)), async {
            let small = agent.request().await;
            agent.answer(&small.id, json!({ "entries": [] })).await;
        });
        agent.answer(&large.id, json!({})).await;
        small
    };
    let (large, small) = tokio::join!(large, small);
    assert_eq!(small.body["ok"], true, "{small:?}");
    assert_eq!(large.body["ok"], true, "{large:?}");
}

#[tokio::test]
async fn a_result_that_was_too_large_to_keep_is_not_told_as_an_empty_one() {
    let settings = [("calls.max_result_bytes_kept", "64")];
    let mut hub = TestHub::with(&settings).await;
    let mut agent = hub.agent("pc").await;
    let call = json!({ "tool": "net_config", "idempotency_key": "k" });
    let answer = async {
        let request = agent.request().await;
        agent.answer(&request.id, json!({ "interfaces": ["x".repeat(100)] })).await;
    };
    let (first, ()) = tokio::join!(hub.post("/api/agents/pc/call", call.clone()), answer);
    assert!(first.body["result"].is_object() && first.body.get("note").is_none(), "{first:?}");
    hub.restart(&settings).await;
    let again = hub.post("/api/agents/pc/call", call).await.body;
    let note = again["note"].as_str().unwrap_or_default();
    assert!(again["ok"] == true && note.contains("too large to be kept"), "{again}");
    let shown = hub.get(&format!("/api/calls/{}", again["call_id"].as_str().expect("an id"))).await.body;
    assert_eq!(shown["note"], again["note"], "{shown}");
}
