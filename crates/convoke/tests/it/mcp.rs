//! `convoke mcp`, as a client that only speaks standard input and output meets it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Agent, Done, Hub};

/// Only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bridge that runs.
pub(crate) struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl Bridge {
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().expect("runs");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (to, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let message = serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line}"));
                if to.send(message).is_err() {
                    return;
                }
            }
        });
        Self { stdin: child.stdin.take(), child, lines }
    }

    fn of(hub: &Hub) -> Self {
        Self::start(&mut hub.verb(&["mcp"]))
    }

    fn say(&mut self, message: &Value) {
        self.line(&message.to_string());
    }

    fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{line}").and_then(|()| stdin.flush()).expect("written");
    }

    #[track_caller]
    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("a message")
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        let answer = self.next();
        assert_eq!(answer["id"], message["id"], "{answer}");
        answer
    }

    /// Opens a session with the server of this name.
    pub(crate) fn open(&mut self, server: &str, capabilities: Value) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": { "name": "test", "version": "1" } });
        let opened = self.ask(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        assert_eq!(opened["result"]["serverInfo"]["name"], server, "{opened}");
        self.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    }

    pub(crate) fn end(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().expect("ends").success());
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn call(id: u32, tool: &str, args: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": tool, "arguments": args } })
}

/// The same of the revision without sessions.
fn inline(mut message: Value) -> Value {
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    message
}

#[test]
fn a_client_of_either_revision_reaches_the_fleet() {
    let hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let mut bridge = Bridge::of(&hub);
    bridge.open("convoke", json!({}));
    let listed = bridge.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    assert!(listed["result"]["tools"].as_array().is_some_and(|t| t.len() > 25), "{listed}");
    bridge.ask(&call(2, "select_agent", json!({ "id": "pc-1" })));
    let done = bridge.ask(&call(3, "fs_list", json!({ "path": "/tmp" })));
    assert_eq!(done["result"]["structuredContent"]["state"], "done", "{done}");
    assert_eq!(agent.asked(), ("fs_list".into(), json!({ "path": "/tmp" })), "the session is kept");
    bridge.end();

    let mut bridge = Bridge::of(&hub);
    let found =
        bridge.ask(&inline(json!({ "jsonrpc": "2.0", "id": "a", "method": "server/discover", "params": {} })));
    assert_eq!(found["result"]["capabilities"]["tools"], json!({ "listChanged": true }), "{found}");
    let done = bridge.ask(&inline(call(3, "fs_list", json!({ "agent": "pc-1", "path": "/x" }))));
    assert_eq!(done["result"]["structuredContent"]["agent"], "pc-1", "{done}");
    bridge.line("{ not json");
    assert_eq!(bridge.next()["error"]["code"], -32700);
    bridge.line("");
    let refused = bridge.ask(&inline(call(4, "no_such_tool", json!({}))));
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    bridge.end();
}

/// The raw client of `docs/mcp.md`, as it is printed there.
#[test]
fn the_raw_client_of_the_documentation_works() {
    use std::io::Read as _;
    let hub = Hub::start();
    let _agent = Agent::join(&hub, "pc-1");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mcp.md")).expect("the page");
    let command = page.split("curl -sS http://127.0.0.1:7410/mcp").nth(1).expect("a command");
    let (flags, rest) = command.split_once("-d '").expect("a body");
    let body = rest.split('\'').next().expect("an end");
    let quoted = flags.split("-H '").skip(1).filter_map(|part| part.split('\'').next());
    let token = hub.ready["operator_token"].as_str().expect("a token");
    let address = hub.http().trim_start_matches("http://").to_owned();
    let mut head = format!("POST /mcp HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n");
    head.push_str(&format!("Authorization: Bearer {token}\r\nContent-Length: {}\r\n", body.len()));
    quoted.for_each(|header| head.push_str(&format!("{header}\r\n")));
    let mut socket = std::net::TcpStream::connect(&address).expect("connects");
    socket.write_all(format!("{head}\r\n{body}").as_bytes()).expect("written");
    let mut answer = String::new();
    socket.read_to_string(&mut answer).expect("read");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"pc-1\""), "{answer}");
}

