//! Sonde agents at the hub: enrolment, names, probes, heartbeats, attestation, on the plain port.

use convoke_core::time::Timestamp;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{self, Message};

use crate::support::{Bare, PATIENCE, TOKEN, TestHub};

pub const AT: &str = "2026-01-02T03:04:05.678Z";

pub fn envelope(kind: &str, agent: Option<&str>, payload: &Value) -> Value {
    let mut frame = json!({
        "id": "00000000-0000-4000-8000-000000000001", "type": kind, "timestamp": AT, "signature": "", "payload": payload,
    });
    if let Some(agent) = agent {
        frame["agentId"] = agent.into();
    }
    frame
}

pub fn field_register(name: &str) -> Value {
    json!({
        "name": name, "os": "linux x64", "agentVersion": "0.2.11",
        "packs": [{"name": "system", "version": "0.2.0", "status": "active"}],
        "attestation": {"osVersion": "linux 6.1 x64", "binaryHash": "aa", "installedPacks": [], "configHash": "cc", "nodeVersion": "v22"},
    })
}

pub fn contract_register(name: &str) -> Value {
    json!({
        "name": name, "hostname": "h", "os": "linux", "osVersion": "Debian 12", "arch": "x64", "version": "0.1.0",
        "packs": ["system"], "capabilities": ["system.disk.usage"],
        "attestation": {"binaryHash": "aa", "configHash": "cc", "osFingerprint": "x"},
    })
}

/// A socket at Sonde's door, with this bearer.
pub async fn knock(hub: &TestHub, bearer: Option<&str>, query: &str) -> Result<Bare, u16> {
    let url = format!("{}/ws/agent{query}", hub.http.replace("http://", "ws://"));
    let mut request = url.into_client_request().expect("a request");
    if let Some(bearer) = bearer {
        let value = format!("Bearer {bearer}").parse().expect("a header");
        request.headers_mut().insert("authorization", value);
    }
    match tokio_tungstenite::connect_async(request).await {
        Ok((socket, _)) => Ok(Bare(socket)),
        Err(tungstenite::Error::Http(response)) => Err(response.status().as_u16()),
        Err(why) => panic!("{why}"),
    }
}

