//! The confirm step: pending at once, bound, single-use, expiring, never by who asked, checked again before it runs.

use std::path::Path;

use convoke_core::approval::ApprovalState;
use convoke_core::journal::{Draft, Kind};
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use convoke_store::{ApprovalMove, backup};
use serde_json::{Value, json};

use crate::support::{TOKEN, TestHub, key_of};

/// A hub where calls that change something need a person, and a token that asks.
async fn confirming(settings: &[(&str, &str)]) -> (TestHub, String) {
    let hub = TestHub::with(settings).await;
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let asker = hub.token("asker", "operator", json!({})).await;
    (hub, asker)
}

fn shell() -> Value {
    json!({ "tool": "shell_exec", "args": { "command": "uptime" } })
}

async fn ask(hub: &TestHub, asker: &str) -> (String, String) {
    let reply = hub.post_as(asker, "/api/agents/pc/call", shell()).await;
    assert_eq!(reply.status, 202, "{reply:?}");
    let text = |v: &Value| v.as_str().expect("a text").to_owned();
    (text(&reply.body["approval"]["id"]), text(&reply.body["call_id"]))
}

#[tokio::test]
async fn a_page_of_approvals_is_bounded_by_what_it_holds() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let large = json!({ "tool": "shell_exec", "args": { "command": format!("echo {}", "x".repeat(400_000)) } });
    for _ in 0..7 {
        assert_eq!(hub.post_as(&asker, "/api/agents/pc/call", large.clone()).await.status, 202);
    }
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = hub.request("GET", &format!("/api/approvals?limit=1000{after}"), Some(&asker), None).await.body;
        assert!(page.to_string().len() < 1_500_000);
        found.extend(page["approvals"].as_array().expect("a list").iter().map(|a| a["id"].to_string()));
        pages += 1;
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((found.len(), pages), (7, 3));
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 7, "each once");
}

