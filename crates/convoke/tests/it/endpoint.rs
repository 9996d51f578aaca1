//! The agent as people run it: real processes at a real hub.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Done, Hub, Server, convoke};

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Asks until it is so. What is waited for happens in another process, so asking again is the event.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "{what}: it never happened");
        std::thread::yield_now();
    }
}

/// An agent's state directory, and the verbs on it.
pub(crate) struct Endpoint {
    state: PathBuf,
}

impl Endpoint {
    pub(crate) fn at(hub: &Hub, name: &str) -> Self {
        Self { state: hub.beside(name) }
    }

    pub(crate) fn verb(&self, args: &[&str]) -> Command {
        let mut command = convoke(["agent"]);
        command.args(args).arg("--state").arg(&self.state);
        command
    }

    #[track_caller]
    pub(crate) fn enrol(&self, hub: &Hub, id: &str) {
        let (token, key) = invitation(hub, id);
        let mut command =
            self.verb(&["enroll", "--id", id, "--hub-key", &key, "--hub", hub.http(), "--token", &token]);
        Done::of(&mut command).ok().says("is enrolled at");
    }

    #[track_caller]
    pub(crate) fn run(&self, more: &[&str]) -> Server {
        Server::start(self.verb(&["run", "--set", "reconnect_max_s=0.5"]).args(more))
    }

    #[track_caller]
    fn ask(&self, args: &[&str]) -> Done {
        Done::of(&mut self.verb(args))
    }
}

fn invitation(hub: &Hub, id: &str) -> (String, String) {
    let token = hub.run(&["enroll-token", id, "--json"]).ok().json();
    let text = |name: &str| token[name].as_str().expect("a text").to_owned();
    (text("token"), text("hub_public_key"))
}

fn shown(hub: &Hub, id: &str) -> Value {
    let done = hub.run(&["agents", "show", id, "--json"]);
    if done.code == Some(0) { done.json() } else { Value::Null }
}

#[track_caller]
pub(crate) fn until_online(hub: &Hub, id: &str) {
    until("the agent is online", || shown(hub, id)["online"] == true);
}

#[test]
fn up_brings_this_machine_along() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut up = Server::start(convoke(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data));
    up.told("convoke call local fs_list");
    up.told("Ctrl-C stops it");
    let verb = |args: &[&str]| Done::of(convoke(args).arg("--data").arg(&data));
    until("the local agent answers", || {
        verb(&["call", "local", "fs_list", "--args", r#"{"path":"/"}"#]).code == Some(0)
    });
    verb(&["call", "local", "fs_list", "--args", r#"{"path":"/"}"#]).ok().says("etc/");
    let status = Done::of(convoke(["agent", "status", "--json", "--state"]).arg(data.join("agent"))).ok().json();
    let pid = status["status"]["pid"].as_u64().expect("a process");
    up.signal("INT");
    assert!(up.end().success());
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "the agent ended with it");

    // The same machine again, without another enrolment; and without it where that is wanted.
    let mut up = Server::start(convoke(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data));
    until("the local agent is back", || verb(&["call", "local", "fs_disk_usage"]).code == Some(0));
    up.signal("TERM");
    assert!(up.end().success());
    let mut bare = Server::start(convoke(["up", "--no-agent", "--listen", "127.0.0.1:0", "--data"]).arg(&data));
    bare.told("Ctrl-C stops it");
    verb(&["call", "local", "fs_disk_usage"]).code(1);
    bare.signal("TERM");
    assert!(bare.end().success());
}

/// Service managers start what they start in `/`, and there a command that forgets where it works works on everything.
#[test]
fn an_agent_that_was_started_in_the_root_runs_commands_elsewhere() {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let mut agent = Server::start(endpoint.verb(&["run"]).current_dir("/"));
    until_online(&hub, "pc-1");
    let pwd = hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"pwd"}"#]).ok();
    pwd.says(&endpoint.state.join("work").display().to_string());
    agent.signal("TERM");
    assert!(agent.end().success());
}

#[test]
fn a_key_that_was_replaced_or_revoked_gives_way_to_a_new_one() {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let fingerprint = || shown(&hub, "pc-1")["key_fingerprint"].clone();
    let first = fingerprint();
    assert!(first.is_string(), "{first}");
    let rotated = hub.run(&["agents", "rotate-key", "pc-1", "--json"]).ok().json();
    let text = |name: &str| rotated[name].as_str().expect("a text").to_owned();
    let (token, key) = (text("token"), text("hub_public_key"));
    let mut rotate =
        endpoint.verb(&["enroll", "--id", "pc-1", "--hub-key", &key, "--hub", hub.http(), "--token", &token]);
    Done::of(&mut rotate).ok().says("is enrolled at");
    let second = fingerprint();
    assert!(second.is_string() && first != second, "the key is another one: {second}");
    hub.run(&["agents", "revoke", "pc-1"]).ok();
    endpoint.enrol(&hub, "pc-1");
    assert!(fingerprint() != second, "a revoked key does not come back");
    let mut agent = endpoint.run(&[]);
    until_online(&hub, "pc-1");
    agent.signal("TERM");
    assert!(agent.end().success());
}

#[test]
fn a_stop_of_up_waits_for_what_its_own_agent_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut up = Server::start(convoke(["up", "--listen", "127.0.0.1:0", "--data"]).arg(&data));
    let verb = |args: &[&str]| {
        let mut command = convoke(args);
        command.arg("--data").arg(&data);
        command
    };
    until("the local agent answers", || Done::of(&mut verb(&["call", "local", "fs_disk_usage"])).code == Some(0));
    // It ends when it is told to.
    let (begun, go) = (dir.path().join("begun"), dir.path().join("go"));
    let command = format!("touch {}; until [ -e {} ]; do sleep 0.05; done; echo done", begun.display(), go.display());
    let args = serde_json::json!({ "command": command }).to_string();
    let mut call = Server::start(&mut verb(&["call", "local", "shell_exec", "--args", &args]));
    until("the command runs", || begun.exists());
    up.signal("TERM");
    up.told("stopping");
    std::fs::write(&go, "").expect("written");
    assert_eq!(call.line(), "done");
    assert!(call.end().success() && up.end().success());
}

