//! What is shared out: neighbours of somebody who guesses, floods or holds what there is go on.

use std::collections::BTreeSet;

use convoke_core::grant::Right;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::doors::fill;
use crate::people::{Browser, PASSWORD, add_user};
use crate::sonde;
use crate::support::{TOKEN, TestAgent, TestHub, key_of};

/// Whatever this address may do wrong, it has done, at every door.
async fn exhaust(hub: &TestHub) {
    for n in 0..15 {
        let wrong = format!("cvk_wrong-{n}");
        hub.request("GET", "/api/agents", Some(&wrong), None).await;
        hub.request("POST", "/mcp", Some(&wrong), Some(json!({}))).await;
        hub.enrol_with("pc", "cve_wrong", &key_of("pc")).await;
        assert!(sonde::knock(hub, Some("cvs_wrong"), "").await.is_err());
        let mut browser = Browser::new(hub);
        browser.post("/api/session/link", json!({ "secret": wrong })).await;
        browser.post("/api/session", json!({ "user": wrong, "password": "wrong" })).await;
    }
    for n in 0..70 {
        hub.request("GET", &format!("/rooms/nowhere-{n}/ws"), None, None).await;
        let mut stranger = hub.client(&format!("nobody-{n}")).await;
        stranger.hello().await;
        stranger.next().await;
    }
}

#[tokio::test]
async fn a_valid_credential_is_good_at_every_door_whatever_its_neighbours_tried() {
    let mut hub = TestHub::start().await;
    let key = hub.enrol("pc").await;
    let secret = hub.pair("client-a").await;
    let enrolment = hub.post("/api/agents/new/token", json!({})).await.body["token"].clone();
    let sonde_token = sonde::token(&hub).await;
    add_user(&hub, "anna", "viewer", json!({})).await;
    assert_eq!(hub.post("/api/rooms", json!({ "name": "lab", "open": true })).await.status, 200);
    // Nothing is known of who worked from where.
    hub.restart(&[]).await;
    exhaust(&hub).await;
    let again = hub.request("GET", "/api/agents", Some("cvk_wrong"), None).await;
    assert_eq!(again.status, 429, "it is slowed");
    for door in convoke_hub::doors(hub.hub()).list() {
        // The upgrades and the one-time ones follow; streams do not end.
        let is_other = matches!(door.right, Right::Public | Right::OwnCredential | Right::Guest | Right::SignIn);
        if is_other || (door.method == "GET" && ["/api/events", "/mcp"].contains(&door.path)) {
            continue;
        }
        // Of things that are not there, so that nothing changes.
        let path = fill(door.path).replace("/pc", "/nobody").replace("/lab", "/nowhere");
        let reply = hub.request(door.method.as_str(), &path, Some(TOKEN), Some(json!({}))).await;
        assert_ne!(reply.status, 429, "{door:?} {reply:?}");
        assert_ne!(reply.status, 401, "{door:?} {reply:?}");
    }
    let enrolled = hub.enrol_with("new", enrolment.as_str().expect("a token"), &key_of("new")).await;
    assert_eq!(enrolled.status, 200, "{enrolled:?}");
    let _agent = hub.connect("pc", key).await;
    let _client = hub.enter("client-a", secret).await;
    let _box = sonde::join(&hub, &sonde_token, &sonde::field_register("box")).await;
    let url = format!("{}/rooms/lab/ws", hub.http.replace("http://", "ws://"));
    tokio_tungstenite::connect_async(url).await.expect("the room's door is open");
    let mut anna = Browser::new(&hub);
    let signed_in = anna.post("/api/session", json!({ "user": "anna", "password": PASSWORD })).await;
    assert_eq!(signed_in.status, 200, "nobody has guessed at this one: {signed_in:?}");
    let link = hub.post("/api/users/anna/link", json!({})).await.body["link"].clone();
    let by_link = Browser::new(&hub).post("/api/session/link", json!({ "secret": link })).await;
    assert_eq!(by_link.status, 200, "{by_link:?}");
}

#[tokio::test]
async fn one_address_does_not_hold_all_connections() {
    let hub = TestHub::with(&[("hub.max_connections", "32")]).await;
    let address = hub.http.trim_start_matches("http://").to_owned();
    let mut idle = Vec::new();
    for _ in 0..64 {
        idle.push(TcpStream::connect(&address).await.expect("the system takes it"));
    }
    // Another address of this machine is another address.
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.2:0".parse().expect("an address")).expect("is this machine's");
    let mut other = socket.connect(address.parse().expect("an address")).await.expect("connects");
    other.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await.expect("writes");
    let mut answer = String::new();
    other.read_to_string(&mut answer).await.expect("is answered");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(idle);
}