#[tokio::test]
async fn an_approved_call_runs_once_and_its_outcome_is_the_askers() {
    let (hub, asker) = confirming(&[]).await;
    let mut agent = hub.agent("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    let listed = hub.get("/api/approvals").await.body;
    assert_eq!(listed["approvals"][0]["args"], json!({ "command": "uptime" }));
    assert_eq!(listed["approvals"][0]["caller"], "asker");
    let path = format!("/api/approvals/{approval}");
    let own = hub.post_as(&asker, &path, json!({ "approve": true })).await;
    assert_eq!(own.status, 403, "no token may approve unless it was given that right");
    let waiting = format!("/api/calls/{call}?wait_s=20");
    let answer = async {
        let decided = hub.post(&path, json!({ "approve": true, "reason": "go" })).await;
        assert_eq!((decided.status, &decided.body["state"]), (200, &json!("approved")), "{decided:?}");
        let request = agent.request().await;
        assert_eq!(request.id, call);
        agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    };
    let (done, ()) = tokio::join!(hub.request("GET", &waiting, Some(&asker), None), answer);
    assert_eq!((&done.body["state"], &done.body["result"]["stdout"]), (&json!("done"), &json!("up")));
    let again = hub.post(&path, json!({ "approve": true })).await;
    assert_eq!(again.status, 409, "single-use");
    let phases: Vec<_> = hub.journal("kind=call&agent=pc").await;
    assert_eq!(phases.len(), 2);
    assert!(phases.iter().all(|r| r["decision"] == "confirmed" && r["approval"] == json!(approval)));
}

#[tokio::test]
async fn who_asked_can_never_approve_even_with_the_right() {
    let (hub, _) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let both = hub.token("both", "operator", json!({ "approve": true })).await;
    let (approval, _) = ask(&hub, &both).await;
    let reply = hub.post_as(&both, &format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!((reply.status, reply.body["error"]["code"].as_str()), (403, Some("own_call")));
}

#[tokio::test]
async fn nothing_of_who_asked_can_approve() {
    let (hub, _) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let mint = async |token: &str, name: &str, role: &str, owner: Option<&str>| {
        let scopes = json!({ "approve": true });
        let mut body = json!({ "name": name, "role": role, "scopes": scopes });
        if let Some(owner) = owner {
            body["owner"] = json!(owner);
        }
        let reply = hub.post_as(token, "/api/tokens", body).await;
        reply.body["token"].as_str().map(str::to_owned).ok_or(reply)
    };
    let alex = mint(TOKEN, "alex", "admin", None).await.expect("a token");
    let claude = mint(TOKEN, "claude", "operator", Some("alex")).await.expect("a token");
    let laptop = mint(TOKEN, "laptop", "admin", Some("alex")).await.expect("a token");
    let (approval, _) = ask(&hub, &claude).await;
    let path = format!("/api/approvals/{approval}");
    for token in [&alex, &laptop] {
        let reply = hub.post_as(token, &path, json!({ "approve": true })).await;
        assert_eq!((reply.status, reply.body["error"]["code"].as_str()), (403, Some("own_call")));
    }
    // What belongs to Alex mints nobody else, who could then approve.
    let refused = mint(&laptop, "bob", "operator", Some("bob")).await.expect_err("refused");
    assert_eq!(refused.status, 403, "{refused:?}");
    let spare = mint(&laptop, "spare", "operator", None).await.expect("a token");
    let reply = hub.post_as(&spare, &path, json!({ "approve": true })).await;
    assert_eq!((reply.status, reply.body["error"]["code"].as_str()), (403, Some("own_call")));
    let listed = hub.get("/api/tokens").await.body;
    let spare = listed["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "spare").expect("listed");
    assert_eq!(spare["owner"], "alex");
    assert_eq!(hub.post(&path, json!({ "approve": true })).await.status, 200, "somebody else may");
}

#[tokio::test]
async fn a_denied_call_ends_as_rejected() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    let path = format!("/api/approvals/{approval}");
    assert_eq!(hub.post(&path, json!({ "approve": false })).await.status, 200);
    let done = hub.request("GET", &format!("/api/calls/{call}"), Some(&asker), None).await.body;
    assert_eq!((&done["state"], &done["outcome"]), (&json!("done"), &json!("rejected")));
}

#[tokio::test]
async fn nobodys_answer_is_a_no() {
    let (hub, asker) = confirming(&[("approvals.ttl_s", "1")]).await;
    let _agent = hub.agent("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    let done = hub.request("GET", &format!("/api/calls/{call}?wait_s=20"), Some(&asker), None).await.body;
    assert_eq!(done["outcome"], "expired");
    let late = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!(late.status, 409);
}

#[tokio::test]
async fn an_approved_call_is_authorised_and_guarded_again() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    let rule = json!({ "id": "op_uptime", "applies_to": "posix", "pattern": "uptime", "reason": "changed our mind" });
    assert_eq!(hub.post("/api/policy/rules", rule).await.status, 200);
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
    let done = hub.request("GET", &format!("/api/calls/{call}?wait_s=20"), Some(&asker), None).await.body;
    assert_eq!(done["outcome"], "blocked");

    let rule = "/api/policy/rules/op_uptime";
    assert_eq!(hub.request("DELETE", rule, Some(TOKEN), None).await.status, 200);
    let (approval, call) = ask(&hub, &asker).await;
    let tokens = hub.get("/api/tokens").await.body;
    let id = tokens["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "asker").expect("there")["id"]
        .clone();
    let path = format!("/api/tokens/{}", id.as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 409);
    let done = hub.get(&format!("/api/calls/{call}?wait_s=20")).await.body;
    assert_eq!(done["outcome"], "denied", "its token was revoked meanwhile");
}

#[tokio::test]
async fn what_waits_survives_a_restart() {
    let (mut hub, asker) = confirming(&[]).await;
    hub.enrol("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    hub.restart(&[]).await;
    let shown = hub.request("GET", &format!("/api/calls/{call}"), Some(&asker), None).await.body;
    assert_eq!((&shown["state"], &shown["approval"]["id"]), (&json!("waiting"), &json!(approval)));
    let mut agent = hub.connect("pc", key_of("pc")).await;
    let answer = async {
        assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
        let request = agent.request().await;
        assert_eq!(request.args, json!({ "command": "uptime" }), "the exact arguments were kept");
        agent.answer(&request.id, json!({})).await;
    };
    let path = format!("/api/calls/{call}?wait_s=20");
    let (done, ()) = tokio::join!(hub.request("GET", &path, Some(&asker), None), answer);
    assert_eq!(done.body["outcome"], "ok");
}

#[tokio::test]
async fn arguments_that_wait_are_sealed_on_disk() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let call = json!({ "tool": "shell_exec", "args": { "command": "login --password canary-in-args" } });
    let reply = hub.post_as(&asker, "/api/agents/pc/call", call).await;
    assert_eq!(reply.status, 202);
    let admin = hub.token("admin", "admin", json!({})).await;
    let shown = |token: &str| {
        let (hub, token) = (&hub, token.to_owned());
        async move {
            let listed = hub.request("GET", "/api/approvals", Some(&token), None).await.body;
            listed["approvals"][0]["args"]["command"].clone()
        }
    };
    assert_eq!(shown(&admin).await, "login --password [removed]", "for who cannot approve");
    assert_eq!(shown(&asker).await, "login --password canary-in-args", "for who asked");
    for entry in std::fs::read_dir(hub.data()).expect("reads") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("reads");
        let found = bytes.windows(14).any(|w| w == b"canary-in-args");
        assert!(!found, "a secret lies open in the data directory");
    }
}

#[tokio::test]
async fn who_approves_sees_what_runs_even_where_it_looks_like_a_secret() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let command = "uptime; token=\"$(useradd mallory)\" :";
    let call = json!({ "tool": "shell_exec", "args": { "command": command } });
    assert_eq!(hub.post_as(&asker, "/api/agents/pc/call", call).await.status, 202);
    let listed = hub.get("/api/approvals").await.body;
    assert_eq!(listed["approvals"][0]["args"]["command"], command);
}

#[tokio::test]
async fn scopes_narrow_what_may_be_approved() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let call = json!({ "tool": "shell_exec", "args": { "command": "echo password=hunter2" } });
    let asked = hub.post_as(&asker, "/api/agents/pc/call", call).await.body;
    let path = format!("/api/approvals/{}", asked["approval"]["id"].as_str().expect("an id"));
    for (n, narrow) in [json!({ "effects": ["observe"] }), json!({ "tools": ["net_*"] })].into_iter().enumerate() {
        let mut scopes = narrow;
        scopes["approve"] = json!(true);
        let token = hub.token(&format!("narrow-{n}"), "operator", scopes.clone()).await;
        let reply = hub.post_as(&token, &path, json!({ "approve": true })).await;
        assert_eq!(reply.status, 403, "{scopes}: {reply:?}");
        let seen = hub.request("GET", "/api/approvals", Some(&token), None).await.body;
        assert_eq!(
            seen["approvals"][0]["args"]["command"], "echo password=[removed]",
            "not theirs to decide: {scopes}"
        );
    }
    let fits = hub.token("fits", "viewer", json!({ "approve": true, "tools": ["shell_*"] })).await;
    assert_eq!(hub.post_as(&fits, &path, json!({ "approve": true })).await.status, 200);
}

