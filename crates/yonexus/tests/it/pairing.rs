//! Pairing: what a code can do, and what nobody can do without it.

use std::time::Duration;

use convoke_core::peer::Trust;
use convoke_yonexus::close;
use convoke_yonexus::record::Notification;

use crate::support::{Connection, Server, TTL, at, confirm, hello, hello_as, key_of};

fn open(server: &mut Server, text: &str, seconds: u64) -> Connection {
    let mut connection = Connection::open(at(seconds));
    server.hear(&mut connection, text, at(seconds));
    connection
}

#[test]
fn a_code_pairs_and_the_secret_comes_with_it() {
    let mut server = Server::new();
    let mut connection = open(&mut server, &hello(1, false), 0);
    assert_eq!(server.record.trust, Trust::Pending);
    assert_eq!(connection.kinds(), ["hello_ack", "pair_request"]);
    assert_eq!(connection.last()["payload"]["ttlSeconds"], 300);
    let typed = server.code().to_lowercase().replace('-', " ");
    server.hear(&mut connection, &confirm(&typed), at(10));
    assert_eq!(connection.last()["type"], "pair_success");
    assert_eq!(connection.last()["payload"]["pairedAt"], at(10).unix());
    assert_eq!(server.record.trust, Trust::Trusted);
}

#[test]
fn five_wrong_codes_burn_one_and_the_next_pairing_waits() {
    let mut server = Server::new();
    let mut connection = open(&mut server, &hello(1, false), 0);
    let code = server.code();
    for _ in 0..5 {
        server.hear(&mut connection, &confirm("AAAA-AAAA-AAAA"), at(1));
        assert_eq!(connection.last()["payload"]["reason"], "invalid_code");
    }
    server.hear(&mut connection, &confirm(&code), at(2));
    assert_eq!(connection.last()["payload"]["reason"], "expired");
    assert_eq!(server.record.trust, Trust::Unpaired);
    let again = open(&mut server, &hello(1, false), 3);
    assert_eq!(again.kinds(), ["hello_ack", "error"]);
    assert_eq!(again.last()["payload"]["code"], "RATE_LIMITED");
    let later = open(&mut server, &hello(1, false), 62);
    assert_eq!(later.kinds(), ["hello_ack", "pair_request"]);
    assert_ne!(server.code(), code);
}

#[test]
fn a_code_is_good_until_its_time_is_over() {
    for (seconds, kind) in [(299, "pair_success"), (300, "pair_failed")] {
        let mut server = Server::new();
        let mut connection = open(&mut server, &hello(1, false), 0);
        let code = server.code();
        server.hear(&mut connection, &confirm(&code), at(seconds));
        assert_eq!(connection.last()["type"], kind, "{seconds}");
    }
}

#[test]
fn a_hello_while_a_code_lives_waits_with_the_same_key_and_is_rejected_with_another() {
    let mut server = Server::new();
    open(&mut server, &hello(1, false), 0);
    let code = server.code();
    let same = open(&mut server, &hello(1, false), 100);
    assert_eq!(same.kinds(), ["hello_ack", "pair_request"]);
    assert_eq!(same.last()["payload"]["ttlSeconds"], 200);
    let other = open(&mut server, &hello(2, false), 100);
    assert_eq!((other.kinds(), other.closed), (vec!["hello_ack".into(), "error".into()], Some(close::REJECTED)));
    assert_eq!(server.code(), code, "and touches nothing");
    assert_eq!(server.record.pairing.as_ref().map(|p| p.key), Some(key_of(1).verifying_key()));
    let after = open(&mut server, &hello(2, false), 300);
    assert_eq!(after.kinds(), ["hello_ack", "pair_request"]);
}

