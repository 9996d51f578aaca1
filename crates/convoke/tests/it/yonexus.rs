//! Yonexus from the command line: two ends, a person between them.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use convoke_client::{Client, Config, Event, StateFile};

use crate::support::{Done, Hub, Server, convoke};

pub(crate) fn ws(hub: &Hub) -> String {
    format!("{}/yonexus", hub.http().replace("http", "ws"))
}

pub(crate) fn state(hub: &Hub, id: &str) -> PathBuf {
    hub.beside(&format!("{id}.json"))
}

/// The code, as the operator sees it. The client asks for it first, so this looks until it is there.
fn code(hub: &Hub, id: &str) -> String {
    for _ in 0..600 {
        let list = hub.run(&["pairings", "list", "--json"]).ok().json();
        let found = list["pairings"].as_array().expect("a list").iter().find(|p| p["identifier"] == id).cloned();
        if let Some(pairing) = found {
            return pairing["pairing_code"].as_str().expect("a code").to_owned();
        }
    }
    panic!("no pairing of {id} came up");
}

/// Pairs a client by typing the code.
pub(crate) fn pair(hub: &Hub, id: &str, env: Option<(&str, &Path)>) {
    hub.run(&["clients", "allow", id]).ok();
    let mut command = convoke(["client", "pair", "--hub", &ws(hub), "--id", id, "--state"]);
    command.arg(state(hub, id)).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some((name, value)) = env {
        command.env(name, value);
    }
    let mut child: Child = command.spawn().expect("runs");
    let code = code(hub, id);
    let mut stdin = child.stdin.take().expect("piped");
    writeln!(stdin, "AAAA-BBBB-CCCC").expect("writes");
    writeln!(stdin, "{}", code.to_lowercase()).expect("writes");
    let output = child.wait_with_output().expect("ends");
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.contains("wrong code"), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("is paired with"), "{told}");
}

pub(crate) fn client(hub: &Hub, id: &str, args: &[&str]) -> std::process::Command {
    let mut command = convoke(args);
    command.arg("--state").arg(state(hub, id));
    command
}

#[test]
fn two_clients_pair_talk_and_are_seen() {
    let hub = Hub::start();
    Done::of(&mut client(&hub, "a", &["client", "status"])).code(2).notes("pair one with");
    pair(&hub, "a", None);
    pair(&hub, "b", None);
    hub.run(&["clients", "list"]).ok().says("paired");
    let shown = hub.run(&["clients", "show", "a", "--json"]).ok().json();
    assert_eq!((&shown["state"], &shown["liveness"]), (&"paired".into(), &"offline".into()));
    hub.run(&["rules", "add", "chat", "--to", "b", "--with-sender"]).ok();
    hub.run(&["rules", "add", "keep it", "--inbox"]).ok();
    hub.run(&["rules", "list"]).ok().says("with sender");
    hub.run(&["rules", "test", "chat", "hi", "--from", "a"]).ok().says("chat::a::hi");

    Done::of(&mut client(&hub, "a", &["client", "send", "chat", "hi"])).code(1).notes("CLIENT_OFFLINE");
    let received = hub.beside("received");
    let on = format!("job=cat > {}; echo done >&2", received.display());
    let mut run = client(&hub, "b", &["client", "run", "--on", &on]);
    let mut b = Server::start(run.stdin(Stdio::null()));
    b.told("connected");
    Done::of(&mut client(&hub, "a", &["client", "send", "chat", "hi::there"])).ok();
    assert_eq!(b.line(), "chat::a::hi::there");
    let status = Done::of(&mut client(&hub, "b", &["client", "status", "--json"])).ok().json();
    assert_eq!((&status["state"], &status["running"]), (&"authenticated".into(), &true.into()));
    Done::of(&mut client(&hub, "b", &["client", "send", "chat", "x"])).code(1).notes("another process");
    hub.run(&["messages", "send", "job", "for the program", "--to", "b"]).ok().says("sent to b");
    b.told("done");
    assert_eq!(std::fs::read_to_string(&received).expect("written"), "for the program");

    Done::with_input(&mut client(&hub, "a", &["client", "send", "keep it", "-"]), "line one\nline two").ok();
    hub.run(&["messages", "list", "--rule", "keep it"]).ok().says("line one");
    hub.run(&["clients", "revoke", "b"]).ok();
    b.told("revoked");
    b.signal("TERM");
    assert!(b.end().success());
    Done::of(&mut client(&hub, "b", &["client", "send", "chat", "x"])).code(1);
    hub.run(&["rules", "remove", "keep it"]).ok();
    hub.run(&["clients", "remove", "b", "--yes"]).ok();
    let journal = hub.run(&["audit", "list", "--json"]).ok().stdout;
    assert!(journal.contains("paired") && journal.contains("revoked"));
    hub.run(&["audit", "verify"]).ok();
}