#[tokio::test]
async fn a_call_that_waits_does_not_go_to_another_machine_of_the_same_name() {
    let (hub, asker) = confirming(&[]).await;
    let agent = hub.agent("pc").await;
    // Revoked, or removed: what waits ends at once, and cannot be approved any more.
    for (method, path, key) in [("POST", "/api/agents/pc/revoke", "second"), ("DELETE", "/api/agents/pc", "third")] {
        let (approval, call) = ask(&hub, &asker).await;
        assert_eq!(hub.request(method, path, Some(TOKEN), Some(json!({}))).await.status, 200);
        let path = format!("/api/calls/{call}");
        let ended = hub.request("GET", &path, Some(&asker), None).await.body;
        assert_eq!((&ended["state"], &ended["outcome"]), (&json!("done"), &json!("denied")), "{ended}");
        let late = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
        assert_eq!(late.status, 409, "{late:?}");
        let token = hub.post("/api/agents/pc/token", json!({})).await.body;
        assert_eq!(hub.enrol_with("pc", token["token"].as_str().expect("a token"), &key_of(key)).await.status, 200);
    }
    drop(agent);
    // Another key in its place: nothing ended, so what waits is refused when someone says yes.
    let mut old = hub.connect("pc", key_of("third")).await;
    let (approval, call) = ask(&hub, &asker).await;
    let token = hub.post("/api/agents/pc/rotate-key", json!({})).await.body;
    let token = token["token"].as_str().expect("a token");
    assert_eq!(hub.enrol_with("pc", token, &key_of("another")).await.status, 200);
    old.socket.closed().await;
    let _new = hub.connect("pc", key_of("another")).await;
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
    let path = format!("/api/calls/{call}?wait_s=20");
    let ended = hub.request("GET", &path, Some(&asker), None).await.body;
    assert_eq!((&ended["state"], &ended["outcome"]), (&json!("done"), &json!("denied")), "{ended}");
    let open = hub.get("/api/approvals?state=approved").await.body;
    assert_eq!(open["approvals"], json!([]), "what cannot run is not left as approved");
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_to_a_revoked_machine() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    assert_eq!(hub.post("/api/agents/pc/revoke", json!({})).await.status, 200);
    for extra in [json!({}), json!({ "idempotency_key": "once" })] {
        let mut call = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
        call.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        let told = hub.post_as(&asker, "/api/agents/pc/call", call).await;
        assert_eq!((told.status, &told.body["error"]["code"]), (200, &json!("offline")), "{told:?}");
        assert!(told.body["error"]["message"].as_str().expect("a sentence").contains("revoked"), "{told:?}");
    }
    assert_eq!(hub.get("/api/approvals").await.body["approvals"], json!([]));
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!(records.iter().filter(|r| r["outcome"] == "offline").count(), 2, "{records:?}");
}

