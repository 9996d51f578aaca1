//! A hub that serves with an authority's own certificate, as OpenSSL makes one in one line.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

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