#[test]
fn an_operator_approves_or_denies_and_wrong_beginnings_are_told() {
    let hub = Hub::start();
    let begin = |id: &str| {
        let mut command = client(&hub, id, &["client", "pair", "--hub", &ws(&hub), "--id", id]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("runs")
    };
    let refused = begin("nobody").wait_with_output().expect("ends");
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not allowed here"), "{refused:?}");
    hub.run(&["clients", "allow", "a"]).ok();
    let waiting = begin("a");
    code(&hub, "a");
    hub.run(&["pairings", "list"]).ok().says("127.0.0.1");
    hub.run(&["pairings", "approve", "a"]).ok().says("is paired");
    assert!(waiting.wait_with_output().expect("ends").status.success());
    hub.run(&["clients", "allow", "c"]).ok();
    let waiting = begin("c");
    code(&hub, "c");
    hub.run(&["pairings", "deny", "c"]).ok();
    let denied = waiting.wait_with_output().expect("ends");
    assert!(!denied.status.success());
    assert!(String::from_utf8_lossy(&denied.stderr).contains("denied this pairing"), "{denied:?}");
    Done::of(&mut convoke(["client", "pair", "--hub", "ftp://x", "--id", "a"]))
        .code(2)
        .notes("not an address of a hub");
    Done::of(&mut convoke(["client", "pair", "--hub", "ws://127.0.0.1:1"])).code(2).notes("--id");
}

/// Sends until the hub is gone, and notes everything that the hub has taken.
async fn send_until_gone(
    hub: String,
    state: PathBuf,
    enough: usize,
    taken: std::sync::mpsc::Sender<usize>,
) -> BTreeSet<usize> {
    let state = StateFile::open(&state).expect("paired");
    let client = Client::new(Config { reconnect: false, ..Config::new(&hub, state) });
    let mut running = client.start().expect("free");
    while !matches!(running.events.recv().await, Some(Event::Authenticated { .. })) {}
    let mut accepted = BTreeSet::new();
    for n in 0.. {
        // Every other one into the inbox.
        let rule = if n % 2 == 0 { "kept" } else { "noted" };
        if running.handle.send(rule, &n.to_string()).await.is_err() {
            break;
        }
        accepted.insert(n);
        if accepted.len() == enough {
            taken.send(n).expect("the test waits");
        }
    }
    accepted
}

#[test]
fn a_hub_killed_under_load_keeps_every_message_it_took() {
    const ENOUGH: usize = 100;
    let mut hub = Hub::start();
    pair(&hub, "a", None);
    pair(&hub, "b", None);
    hub.run(&["rules", "add", "kept", "--to", "b", "--with-id", "--keep", "1d"]).ok();
    hub.run(&["rules", "add", "noted", "--inbox"]).ok();
    let (sender, taken) = std::sync::mpsc::channel();
    let sending = std::thread::spawn({
        let (url, file) = (ws(&hub), state(&hub, "a"));
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(send_until_gone(url, file, ENOUGH, sender))
        }
    });
    taken.recv_timeout(Duration::from_secs(60)).expect("enough was taken");
    hub.server.signal("KILL");
    assert!(!hub.server.end().success());
    let accepted = sending.join().expect("the sender ends with the hub");
    assert!(accepted.len() >= ENOUGH);

    let hub = hub.restart_killed();
    let inbox = hub.run(&["messages", "list", "--rule", "noted", "--limit", "100000", "--json"]).ok().json();
    let noted: BTreeSet<usize> = inbox["messages"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|m| m["content"].as_str().and_then(|c| c.parse().ok()).expect("a number"))
        .collect();
    let (accepted, for_the_inbox): (BTreeSet<usize>, BTreeSet<usize>) =
        accepted.into_iter().partition(|n| n % 2 == 0);
    assert!(for_the_inbox.is_subset(&noted), "{:?}", for_the_inbox.difference(&noted));
    let url = ws(&hub);
    let mut run = client(&hub, "b", &["client", "run", "--json", "--hub", &url]);
    let b = Server::start(run.stdin(Stdio::null()));
    let mut received = BTreeSet::new();
    let mut ids = BTreeSet::new();
    while !accepted.is_subset(&received) {
        let message: serde_json::Value = serde_json::from_str(&b.line()).expect("JSON");
        let (id, content) = message["content"].as_str().and_then(|c| c.split_once("::")).expect("an id");
        assert!(ids.insert(id.parse::<i64>().expect("a number")), "nothing was read twice here");
        received.insert(content.parse::<usize>().expect("a number"));
    }
    hub.run(&["audit", "verify"]).ok();
}