pub async fn token(hub: &TestHub) -> String {
    let reply = hub.post("/api/v1/enrollment-tokens", json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["token"].as_str().expect("a token").to_owned()
}

/// A token that gives this name, taken or not, to whoever has it.
pub async fn token_for(hub: &TestHub, name: &str) -> String {
    let reply = hub.post("/api/v1/enrollment-tokens", json!({ "name": name })).await;
    reply.body["token"].as_str().expect("a token").to_owned()
}

async fn next(socket: &mut Bare) -> Value {
    serde_json::from_str(&socket.next().await.expect("a message")).expect("JSON")
}

pub struct Joined {
    pub socket: Bare,
    pub id: String,
    pub ack: Value,
}

impl Joined {
    pub async fn send(&mut self, kind: &str, payload: Value) {
        let frame = envelope(kind, Some(&self.id), &payload);
        self.socket.send(frame.to_string()).await;
    }

    pub async fn request(&mut self) -> Value {
        let frame = next(&mut self.socket).await;
        assert_eq!(frame["type"], "probe.request", "{frame}");
        assert_eq!(frame["id"], frame["payload"]["requestId"]);
        frame
    }

    pub async fn answer(&mut self, request: &Value, data: Value) {
        let payload = response(request, data);
        self.send("probe.response", payload).await;
    }
}

pub fn response(request: &Value, data: Value) -> Value {
    json!({
        "probe": request["payload"]["probe"], "status": "success", "data": data, "durationMs": 3,
        "requestId": request["payload"]["requestId"],
        "metadata": {"agentVersion": "0.2.11", "packName": "system", "packVersion": "0.2.0", "capabilityLevel": "observe"},
    })
}

pub async fn join(hub: &TestHub, bearer: &str, register: &Value) -> Joined {
    let mut socket = knock(hub, Some(bearer), "").await.expect("upgrades");
    socket.send(envelope("agent.register", None, register).to_string()).await;
    let ack = next(&mut socket).await;
    assert_eq!(ack["type"], "hub.ack", "{ack}");
    let id = ack["payload"]["agentId"].as_str().unwrap_or_else(|| panic!("{ack}")).to_owned();
    Joined { socket, id, ack }
}

pub async fn enrolled(hub: &TestHub, name: &str) -> Joined {
    join(hub, &token(hub).await, &field_register(name)).await
}

pub fn key(joined: &Joined) -> String {
    joined.ack["payload"]["apiKey"].as_str().expect("a key").to_owned()
}

/// What a peer is told that may not register.
pub async fn refused(hub: &TestHub, bearer: &str, register: &Value) -> Value {
    let mut socket = knock(hub, Some(bearer), "").await.expect("upgrades");
    socket.send(envelope("agent.register", None, register).to_string()).await;
    let frame = next(&mut socket).await;
    let end = loop {
        match socket.next().await {
            Ok(_) => {}
            Err(code) => break code,
        }
    };
    assert_eq!(end, Some(4001));
    frame
}

pub async fn probe(hub: &TestHub, agent: &str, probe: &str, params: Value) -> crate::support::Reply {
    hub.post("/api/v1/probe", json!({ "agent": agent, "probe": probe, "params": params })).await
}

#[tokio::test]
async fn agents_of_both_shapes_enrol_and_are_probed() {
    for register in [field_register("web-1"), contract_register("web-1")] {
        let hub = TestHub::start().await;
        let mut agent = join(&hub, &token(&hub).await, &register).await;
        assert!(agent.ack["payload"]["apiKey"].is_string(), "{}", agent.ack);
        let asked = probe(&hub, "web-1", "system.disk.usage", json!({}));
        let served = async {
            let request = agent.request().await;
            let payload = &request["payload"];
            assert_eq!(
                (&payload["probe"], &payload["timeout"], &payload["requestedBy"]),
                (&json!("system.disk.usage"), &json!(30000), &json!("api"))
            );
            assert!(payload.get("params").is_none(), "{payload}");
            agent.answer(&request, json!({"filesystems": []})).await;
            request
        };
        let (reply, request) = tokio::join!(asked, served);
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.body["status"], "success");
        assert_eq!(reply.body["data"], json!({"filesystems": []}));
        assert_eq!(reply.body["requestId"], request["payload"]["requestId"]);
        assert_eq!(reply.body["metadata"]["packName"], "system");
        let agents = hub.get("/api/v1/agents").await.body;
        assert_eq!(
            (&agents["agents"][0]["name"], &agents["agents"][0]["status"]),
            (&json!("web-1"), &json!("online"))
        );
        let records = hub.journal("kind=call").await;
        assert_eq!(records.len(), 1);
        assert_eq!((&records[0]["tool"], &records[0]["outcome"]), (&json!("system.disk.usage"), &json!("ok")));
    }
}

#[tokio::test]
async fn nobody_gets_a_socket_without_a_credential() {
    let hub = TestHub::start().await;
    assert_eq!(knock(&hub, None, "").await.err(), Some(401));
    assert_eq!(knock(&hub, Some("nonsense"), "").await.err(), Some(401));
    assert_eq!(knock(&hub, Some(TOKEN), "").await.err(), Some(401), "an operator is no agent");
    let agent = enrolled(&hub, "web-1").await;
    let key = key(&agent);
    drop(knock(&hub, None, &format!("?apiKey={key}")).await.expect("the field's query form"));
    assert_eq!(
        hub.request("GET", "/api/agents", Some(&key), None).await.status,
        401,
        "a key is good for nothing else"
    );
    assert_eq!(hub.request("POST", "/api/v1/probe", Some(&key), Some(json!({}))).await.status, 401);
}

#[tokio::test]
async fn a_token_is_used_once_and_ids_are_stable_by_name() {
    let hub = TestHub::start().await;
    let first = token(&hub).await;
    let agent = join(&hub, &first, &field_register("web-1")).await;
    assert_eq!(knock(&hub, Some(&first), "").await.err(), Some(401), "a used token opens nothing");
    let mut in_payload = field_register("web-2");
    in_payload["enrollmentToken"] = first.as_str().into();
    let told = refused(&hub, &key(&agent), &in_payload).await;
    assert_eq!(told["type"], "hub.ack");
    assert_eq!(told["payload"], json!({"error": "Enrollment token rejected: Token already used"}));
    assert!(told.get("agentId").is_none());
    in_payload["enrollmentToken"] = "made-up".into();
    let told = refused(&hub, &key(&agent), &in_payload).await;
    assert_eq!(told["payload"]["error"], "Enrollment token rejected: Unknown token");

    let again = join(&hub, &token_for(&hub, "web-1").await, &field_register("web-1")).await;
    assert_eq!(again.id, agent.id, "the same name keeps its id");
    assert_eq!(knock(&hub, Some(&key(&agent)), "").await.err(), Some(401), "the older key is no longer valid");
    let back = join(&hub, &key(&again), &field_register("web-1")).await;
    assert_eq!(back.id, agent.id);
    assert!(back.ack["payload"].get("apiKey").is_none(), "a key is given on enrolment only");
}

