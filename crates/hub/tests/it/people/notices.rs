//! Telling people what waits, at small servers of the test's own.

use std::sync::Arc;

use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{self, ECDH_P256, PrivateKey, UnparsedPublicKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey as Verifier};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::approving::{anna, asked};
use super::{Browser, add_user, signed_in};
use crate::support::TestHub;

/// A request that came.
struct Came {
    head: String,
    body: Vec<u8>,
}

impl Came {
    fn header(&self, name: &str) -> &str {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value)
    }
}

/// A server that takes whatever is posted and answers with a status.
async fn server(status: &'static str) -> (String, mpsc::UnboundedReceiver<Came>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (tell, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                let (head, length) = loop {
                    if stream.read_buf(&mut bytes).await.expect("reads") == 0 {
                        return;
                    }
                    if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                        let length = Came { head: head.clone(), body: Vec::new() };
                        let length = length.header("content-length").parse::<usize>().unwrap_or_default();
                        bytes.drain(..end + 4);
                        break (head, length);
                    }
                };
                while bytes.len() < length {
                    stream.read_buf(&mut bytes).await.expect("reads");
                }
                let answer = format!(
                    "HTTP/1.1 {status}\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(answer.as_bytes()).await.expect("writes");
                let _ = tell.send(Came { head, body: bytes });
            });
        }
    });
    (format!("http://{address}"), heard)
}

async fn add(browser: &mut Browser<'_>, body: Value) -> String {
    let added = browser.post("/api/notices", body).await;
    assert_eq!(added.status, 200, "{added:?}");
    added.body["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn who_may_decide_is_told_once_at_ntfy_and_webhook() {
    let mut hub = TestHub::with(&[("notices.allow_hosts", "127.0.0.1")]).await;
    let (ntfy, mut at_ntfy) = server("200 OK").await;
    let (hook, mut at_hook) = server("204 No Content").await;
    let approval = {
        let _pc = hub.agent("pc").await.echo();
        let (mut anna, _) = anna(&hub).await;
        let mut carl = signed_in(&hub, "carl", "viewer", json!({})).await;
        let (none, mut at_none) = server("200 OK").await;
        add(&mut carl, json!({ "kind": "webhook", "url": none })).await;
        add(&mut anna, json!({ "kind": "ntfy", "url": format!("{ntfy}/topic"), "token": "tk_secret" })).await;
        add(
            &mut anna,
            json!({ "kind": "webhook", "url": format!("{hook}/hook"), "secret": "s3cret", "name": "desk" }),
        )
        .await;
        let path = asked(&hub, "claude", "shell_exec").await;
        let told = at_ntfy.recv().await.expect("told");
        assert!(told.head.starts_with("POST /topic "), "{}", told.head);
        assert_eq!(told.header("authorization"), "Bearer tk_secret");
        assert!(told.header("click").ends_with(path.trim_start_matches("/api")), "{} {path}", told.header("click"));
        assert_eq!(String::from_utf8_lossy(&told.body), "claude asks for shell_exec on pc");
        let told = at_hook.recv().await.expect("told");
        let body: Value = serde_json::from_slice(&told.body).expect("JSON");
        assert_eq!(body["kind"], "approval");
        assert!(!body.to_string().contains("uptime"), "no arguments: {body}");
        use hmac::Mac as _;
        let digest = convoke_gate::hub::hmac_sha256(b"s3cret").chain_update(&told.body).finalize().into_bytes();
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(told.header("x-convoke-signature"), format!("sha256={digest}"));
        assert!(at_none.try_recv().is_err(), "it is none of carl's business");
        let listed = anna.get("/api/notices").await.body;
        assert_eq!(
            (&listed["channels"][1]["name"], &listed["channels"][1]["host"]),
            (&json!("desk"), &json!("127.0.0.1"))
        );
        let shown = listed.to_string() + &json!(hub.journal("").await).to_string();
        assert!(!shown.contains("s3cret") && !shown.contains("tk_secret") && !shown.contains("/topic"), "{shown}");
        assert_eq!(carl.get("/api/notices?user=anna").await.status, 403);
        path
    };
    // Whoever starts again tells nobody twice, and goes on with what is new.
    hub.restart(&[("notices.allow_hosts", "127.0.0.1")]).await;
    let _pc = hub.connect("pc", crate::support::key_of("pc")).await.echo();
    let second = asked(&hub, "claude", "screen_capture").await;
    let told = at_ntfy.recv().await.expect("told");
    assert!(told.header("click").ends_with(second.trim_start_matches("/api")), "and not of {approval} again");
    assert_eq!(
        serde_json::from_slice::<Value>(&at_hook.recv().await.expect("told").body).expect("JSON")["kind"],
        "approval"
    );
    assert!(at_ntfy.try_recv().is_err() && at_hook.try_recv().is_err());
}

/// As long as so many bytes.
struct Bytes(usize);

impl KeyType for Bytes {
    fn len(&self) -> usize {
        self.0
    }
}

fn expand(salt: &[u8], secret: &[u8], info: &[&[u8]], length: usize) -> Vec<u8> {
    let key = Salt::new(HKDF_SHA256, salt).extract(secret);
    let mut out = vec![0; length];
    key.expand(info, Bytes(length)).expect("expands").fill(&mut out).expect("fills");
    out
}

/// Opens what a browser would get (RFC 8291), with HKDF as a library has it.
fn open(own: &PrivateKey, auth: &[u8], sealed: &[u8]) -> Vec<u8> {
    let (salt, rest) = sealed.split_at(16);
    assert_eq!(rest[..5], [0, 0, 16, 0, 65], "one record of 4096, with a key");
    let (theirs, sealed) = (&rest[5..70], &rest[70..]);
    let public = own.compute_public_key().expect("public");
    let shared = agreement::agree(own, UnparsedPublicKey::new(&ECDH_P256, theirs), (), |shared| {
        Ok(expand(auth, shared, &[b"WebPush: info\0", public.as_ref(), theirs], 32))
    });
    let shared = shared.expect("agrees");
    let key = expand(salt, &shared, &[b"Content-Encoding: aes128gcm\0"], 16);
    let nonce = expand(salt, &shared, &[b"Content-Encoding: nonce\0"], 12);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).expect("a key"));
    let mut text = sealed.to_vec();
    let nonce = Nonce::try_assume_unique_for_key(&nonce).expect("a nonce");
    let text = key.open_in_place(nonce, Aad::empty(), &mut text).expect("opens");
    assert_eq!(text.last(), Some(&2));
    text[..text.len() - 1].to_vec()
}

