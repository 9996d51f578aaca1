//! The endpoint's own policy: the same cases through every protocol that it speaks. Both hubs here are scripted and ask
//! for everything, as a hub without a guard does.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use convoke_endpoint::RemoteControl;
use convoke_endpoint::policy::Policy;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use crate::kenny::{Endpoint, Kenny, Peer, soon};
use crate::sonde::while_running_with;

/// What an agent answers, whatever the protocol.
#[derive(Clone, Debug, PartialEq)]
enum Answer {
    Done,
    SwitchedOff,
    /// By this rule.
    Blocked(String),
    Other(String),
}
use Answer::{Blocked, Done, Other, SwitchedOff};

/// A Sonde hub's end of a tunnel.
struct SondePeer(WebSocketStream<TcpStream>);

impl SondePeer {
    async fn accept(listener: &TcpListener) -> Self {
        let (io, _) = soon("a connection", listener.accept()).await.expect("accepts");
        let mut peer = Self(tokio_tungstenite::accept_async(io).await.expect("upgrades"));
        assert_eq!(peer.next().await["type"], "agent.register");
        peer.send("hub.ack", &json!({ "agentId": "x" })).await;
        peer
    }

    async fn next(&mut self) -> Value {
        loop {
            let message = soon("a frame", self.0.next()).await.expect("the tunnel lives").expect("a message");
            if let Message::Text(text) = message {
                let frame: Value = serde_json::from_str(&text).expect("JSON");
                if frame["type"] != "agent.heartbeat" {
                    return frame;
                }
            }
        }
    }

    async fn send(&mut self, kind: &str, payload: &Value) {
        let frame = json!({ "id": Uuid::new_v4(), "type": kind, "signature": "",
            "timestamp": "2026-01-02T03:04:05Z", "payload": payload });
        self.0.send(Message::text(frame.to_string())).await.expect("sends");
    }

    async fn probe(&mut self, probe: &str, params: &Value) -> Value {
        let request = json!({ "probe": probe, "params": params, "timeout": 30_000, "requestedBy": "api",
            "requestId": Uuid::new_v4() });
        self.send("probe.request", &request).await;
        let answer = self.next().await["payload"].clone();
        assert_eq!(answer["requestId"], request["requestId"], "{answer}");
        answer
    }

    async fn answer(&mut self, probe: &str, params: &Value) -> Answer {
        let answer = self.probe(probe, params).await;
        let message = answer["data"]["error"].as_str().unwrap_or_default();
        match (answer["status"].as_str(), rule(message)) {
            (Some("success"), _) => Done,
            (Some("unauthorized"), Some(rule)) => Blocked(rule),
            (Some("unauthorized"), None) if message.contains("switched off") => SwitchedOff,
            _ => Other(answer.to_string()),
        }
    }
}

async fn kenny_answer(peer: &mut Peer, tool: &str, args: &Value) -> Answer {
    let answer = peer.call(tool, args.clone()).await;
    let message = answer["error"]["message"].as_str().unwrap_or_default();
    match (answer["error"]["code"].as_str(), rule(message)) {
        (None, _) if answer["ok"] == true && answer["result"]["status"] != "error" => Done,
        (Some("blocked"), Some(rule)) => Blocked(rule),
        (Some("disabled"), None) => SwitchedOff,
        _ => Other(answer.to_string()),
    }
}

/// The rule that a refusal names.
fn rule(message: &str) -> Option<String> {
    let (_, rule) = message.strip_prefix("refused by agent safety policy: ")?.rsplit_once("(rule ")?;
    Some(rule.strip_suffix(')')?.to_owned())
}

