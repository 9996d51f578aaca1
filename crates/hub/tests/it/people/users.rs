//! Users: the first one, new ones, their links, and what ends with them.

use serde_json::{Value, json};

use super::{Browser, PASSWORD, add_user, signed_in, step_down};
use crate::support::{TOKEN, TestHub};

fn welcome(hub: &TestHub) -> Option<String> {
    let running = hub.running.as_ref().expect("runs");
    running.welcome.as_ref().map(|secret| format!("{}/welcome#{}", hub.http, secret.reveal()))
}

#[tokio::test]
async fn the_first_admin_is_made_behind_the_welcome_link() {
    let mut hub = TestHub::start().await;
    let first = welcome(&hub).expect("there is no user");
    hub.restart(&[]).await;
    let link = welcome(&hub).expect("there is still no user");
    let mut browser = Browser::new(&hub);
    assert_eq!(browser.post("/api/session/link", json!({ "secret": first })).await.status, 401, "void by the start");
    let opened = browser.post("/api/session/link", json!({ "secret": link })).await;
    assert_eq!(opened.status, 200, "{opened:?}");
    assert_eq!((&opened.body["user"], &opened.body["welcome"]), (&Value::Null, &json!(true)));
    assert_eq!(opened.body["rights"], json!(["users"]));
    let again = Browser::new(&hub).post("/api/session/link", json!({ "secret": link })).await;
    assert_eq!(again.status, 401, "once: {again:?}");
    hub.enrol("pc").await;
    assert_eq!(browser.get("/api/agents").await.body["agents"], json!([]), "it sees nothing");
    for (path, body) in
        [("/api/tokens", json!({ "name": "x", "role": "viewer" })), ("/api/policy/confirm", json!({}))]
    {
        assert_eq!(browser.post(path, body).await.status, 403, "{path}");
    }
    let short = browser.post("/api/users", json!({ "name": "anna", "role": "admin", "password": "short" })).await;
    assert_eq!(short.status, 400);
    // Whoever starts a hub is its admin, whatever their page says.
    let made = browser.post("/api/users", json!({ "name": "anna", "role": "viewer", "password": PASSWORD })).await;
    assert_eq!((made.status, &made.body["role"]), (200, &json!("admin")), "{made:?}");
    assert_eq!(made.body["link"], Value::Null);
    let who = browser.get("/api/session").await.body;
    assert_eq!((&who["user"], &who["welcome"]), (&json!("anna"), &Value::Null), "signed in");
    assert!(who["rights"].as_array().is_some_and(|rights| rights.contains(&json!("approve"))), "{who}");
    let second = browser.post("/api/users", json!({ "name": "bert", "role": "viewer" })).await;
    assert_eq!(second.status, 200);
    hub.restart(&[]).await;
    assert_eq!(welcome(&hub), None);
    Browser::new(&hub).sign_in("anna").await;
}

#[tokio::test]
async fn a_welcome_is_over_once_somebody_else_has_made_a_user() {
    let hub = TestHub::start().await;
    let link = welcome(&hub).expect("there is no user");
    let mut browser = Browser::new(&hub);
    assert_eq!(browser.post("/api/session/link", json!({ "secret": link })).await.status, 200);
    add_user(&hub, "anna", "admin", json!({})).await;
    let late = browser.post("/api/users", json!({ "name": "eve", "role": "admin", "password": PASSWORD })).await;
    assert_eq!(late.status, 401, "{late:?}");
}

#[tokio::test]
async fn a_new_user_comes_by_a_link_and_sets_a_password() {
    let hub = TestHub::start().await;
    let added = hub.post("/api/users", json!({ "name": "anna", "role": "operator" })).await;
    assert_eq!((added.status, &added.body["has_password"]), (200, &json!(false)), "{added:?}");
    let link = added.body["link"].as_str().expect("a link").to_owned();
    assert!(link.starts_with(&format!("http://localhost:{}/welcome#cvl_", hub.hub().listen.port())), "{link}");
    let taken = hub.post("/api/users", json!({ "name": "anna", "role": "viewer" })).await;
    assert_eq!((taken.status, &taken.body["error"]["code"]), (409, &json!("conflict")));
    assert_eq!(
        hub.post("/api/users", json!({ "name": "operator", "role": "viewer" })).await.status,
        409,
        "a token's"
    );
    let none = Browser::new(&hub).post("/api/session", json!({ "user": "anna", "password": "" })).await;
    assert_eq!(none.status, 401, "who has no password does not sign in with one");
    let newer = hub.post("/api/users/anna/link", json!({})).await.body["link"].clone();
    let mut anna = Browser::new(&hub);
    assert_eq!(anna.post("/api/session/link", json!({ "secret": link })).await.status, 401, "void by the newer");
    let opened = anna.post("/api/session/link", json!({ "secret": newer })).await;
    assert_eq!((opened.status, &opened.body["user"]), (200, &json!("anna")), "{opened:?}");
    let set = anna.ask("PATCH", "/api/users/anna", Some(json!({ "password": PASSWORD }))).await;
    assert_eq!((set.status, &set.body["has_password"]), (200, &json!(true)), "{set:?}");
    assert_eq!(anna.get("/api/session").await.status, 200, "this session stays");
    Browser::new(&hub).sign_in("anna").await;
    let wider = anna.ask("PATCH", "/api/users/anna", Some(json!({ "role": "admin" }))).await;
    assert_eq!(wider.status, 403, "only the password is theirs to change");
    let all = json!(hub.journal("").await).to_string();
    assert!(!all.contains("cvl_") && !all.contains("horse"), "no secret is recorded");
}

