//! Telemetry, health and logs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{TestAgent, TestHub};

async fn push(agent: &mut TestAgent, snapshot: Value) {
    let frame = json!({ "type": "telemetry", "agent_id": agent.id, "collected_at": "2026-06-04T18:00:00Z", "snapshot": snapshot });
    agent.socket.send(frame.to_string()).await;
}

#[tokio::test]
async fn the_hubs_rules_decide_over_the_agents_own_status() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let volumes = json!([{ "mount": "/", "total_bytes": 100, "free_bytes": 9, "percent_used": 91 }]);
    let snapshot = json!({
        "disk": { "status": "crit", "summary": "/ 91% full", "volumes": volumes },
        "uptime": { "status": "warn", "summary": "40 days" },
        "brand_new": { "status": "ok", "summary": "fine", "x": [1, 2] },
    });
    push(&mut agent, snapshot.clone()).await;
    let fleet = hub.until("/api/fleet", |f| f["agents"][0]["overall"] != "unknown").await;
    assert_eq!(fleet["overall"], "warn");
    assert_eq!(fleet["agents"][0]["sections"], json!({ "disk": "warn", "uptime": "warn", "brand_new": "ok" }));
    let shown = hub.until("/api/agents/pc/snapshot", |s| s["snapshot"].is_object()).await;
    assert_eq!(shown["snapshot"], snapshot, "kept as it came, unknown sections too");
    assert_eq!(shown["health"]["disk"], json!({ "status": "warn", "summary": "/ 91% full", "ruled": true }));
    let one = hub.get("/api/agents/pc/snapshot?section=uptime").await.body;
    assert_eq!(one["snapshot"], json!({ "uptime": snapshot["uptime"] }));
    assert_eq!(hub.get("/api/agents/pc/snapshot?section=nope").await.status, 404);
    let health = hub.get("/api/agents/pc/health").await.body;
    assert_eq!(health["sections"]["uptime"]["status"], "warn");
    let history = hub.get("/api/agents/pc/snapshots").await.body;
    assert_eq!(history["snapshots"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn health_survives_a_restart() {
    let mut hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    push(&mut agent, json!({ "disk": { "status": "crit", "summary": "full" } })).await;
    let before = hub.until("/api/agents/pc/snapshot", |s| s["overall"] == "crit").await;
    hub.restart(&[]).await;
    assert_eq!(hub.get("/api/fleet").await.body["agents"][0]["overall"], "crit");
    assert_eq!(hub.get("/api/agents/pc/snapshot").await.body, before);
}

#[tokio::test]
async fn an_agent_can_only_speak_for_itself() {
    let hub = TestHub::start().await;
    let mut liar = hub.agent("liar").await;
    let _victim = hub.agent("victim").await;
    let forged = json!({ "type": "telemetry", "agent_id": "victim", "collected_at": "x",
        "snapshot": { "disk": { "status": "crit", "summary": "forged" } } });
    liar.socket.send(forged.to_string()).await;
    let log = json!({ "type": "log", "agent_id": "victim", "at": "2026-06-04T18:00:01Z", "level": "error", "target": "t", "message": "forged" });
    liar.socket.send(log.to_string()).await;
    let lines = |p: &Value| p["entries"].as_array().is_some_and(|e| e.len() == 2);
    let logs = hub.until("/api/logs?agent=liar", lines).await;
    assert_eq!(logs["entries"][0]["source"], "hub");
    assert_eq!(hub.get("/api/agents/victim/snapshot").await.status, 404);
    assert_eq!(hub.get("/api/logs?agent=victim").await.body["entries"], json!([]));
}

#[tokio::test]
async fn logs_are_kept_with_source_and_level_and_limited_per_agent() {
    let hub = TestHub::with(&[("kenny.log_lines_per_minute", "3")]).await;
    let mut agent = hub.agent("pc").await;
    let line = |level: &str, n: u32| {
        json!({ "type": "log", "agent_id": "pc", "at": "2026-06-04T18:00:01Z", "level": level,
            "target": "kenny_agent::tunnel", "message": format!("line {n}"), "fields": { "n": n } })
        .to_string()
    };
    for (level, n) in [("info", 1), ("error", 2), ("debug", 3)].into_iter().chain((4..9).map(|n| ("warn", n))) {
        agent.socket.send(line(level, n)).await;
    }
    let logs = hub.until("/api/logs?agent=pc", |p| p["entries"].as_array().is_some_and(|e| e.len() >= 3)).await;
    let entries = logs["entries"].as_array().expect("a list");
    // The minute may turn between two lines; then the hub says first what it dropped.
    let lines: Vec<_> = entries.iter().filter(|e| e["source"] == "agent").collect();
    assert!(lines.len() < 8, "{logs}");
    assert_eq!(lines[1]["fields"], json!({ "n": 2 }));
    let errors = hub.get("/api/logs?agent=pc&level=error").await.body;
    assert_eq!(errors["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(hub.get("/api/logs?level=loud").await.status, 400);
    drop(agent);
    hub.until("/api/logs?agent=pc", |p| {
        let said =
            |e: &serde_json::Value| e["message"].as_str().is_some_and(|m| m.ends_with("log lines in a minute"));
        p["entries"].as_array().is_some_and(|entries| entries.iter().any(said))
    })
    .await;
}

#[tokio::test]
async fn an_agent_cannot_fill_the_disk_with_snapshots() {
    let hub = TestHub::with(&[("kenny.snapshots_per_minute", "5")]).await;
    let snapshot = |n: usize| {
        let disk = json!({ "status": "ok", "summary": format!("{n}"), "volumes": [] });
        json!({ "type": "telemetry", "agent_id": "pc", "collected_at": "2026-06-04T18:00:00Z", "snapshot": { "disk": disk } })
            .to_string()
    };
    // Over two connections, and whether or not a minute ends meanwhile.
    let key = hub.enrol("pc").await;
    for _ in 0..2 {
        let mut agent = hub.connect("pc", key.clone()).await;
        for n in 0..20 {
            agent.socket.send(snapshot(n)).await;
        }
        agent.socket.send(json!({ "type": "ping" }).to_string()).await;
        while agent.frame().await["type"] != "pong" {}
    }
    let told = |page: &Value| {
        let entries = page["entries"].as_array().expect("a list");
        entries.iter().any(|e| e["message"].as_str().is_some_and(|m| m.contains("kenny.snapshots_per_minute")))
    };
    hub.until("/api/logs?agent=pc", told).await;
    // Of each connection the newest is kept, too, when it ends; what is not kept is counted.
    let mut kept = 0;
    for _ in 0..600 {
        let page = hub.get("/api/agents/pc/snapshots?limit=100").await.body;
        kept = page["snapshots"].as_array().expect("a list").len();
        let dropped = format!("convoke_drops_total{{what=\"snapshots\"}} {}\n", 40 - kept);
        if hub.get("/metrics").await.body.as_str().is_some_and(|metrics| metrics.contains(&dropped)) {
            break;
        }
    }
    let newest = hub.get("/api/agents/pc/snapshot").await.body;
    assert_eq!(newest["snapshot"]["disk"]["summary"], "19");
    assert!((7..=12).contains(&kept), "{kept}");
    // Many of them came in one moment; page by page they are as many.
    let (mut seen, mut next) = (0, String::new());
    loop {
        let page = hub.get(&format!("/api/agents/pc/snapshots?limit=1{next}")).await.body;
        seen += page["snapshots"].as_array().expect("a list").len();
        let Some(before) = page["next"].as_str() else { break };
        next = format!("&before={before}");
    }
    assert_eq!(seen, kept);
    let odd = hub.get("/api/agents/pc/snapshots?before=2026-06-04T18:00:00Z~x").await;
    assert_eq!(odd.status, 400, "{odd:?}");
    let metrics = hub.get("/metrics").await.body;
    let dropped = format!(r#"convoke_drops_total{{what="snapshots"}} {}"#, 40 - kept);
    assert!(metrics.as_str().is_some_and(|m| m.contains(&dropped)), "{dropped}: {metrics}");
}

#[tokio::test]
async fn a_snapshot_that_is_too_large_is_dropped_and_told() {
    let hub = TestHub::with(&[("kenny.max_telemetry_bytes", "20000")]).await;
    let mut agent = hub.agent("pc").await;
    let snapshot = |text: String| {
        let disk = json!({ "status": "ok", "summary": text, "volumes": [] });
        json!({ "type": "telemetry", "agent_id": "pc", "collected_at": "2026-06-04T18:00:00Z", "snapshot": { "disk": disk } })
            .to_string()
    };
    agent.socket.send(snapshot("x".repeat(30_000))).await;
    agent.socket.send(snapshot("small".into())).await;
    let kept = hub.until("/api/agents/pc/snapshot", |s| s["agent_id"] == "pc").await;
    assert_eq!(kept["snapshot"]["disk"]["summary"], "small", "the tunnel lives");
    let told = hub.until("/api/logs?agent=pc", |p| p["entries"].as_array().is_some_and(|e| !e.is_empty())).await;
    assert!(
        told["entries"][0]["message"].as_str().is_some_and(|m| m.contains("kenny.max_telemetry_bytes")),
        "{told}"
    );
    let metrics = hub.get("/metrics").await.body;
    assert!(metrics.as_str().is_some_and(|m| m.contains(r#"convoke_drops_total{what="snapshots"} 1"#)), "{metrics}");
}

#[tokio::test]
async fn of_a_section_that_comes_twice_the_last_counts_everywhere() {
    let mut hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let section = |status: &str| format!(r#""own":{{"status":"{status}","summary":"x"}}"#);
    let frame = format!(
        r#"{{"type":"telemetry","agent_id":"pc","collected_at":"2026-06-04T18:00:00Z","snapshot":{{{},{}}}}}"#,
        section("crit"),
        section("ok")
    );
    agent.socket.send(frame).await;
    let health = hub.until("/api/agents/pc/health", |health| health["overall"].is_string()).await;
    assert_eq!(health["overall"], "ok", "{health}");
    for _ in 0..2 {
        let fleet = hub.get("/api/fleet").await.body;
        assert_eq!((&fleet["agents"][0]["overall"], &fleet["overall"]), (&json!("ok"), &json!("ok")), "{fleet}");
        hub.restart(&[]).await;
    }
}

#[tokio::test]
async fn a_log_frame_that_is_too_large_is_dropped_and_told_and_of_a_large_one_the_fields_are_left_out() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    for (message, size) in [("far too large", 300_000), ("too large", 20_000), ("fits", 1000)] {
        let log = json!({ "type": "log", "agent_id": "pc", "at": "2026-06-04T18:00:01Z", "level": "info",
            "target": "t", "message": message, "fields": { "x": "x".repeat(size) } });
        agent.socket.send(log.to_string()).await;
    }
    let logs = hub.until("/api/logs?agent=pc", |p| p["entries"].as_array().is_some_and(|e| e.len() >= 3)).await;
    let line = |text: &str| {
        let entries = logs["entries"].as_array().expect("a list").iter();
        let found: Vec<_> =
            entries.filter(|entry| entry["message"].as_str().is_some_and(|m| m.contains(text))).collect();
        assert_eq!(found.len(), 1, "{text}: {logs}");
        found[0].clone()
    };
    assert_eq!(line("log frame of")["source"], "hub");
    assert!(line("log frame of")["message"].as_str().is_some_and(|m| m.contains("kenny.max_telemetry_bytes")));
    assert!(line("too large")["fields"]["left_out"].as_str().is_some_and(|why| why.contains("16384")), "{logs}");
    assert_eq!(line("fits")["fields"]["x"].as_str().map(str::len), Some(1000));
}

#[tokio::test]
async fn an_agent_was_last_seen_when_its_last_frame_came() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    // The clock may not have moved on since it connected, but a heartbeat is far off.
    let seen = async {
        loop {
            agent.socket.send(r#"{"type":"pong"}"#).await;
            let seen = hub.get("/api/agents/pc").await.body;
            if seen["last_seen"].as_str() > seen["connected_at"].as_str() {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), seen).await.expect("long before a heartbeat is due");
}