#[tokio::test]
async fn a_lapsed_token_is_refused() {
    let hub = TestHub::with(&[("sonde.enrol_token_ttl_s", "10")]).await;
    let reply = hub.post("/api/v1/enrollment-tokens", json!({})).await;
    let expires = reply.body["expiresAt"].as_str().expect("a time");
    assert!(expires.ends_with('Z'), "{expires}");
    let named = hub.post("/api/v1/enrollment-tokens", json!({"name": "db-1"})).await;
    let told = refused(&hub, named.body["token"].as_str().expect("a token"), &contract_register("web-1")).await;
    assert_eq!(
        (&told["type"], &told["payload"]["reason"]),
        (&json!("hub.reject"), &json!("Enrollment token rejected: Token is for another name"))
    );
    let listed = hub.get("/api/v1/enrollment-tokens").await.body;
    assert_eq!(listed["tokens"].as_array().map(Vec::len), Some(2));
    assert!(!listed.to_string().contains("cvn_"), "the tokens themselves are not shown");
}

#[tokio::test]
async fn a_narrowed_admin_lets_in_only_whom_it_reaches() {
    let hub = TestHub::start().await;
    let (web, db) = (enrolled(&hub, "web-1").await, enrolled(&hub, "db-1").await);
    let admin = hub.token("web-admin", "admin", json!({ "agents": [format!("sonde:{}", web.id)] })).await;
    let mint = async |body: Value| hub.post_as(&admin, "/api/v1/enrollment-tokens", body).await.status;
    assert_eq!(mint(json!({ "name": "db-1" })).await, 403, "it would take the place of {}", db.id);
    assert_eq!(mint(json!({ "name": "new" })).await, 403);
    assert_eq!(mint(json!({})).await, 403);
    assert_eq!(hub.journal("kind=refusal").await.len(), 3);
    assert_eq!(mint(json!({ "name": "web-1" })).await, 200);
    token_for(&hub, "secret-machine").await;
    let listed = hub.request("GET", "/api/v1/enrollment-tokens", Some(&admin), None).await.body;
    let names: Vec<_> = listed["tokens"].as_array().expect("a list").iter().map(|t| &t["name"]).collect();
    assert!(names.contains(&&json!("web-1")) && !listed.to_string().contains("secret-machine"), "{listed}");
    assert!(!listed.to_string().contains(&db.id), "{listed}");
}

#[tokio::test]
async fn a_key_takes_no_other_name() {
    let hub = TestHub::start().await;
    let a = enrolled(&hub, "a").await;
    let mut b = enrolled(&hub, "b").await;
    for name in ["b", "new-name"] {
        let told = refused(&hub, &key(&a), &field_register(name)).await;
        assert!(told["payload"]["error"].as_str().is_some_and(|e| e.contains("this key is a's")), "{told}");
        let told = refused(&hub, &key(&a), &contract_register(name)).await;
        assert_eq!(told["type"], "hub.reject", "{told}");
    }
    let (reply, ()) = tokio::join!(probe(&hub, "b", "system.cpu.usage", json!({})), async {
        let request = b.request().await;
        b.answer(&request, json!({"cpuCount": 1})).await;
    });
    assert_eq!(reply.body["status"], "success", "the holder of the name was not disturbed");
    assert_eq!(hub.journal("kind=refusal").await.len(), 4);
}

