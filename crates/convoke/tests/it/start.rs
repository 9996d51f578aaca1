//! Starting and stopping.

use crate::support::{Done, Hub, Server, convoke};

fn up(data: &std::path::Path) -> Server {
    let mut command = convoke(["up", "--listen", "127.0.0.1:0", "--data"]);
    Server::start(command.arg(data))
}

#[test]
fn a_first_start_shows_the_token_once_and_what_to_do_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut first = up(dir.path());
    let told = first.told("Ctrl-C stops it");
    for expect in [
        "address",
        "http://127.0.0.1:",
        "page",
        "http://localhost:",
        "public key",
        "cvk_",
        "convoke enroll-token",
        "convoke agents list",
    ] {
        assert!(told.contains(expect), "no {expect:?} in {told}");
    }
    first.signal("INT");
    assert!(first.end().success());

    let mut second = up(dir.path());
    let told = second.told("Ctrl-C stops it");
    assert!(!told.contains("cvk_"), "{told}");
    second.signal("TERM");
    assert!(second.end().success());
}

#[test]
fn a_hub_without_users_prints_a_welcome_link_on_standard_output_only() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut links = Vec::new();
    for _ in 0..2 {
        let mut hub = up(dir.path());
        let mut line = hub.line();
        while !line.contains("/welcome#") {
            line = hub.line();
        }
        assert!(line.trim().starts_with("http://localhost:"), "{line}");
        links.push(line);
        assert!(!hub.told("Ctrl-C stops it").contains("welcome#"));
        hub.signal("INT");
        assert!(hub.end().success());
    }
    assert_ne!(links[0], links[1], "each start has its own");
}

#[test]
fn people_are_added_listed_and_removed() {
    let hub = Hub::start();
    let welcome = hub.ready["welcome"].as_str().expect("there is no user").to_owned();
    assert!(welcome.starts_with(&format!("{}/welcome#", hub.ready["http"].as_str().expect("an address"))));
    hub.run(&["users", "add", "Anna B", "--role", "admin", "--approve"]).ok().says("/welcome#cvl_");
    hub.run(&["users", "change", "Anna B", "--role", "viewer"]).ok();
    hub.run(&["users", "list"]).ok().says("Anna B").says("viewer");
    hub.run(&["users", "link", "Anna B"]).ok().says("/welcome#");
    hub.run(&["sessions", "list", "--json"]).ok().says("\"sessions\"");
    hub.run(&["users", "remove", "Anna B", "--yes"]).ok();
    let hub = hub.restart(&[]);
    assert_ne!(hub.ready["welcome"], welcome, "there is no user again");
}

#[test]
fn a_program_reads_one_line_when_the_hub_is_ready() {
    let hub = Hub::start();
    let text = |name: &str| hub.ready[name].as_str().map(str::to_owned);
    assert!(text("http").is_some_and(|http| http.starts_with("http://127.0.0.1:")), "{}", hub.ready);
    assert_eq!(text("data"), Some(hub.data().display().to_string()));
    let key = text("kenny_public_key").expect("a key");
    let token = text("operator_token").expect("a token on the first start");
    hub.run_as(&token, &["agents", "list"]).ok();

    let hub = hub.restart(&[]);
    assert!(hub.ready.get("operator_token").is_none(), "{}", hub.ready);
    assert_eq!(hub.ready["kenny_public_key"], key);
    let hub = hub.restart(&["--reveal-token"]);
    assert_eq!(hub.ready["operator_token"], token);
}

#[test]
fn a_token_that_a_failed_start_never_showed_comes_with_the_next_one() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = format!("sonde.tls_listen={}", taken.local_addr().expect("an address"));
    let failed = Hub::command(&data).args(["--set", &taken]).output().expect("runs");
    assert!(!failed.status.success(), "{failed:?}");
    for shown in [true, false] {
        let mut hub = Server::start(&mut Hub::command(&data));
        let ready: serde_json::Value = serde_json::from_str(&hub.line()).expect("JSON");
        assert_eq!(ready.get("operator_token").is_some(), shown, "{ready}");
        hub.signal("TERM");
        assert!(hub.end().success());
    }
}

