//! The nine checks, in their order.

use convoke_core::peer::Trust;
use convoke_core::secret::SecretText;
use convoke_yonexus::key;
use convoke_yonexus::record::Rotation;

use crate::support::{Connection, Server, at, auth, hello, key_of};

/// A connection of a paired client that has said hello.
fn greeted(server: &mut Server, seconds: u64) -> Connection {
    let mut connection = Connection::open(at(seconds));
    server.hear(&mut connection, &hello(1, true), at(seconds));
    assert_eq!(connection.last()["payload"]["nextAction"], "auth_required");
    connection
}

fn reason(server: &mut Server, connection: &mut Connection, text: &str, seconds: u64) -> String {
    server.hear(connection, text, at(seconds));
    let last = connection.last();
    match last["type"].as_str() {
        Some("auth_success") => "ok".into(),
        _ => last["payload"]["reason"].as_str().unwrap_or_else(|| panic!("{last}")).to_owned(),
    }
}

#[test]
fn a_proof_of_key_and_secret_lets_in() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let mut connection = greeted(&mut server, 50);
    assert_eq!(reason(&mut server, &mut connection, &auth(1, &secret, 1, at(50).unix()), 50), "ok");
    assert!(connection.session.is_live());
    assert_eq!(connection.last()["payload"]["status"], "online");
}

#[test]
fn each_check_has_its_reason_and_a_failed_one_leaves_another_try() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let mut connection = greeted(&mut server, 50);
    let now = at(50).unix();
    let mut try_with = |text: &str| reason(&mut server, &mut connection, text, 50);
    assert_eq!(try_with(&auth(2, &secret, 1, now)), "invalid_signature", "another key");
    assert_eq!(try_with(&auth(1, &SecretText::new("guess"), 1, now)), "invalid_signature", "another secret");
    let foreign = auth(1, &secret, 1, now).replace(
        r#""signature":"#,
        &format!(r#""publicKey":"{}","signature":"#, key::encode(&key_of(2).verifying_key())),
    );
    assert_eq!(try_with(&foreign), "invalid_signature", "a key that is not the bound one");
    assert_eq!(try_with(&auth(1, &secret, 1, now).replace("client-a", "client-b")), "unknown_identifier");
    assert_eq!(try_with(&auth(1, &secret, 1, now - 10)), "stale_timestamp");
    assert_eq!(try_with(&auth(1, &secret, 1, now + 10)), "future_timestamp");
    assert_eq!(try_with(&auth(1, &secret, 1, now - 9)), "ok", "and none of them cost the nonce");
    assert_eq!(server.record.trust, Trust::Trusted);
}

#[test]
fn a_nonce_used_twice_resets_trust() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let proof = auth(1, &secret, 1, at(50).unix());
    let mut first = greeted(&mut server, 50);
    assert_eq!(reason(&mut server, &mut first, &proof, 50), "ok");
    let mut replay = greeted(&mut server, 52);
    server.hear(&mut replay, &proof, at(52));
    assert_eq!(replay.kinds()[1..], ["auth_failed", "re_pair_required"]);
    assert_eq!(replay.last()["payload"]["reason"], "nonce_collision");
    assert_eq!(server.record.trust, Trust::Unpaired);
    assert!(server.record.secret.is_none());
    let mut after = Connection::open(at(53));
    server.hear(&mut after, &hello(1, true), at(53));
    assert_eq!(after.last()["type"], "pair_request");
    assert_eq!(reason(&mut server, &mut after, &auth(1, &secret, 2, at(53).unix()), 53), "re_pair_required");
}

#[test]
fn a_replayed_stranger_cannot_reset_trust() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let mut connection = greeted(&mut server, 50);
    for n in 0..30 {
        let text = auth(2, &secret, n % 2, at(50).unix());
        assert_eq!(reason(&mut server, &mut connection, &text, 50), "invalid_signature");
    }
    assert_eq!(reason(&mut server, &mut connection, &auth(1, &secret, 1, at(50).unix()), 50), "ok");
}

#[test]
fn the_eleventh_attempt_in_ten_seconds_resets_trust() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    for n in 0..10 {
        let mut connection = greeted(&mut server, 50);
        assert_eq!(reason(&mut server, &mut connection, &auth(1, &secret, n, at(50).unix()), 50), "ok");
    }
    let mut connection = greeted(&mut server, 59);
    server.hear(&mut connection, &auth(1, &secret, 20, at(59).unix()), at(59));
    assert_eq!(connection.kinds()[1..], ["auth_failed", "re_pair_required"]);
    assert_eq!(connection.last()["payload"]["reason"], "rate_limited");
    assert_eq!(server.record.trust, Trust::Unpaired);
}

#[test]
fn an_old_secret_is_told_apart_from_a_wrong_one() {
    let mut server = Server::new();
    let old = server.pair(1, at(0));
    let new = server.pair(1, at(10));
    assert_ne!(old.reveal(), new.reveal());
    let mut connection = greeted(&mut server, 50);
    let now = at(50).unix();
    assert_eq!(reason(&mut server, &mut connection, &auth(1, &old, 1, now), 50), "invalid_secret");
    assert_eq!(reason(&mut server, &mut connection, &auth(1, &new, 1, now), 50), "ok");
}

#[test]
fn the_unpaired_and_the_revoked_prove_nothing() {
    let mut server = Server::new();
    let mut connection = Connection::open(at(0));
    server.hear(&mut connection, &hello(1, false), at(0));
    let text = auth(1, &SecretText::new("x"), 1, at(0).unix());
    assert_eq!(reason(&mut server, &mut connection, &text, 0), "not_paired");
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let mut connection = greeted(&mut server, 1);
    server.record.revoke();
    let text = auth(1, &secret, 1, at(1).unix());
    assert_eq!(reason(&mut server, &mut connection, &text, 1), "not_paired");
}

#[test]
fn a_key_is_replaced_only_while_an_operator_allows_it() {
    let mut server = Server::new();
    let secret = server.pair(1, at(0));
    let with_key = |seconds: u64, nonce: u8| {
        let named = format!(r#""publicKey":"{}","signature":"#, key::encode(&key_of(2).verifying_key()));
        auth(2, &secret, nonce, at(seconds).unix()).replace(r#""signature":"#, &named)
    };
    let mut connection = greeted(&mut server, 10);
    assert_eq!(reason(&mut server, &mut connection, &with_key(10, 1), 10), "invalid_signature");
    let until = at(60).wall;
    server.record.rotation = Some(Rotation { until, key: Some(key_of(3).verifying_key()) });
    assert_eq!(reason(&mut server, &mut connection, &with_key(15, 4), 15), "invalid_signature", "not for this key");
    server.record.rotation = Some(Rotation { until, key: Some(key_of(2).verifying_key()) });
    assert_eq!(reason(&mut server, &mut connection, &with_key(61, 5), 61), "invalid_signature", "too late");
    assert_eq!(reason(&mut server, &mut connection, &with_key(20, 2), 20), "ok");
    assert_eq!(server.record.key, Some(key_of(2).verifying_key()));
    assert_eq!(server.record.rotation, None, "once");
    let mut connection = greeted(&mut server, 30);
    let text = auth(1, &secret, 3, at(30).unix());
    assert_eq!(reason(&mut server, &mut connection, &text, 30), "invalid_signature", "the old key is gone");
}