#[tokio::test]
async fn a_token_for_nobody_in_particular_takes_no_name_that_is_taken() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "web-1").await;
    let stray = token(&hub).await;
    for register in [field_register("web-1"), contract_register("web-1")] {
        let told = refused(&hub, &stray, &register).await;
        assert!(told["payload"].to_string().contains("the name is taken"), "{told}");
    }
    // Whoever has a valid token is no stranger: what they tried is on record.
    let two = |body: &Value| body["records"].as_array().is_some_and(|r| r.len() == 2);
    let records = hub.until("/api/journal?kind=refusal", two).await["records"].clone();
    assert!(records[0]["who"].as_str().is_some_and(|w| w.starts_with("enrolment token ")), "{records:?}");
    assert_eq!(records[0]["target"], format!("sonde:{}", agent.id), "whose name it was");
    assert!(!records[0].to_string().contains(&stray), "never the token itself");
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = agent.request().await;
        agent.answer(&request, json!({ "cpuCount": 1 })).await;
    });
    assert_eq!(reply.body["status"], "success", "whoever has the name was not disturbed");
    // Nor does another agent's key beside the token help; the agent's own does.
    let other = join(&hub, &stray, &field_register("web-2")).await;
    let mut with_token = field_register("web-1");
    with_token["enrollmentToken"] = token(&hub).await.into();
    let told = refused(&hub, &key(&other), &with_token).await;
    assert!(told["payload"]["error"].as_str().is_some_and(|e| e.contains("the name is taken")), "{told}");
    let anew = join(&hub, &key(&agent), &with_token).await;
    assert_eq!(anew.id, agent.id);
    assert!(anew.ack["payload"]["apiKey"].is_string(), "{}", anew.ack);
    // A revoked agent's name is not free either; a removed one's is.
    let path = format!("/api/agents/sonde:{}", agent.id);
    assert_eq!(hub.post(&format!("{path}/revoke"), json!({})).await.status, 200);
    let told = refused(&hub, &token(&hub).await, &field_register("web-1")).await;
    assert!(told["payload"]["error"].as_str().is_some_and(|e| e.contains("the name is taken")), "{told}");
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    let fresh = join(&hub, &token(&hub).await, &field_register("web-1")).await;
    assert_ne!(fresh.id, agent.id);
}

#[tokio::test]
async fn what_one_token_leaves_on_record_is_bounded() {
    let hub = TestHub::start().await;
    let _agent = enrolled(&hub, "web-1").await;
    let (stray, other) = (token(&hub).await, token(&hub).await);
    for _ in 0..25 {
        refused(&hub, &stray, &field_register("web-1")).await;
    }
    refused(&hub, &other, &field_register("web-1")).await;
    // Records keep their order: when the other token's is there, all of the first one's are.
    let whose = |body: &Value| -> Vec<Value> {
        body["records"].as_array().into_iter().flatten().map(|r| r["who"].clone()).collect()
    };
    let both = |body: &Value| whose(body).windows(2).any(|pair| pair[0] != pair[1]);
    let body = hub.until("/api/journal?limit=1000&kind=refusal", both).await;
    assert_eq!(whose(&body).len(), 21, "twenty of the first token, one of another, which has its own bound");
}

/// What the field's agent sends in answer to a request, byte for byte but for the ids: whole milliseconds stay whole.
#[tokio::test]
async fn a_response_of_the_field_comes_back_as_it_was() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "web-1").await;
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = agent.request().await;
        let id = &request["payload"]["requestId"];
        let payload = format!(
            r#"{{"probe":"system.cpu.usage","status":"success","data":{{"loadAvg1":4.67,"loadAvg5":8.19,"loadAvg15":7.34,"cpuCount":2}},"durationMs":13,"metadata":{{"agentVersion":"0.2.11","packName":"system","packVersion":"0.2.0","capabilityLevel":"observe"}},"requestId":{id}}}"#
        );
        let frame = format!(
            r#"{{"id":"3f2b7f6e-52cf-4a4e-9a3e-1c9d0a6f3b11","type":"probe.response","timestamp":"{AT}","agentId":"{}","signature":"","payload":{payload}}}"#,
            agent.id
        );
        agent.socket.send(frame).await;
    });
    assert_eq!(reply.body["durationMs"].as_u64(), Some(13), "{reply:?}");
    assert_eq!(reply.body["data"], json!({ "loadAvg1": 4.67, "loadAvg5": 8.19, "loadAvg15": 7.34, "cpuCount": 2 }));
}

#[tokio::test]
async fn errors_of_both_shapes_reach_the_caller_with_their_words() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "web-1").await;
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = agent.request().await;
        let payload = json!({"probe": "system.cpu.usage", "error": "no such thing", "code": "PROBE_NOT_FOUND", "requestId": request["payload"]["requestId"]});
        agent.send("probe.error", payload).await;
    });
    assert_eq!(
        (reply.status, &reply.body["status"], &reply.body["data"]["error"]),
        (200, &json!("error"), &json!("no such thing"))
    );
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = agent.request().await;
        let mut payload = response(&request, json!({"error": "took too long"}));
        payload["status"] = "timeout".into();
        agent.send("probe.error", payload).await;
    });
    assert_eq!((&reply.body["status"], &reply.body["data"]["error"]), (&json!("timeout"), &json!("took too long")));
    assert_eq!(reply.body["metadata"]["packName"], "system");
}

