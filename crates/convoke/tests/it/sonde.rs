//! Sonde from the command line: files that are checked before they are loaded, and simulated agents, counted.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::support::{Done, Hub, convoke};

/// Simulated agents in a process of their own, told what to do line by line.
struct Fleet {
    child: Child,
    told: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Fleet {
    /// At a hub of its own.
    fn with_hub() -> (Hub, Self) {
        let hub = Hub::start_with(&["--set", "sonde.tls_listen=127.0.0.1:0", "--set", "sonde.cache_s=0"]);
        let ca = hub.beside("ca.pem");
        std::fs::write(&ca, get(&hub, "/api/v1/ca")["caCertPem"].as_str().expect("a certificate")).expect("writes");
        let fleet = Self::start(&hub, &ca);
        (hub, fleet)
    }

    fn start(hub: &Hub, ca: &Path) -> Self {
        let target = hub.http().trim_start_matches("http://");
        let tls = hub.ready["sonde_tls"].as_str().expect("a listener");
        let mut command = convoke(["sim", "sonde", "--target", target, "--tls", tls]);
        command.arg("--ca").arg(ca).arg("--keys").arg(hub.beside("keys.json"));
        command.env("CONVOKE_TOKEN", hub.ready["operator_token"].as_str().expect("a token"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("runs");
        let (told, said) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        Self { child, told, said: BufReader::new(said) }
    }

    #[track_caller]
    fn tell(&mut self, command: &Value) -> Value {
        writeln!(self.told, "{command}").expect("it listens");
        let mut line = String::new();
        self.said.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("JSON")
    }

    /// Does it without a problem; then so many are connected, were let in, and answered.
    #[track_caller]
    fn counts(&mut self, command: &Value, expect: (u64, u64, u64)) {
        let reply = self.tell(command);
        assert!(reply.get("problem").is_none(), "{command}: {reply}");
        let of = |name: &str| reply[name].as_u64().unwrap_or_else(|| panic!("no {name}: {reply}"));
        assert_eq!((of("connected"), of("handshakes"), of("answered")), expect, "{command}: {reply}");
        assert_eq!((of("refused"), of("lost")), (0, 0), "{command}: {reply}");
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The body of an answer of the hub.
fn get(hub: &Hub, path: &str) -> Value {
    ask(hub, "GET", path)
}

fn ask(hub: &Hub, method: &str, path: &str) -> Value {
    let mut stream = TcpStream::connect(hub.http().trim_start_matches("http://")).expect("connects");
    let token = hub.ready["operator_token"].as_str().expect("a token");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("asks");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answers");
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn simulated_agents_do_exactly_what_they_are_counted_for() {
    let (hub, mut fleet) = Fleet::with_hub();
    fleet.counts(&json!({ "do": "tokens", "count": 5 }), (0, 0, 0));
    fleet.counts(&json!({ "do": "enrol", "tls": false }), (0, 5, 0));
    fleet.counts(&json!({ "do": "resize", "agents": 5 }), (5, 10, 0));
    for name in ["sim-0", "sim-4", "sim-4"] {
        let asked = ["probe", name, "system.network.ping", "--params", r#"{"host":"h"}"#, "--json"];
        assert_eq!(hub.run(&asked).ok().json()["data"]["packetsReceived"], 1);
    }
    fleet.counts(&json!({ "do": "report" }), (5, 10, 3));
    fleet.counts(&json!({ "do": "reconnect", "count": 7 }), (5, 17, 3));
    fleet.counts(&json!({ "do": "resize", "agents": 2 }), (2, 17, 3));
    fleet.counts(&json!({ "do": "tokens", "count": 3 }), (2, 17, 3));
    fleet.counts(&json!({ "do": "enrol", "tls": true }), (2, 20, 3));
    let agents = get(&hub, "/api/v1/agents");
    let with =
        |field: &str| agents["agents"].as_array().map_or(0, |a| a.iter().filter(|a| a[field].is_string()).count());
    assert_eq!((with("name"), with("certFingerprint")), (8, 3), "{agents}");
    let reply = fleet.tell(&json!({ "do": "resize", "agents": 6 }));
    assert!(reply["problem"].as_str().is_some_and(|p| p.contains("only 5")), "{reply}");
    let enrolments = hub.run(&["audit", "list", "--kind", "enrol", "--json"]).ok().stdout;
    assert_eq!(enrolments.matches(r#""enrolled""#).count(), 8, "{enrolments}");
}

#[test]
fn who_enrols_is_told_how_to_run_it_with_its_state() {
    let hub = Hub::start();
    let state = hub.beside("state").display().to_string();
    let minted = ask(&hub, "POST", "/api/v1/enrollment-tokens");
    let token = minted["token"].as_str().expect("a token");
    let enrol = ["agent", "enroll", "--sonde", hub.http(), "--token", token, "--name", "web-1", "--state", &state];
    let next = format!("convoke agent run --state {state} ");
    Done::of(&mut convoke(enrol)).ok().says("web-1 is enrolled").notes(&next);
}

#[test]
fn a_runbook_of_which_nothing_was_asked_has_not_gone_well() {
    let (hub, mut fleet) = Fleet::with_hub();
    fleet.counts(&json!({ "do": "tokens", "count": 1 }), (0, 0, 0));
    fleet.counts(&json!({ "do": "enrol", "tls": false }), (0, 1, 0));
    fleet.counts(&json!({ "do": "resize", "agents": 1 }), (1, 2, 0));
    hub.run(&["policy", "confirm", "add", "--id", "look", "--tools", "system.*"]).ok();
    let asked = ["runbook", "run", "system", "--agent", "sim-0"];
    let done = hub.run(&asked).code(1).notes("every probe was skipped");
    done.notes("system.disk.usage was skipped: it needs a person's approval");
    let shown = hub.run(&[&asked[..], &["--json"]].concat()).code(1).json();
    assert_eq!((&shown["meta"]["probesRun"], &shown["meta"]["probesSkipped"]), (&json!(0), &json!(3)), "{shown}");
    fleet.counts(&json!({ "do": "report" }), (1, 2, 0));
}

#[test]
fn a_packs_file_is_checked_as_it_would_be_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let program = dir.path().join("depth");
    std::fs::write(&program, "#!/bin/sh\necho 1\n").expect("writes");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("sets");
    let pack = json!({
        "name": "queue", "version": "1.0.0", "description": "Our queues",
        "probes": [{
            "name": "depth", "description": "How much waits", "capability": "observe",
            "params": { "queue": { "type": "string", "description": "Which", "required": true, "format": "name" } },
            "run": { "command": [program, "--queue={queue}"], "output": "json" },
        }],
        "runbook": { "category": "queues", "probes": ["depth"] },
    });
    let file = dir.path().join("queue.json");
    let check = |more: &[&str]| Done::of(convoke(["agent", "packs", "check"]).arg(&file).args(more));
    let write = |text: &str| std::fs::write(&file, text).expect("writes");
    write(&pack.to_string());
    check(&[])
        .ok()
        .says("queue 1.0.0: Our queues")
        .says("queue.depth (queue): observe")
        .says("runbook queues: depth");
    assert_eq!(check(&["--json"]).ok().json()["packs"][0]["name"], "queue");
    for (from, to, word) in [
        ("1.0.0", "one", "x.y.z"),
        ("\"name\":\"queue\"", "\"name\":\"system\"", "built in"),
        ("--queue={queue}", "{name}", "name"),
        ("\"probes\":[\"depth\"]", "\"probes\":[\"gone\"]", "gone"),
        ("{", "[", "expected"),
    ] {
        let text = pack.to_string().replacen(from, to, 1);
        assert_ne!(text, pack.to_string(), "{from}");
        write(&text);
        check(&[]).code(1).notes("queue.json: ").notes(word);
    }
    write(&pack.to_string());
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o777)).expect("sets");
    check(&[]).code(1).notes("others than its owner can write");
    // Without a file it is what the agent of this state would load.
    let (state, packs) = (dir.path().join("state"), dir.path().join("state/packs"));
    let all = || Done::of(convoke(["agent", "packs", "check", "--state"]).arg(&state));
    all().ok().notes("no packs of your own");
    std::fs::create_dir_all(&packs).expect("makes");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("sets");
    std::fs::copy(&file, packs.join("queue.json")).expect("copies");
    std::fs::copy(&file, packs.join("twice.json")).expect("copies");
    all().code(1).says("queue 1.0.0").notes("twice.json: another file already has a pack queue");
}

#[test]
fn a_runbooks_file_is_checked_without_a_hub() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("disks.toml");
    let check = || Done::of(convoke(["runbook", "check"]).arg(&file));
    std::fs::write(&file, "category = \"disks\"\ndescription = \"Ours\"\n[[steps]]\nprobe = \"system.disk.usage\"\n")
        .expect("writes");
    check().ok().says("disks: Ours").says("system.disk.usage");
    std::fs::write(&file, "category = \"disks\"\n[[steps]]\nprobe = \"usage\"\n").expect("writes");
    check().code(1).notes("disks.toml: step 1").notes("pack.probe");
    std::fs::remove_file(&file).expect("removes");
    check().code(1).notes("No such file");
}