#[tokio::test]
async fn another_caller_does_not_see_the_call() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let (_, call) = ask(&hub, &asker).await;
    let other = hub.token("other", "operator", json!({})).await;
    assert_eq!(hub.request("GET", &format!("/api/calls/{call}"), Some(&other), None).await.status, 404);
    let listed = hub.request("GET", "/api/approvals", Some(&other), None).await.body;
    assert_eq!(listed["approvals"], json!([]));
    let admin = hub.token("lab", "admin", json!({ "agents": ["lab-*"] })).await;
    let narrowed = hub.request("GET", &format!("/api/calls/{call}"), Some(&admin), None).await;
    assert_eq!(narrowed.status, 404, "an admin of other machines: {narrowed:?}");
    let refusals = hub.journal("kind=refusal").await;
    assert_eq!(refusals.iter().map(|r| &r["who"]).collect::<Vec<_>>(), [&json!("other"), &json!("lab")]);
}

#[tokio::test]
async fn one_token_leaves_others_room_to_wait() {
    let settings = [("approvals.max_waiting", "3"), ("approvals.max_waiting_per_token", "2")];
    let (hub, greedy) = confirming(&settings).await;
    let _agent = hub.agent("pc").await;
    let other = hub.token("other", "operator", json!({})).await;
    let mut told = Vec::new();
    for token in [&greedy, &greedy, &greedy, &other, &other] {
        let reply = hub.post_as(token, "/api/agents/pc/call", shell()).await;
        told.push((reply.status, reply.body["error"]["code"].as_str().unwrap_or_default().to_owned()));
    }
    let told: Vec<_> = told.iter().map(|(status, code)| (*status, code.as_str())).collect();
    assert_eq!(told, [(202, ""), (202, ""), (429, "limited"), (202, ""), (503, "busy")]);
}