#[test]
fn where_there_is_no_agent_nothing_is_paused() {
    let dir = tempfile::tempdir().expect("a directory");
    let pause = || Done::of(convoke(["agent", "pause", "--state"]).arg(dir.path()));
    pause().code(2).notes("no agent is enrolled in");
    // What an enrolment leaves that came to nothing.
    std::fs::write(dir.path().join("agent.key"), "x").expect("written");
    pause().code(2).notes("no agent is enrolled in");
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 1, "nothing was written");
}

#[test]
fn enrol_run_look_pause_and_stop() {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.ask(&["status"]).code(2).notes("no agent state in");
    endpoint.ask(&["run"]).code(2).notes("convoke agent enroll");
    let (token, key) = invitation(&hub, "pc-1");
    let enrol = |token: &str, key: &str| {
        Done::of(&mut endpoint.verb(&[
            "enroll",
            "--id",
            "pc-1",
            "--hub",
            hub.http(),
            "--hub-key",
            key,
            "--token",
            token,
        ]))
    };
    enrol("cve_wrong", &key).code(1).notes("refuses the token");
    enrol(&token, "nonsense").code(2).notes("--hub-key");
    enrol(&token, &key).ok().says("pc-1 is enrolled at ws://");
    enrol(&token, &key).ok();
    endpoint.ask(&["status"]).code(1).says("not running");

    let mut agent = endpoint.run(&[]);
    agent.told("connected");
    until_online(&hub, "pc-1");
    endpoint.ask(&["status"]).ok().says("connected since").says("pc-1");
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"echo hello"}"#]).ok().says("hello");
    // Its commands are not the hub's owner, though they run on the hub's machine.
    let back = format!("'{}' agents list --data '{}'", env!("CARGO_BIN_EXE_convoke"), hub.data().display());
    let call = |command: &str| {
        hub.run(&["call", "pc-1", "shell_exec", "--args", &serde_json::json!({ "command": command }).to_string()])
    };
    call(&format!("{back} 2>&1")).ok().says("inside an agent's command");
    let token = hub.ready["operator_token"].as_str().expect("a token");
    call(&format!("CONVOKE_TOKEN={token} {back}")).ok().says("pc-1");
    until("its log is at the hub", || hub.run(&["logs", "--agent", "pc-1"]).ok().stdout.contains("connected"));
    endpoint.ask(&["logs"]).ok().says("the agent is running");

    endpoint.ask(&["pause"]).ok().says("remote control is off");
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"true"}"#]).code(1).notes("disabled");
    hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/"}"#]).ok();
    until("the hub shows it", || shown(&hub, "pc-1")["remote_control"] == false);
    hub.run(&["agents", "list"]).ok().says("switched off");
    endpoint.run(&[]).told("another agent is running with the state");

    agent.signal("TERM");
    assert!(agent.end().success());
    let mut agent = endpoint.run(&[]);
    agent.told("connected");
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"true"}"#]).code(1).notes("disabled");
    endpoint.ask(&["resume"]).ok();
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"true"}"#]).ok();

    // Killed, it leaves nothing in the way.
    agent.signal("KILL");
    assert!(!agent.end().success());
    endpoint.ask(&["status"]).code(1).says("not running");
    let agent = endpoint.run(&[]);
    agent.told("connected");
}

