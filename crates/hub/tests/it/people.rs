//! People: signing in, sessions, users, and whose page a change comes from.

mod approving;
mod grants;
mod inbox;
mod notices;
mod opening;
mod passkeys;
mod users;

use convoke_core::grant::Right;
use convoke_core::time::Timestamp;
use serde_json::{Value, json};

use crate::support::{Reply, TestHub};

pub const PASSWORD: &str = "correct horse battery";

/// A browser: it keeps the session's cookie, and says whose page asks.
pub struct Browser<'a> {
    pub hub: &'a TestHub,
    pub cookie: Option<String>,
    pub site: Option<(&'static str, String)>,
    pub host: Option<String>,
}

impl<'a> Browser<'a> {
    pub fn new(hub: &'a TestHub) -> Self {
        Self { hub, cookie: None, site: Some(("sec-fetch-site", "same-origin".into())), host: None }
    }

    pub async fn ask(&mut self, method: &str, path: &str, body: Option<Value>) -> Reply {
        let url = format!("{}{path}", self.hub.http);
        let mut request = self.hub.http_client.request(method.parse().expect("a method"), url);
        if let Some(cookie) = &self.cookie {
            request = request.header("cookie", format!("other=1; {cookie}"));
        }
        if let Some(host) = &self.host {
            request = request.header("host", host);
        }
        if let Some((name, value)) = &self.site {
            request = request.header(*name, value);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let reply = request.send().await.expect("the hub answers");
        for set in reply.headers().get_all("set-cookie") {
            let set = set.to_str().expect("text");
            assert!(set.contains("; HttpOnly; SameSite=Lax"), "{set}");
            let pair = set.split(';').next().expect("a pair");
            self.cookie = (!pair.ends_with('=')).then(|| pair.to_owned());
        }
        let status = reply.status().as_u16();
        let text = reply.text().await.expect("a body");
        Reply { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        self.ask("GET", path, None).await
    }

    pub async fn post(&mut self, path: &str, body: Value) -> Reply {
        self.ask("POST", path, Some(body)).await
    }

    pub async fn sign_in(&mut self, user: &str) {
        let reply = self.post("/api/session", json!({ "user": user, "password": PASSWORD })).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
}

/// Adds a user with a password.
pub async fn add_user(hub: &TestHub, name: &str, role: &str, scopes: Value) {
    let body = json!({ "name": name, "role": role, "scopes": scopes, "password": PASSWORD });
    let reply = hub.post("/api/users", body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// A browser in which a new user is signed in.
pub async fn signed_in<'a>(hub: &'a TestHub, name: &str, role: &str, scopes: Value) -> Browser<'a> {
    add_user(hub, name, role, scopes).await;
    let mut browser = Browser::new(hub);
    browser.sign_in(name).await;
    browser
}

/// What somebody showed last was shown six minutes ago.
pub fn step_down(hub: &TestHub, user: &str) {
    let people = &hub.hub().operators.people;
    let id = people.find(user).expect("there").principal.id;
    for session in people.sessions(Some(id), convoke_gate::clock::now()) {
        let now = convoke_gate::clock::now();
        let mut row = convoke_gate::people::People::another_cookie(&session, false, None, now).row;
        row.stepped_up_at = Timestamp::from_millis(now.millis() - 360_000);
        people.renew(&session, &row, now);
    }
}

#[tokio::test]
async fn a_person_signs_in_is_known_and_signs_out() {
    let hub = TestHub::start().await;
    add_user(&hub, "anna", "admin", json!({ "approve": true })).await;
    let mut browser = Browser::new(&hub);
    assert_eq!(browser.get("/api/session").await.status, 401);
    let signed_in = browser.post("/api/session", json!({ "user": "anna", "password": PASSWORD })).await;
    assert_eq!(signed_in.status, 200, "{signed_in:?}");
    let cookie = browser.cookie.clone().expect("a cookie");
    assert!(cookie.starts_with("convoke=cvs_"), "{cookie}");
    let who = browser.get("/api/session").await.body;
    assert_eq!((&who["user"], &who["role"]), (&json!("anna"), &json!("admin")));
    assert_eq!(who["rights"], json!(["view", "call", "approve", "policy", "tokens", "users", "trust"]));
    assert_eq!(browser.get("/api/agents").await.status, 200);
    let by_token = hub.get("/api/session").await.body;
    assert_eq!((&by_token["user"], &by_token["session"]), (&json!("operator"), &Value::Null));
    assert_eq!(browser.ask("DELETE", "/api/session", None).await.status, 200);
    assert_eq!(browser.cookie, None, "the browser forgets it");
    browser.cookie = Some(cookie);
    assert_eq!(browser.get("/api/session").await.status, 401, "and the hub does not know it any more");
    let records = hub.journal("kind=auth").await;
    let whats: Vec<_> = records.iter().map(|r| (&r["who"], &r["detail"]["what"], &r["door"])).collect();
    let page = json!("page");
    assert_eq!(whats, [(&json!("anna"), &json!("signed in"), &page), (&json!("anna"), &json!("signed out"), &page)]);
    let all = json!(hub.journal("").await).to_string();
    assert!(!all.contains("cvs_") && !all.contains("horse") && !all.contains("argon2"), "no secret is recorded");
}

#[tokio::test]
async fn wrong_names_and_passwords_look_alike_and_are_slowed_but_no_session_is() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "viewer", json!({})).await;
    let mut stranger = Browser::new(&hub);
    let wrong = stranger.post("/api/session", json!({ "user": "anna", "password": "wrong" })).await;
    let nobody = stranger.post("/api/session", json!({ "user": "nobody", "password": "wrong" })).await;
    assert_eq!((wrong.status, nobody.status), (401, 401));
    assert_eq!(wrong.body["error"]["message"], nobody.body["error"]["message"]);
    let mut last = 0;
    for _ in 0..10 {
        last = stranger.post("/api/session", json!({ "user": "anna", "password": "wrong" })).await.status;
    }
    assert_eq!(last, 429);
    let right = stranger.post("/api/session", json!({ "user": "anna", "password": PASSWORD })).await;
    assert_eq!(right.status, 429, "nor is the right one listened to from there");
    assert_eq!(anna.get("/api/session").await.status, 200);
    assert_eq!(hub.get("/api/agents").await.status, 200, "a token is not refused because of passwords");
}

#[tokio::test]
async fn with_a_cookie_a_change_comes_from_the_hubs_own_page() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "admin", json!({ "approve": true })).await;
    let port = hub.hub().listen.port();
    for (site, status) in [
        (Some(("sec-fetch-site", "same-origin".to_owned())), 200),
        (Some(("origin", hub.http.clone())), 200),
        (None, 403),
        (Some(("sec-fetch-site", "same-site".to_owned())), 403),
        (Some(("sec-fetch-site", "none".to_owned())), 403),
        (Some(("sec-fetch-site", "cross-site".to_owned())), 403),
        (Some(("origin", hub.http.replace("http:", "https:"))), 403),
        (Some(("origin", format!("http://localhost:{port}"))), 403),
        (Some(("origin", hub.http.replace(&format!(":{port}"), ":1"))), 403),
    ] {
        anna.site.clone_from(&site);
        let rule = json!({ "id": "x", "effects": ["manage"] });
        let changed = anna.post("/api/policy/confirm", rule).await;
        assert_eq!(changed.status, status, "{site:?} {changed:?}");
        if status != 200 {
            assert_eq!(changed.body["error"]["code"], "wrong_origin", "{site:?}");
        }
    }
    anna.site = None;
    assert_eq!(anna.get("/api/agents").await.status, 200, "looking changes nothing");
    // A socket is a change: who has one asks for what it likes.
    let socket = async |site: Option<&str>| {
        let mut request = hub.http_client.get(format!("{}/rooms/lab/ws", hub.http));
        request = request.header("cookie", anna.cookie.clone().expect("a cookie"));
        request = request.header("connection", "upgrade").header("upgrade", "websocket");
        request =
            request.header("sec-websocket-version", "13").header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
        if let Some(site) = site {
            request = request.header("sec-fetch-site", site);
        }
        request.send().await.expect("answers").status().as_u16()
    };
    assert_eq!(socket(None).await, 403);
    assert_eq!(socket(Some("same-site")).await, 403);
    assert_ne!(socket(Some("same-origin")).await, 403);
    // Nor does a foreign page sign its reader in as somebody else.
    let mut foreign = Browser { site: Some(("sec-fetch-site", "cross-site".into())), ..Browser::new(&hub) };
    let refused = foreign.post("/api/session", json!({ "user": "anna", "password": PASSWORD })).await;
    assert_eq!((refused.status, foreign.cookie.is_none()), (403, true), "{refused:?}");
}