#[test]
fn a_client_checks_the_certificate_of_a_hub_with_tls() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("made");
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, made.cert.pem()).expect("writes");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("writes");
    let (cert_arg, key_arg) = (cert.to_str().expect("text"), key.to_str().expect("text"));
    let hub = Hub::start_with(&["--tls-cert", cert_arg, "--tls-key", key_arg, "--set", "yonexus.allow=a"]);
    assert!(ws(&hub).starts_with("wss://"));
    let begin = || {
        let mut command = client(&hub, "a", &["client", "pair", "--hub", &ws(&hub), "--id", "a"]);
        command.stdin(Stdio::null());
        command
    };
    Done::of(&mut begin()).code(1).notes("could not prove itself");
    // The same is said of the operator's verbs and of the bridge, and not that the hub were away.
    hub.run(&["agents", "list"]).code(1).notes("is not trusted here").notes("SSL_CERT_FILE");
    let trusted = |args: &[&str]| {
        let mut verb = hub.verb(args);
        verb.env("SSL_CERT_FILE", &cert);
        verb
    };
    let mut command = begin();
    command.env("SSL_CERT_FILE", &cert).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("runs");
    for _ in 0..600 {
        let list = Done::of(&mut trusted(&["pairings", "list", "--json"])).ok();
        if list.stdout.contains("pairing_code") {
            break;
        }
    }
    Done::of(&mut trusted(&["pairings", "approve", "a"])).ok();
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_hub_killed_in_the_middle_of_a_pairing_takes_the_code_it_told_before() {
    let mut hub = Hub::start();
    hub.run(&["clients", "allow", "a"]).ok();
    let begin = |hub: &Hub| {
        let mut command = convoke(["client", "pair", "--hub", &ws(hub), "--id", "a", "--state"]);
        command.arg(state(hub, "a")).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("runs")
    };
    let mut waiting = begin(&hub);
    let told = code(&hub, "a");
    hub.server.signal("KILL");
    assert!(!hub.server.end().success());
    waiting.kill().expect("it waits for a code");
    waiting.wait().expect("ends");
    let hub = hub.restart_killed();
    assert_eq!(code(&hub, "a"), told);
    let mut again = begin(&hub);
    writeln!(again.stdin.take().expect("piped"), "{told}").expect("writes");
    let output = again.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    hub.run(&["clients", "list"]).ok().says("paired");
}