#[tokio::test]
async fn a_browser_is_told_by_web_push() {
    let hub = TestHub::with(&[("notices.allow_hosts", "127.0.0.1")]).await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    let (push, mut at_push) = server("201 Created").await;
    let own = PrivateKey::generate(&ECDH_P256).expect("a key");
    let auth: [u8; 16] = convoke_gate::clock::random();
    let public = BASE64.encode(own.compute_public_key().expect("public").as_ref());
    let subscription = json!({
        "endpoint": format!("{push}/send/x"), "expirationTime": null,
        "keys": { "p256dh": public, "auth": BASE64.encode(auth) },
    });
    let broken =
        json!({ "kind": "push", "subscription": { "endpoint": push, "keys": { "p256dh": "x", "auth": "y" } } });
    assert_eq!(anna.post("/api/notices", broken).await.status, 400);
    add(&mut anna, json!({ "kind": "push", "subscription": subscription })).await;
    let known = anna.get("/api/notices").await.body["vapid_public_key"].as_str().expect("a key").to_owned();
    let path = asked(&hub, "claude", "shell_exec").await;
    let told = at_push.recv().await.expect("told");
    assert_eq!(told.header("content-encoding"), "aes128gcm");
    assert!(!told.header("ttl").is_empty());
    let (token, key) =
        told.header("authorization").strip_prefix("vapid t=").and_then(|t| t.split_once(", k=")).expect("signed");
    assert_eq!(key, known);
    let (signed, signature) = token.rsplit_once('.').expect("a signature");
    let key = BASE64.decode(key).expect("base64");
    let signature = BASE64.decode(signature).expect("base64");
    Verifier::new(&ECDSA_P256_SHA256_FIXED, key).verify(signed.as_bytes(), &signature).expect("it verifies");
    let claims = BASE64.decode(signed.split_once('.').expect("claims").1).expect("base64");
    assert_eq!(serde_json::from_slice::<Value>(&claims).expect("JSON")["aud"], push);
    let message: Value = serde_json::from_slice(&open(&own, &auth, &told.body)).expect("JSON");
    assert_eq!(message["kind"], "approval");
    assert!(message["url"].as_str().is_some_and(|url| url.ends_with(path.trim_start_matches("/api"))), "{message}");
}