/// A pack whose programs note that they ran.
fn write_pack(endpoint: &Endpoint, sonde_hub: &TcpListener) {
    let dir = endpoint.dir();
    let program = |name: &str| {
        let path = dir.join(name);
        let script = format!("#!/bin/sh\necho \"{name} $*\" >> '{}'\necho '{{}}'\n", dir.join("ran").display());
        std::fs::write(&path, script).expect("writes");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).expect("sets");
        path.display().to_string()
    };
    let text = |format: &str| json!({ "type": "string", "required": true, "format": format });
    let probe = |name: &str, capability: &str, params: Value, command: Value| {
        json!({ "name": name, "description": "d", "capability": capability, "params": params,
            "run": { "command": command } })
    };
    let (note, rm, cat) = (program("note"), program("rm"), program("cat"));
    let probes = [
        probe("look", "observe", json!({ "file": text("path") }), json!([note, "{file}"])),
        probe("key", "observe", json!({ "name": text("name") }), json!([note, "--file=/etc/{name}"])),
        probe("fixed", "observe", json!({}), json!([cat, "/etc/shadow"])),
        probe("inner", "observe", json!({}), json!([note, "-c", "cat /etc/shadow"])),
        probe(
            "default",
            "observe",
            json!({ "file": { "type": "string", "format": "path", "default": "/srv/web/.ssh/id_rsa" } }),
            json!([note, "{file}"]),
        ),
        probe("note", "manage", json!({ "word": text("name") }), json!([note, "{word}"])),
        probe("remove", "manage", json!({ "from": text("path") }), json!([rm, "-rf", "{from}"])),
        probe("more", "interact", json!({}), json!([note])),
    ];
    let pack = json!({ "name": "mine", "version": "1.0.0", "description": "d", "probes": probes });
    let packs = endpoint.state.path().join("packs");
    std::fs::create_dir(&packs).expect("makes");
    std::fs::write(packs.join("mine.json"), pack.to_string()).expect("writes");
    let saved = json!({ "hub": format!("ws://{}/ws/agent", sonde_hub.local_addr().expect("bound")), "name": "web-1",
        "agent_id": "x", "api_key": "k", "allowed": { "ceiling": "manage", "log_dirs": [dir] } });
    std::fs::write(endpoint.state.path().join("sonde.json"), saved.to_string()).expect("writes");
}

fn ran(dir: &Path) -> String {
    std::fs::read_to_string(dir.join("ran")).unwrap_or_default()
}