#[tokio::test]
async fn who_asks_again_with_the_same_key_needs_no_more_room_to_wait() {
    let (hub, asker) = confirming(&[("approvals.max_waiting_per_token", "1")]).await;
    let _agent = hub.agent("pc").await;
    let mut told = Vec::new();
    for key in ["one", "one", "two"] {
        let mut body = shell();
        body["idempotency_key"] = key.into();
        let reply = hub.post_as(&asker, "/api/agents/pc/call", body).await;
        told.push((reply.status, reply.body["approval"]["id"].clone()));
    }
    assert_eq!((told[0].0, &told[1]), (202, &told[0]), "the call that waits");
    assert_eq!(told[2].0, 429, "another has no room");
}

#[tokio::test]
async fn who_asked_takes_back_what_waits_and_nothing_else() {
    let (hub, asker) = confirming(&[]).await;
    let mut agent = hub.agent("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    let path = format!("/api/calls/{call}");
    let other = hub.token("other", "operator", json!({})).await;
    assert_eq!(hub.request("DELETE", &path, Some(&other), None).await.status, 404, "it is not theirs to know of");
    let admin = hub.request("DELETE", &path, Some(TOKEN), None).await;
    assert_eq!(admin.status, 403, "who may approve says no instead: {admin:?}");
    let refusals = hub.journal("kind=refusal").await;
    assert_eq!(refusals.iter().map(|r| &r["who"]).collect::<Vec<_>>(), [&json!("other"), &json!("operator")]);
    let taken = hub.request("DELETE", &path, Some(&asker), None).await;
    assert_eq!((taken.status, &taken.body["outcome"]), (200, &json!("cancelled")), "{taken:?}");
    let approved = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!(approved.status, 409, "there is nothing to approve: {approved:?}");
    let again = hub.request("DELETE", &path, Some(&asker), None).await;
    assert_eq!((again.status, &again.body["error"]["code"]), (409, &json!("conflict")), "{again:?}");
    let record = &hub.journal("kind=approval&agent=pc").await[1];
    assert_eq!((&record["who"], &record["decision"]), (&json!("asker"), &json!("rejected")), "{record}");
    assert_eq!(hub.journal("kind=call&agent=pc").await[0]["outcome"], "cancelled");

    // One that went out is not called back.
    let (approval, call) = ask(&hub, &asker).await;
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
    let request = agent.request().await;
    assert_eq!(request.id, call, "the first one never went out");
    let late = hub.request("DELETE", &format!("/api/calls/{call}"), Some(&asker), None).await;
    assert_eq!(late.status, 409, "{late:?}");
    agent.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    let done = hub.request("GET", &format!("/api/calls/{call}?wait_s=20"), Some(&asker), None).await.body;
    assert_eq!(done["outcome"], "ok");
}

#[tokio::test]
async fn what_was_approved_before_a_stop_waits_for_its_machine() {
    let (mut hub, asker) = confirming(&[]).await;
    drop(hub.agent("pc").await);
    hub.until_online("pc", false).await;
    let (approval, call) = ask(&hub, &asker).await;
    // The yes is in the store, and then the hub is gone before the call went out.
    let id = approval.parse().expect("an id");
    let yes = |id| ApprovalMove {
        id,
        from: ApprovalState::Pending,
        to: ApprovalState::Approved,
        decided_by: None,
        record: Draft::new(Timestamp::from_millis(1), Kind::Approval),
    };
    assert!(hub.hub().store.move_approval(yes(id)).await.expect("moves"));
    hub.restart(&[]).await;
    // A stop while it waits takes nothing away.
    hub.restart(&[]).await;
    // Nor does a hub that is killed when the yes was used and nothing was sent.
    let used = ApprovalMove { from: ApprovalState::Approved, to: ApprovalState::Used, ..yes(id) };
    assert!(hub.hub().store.move_approval(used).await.expect("moves"));
    hub.hub().store.start_call(call.parse().expect("an id")).await.expect("starts");
    hub.restart(&[]).await;
    // Another one, which is taken back before its machine comes.
    let (second, other) = ask(&hub, &asker).await;
    let id = second.parse().expect("an id");
    assert!(hub.hub().store.move_approval(yes(id)).await.expect("moves"));
    hub.restart(&[]).await;
    let taken = hub.request("DELETE", &format!("/api/calls/{other}"), Some(&asker), None).await;
    assert_eq!((taken.status, &taken.body["outcome"]), (200, &json!("cancelled")), "{taken:?}");
    let path = format!("/api/calls/{call}?wait_s=20");
    let answer = async {
        let mut agent = hub.connect("pc", key_of("pc")).await;
        let request = agent.request().await;
        assert_eq!((&request.id, request.args), (&call, json!({ "command": "uptime" })));
        agent.answer(&request.id, json!({})).await;
    };
    let (done, ()) = tokio::join!(hub.request("GET", &path, Some(&asker), None), answer);
    assert_eq!(done.body["outcome"], "ok", "{done:?}");
}

fn clear(dir: &Path) {
    for entry in std::fs::read_dir(dir).expect("lists") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.expect("removes");
    }
}

