//! The Sonde tunnel at our own hub: plain, and with certificates and signatures.

use std::path::Path;

use convoke_core::secret::SecretText;
use convoke_endpoint::RemoteControl;
use convoke_endpoint::policy::Policy;
use convoke_endpoint::sonde::{self, Enrolment, Running};
use convoke_endpoint::state::StateDir;
use convoke_endpoint::status::{Phase, Status};
use convoke_endpoint::switch::Switch;
use convoke_hub::Running as Hub;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::hub::{ask, start, until};
use crate::kenny::soon;

async fn token(hub: &Hub) -> SecretText {
    let minted = ask(hub, "POST", "/api/v1/enrollment-tokens", json!({})).await;
    SecretText::new(minted["token"].as_str().expect("a token"))
}

fn enrolment(url: &str, token: SecretText, ca: Option<&Path>) -> Enrolment {
    Enrolment { hub: url.into(), token, name: Some("web-1".into()), ca: ca.map(Into::into) }
}

const ALONE: Running = Running { allow_root: true, alone: true, service: false, machine: None };

/// Runs the tunnel until the future is done.
async fn while_running<T>(state: &StateDir, work: impl Future<Output = T>) -> T {
    while_running_with(&Policy::new(state), state, work).await
}

/// The same, with a policy that others may share.
pub async fn while_running_with<T>(policy: &Policy, state: &StateDir, work: impl Future<Output = T>) -> T {
    let stop = CancellationToken::new();
    let (state, policy, stopped) = (state.clone(), policy.clone(), stop.clone());
    let tunnel = tokio::spawn(async move { sonde::run(&state, &policy, ALONE, stopped).await });
    let done = work.await;
    stop.cancel();
    tunnel.await.expect("does not panic").expect("ends in order");
    done
}

#[track_caller]
fn status(state: &StateDir) -> Status {
    Status::read(state).expect("reads").expect("it told")
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
        let told = status(&state);
        assert_eq!((told.state, told.id.as_str(), told.problem), (Phase::Connected, "web-1", None));
        assert!(told.hub.starts_with("ws://") && told.pid == std::process::id());
    })
    .await;
    assert_eq!(status(&state).state, Phase::Stopped);
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
    let authority = convoke_hub::Wires::of(&hub.hub).sonde.ca(&*hub.hub.store).await.expect("a CA");
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

/// A hub that takes everyone in and then does nothing at all, as one that is stopped or cut off: it neither reads nor
/// answers, and its sockets stay open.
#[tokio::test]
async fn a_hub_that_froze_is_noticed_and_tried_again() {
    use futures_util::{SinkExt as _, StreamExt as _};
    use tokio_tungstenite::tungstenite::Message;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::new(dir.path().join("agent"));
    state.create().expect("a directory");
    let saved = json!({ "hub": format!("ws://{}/ws/agent", listener.local_addr().expect("bound")), "name": "web-1",
        "agent_id": "x", "api_key": "k", "heartbeat_s": 0.05 });
    std::fs::write(dir.path().join("agent/sonde.json"), saved.to_string()).expect("writes");
    while_running(&state, async {
        let mut frozen = Vec::new();
        for _ in 0..2 {
            let (io, _) = soon("a connection", listener.accept()).await.expect("accepts");
            let mut socket = tokio_tungstenite::accept_async(io).await.expect("upgrades");
            let register = soon("a registration", socket.next()).await.expect("a frame").expect("a message");
            assert!(register.to_text().is_ok_and(|t| t.contains("agent.register")));
            let ack = json!({ "id": "00000000-0000-4000-8000-000000000001", "type": "hub.ack", "signature": "",
                "timestamp": "2026-01-02T03:04:05Z", "payload": { "agentId": "x" } });
            socket.send(Message::text(ack.to_string())).await.expect("sends");
            frozen.push(socket);
        }
        // Before it came again it told why.
        assert!(status(&state).problem.is_none_or(|why| why.contains("pings")));
    })
    .await;
    let nobody = Running { alone: false, ..ALONE };
    std::fs::remove_file(dir.path().join("agent/status.json")).expect("it told");
    let stopped = CancellationToken::new();
    stopped.cancel();
    sonde::run(&state, &Policy::new(&state), nobody, stopped).await.expect("ends in order");
    assert!(Status::read(&state).expect("reads").is_none(), "beside a kenny tunnel, that one tells");
}

/// The hub says why and closes; what becomes of the second try, in the contract's own format, says nothing.
#[tokio::test]
async fn the_reason_of_a_rejected_enrolment_is_told() {
    use futures_util::{SinkExt as _, StreamExt as _};
    use tokio_tungstenite::tungstenite::Message;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::new(dir.path().join("agent"));
    let hub = async {
        for round in 0..2 {
            let (io, _) = soon("a connection", listener.accept()).await.expect("accepts");
            let mut socket = tokio_tungstenite::accept_async(io).await.expect("upgrades");
            soon("a registration", socket.next()).await.expect("a frame").expect("a message");
            if round == 0 {
                let reject = json!({ "id": "00000000-0000-4000-8000-000000000001", "type": "hub.reject",
                    "timestamp": "2026-01-02T03:04:05Z", "signature": "", "payload": { "reason": "the fleet is full" } });
                socket.send(Message::text(reject.to_string())).await.expect("sends");
            }
            let _ = socket.close(None).await;
        }
    };
    let enrolment = enrolment(&url, SecretText::new("cvn_x"), None);
    let (refused, ()) = tokio::join!(sonde::enrol(&state, &enrolment), hub);
    let why = refused.expect_err("rejected").to_string();
    assert!(why.contains("the fleet is full"), "{why}");
}