#[tokio::test]
async fn a_stale_or_foreign_answer_reaches_nobody() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut a = enrolled(&hub, "a").await;
    let mut b = enrolled(&hub, "b").await;
    let ask = hub.post("/api/v1/probe", json!({"agent": "a", "probe": "system.cpu.usage", "timeout": 50}));
    let (reply, stale) = tokio::join!(ask, a.request());
    assert_eq!(reply.status, 400, "{reply:?}");
    let (reply, ()) = tokio::join!(probe(&hub, "a", "system.cpu.usage", json!({})), async {
        let request = a.request().await;
        a.answer(&stale, json!({"from": "a stale answer"})).await;
        b.answer(&request, json!({"from": "b"})).await;
        // Answered in order: what b sent has been looked at once b is heard again.
        b.send("agent.heartbeat", json!({})).await;
        a.answer(&request, json!({"from": "a"})).await;
    });
    assert_eq!(reply.body["data"], json!({"from": "a"}), "{reply:?}");
    let late = hub.journal("kind=call").await;
    assert!(late.iter().any(|r| r["phase"] == "late"), "{late:?}");
    hub.until("/api/journal?kind=refusal", |body| {
        body["records"]
            .as_array()
            .is_some_and(|r| r.iter().any(|r| r["who"].as_str().is_some_and(|w| w.starts_with("agent:sonde"))))
    })
    .await;
}

#[tokio::test]
async fn what_cannot_be_taken_is_answered_and_costs_that_agent_only() {
    let hub = TestHub::with(&[("sonde.max_frame_bytes", "65536")]).await;
    let mut agent = enrolled(&hub, "web-1").await;
    for (frame, error) in [
        ("not json".to_owned(), "Invalid message format"),
        (envelope("agent.status", Some(&agent.id), &json!({})).to_string(), "Invalid message format"),
        (envelope("agent.heartbeat", Some("another"), &json!({})).to_string(), "Agent ID mismatch"),
    ] {
        agent.socket.send(frame).await;
        assert_eq!(next(&mut agent.socket).await["error"], error);
    }
    let binary = envelope("agent.heartbeat", Some("another"), &json!({})).to_string();
    agent.socket.0.send(Message::binary(binary.into_bytes())).await.expect("sends");
    assert_eq!(next(&mut agent.socket).await["error"], "Agent ID mismatch", "binary frames are read too");
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = agent.request().await;
        agent.answer(&request, json!("x".repeat(70_000))).await;
    });
    assert_eq!(reply.status, 400);
    assert!(reply.body["error"].as_str().is_some_and(|e| e.contains("sonde.max_frame_bytes")), "{reply:?}");
    let mut other = enrolled(&hub, "other").await;
    agent.socket.send("x".repeat(200_000)).await;
    assert_eq!(agent.socket.next().await, Err(Some(1009)));
    let (reply, ()) = tokio::join!(probe(&hub, "other", "system.cpu.usage", json!({})), async {
        let request = other.request().await;
        other.answer(&request, json!({})).await;
    });
    assert_eq!(reply.status, 200);
}

#[tokio::test]
async fn a_broken_registration_is_told_what_is_wrong() {
    let hub = TestHub::start().await;
    let mut field = field_register("web-1");
    field["agentVersion"] = 7.into();
    let told = refused(&hub, &token(&hub).await, &field).await;
    assert_eq!(told["error"], "Invalid registration data");
    let mut contract = contract_register("web-1");
    contract["name"] = "".into();
    let mut socket = knock(&hub, Some(&token(&hub).await), "").await.expect("upgrades");
    socket.send(envelope("agent.register", None, &contract).to_string()).await;
    assert_eq!(next(&mut socket).await["error"], "Invalid registration data");
    let reject = next(&mut socket).await;
    assert_eq!(reject["type"], "hub.reject");
    assert!(reject["payload"]["reason"].as_str().is_some_and(|r| r.contains("name")), "{reject}");
}