#[test]
fn questions_of_the_hub_come_through_and_so_do_their_answers() {
    let hub = Hub::start_with(&["--set", "approvals.elicitation=true"]);
    let agent = Agent::join(&hub, "pc-1");
    let mut bridge = Bridge::of(&hub);
    bridge.open("convoke", json!({ "elicitation": {} }));
    bridge.say(&call(1, "shell_exec", json!({ "agent": "pc-1", "command": "uptime" })));
    let asked = bridge.next();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    let yes = json!({ "action": "accept", "content": { "approve": true } });
    bridge.say(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes }));
    let done = bridge.next();
    assert_eq!(done["result"]["structuredContent"]["result"]["stdout"], "ran uptime\n", "{done}");
    assert_eq!(agent.asked().0, "shell_exec");
    bridge.end();
}

#[test]
fn however_many_requests_wait_answers_and_cancellations_come_through() {
    const MANY: u32 = 70;
    let hub = Hub::start_with(&["--set", "approvals.elicitation=true"]);
    let _agent = Agent::join(&hub, "pc-1");
    let mut bridge = Bridge::of(&hub);
    bridge.open("convoke", json!({ "elicitation": {} }));
    let shell = json!({ "agent": "pc-1", "command": "uptime" });
    // More than are under way at once, each with a question that waits for the client.
    for id in 1..=MANY {
        bridge.say(&call(id, "shell_exec", shell.clone()));
    }
    let given_up = json!({ "requestId": MANY, "reason": "changed its mind" });
    bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up }));
    bridge.say(&json!({ "jsonrpc": "2.0", "id": "still there", "method": "ping" }));
    let (mut ended, mut pinged) = (std::collections::BTreeSet::new(), false);
    while ended.len() < MANY as usize - 1 {
        let heard = bridge.next();
        match heard["method"].as_str() {
            Some("elicitation/create") => {
                bridge.say(&json!({ "jsonrpc": "2.0", "id": heard["id"], "result": { "action": "decline" } }));
            }
            Some(_) => {}
            None if heard["id"] == "still there" => pinged = true,
            None => {
                assert_eq!(heard["result"]["structuredContent"]["error"]["code"], "rejected", "{heard}");
                ended.insert(heard["id"].as_u64().expect("a number"));
            }
        }
    }
    assert!(pinged && !ended.contains(&u64::from(MANY)), "{ended:?}");
    bridge.end();
}

/// A call that waits for an answer of the client's.
fn waiting_call(bridge: &mut Bridge) -> Value {
    bridge.open("convoke", json!({ "elicitation": {} }));
    bridge.say(&call(1, "shell_exec", json!({ "agent": "pc-1", "command": "uptime" })));
    let asked = bridge.next();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    asked
}

#[test]
fn a_request_that_was_cancelled_gets_no_answer() {
    let hub = Hub::start_with(&["--set", "approvals.elicitation=true"]);
    let _agent = Agent::join(&hub, "pc-1");
    let mut bridge = Bridge::of(&hub);
    waiting_call(&mut bridge);
    let given_up = json!({ "requestId": 1, "reason": "changed its mind" });
    bridge.say(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up }));
    drop(bridge.stdin.take());
    // Whatever it still says: it says nothing more when it has ended.
    let rest: Vec<Value> = bridge.lines.iter().collect();
    assert!(rest.iter().all(|message| message.get("id").is_none()), "{rest:?}");
    bridge.end();
}

#[test]
fn a_token_that_is_revoked_during_a_call_is_named_as_the_reason() {
    let hub = Hub::start_with(&["--set", "approvals.elicitation=true"]);
    let _agent = Agent::join(&hub, "pc-1");
    let minted = hub.run(&["tokens", "create", "short", "--role", "operator"]).ok();
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
    command.args(["mcp", "--hub", hub.http(), "--token", minted.stdout.trim()]);
    let mut bridge = Bridge::start(&mut command);
    waiting_call(&mut bridge);
    hub.run(&["tokens", "revoke", "short"]).ok();
    let told = std::iter::from_fn(|| Some(bridge.next())).find(|m| m["id"] == 1).expect("an answer");
    assert_eq!(told["error"]["code"], -32001, "{told}");
    assert!(told["error"]["message"].as_str().is_some_and(|m| m.contains("was revoked or has expired")), "{told}");
    bridge.end();
}

