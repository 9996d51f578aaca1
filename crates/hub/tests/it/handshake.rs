//! `/agent/ws` up to the first policy: who gets in, and what the others are told.

use convoke_core::time::Timestamp;
use convoke_kenny::frame;
use ed25519_dalek::SigningKey;
use serde_json::json;

use crate::support::{PATIENCE, TOKEN, TestAgent, TestHub, base64, key_of, meta};

fn register(id: &str, protocol: &str, nonce: &str) -> String {
    json!({ "type": "register", "agent_id": id, "protocol": protocol, "client_nonce": nonce,
        "meta": { "hostname": "X", "os": "linux", "version": "0.1.0" } })
    .to_string()
}

fn nonce() -> String {
    base64(&[1; 32])
}

/// The answer to a challenge that followed a register with `nonce()`.
fn auth(id: &str, challenge: &str, key: &SigningKey) -> String {
    let challenge: serde_json::Value = serde_json::from_str(challenge).expect("JSON");
    let server = challenge["server_nonce"].as_str().expect("a nonce");
    let server: [u8; 32] = convoke_kenny::wire_bytes::decode(server).expect("32 bytes");
    frame::auth(&convoke_kenny::transcript::Transcript::new(id, &[1; 32], &server).sign(key))
}

#[tokio::test]
async fn an_enrolled_agent_gets_in_and_the_policy_comes_first() {
    let hub = TestHub::start().await;
    let key = hub.enrol("pc-1").await;
    let mut agent = TestAgent::open(&hub, "pc-1", key).await;
    assert_eq!(agent.handshake().await, Ok(json!({ "type": "policy", "rules": [] })));
    let shown = hub.get("/api/agents/pc-1").await.body;
    assert_eq!(
        (&shown["online"], &shown["trust"], &shown["auth"]),
        (&json!(true), &json!("trusted"), &json!("signature"))
    );
    assert_eq!(shown["meta"]["hostname"], "TEST");
    let recorded = |page: &serde_json::Value| page["records"][0]["outcome"] == "ok";
    hub.until("/api/journal?kind=auth&agent=pc-1", recorded).await;
}