/// Starts the hub anew from a backup of what it has now.
async fn restore(hub: &mut TestHub) {
    let elsewhere = tempfile::tempdir().expect("a directory");
    let (file, phrase) = (elsewhere.path().join("b"), SecretText::new("correct horse"));
    backup::create(hub.data(), &file, Some(&phrase), None).expect("copies");
    hub.stop().await;
    clear(hub.data());
    backup::restore(&file, hub.data(), Some(&phrase), None, backup::Accept::Proven).expect("restores");
    hub.restart(&[]).await;
}

#[tokio::test]
async fn what_waited_before_a_damage_of_the_log_ends_when_that_is_accepted() {
    let (mut hub, asker) = confirming(&[]).await;
    drop(hub.agent("pc").await);
    let (approval, call) = ask(&hub, &asker).await;
    // What a kill leaves, with a byte changed in the last commits but some.
    for _ in 0..30 {
        let record = Draft::new(Timestamp::from_millis(1), Kind::Hub);
        hub.hub().store.append(record).await.expect("appends");
    }
    let files = ["hub.db", "hub.db-wal", "data.key"].map(|name| (name, hub.data().join(name)));
    let mut left = files.map(|(name, path)| (name, std::fs::read(path).expect("reads")));
    let log = &mut left[1].1;
    let place = log.len() - 15 * (24 + 8192) + 500;
    log[place] ^= 1;
    hub.stop().await;
    clear(hub.data());
    for (name, bytes) in left {
        std::fs::write(hub.data().join(name), bytes).expect("writes");
    }
    hub.restart(&[("store.accept_damaged_log", "true")]).await;
    let _agent = hub.connect("pc", key_of("pc")).await;
    let yes = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!(yes.status, 409, "{yes:?}");
    let shown = hub.request("GET", &format!("/api/calls/{call}"), Some(&asker), None).await.body;
    assert_eq!((&shown["state"], &shown["outcome"]), (&json!("done"), &json!("interrupted")), "{shown}");
}