#[tokio::test]
async fn a_cookie_is_no_way_into_the_door_of_assistants() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "admin", json!({})).await;
    assert_eq!(anna.post("/mcp", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).await.status, 401);
}

#[tokio::test]
async fn sessions_are_listed_revoked_and_survive_a_restart() {
    let mut hub = TestHub::start().await;
    add_user(&hub, "anna", "viewer", json!({})).await;
    let (cookie, other) = {
        let mut anna = Browser::new(&hub);
        anna.sign_in("anna").await;
        let mut other = Browser::new(&hub);
        other.sign_in("anna").await;
        let mut bert = signed_in(&hub, "bert", "viewer", json!({})).await;
        let listed = anna.get("/api/sessions").await.body;
        let listed = listed["sessions"].as_array().expect("a list");
        assert_eq!(listed.len(), 2, "{listed:?}");
        let current: Vec<_> = listed.iter().map(|s| s["current"] == true).collect();
        assert_eq!(current, [true, false]);
        let second = format!("/api/sessions/{}", listed[1]["id"].as_str().expect("an id"));
        assert_eq!(bert.ask("DELETE", &second, None).await.status, 404, "not his");
        assert_eq!(bert.get("/api/sessions?user=anna").await.status, 403);
        assert_eq!(hub.get("/api/sessions").await.body["sessions"].as_array().map(Vec::len), Some(3));
        assert_eq!(anna.ask("DELETE", &second, None).await.status, 200);
        assert_eq!(other.get("/api/session").await.status, 401);
        (anna.cookie, other.cookie)
    };
    hub.restart(&[]).await;
    let mut anna = Browser { cookie, ..Browser::new(&hub) };
    assert_eq!(anna.get("/api/session").await.body["user"], "anna");
    let mut other = Browser { cookie: other, ..Browser::new(&hub) };
    assert_eq!(other.get("/api/session").await.status, 401);
}