#[test]
fn what_stands_in_the_way_is_said_clearly() {
    let hub = Hub::start();
    let mut stranger = Command::new(env!("CARGO_BIN_EXE_convoke"));
    stranger.args(["mcp", "--hub", hub.http(), "--token", "wrong"]);
    let mut bridge = Bridge::start(&mut stranger);
    let refused = bridge.ask(&inline(call(1, "list_agents", json!({}))));
    assert!(refused["error"]["message"].as_str().is_some_and(|m| m.contains("refuses this token")), "{refused}");
    bridge.end();

    let viewer = hub.run(&["tokens", "create", "viewer", "--role", "viewer"]).ok();
    let mut viewing = Command::new(env!("CARGO_BIN_EXE_convoke"));
    viewing.args(["mcp", "--hub", hub.http(), "--token", viewer.stdout.trim()]);
    let mut bridge = Bridge::start(&mut viewing);
    let refused = bridge.ask(&inline(call(2, "shell_exec", json!({ "agent": "x", "command": "uptime" }))));
    assert_eq!(refused["error"]["data"]["scope"], "manage", "the hub's own words: {refused}");
    bridge.end();

    let mut bridge = Bridge::of(&hub);
    bridge.open("convoke", json!({}));
    let _dir = hub.stop();
    let away = bridge.ask(&call(3, "list_agents", json!({})));
    assert_eq!(away["error"]["code"], -32000, "{away}");
    assert!(away["error"]["message"].as_str().is_some_and(|m| m.contains("no hub runs in")), "{away}");
    bridge.end();
}

/// An address that stays while the hub behind it changes.
struct Relay {
    address: String,
    to: std::sync::Arc<std::sync::Mutex<String>>,
}

impl Relay {
    fn to(hub: &Hub) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let to = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
        let relay = Self { address, to: std::sync::Arc::clone(&to) };
        relay.now_to(hub);
        // It ends with the process of this test.
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = std::net::TcpStream::connect(to.lock().expect("not poisoned").as_str());
                let Ok(far) = far else { continue };
                let pair = |a: &std::net::TcpStream, b: &std::net::TcpStream| {
                    let (mut from, mut to) = (a.try_clone().expect("a handle"), b.try_clone().expect("a handle"));
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(std::net::Shutdown::Both);
                    });
                };
                pair(&near, &far);
                pair(&far, &near);
            }
        });
        relay
    }

    fn now_to(&self, hub: &Hub) {
        *self.to.lock().expect("not poisoned") = hub.http().trim_start_matches("http://").to_owned();
    }
}

#[test]
fn a_bridge_to_the_hub_of_a_directory_finds_it_there_and_nobody_else() {
    let mut hub = Hub::start();
    let mut bridge = Bridge::start(&mut hub.verb(&["mcp"]));
    bridge.open("convoke", json!({}));
    let somebody = hub.kill_and_take_port();
    let list = |id: u64| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" });
    let gone = bridge.ask(&list(1));
    assert!(gone["error"]["message"].as_str().is_some_and(|why| why.contains("no hub runs in")), "{gone}");
    // At another port.
    let _hub = hub.restart_killed();
    assert!(bridge.ask(&list(2))["result"]["tools"].is_array());
    bridge.end();
    assert!(somebody.accept().is_err(), "who has the dead hub's port was asked");
}

