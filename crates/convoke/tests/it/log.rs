//! A log that nobody reads, of a hub and of an agent.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_setfl};
use serde_json::Value;
use tokio_tungstenite::tungstenite::{Message, client};

use crate::endpoint::{Endpoint, until, until_online};
use crate::support::{Done, Hub, Server, convoke};

/// A pipe without room for one more byte.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fcntl_setfl(&writer, OFlags::NONBLOCK).expect("set");
    for size in [4096, 1] {
        while writer.write(&vec![b'\n'; size]).is_ok() {}
    }
    fcntl_setfl(&writer, OFlags::empty()).expect("set");
    (reader, writer)
}

/// Comes as an agent that is none, and hears that it is not let in.
#[track_caller]
fn be_refused(http: &str) {
    let address = http.strip_prefix("http://").expect("an address");
    let stream = TcpStream::connect(address).expect("the hub's socket");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("set");
    let (mut socket, _) = client(format!("ws://{address}/agent/ws"), stream).expect("a WebSocket");
    socket.send(Message::text("{}")).expect("sent");
    assert!(matches!(socket.read(), Ok(Message::Close(Some(_)))), "the hub does not answer");
}

fn http(hub: &Server) -> String {
    let ready: Value = serde_json::from_str(&hub.line()).expect("one line of JSON");
    ready["http"].as_str().expect("an address").to_owned()
}

#[test]
fn a_hub_whose_log_nobody_reads_goes_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (reader, writer) = full_pipe();
    let mut hub = Server::start_unread(&mut Hub::command(dir.path()), writer);
    be_refused(&http(&hub));
    // What it had to tell is there once somebody looks.
    hub.read(reader);
    if !hub.told("refused an agent").contains(" ready ") {
        // It serves as soon as the line of JSON is out, which is before this is logged.
        hub.told(" ready ");
    }
    hub.signal("TERM");
    hub.told("stopped");
    assert!(hub.end().success());
}

#[test]
fn a_hub_whose_log_nobody_reads_ends_when_it_is_told_to() {
    let dir = tempfile::tempdir().expect("a directory");
    let (_reader, writer) = full_pipe();
    let mut hub = Server::start_unread(&mut Hub::command(dir.path()), writer);
    http(&hub);
    hub.signal("TERM");
    assert!(hub.end().success());
}

#[test]
fn up_serves_and_ends_though_nobody_reads_its_welcome_and_the_token_is_shown_another_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let up = || {
        let mut up = convoke(["up", "--listen", "127.0.0.1:0", "--data"]);
        up.arg(&data);
        up
    };
    let (_reader, writer) = full_pipe();
    let mut unread = Server::start_unread(&mut up(), writer);
    let call = ["call", "local", "fs_list", "--args", r#"{"path":"/"}"#, "--data"];
    until("its agent answers", || Done::of(convoke(call).arg(&data)).code == Some(0));
    unread.signal("TERM");
    assert!(unread.end().success());
    for shown in [true, false] {
        let mut read = Server::start(&mut up());
        assert_eq!(read.told("Ctrl-C stops it").contains("operator token"), shown);
        read.signal("TERM");
        assert!(read.end().success());
    }
}

#[test]
fn an_agent_whose_log_nobody_reads_connects_and_ends() {
    let hub = Hub::start();
    let endpoint = Endpoint::at(&hub, "agent");
    endpoint.enrol(&hub, "pc-1");
    let (_reader, writer) = full_pipe();
    let mut agent = Server::start_unread(&mut endpoint.verb(&["run"]), writer);
    until_online(&hub, "pc-1");
    agent.signal("TERM");
    assert!(agent.end().success());
}