#[test]
fn the_original_agents_name_and_variables_are_enough() {
    let hub = Hub::start();
    let (token, key) = invitation(&hub, "pc-1");
    let name = hub.beside("kenny-agent");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_convoke"), &name).expect("linked");
    let mut command = Command::new(&name);
    command.env("CONVOKE_AGENT_STATE", hub.beside("state")).stdin(Stdio::null());
    command.env("KENNY_SERVER", format!("{}/agent/ws", hub.http().replace("http", "ws")));
    command.env("KENNY_AGENT_ID", "pc-1").env("KENNY_SERVER_PUBKEY", key).env("KENNY_ENROLL_TOKEN", token);
    let agent = Server::start(&mut command);
    agent.told("enrolled");
    agent.told("connected");
    until_online(&hub, "pc-1");
    hub.run(&["call", "pc-1", "net_config"]).ok();
}

#[test]
fn a_hub_with_another_key_is_not_served() {
    let (hub, impostor) = (Hub::start(), Hub::start());
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let agent = endpoint.run(&["--hub", impostor.http()]);
    let told = agent.told("is not the hub that this agent is enrolled with");
    assert!(!told.contains(" connected "), "{told}");
    let status = endpoint.ask(&["status"]).code(1);
    assert!(status.stdout.contains("could not prove"), "{}", status.stdout);
}