#[tokio::test]
async fn heartbeats_decide_who_is_there() {
    let hub = TestHub::with(&[("sonde.heartbeat_s", "1")]).await;
    let mut agent = enrolled(&hub, "web-1").await;
    let path = format!("/api/agents/sonde:{}", agent.id);
    assert_eq!(hub.get(&path).await.body["online"], true);
    // The socket stays open and answers pings; only the heartbeats are missing.
    let end = tokio::time::timeout(PATIENCE, async {
        while agent.socket.0.next().await.is_some_and(|m| !matches!(m, Ok(Message::Close(_)))) {}
    });
    end.await.expect("the hub lets it go");
    let shown = hub.until(&path, |body| body["online"] == false).await;
    let at = |key: &str| shown[key].as_str().and_then(Timestamp::parse).unwrap_or_else(|| panic!("{key}: {shown}"));
    let silent = at("offline_since").since(at("last_seen"));
    assert!(silent.as_secs_f64() > 2.5, "last seen when it was last heard, {silent:?} before it was given up");
    let listed = hub.get("/api/v1/agents").await.body;
    assert_eq!(listed["agents"][0]["status"], "offline");
    let reply = probe(&hub, "web-1", "system.cpu.usage", json!({})).await;
    let why = reply.body["error"].as_str().unwrap_or_default();
    assert!(reply.status == 400 && why.contains("agent web-1 (sonde:") && why.contains("is offline"), "{reply:?}");
}

#[tokio::test]
async fn a_newer_link_replaces_the_older_and_a_revoked_agent_is_out() {
    let hub = TestHub::start().await;
    let mut first = enrolled(&hub, "web-1").await;
    let key = key(&first);
    let mut second = join(&hub, &key, &field_register("web-1")).await;
    assert_eq!(first.socket.next().await, Err(Some(4409)));
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = second.request().await;
        second.answer(&request, json!({})).await;
    });
    assert_eq!(reply.status, 200);
    let reply = hub.post(&format!("/api/agents/sonde:{}/revoke", second.id), json!({})).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(second.socket.next().await, Err(Some(4001)));
    assert_eq!(knock(&hub, Some(&key), "").await.err(), Some(401));
    let again = join(&hub, &token_for(&hub, "web-1").await, &field_register("web-1")).await;
    assert_eq!(again.id, second.id, "an operator's token brings it back");
}

#[tokio::test]
async fn enrolled_agents_survive_a_restart_of_the_hub() {
    let mut hub = TestHub::start().await;
    let agent = enrolled(&hub, "web-1").await;
    let key = key(&agent);
    hub.restart(&[]).await;
    let back = join(&hub, &key, &field_register("web-1")).await;
    assert_eq!(back.id, agent.id);
    hub.stop().await;
}

#[tokio::test]
async fn the_same_question_is_asked_once_and_rights_are_checked_first() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "web-1").await;
    let ask = || probe(&hub, "web-1", "system.logs.journal", json!({"lines": 5, "unit": "ssh"}));
    let (a, b, (), c) = tokio::join!(
        ask(),
        ask(),
        async {
            let request = agent.request().await;
            agent.answer(&request, json!({"entries": []})).await;
        },
        ask()
    );
    assert!([&a, &b, &c].iter().all(|r| r.status == 200), "{a:?} {b:?} {c:?}");
    let other_order = hub
        .post(
            "/api/v1/probe",
            json!({"agent": "web-1", "probe": "system.logs.journal", "params": {"unit": "ssh", "lines": 5}}),
        )
        .await;
    assert_eq!(other_order.body["data"], json!({"entries": []}), "from the cache, whatever the order of the keys");
    assert_eq!(hub.journal("kind=call").await.len(), 4, "each caller has a record");
    let narrow = hub.token("narrow", "operator", json!({"tools": ["system.disk.*"]})).await;
    let body = json!({"agent": "web-1", "probe": "system.logs.journal", "params": {"lines": 5, "unit": "ssh"}});
    assert_eq!(hub.post_as(&narrow, "/api/v1/probe", body.clone()).await.status, 403, "not even from the cache");
    let elsewhere = hub.token("elsewhere", "operator", json!({"tags": ["lab"]})).await;
    assert_eq!(hub.post_as(&elsewhere, "/api/v1/probe", body).await.status, 403);
    assert_eq!(
        hub.post_as(&elsewhere, "/api/v1/diagnose", json!({"agent": "web-1", "category": "system"})).await.status,
        403
    );
    let none = hub.request("GET", "/api/v1/agents", Some(&elsewhere), None).await;
    assert_eq!(none.body, json!({"agents": []}));
}

