//! Links that open the page for whoever has a token.

use serde_json::json;

use super::{Browser, add_user};
use crate::support::{Reply, TestHub};

async fn open(hub: &TestHub, token: &str, body: serde_json::Value) -> Reply {
    hub.request("POST", "/api/session/open", Some(token), Some(body)).await
}

async fn token_of(hub: &TestHub, name: &str, owner: &str, role: &str, scopes: serde_json::Value) -> String {
    let body = json!({ "name": name, "role": role, "scopes": scopes, "owner": owner });
    let reply = hub.post("/api/tokens", body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    reply.body["token"].as_str().expect("a token").to_owned()
}

#[tokio::test]
async fn a_token_opens_the_page_as_its_owner_once_and_without_step_up() {
    let hub = TestHub::start().await;
    add_user(&hub, "anna", "admin", json!({})).await;
    let token = token_of(&hub, "annas", "anna", "admin", json!({})).await;
    let made = open(&hub, &token, json!({})).await;
    assert_eq!(made.status, 200, "{made:?}");
    let link = made.body["link"].clone();
    let mut browser = Browser::new(&hub);
    let signed_in = browser.post("/api/session/link", json!({ "secret": link })).await;
    assert_eq!((signed_in.status, &signed_in.body["user"]), (200, &json!("anna")), "{signed_in:?}");
    let grave = browser.post("/api/users", json!({ "name": "bert", "role": "viewer" })).await;
    assert_eq!((grave.status, &grave.body["error"]["code"]), (403, &json!("step_up")), "{grave:?}");
    let again = Browser::new(&hub).post("/api/session/link", json!({ "secret": link })).await;
    assert_eq!(again.status, 401, "{again:?}");
    let records = hub.journal("kind=user").await;
    assert!(records.iter().any(|r| r["who"] == "annas" && r["detail"]["what"] == "page opened"), "{records:?}");
}

#[tokio::test]
async fn nobody_becomes_more_by_way_of_the_page() {
    let hub = TestHub::start().await;
    add_user(&hub, "anna", "admin", json!({ "approve": true })).await;
    for (name, role, scopes) in [
        ("weak", "viewer", json!({})),
        ("narrow", "admin", json!({ "tags": ["lab"] })),
        ("silent", "admin", json!({})),
    ] {
        let token = token_of(&hub, name, "anna", role, scopes).await;
        let refused = open(&hub, &token, json!({})).await;
        assert_eq!(refused.status, 403, "{name}: {refused:?}");
    }
    add_user(&hub, "bert", "viewer", json!({})).await;
    let berts = token_of(&hub, "berts", "bert", "viewer", json!({})).await;
    assert_eq!(open(&hub, &berts, json!({ "user": "anna" })).await.status, 403);
    assert_eq!(open(&hub, &berts, json!({})).await.status, 200);
    let stray = hub.token("stray", "operator", json!({})).await;
    assert_eq!(open(&hub, &stray, json!({})).await.status, 409);
    assert_eq!(open(&hub, &stray, json!({ "user": "bert" })).await.status, 403);
    // Whoever manages users could make them a link anyway.
    assert_eq!(hub.post("/api/session/open", json!({ "user": "bert" })).await.status, 200);
    assert_eq!(hub.post("/api/session/open", json!({ "user": "nobody" })).await.status, 404);
}

#[tokio::test]
async fn while_there_is_no_user_it_is_the_welcome_link() {
    let hub = TestHub::start().await;
    let link = hub.post("/api/session/open", json!({})).await.body["link"].clone();
    let mut browser = Browser::new(&hub);
    assert_eq!(browser.post("/api/session/link", json!({ "secret": link })).await.status, 200);
    let stray = hub.token("stray", "operator", json!({})).await;
    assert_eq!(open(&hub, &stray, json!({})).await.status, 409);
}