#[tokio::test]
async fn a_browser_that_its_push_service_forgot_is_removed() {
    let hub = TestHub::with(&[("notices.allow_hosts", "127.0.0.1")]).await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    let own = PrivateKey::generate(&ECDH_P256).expect("a key");
    let public = BASE64.encode(own.compute_public_key().expect("public").as_ref());
    let auth: [u8; 16] = convoke_gate::clock::random();
    for status in ["404 Not Found", "410 Gone"] {
        let (push, mut at_push) = server(status).await;
        let keys = json!({ "p256dh": public, "auth": BASE64.encode(auth) });
        let subscription = json!({ "endpoint": format!("{push}/send/x"), "keys": keys });
        let id = add(&mut anna, json!({ "kind": "push", "name": "laptop", "subscription": subscription })).await;
        asked(&hub, "claude", "shell_exec").await;
        at_push.recv().await.expect("tried");
        let ended =
            |page: &Value| page["records"].to_string().contains(&id) && page.to_string().contains("notices ended");
        hub.until("/api/journal?kind=user&limit=1000", ended).await;
        hub.until("/api/notices?user=anna", |list| list["channels"] == json!([])).await;
    }
    // Another kind of place may be back tomorrow.
    let (hook, mut at_hook) = server("410 Gone").await;
    let id = add(&mut anna, json!({ "kind": "webhook", "url": hook })).await;
    assert_eq!(anna.post(&format!("/api/notices/{id}/test"), json!({})).await.status, 502);
    at_hook.recv().await.expect("tried");
    assert_eq!(anna.get("/api/notices").await.body["channels"][0]["failures"], 1);
}

#[tokio::test]
async fn notices_go_to_no_private_address_and_follow_no_redirect() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "admin", json!({ "approve": true })).await;
    for url in ["http://ntfy.example.com/x", "https://127.0.0.1/x", "https://[::1]/x", "https://169.254.169.254/"] {
        let refused = anna.post("/api/notices", json!({ "kind": "ntfy", "url": url })).await;
        assert_eq!(refused.status, 400, "{url} {refused:?}");
    }
    assert_eq!(anna.post("/api/notices", json!({ "kind": "pigeon", "url": "https://a.example" })).await.status, 400);
    let hub = TestHub::with(&[("notices.allow_hosts", "127.0.0.1")]).await;
    let mut anna = signed_in(&hub, "anna", "viewer", json!({})).await;
    let (moved, mut came) = server("302 Found").await;
    let id = add(&mut anna, json!({ "kind": "webhook", "url": moved })).await;
    let failed = anna.post(&format!("/api/notices/{id}/test"), json!({})).await;
    assert_eq!((failed.status, came.recv().await.is_some()), (502, true));
    assert!(failed.body.to_string().contains("302"), "{failed:?}");
    assert_eq!(anna.get("/api/notices").await.body["channels"][0]["failures"], 1);
    add_user(&hub, "bert", "viewer", json!({})).await;
    let mut bert = Browser::new(&hub);
    bert.sign_in("bert").await;
    assert_eq!(bert.ask("DELETE", &format!("/api/notices/{id}"), None).await.status, 404);
    assert_eq!(anna.ask("DELETE", &format!("/api/notices/{id}"), None).await.status, 200);
    assert_eq!(anna.get("/api/notices").await.body["channels"], json!([]));
}

#[tokio::test]
async fn a_dead_channel_holds_up_nobody() {
    let hub = TestHub::with(&[("notices.allow_hosts", "127.0.0.1")]).await;
    let _pc = hub.agent("pc").await.echo();
    let (mut anna, _) = anna(&hub).await;
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let silent = Arc::new(silent);
    let dead = format!("http://{}", silent.local_addr().expect("bound"));
    let (alive, mut came) = server("200 OK").await;
    add(&mut anna, json!({ "kind": "webhook", "url": dead })).await;
    add(&mut anna, json!({ "kind": "webhook", "url": alive })).await;
    for tool in ["shell_exec", "screen_capture", "shell_exec"] {
        asked(&hub, "claude", tool).await;
        assert!(came.recv().await.is_some(), "the other one is told meanwhile");
    }
}
