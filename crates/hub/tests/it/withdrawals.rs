//! What is withdrawn while the disk takes nothing: in force at once, told by `/readyz`, and written when there is space.

use std::collections::BTreeSet;
use std::process::Command;

use convoke_store::PasskeyRow;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::people::{Browser, PASSWORD, add_user, signed_in, step_down};
use crate::rooms::Key;
use crate::support::{TOKEN, TestHub};

/// No file of this process may be written: whoever tries is told so, as on a full disk.
struct FullDisk {
    /// For as long as somebody listens, the signal does not end the process.
    _ignored: Signal,
}

impl FullDisk {
    fn begin() -> Self {
        // SIGXFSZ
        let ignored = signal(SignalKind::from_raw(25)).expect("a signal");
        limit("0");
        Self { _ignored: ignored }
    }
}

impl Drop for FullDisk {
    fn drop(&mut self) {
        limit("unlimited");
    }
}

fn limit(most: &str) {
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &std::process::id().to_string(), &format!("--fsize={most}:unlimited")]);
    assert!(prlimit.status().expect("prlimit runs").success());
}

/// What looks like a withdrawal and is none.
const OTHERS: [(&str, &str); 5] = [
    // Who asked takes back a call that waits: nobody may do less.
    ("DELETE", "/api/calls/{id}"),
    // These lift a restriction.
    ("DELETE", "/api/policy/rules/{rule}"),
    ("DELETE", "/api/policy/confirm/{id}"),
    ("DELETE", "/api/users/{name}/totp"),
    // Nothing of it is stored.
    ("DELETE", "/mcp"),
];

/// What withdraws something with some bodies, and something else with others.
const SOMETIMES: [(&str, &str); 5] = [
    // Paused, not gone on with.
    ("PATCH", "/api/tokens/{id}"),
    // A lesser role.
    ("PATCH", "/api/users/{name}"),
    // Less than before.
    ("PATCH", "/api/rooms/{room}/grants/{participant}"),
    // One that is new refuses more; one that is replaced may refuse less.
    ("POST", "/api/policy/rules"),
    ("POST", "/api/policy/confirm"),
];

/// The doors that withdraw something, by their method and name.
fn doors(hub: &TestHub) -> BTreeSet<(String, String)> {
    let doors = convoke_hub::doors(hub.hub());
    let withdraws = |method: &str, path: &str| {
        method == "DELETE" || ["/revoke", "/kick", "/end", "/lock", "/split"].iter().any(|end| path.ends_with(end))
    };
    let named = doors.list().iter().map(|door| (door.method.as_str().to_owned(), door.path.to_owned()));
    let is = |list: &[(&str, &str)], (m, p): &(String, String)| list.contains(&(m.as_str(), p.as_str()));
    named.filter(|door| is(&SOMETIMES, door) || withdraws(&door.0, &door.1) && !is(&OTHERS, door)).collect()
}

async fn listed(hub: &TestHub, path: &str, list: &str, name: &str, value: &str) -> Option<Value> {
    let body = hub.get(path).await.body;
    let all = body[list].as_array().unwrap_or_else(|| panic!("{body}")).clone();
    all.into_iter().find(|item| item[name] == value)
}

