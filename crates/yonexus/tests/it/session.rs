//! One connection: malformed frames, early ones, too many, too large, silence.

use convoke_yonexus::close;
use convoke_yonexus::reason::Status;

use crate::support::{Connection, Server, at, auth, heartbeat, hello};

fn live(server: &mut Server, seconds: u64) -> Connection {
    let secret = server.pair(1, at(0));
    let mut connection = Connection::open(at(seconds));
    server.hear(&mut connection, &hello(1, true), at(seconds));
    server.hear(&mut connection, &auth(1, &secret, 1, at(seconds).unix()), at(seconds));
    assert!(connection.session.is_live());
    connection.said.clear();
    connection
}

fn code(connection: &Connection) -> String {
    connection.last()["payload"]["code"].as_str().expect("an error").to_owned()
}

#[test]
fn three_malformed_frames_in_a_row_close_and_a_good_one_between_forgives() {
    let mut server = Server::new();
    let mut connection = live(&mut server, 50);
    for text in ["nonsense", "builtin::{", "chat::fine", "::x", "builtin::[]", "chat::fine"] {
        server.hear(&mut connection, text, at(51));
        assert_eq!(connection.closed, None, "{text}");
    }
    assert_eq!(connection.rules, ["fine", "fine"]);
    for text in ["a", "b", "c"] {
        server.hear(&mut connection, text, at(52));
        assert_eq!(code(&connection), "MALFORMED_MESSAGE");
    }
    assert_eq!(connection.closed, Some(close::MALFORMED));
}

#[test]
fn a_rule_message_or_heartbeat_before_authentication_is_told_so() {
    let mut server = Server::new();
    let mut connection = Connection::open(at(0));
    for text in ["chat::hello", &heartbeat()] {
        server.hear(&mut connection, text, at(0));
        assert_eq!(code(&connection), "AUTH_FAILED");
    }
    assert!(connection.rules.is_empty() && connection.closed.is_none());
}

#[test]
fn what_a_server_sends_a_client_may_not() {
    let mut server = Server::new();
    let mut connection = live(&mut server, 50);
    server.hear(&mut connection, r#"builtin::{"type":"auth_success","payload":{"identifier":"client-a","authenticatedAt":1,"status":"online"}}"#, at(50));
    assert_eq!(code(&connection), "MALFORMED_MESSAGE");
    server.hear(&mut connection, &heartbeat().replace("client-a", "client-b"), at(50));
    assert_eq!(code(&connection), "MALFORMED_MESSAGE");
    server.hear(&mut connection, &heartbeat(), at(50));
    assert_eq!(connection.said.len(), 2, "a good heartbeat is not answered");
}

#[test]
fn a_large_frame_is_refused_and_the_connection_lives() {
    let mut server = Server::new();
    let mut connection = Connection::open(at(0));
    server.hear(&mut connection, &format!("a::{}", "x".repeat(16 * 1024)), at(0));
    assert_eq!(code(&connection), "MALFORMED_MESSAGE");
    let mut connection = live(&mut server, 50);
    server.hear(&mut connection, &format!("a::{}", "x".repeat(1024 * 1024)), at(50));
    assert_eq!(code(&connection), "MALFORMED_MESSAGE");
    server.hear(&mut connection, &format!("a::{}", "x".repeat(1024 * 1024 - 3)), at(50));
    assert_eq!(connection.rules.len(), 1);
}

#[test]
fn floods_are_bounded_before_and_after_authentication() {
    let mut server = Server::new();
    let mut connection = Connection::open(at(0));
    let mut sent = 0;
    while connection.closed.is_none() {
        server.hear(&mut connection, &hello(1, false), at(0));
        sent += 1;
        assert!(sent < 100);
    }
    assert_eq!((connection.closed, code(&connection)), (Some(close::RATE_LIMITED), "RATE_LIMITED".to_owned()));

    let mut server = Server::new();
    let mut connection = live(&mut server, 50);
    for _ in 0..20_000 {
        server.hear(&mut connection, "chat::x", at(51));
    }
    assert_eq!(connection.rules.len(), 5_000);
    assert_eq!(connection.said.len(), 1, "told once, not fifteen thousand times");
    assert_eq!(code(&connection), "RATE_LIMITED");
    server.hear(&mut connection, "chat::x", at(52));
    assert_eq!(connection.rules.len(), 5_001);
}

#[test]
fn silence_is_unstable_then_offline_and_only_heartbeats_count() {
    let mut server = Server::new();
    let mut connection = live(&mut server, 0);
    server.hear(&mut connection, "chat::x", at(400));
    connection.tick(at(419));
    assert_eq!(connection.status, Some(Status::Online));
    connection.tick(at(420));
    assert_eq!(connection.status, Some(Status::Unstable));
    assert_eq!(connection.last()["payload"]["reason"], "heartbeat_timeout_7m");
    server.hear(&mut connection, &heartbeat(), at(500));
    assert_eq!(connection.status, Some(Status::Online));
    connection.tick(at(920));
    connection.tick(at(1160));
    assert_eq!(connection.last()["type"], "disconnect_notice");
    assert_eq!(connection.last()["payload"]["reason"], "heartbeat_timeout_11m");
    assert_eq!(connection.closed.map(|c| c.code), Some(4408));
}

#[test]
fn every_state_has_a_deadline() {
    let mut fresh = Connection::open(at(0));
    fresh.tick(at(9));
    assert_eq!(fresh.closed, None);
    fresh.tick(at(10));
    assert_eq!(fresh.closed, Some(close::TIMEOUT));
    let mut server = Server::new();
    let mut waiting = Connection::open(at(0));
    server.hear(&mut waiting, &hello(1, false), at(0));
    waiting.tick(at(329));
    assert_eq!(waiting.closed, None, "a person needs time");
    waiting.tick(at(330));
    assert_eq!(waiting.closed, Some(close::TIMEOUT));
}