#[test]
fn token_and_keys_can_come_from_the_environment() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    // The seed of the golden vectors, whose public key is known.
    let seed = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let data_key = "QEFCQ0RFRkdISUpLTE1OT1BRUlNUVVZXWFlaW1xdXl8=";
    let mut command = Hub::command(&data);
    command.env("CONVOKE_OPERATOR_TOKEN", "cvk_fixed-for-this-test").env("CONVOKE_KENNY_PRIVATE_KEY", seed);
    let hub = Server::start(command.env("CONVOKE_DATA_KEY", data_key));
    let ready: serde_json::Value = serde_json::from_str(&hub.line()).expect("JSON");
    assert_eq!(ready["operator_token"], "cvk_fixed-for-this-test");
    assert_eq!(ready["kenny_public_key"], "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=");
    assert!(!data.join("data.key").exists());

    let list = |key: Option<&str>| {
        let mut command = convoke(["agents", "list", "--data"]);
        command.arg(&data);
        Done::of(if let Some(key) = key { command.env("CONVOKE_DATA_KEY", key) } else { &mut command })
    };
    list(Some(data_key)).ok();
    list(None).code(1).notes("data key");
}

#[test]
fn the_data_directory_says_where_the_hub_is_while_it_runs() {
    let hub = Hub::start();
    let file = hub.data().join("hub.json");
    let text = std::fs::read_to_string(&file).expect("there");
    let here: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(here["http"], hub.ready["http"]);
    assert_eq!(here["pid"], hub.server.pid());
    let dir = hub.stop();
    assert!(!dir.path().join("data/hub.json").exists());
    let done = Done::of(convoke(["agents", "list", "--data"]).arg(dir.path().join("data")));
    done.code(2).notes("no hub runs in");
}

#[test]
fn a_killed_hub_is_not_taken_for_a_running_one() {
    let mut hub = Hub::start();
    hub.server.signal("KILL");
    assert!(!hub.server.end().success());
    assert!(hub.data().join("hub.json").exists(), "it had no time to take it away");
    // Another program may have its port by now, and must not be sent the token.
    hub.run(&["agents", "list"]).code(2).notes("no hub runs in");
    let again = hub.restart_killed();
    again.run(&["agents", "list"]).ok();
    again.run(&["audit", "verify"]).ok();
}

#[test]
fn a_second_hub_in_the_same_directory_is_told_who_has_it() {
    let hub = Hub::start();
    let second = Done::of(&mut Hub::command(&hub.data()));
    second.code(1).notes(&format!("process {}", hub.server.pid()));
    hub.run(&["agents", "list"]).ok();
}

#[test]
fn plain_http_for_everyone_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let mut command = convoke(["hub", "--listen", "0.0.0.0:0", "--data"]);
    Done::of(command.arg(&data)).code(2).notes("--insecure-listen");
    assert!(!data.join("hub.db").exists(), "nothing was made");

    let mut command = convoke(["hub", "--print-json", "--listen", "0.0.0.0:0", "--insecure-listen", "--data"]);
    let allowed = Server::start(command.arg(&data));
    let ready: serde_json::Value = serde_json::from_str(&allowed.line()).expect("JSON");
    assert!(ready["http"].as_str().is_some_and(|http| http.starts_with("http://127.0.0.1:")), "{ready}");
}

#[test]
fn a_second_signal_stops_at_once() {
    let hub = Hub::start_with(&["--set", "hub.drain_s=600"]);
    let agent = crate::support::Agent::join(&hub, "pc-1");
    // A call that nobody answers keeps a clean stop waiting.
    let mut call = Server::start(&mut hub.verb(&["call", "pc-1", "diag_services", "--timeout", "600"]));
    assert_eq!(agent.asked().0, "diag_services");
    let mut hub = hub;
    hub.server.signal("TERM");
    hub.server.told("stopping");
    hub.server.signal("TERM");
    assert_eq!(hub.server.end().code(), Some(1));
    assert!(!call.end().success());
}