#[tokio::test]
async fn what_waited_in_a_backup_ends_when_it_is_restored() {
    let (mut hub, asker) = confirming(&[]).await;
    drop(hub.agent("pc").await);
    hub.until_online("pc", false).await;
    let (mut calls, mut approvals) = (Vec::new(), Vec::new());
    for states in [&[][..], &[ApprovalState::Approved], &[ApprovalState::Approved, ApprovalState::Used]] {
        let (approval, call) = ask(&hub, &asker).await;
        let mut from = ApprovalState::Pending;
        for &to in states {
            let record = Draft::new(Timestamp::from_millis(1), Kind::Approval);
            let id = approval.parse().expect("an id");
            let moved = ApprovalMove { id, from, to, decided_by: None, record };
            assert!(hub.hub().store.move_approval(moved).await.expect("moves"));
            from = to;
        }
        if from == ApprovalState::Used {
            hub.hub().store.start_call(call.parse().expect("an id")).await.expect("starts");
        }
        calls.push(call);
        approvals.push(approval);
    }
    restore(&mut hub).await;
    let agent = hub.connect("pc", key_of("pc")).await;
    for (call, approval) in calls.iter().zip(approvals) {
        let shown = hub.request("GET", &format!("/api/calls/{call}"), Some(&asker), None).await.body;
        assert_eq!((&shown["state"], &shown["outcome"]), (&json!("done"), &json!("interrupted")), "{shown}");
        let yes = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
        assert_eq!(yes.status, 409, "{yes:?}");
    }
    // Only this once: what waits from now on waits over a restart.
    let (later, call) = ask(&hub, &asker).await;
    hub.restart(&[]).await;
    drop(agent);
    let mut agent = hub.connect("pc", key_of("pc")).await;
    assert_eq!(hub.post(&format!("/api/approvals/{later}"), json!({ "approve": true })).await.status, 200);
    assert_eq!(agent.request().await.id, call, "nothing else was sent");
}