#[tokio::test]
async fn another_password_or_role_ends_what_went_on_with_the_old() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "operator", json!({})).await;
    let mut other = Browser::new(&hub);
    other.sign_in("anna").await;
    let changed = anna.ask("PATCH", "/api/users/anna", Some(json!({ "password": "another password" }))).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    assert_eq!((anna.get("/api/session").await.status, other.get("/api/session").await.status), (200, 401));
    let narrowed = json!({ "role": "viewer", "scopes": { "agents": ["lab-*"] } });
    assert_eq!(hub.request("PATCH", "/api/users/anna", Some(TOKEN), Some(narrowed)).await.status, 200);
    let who = anna.get("/api/session").await.body;
    assert_eq!((&who["role"], &who["scopes"]["agents"]), (&json!("viewer"), &json!(["lab-*"])));
    let reset = json!({ "password": PASSWORD });
    assert_eq!(hub.request("PATCH", "/api/users/anna", Some(TOKEN), Some(reset)).await.status, 200);
    assert_eq!(anna.get("/api/session").await.status, 401, "somebody else set it");
}

#[tokio::test]
async fn a_removed_user_is_gone_with_sessions_and_tokens() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "admin", json!({ "approve": true })).await;
    let minted = anna.post("/api/tokens", json!({ "name": "bot", "role": "operator" })).await;
    assert_eq!(minted.status, 200, "{minted:?}");
    let bot = minted.body["token"].as_str().expect("a token").to_owned();
    let listed = hub.get("/api/tokens").await.body["tokens"].clone();
    let listed = listed.as_array().expect("a list").iter().find(|t| t["name"] == "bot").expect("there").clone();
    assert_eq!(listed["owner"], "anna", "it belongs to who made it");
    let for_bert = anna.post("/api/tokens", json!({ "name": "b", "role": "viewer", "owner": "bert" })).await;
    assert_eq!(for_bert.status, 403);
    assert_eq!(anna.ask("DELETE", "/api/users/anna", None).await.status, 409, "the last one who can let anyone in");
    assert_eq!(hub.request("DELETE", "/api/users/anna", Some(TOKEN), None).await.status, 200);
    assert_eq!(anna.get("/api/session").await.status, 401);
    assert_eq!(hub.request("GET", "/api/agents", Some(&bot), None).await.status, 401);
    assert_eq!(hub.get("/api/users").await.body["users"], json!([]));
    assert_eq!(hub.request("DELETE", "/api/users/anna", Some(TOKEN), None).await.status, 404);
}

#[tokio::test]
async fn nobody_gets_the_right_to_approve_by_making_or_taking_over_a_user() {
    let hub = TestHub::start().await;
    let mut plain = signed_in(&hub, "plain", "admin", json!({})).await;
    add_user(&hub, "boss", "viewer", json!({ "approve": true })).await;
    let approver = json!({ "name": "x", "role": "viewer", "scopes": { "approve": true } });
    assert_eq!(plain.post("/api/users", approver.clone()).await.status, 403);
    assert_eq!(plain.post("/api/users/boss/link", json!({})).await.status, 403);
    let widen = |scopes: Value| json!({ "scopes": scopes });
    let own = widen(json!({ "approve": true }));
    assert_eq!(plain.ask("PATCH", "/api/users/plain", Some(own)).await.status, 403);
    let password = json!({ "password": PASSWORD });
    assert_eq!(plain.ask("PATCH", "/api/users/boss", Some(password)).await.status, 403);
    // A token of one person's makes nobody who could say yes to that person.
    let scopes = json!({ "approve": true });
    let body = json!({ "name": "hers", "role": "admin", "scopes": scopes, "owner": "anna" });
    let hers = hub.post("/api/tokens", body).await.body["token"].as_str().expect("a token").to_owned();
    assert_eq!(hub.post_as(&hers, "/api/users", approver).await.status, 403);
    assert_eq!(hub.post_as(&hers, "/api/users/boss/link", json!({})).await.status, 403);
    step_down(&hub, "plain");
    assert_eq!(plain.post("/api/users/boss/link", json!({})).await.body["error"]["code"], "step_up");
}
