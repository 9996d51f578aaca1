//! The code goes to a person on Discord: the two calls as Discord takes them, and what it says when it says no.

use serde_json::{Value, json};

use super::TestClient;
use super::fake_http::FakeHttp;
use crate::support::TestHub;

const BOT: &str = "bot-token-that-nobody-may-see";

async fn hub_with(server: &FakeHttp) -> TestHub {
    let base = server.url("/api/v10");
    let settings = [
        ("yonexus.discord_base_url", base.as_str()),
        ("yonexus.discord_bot_token", BOT),
        ("yonexus.discord_admin_user", "80351110224678912"),
        ("yonexus.allow", "client-a"),
    ];
    TestHub::with(&settings).await
}

async fn begin(hub: &TestHub) -> TestClient {
    let mut client = hub.client("client-a").await;
    client.hello().await;
    assert_eq!(client.next().await["payload"]["nextAction"], "pair_required");
    client
}

#[tokio::test]
async fn a_direct_message_has_what_the_contract_wants_and_the_client_is_told_that_it_went_out() {
    let mut server = FakeHttp::start().await;
    let hub = hub_with(&server).await;
    let mut client = begin(&hub).await;
    let opened = server
        .expect("POST", "/api/v10/users/@me/channels", 200, r#"{"id":"319674150115610528","type":1,"recipients":[]}"#)
        .await;
    assert_eq!(opened.header("authorization"), Some(format!("Bot {BOT}").as_str()));
    assert_eq!(
        serde_json::from_str::<Value>(&opened.body).expect("JSON"),
        json!({ "recipient_id": "80351110224678912" })
    );
    let posted = server
        .expect("POST", "/api/v10/channels/319674150115610528/messages", 200, r#"{"id":"1","content":"x"}"#)
        .await;
    let message: Value = serde_json::from_str(&posted.body).expect("JSON");
    let text = message["content"].as_str().expect("a text").to_owned();
    let line = |name: &str| {
        let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
        found.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
    };
    assert!(text.starts_with("Yonexus pairing request\n"));
    assert_eq!(line("identifier"), "client-a");
    let request = client.next().await;
    assert_eq!(request["payload"]["adminNotification"], "sent");
    assert_eq!(request["payload"]["expiresAt"].to_string(), line("expiresAt"));
    assert_eq!(message["allowed_mentions"], json!({ "parse": [] }));
    client.confirm(&line("pairingCode")).await;
    assert_eq!(client.next().await["type"], "pair_success");
}

#[tokio::test]
async fn a_429_is_waited_for_and_a_fresh_request_follows() {
    let mut server = FakeHttp::start().await;
    let hub = hub_with(&server).await;
    let mut client = begin(&hub).await;
    let limited = server.request().await;
    limited.answer(429, &[("retry-after", "3600")], r#"{"message":"slow","retry_after":0.01,"global":false}"#).await;
    let failed = client.next().await;
    assert_eq!(failed["payload"]["adminNotification"], "failed");
    let code = hub.code("client-a").await;
    client.confirm(&code).await;
    assert_eq!(client.reason().await, "admin_notification_failed", "the code is of no use yet");
    server.expect("POST", "/api/v10/users/@me/channels", 200, r#"{"id":"7"}"#).await;
    server.expect("POST", "/api/v10/channels/7/messages", 200, "{}").await;
    let sent = client.next().await;
    assert_eq!((&sent["type"], &sent["payload"]["adminNotification"]), (&json!("pair_request"), &json!("sent")));
    client.confirm(&code).await;
    assert_eq!(client.next().await["type"], "pair_success");
}

#[tokio::test]
async fn a_no_is_told_to_the_operator_in_words_and_the_token_to_nobody() {
    let mut server = FakeHttp::start().await;
    let hub = hub_with(&server).await;
    let mut client = begin(&hub).await;
    server.expect("POST", "/api/v10/users/@me/channels", 200, r#"{"id":"7"}"#).await;
    let body = r#"{"message":"Cannot send messages to this user","code":50007}"#;
    server.expect("POST", "/api/v10/channels/7/messages", 403, body).await;
    assert_eq!(client.next().await["payload"]["adminNotification"], "failed");
    let pairing = hub.get("/api/yonexus/pairings").await.body["pairings"][0].clone();
    assert_eq!(pairing["notification"], "failed");
    assert!(pairing["notified"].as_str().expect("a text").contains("allow direct messages"), "{pairing}");
    let everything = format!(
        "{pairing} {} {}",
        serde_json::to_string(&hub.journal("").await).expect("JSON"),
        hub.get("/api/logs?limit=1000").await.body
    );
    assert!(!everything.contains(BOT));
    // An operator who has seen the key can still say yes.
    hub.post("/api/yonexus/pairings/client-a", json!({ "approve": true })).await;
    assert_eq!(client.next().await["type"], "pair_success");
}

#[tokio::test]
async fn one_channel_is_enough_and_a_webhook_is_one() {
    let mut discord = FakeHttp::start().await;
    let mut hook = FakeHttp::start().await;
    let (base, url) = (discord.url(""), hook.url("/pairings"));
    let settings = [
        ("yonexus.discord_base_url", base.as_str()),
        ("yonexus.discord_bot_token", BOT),
        ("yonexus.discord_admin_user", "1"),
        ("yonexus.webhook_url", url.as_str()),
        ("yonexus.webhook_secret", "hush"),
        ("yonexus.allow", "client-a"),
    ];
    let hub = TestHub::with(&settings).await;
    let mut client = begin(&hub).await;
    discord.expect("POST", "/users/@me/channels", 401, r#"{"message":"401: Unauthorized","code":0}"#).await;
    let called = hook.expect("POST", "/pairings", 200, "{}").await;
    let body: Value = serde_json::from_str(&called.body).expect("JSON");
    assert_eq!(body["identifier"], "client-a");
    assert!(called.header("x-convoke-signature").is_some());
    assert_eq!(client.next().await["payload"]["adminNotification"], "sent");
    let pairing = hub.get("/api/yonexus/pairings").await.body["pairings"][0].clone();
    let words = pairing["notified"].as_str().expect("a text");
    assert!(words.contains("webhook") && words.contains("discord_bot_token"), "{words}");
    client.confirm(body["pairingCode"].as_str().expect("a code")).await;
    assert_eq!(client.next().await["type"], "pair_success");
}

#[tokio::test]
async fn a_restart_goes_on_telling() {
    let mut server = FakeHttp::start().await;
    let mut hub = hub_with(&server).await;
    let mut client = begin(&hub).await;
    server.expect("POST", "/api/v10/users/@me/channels", 500, "").await;
    assert_eq!(client.next().await["payload"]["adminNotification"], "failed");
    let base = server.url("/api/v10");
    let settings = [
        ("yonexus.discord_base_url", base.as_str()),
        ("yonexus.discord_bot_token", BOT),
        ("yonexus.discord_admin_user", "80351110224678912"),
        ("yonexus.allow", "client-a"),
    ];
    hub.restart(&settings).await;
    server.expect("POST", "/api/v10/users/@me/channels", 200, r#"{"id":"7"}"#).await;
    server.expect("POST", "/api/v10/channels/7/messages", 200, "{}").await;
    hub.until("/api/yonexus/pairings", |body| body["pairings"][0]["notification"] == "sent").await;
}