#[test]
fn a_disk_that_takes_nothing_does_not_stop_an_agent() {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    // No file may grow, and the signal that goes with it is ignored: every write fails, as on a full disk.
    let full = |args: &str| {
        let program = env!("CARGO_BIN_EXE_convoke");
        let mut command = Command::new("sh");
        let line =
            format!("trap '' XFSZ; ulimit -f 0; exec {program} agent {args} --state {}", endpoint.state.display());
        command.args(["-c", &line]).stdin(Stdio::null());
        command
    };
    let mut agent = Server::start(&mut full("run"));
    agent.told("connected");
    hub.run(&["call", "pc-1", "fs_list", "--args", r#"{"path":"/"}"#]).ok();
    Done::of(&mut full("pause")).code(1).notes("cannot write");
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"true"}"#]).ok();
    agent.signal("TERM");
    assert!(agent.end().success());
    let fresh = hub.beside("fresh");
    let (token, key) = invitation(&hub, "pc-2");
    let enrol = format!("enroll --id pc-2 --hub {} --token {token} --hub-key {key}", hub.http());
    let line = full(&enrol)
        .get_args()
        .last()
        .expect("a line")
        .to_str()
        .expect("UTF-8")
        .replace(&endpoint.state.display().to_string(), &fresh.display().to_string());
    Done::of(Command::new("sh").args(["-c", &line])).code(1).notes("cannot write");
    // Nothing was lost: the token is still good, for the key that could be kept at last.
    let endpoint = Endpoint { state: fresh };
    let again = ["enroll", "--id", "pc-2", "--hub", hub.http(), "--token", &token, "--hub-key", &key];
    endpoint.ask(&again).ok();
}

/// Starts a program again whenever it ends, as a service manager does; holds it back while it is told to. The program ends
/// when its standard input does, so that nothing needs to be killed.
struct Supervisor {
    shared: Arc<(Mutex<Supervised>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Supervised {
    done: bool,
    held: bool,
    /// How long a version may take to come back that is ordered from the next program to be started.
    trial_s: u32,
    /// There while the program runs.
    stdin: Option<ChildStdin>,
}

impl Supervisor {
    fn start(program: PathBuf, state: PathBuf, trial_s: u32) -> Self {
        let shared: Arc<(Mutex<Supervised>, Condvar)> = Arc::default();
        shared.0.lock().expect("no panic").trial_s = trial_s;
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let (supervised, changed) = &*of_thread;
            loop {
                let now = supervised.lock().expect("no panic");
                let mut now = changed.wait_while(now, |now| now.held && !now.done).expect("no panic");
                if now.done {
                    return;
                }
                let mut command = Command::new(&program);
                command.args(["agent", "run", "--service", "--until-stdin-closes"]);
                command.args(["--set", &format!("update_trial_s={}", now.trial_s)]);
                command.args(["--set", "reconnect_max_s=0.5", "--set", "challenge_timeout_s=1"]);
                command.arg("--state").arg(&state);
                command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
                // A file that was just written is busy for as long as another process holds it; then it is tried again.
                let Ok(mut child) = command.spawn() else { continue };
                now.stdin = child.stdin.take();
                drop(now);
                let _ = child.wait();
                supervised.lock().expect("no panic").stdin = None;
                changed.notify_all();
            }
        });
        Self { shared, thread: Some(thread) }
    }

    fn hold(&self, held: bool) {
        self.shared.0.lock().expect("no panic").held = held;
        self.shared.1.notify_all();
    }

    fn trial_s(&self, trial_s: u32) {
        self.shared.0.lock().expect("no panic").trial_s = trial_s;
    }

    /// Until the program has ended.
    #[track_caller]
    fn ended(&self) {
        let now = self.shared.0.lock().expect("no panic");
        let (now, late) =
            self.shared.1.wait_timeout_while(now, PATIENCE, |now| now.stdin.is_some()).expect("no panic");
        drop(now);
        assert!(!late.timed_out(), "the program does not end");
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if let Ok(mut now) = self.shared.0.lock() {
            now.done = true;
            now.stdin = None;
        }
        self.shared.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn an_update_is_put_in_place_and_undone_when_it_does_not_come_back() {
    let offers = tempfile::tempdir().expect("a directory");
    let hub = Hub::start_with(&["--set", &format!("kenny.update_dir={}", offers.path().display())]);
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let program = hub.beside("convoke");
    std::fs::copy(env!("CARGO_BIN_EXE_convoke"), &program).expect("copied");
    // The same program with something behind its end: another file, another hash, and it runs.
    let offer = |version: &str| {
        let mut bytes = std::fs::read(env!("CARGO_BIN_EXE_convoke")).expect("read");
        bytes.extend_from_slice(version.as_bytes());
        let arch = std::env::consts::ARCH;
        std::fs::write(offers.path().join(format!("kenny-agent-{version}-linux-{arch}")), &bytes).expect("written");
    };
    let has = |version: &str| std::fs::read(&program).is_ok_and(|bytes| bytes.ends_with(version.as_bytes()));
    // The one that shall come back has all the time it needs, and orders the one that cannot, which needs no more than this.
    let supervisor = Supervisor::start(program.clone(), endpoint.state.clone(), 90);
    until_online(&hub, "pc-1");
    supervisor.trial_s(3);

    offer("9.0.0");
    hub.run(&["agents", "update", "pc-1"]).ok().says("takes version 9.0.0");
    until("the update stays", || has("9.0.0") && !endpoint.state.join("update.json").exists());
    until_online(&hub, "pc-1");
    until("the one before it is gone", || !hub.beside("convoke.previous").exists());

    // What is no agent is refused before anything is changed.
    let arch = std::env::consts::ARCH;
    std::fs::copy("/bin/true", offers.path().join(format!("kenny-agent-9.5.0-linux-{arch}"))).expect("copied");
    hub.run(&["agents", "update", "pc-1"]).code(1).notes("does not run as an agent on this machine");
    assert!(has("9.0.0") && !endpoint.state.join("update.json").exists());

    // The next one meets a hub that does not answer, and cannot come back.
    offer("10.0.0");
    supervisor.hold(true);
    hub.run(&["agents", "update", "pc-1"]).ok().says("takes version 10.0.0");
    supervisor.ended();
    assert!(has("10.0.0"), "the old version made way");
    // Otherwise the hub may show the link of the one that ended when it goes on.
    until("the hub knows that it is gone", || shown(&hub, "pc-1")["online"] == false);
    hub.server.signal("STOP");
    supervisor.hold(false);
    until("the previous version is back", || has("9.0.0"));
    hub.server.signal("CONT");
    // Not only online: an attempt that it gave up while the hub was silent may be let in first.
    until("it answers again", || hub.run(&["call", "pc-1", "fs_disk_usage"]).code == Some(0));
    endpoint.ask(&["logs", "-n", "1000"]).ok().says("did not reconnect");
    drop(supervisor);
}

/// A proxy of the kind that offices have: it takes CONNECT from those who say who they are, and knows the hub by a name
/// that nobody else does.
struct Proxy {
    address: String,
    /// The credentials that it was shown, if any, one per connection.
    shown: std::sync::mpsc::Receiver<Option<String>>,
}

const PROXY_NAME: &str = "hub.test:7410";
/// `me:p@ss word`.
const PROXY_USER: &str = "Basic bWU6cEBzcyB3b3Jk";

impl Proxy {
    fn start(hub: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (told, shown) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (hub, told) = (hub.clone(), told.clone());
                std::thread::spawn(move || Self::serve(client, &hub, &told));
            }
        });
        Self { address, shown }
    }

    fn serve(mut client: TcpStream, hub: &str, told: &std::sync::mpsc::Sender<Option<String>>) -> io::Result<()> {
        let mut reader = BufReader::new(client.try_clone()?);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            match line.trim() {
                "" => break,
                line => lines.push(line.to_owned()),
            }
        }
        let user = lines.iter().find_map(|line| line.strip_prefix("Proxy-Authorization: "));
        // Nobody may listen any more when the test is over.
        let _ = told.send(user.map(str::to_owned));
        if user != Some(PROXY_USER) {
            return client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
        }
        if lines[0] != format!("CONNECT {PROXY_NAME} HTTP/1.1") {
            return client.write_all(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        }
        let mut server = TcpStream::connect(hub)?;
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
        let (mut back, mut from) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut back);
            let _ = back.shutdown(std::net::Shutdown::Write);
        });
        let _ = io::copy(&mut reader, &mut server);
        server.shutdown(std::net::Shutdown::Write)
    }
}