#[test]
fn a_message_that_needs_a_person_is_sent_once_someone_approved() {
    let hub = Hub::start();
    pair(&hub, "a", None);
    hub.run(&["policy", "confirm", "add", "--id", "all", "--effects", "interact"]).ok();
    let asker = hub.run(&["tokens", "create", "asker", "--role", "operator"]).ok().stdout.trim().to_owned();
    let mut run = client(&hub, "a", &["client", "run"]);
    let a = Server::start(run.stdin(Stdio::null()));
    a.told("connected");
    let mut send = convoke(["messages", "send", "job", "now", "--to", "a", "--hub", hub.http(), "--token", &asker]);
    Done::of(&mut send).code(3).notes("waits for a person");
    let approvals = hub.run(&["approvals", "list", "--json"]).ok().json();
    let id = approvals["approvals"][0]["id"].as_str().expect("an id").to_owned();
    hub.run(&["approvals", "approve", &id]).ok();
    assert_eq!(a.line(), "job::now");
}

#[test]
fn a_pairing_that_fails_leaves_the_one_that_works() {
    let hub = Hub::start();
    pair(&hub, "a", None);
    hub.run(&["rules", "add", "keep", "--inbox"]).ok();
    let kept = || std::fs::read_to_string(state(&hub, "a")).expect("reads");
    let again = |address: &str| {
        let mut command = client(&hub, "a", &["client", "pair", "--hub", address, "--id", "a"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let before = kept();
    Done::of(&mut again("ws://127.0.0.1:1/yonexus")).code(1).notes("cannot reach the hub at");
    assert!(kept() == before, "nobody was there to pair with");

    let mut a = Server::start(client(&hub, "a", &["client", "run"]).stdin(Stdio::null()));
    a.told("connected");
    let before = kept();
    Done::of(&mut again("ws://127.0.0.1:1/yonexus")).code(1).notes("another process");
    assert!(kept() == before, "another process is this client");
    a.signal("TERM");
    assert!(a.end().success());

    // One that was begun and broken off leaves it too, and can be taken up again.
    let send = || Done::of(&mut client(&hub, "a", &["client", "send", "keep", "hi"]));
    let mut begun = again(&ws(&hub)).spawn().expect("runs");
    let told = code(&hub, "a");
    begun.kill().expect("it waits for a code");
    begun.wait().expect("ends");
    send().ok();
    Done::of(again(&ws(&hub)).args(["--code", &told])).ok();
    send().ok();
}

#[test]
fn what_a_mistyped_id_leaves_is_not_asked_about() {
    let hub = Hub::start();
    let data = hub.beside("elsewhere");
    let file = |id: &str| data.join("clients").join(format!("{id}.json"));
    let verb = |args: &[&str]| {
        let mut command = convoke(args);
        command.arg("--data").arg(&data).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let begin = |id: &str| verb(&["client", "pair", "--hub", &ws(&hub), "--id", id]);
    hub.run(&["clients", "allow", "a"]).ok();
    let waiting = begin("a").spawn().expect("runs");
    code(&hub, "a");
    hub.run(&["pairings", "approve", "a"]).ok();
    assert!(waiting.wait_with_output().expect("ends").status.success());

    Done::of(&mut begin("aa")).code(1).notes("not allowed here");
    Done::of(&mut verb(&["client", "pair", "--hub", "ws://127.0.0.1:1/yonexus", "--id", "ab"])).code(1);
    assert!(!file("aa").exists() && !file("ab").exists());
    // The key of a pairing that is under way is kept, and no reason to ask either.
    hub.run(&["clients", "allow", "b"]).ok();
    let mut begun = begin("b").spawn().expect("runs");
    code(&hub, "b");
    begun.kill().expect("it waits for a code");
    begun.wait().expect("ends");
    assert!(file("b").exists());
    let status = Done::of(&mut verb(&["client", "status", "--json"])).ok().json();
    assert_eq!((&status["identifier"], &status["paired"]), (&"a".into(), &true.into()));
    // What an operator refused is over.
    hub.run(&["clients", "allow", "c"]).ok();
    let waiting = begin("c").spawn().expect("runs");
    code(&hub, "c");
    hub.run(&["pairings", "deny", "c"]).ok();
    assert!(!waiting.wait_with_output().expect("ends").status.success());
    assert!(!file("c").exists());
}
