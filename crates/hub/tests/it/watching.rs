//! What a page needs to watch a fleet: health over time, findings, what was decided before, and searching what happened.

use serde_json::{Value, json};

use crate::support::{TestAgent, TestHub};

async fn report(agent: &mut TestAgent, sections: Value) {
    let snapshot = json!({
        "type": "telemetry", "agent_id": "pc", "collected_at": "2026-06-04T18:00:00Z", "snapshot": sections,
    });
    agent.socket.send(snapshot.to_string()).await;
}

#[tokio::test]
async fn the_fleets_health_is_known_over_time_and_what_turned_worse_is_told() {
    let mut hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    let mut stream = hub
        .http_client
        .get(format!("{}/api/events?kinds=finding", hub.http))
        .bearer_auth(crate::support::TOKEN)
        .send()
        .await
        .expect("answers");
    let mut agent = hub.connect("pc", key).await;
    let before = convoke_gate::clock::now().millis() - 3_600_000;
    let before = convoke_core::time::Timestamp::from_millis(before);
    report(
        &mut agent,
        json!({ "disk": { "status": "crit", "summary": "full" }, "cpu": { "status": "ok", "summary": "" } }),
    )
    .await;
    let mut heard = String::new();
    while !heard.contains("event: finding") || !heard.ends_with("\n\n") {
        let chunk = stream.chunk().await.expect("goes on").expect("there is more");
        heard.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(heard.contains(r#""agent":"pc","source":"health","subject":"disk","status":"crit""#), "{heard}");
    let inbox = hub.until("/api/inbox", |inbox| inbox["findings"][0]["at"].is_string()).await;
    let since = inbox["findings"][0]["at"].clone();
    let history = hub.until("/api/fleet/history?days=2&bucket=hour", |h| h["buckets"][47]["crit"] == 1).await;
    assert_eq!(history["buckets"].as_array().map(Vec::len), Some(48));
    assert_eq!(history["buckets"][0], json!({ "at": history["buckets"][0]["at"], "ok": 0, "warn": 0, "crit": 0 }));
    let days = hub.get("/api/fleet/history").await.body;
    assert_eq!((days["buckets"].as_array().map(Vec::len), &days["buckets"][29]["crit"]), (Some(30), &json!(1)));
    assert_eq!(hub.get("/api/fleet/history?agent=pc&days=1").await.body["buckets"][0]["crit"], 1);
    assert_eq!(hub.get("/api/fleet/history?days=0").await.status, 400);
    let then = hub.get(&format!("/api/fleet/at?time={before}")).await.body;
    assert_eq!(then["agents"], json!([]), "it was not known yet");
    let now = hub.get(&format!("/api/fleet/at?time={}", convoke_gate::clock::now())).await.body;
    assert_eq!((&now["overall"], &now["agents"][0]["sections"]["disk"]), (&json!("crit"), &json!("crit")), "{now}");
    let elsewhere = hub.token("elsewhere", "viewer", json!({ "agents": ["lab-*"] })).await;
    for path in ["/api/fleet/history?days=1", &format!("/api/fleet/at?time={}", convoke_gate::clock::now())] {
        let seen = hub.request("GET", path, Some(&elsewhere), None).await.body.to_string();
        assert!(!seen.contains("\"crit\":1") && !seen.contains("pc"), "{path} {seen}");
    }
    // A chart has one section, thinned out.
    let chart = hub.get("/api/agents/pc/history?section=disk&hours=24").await.body;
    assert_eq!((&chart["step_s"], chart["samples"].as_array().map(Vec::len)), (&json!(300), Some(1)), "{chart}");
    assert_eq!(
        (&chart["samples"][0]["status"], &chart["samples"][0]["payload"]["summary"]),
        (&json!("crit"), &json!("full"))
    );
    assert_eq!(hub.get("/api/agents/pc/history?section=disk&hours=721").await.status, 400);
    assert_eq!(hub.get("/api/agents/pc/history").await.status, 400);
    let disk = hub.get("/api/agents/pc/snapshots?section=disk").await.body;
    assert_eq!(disk["snapshots"][0]["payload"]["summary"], "full");
    assert_eq!(hub.get("/api/agents/pc/snapshots").await.body["snapshots"][0]["payload"], json!(null));
    drop(agent);
    hub.restart(&[]).await;
    let again = hub.get("/api/inbox").await.body;
    assert_eq!(again["findings"][0]["at"], since, "it has been so since then, whoever started again meanwhile");
}

#[tokio::test]
async fn the_journal_is_searched_from_either_end_and_taken_along() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let call = async |path: &str| {
        let body = json!({ "tool": "fs_list", "args": { "path": path } });
        hub.post("/api/agents/pc/call", body).await.body["call_id"].as_str().expect("an id").to_owned()
    };
    let (first, second) = (call("/srv/One").await, call("/srv/two").await);
    let seqs = |page: &Value| -> Vec<u64> {
        page["records"].as_array().expect("a list").iter().filter_map(|r| r["seq"].as_u64()).collect()
    };
    let all = seqs(&hub.get("/api/journal").await.body);
    let mut down = all.clone();
    down.reverse();
    let newest = hub.get("/api/journal?before=1000000&limit=2").await.body;
    assert_eq!(seqs(&newest), down[..2]);
    let older = hub.get(&format!("/api/journal?before={}", newest["next"])).await.body;
    assert_eq!(seqs(&older), down[2..]);
    let story = hub.get(&format!("/api/journal?call={first}")).await.body;
    assert_eq!(story["records"][0]["args"]["path"], "/srv/One", "{story}");
    let found = hub.get("/api/journal?text=SRV/ONE").await.body;
    assert!(!seqs(&found).is_empty() && !found.to_string().contains(&second), "{found}");
    assert_eq!(seqs(&hub.get("/api/journal?who=operator&decision=allowed&kind=call").await.body).len(), 2);
    assert_eq!(hub.get("/api/journal?who=nobody").await.body, json!({ "records": [] }));
    let now = convoke_gate::clock::now();
    let later = now.after(std::time::Duration::from_secs(3600));
    assert_eq!(seqs(&hub.get(&format!("/api/journal?until={now}")).await.body), all);
    assert_eq!(seqs(&hub.get(&format!("/api/journal?since={later}")).await.body), [0; 0]);
    assert_eq!(hub.get("/api/journal?since=yesterday").await.status, 400);
    let lines = hub.get("/api/export/journal").await.body;
    let lines = lines.as_str().expect("lines").lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    assert_eq!(lines.filter_map(|r| r["seq"].as_u64()).collect::<Vec<_>>(), all);
    let table = hub.get("/api/export/agents").await.body;
    assert!(table.as_str().expect("a table").contains("\r\npc,"), "{table}");
}

#[tokio::test]
async fn an_approval_says_what_was_decided_before_and_what_is_other_this_time() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    let bert = hub.token("bert", "operator", json!({})).await;
    let anna = hub.token("anna", "admin", json!({ "approve": true })).await;
    assert_eq!(hub.post("/api/policy/confirm", json!({ "id": "all", "effects": ["manage"] })).await.status, 200);
    let ask = async |command: &str| {
        let body = json!({ "tool": "shell_exec", "args": { "command": command } });
        let asked = hub.post_as(&bert, "/api/agents/pc/call", body).await.body;
        (asked["approval"]["id"].as_str().expect("an id").to_owned(), asked["call_id"].clone())
    };
    let decide = async |id: &str, approve: bool| {
        let body = json!({ "approve": approve, "reason": "not on a Friday" });
        assert_eq!(hub.post_as(&anna, &format!("/api/approvals/{id}"), body).await.status, 200);
    };
    for (command, approve) in [("one", true), ("two", true), ("rm x", false)] {
        let (id, call) = ask(command).await;
        decide(&id, approve).await;
        let path = format!("/api/calls/{}?wait_s=30", call.as_str().expect("an id"));
        let end = hub.request("GET", &path, Some(&bert), None).await.body;
        if !approve {
            assert!(end.to_string().contains("anna said no: not on a Friday"), "{end}");
        }
    }
    let (id, _) = ask("three").await;
    let path = format!("/api/approvals/{id}");
    let shown = hub.request("GET", &path, Some(&anna), None).await.body;
    assert_eq!((&shown["approved"], &shown["denied"]), (&json!(2), &json!(1)), "{shown}");
    assert_eq!(shown["last"]["args"], json!({ "command": "two" }));
    assert_eq!(shown["args_kept"], json!({ "command": "three" }));
    assert_eq!((&shown["last"]["same_args"], &shown["last"]["outcome"]), (&json!(false), &json!("ok")));
    let same = format!("/api/approvals/{}", ask("two").await.0);
    assert_eq!(hub.request("GET", &same, Some(&anna), None).await.body["last"]["same_args"], true);
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    assert_eq!(hub.request("GET", &path, Some(&viewer), None).await.status, 404);
}

#[tokio::test]
async fn policy_is_tried_on_a_call_and_on_those_of_the_past() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await.echo();
    hub.token("claude", "operator", json!({ "doors": ["mcp"] })).await;
    let test = async |mut body: Value| {
        body["agent"] = "pc".into();
        let reply = hub.post("/api/policy/test", body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        (reply.body["verdict"].as_str().expect("a word").to_owned(), reply.body)
    };
    let shell = |command: &str| json!({ "tool": "shell_exec", "args": { "command": command } });
    assert_eq!(test(shell("uptime")).await.0, "allowed");
    let (verdict, body) = test(shell("rm -rf /")).await;
    assert_eq!((verdict.as_str(), body["rule"].is_string()), ("blocked", true), "{body}");
    let mut assistants = shell("uptime");
    assistants["caller"] = "claude".into();
    let (verdict, body) = test(assistants).await;
    assert_eq!((verdict.as_str(), &body["rule"]), ("confirm", &json!("mcp-needs-a-person")));
    let rule = json!({ "id": "no-reboot", "applies_to": "posix", "pattern": "\\breboot\\b", "reason": "ask first" });
    let mut with_rule = shell("reboot now");
    with_rule["deny"] = rule.clone();
    let (verdict, body) = test(with_rule).await;
    assert_eq!((verdict.as_str(), &body["rule"]), ("blocked", &json!("no-reboot")));
    assert_eq!(body["texts"][0]["text"], "reboot now");
    assert_eq!(test(shell("reboot now")).await.0, "allowed", "it was tried, and is not in force");

    for command in ["echo reboot", "uptime", "mysql --password=reboot"] {
        assert_eq!(hub.post("/api/agents/pc/call", shell(command)).await.status, 200);
    }
    let replay = hub.post("/api/policy/replay", json!({ "deny": rule })).await.body;
    assert_eq!(
        (&replay["matched"], &replay["judged"], &replay["incomplete"]),
        (&json!(1), &json!(3), &json!(1)),
        "{replay}"
    );
    assert_eq!(replay["calls"][0]["args"]["command"], "echo reboot");
    let confirm = json!({ "confirm": { "id": "manage", "effects": ["manage"], "callers": ["operator"] } });
    let replay = hub.post("/api/policy/replay", confirm).await.body;
    assert_eq!((&replay["matched"], &replay["not_judged"]), (&json!(3), &json!(0)), "{replay}");
    assert_eq!(hub.post("/api/policy/replay", json!({})).await.status, 400);
}