#[tokio::test]
async fn an_approval_whose_call_has_ended_keeps_no_hub_from_starting() {
    let (mut hub, asker) = confirming(&[]).await;
    drop(hub.agent("pc").await);
    let (mut calls, mut approvals) = (Vec::new(), Vec::new());
    for to in [None, Some(ApprovalState::Approved)] {
        let (approval, call) = ask(&hub, &asker).await;
        let record = || Draft::new(Timestamp::from_millis(1), Kind::Approval);
        if let Some(to) = to {
            let (id, from) = (approval.parse().expect("an id"), ApprovalState::Pending);
            let moved = ApprovalMove { id, from, to, decided_by: None, record: record() };
            assert!(hub.hub().store.move_approval(moved).await.expect("moves"));
        }
        let id = call.parse().expect("an id");
        hub.hub().store.finish_call(id, r#"{"outcome":"ok"}"#, record()).await.expect("ends");
        calls.push(call);
        approvals.push(approval);
    }
    restore(&mut hub).await;
    for (call, approval) in calls.iter().zip(approvals) {
        let shown = hub.request("GET", &format!("/api/calls/{call}"), Some(&asker), None).await.body;
        assert_eq!((&shown["state"], &shown["outcome"]), (&json!("done"), &json!("ok")), "{shown}");
        let yes = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
        assert_eq!(yes.status, 409, "{yes:?}");
    }
}

#[tokio::test]
async fn what_a_revoked_token_asked_for_waits_for_nobody_any_more() {
    let (hub, asker) = confirming(&[]).await;
    let _agent = hub.agent("pc").await;
    let (approval, call) = ask(&hub, &asker).await;
    let other = hub.token("other", "operator", json!({})).await;
    let (of_another, _) = ask(&hub, &other).await;
    let listed = hub.get("/api/tokens").await.body;
    let id = listed["tokens"].as_array().and_then(|list| list.iter().find(|t| t["name"] == "asker"));
    let path = format!("/api/tokens/{}", id.expect("there")["id"].as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    let yes = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!(yes.status, 409, "{yes:?}");
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!((&records[0]["call_id"], &records[0]["outcome"]), (&json!(call), &json!("denied")), "{records:?}");
    let yes = hub.post(&format!("/api/approvals/{of_another}"), json!({ "approve": true })).await;
    assert_eq!(yes.status, 200, "{yes:?}");
}

#[tokio::test]
async fn an_approved_look_is_recorded_before_it_is_sent() {
    let (hub, asker) = confirming(&[]).await;
    let rule = json!({ "id": "looks", "effects": ["observe"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let mut agent = hub.agent("pc").await;
    let asked = hub.post_as(&asker, "/api/agents/pc/call", json!({ "tool": "net_config" })).await.body;
    let approval = asked["approval"]["id"].as_str().expect("an id");
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
    let request = agent.request().await;
    let records = hub.journal("kind=call&agent=pc").await;
    assert_eq!((&records[0]["phase"], &records[0]["call_id"]), (&json!("intent"), &asked["call_id"]), "{records:?}");
    agent.answer(&request.id, json!({})).await;
}

#[tokio::test]
async fn an_approved_call_that_the_store_holds_up_runs_later_and_is_not_told_to_have_failed() {
    for stop in [false, true] {
        let (mut hub, asker) = confirming(&[]).await;
        let mut agent = hub.agent("pc").await;
        hub.refuse("approvals", "used");
        let approved = async || {
            let (approval, call) = ask(&hub, &asker).await;
            let yes = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
            assert_eq!(yes.status, 200, "{yes:?}");
            let path = format!("/api/calls/{call}");
            let shown = hub.request("GET", &format!("{path}?wait_s=0.5"), Some(&asker), None).await.body;
            assert_eq!(shown["state"], "running", "it may still go out: {shown}");
            (call, path)
        };
        let ((call, path), (back, back_path)) = (approved().await, approved().await);
        let taken = hub.request("DELETE", &back_path, Some(&asker), None).await;
        assert_eq!((taken.status, &taken.body["outcome"]), (200, &json!("cancelled")), "{taken:?}");
        if stop {
            hub.stop().await;
            hub.refuse_no_more();
            hub.restart(&[]).await;
            agent = hub.connect("pc", key_of("pc")).await;
        } else {
            hub.refuse_no_more();
        }
        let request = agent.request().await;
        assert_eq!(request.id, call);
        agent.answer(&request.id, json!({})).await;
        let done = hub.request("GET", &format!("{path}?wait_s=20"), Some(&asker), None).await.body;
        assert_eq!(done["outcome"], "ok", "{done}");
        let records = hub.journal("kind=call&agent=pc").await;
        let of = |id: &str| records.iter().filter(|r| r["call_id"] == id).map(|r| r["outcome"].clone()).collect();
        let (ran, taken_back): (Vec<_>, Vec<_>) = (of(&call), of(&back));
        assert_eq!((ran, taken_back), (vec![Value::Null, json!("ok")], vec![json!("cancelled")]));
    }
}

#[tokio::test]
async fn an_approved_call_that_finds_no_place_is_told_whose_limit_it_was() {
    let (hub, _) = confirming(&[]).await;
    let mut agent = hub.agent("pc").await;
    let asker = hub.token("busy", "operator", json!({ "concurrent_calls": 1 })).await;
    let look = || hub.post_as(&asker, "/api/agents/pc/call", json!({ "tool": "net_config" }));
    let approved = async || {
        let (approval, call) = ask(&hub, &asker).await;
        let path = format!("/api/approvals/{approval}");
        assert_eq!(hub.post(&path, json!({ "approve": true })).await.status, 200);
        let done = hub.request("GET", &format!("/api/calls/{call}?wait_s=20"), Some(&asker), None).await;
        done.body["error"].clone()
    };
    let (first, ()) = tokio::join!(look(), async {
        let request = agent.request().await;
        let (directly, error) = (look().await, approved().await);
        assert_eq!((directly.status, &error["code"]), (429, &json!("limited")), "{error}");
        assert_eq!(error["message"], directly.body["error"]["message"]);
        agent.answer(&request.id, json!({})).await;
    });
    assert_eq!(first.status, 200);
    let places: Vec<_> = std::iter::from_fn(|| hub.hub().calls.try_start()).collect();
    let (directly, error) = (look().await, approved().await);
    assert_eq!((directly.status, &error["code"]), (503, &json!("busy")), "{error}");
    assert_eq!(error["message"], directly.body["error"]["message"]);
    drop(places);
}