#[test]
fn a_proxy_carries_enrolment_tunnel_and_calls() {
    let hub = Hub::start();
    let proxy = Proxy::start(hub.http().trim_start_matches("http://").to_owned());
    let (token, key) = invitation(&hub, "pc-1");
    let endpoint = Endpoint::at(&hub, "agent");
    let enrol = |user: &str| {
        let address = format!("http://{PROXY_NAME}");
        let mut command = endpoint.verb(&["enroll", "--id", "pc-1", "--hub-key", &key, "--hub", &address]);
        Done::of(command.args(["--token", &token]).env("http_proxy", format!("{user}{}", proxy.address)))
    };
    enrol("").code(1).notes("407");
    assert_eq!(proxy.shown.recv().expect("a connection"), None);
    enrol("http://me:p%40ss%20word@").ok();
    let mut command = endpoint.verb(&["run", "--set", "reconnect_max_s=0.5"]);
    let agent = Server::start(command.env("HTTP_PROXY", format!("http://me:p%40ss%20word@{}", proxy.address)));
    agent.told("connected");
    until_online(&hub, "pc-1");
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"echo through"}"#]).ok().says("through");
    let shown: Vec<_> = proxy.shown.try_iter().collect();
    assert!(shown.len() >= 2 && shown.iter().all(|user| user.as_deref() == Some(PROXY_USER)), "{shown:?}");
}

#[test]
fn a_snapshot_is_collected_by_a_process_of_its_own() {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let agent = endpoint.run(&["--set", "log_level=debug"]);
    agent.told("connected");
    let collect = r#"{"sections":["memory","uptime","defender"]}"#;
    let told = hub.run(&["call", "pc-1", "telemetry_collect", "--args", collect, "--json"]).ok().json();
    let sections = told["result"].as_object().expect("sections");
    assert_eq!(sections.keys().collect::<Vec<_>>(), ["defender", "memory", "uptime"]);
    assert!(told["result"]["memory"]["total_bytes"].is_u64(), "{told}");
    let log = endpoint.ask(&["logs", "-n", "1000"]).ok().stdout;
    assert!(!log.contains("collecting it in this one"), "{log}");

    // By hand: one line in, one line out; and an end of its input is its own end.
    let mut command = convoke(["agent", "collect"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("started");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"{\"sections\":[\"uptime\"]}\n").expect("written");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("answered");
    let answer: Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(answer["sections"].as_object().map(|sections| sections.len()), Some(1), "{answer}");
    drop(stdin);
    assert!(child.wait().expect("ended").success());
}