#[tokio::test]
async fn an_unknown_agent_gets_a_challenge_and_the_same_refusal_as_a_bad_signature() {
    let hub = TestHub::start().await;
    hub.enrol("known").await;
    for id in ["known", "unknown"] {
        let mut socket = hub.socket().await;
        socket.send(register(id, "0.8", &nonce())).await;
        let challenge = socket.next().await.expect("a challenge");
        assert!(challenge.starts_with(r#"{"type":"challenge","server_nonce":""#), "{challenge}");
        socket.send(frame::auth(&[9; 64])).await;
        assert_eq!(socket.closed().await, Some(4401), "{id}");
    }
}

#[tokio::test]
async fn what_is_no_register_is_closed_with_4400() {
    let hub = TestHub::start().await;
    for first in
        [r#"{"type":"ping"}"#, "{", "[]", r#"{"type":"register"}"#, r#"{"type":"register","agent_id":"a/b"}"#]
    {
        let mut socket = hub.socket().await;
        socket.send(first).await;
        assert_eq!(socket.closed().await, Some(4400), "{first}");
    }
}

#[tokio::test]
async fn a_bad_nonce_an_old_version_and_a_token_are_closed_with_4401() {
    let hub = TestHub::start().await;
    let short = base64(&[1; 31]);
    let token = json!({ "type": "register", "agent_id": "dev", "token": "dev-token", "meta": {} }).to_string();
    for first in [register("a", "0.8", &short), register("a", "0.7", &nonce()), register("a", "x", &nonce()), token] {
        let mut socket = hub.socket().await;
        socket.send(first.clone()).await;
        assert_eq!(socket.closed().await, Some(4401), "{first}");
    }
}

#[tokio::test]
async fn versions_are_compared_by_number() {
    let hub = TestHub::start().await;
    for version in ["0.8", "0.8.1", "0.9", "0.10", "0.17", "1.0"] {
        let mut socket = hub.socket().await;
        socket.send(register("a", version, &nonce())).await;
        assert!(socket.next().await.is_ok(), "{version}");
    }
}

#[tokio::test]
async fn a_recorded_auth_is_worthless_in_a_new_session() {
    let hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    let mut first = hub.socket().await;
    first.send(register("pc", "0.8", &nonce())).await;
    let auth = auth("pc", &first.next().await.expect("a challenge"), &key);
    first.send(auth.clone()).await;
    assert!(first.next().await.expect("let in").contains("policy"));
    let mut second = hub.socket().await;
    second.send(register("pc", "0.8", &nonce())).await;
    second.next().await.expect("a challenge");
    second.send(auth).await;
    assert_eq!(second.closed().await, Some(4401));
}

#[tokio::test]
async fn an_agent_removed_during_its_handshake_stays_removed() {
    let hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    let mut socket = hub.socket().await;
    socket.send(register("pc", "0.8", &nonce())).await;
    let challenge = socket.next().await.expect("a challenge");
    assert_eq!(hub.request("DELETE", "/api/agents/pc", Some(TOKEN), None).await.status, 200);
    socket.send(auth("pc", &challenge, &key)).await;
    assert_eq!(socket.closed().await, Some(4401));
    assert_eq!(hub.get("/api/agents/pc").await.status, 404, "no trace of it in the list");
    assert_eq!(hub.get("/api/agents").await.body["agents"], json!([]));
}

#[tokio::test]
async fn a_frame_over_16_kib_before_authentication_closes_with_1009() {
    let hub = TestHub::start().await;
    let mut socket = hub.socket().await;
    socket.send(register(&"x".repeat(20_000), "0.8", &nonce())).await;
    assert_eq!(socket.closed().await, Some(1009));
}

#[tokio::test]
async fn a_silent_socket_is_closed_with_4400_and_an_unfinished_handshake_with_4401() {
    let hub = TestHub::start().await;
    let mut silent = hub.socket().await;
    let mut half = hub.socket().await;
    half.send(register("a", "0.8", &nonce())).await;
    half.next().await.expect("a challenge");
    let (silent, half) = tokio::join!(silent.closed(), half.closed());
    assert_eq!((silent, half), (Some(4400), Some(4401)));
}

#[tokio::test]
async fn a_newer_connection_replaces_the_older_and_survives_its_end() {
    let hub = TestHub::start().await;
    let mut old = hub.agent("pc").await;
    let mut new = hub.connect("pc", key_of("pc")).await;
    assert_eq!(old.socket.closed().await, Some(1001), "the older one is told");
    drop(old);
    let call = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list", "args": { "path": "/" } }));
    let answer = async {
        let request = new.request().await;
        new.answer(&request.id, json!({ "entries": [] })).await;
    };
    let (reply, ()) = tokio::join!(call, answer);
    assert_eq!(reply.body["ok"], true, "{reply:?}");
    assert_eq!(hub.get("/api/agents/pc").await.body["online"], true);
}

#[tokio::test]
async fn legacy_tokens_work_only_where_switched_on_and_are_announced() {
    let settings = [("kenny.allow_token_auth", "true"), ("kenny.agent_tokens", "dev=dev-token")];
    let hub = TestHub::with(&settings).await;
    let meta = serde_json::to_value(meta()).expect("JSON");
    let register =
        |token: &str| json!({ "type": "register", "agent_id": "dev", "token": token, "meta": meta }).to_string();
    let mut wrong = hub.socket().await;
    wrong.send(register("other")).await;
    assert_eq!(wrong.closed().await, Some(4401));
    let mut socket = hub.socket().await;
    socket.send(register("dev-token")).await;
    assert!(socket.next().await.expect("let in").contains("policy"));
    assert_eq!(hub.get("/api/agents/dev").await.body["auth"], "token");
    assert_eq!(hub.get("/api/hub").await.body["kenny_token_auth"], true);
    // Once it has a key, the key is what counts: for who is connected already, too.
    hub.enrol("dev").await;
    assert_eq!(socket.closed().await, Some(4401));
    let mut late = hub.socket().await;
    late.send(register("dev-token")).await;
    assert_eq!(late.closed().await, Some(4401));
}

#[tokio::test]
async fn an_agent_that_sends_nothing_is_offline_after_three_heartbeats() {
    let hub = TestHub::with(&[("kenny.heartbeat_s", "1")]).await;
    let mut agent = hub.agent("pc").await;
    let mut pings = 0;
    let closed = tokio::time::timeout(PATIENCE, async {
        loop {
            match agent.socket.next().await {
                Ok(text) => pings += u32::from(text == r#"{"type":"ping"}"#),
                Err(code) => return code,
            }
        }
    });
    assert_eq!(closed.await.expect("in time"), Some(1001));
    assert_eq!(pings, 2, "one for each interval but the last");
    hub.until_online("pc", false).await;
    let shown = hub.get("/api/agents/pc").await.body;
    let at = |key: &str| shown[key].as_str().and_then(Timestamp::parse).unwrap_or_else(|| panic!("{key}: {shown}"));
    let silent = at("offline_since").since(at("last_seen"));
    assert!(silent.as_secs_f64() > 2.5, "last seen when it was last heard, {silent:?} before it was given up");
    assert_eq!(shown["connected_at"], serde_json::Value::Null);
    let call = hub.post("/api/agents/pc/call", json!({ "tool": "net_config" })).await.body;
    let message = call["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("is offline since 2") && message.contains("; last seen 2"), "{call}");
}

#[tokio::test]
async fn a_plain_request_to_the_socket_door_is_told_to_upgrade() {
    let hub = TestHub::start().await;
    let reply = hub.request("GET", "/agent/ws", None, None).await;
    assert_eq!((reply.status, reply.body["error"]["code"].as_str()), (426, Some("upgrade_required")));
}

#[tokio::test]
async fn a_socket_is_opened_with_get_alone() {
    let hub = TestHub::start().await;
    let open = async |method: reqwest::Method| {
        let request = hub.http_client.request(method, format!("{}/agent/ws", hub.http));
        let upgrade = request.header("connection", "upgrade").header("upgrade", "websocket");
        let upgrade =
            upgrade.header("sec-websocket-version", "13").header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        upgrade.send().await.expect("the hub answers").status().as_u16()
    };
    assert_eq!(open(reqwest::Method::HEAD).await, 400);
    assert_eq!(open(reqwest::Method::GET).await, 101);
}

#[tokio::test]
async fn a_farewell_is_returned_before_the_handshake_too() {
    let hub = TestHub::start().await;
    let mut socket = hub.socket().await;
    socket.0.close(None).await.expect("says goodbye");
    assert_eq!(socket.closed().await, Some(1000));
}

#[tokio::test]
async fn a_frame_whose_bytes_keep_coming_is_a_sign_of_life() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let hub = TestHub::with(&[("kenny.heartbeat_s", "1")]).await;
    let mut agent = hub.agent("pc").await;
    let log = json!({ "type": "log", "agent_id": "pc", "at": "2026-06-04T18:00:01Z", "level": "info", "target": "t",
        "message": "it took its time" })
    .to_string();
    let size = u8::try_from(log.len()).expect("short");
    let frame = [&[0x81, 0x80 | 126, 0, size, 0, 0, 0, 0], log.as_bytes()].concat();
    let stream = agent.socket.0.get_mut();
    let mut read = Vec::new();
    // A piece for every heartbeat of the hub; nothing may come in between, not even the answer to a ping.
    for piece in frame.chunks(frame.len().div_ceil(8)) {
        stream.write_all(piece).await.expect("the tunnel lives");
        read.clear();
        while !read.windows(15).any(|seen| seen == br#"{"type":"ping"}"#) {
            let beat = tokio::time::timeout(PATIENCE, stream.read_buf(&mut read)).await.expect("a heartbeat");
            assert!(beat.expect("reads") > 0, "the tunnel lives");
        }
    }
    hub.until("/api/logs?agent=pc", |page| page["entries"][0]["message"] == "it took its time").await;
}
