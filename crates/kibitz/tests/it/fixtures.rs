//! Every golden frame decodes and encodes to the same bytes, and every word of the contract is among them.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_kibitz::admission::{Invite, Manifest, Refused, assert, check_assertion, relay_fingerprint};
use convoke_kibitz::content::Content;
use convoke_kibitz::frame::{FromParticipant, FromRelay, Lobby, Moderation, from_participant, from_relay};
use convoke_kibitz::key::{PublicKey, Signer as _};
use serde_json::Value;

use crate::support::{Checks, Key};

fn folder(name: &str) -> Vec<(String, String)> {
    convoke_testing::fixtures(&format!("kibitz/{name}"))
}

#[test]
fn every_frame_survives_decoding_and_encoding() {
    for (name, text) in folder("participant") {
        assert_eq!(from_participant(&text).unwrap_or_else(|why| panic!("{name}: {why}")).encode(), text, "{name}");
    }
    for (name, text) in folder("relay") {
        assert_eq!(from_relay(&text).unwrap_or_else(|why| panic!("{name}: {why}")).encode(), text, "{name}");
    }
}

#[test]
fn every_word_of_the_contract_is_there() {
    let (mut kinds, mut ops, mut lobby) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let participant = folder("participant");
    for (_, text) in &participant {
        match from_participant(text).expect("a frame") {
            FromParticipant::To { payload, .. } => {
                kinds.insert(Content::read(payload).expect("content").kind().to_owned());
            }
            FromParticipant::Mod { op, .. } => drop(ops.insert(op.name())),
            _ => {}
        }
    }
    for (_, text) in folder("relay") {
        if let FromRelay::Lobby(status) = from_relay(&text).expect("a frame") {
            lobby.insert(status.name());
        }
    }
    let all = ["chat", "app", "pay", "ink", "idtoken", "caps", "schema", "view", "act", "acted"];
    assert_eq!(kinds, all.map(String::from).into());
    assert_eq!(ops, Moderation::ALL.iter().map(|op| op.name()).collect());
    assert_eq!(lobby, Lobby::ALL.iter().map(|status| status.name()).collect());
}

#[test]
fn what_is_malformed_is_told_word_for_word() {
    for (name, text) in folder("malformed") {
        let case: Value = serde_json::from_str(&text).expect("JSON");
        let why = from_participant(case["text"].as_str().expect("a text")).expect_err(&name);
        assert_eq!(why.to_string(), case["error"].as_str().expect("a text"), "{name}");
    }
}

#[test]
fn what_another_program_signed_verifies_and_ours_is_the_same_but_for_the_signature() {
    let vector: Value = serde_json::from_str(&folder("vectors")[0].1).expect("JSON");
    let text = |name: &str| vector[name].as_str().expect("a text");
    let key = |name: &str| PublicKey::from_jwk(&vector[name].to_string()).expect("a key");
    let (agent, room_key) = (key("agent_key"), key("room_key"));
    let (room, iat) = (text("room"), vector["iat"].as_i64().expect("a time"));
    assert_eq!(agent.thumbprint(), text("thumbprint"));
    let fingerprint = relay_fingerprint(&text("host").to_uppercase(), text("challenge"));
    assert_eq!(fingerprint, text("fingerprint"));

    let manifest = Manifest::check(text("manifest"), &room_key, room, iat, &Checks).expect("verifies");
    assert_eq!(manifest.agent_keys[0].key, agent);
    let check = |assertion: &str, fingerprint: &str, room: &str, now: i64| {
        check_assertion(assertion, &manifest.agent_keys, room, fingerprint, now, &Checks)
            .map(|key| key.label.clone().expect("a label"))
    };
    let assertion = text("assertion");
    assert_eq!(check(assertion, &fingerprint, room, iat).as_deref(), Ok("scribe"));
    assert_eq!(check(assertion, &fingerprint, room, iat + 300).as_deref(), Ok("scribe"));
    assert_eq!(check(assertion, &fingerprint, room, iat - 60).as_deref(), Ok("scribe"));
    for (assertion, fingerprint, room, now, why) in [
        (assertion, fingerprint.as_str(), room, iat + 301, Refused::Stale),
        (assertion, &fingerprint, room, iat - 61, Refused::Ahead),
        (assertion, &fingerprint, "other", iat, Refused::Room),
        (assertion, &relay_fingerprint("evil.example", text("challenge")), room, iat, Refused::Connection),
        (text("invite"), &fingerprint, room, iat, Refused::UnknownKey),
        ("a.b", &fingerprint, room, iat, Refused::Malformed),
        (&format!("x{assertion}"), &fingerprint, room, iat, Refused::UnknownKey),
    ] {
        assert_eq!(check(assertion, fingerprint, room, now), Err(why));
    }

    let invite = Invite::check(text("invite"), &room_key, room, iat, &Checks).expect("verifies");
    assert_eq!((invite.name.as_str(), invite.is_host()), ("Anna", false));
    assert!(Invite::check(text("host_invite"), &room_key, room, iat, &Checks).expect("verifies").is_host());
    assert_eq!(Invite::check(text("invite"), &room_key, room, iat + 3600, &Checks), Err(Refused::Stale));
    assert_eq!(Invite::check(text("invite"), &agent, room, iat, &Checks), Err(Refused::UnknownKey));
    let not_one = Invite::check(text("manifest"), &room_key, room, iat, &Checks);
    assert_eq!(not_one, Err(Refused::Malformed), "a manifest is no invite");

    let signer = Key::from_pkcs8(&URL_SAFE_NO_PAD.decode(text("agent_pkcs8")).expect("base64"));
    assert_eq!(signer.public_key(), agent);
    let ours = assert(&signer, room, &fingerprint, iat).expect("signed");
    assert_eq!(ours.split('.').next(), assertion.split('.').next(), "the same text is signed");
    assert_eq!(check(&ours, &fingerprint, room, iat).as_deref(), Ok("scribe"));
}
