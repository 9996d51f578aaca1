//! Who is there, and who is told.

use convoke_core::time::Timestamp;
use serde_json::json;

use crate::support::TestHub;

#[tokio::test]
async fn silence_makes_a_client_unstable_then_offline_and_watchers_are_told() {
    let settings =
        [("yonexus.unstable_after_s", "1"), ("yonexus.offline_after_s", "3"), ("yonexus.status_watchers", "watcher")];
    let hub = TestHub::with(&settings).await;
    let mut watcher = hub.live("watcher").await;
    let mut quiet = hub.live("quiet").await;
    let seen = watcher.next().await;
    assert_eq!(seen["type"], "status_update");
    assert_eq!(seen["payload"], json!({ "identifier": "quiet", "status": "online" }));
    // The watcher keeps itself alive whenever it hears something.
    let unstable = quiet.next().await;
    watcher.heartbeat().await;
    assert_eq!(unstable["payload"]["status"], "unstable");
    assert_eq!(unstable["payload"]["reason"], "heartbeat_timeout_1s");
    quiet.heartbeat().await;
    assert_eq!(quiet.next().await["payload"]["status"], "online");
    watcher.heartbeat().await;
    assert_eq!(quiet.next().await["payload"]["status"], "unstable");
    watcher.heartbeat().await;
    let notice = quiet.next().await;
    assert_eq!(
        (&notice["type"], &notice["payload"]["reason"]),
        (&json!("disconnect_notice"), &json!("heartbeat_timeout_3s"))
    );
    assert_eq!(quiet.closed().await, Some(4408));
    let view = hub.client_view("quiet").await;
    assert_eq!(view["liveness"], "offline");
    let last_seen = view["last_seen"].as_str().and_then(Timestamp::parse).expect("a time");
    let silent = convoke_gate::clock::now().since(last_seen);
    assert!(silent.as_secs_f64() > 2.5, "last seen when it was last heard, {silent:?} ago");
    let mut statuses = Vec::new();
    while statuses.last().map(String::as_str) != Some("offline") {
        let frame = watcher.next().await;
        if frame["payload"]["identifier"] == "quiet" {
            statuses.push(frame["payload"]["status"].as_str().expect("a text").to_owned());
        }
    }
    assert_eq!(statuses, ["unstable", "online", "unstable", "offline"]);
}

#[tokio::test]
async fn heartbeats_are_answered_only_where_a_setting_says_so() {
    let hub = TestHub::start().await;
    let mut client = hub.live("client-a").await;
    client.heard.clear();
    client.heartbeat().await;
    client.settled().await;
    assert!(client.heard.is_empty());
    let hub = TestHub::with(&[("yonexus.heartbeat_ack", "true")]).await;
    let mut client = hub.live("client-a").await;
    client.heartbeat().await;
    assert_eq!(client.next().await["payload"], json!({ "identifier": "client-a", "status": "online" }));
}

#[tokio::test]
async fn a_stop_is_told_and_trust_survives_it() {
    let mut hub = TestHub::start().await;
    let secret = hub.pair("client-a").await;
    let mut client = hub.enter("client-a", secret.clone()).await;
    hub.stop().await;
    assert_eq!(client.next().await["payload"]["reason"], "shutdown");
    assert_eq!(client.closed().await, Some(1001));
    hub.restart(&[]).await;
    let view = hub.client_view("client-a").await;
    assert_eq!((&view["state"], &view["liveness"]), (&json!("paired"), &json!("offline")));
    assert!(view["last_auth"].is_string());
    hub.enter("client-a", secret).await;
}

#[tokio::test]
async fn a_star_watches_everyone_but_oneself() {
    let hub = TestHub::with(&[("yonexus.status_watchers", "*")]).await;
    let mut a = hub.live("client-a").await;
    let b = hub.live("client-b").await;
    let seen = a.next().await;
    assert_eq!(seen["payload"], json!({ "identifier": "client-b", "status": "online" }));
    drop(b);
    let gone = a.next().await;
    let told = (&gone["type"], &gone["payload"]["identifier"], &gone["payload"]["status"]);
    assert_eq!(told, (&json!("status_update"), &json!("client-b"), &json!("offline")));
    assert!(a.heard.iter().all(|text| !text.contains("\"status_update\"") || text.contains("client-b")));
}