#[tokio::test]
async fn refusals_of_a_known_caller_are_recorded_up_to_a_number_and_counted_beyond_it() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let narrow = hub.token("narrow", "viewer", json!({ "agents": ["elsewhere"], "calls_per_minute": 1 })).await;
    for _ in 0..200 {
        assert_eq!(hub.request("GET", "/api/agents/pc", Some(&narrow), None).await.status, 403);
    }
    let records = hub.journal("kind=refusal").await;
    assert_eq!(records.iter().filter(|record| record["who"] == "narrow").count(), 120);
    let counted = hub.hub().refusals.drain(convoke_gate::clock::now());
    let detail: Vec<Value> = counted
        .iter()
        .map(|draft| serde_json::from_str(draft.detail.as_ref().expect("one").get()).expect("JSON"))
        .collect();
    assert_eq!(detail, [json!({ "what": "further refusals", "count": 80 })]);
}

/// Whether a page is no larger than it may be: what the store answers at once, and one item more.
fn assert_bounded(path: &str, page: &Value) {
    let size = page.to_string().len();
    assert!(size < (2 << 20), "{path}: {size} bytes");
}

/// The lists with pages, by the document of the API.
async fn lists(hub: &TestHub) -> BTreeSet<String> {
    let document = hub.get("/api/openapi.json").await.body;
    let paths = document["paths"].as_object().expect("paths").iter();
    let has_limit = |operation: &Value| {
        operation["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == "limit"))
    };
    paths.filter(|(_, path)| has_limit(&path["get"])).map(|(path, _)| path.clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_page_is_bounded_in_bytes_and_leads_to_the_next() {
    let hub = TestHub::start().await;
    let long: Vec<String> = (0..100).map(|n| format!("{n:0>128}")).collect();
    let scopes = json!({ "agents": long, "tags": long, "tools": long });
    for n in 0..40 {
        hub.token(&format!("token-{n:02}"), "viewer", scopes.clone()).await;
        let user = json!({ "name": format!("user-{n:02}"), "role": "viewer", "scopes": scopes });
        assert_eq!(hub.post("/api/users", user).await.status, 200);
    }
    // Arguments whose names are long are what a viewer may put into the journal.
    hub.enrol("pc").await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    for n in 0..20 {
        let name = format!("{n}{}", "x".repeat(900_000));
        let call = json!({ "tool": "fs_read", "args": { "path": "/etc/hostname", name: 1 } });
        hub.post_as(&viewer, "/api/agents/pc/call", call).await;
    }
    let journal = hub.get("/api/journal?limit=1000").await.body;
    let records = journal["records"].as_array().expect("a list");
    assert!(records.iter().all(|record| record.to_string().len() < 128 << 10), "every record is bounded");
    for path in lists(&hub).await {
        // An export is a stream, and no page.
        if path.contains('{') || path.starts_with("/api/export/") {
            continue;
        }
        let mut after: Option<String> = None;
        let mut pages = 0;
        loop {
            let query = after.as_ref().map(|after| format!("&after={after}")).unwrap_or_default();
            let page = hub.get(&format!("{path}?limit=1000{query}")).await;
            // Some want to be told more.
            if page.status == 400 {
                break;
            }
            assert_eq!(page.status, 200, "{path} {page:?}");
            assert_bounded(&path, &page.body);
            pages += 1;
            let next = match &page.body["next"] {
                Value::Null => break,
                Value::String(text) => text.clone(),
                number => number.to_string(),
            };
            assert_ne!(Some(&next), after.as_ref(), "{path} goes on");
            after = Some(next);
        }
        if ["/api/tokens", "/api/users"].contains(&path.as_str()) {
            assert!(pages > 1, "{path}");
        }
    }
}

#[tokio::test]
async fn who_may_not_do_everything_grants_nothing_and_sees_no_room_out_of_reach() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    assert_eq!(hub.post("/api/rooms", json!({ "name": "lab", "open": true })).await.status, 200);
    hub.rule("post", json!({ "room": { "room": "lab" } })).await;
    let looks = hub.token("looks", "admin", json!({ "effects": ["observe"] })).await;
    let ask = async |token: &str, method: &str, path: &str, body: Value| {
        hub.request(method, path, Some(token), Some(body)).await
    };
    for (method, path, body) in [
        ("PATCH", "/api/agents/pc", json!({ "tags": ["prod"] })),
        ("POST", "/api/agents/pc/rotate-key", json!({})),
        ("POST", "/api/agents/new/token", json!({})),
        ("POST", "/api/rooms/lab/invites", json!({ "name": "anna" })),
    ] {
        let reply = ask(&looks, method, path, body).await;
        assert_eq!(reply.status, 403, "{path} {reply:?}");
        assert!(reply.body["error"]["message"].as_str().is_some_and(|why| why.contains("effects")), "{reply:?}");
    }
    let elsewhere = hub.token("elsewhere", "viewer", json!({ "agents": ["pc"] })).await;
    let tested = ask(&elsewhere, "POST", "/api/rules/post/test", json!({ "content": "x" })).await;
    assert_eq!((tested.status, tested.body.to_string().contains("lab")), (200, false), "{tested:?}");
    let listed = ask(&elsewhere, "GET", "/api/rules", json!({})).await;
    assert!(!listed.body.to_string().contains("lab"), "{listed:?}");
    let own = hub.token("own", "viewer", json!({ "agents": ["room:*"] })).await;
    let tested = ask(&own, "POST", "/api/rules/post/test", json!({ "content": "x" })).await;
    assert_eq!(tested.body["target"]["room"]["room"], "lab", "{tested:?}");
    assert_eq!(ask(&looks, "POST", "/api/agents/pc/revoke", json!({})).await.status, 200, "what withdraws it may");
}

#[tokio::test]
async fn nobody_is_asked_about_what_cannot_be_done() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let rule = json!({ "id": "all", "effects": ["observe", "interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    for (tool, args, told) in [
        ("fs_write", json!({ "path": "/x" }), "`fs_list`"),
        ("fs_list", json!({}), "fs_list needs path"),
        ("fs_list", json!({ "path": "/", "depth": 2 }), "takes only path"),
        ("account_create", json!({ "name": "x", "password": "y" }), "protocol 0.15"),
    ] {
        let reply = hub.post("/api/agents/pc/call", json!({ "tool": tool, "args": args })).await;
        let message = reply.body["error"]["message"].as_str().unwrap_or_default();
        assert!(reply.status == 400 && message.contains(told), "{tool} {reply:?}");
    }
    let fits = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list", "args": { "path": "/" } })).await;
    assert_eq!(fits.status, 202, "{fits:?}");
    // An agent of the contract's version on Linux runs commands under another name, at whatever door it is called.
    let mut old = TestAgent::open(&hub, "old", hub.enrol("old").await).await;
    old.handshake_with(r#""features":["shell_exec"]"#, r#""features":[]"#).await.expect("let in");
    hub.until("/api/agents/old", |agent| agent["online"] == true).await;
    let shell = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    let reply = hub.post("/api/agents/old/call", shell).await;
    assert!(reply.status == 400 && reply.body.to_string().contains("use `powershell_exec`"), "{reply:?}");
    let client = crate::mcp::client::Mcp::stateless(&hub, TOKEN);
    let answer = client.call("shell_exec", json!({ "agent": "old", "command": "uptime" })).await;
    assert!(answer.text().contains("use `powershell_exec`"), "{answer:?}");
}

#[tokio::test]
async fn a_decision_that_comes_too_late_is_no_refusal_in_the_journal() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let rule = json!({ "id": "all", "effects": ["observe", "interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let asker = hub.token("asker", "operator", json!({})).await;
    let call = json!({ "tool": "fs_list", "args": { "path": "/" } });
    let asked = hub.post_as(&asker, "/api/agents/pc/call", call).await;
    let path = format!("/api/approvals/{}", asked.body["approval"]["id"].as_str().expect("an id"));
    let decide = json!({ "approve": true });
    let (first, second) = (hub.post(&path, decide.clone()).await, hub.post(&path, decide).await);
    assert_eq!((first.status, second.status), (200, 409), "{second:?}");
    let records = hub.journal("kind=approval").await;
    assert!(records.iter().all(|record| record["decision"] != "denied"), "{records:?}");
}