/// One case: whether it changes the machine, the rule that it hits, and how each protocol asks for it.
struct Case {
    changes: bool,
    rule: Option<&'static str>,
    kenny: (&'static str, Value),
    sonde: (&'static str, Value),
}

fn cases(dir: &Path) -> Vec<Case> {
    let file = |name: &str| dir.join(name).display().to_string();
    let case = |changes, rule, kenny, sonde| Case { changes, rule, kenny, sonde };
    let shell = |command: &str| ("shell_exec", json!({ "command": command }));
    let read = |path: &str| ("fs_read", json!({ "path": path }));
    let tail = |path: &str| ("system.logs.tail", json!({ "path": path }));
    vec![
        case(false, None, read(&file("good.log")), tail(&file("good.log"))),
        case(false, Some("path_shadow"), read("/etc/shadow"), tail("/etc/shadow")),
        case(false, Some("path_private_key"), read(&file("server.key")), tail(&file("server.key"))),
        case(false, Some("path_id_rsa"), read(&file("id_rsa")), ("mine.look", json!({ "file": file("id_rsa") }))),
        case(false, Some("no_secret_log"), read(&file("secret.log")), tail(&file("secret.log"))),
        case(true, None, shell("true"), ("mine.note", json!({ "word": "fine" }))),
        case(true, Some("posix_rm_rf_root"), shell("rm -rf /"), ("mine.remove", json!({ "from": "/" }))),
        case(true, Some("no_forbidden"), shell("echo forbidden"), ("mine.note", json!({ "word": "forbidden" }))),
    ]
}

#[tokio::test]
async fn every_protocol_meets_the_same_kill_switch_and_the_same_rules() {
    let (kenny, sonde_hub) = (Kenny::start().await, TcpListener::bind("127.0.0.1:0").await.expect("binds"));
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key).set("probe_ceiling", "manage");
    write_pack(&endpoint, &sonde_hub);
    for name in ["good.log", "server.key", "id_rsa", "secret.log"] {
        std::fs::write(endpoint.dir().join(name), "a line\n").expect("writes");
    }
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    // What the kenny hub sends counts for both.
    let rule = |id: &str, group: &str, pattern: &str| json!({ "id": id, "applies_to": group, "pattern": pattern, "reason": "no" });
    let rules = [rule("no_secret_log", "path", "secret\\.log$"), rule("no_forbidden", "posix", "\\bforbidden\\b")];
    peer.send(json!({ "type": "policy", "rules": rules })).await;
    // A round trip: the rules are in force.
    assert_eq!(kenny_answer(&mut peer, "fs_list", &json!({ "path": "/" })).await, Done);
    while_running_with(&endpoint.policy, &endpoint.state, async {
        let mut probes = SondePeer::accept(&sonde_hub).await;
        for switch in [RemoteControl::Enabled, RemoteControl::Disabled] {
            endpoint.switch().set(switch).expect("set");
            for Case { changes, rule, kenny: (tool, args), sonde: (probe, params) } in cases(endpoint.dir()) {
                let expect = match rule {
                    _ if changes && !switch.is_enabled() => SwitchedOff,
                    Some(rule) => Blocked(rule.into()),
                    None => Done,
                };
                assert_eq!(kenny_answer(&mut peer, tool, &args).await, expect, "{switch:?}: {tool} {args}");
                assert_eq!(probes.answer(probe, &params).await, expect, "{switch:?}: {probe} {params}");
                // The same probe over the other tunnel.
                let wrapped = json!({ "probe": probe, "params": params });
                let answer = kenny_answer(&mut peer, "probe_run", &wrapped).await;
                assert_eq!(answer, expect, "{switch:?}: {wrapped}");
            }
        }
        assert_eq!(ran(endpoint.dir()), "note fine\nnote fine\n", "nothing that was refused ran");
        // As soon as the hub takes its rules back, they hold for neither.
        endpoint.switch().set(RemoteControl::Enabled).expect("set");
        peer.send(json!({ "type": "policy", "rules": [] })).await;
        assert_eq!(kenny_answer(&mut peer, "fs_list", &json!({ "path": "/" })).await, Done);
        assert_eq!(probes.answer("mine.note", &json!({ "word": "forbidden" })).await, Done);
    })
    .await;
    agent.stop().await;
}

#[tokio::test]
async fn what_a_kenny_hub_sent_refuses_probes_after_a_restart_before_that_hub_is_back() {
    let (kenny, sonde_hub) = (Kenny::start().await, TcpListener::bind("127.0.0.1:0").await.expect("binds"));
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    write_pack(&endpoint, &sonde_hub);
    let agent = endpoint.run();
    let mut peer = kenny.let_in().await;
    let rule = json!({ "id": "no_forbidden", "applies_to": "posix", "pattern": "\\bforbidden\\b", "reason": "no" });
    peer.send(json!({ "type": "policy", "rules": [rule] })).await;
    // A round trip: the rule is in force.
    assert_eq!(kenny_answer(&mut peer, "fs_list", &json!({ "path": "/" })).await, Done);
    agent.stop().await;
    let kept = endpoint.state.path().join("deny-rules.json");
    assert_eq!(kept.metadata().expect("kept").permissions().mode() & 0o777, 0o600);
    while_running_with(&Policy::new(&endpoint.state), &endpoint.state, async {
        let mut probes = SondePeer::accept(&sonde_hub).await;
        let refused = probes.answer("mine.note", &json!({ "word": "forbidden" })).await;
        assert_eq!(refused, Blocked("no_forbidden".into()));
        assert_eq!(probes.answer("mine.note", &json!({ "word": "fine" })).await, Done);
    })
    .await;
}

#[tokio::test]
async fn an_owners_pack_meets_the_guard_with_the_command_that_it_would_run() {
    let (kenny, sonde_hub) = (Kenny::start().await, TcpListener::bind("127.0.0.1:0").await.expect("binds"));
    let endpoint = Endpoint::new(&kenny.url(), &kenny.key);
    write_pack(&endpoint, &sonde_hub);
    while_running_with(&endpoint.policy, &endpoint.state, async {
        let mut probes = SondePeer::accept(&sonde_hub).await;
        for (probe, params, rule) in [
            ("mine.key", json!({ "name": "shadow" }), Some("path_shadow")),
            ("mine.key", json!({ "name": "hostname" }), None),
            ("mine.fixed", json!({}), Some("posix_read_shadow")),
            ("mine.inner", json!({}), Some("posix_read_shadow")),
            ("mine.default", json!({}), Some("path_ssh_dir")),
            ("mine.default", json!({ "file": "/etc/hostname" }), None),
        ] {
            let expect = rule.map_or(Done, |rule| Blocked(rule.into()));
            assert_eq!(probes.answer(probe, &params).await, expect, "{probe} {params}");
        }
        // A refusal has the shape of any other answer.
        let refused = probes.probe("mine.look", &json!({ "file": "/srv/web/.ssh/id_rsa" })).await;
        assert_eq!((&refused["probe"], &refused["status"]), (&json!("mine.look"), &json!("unauthorized")));
        assert_eq!(refused["metadata"]["packName"], "mine");
        assert_eq!(refused["metadata"]["capabilityLevel"], "observe");
        // What does not fit the manifest or is not here is refused as before.
        for (probe, params, word) in [
            ("mine.look", json!({ "file": "../x" }), "must be an absolute path"),
            ("mine.look", json!({ "path": "/etc/shadow" }), "there is no parameter"),
            ("mine.gone", json!({}), "Unknown probe"),
        ] {
            let answer = probes.probe(probe, &params).await;
            assert!(answer["status"] == "error" && answer.to_string().contains(word), "{answer}");
        }
        assert_eq!(ran(endpoint.dir()), "note --file=/etc/hostname\nnote /etc/hostname\n");
    })
    .await;
}
