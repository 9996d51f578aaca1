//! A hub that serves with an authority's own certificate, as OpenSSL makes one in one line.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

use crate::endpoint::{Endpoint, until_online};
use crate::support::{Done, Hub, Server, convoke};

/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(90);

/// Writes a certificate and its key, and gives the files' names.
fn certificate(dir: &Path, name: &str) -> (String, String) {
    let mut params = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).expect("names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    let write = |kind: &str, text: String| {
        let file = dir.join(format!("{name}-{kind}.pem"));
        std::fs::write(&file, text).expect("writes");
        file.to_str().expect("text").to_owned()
    };
    (write("cert", params.self_signed(&key).expect("signed").pem()), write("key", key.serialize_pem()))
}

fn trusting(mut command: Command, cert: &str) -> Done {
    Done::of(command.env("SSL_CERT_FILE", cert))
}

#[test]
fn whoever_names_the_very_certificate_reaches_the_hub() {
    let dir = tempfile::tempdir().expect("a directory");
    let ((cert, key), (twin, _)) = (certificate(dir.path(), "own"), certificate(dir.path(), "twin"));
    let hub = Hub::start_with(&["--tls-cert", &cert, "--tls-key", &key]);
    hub.server.told("CA:TRUE");
    for refused in [hub.run(&["agents", "list"]), trusting(hub.verb(&["agents", "list"]), &twin)] {
        refused.code(1).notes("is not trusted here").notes("this certificate itself").notes("SSL_CERT_FILE");
    }
    trusting(hub.verb(&["agents", "list"]), &cert).ok();

    let invited = trusting(hub.verb(&["enroll-token", "pc-1", "--json"]), &cert).ok().json();
    let text = |name: &str| invited[name].as_str().expect("a text");
    let enrol = |name: &str, ca: &[&str]| {
        let mut command = convoke(["agent", "enroll", "--id", "pc-1", "--hub", hub.http(), "--token", text("token")]);
        command.args(["--hub-key", text("hub_public_key")]).args(ca).arg("--state").arg(hub.beside(name));
        Done::of(&mut command)
    };
    enrol("none", &[]).code(1).notes("this certificate itself").notes("--ca FILE");
    enrol("twin", &["--ca", &twin]).code(1).notes("--ca FILE");
    enrol("own", &["--ca", &cert]).ok().says("is enrolled at");

    let initialize = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    let bridged = Done::with_input(hub.verb(&["mcp"]).env("SSL_CERT_FILE", &cert), &format!("{initialize}\n"));
    bridged.says("serverInfo");
}

#[test]
fn the_local_agent_reaches_it_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let (cert, key) = certificate(dir.path(), "own");
    let data = dir.path().join("data");
    let mut up = convoke(["up", "--listen", "127.0.0.1:0", "--tls-cert", &cert, "--tls-key", &key, "--data"]);
    let mut up = Server::start(up.arg(&data));
    up.told("Ctrl-C stops it");
    let since = Instant::now();
    let call = || {
        let mut command = convoke(["call", "local", "fs_disk_usage", "--data"]);
        command.arg(&data);
        trusting(command, &cert)
    };
    // What is waited for happens in another process, so asking again is the event.
    loop {
        let done = call();
        if done.code == Some(0) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "{done:?}");
    }
    up.signal("TERM");
    assert!(up.end().success());
}

/// `--lan` makes a certificate that agents know by the hub's key, which `enroll-token` prints.
#[test]
fn a_hub_on_the_lan_is_known_by_its_key() {
    let hub = Hub::start_with(&["--lan"]);
    assert!(hub.http().starts_with("https://"), "{}", hub.http());
    // On the hub's own machine nothing has to be named.
    hub.run(&["status"]).ok().says("https://");
    let endpoint = Endpoint::at(&hub, "agent");
    let invited = hub.run(&["enroll-token", "pc-1"]).ok().says("--hub-key").says(hub.http());
    assert!(invited.stdout.contains("https://"));
    endpoint.enrol(&hub, "pc-1");
    let mut agent = endpoint.run(&[]);
    until_online(&hub, "pc-1");
    hub.run(&["exec", "pc-1", "--", "echo", "hello"]).ok().says("hello");
    let (there, here) = (hub.beside("there"), hub.beside("here"));
    std::fs::write(&there, "over TLS").expect("written");
    hub.run(&["cp", &format!("pc-1:{}", there.display()), &here.display().to_string()]).ok();
    assert_eq!(std::fs::read(&here).expect("reads"), b"over TLS");

    // From another machine: by the key, and by nothing else.
    let token = hub.run(&["tokens", "create", "anna", "--role", "viewer"]).ok().stdout.trim().to_owned();
    hub.run_as(&token, &["agents", "list"]).code(1).notes("not trusted");
    let key = hub.ready["kenny_public_key"].as_str().expect("a key").to_owned();
    let with = |key: &str| {
        let mut verb = convoke(["agents", "list"]);
        verb.env("CONVOKE_HUB", hub.http()).env("CONVOKE_TOKEN", &token).env("CONVOKE_HUB_KEY", key);
        Done::of(&mut verb)
    };
    with(&key).ok().says("pc-1");
    with("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").code(1).notes("not trusted");
    with("nonsense").code(2).notes("CONVOKE_HUB_KEY");
    let other = Endpoint::at(&hub, "other");
    let invited = hub.run(&["enroll-token", "pc-2", "--json"]).ok().json();
    let token = invited["token"].as_str().expect("a token");
    let wrong = "11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let args = ["enroll", "--id", "pc-2", "--hub-key", wrong, "--hub", hub.http(), "--token", token];
    Done::of(&mut other.verb(&args)).code(1).notes("certificate");

    let cert = std::fs::read(hub.data().join("tls-cert.pem")).expect("is there");
    agent.signal("TERM");
    assert!(agent.end().success());
    let hub = hub.restart(&["--lan"]);
    assert_eq!(std::fs::read(hub.data().join("tls-cert.pem")).expect("is there"), cert, "the same after a restart");
}
