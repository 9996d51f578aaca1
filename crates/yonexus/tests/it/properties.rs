//! What no sequence of frames can do.

use convoke_core::peer::Trust;
use convoke_core::secret::SecretText;
use convoke_yonexus::builtin::exercise;
use convoke_yonexus::reason::Status;
use proptest::prelude::*;

use crate::support::{ALLOWED, Connection, Server, TTL, at, auth, confirm, heartbeat, hello, hello_as};

/// Something that happens.
#[derive(Clone, Debug)]
enum Step {
    Connect,
    Hello { key: u8, secret: bool },
    Stranger,
    Confirm(Code),
    Auth { key: u8, secret: Secret, nonce: u8, off: i64 },
    Heartbeat,
    Text(String),
    Wait(u64),
    Approve,
    Deny,
    Revoke,
    Readmit,
    Unreachable(bool),
}

#[derive(Clone, Debug)]
enum Code {
    Right,
    Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Secret {
    Right,
    Old,
    Wrong,
}

fn step() -> impl Strategy<Value = Step> {
    // Mostly what leads somewhere: a proof must follow a pairing, and a replay a proof, before any of it is tried.
    let code = prop_oneof![4 => Just(Code::Right), 1 => Just(Code::Wrong)];
    let secret = prop_oneof![8 => Just(Secret::Right), 1 => Just(Secret::Old), 1 => Just(Secret::Wrong)];
    let key = || prop_oneof![6 => Just(1u8), 1 => Just(2u8)];
    let off = prop_oneof![6 => -9i64..10, 1 => -12i64..13];
    let wait = prop_oneof![3 => 0u64..4, 1 => 0u64..400];
    prop_oneof![
        3 => Just(Step::Connect),
        6 => (key(), any::<bool>()).prop_map(|(key, secret)| Step::Hello { key, secret }),
        1 => Just(Step::Stranger),
        4 => code.prop_map(Step::Confirm),
        8 => (key(), secret, 0u8..12, off)
            .prop_map(|(key, secret, nonce, off)| Step::Auth { key, secret, nonce, off }),
        1 => Just(Step::Heartbeat),
        1 => ".{0,40}".prop_map(Step::Text),
        3 => wait.prop_map(Step::Wait),
        1 => Just(Step::Approve),
        1 => Just(Step::Deny),
        1 => Just(Step::Revoke),
        1 => Just(Step::Readmit),
        1 => any::<bool>().prop_map(Step::Unreachable),
    ]
}

/// A code that is wrong in its last character alone. Not a code made up beforehand: the server here makes its codes by
/// counting, so that it comes to any of them.
fn all_but_right(code: &str) -> String {
    let last = if code.ends_with('Z') { "2" } else { "Z" };
    format!("{}{last}", &code[..code.len() - 1])
}

/// How trust may change, and by what alone (contract, 6.2): written apart from the record that keeps it.
fn is_legal(step: &Step, from: Trust, to: Trust, approved: bool) -> bool {
    match (from, to) {
        (from, to) if from == to => true,
        (Trust::Unpaired, Trust::Pending) => matches!(step, Step::Hello { .. }),
        // By the code, or because an operator has said yes to that very pairing.
        (Trust::Pending, Trust::Trusted) => {
            matches!(step, Step::Confirm(Code::Right)) || (approved && matches!(step, Step::Hello { .. }))
        }
        // Denied, burnt, or its time is over.
        (Trust::Pending, Trust::Unpaired) => {
            let ends =
                matches!(step, Step::Deny | Step::Wait(_) | Step::Confirm(_) | Step::Hello { .. } | Step::Approve);
            ends
        }
        // Only the holder of the key and the secret can bring it about.
        (Trust::Trusted, Trust::Unpaired | Trust::Pending) => {
            matches!(step, Step::Auth { secret: Secret::Right, .. })
        }
        (_, Trust::Revoked) => matches!(step, Step::Revoke),
        (Trust::Revoked, Trust::Unpaired) => matches!(step, Step::Readmit),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whoever is authenticated has sent, on that connection, a proof by the bound key over the secret in force, with a
    /// time within the drift and a fresh nonce, not more than ten in ten seconds; and whoever has, is. No code is ever
    /// in a frame. Trust changes as the contract says and by nothing else.
    #[test]
    fn no_sequence_of_frames_gets_in_without_proof_or_learns_a_code(steps in prop::collection::vec(step(), 1..90)) {
        let mut server = Server::new();
        let mut now = 1000;
        let mut connection = Connection::open(at(now));
        let mut proven = false;
        let mut codes: Vec<String> = Vec::new();
        let mut paired_since_reset = false;
        // The proofs that were accepted since the pairing: nonce and time.
        let mut proofs: Vec<(u8, u64)> = Vec::new();
        for step in steps {
            let was = server.record.trust;
            let was_paired = was == Trust::Trusted;
            let had_secret = server.record.secret.clone().map(|s| s.reveal().to_owned());
            let approved = server.record.pairing.as_ref().is_some_and(|p| p.approved);
            match step.clone() {
                Step::Connect => {
                    connection = Connection::open(at(now));
                    proven = false;
                }
                Step::Hello { key, secret } => server.hear(&mut connection, &hello(key, secret), at(now)),
                Step::Stranger => server.hear(&mut connection, &hello_as("client-b", 1, true), at(now)),
                Step::Confirm(code) => {
                    let right = server.record.pairing.as_ref().map(|p| p.code.reveal().to_owned());
                    let text = match (code, right) {
                        (Code::Right, Some(right)) => right,
                        (Code::Wrong, Some(right)) => all_but_right(&right),
                        (_, None) => "H7KM-2QXR-9TDE".into(),
                    };
                    server.hear(&mut connection, &confirm(&text), at(now));
                }
                Step::Auth { key, secret, nonce, off } => {
                    let current = server.record.secret.clone();
                    let old = server.record.old_secrets.first().cloned();
                    let used = match secret {
                        Secret::Right => current,
                        Secret::Old => old,
                        Secret::Wrong => None,
                    }
                    .unwrap_or_else(|| SecretText::new("guess"));
                    let bound = server.record.key == Some(crate::support::key_of(key).verifying_key());
                    let good = was_paired && bound && secret == Secret::Right && off.abs() < 10;
                    let fresh = !proofs.iter().any(|(seen, time)| *seen == nonce && now - time < 20);
                    let few = proofs.iter().filter(|(_, time)| now - time < 10).count() < 10;
                    let live = connection.session.is_live();
                    let heard = !live && connection.session.identifier().is_some();
                    server.hear(&mut connection, &auth(key, &used, nonce, at(now).unix() + off), at(now));
                    let let_in = connection.session.is_live() && !live;
                    prop_assert_eq!(let_in, heard && good && fresh && few, "a proof decides, and nothing else does");
                    if let_in {
                        proofs.push((nonce, now));
                        proven = true;
                    } else if heard && good {
                        prop_assert!(server.record.trust != Trust::Trusted, "what is unsafe resets trust");
                    }
                }
                Step::Heartbeat => server.hear(&mut connection, &heartbeat(), at(now)),
                Step::Text(text) => server.hear(&mut connection, &text, at(now)),
                Step::Wait(seconds) => {
                    now += seconds;
                    connection.tick(at(now));
                    server.record.expire(at(now));
                }
                Step::Approve => {
                    server.record.approve(at(now));
                }
                Step::Deny => {
                    server.record.deny(at(now), TTL);
                }
                Step::Revoke => server.record.revoke(),
                Step::Readmit => {
                    server.record.readmit();
                }
                Step::Unreachable(unreachable) => server.reachable = !unreachable,
            }
            prop_assert!(is_legal(&step, was, server.record.trust, approved), "{step:?}: {was:?} became {:?}", server.record.trust);
            if server.record.secret.as_ref().map(|s| s.reveal().to_owned()) != had_secret {
                proofs.clear();
            }
            if let Some(pairing) = &server.record.pairing {
                codes.push(pairing.code.reveal().to_owned());
                codes.dedup();
            }
            // Authenticated means proven, on this very connection.
            prop_assert!(!connection.session.is_live() || proven);
            prop_assert!(connection.rules.is_empty() || proven);
            // Trust is what is there, and nothing else.
            let record = &server.record;
            let trusted = record.secret.is_some() && record.key.is_some() && record.trust == Trust::Trusted;
            prop_assert_eq!(record.trust == Trust::Trusted, record.secret.is_some());
            prop_assert_eq!(record.trust == Trust::Trusted, trusted);
            if record.trust == Trust::Pending {
                prop_assert!(record.pairing.is_some());
            }
            if matches!(record.trust, Trust::Unpaired | Trust::Revoked) {
                prop_assert!(record.pairing.is_none());
            }
            prop_assert!(record.old_secrets.len() <= 3);
            if record.reset.is_some() {
                prop_assert!(record.trust != Trust::Trusted);
            }
            // Liveness is the session's: a connection that is not live has no status but offline.
            if connection.status == Some(Status::Offline) {
                prop_assert!(!connection.session.is_live() && connection.closed.is_some());
            }
            paired_since_reset |= record.trust == Trust::Trusted;
            prop_assert!(paired_since_reset || record.secret.is_none());
            for text in &connection.said {
                for code in &codes {
                    prop_assert!(!text.contains(code.as_str()), "a code in {}", text);
                    prop_assert!(!text.contains(&code.replace('-', "")), "a code in {}", text);
                }
                prop_assert!(text.contains("pair_success") || !text.contains("secret-"), "a secret in {}", text);
            }
            if connection.closed.is_some() {
                connection = Connection::open(at(now));
                proven = false;
            }
        }
        prop_assert_eq!(server.record.identifier, ALLOWED);
    }

    /// Liveness against a plain model: the time since the last heartbeat or the proof decides.
    #[test]
    fn liveness_never_disagrees_with_the_model(steps in prop::collection::vec((any::<bool>(), 1u64..300), 1..40)) {
        let mut server = Server::new();
        let secret = server.pair(1, at(0));
        let mut connection = Connection::open(at(0));
        server.hear(&mut connection, &hello(1, true), at(0));
        server.hear(&mut connection, &auth(1, &secret, 1, at(0).unix()), at(0));
        let (mut now, mut last) = (0, 0);
        for (beat, wait) in steps {
            for _ in 0..wait {
                now += 1;
                if connection.closed.is_none() {
                    connection.tick(at(now));
                }
            }
            if beat && connection.closed.is_none() {
                server.hear(&mut connection, &heartbeat(), at(now));
                last = now;
            }
            let model = match now - last {
                0..420 => Status::Online,
                420..660 => Status::Unstable,
                _ => Status::Offline,
            };
            if connection.closed.is_some() {
                prop_assert!(model == Status::Offline);
                break;
            }
            prop_assert_eq!(connection.status, Some(model));
        }
    }

    #[test]
    fn the_decoder_takes_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&bytes);
    }

    #[test]
    fn the_decoder_takes_any_text_after_builtin(text in r#"builtin::\{("(type|payload|identifier|reason)":("hello"|"error"|\{\}|1|null|"é\\u0041"),?){0,5}\}?"#) {
        exercise(text.as_bytes());
    }
}