/// What holds once all of it is withdrawn, before it is stored and after.
async fn assert_in_force(hub: &TestHub, token: &str, assistant: &str, cookies: &[Option<String>]) {
    assert_eq!(hub.request("GET", "/api/hub", Some(token), None).await.status, 401);
    assert_eq!(hub.request("POST", "/mcp", Some(assistant), Some(json!({}))).await.status, 403);
    for cookie in cookies {
        let mut browser = Browser::new(hub);
        browser.cookie.clone_from(cookie);
        assert_eq!(browser.get("/api/session").await.status, 401);
    }
    assert_eq!(listed(hub, "/api/users", "users", "name", "emil").await, None);
    assert_eq!(listed(hub, "/api/users", "users", "name", "boris").await.expect("there")["role"], "viewer");
    assert_eq!(hub.get("/api/users/boris/passkeys").await.body["passkeys"], json!([]));
    assert_eq!(hub.get("/api/grants").await.body["grants"], json!([]));
    assert_eq!(hub.get("/api/notices?user=boris").await.body["channels"], json!([]));
    assert_eq!(hub.get("/api/rules").await.body["rules"], json!([]));
    let test = json!({ "agent": "pc-3", "tool": "shell_exec", "args": { "command": "reboot" } });
    assert_eq!(hub.post("/api/policy/test", test).await.body["rule"], "no-reboot");
    let test = json!({ "agent": "pc-3", "tool": "shell_exec", "args": { "command": "uptime" } });
    assert_eq!(hub.post("/api/policy/test", test).await.body["rule"], "ask-first");
    assert_eq!(hub.get("/api/agents/pc-1").await.body["trust"], "revoked");
    assert_ne!(hub.get("/api/agents/pc-2").await.body["trust"], "trusted");
    assert_eq!(hub.get("/api/agents/pc-3").await.body["tunnels"], Value::Null);
    assert_eq!(hub.get("/api/yonexus/clients/client-1").await.body["trust"], "revoked");
    assert_ne!(hub.get("/api/yonexus/clients/client-2").await.body["trust"], "trusted");
    assert_eq!(hub.get("/api/rooms/gone").await.status, 404);
    let room = hub.get("/api/rooms/lab").await.body;
    assert_eq!(room["agent_keys"].as_array().map(Vec::len), Some(2), "{room}");
    let people = room["participants"].as_array().expect("a list");
    assert_eq!(people.iter().filter(|person| person["kicked"] == true).count(), 1, "{room}");
    assert!(people.iter().any(|p| p["grant"]["explicit"] == true && p["grant"]["perceive"] == json!([])), "{room}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_full_disk_every_withdrawal_is_in_force_and_it_is_stored_when_there_is_space() {
    let mut hub = TestHub::start().await;
    let token = hub.token("spare", "viewer", json!({})).await;
    let assistant = hub.token("assistant", "operator", json!({ "doors": ["mcp"] })).await;
    let id_of = async |name: &str| {
        let found = listed(&hub, "/api/tokens", "tokens", "name", name).await.expect("there");
        format!("/api/tokens/{}", found["id"].as_str().expect("an id"))
    };
    let (token_path, assistant_path) = (id_of("spare").await, id_of("assistant").await);
    add_user(&hub, "boris", "operator", json!({})).await;
    let mut carla = signed_in(&hub, "carla", "admin", json!({ "approve": true })).await;
    let ended = signed_in(&hub, "dora", "viewer", json!({})).await;
    let session = listed(&hub, "/api/sessions", "sessions", "user", "dora").await.expect("there");
    let removed = signed_in(&hub, "emil", "viewer", json!({})).await;
    let (_revoked, _removed, _other_pc) = (hub.agent("pc-1").await, hub.agent("pc-2").await, hub.agent("pc-3").await);
    let sonde = crate::sonde::enrolled(&hub, "web-1").await;
    let joined = hub.post("/api/agents/pc-3/join", json!({ "tunnel": "web-1" })).await;
    assert_eq!(joined.status, 200, "{joined:?}");
    let (_client, _other) = (hub.live("client-1").await, hub.live("client-2").await);
    let keys: Vec<Value> = (0..3).map(|_| json!({ "key": Key::new().jwk() })).collect();
    for body in [json!({ "name": "lab", "agent_keys": keys }), json!({ "name": "gone" })] {
        assert_eq!(hub.post("/api/rooms", body).await.status, 200);
    }
    let boris = hub.hub().operators.people.find("boris").expect("there").principal.id;
    let passkey = PasskeyRow {
        id: "key-1".into(),
        user: boris,
        name: "laptop".into(),
        body: "{}".into(),
        created_at: convoke_gate::clock::now(),
    };
    hub.hub().store.put_passkey(passkey.clone(), None).await.expect("keeps");
    hub.hub().operators.people.put_passkey(passkey);
    let room = hub.get("/api/rooms/lab").await.body;
    let participant = |at: usize| room["agent_keys"][at]["participant"].as_str().expect("an id").to_owned();
    let key = room["agent_keys"][2]["thumbprint"].as_str().expect("a text");

    let grant = json!({ "assistant": "assistant", "tool": "net_config", "agent": "pc-1", "for_s": 600 });
    let grant = hub.post("/api/grants", grant).await;
    assert_eq!(grant.status, 200, "{grant:?}");
    let grant = format!("/api/grants/{}", grant.body["id"].as_str().expect("an id"));

    let channel = json!({ "kind": "ntfy", "url": "https://ntfy.example/alarms", "user": "boris" });
    let channel = hub.post("/api/notices", channel).await;
    assert_eq!(channel.status, 200, "{channel:?}");
    let channel = format!("/api/notices/{}", channel.body["id"].as_str().expect("an id"));
    assert_eq!(hub.post("/api/rules", json!({ "rule": "chat", "target": { "inbox": {} } })).await.status, 200);

    let full = FullDisk::begin();
    assert_eq!(hub.post("/api/rooms", json!({ "name": "new" })).await.status, 503);
    // Whoever must show who they are first can.
    step_down(&hub, "carla");
    assert_eq!(carla.ask("DELETE", "/api/users/emil", None).await.status, 403);
    assert_eq!(carla.post("/api/session/step-up", json!({ "password": PASSWORD })).await.status, 200);
    let empty = json!({ "perceive": [], "act": [] });
    let mut done = BTreeSet::new();
    for (method, door, path, body) in [
        ("DELETE", "/api/users/{name}", "/api/users/emil".to_owned(), json!({})),
        ("DELETE", "/api/session", "/api/session".to_owned(), json!({})),
    ] {
        let reply = carla.ask(method, &path, Some(body)).await;
        assert_eq!((reply.status, &reply.body["stored"]), (200, &json!(false)), "{door} {reply:?}");
        done.insert((method.to_owned(), door.to_owned()));
    }
    for (method, door, path, body) in [
        // First: it also ends with the assistant's right.
        ("DELETE", "/api/grants/{id}", grant, json!({})),
        ("DELETE", "/api/tokens/{id}", token_path, json!({})),
        ("PATCH", "/api/tokens/{id}", assistant_path, json!({ "paused": true })),
        ("PATCH", "/api/users/{name}", "/api/users/boris".into(), json!({ "role": "viewer" })),
        (
            "DELETE",
            "/api/sessions/{id}",
            format!("/api/sessions/{}", session["id"].as_str().expect("an id")),
            json!({}),
        ),
        ("DELETE", "/api/users/{name}/passkeys/{key}", "/api/users/boris/passkeys/key-1".into(), json!({})),
        ("POST", "/api/agents/{id}/split", "/api/agents/pc-3/split".into(), json!({})),
        ("DELETE", "/api/notices/{id}", channel, json!({})),
        ("DELETE", "/api/rules/{rule}", "/api/rules/chat".into(), json!({})),
        (
            "POST",
            "/api/policy/rules",
            "/api/policy/rules".into(),
            json!({ "id": "no-reboot", "applies_to": "posix", "pattern": "\\breboot\\b", "reason": "not now" }),
        ),
        (
            "POST",
            "/api/policy/confirm",
            "/api/policy/confirm".into(),
            json!({ "id": "ask-first", "tools": ["shell_exec"] }),
        ),
        ("POST", "/api/agents/{id}/revoke", "/api/agents/pc-1/revoke".into(), json!({})),
        ("DELETE", "/api/agents/{id}", "/api/agents/pc-2".into(), json!({})),
        (
            "POST",
            "/api/yonexus/clients/{identifier}/revoke",
            "/api/yonexus/clients/client-1/revoke".into(),
            json!({}),
        ),
        ("DELETE", "/api/yonexus/clients/{identifier}", "/api/yonexus/clients/client-2".into(), json!({})),
        ("POST", "/api/rooms/{room}/kick", "/api/rooms/lab/kick".into(), json!({ "participant": participant(0) })),
        (
            "PATCH",
            "/api/rooms/{room}/grants/{participant}",
            format!("/api/rooms/lab/grants/{}", participant(1)),
            empty.clone(),
        ),
        ("DELETE", "/api/rooms/{room}/keys/{key}", format!("/api/rooms/lab/keys/{key}"), json!({})),
        (
            "DELETE",
            "/api/rooms/{room}/invites/{invite}",
            format!("/api/rooms/lab/invites/{}", "0".repeat(64)),
            json!({}),
        ),
        ("DELETE", "/api/rooms/{room}", "/api/rooms/gone".into(), json!({})),
    ] {
        let reply = hub.request(method, &path, Some(TOKEN), Some(body)).await;
        assert_eq!((reply.status, &reply.body["stored"]), (200, &json!(false)), "{method} {door} {reply:?}");
        done.insert((method.to_owned(), door.to_owned()));
    }
    let untried: Vec<_> = doors(&hub).difference(&done).cloned().collect();
    assert!(untried.is_empty(), "a door that withdraws is tried here, or named among those that do not: {untried:?}");
    let cookies = [ended.cookie.clone(), removed.cookie.clone()];
    assert_in_force(&hub, &token, &assistant, &cookies).await;
    let ready = hub.get("/readyz").await;
    assert_eq!(ready.status, 503);
    assert!(ready.body["why"].as_str().is_some_and(|why| why.contains("withdrawals")), "{ready:?}");

    drop(full);
    hub.until("/readyz", |ready| ready["status"] == "ready").await;
    assert_in_force(&hub, &token, &assistant, &cookies).await;
    drop((carla, ended, removed, sonde));
    hub.restart(&[]).await;
    assert_in_force(&hub, &token, &assistant, &cookies).await;
    let records = hub.journal("kind=token").await;
    let revoked = records.iter().filter(|r| r["kind"] == "token" && r["detail"]["what"] == "revoked").count();
    assert_eq!(revoked, 1, "and the journal has it once");
}
