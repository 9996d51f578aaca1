//! Settings, completions and mistakes on the command line.

use crate::support::{Done, convoke};

fn check_config(args: &[&str]) -> std::process::Command {
    let mut command = convoke(["hub", "--check-config", "--data", "/nonexistent/convoke-test"]);
    command.args(args);
    command
}

#[test]
fn every_setting_is_listed_with_its_source() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("hub.toml");
    std::fs::write(&file, "[calls]\ngrace_s = 7\n").expect("written");
    let file = file.display().to_string();
    let mut command = check_config(&["--set", "kenny.heartbeat_s=5", "--listen", "127.0.0.1:0", "--config", &file]);
    let done = Done::of(command.env("CONVOKE_HUB__DRAIN_S", "3").env("KENNY_AGENT_TOKENS", "pc=hunter2")).ok();
    let line = |name: &str| {
        let line = done.stdout.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(line("kenny.heartbeat_s"), "kenny.heartbeat_s 5 command line");
    assert_eq!(line("hub.listen"), "hub.listen 127.0.0.1:0 command line");
    assert_eq!(line("hub.drain_s"), "hub.drain_s 3 environment CONVOKE_HUB__DRAIN_S");
    assert_eq!(line("calls.grace_s"), format!("calls.grace_s 7 file {file}"));
    assert_eq!(line("kenny.agent_tokens"), "kenny.agent_tokens (hidden) environment KENNY_AGENT_TOKENS");
    assert_eq!(line("hub.public_url"), "hub.public_url - default");
    assert!(!done.stdout.contains("hunter2") && !done.stderr.contains("hunter2"));
}

#[test]
fn every_mistake_is_told_at_once() {
    let args = ["--set", "kenny.heartbeat_s=soon", "--set", "kenny.hartbeat_s=1", "--listen", "nowhere"];
    let done = Done::of(&mut check_config(&args)).code(2);
    let done = done.notes("`kenny.heartbeat_s` cannot be \"soon\"; allowed: a whole number from 1 to");
    let done = done.notes("did you mean `kenny.heartbeat_s`?").notes("`hub.listen` cannot be \"nowhere\"");
    assert!(done.stdout.is_empty());

    let json = Done::of(check_config(&args).arg("--json")).code(2).json();
    assert_eq!(json["ok"], false);
    assert_eq!(json["errors"].as_array().map(Vec::len), Some(3));
    // A start with them is refused in the same words.
    Done::of(convoke(["hub", "--data", "/nonexistent/convoke-test"]).args(args)).code(2).notes("did you mean");
}

#[test]
fn settings_for_programs_say_what_is_allowed() {
    let json = Done::of(check_config(&[]).arg("--json")).ok().json();
    let settings = json["settings"].as_array().expect("a list");
    let listen = settings.iter().find(|s| s["name"] == "hub.listen").expect("listed");
    assert_eq!(listen["value"], "127.0.0.1:7410");
    assert_eq!(listen["source"], "default");
}

#[test]
fn a_settings_file_that_is_named_must_be_there() {
    Done::of(&mut check_config(&["--config", "/nonexistent/x.toml"])).code(2).notes("/nonexistent/x.toml");
    Done::of(check_config(&[]).env("CONVOKE_CONFIG", "/nonexistent/y.toml")).code(2).notes("/nonexistent/y.toml");
}

#[test]
fn a_data_directory_that_is_a_file_is_named_as_such() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    Done::of(convoke(["hub", "--data"]).arg(file.path())).code(2).notes("is not a directory");
    Done::of(convoke(["hub", "--check-config", "--data"]).arg(file.path())).code(2).notes("is not a directory");
}

#[test]
fn a_listener_that_would_be_refused_is_found_by_the_check() {
    Done::of(&mut check_config(&["--listen", "0.0.0.0:7410"])).code(2).notes("--insecure-listen");
}