#[test]
fn nobody_told_means_nobody_paired_until_somebody_is() {
    let mut server = Server::new();
    server.reachable = false;
    let mut connection = open(&mut server, &hello(1, false), 0);
    assert_eq!(connection.last()["payload"]["adminNotification"], "failed");
    let code = server.code();
    server.hear(&mut connection, &confirm(&code), at(1));
    assert_eq!(connection.last()["payload"]["reason"], "admin_notification_failed");
    server.record.pairing.as_mut().expect("still there").notification = Notification::Sent;
    server.hear(&mut connection, &confirm(&code), at(2));
    assert_eq!(connection.last()["type"], "pair_success");
}

#[test]
fn an_operator_approves_or_denies() {
    let mut server = Server::new();
    open(&mut server, &hello(1, false), 0);
    assert!(server.record.approve(at(1)));
    let back = open(&mut server, &hello(1, false), 2);
    assert_eq!(back.kinds(), ["hello_ack", "pair_success"]);

    let mut server = Server::new();
    let mut connection = open(&mut server, &hello(1, false), 0);
    let code = server.code();
    assert!(server.record.deny(at(1), TTL));
    assert!(!server.record.deny(at(1), TTL));
    server.hear(&mut connection, &confirm(&code), at(2));
    assert_eq!(connection.last()["payload"]["reason"], "expired");
    assert_eq!(open(&mut server, &hello(1, false), 3).last()["payload"]["code"], "RATE_LIMITED");
}

#[test]
fn strangers_the_revoked_and_other_versions_look_alike() {
    let mut server = Server::new();
    let stranger = open(&mut server, &hello_as("client-b", 1, false), 0);
    server.pair(1, at(0));
    server.record.revoke();
    let revoked = open(&mut server, &hello(1, true), 1);
    for connection in [&stranger, &revoked] {
        assert_eq!(connection.kinds(), ["hello_ack", "error"]);
        assert_eq!(connection.last()["payload"]["code"], "IDENTIFIER_NOT_ALLOWED");
        assert_eq!(connection.closed, Some(close::REJECTED));
    }
    let text = hello(1, false).replace(r#""protocolVersion":"1""#, r#""protocolVersion":"2""#);
    assert_eq!(open(&mut server, &text, 2).last()["payload"]["code"], "UNSUPPORTED_PROTOCOL_VERSION");
    assert!(server.record.readmit());
    assert_eq!(open(&mut server, &hello(1, false), 3).kinds(), ["hello_ack", "pair_request"]);
}

#[test]
fn pairing_needs_a_key_and_a_client_with_a_secret_is_never_shut_out_by_a_stranger() {
    let mut server = Server::new();
    let without = hello(1, false).replace(r#""publicKey""#, r#""x""#);
    let mut connection = open(&mut server, &without, 0);
    assert_eq!(connection.last()["payload"]["code"], "MALFORMED_MESSAGE");
    server.hear(&mut connection, &hello(1, false), at(1));
    assert_eq!(connection.last()["type"], "pair_request", "the connection stays");

    let mut server = Server::new();
    server.pair(1, at(0));
    open(&mut server, &hello(9, false), 1);
    assert!(server.record.pairing.is_some());
    let back = open(&mut server, &hello(1, true), 2);
    assert_eq!(back.last()["payload"]["nextAction"], "auth_required");
    assert_eq!(server.record.trust, Trust::Trusted);
    assert_eq!(server.record.key, Some(key_of(1).verifying_key()));
}

#[test]
fn a_code_for_another_identifier_or_before_hello_does_nothing() {
    let mut server = Server::new();
    let mut connection = open(&mut server, &hello(1, false), 0);
    let foreign = confirm(&server.code()).replace("client-a", "client-b");
    server.hear(&mut connection, &foreign, at(1));
    assert_eq!(connection.last()["payload"]["reason"], "identifier_not_allowed");
    let early = confirm(&server.code());
    let connection = open(&mut server, &early, 1);
    assert_eq!(connection.last()["payload"]["code"], "MALFORMED_MESSAGE");
    assert_eq!(server.record.trust, Trust::Pending);
    assert_eq!(TTL, Duration::from_secs(300));
}