#[tokio::test]
async fn parameters_are_checked_before_anything_is_sent() {
    let hub = TestHub::start().await;
    let _agent = enrolled(&hub, "web-1").await;
    for (name, params, word) in [
        ("system.network.ping", json!({"host": "-f"}), "begin with"),
        ("system.network.ping", json!({}), "missing"),
        ("system.logs.tail", json!({"path": "/var/log/../../etc/shadow"}), ".."),
        ("docker.logs.tail", json!({"container": "a b"}), "letters"),
        ("system.disk.usage", json!({"x": 1}), "no parameter"),
        ("postgres.databases.list", json!({"user": "a'b"}), "letters"),
    ] {
        let reply = probe(&hub, "web-1", name, params.clone()).await;
        assert_eq!(reply.status, 400, "{name} {params} {reply:?}");
        assert!(reply.body["error"].as_str().is_some_and(|e| e.contains(word)), "{reply:?}");
    }
    let reply = probe(&hub, "nobody", "system.disk.usage", json!({})).await;
    assert_eq!((reply.status, &reply.body["error"]), (400, &json!("Agent 'nobody' not found or offline")));
}

#[tokio::test]
async fn an_unknown_pack_counts_as_manage_and_viewers_may_only_observe() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "web-1").await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let reply = hub.post_as(&viewer, "/api/v1/probe", json!({"agent": "web-1", "probe": "mystery.thing"})).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    let ask = hub.post_as(&viewer, "/api/v1/probe", json!({"agent": "web-1", "probe": "system.disk.usage"}));
    let (reply, ()) = tokio::join!(ask, async {
        let request = agent.request().await;
        agent.answer(&request, json!({})).await;
    });
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn a_runbook_gives_findings_and_keeps_the_words_of_what_failed() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "web-1").await;
    let ask = hub.post("/api/v1/diagnose", json!({"agent": "web-1", "category": "system"}));
    let (reply, ()) = tokio::join!(ask, async {
        for _ in 0..3 {
            let request = agent.request().await;
            assert_eq!(request["payload"]["requestedBy"], "system-runbook");
            match request["payload"]["probe"].as_str().expect("a name") {
                "system.disk.usage" => {
                    agent.answer(&request, json!({"filesystems": [{"mountedOn": "/", "usePct": 97, "filesystem": "/dev/sda1", "sizeKb": 10, "availableKb": 1}]})).await;
                }
                "system.memory.usage" => {
                    let payload = json!({"probe": "system.memory.usage", "error": "free: not found", "requestId": request["payload"]["requestId"]});
                    agent.send("probe.error", payload).await;
                }
                _ => agent.answer(&request, json!({"loadAvg5": 0.1, "cpuCount": 2})).await,
            }
        }
    });
    assert_eq!(reply.status, 200, "{reply:?}");
    let meta = &reply.body["meta"];
    assert_eq!(
        (&meta["probesRun"], &meta["probesSucceeded"], &meta["probesFailed"]),
        (&json!(3), &json!(2), &json!(1))
    );
    assert_eq!(
        (&meta["runbookId"], &meta["target"], &meta["findingsCount"]),
        (&json!("system-runbook"), &json!("web-1"), &json!({ "critical": 1, "warning": 0, "info": 0 }))
    );
    assert_eq!(reply.body["probes"]["system.memory.usage"]["error"], "free: not found");
    assert_eq!(reply.body["findings"][0]["severity"], "critical");
    assert_eq!(reply.body["findings"][0]["title"], "/ is 97 % full");
    let unknown = hub.post("/api/v1/diagnose", json!({"agent": "web-1", "category": "nonsense"})).await;
    assert!(unknown.body["error"].as_str().is_some_and(|e| e.contains("system")), "{unknown:?}");
}

#[tokio::test]
async fn a_health_check_without_arguments_checks_every_agent() {
    let hub = TestHub::start().await;
    let mut a = enrolled(&hub, "a").await;
    let gone = enrolled(&hub, "gone").await;
    let id = gone.id.clone();
    drop(gone);
    hub.until(&format!("/api/agents/sonde:{id}"), |body| body["online"] == false).await;
    let (reply, ()) = tokio::join!(hub.post("/api/v1/health-check", json!({})), async {
        for _ in 0..3 {
            let request = a.request().await;
            a.answer(&request, json!({})).await;
        }
    });
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(
        (&reply.body["meta"]["agents"], &reply.body["meta"]["offlineAgents"]),
        (&json!(["a"]), &json!(["gone"]))
    );
    assert_eq!(reply.body["summary"]["probesRun"], 3);
    assert_eq!(reply.body["findings"][0]["title"], "gone is offline");
    let packs = hub.get("/api/v1/packs").await.body;
    assert_eq!(packs["packs"].as_array().map(Vec::len), Some(8));
    let capabilities = hub.get("/api/v1/capabilities").await.body;
    assert_eq!(capabilities["agents"][0]["runbookCategories"], json!(["system"]));
    assert_eq!(capabilities["agents"][0]["probes"].as_array().map(Vec::len), Some(8));
}