/// The check and a start refuse it alike, and neither makes the data directory.
#[track_caller]
fn refused_alike(args: &[&str], variable: Option<(&str, &str)>, why: &str) {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    for check in [true, false] {
        let mut command = convoke(["hub", "--listen", "127.0.0.1:0", "--data"]);
        command.arg(&data).args(args).args(check.then_some("--check-config")).envs(variable);
        Done::of(&mut command).code(2).notes(why);
        assert!(!data.exists(), "{why}: check {check}");
    }
}

#[test]
fn a_certificate_that_would_be_refused_is_found_by_the_check() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).expect("written");
        file.to_str().expect("text").to_owned()
    };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
    let (cert, key) = (file("cert", &made.cert.pem()), made.signing_key.serialize_pem());
    let (sealed, key) = (file("sealed", &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY")), file("key", &key));
    let other = file("other", &rcgen::KeyPair::generate().expect("a key").serialize_pem());
    let (none, folder) = (file("none", "nothing\n"), dir.path().to_str().expect("text"));
    for (cert, key, why) in [
        (cert.as_str(), other.as_str(), "does not belong to the key"),
        (&none, &key, "it contains no certificate"),
        (&cert, &none, "it contains no private key"),
        (&cert, &sealed, "is encrypted"),
        (folder, &key, folder),
    ] {
        refused_alike(&["--tls-cert", cert, "--tls-key", key], None, why);
    }
    Done::of(&mut check_config(&["--tls-cert", &cert, "--tls-key", &key])).ok();
}

#[test]
fn what_the_environment_has_wrong_is_found_by_the_check() {
    for (name, value, why) in [
        ("CONVOKE_DATA_KEY", "short", "CONVOKE_DATA_KEY"),
        ("CONVOKE_KENNY_PRIVATE_KEY", "!", "CONVOKE_KENNY_PRIVATE_KEY is not base64"),
        ("CONVOKE_KENNY_PRIVATE_KEY", "AAAA", "32-byte seed"),
        ("CONVOKE_OPERATOR_TOKEN", "a b", "CONVOKE_OPERATOR_TOKEN must be"),
        ("CONVOKE_LOG", "convoke_hub=loud", "CONVOKE_LOG"),
    ] {
        refused_alike(&[], Some((name, value)), why);
    }
    // All of it at once, beside the mistakes in the settings.
    let mut command = check_config(&["--set", "kenny.heartbeat_s=soon", "--json"]);
    command.envs([("CONVOKE_DATA_KEY", "short"), ("CONVOKE_KENNY_PRIVATE_KEY", "!"), ("CONVOKE_LOG", "a=b=c")]);
    let json = Done::of(&mut command).code(2).json();
    assert_eq!(json["errors"].as_array().map(Vec::len), Some(4), "{json}");
}

#[test]
fn shells_get_their_completions() {
    Done::of(&mut convoke(["completions", "bash"])).ok().says("_convoke").says("enroll-token");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = Done::of(&mut convoke(["completions", shell])).ok().says("--hub").says("rotate-key").stdout;
        assert!(!script.contains("simulated") && !script.contains("Simulated"), "{shell}");
        assert!(!script.contains("convoke__subcmd__sim") && !script.contains(" sim "), "{shell}");
    }
    Done::of(&mut convoke(["completions", "fish"])).ok().says("complete -c convoke");
}

#[test]
fn a_hub_that_is_not_there_is_named() {
    // A port that was free a moment ago.
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let url = format!("http://{free}");
    let list = |args: &[&str]| Done::of(convoke(["agents", "list"]).args(args));
    list(&["--hub", &url, "--token", "t"]).code(1).notes(&format!("cannot reach the hub at {url}"));
    list(&["--hub", &url]).code(2).notes("no token for");
    list(&["--hub", "nowhere", "--token", "t"]).code(2).notes("is not an address of a hub");
    let done = list(&["--hub", &url, "--token", "t", "--json"]).code(1);
    let error: serde_json::Value = serde_json::from_str(&done.stderr).expect("JSON");
    assert_eq!(error["error"]["code"], "unreachable");
    assert!(done.stdout.is_empty());
}
