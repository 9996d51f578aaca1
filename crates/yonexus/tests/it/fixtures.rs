//! Every golden frame decodes and encodes to the same bytes, and every word of the contract is among them.

use std::collections::BTreeSet;

use convoke_core::secret::SecretText;
use convoke_yonexus::builtin::{Body, Builtin, decode};
use convoke_yonexus::message::{Message, split};
use convoke_yonexus::reason::{AuthFailure, ErrorCode, Kind, NextAction, PairFailure, Unsafe};
use convoke_yonexus::server::is_from_client;
use convoke_yonexus::{key, proof};
use ed25519_dalek::SigningKey;
use serde_json::Value;

fn folder(name: &str) -> Vec<(String, String)> {
    convoke_testing::fixtures(&format!("yonexus/{name}"))
}

fn builtin(text: &str) -> Option<Builtin> {
    match split(text).expect("a message") {
        Message::Builtin(json) => Some(decode(json).unwrap_or_else(|why| panic!("{text}: {why}"))),
        Message::Rule(_) => None,
    }
}

#[test]
fn every_frame_survives_decoding_and_encoding() {
    for side in ["client", "server"] {
        for (name, text) in folder(side) {
            match split(&text) {
                Ok(Message::Builtin(_)) => {
                    let frame = builtin(&text).expect("a builtin");
                    assert_eq!(frame.encode(), text, "{name}");
                    assert_eq!(is_from_client(frame.kind()), side == "client", "{name}");
                }
                Ok(Message::Rule(rule)) => {
                    assert_eq!(convoke_yonexus::message::encode(rule.rule, rule.content), text);
                }
                Err(why) => panic!("{name}: {why}"),
            }
        }
    }
}

#[test]
fn every_word_of_the_contract_is_there() {
    let frames: Vec<Builtin> =
        ["client", "server"].iter().flat_map(|side| folder(side)).filter_map(|(_, text)| builtin(&text)).collect();
    let seen = |what: fn(&Body) -> Option<String>| -> BTreeSet<String> {
        frames.iter().filter_map(|frame| what(&frame.body)).collect()
    };
    fn names<T: Copy + std::fmt::Display>(all: &[T]) -> BTreeSet<String> {
        all.iter().map(ToString::to_string).collect()
    }
    assert_eq!(seen(|body| Some(body.kind().to_string())), names(Kind::ALL));
    assert_eq!(
        seen(|body| match body {
            Body::HelloAck { next_action, .. } => Some(next_action.to_string()),
            _ => None,
        }),
        names(NextAction::ALL)
    );
    assert_eq!(
        seen(|body| match body {
            Body::PairFailed { reason, .. } => Some(reason.to_string()),
            _ => None,
        }),
        names(PairFailure::ALL)
    );
    assert_eq!(
        seen(|body| match body {
            Body::AuthFailed { reason, .. } => Some(reason.to_string()),
            _ => None,
        }),
        names(AuthFailure::ALL)
    );
    assert_eq!(
        seen(|body| match body {
            Body::RePairRequired { reason, .. } => Some(reason.name().to_owned()),
            _ => None,
        }),
        names(Unsafe::ALL)
    );
    assert_eq!(
        seen(|body| match body {
            Body::Error(error) => Some(error.code.as_ref().expect("a known code").to_string()),
            _ => None,
        }),
        names(ErrorCode::ALL)
    );
}

#[test]
fn frames_of_other_programs_are_read() {
    for (name, text) in folder("field") {
        let frame = builtin(&text).expect(&name);
        let again = builtin(&frame.encode()).expect("a builtin");
        assert_eq!(again.encode(), frame.encode(), "{name}");
    }
    let fraction = folder("field").into_iter().find(|(name, _)| name.starts_with("heartbeat")).expect("there").1;
    assert_eq!(builtin(&fraction).and_then(|frame| frame.timestamp), Some(1_711_886_800));
}

#[test]
fn what_is_no_message_is_told_word_for_word() {
    for (name, text) in folder("malformed") {
        let case: Value = serde_json::from_str(&text).expect("JSON");
        let text = case["text"].as_str().expect("a text");
        let error = match split(text) {
            Ok(Message::Builtin(json)) => decode(json).map(drop),
            Ok(Message::Rule(_)) => Ok(()),
            Err(why) => Err(why),
        };
        assert_eq!(error.expect_err(&name).to_string(), case["error"], "{name}");
    }
}

#[test]
fn the_proof_agrees_with_openssl() {
    let (_, text) = folder("vectors").remove(0);
    let vector: Value = serde_json::from_str(&text).expect("JSON");
    let field = |name: &str| vector[name].as_str().expect("a text").to_owned();
    let mut seed = [0; 32];
    for (i, byte) in seed.iter_mut().enumerate() {
        *byte = i as u8;
    }
    let signer = SigningKey::from_bytes(&seed);
    for form in ["publicKey", "publicKeySpki", "publicKeyPem"] {
        assert_eq!(key::parse(&field(form)), Ok(signer.verifying_key()), "{form}");
    }
    assert_eq!(key::encode(&signer.verifying_key()), field("publicKey"));
    let secret = SecretText::new(field("secret"));
    let time = vector["timestamp"].as_i64().expect("a number");
    let signature = proof::sign(&signer, &secret, &field("nonce"), time);
    assert_eq!(proof::encode(&signature), field("signature"));
    assert!(proof::verify(&signer.verifying_key(), &secret, &field("nonce"), time, &signature));
}