#[tokio::test]
async fn an_older_agent_is_told_of_the_newer_version() {
    let hub = TestHub::with(&[("sonde.latest_agent_version", "0.3.0")]).await;
    let mut agent = enrolled(&hub, "web-1").await;
    let update = next(&mut agent.socket).await;
    assert_eq!(update["type"], "hub.update_available");
    assert_eq!(update["payload"], json!({"latestVersion": "0.3.0", "currentVersion": "0.2.11"}));
}

#[tokio::test]
async fn the_first_match_is_for_agents_that_never_named_a_request() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut agent = enrolled(&hub, "web-1").await;
    let (reply, ()) = tokio::join!(probe(&hub, "web-1", "system.cpu.usage", json!({})), async {
        let request = agent.request().await;
        let mut payload = response(&request, json!({"n": 1}));
        payload.as_object_mut().expect("an object").remove("requestId");
        agent.send("probe.response", payload).await;
    });
    assert_eq!(reply.body["data"], json!({"n": 1}));
}

/// An agent of the oldest kind, asked for two hosts at once: nobody gets the other's answer.
#[tokio::test]
async fn an_agent_that_names_no_request_is_asked_for_one_thing_at_a_time() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut agent = enrolled(&hub, "old").await;
    let ping = |host: &'static str| probe(&hub, "old", "system.network.ping", json!({ "host": host }));
    let (a, b, other, ()) =
        tokio::join!(ping("a"), ping("b"), probe(&hub, "old", "system.cpu.usage", json!({})), async {
            let mut seen = Vec::new();
            for _ in 0..3 {
                let request = agent.request().await;
                seen.push(request);
                // Only another probe comes beside it; the answers go out in the worst order.
                if seen.len() == 2 {
                    let probes: Vec<_> = seen.iter().map(|r| r["payload"]["probe"].clone()).collect();
                    assert_ne!(probes[0], probes[1], "two of one name are not under way at once");
                    while let Some(request) = seen.pop() {
                        unnamed(&mut agent, &request).await;
                    }
                }
            }
            unnamed(&mut agent, &seen[0]).await;
        });
    assert_eq!((&a.body["data"]["host"], &b.body["data"]["host"]), (&json!("a"), &json!("b")));
    assert_eq!(other.body["status"], "success");
}

/// Answers without saying what.
async fn unnamed(agent: &mut Joined, request: &Value) {
    let mut payload = response(request, json!({ "host": request["payload"]["params"]["host"] }));
    payload.as_object_mut().expect("an object").remove("requestId");
    agent.send("probe.response", payload).await;
}

/// Many agents at once that stay connected and stop beating: all of them are offline soon after, and whoever still beats
/// is asked as before meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_agents_without_heartbeats_go_offline_and_nobody_else_notices() {
    const MANY: usize = 2000;
    let hub = TestHub::with(&[("sonde.heartbeat_s", "1"), ("sonde.cache_s", "0")]).await;
    let mut lively = enrolled(&hub, "lively").await;
    let silent = futures_util::stream::iter((0..MANY).map(|n| {
        let hub = &hub;
        async move { join(hub, &token(hub).await, &field_register(&format!("silent-{n}"))).await.socket }
    }));
    // Each is closed by the hub for its missing heartbeats, although its socket answers pings all the time.
    let closed = silent.buffer_unordered(64).for_each_concurrent(None, |mut socket| async move {
        let end = tokio::time::timeout(6 * PATIENCE, async {
            loop {
                match socket.next().await {
                    Ok(_) => {}
                    Err(code) => break code,
                }
            }
        });
        assert_eq!(end.await.expect("the hub lets it go"), Some(4410));
    });
    let served = async {
        // Beats with every answer: a caller in a loop keeps it there.
        loop {
            let request = lively.request().await;
            lively.send("agent.heartbeat", json!({})).await;
            lively.answer(&request, json!({ "cpuCount": 1 })).await;
        }
    };
    let asked = async {
        loop {
            let reply = probe(&hub, "lively", "system.cpu.usage", json!({})).await;
            assert_eq!(reply.body["status"], "success", "{reply:?}");
        }
    };
    tokio::select! {
        () = closed => {}
        () = async { tokio::join!(served, asked); } => {}
    }
    let agents = hub.get("/api/v1/agents").await.body["agents"].as_array().expect("a list").clone();
    let offline = agents.iter().filter(|a| a["status"] == "offline").count();
    assert_eq!((agents.len(), offline), (MANY + 1, MANY));
}