#[test]
fn a_hub_that_was_restarted_is_found_again_with_a_session_and_what_it_was_asked_to_tell() {
    let mut hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let relay = Relay::to(&hub);
    let token = hub.ready["operator_token"].as_str().expect("a token").to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
    command.args(["mcp", "--hub", &relay.address, "--token", &token]);
    let mut bridge = Bridge::start(&mut command);
    bridge.open("convoke", json!({}));
    bridge.ask(&call(1, "select_agent", json!({ "id": "pc-1" })));
    let subscribe = json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/subscribe",
        "params": { "uri": "convoke://journal" } });
    assert_eq!(bridge.ask(&subscribe)["result"], json!({}));
    drop(agent);
    // Killed, not stopped: nobody tells the bridge anything.
    hub.server.signal("KILL");
    assert!(!hub.server.end().success());
    let hub = hub.restart_killed();
    relay.now_to(&hub);
    // Many at once find the session gone; all are answered, and one session takes its place.
    for id in 10..20 {
        bridge.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/list" }));
    }
    let mut answered: Vec<u64> = Vec::new();
    while answered.len() < 10 {
        let answer = bridge.next();
        if answer["id"].is_u64() {
            assert!(answer["result"]["tools"].is_array(), "{answer}");
            answered.push(answer["id"].as_u64().expect("a number"));
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, (10..20).collect::<Vec<_>>());
    // What was selected is gone with the session: a call that relied on it is refused, not sent elsewhere.
    bridge.say(&call(30, "shell_exec", json!({ "command": "uptime" })));
    let unsure = std::iter::from_fn(|| Some(bridge.next())).find(|m| m["id"] == 30).expect("an answer");
    assert_eq!(unsure["result"]["structuredContent"]["error"]["code"], "agent_required", "{unsure}");
    // Something is recorded: the client hears of it, as it had asked before the restart.
    hub.run(&["tokens", "create", "another", "--role", "viewer"]).ok();
    let news = bridge.next();
    assert_eq!(news["method"], "notifications/resources/updated", "{news}");
    assert_eq!(news["params"]["uri"], "convoke://journal");
    bridge.end();
}

/// The verb with a home of its own.
fn install(hub: &Hub, args: &[&str]) -> Done {
    let home = hub.beside("home");
    std::fs::create_dir_all(&home).expect("made");
    let mut command = hub.verb(&["mcp", "install"]);
    Done::of(command.args(args).env("HOME", &home).env("XDG_CONFIG_HOME", home.join(".config")))
}

#[cfg(target_os = "linux")]
#[test]
fn an_assistants_configuration_is_written_after_it_was_shown() {
    use std::os::unix::fs::PermissionsExt as _;
    let hub = Hub::start();
    for (assistant, file) in [
        ("claude", ".config/Claude/claude_desktop_config.json"),
        ("claude-code", ".claude.json"),
        ("cursor", ".cursor/mcp.json"),
        ("vscode", ".config/Code/User/mcp.json"),
        ("zed", ".config/zed/settings.json"),
    ] {
        let file = hub.beside("home").join(file);
        install(&hub, &[assistant, "--dry-run"]).ok().notes("cvk_...").notes(hub.http());
        install(&hub, &[assistant]).code(2).notes("--yes");
        assert!(!file.exists(), "{assistant} was only looked at");
        install(&hub, &[assistant, "--yes"]).ok().says("written");
        let text = std::fs::read_to_string(&file).expect("written");
        assert!(text.contains("cvk_") && !text.contains("cvk_..."), "{text}");
        assert_eq!(std::fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
        // Again: another token in place of the first.
        install(&hub, &[assistant, "--yes"]).ok().notes("in place of the one").says(&format!("{assistant}-2"));
    }
    let listed = hub.run(&["tokens", "list", "--json"]).ok().json();
    let of = |name: &str| {
        let tokens = listed["tokens"].as_array().expect("a list");
        tokens.iter().find(|token| token["name"] == name).expect("listed").clone()
    };
    assert_eq!(of("cursor")["scopes"]["doors"], serde_json::json!(["mcp"]));
    std::fs::write(hub.beside("home/.cursor/mcp.json"), "{ // mine\n}").expect("written");
    install(&hub, &["cursor", "--yes"]).code(2).notes("not plain JSON");
}