#[tokio::test]
async fn a_key_or_a_token_that_a_hub_does_not_take_is_told_as_that() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = listener.local_addr().expect("bound");
    let dir = tempfile::tempdir().expect("a directory");
    let state = StateDir::new(dir.path().join("agent"));
    // As a hub of the field answers a key that was revoked.
    let refuse = async || {
        let (mut io, _) = soon("a connection", listener.accept()).await.expect("accepts");
        let mut head = [0; 64];
        io.read_exact(&mut head).await.expect("a request");
        io.write_all(b"HTTP/1.1 401 Unauthorized\r\n\r\n").await.expect("answers");
    };
    let enrolment = enrolment(&format!("http://{address}"), SecretText::new("cvn_x"), None);
    let (refused, ()) = tokio::join!(sonde::enrol(&state, &enrolment), refuse());
    let why = refused.expect_err("refused").to_string();
    assert!(why.contains("token") && why.contains("401") && !why.contains("address"), "{why}");
    let saved =
        json!({ "hub": format!("ws://{address}/ws/agent"), "name": "web-1", "agent_id": "x", "api_key": "k" });
    std::fs::write(dir.path().join("agent/sonde.json"), saved.to_string()).expect("writes");
    while_running(&state, async {
        // The second connection comes after the first has been told.
        refuse().await;
        refuse().await;
        let why = status(&state).problem;
        assert!(why.as_ref().is_none_or(|why| why.contains("revoked") && !why.contains("address")), "{why:?}");
    })
    .await;
}

/// Enrolling anew on the same machine needs no token for the name: the key that it has proves whose it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_enrols_anew_with_any_token_and_another_with_its_name_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(&dir.path().join("hub"), &[]).await;
    let (state, thief) = (StateDir::new(dir.path().join("agent")), StateDir::new(dir.path().join("thief")));
    let first = sonde::enrol(&state, &enrolment(&hub.http, token(&hub).await, None)).await.expect("enrols");
    let again = sonde::enrol(&state, &enrolment(&hub.http, token(&hub).await, None)).await.expect("enrols anew");
    assert_eq!(first.agent_id, again.agent_id);
    assert_ne!(first.api_key, again.api_key);
    let refused = sonde::enrol(&thief, &enrolment(&hub.http, token(&hub).await, None)).await;
    assert!(refused.is_err_and(|why| why.to_string().contains("the name is taken")));
    assert!(!sonde::is_enrolled(&thief));
    hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_kill_switch_holds_for_probes_that_change_something() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(&dir.path().join("hub"), &[]).await;
    let state = StateDir::new(dir.path().join("agent"));
    sonde::enrol(&state, &enrolment(&hub.http, token(&hub).await, None)).await.expect("enrols");
    let file = state.path().join("sonde.json");
    let mut saved: Value = serde_json::from_slice(&std::fs::read(&file).expect("reads")).expect("JSON");
    saved["allowed"]["ceiling"] = json!("manage");
    std::fs::write(&file, saved.to_string()).expect("writes");
    let (program, ran) = (dir.path().join("change"), dir.path().join("ran"));
    std::fs::write(&program, format!("#!/bin/sh\necho x >> '{}'\necho '{{}}'\n", ran.display())).expect("writes");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).expect("sets");
    let probes = ["observe", "interact", "manage"].map(|capability| {
        json!({ "name": capability, "description": "d", "capability": capability, "params": {},
                "run": { "command": [program] } })
    });
    let pack = json!({ "name": "mine", "version": "1.0.0", "description": "d", "probes": probes });
    let packs = state.path().join("packs");
    std::fs::create_dir(&packs).expect("makes");
    std::fs::write(packs.join("mine.json"), pack.to_string()).expect("writes");
    let times = || std::fs::read_to_string(&ran).map_or(0, |text| text.lines().count());
    while_running(&state, async {
        until(&hub, "/api/v1/agents/web-1", |a| a["status"] == "online").await;
        assert_eq!(probe(&hub, "mine.manage", json!({})).await["status"], "success");
        Switch::new(state.switch_file()).set(RemoteControl::Disabled).expect("switches");
        for changing in ["mine.interact", "mine.manage"] {
            let refused = probe(&hub, changing, json!({})).await;
            assert_eq!(refused["status"], "unauthorized", "{refused}");
            assert!(refused["data"].to_string().contains("switched off"), "{refused}");
        }
        assert_eq!(times(), 1, "nothing ran");
        assert_eq!(probe(&hub, "mine.observe", json!({})).await["status"], "success", "only probes that observe");
        Switch::new(state.switch_file()).set(RemoteControl::Enabled).expect("switches");
        assert_eq!(probe(&hub, "mine.interact", json!({})).await["status"], "success");
        assert_eq!(times(), 3);
    })
    .await;
    hub.stop().await.expect("stops");
}
