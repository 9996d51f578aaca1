//! Our client against our server, frame by frame.

use convoke_core::secret::SecretText;
use convoke_yonexus::client::{ClientEvent, ClientSession, Incoming, State};
use convoke_yonexus::reason::AdminNotification;

use crate::support::{Connection, Server, at, client};

/// Lets the client read all that the server has said since `from`.
fn read(client: &mut ClientSession, connection: &Connection, from: usize, seconds: u64) -> Vec<ClientEvent> {
    let event = |text: &String| match client.on_text(text, at(seconds)) {
        Incoming::Event(event) => Some(event),
        _ => None,
    };
    connection.said[from..].iter().filter_map(event).collect()
}

#[test]
fn a_first_pairing_and_a_reconnection() {
    let mut server = Server::new();
    let mut us = client(1, None);
    us.connecting();
    let mut connection = Connection::open(at(0));
    let hello = us.hello(at(0)).encode();
    server.hear(&mut connection, &hello, at(0));
    let events = read(&mut us, &connection, 0, 0);
    assert!(matches!(
        events[..],
        [ClientEvent::CodeWanted { ttl_seconds: 300, notification: AdminNotification::Sent, .. }]
    ));
    assert_eq!(us.state(), State::PairingPending);

    let code = SecretText::new(server.code());
    let from = connection.said.len();
    server.hear(&mut connection, &us.confirm(code, at(5)).encode(), at(5));
    let events = read(&mut us, &connection, from, 5);
    let [ClientEvent::Paired { secret, .. }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(us.state(), State::Paired);
    let from = connection.said.len();
    let proof = us.authenticate(&[3; 24], at(6)).expect("a secret is there").encode();
    server.hear(&mut connection, &proof, at(6));
    assert!(matches!(read(&mut us, &connection, from, 6)[..], [ClientEvent::Authenticated { .. }]));
    assert_eq!(us.state(), State::Authenticated);
    assert_eq!(us.next_deadline(), Some(at(306).mono));
    assert!(us.on_tick(at(305)).is_none());
    let beat = us.on_tick(at(306)).expect("due").encode();
    server.hear(&mut connection, &beat, at(306));
    assert_eq!(us.lost(at(400)).as_secs(), 394);
    assert_eq!(us.state(), State::Reconnecting);

    let mut us = client(1, Some(secret.clone()));
    let mut connection = Connection::open(at(500));
    server.hear(&mut connection, &us.hello(at(500)).encode(), at(500));
    assert!(matches!(read(&mut us, &connection, 0, 500)[..], [ClientEvent::AuthRequired]));
    server.hear(&mut connection, &us.authenticate(&[4; 24], at(500)).expect("a secret").encode(), at(500));
    assert!(matches!(read(&mut us, &connection, 1, 500)[..], [ClientEvent::Authenticated { .. }]));
}

#[test]
fn a_wrong_clock_is_told_in_seconds() {
    for (own, words) in [(543, "43 s ahead of"), (457, "43 s behind")] {
        let mut server = Server::new();
        let secret = server.pair(1, at(0));
        let mut us = client(1, Some(secret));
        let mut connection = Connection::open(at(500));
        server.hear(&mut connection, &us.hello(at(own)).encode(), at(500));
        read(&mut us, &connection, 0, own);
        server.hear(&mut connection, &us.authenticate(&[4; 24], at(own)).expect("a secret").encode(), at(500));
        let events = read(&mut us, &connection, 1, own);
        let [ClientEvent::AuthFailed { explanation, .. }] = &events[..] else { panic!("{events:?}") };
        assert!(explanation.contains(words), "{explanation}");
        assert_eq!(us.state(), State::Error);
    }
}

#[test]
fn a_reset_of_trust_leads_back_to_pairing_on_the_same_connection() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let mut us = client(1, Some(secret));
    for n in 0..2 {
        let mut connection = Connection::open(at(500 + n));
        server.hear(&mut connection, &us.hello(at(500 + n)).encode(), at(500 + n));
        read(&mut us, &connection, 0, 500 + n);
        // A broken source of randomness: the same nonce again.
        let proof = us.authenticate(&[4; 24], at(500 + n)).expect("a secret").encode();
        let from = connection.said.len();
        server.hear(&mut connection, &proof, at(500 + n));
        let events = read(&mut us, &connection, from, 500 + n);
        if n == 1 {
            assert!(matches!(events[..], [ClientEvent::AuthFailed { .. }, ClientEvent::RePairRequired(_)]));
            assert_eq!(us.state(), State::PairingRequired);
            assert!(us.identity().secret.is_none());
            server.hear(&mut connection, &us.hello(at(502)).encode(), at(502));
            assert_eq!(connection.last()["type"], "pair_request");
        }
    }
}

#[test]
fn nobody_hands_a_client_a_secret_or_a_success_it_did_not_ask_for() {
    let mut us = client(1, None);
    us.hello(at(0));
    let success =
        r#"builtin::{"type":"pair_success","payload":{"identifier":"client-a","secret":"evil","pairedAt":1}}"#;
    assert!(matches!(us.on_text(success, at(0)), Incoming::Ignored));
    let auth = r#"builtin::{"type":"auth_success","payload":{"identifier":"client-a","authenticatedAt":1,"status":"online"}}"#;
    assert!(matches!(us.on_text(auth, at(0)), Incoming::Ignored));
    assert!(us.identity().secret.is_none() && us.state() == State::Connected);
}