#[tokio::test]
async fn a_session_that_ends_takes_its_streams_along() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "viewer", json!({})).await;
    let open = async |anna: &Browser<'_>| {
        let request = hub.http_client.get(format!("{}/api/events", hub.http));
        let request = request.header("cookie", anna.cookie.clone().expect("a cookie"));
        let reply = request.header("accept", "text/event-stream").send().await.expect("answers");
        assert_eq!(reply.status(), 200);
        reply
    };
    let (stream, other) = (open(&anna).await, {
        let mut other = Browser::new(&hub);
        other.sign_in("anna").await;
        other
    });
    assert_eq!(anna.ask("DELETE", "/api/session", None).await.status, 200);
    stream.text().await.expect("it ends");
    // What the other session opens from now on goes on.
    let mut again = open(&other).await;
    add_user(&hub, "bert", "viewer", json!({})).await;
    assert_eq!(hub.post("/api/policy/confirm", json!({ "id": "x" })).await.status, 200);
    let mut heard = String::new();
    while !heard.contains("event: policy") {
        let chunk = again.chunk().await.expect("goes on").expect("there is more");
        heard.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(!heard.contains("event: user"), "others' matters are for who may change users: {heard}");
}

#[tokio::test]
async fn what_is_grave_needs_a_step_up_at_every_door() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "admin", json!({ "approve": true })).await;
    step_down(&hub, "anna");
    let mut tried = 0;
    for door in convoke_hub::doors(hub.hub()).list() {
        use Right::{Policy, Tokens, Trust, Users, Withdraw};
        let is_grave = matches!(door.right, Policy | Tokens | Trust | Users | Withdraw);
        if !is_grave || door.method == "GET" {
            continue;
        }
        let path = crate::doors::fill(door.path);
        let reply = anna.ask(door.method.as_str(), &path, Some(json!({}))).await;
        let error = &reply.body["error"];
        // Sonde's own doors say it in words.
        let is_it = error["code"] == "step_up" || error.as_str().is_some_and(|text| text.contains("password"));
        assert!(reply.status == 403 && is_it, "{door:?} {reply:?}");
        tried += 1;
    }
    assert!(tried > 20, "{tried}");
    let change = json!({ "password": "another password" });
    assert_eq!(anna.ask("PATCH", "/api/users/anna", Some(change)).await.body["error"]["code"], "step_up");
    let rule = json!({ "id": "x", "effects": ["manage"] });
    let wrong = anna.post("/api/session/step-up", json!({ "password": "wrong" })).await;
    assert_eq!(wrong.status, 401);
    assert_eq!(anna.post("/api/policy/confirm", rule.clone()).await.status, 403);
    let before = anna.cookie.clone();
    assert_eq!(anna.post("/api/session/step-up", json!({ "password": PASSWORD })).await.status, 200);
    assert_ne!(anna.cookie, before, "with another cookie");
    assert_eq!(anna.post("/api/policy/confirm", rule.clone()).await.status, 200);
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200, "a token needs none");
    let with_token = hub.post("/api/session/step-up", json!({ "password": PASSWORD })).await;
    assert_eq!(with_token.status, 400);
}
