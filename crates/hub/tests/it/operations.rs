//! What operators of the hub itself look at, and TLS.

use serde_json::json;

use crate::support::{TOKEN, TestHub};

#[tokio::test]
async fn health_readiness_and_metrics() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    assert_eq!(hub.request("GET", "/healthz", None, None).await.body["status"], "ok");
    assert_eq!(hub.request("GET", "/readyz", None, None).await.body["status"], "ready");
    hub.enrol("gone").await;
    hub.post("/api/agents/gone/call", json!({ "tool": "fs_list", "args": {} })).await;
    let metrics = hub.get("/metrics").await.body;
    let metrics = metrics.as_str().expect("text");
    for line in [
        "convoke_links 1",
        "convoke_agents 2",
        "convoke_calls_total{outcome=\"offline\",effect=\"observe\"} 1",
        "convoke_handshakes_total 1",
        "convoke_call_seconds_bucket",
        "convoke_store_queue",
        "convoke_journal_seq",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn a_backup_is_made_and_handed_out_whole() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let ask = async |body: serde_json::Value| {
        let request = hub.http_client.post(format!("{}/api/backup", hub.http)).bearer_auth(TOKEN).json(&body);
        request.send().await.expect("answers")
    };
    assert_eq!(ask(json!({ "passphrase": "short" })).await.status(), 400);
    let reply = ask(json!({ "passphrase": "correct horse" })).await;
    assert_eq!(reply.status(), 200);
    let bytes = reply.bytes().await.expect("the file");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("b");
    std::fs::write(&file, &bytes).expect("writes");
    let (manifest, summary) = convoke_store::backup::verify(&file).expect("whole");
    assert!(manifest.has_key());
    manifest.check_passphrase(&convoke_core::secret::SecretText::new("correct horse")).expect("it opens");
    let records = hub.journal("kind=hub").await;
    let record = records.last().expect("a record");
    assert_eq!((&record["detail"]["what"], &record["who"]), (&json!("backup made"), &json!("operator")), "{record}");
    assert_eq!(record["detail"]["journal_seq"], json!(summary.last_seq));
    assert!(!hub.hub().data.join("backup.tmp").exists(), "nothing is left of it");
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    assert_eq!(hub.request("POST", "/api/backup", Some(&viewer), Some(json!({}))).await.status, 403);
}

#[tokio::test]
async fn metrics_come_in_the_format_that_is_asked_for() {
    let hub = TestHub::start().await;
    for (accept, kind, counter, ends) in [
        ("*/*", "text/plain; version=0.0.4", "convoke_handshakes_total", false),
        ("text/plain;version=0.0.4;q=0.5", "text/plain; version=0.0.4", "convoke_handshakes_total", false),
        (
            "application/openmetrics-text;version=1.0.0,*/*;q=0.1",
            "application/openmetrics-text",
            "convoke_handshakes",
            true,
        ),
    ] {
        let request =
            hub.http_client.get(format!("{}/metrics", hub.http)).bearer_auth(TOKEN).header("accept", accept);
        let reply = request.send().await.expect("answered");
        assert!(reply.headers()["content-type"].to_str().is_ok_and(|told| told.starts_with(kind)), "{accept}");
        let page = reply.text().await.expect("text");
        assert!(page.contains(&format!("\n# TYPE {counter} counter\n")), "{accept}: {page}");
        assert!(page.contains(&format!("\n# HELP {counter} ")), "{accept}: {page}");
        assert_eq!(page.ends_with("# EOF\n"), ends, "{accept}");
        // Every sample belongs to the family above it, which has a type.
        let mut family = "";
        for line in page.lines().filter(|line| *line != "# EOF") {
            match line.strip_prefix("# TYPE ") {
                Some(typed) => family = typed.split(' ').next().expect("a name"),
                None => assert!(line.starts_with('#') || line.starts_with(family), "{line} after {family}"),
            }
        }
    }
}

#[tokio::test]
async fn strangers_are_counted_not_listed() {
    let mut hub = TestHub::start().await;
    for _ in 0..20 {
        let mut socket = hub.socket().await;
        socket.send("{}").await;
        socket.closed().await;
    }
    hub.restart(&[]).await;
    let refusals = hub.journal("kind=refusal").await;
    assert_eq!(refusals.len(), 1, "one record for the address: {refusals:?}");
    assert_eq!(refusals[0]["detail"]["count"], 20);
}

#[tokio::test]
async fn the_journal_pages_and_filters() {
    let hub = TestHub::start().await;
    for id in ["a", "b", "c"] {
        hub.enrol(id).await;
    }
    let mut seqs = Vec::new();
    let mut after = 0;
    loop {
        let page = hub.get(&format!("/api/journal?limit=2&after={after}")).await.body;
        seqs.extend(page["records"].as_array().expect("list").iter().map(|r| r["seq"].as_u64().expect("a number")));
        match page["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>());
    assert_eq!(hub.journal("agent=b&kind=enrol").await.len(), 2);
    assert_eq!(hub.get("/api/journal?kind=nonsense").await.status, 400);
    assert_eq!(hub.get("/api/journal?limit=0").await.status, 400);
}

#[tokio::test]
async fn tls_is_served_in_process() {
    let issued =
        rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).expect("a certificate");
    let dir = tempfile::tempdir().expect("a folder");
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, issued.cert.pem()).expect("writes");
    std::fs::write(&key, issued.signing_key.serialize_pem()).expect("writes");
    let path = |p: &std::path::Path| p.to_str().expect("UTF-8").to_owned();
    let hub = TestHub::with(&[("tls.cert", &path(&cert)), ("tls.key", &path(&key))]).await;
    assert!(hub.http.starts_with("https://"));
    let trusted = reqwest::Certificate::from_pem(issued.cert.pem().as_bytes()).expect("a certificate");
    let client = reqwest::Client::builder().no_proxy().add_root_certificate(trusted).build().expect("a client");
    let reply = client.get(format!("{}/healthz", hub.http)).send().await.expect("answers");
    assert_eq!(reply.status(), 200);
}

#[tokio::test]
async fn a_filter_that_is_not_known_is_refused_rather_than_left_out() {
    let hub = TestHub::start().await;
    for path in [
        "/api/journal?call_id=x",
        "/api/logs?agnet=pc",
        "/api/agents?tags=x",
        "/api/approvals?stat=all",
        "/api/fleet?x=1",
        "/api/rooms?x=1",
    ] {
        let reply = hub.get(path).await;
        assert_eq!(reply.status, 400, "{path}: {reply:?}");
        assert!(reply.body["error"]["message"].as_str().is_some_and(|m| m.contains("unknown field")), "{reply:?}");
    }
}
