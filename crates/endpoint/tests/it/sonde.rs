//! The Sonde tunnel at our own hub: plain, and with certificates and signatures.

use std::path::Path;

use convoke_core::secret::SecretText;
use convoke_endpoint::sonde::{self, Enrolment};
use convoke_endpoint::state::StateDir;
use convoke_hub::Running as Hub;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hub::{ask, start, until};

async fn token(hub: &Hub) -> SecretText {
    let minted = ask(hub, "POST", "/api/v1/enrollment-tokens", json!({})).await;
    SecretText::new(minted["token"].as_str().expect("a token"))
}

fn enrolment(url: &str, token: SecretText, ca: Option<&Path>) -> Enrolment {
    Enrolment { hub: url.into(), token, name: Some("web-1".into()), ca: ca.map(Into::into) }
}

/// Runs the tunnel until the future is done.
async fn while_running<T>(state: &StateDir, work: impl Future<Output = T>) -> T {
    let stop = CancellationToken::new();
    let (state, stopped) = (state.clone(), stop.clone());
    let tunnel = tokio::spawn(async move { sonde::run(&state, true, stopped).await });
    let done = work.await;
    stop.cancel();
    tunnel.await.expect("does not panic").expect("ends in order");
    done
}

async fn probe(hub: &Hub, probe: &str, params: Value) -> Value {
    ask(hub, "POST", "/api/v1/probe", json!({ "agent": "web-1", "probe": probe, "params": params })).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enrol_and_be_probed_with_signatures_over_the_plain_port() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(&dir.path().join("hub"), &[]).await;
    let state = StateDir::new(dir.path().join("agent"));
    let refused = sonde::enrol(&state, &enrolment(&hub.http, SecretText::new("wrong"), None)).await;
    assert!(refused.is_err() && !sonde::is_enrolled(&state));
    let saved = sonde::enrol(&state, &enrolment(&hub.http, token(&hub).await, None)).await.expect("enrols");
    assert!(saved.cert_pem.is_some() && saved.key_pem.is_some(), "a certificate for its own key");
    assert!(!format!("{saved:?}").contains("PRIVATE"), "nothing secret prints");
    while_running(&state, async {
        until(&hub, "/api/v1/agents/web-1", |a| a["status"] == "online").await;
        let disk = probe(&hub, "system.disk.usage", json!({})).await;
        assert_eq!(disk["status"], "success", "{disk}");
        assert!(disk["data"]["filesystems"].is_array() && disk["metadata"]["packVersion"] == "0.2.0");
        let outside = probe(&hub, "system.logs.tail", json!({"path": "/etc/hostname"})).await;
        assert_eq!(outside["status"], "unauthorized", "{outside}");
        let book = ask(&hub, "POST", "/api/v1/diagnose", json!({"agent": "web-1", "category": "system"})).await;
        assert_eq!(book["meta"]["probesSucceeded"], 3, "{book}");
    })
    .await;
    // The same after a restart: no false alarm.
    while_running(&state, async {
        let shown = until(&hub, "/api/v1/agents/web-1", |a| a["status"] != "offline").await;
        assert_eq!((&shown["status"], &shown["attestationMismatch"]), (&json!("online"), &json!(false)), "{shown}");
    })
    .await;
    hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enrol_and_come_back_by_certificate_over_mutual_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(&dir.path().join("hub"), &[("sonde.tls_listen", "127.0.0.1:0")]).await;
    let ca = dir.path().join("ca.pem");
    let authority = hub.hub.sonde.ca(&*hub.hub.store).await.expect("a CA");
    std::fs::write(&ca, &authority.cert_pem).expect("writes");
    let url = format!("https://localhost:{}", hub.sonde_tls.expect("listens").port());
    let state = StateDir::new(dir.path().join("agent"));
    sonde::enrol(&state, &enrolment(&url, token(&hub).await, Some(&ca))).await.expect("enrols");
    while_running(&state, async {
        until(&hub, "/api/v1/agents/web-1", |a| a["status"] == "online").await;
        let agents = ask(&hub, "GET", "/api/agents?protocol=sonde", Value::Null).await;
        assert_eq!(agents["agents"][0]["auth"], "certificate", "{agents}");
        let cpu = probe(&hub, "system.cpu.usage", json!({})).await;
        assert_eq!(cpu["status"], "success", "{cpu}");
    })
    .await;
    hub.stop().await.expect("stops");
}
