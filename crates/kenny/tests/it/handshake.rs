//! How a tunnel opens, and all the ways in which it does not.

use crate::support::{AGENT, Pair, Seen, agent_key, golden, key, meta, s, seen_step, server_key};
use convoke_core::id::PeerId;
use convoke_kenny::agent::{AgentConfig, AgentEvent, AgentSession, AgentTick, EndReason};
use convoke_kenny::frame::{self, HubFrame};
use convoke_kenny::hub::{HubConfig, HubSession};
use convoke_kenny::transcript::Transcript;

fn tokens_allowed() -> Pair {
    Pair::with(HubConfig { allow_token_auth: true, ..HubConfig::default() }, [0xaa; 32], [0xbb; 32])
}

/// The register of the golden session, with a field changed.
fn register_with(field: &str, value: serde_json::Value) -> String {
    let mut frame: serde_json::Value = serde_json::from_str(&golden("agent/register.json")).expect("JSON");
    frame[field] = value;
    frame.to_string()
}

#[test]
fn the_golden_session_opens() {
    let mut pair = Pair::new();
    assert_eq!(pair.agent.register_frame(&meta()), golden("agent/register.json"));
    let Seen::Send(challenge) = pair.hub_hears(&golden("agent/register.json")) else { panic!("no challenge") };
    assert_eq!(challenge, golden("hub/challenge.json"));
    let AgentEvent::Auth(auth) = pair.agent.on_text(&challenge, s(0)) else { panic!("no auth") };
    assert_eq!(auth, golden("agent/auth.json"));
    assert_eq!(pair.hub_hears(&auth), Seen::Accepted);
    assert!(pair.hub.is_live() && pair.agent.is_live());
    assert_eq!(pair.hub.agent().map(PeerId::as_str), Some(AGENT));
}

#[test]
fn newer_agents_open_the_same_way() {
    let mut pair = Pair::new();
    assert!(matches!(pair.hub_hears(&golden("field/register_0_17.json")), Seen::Send(_)));
    assert_eq!(pair.hub_hears(&golden("agent/auth.json")), Seen::Accepted);
}

#[test]
fn an_unknown_agent_is_challenged_and_then_refused_like_any_other() {
    let mut pair = Pair::new();
    pair.stored.clear();
    assert_eq!(pair.handshake(), Seen::Close(4401));
}

#[test]
fn the_decoy_opens_nothing() {
    let mut pair = Pair::new();
    pair.stored.clear();
    assert!(matches!(pair.hub_hears(&golden("agent/register.json")), Seen::Send(_)));
    let decoy = ed25519_dalek::SigningKey::from_bytes(&[0x5a; 32]);
    let signature = Transcript::new(AGENT, &[0xaa; 32], &[0xbb; 32]).sign(&decoy);
    assert_eq!(pair.hub_hears(&frame::auth(&signature)), Seen::Close(4401));
}

#[test]
fn either_key_of_a_rotation_opens() {
    let mut pair = Pair::new();
    pair.stored.insert(0, key(64).verifying_key());
    assert_eq!(pair.handshake(), Seen::Accepted);
}

#[test]
fn a_reflected_signature_is_refused_even_under_the_hubs_own_key() {
    let mut pair = Pair::new();
    pair.stored.push(server_key().verifying_key());
    let Seen::Send(challenge) = pair.hub_hears(&golden("agent/register.json")) else { panic!("no challenge") };
    let Ok(HubFrame::Challenge { server_sig, .. }) = HubFrame::decode(&challenge) else { panic!("no challenge") };
    assert_eq!(pair.hub_hears(&frame::auth(&server_sig)), Seen::Close(4401));
}

#[test]
fn a_recorded_auth_is_worthless_in_a_new_session() {
    let mut pair = Pair::with(HubConfig::default(), [0xaa; 32], [0xbc; 32]);
    assert!(matches!(pair.hub_hears(&golden("agent/register.json")), Seen::Send(_)));
    assert_eq!(pair.hub_hears(&golden("agent/auth.json")), Seen::Close(4401));
}

#[test]
fn a_first_frame_that_is_no_register_is_4400() {
    for text in
        [golden("agent/ping.json"), golden("agent/auth.json"), r#"{"type":"hello"}"#.into(), "{".into(), "".into()]
    {
        assert_eq!(Pair::new().hub_hears(&text), Seen::Close(4400), "{text}");
    }
    for id in ["", "a b", "a\0b", "..", "sonde:x"] {
        assert_eq!(Pair::new().hub_hears(&register_with("agent_id", id.into())), Seen::Close(4400), "{id:?}");
    }
}

#[test]
fn a_register_without_a_usable_credential_is_4401() {
    for (field, value) in [
        ("client_nonce", "short".into()),
        ("client_nonce", "qqqq".into()),
        ("client_nonce", serde_json::Value::Null),
        ("protocol", "0.7".into()),
        ("protocol", "newest".into()),
        ("protocol", serde_json::Value::Null),
    ] {
        let text = register_with(field, value);
        assert_eq!(Pair::new().hub_hears(&text), Seen::Close(4401), "{text}");
        assert_eq!(tokens_allowed().hub_hears(&text), Seen::Close(4401), "{text}");
    }
}

#[test]
fn tokens_are_taken_only_where_allowed_and_only_without_the_signature_fields() {
    let legacy = golden("field/register_token.json");
    assert_eq!(Pair::new().hub_hears(&legacy), Seen::Close(4401));

    let mut pair = tokens_allowed();
    assert_eq!(pair.hub_hears(&legacy), Seen::CheckToken);
    assert!(!pair.hub.is_live());
    assert_eq!(seen_step(pair.hub.on_token_checked(true, s(0))), Seen::Accepted);

    let mut pair = tokens_allowed();
    assert_eq!(pair.hub_hears(&legacy), Seen::CheckToken);
    assert_eq!(seen_step(pair.hub.on_token_checked(false, s(0))), Seen::Close(4401));
    assert_eq!(seen_step(pair.hub.on_token_checked(true, s(0))), Seen::Close(4401), "no second try");

    // A token beside a nonce changes nothing: the signature path is taken, and must be walked to its end.
    let mut pair = tokens_allowed();
    assert!(matches!(pair.hub_hears(&register_with("token", "legacy-example-token".into())), Seen::Send(_)));
    assert_eq!(seen_step(pair.hub.on_token_checked(true, s(0))), Seen::Close(4401));
}

#[test]
fn who_talks_out_of_turn_is_4401() {
    for text in
        [golden("agent/ping.json"), golden("agent/register.json"), golden("agent/response_ok.json"), "{".into()]
    {
        let mut pair = Pair::new();
        assert!(matches!(pair.hub_hears(&golden("agent/register.json")), Seen::Send(_)));
        assert_eq!(pair.hub_hears(&text), Seen::Close(4401), "{text}");
        assert_eq!(pair.hub_hears(&golden("agent/auth.json")), Seen::Ignored, "closed is closed");
        assert!(!pair.hub.is_live());
    }
}

#[test]
fn waiting_ends_after_ten_seconds() {
    let mut pair = Pair::new();
    assert_eq!(pair.hub.next_deadline(), Some(s(10)));
    assert_eq!(pair.hub_at(s(9)), []);
    assert_eq!(pair.hub_at(s(10)), [Seen::Close(4400)]);
    assert_eq!(pair.hub.next_deadline(), None);

    let mut pair = Pair::new();
    pair.hub_at(s(7));
    assert!(matches!(pair.hub_hears(&golden("agent/register.json")), Seen::Send(_)));
    assert_eq!(pair.hub_at(s(16)), []);
    assert_eq!(pair.hub_at(s(17)), [Seen::Close(4401)]);
}

#[test]
fn a_large_frame_before_authentication_is_1009() {
    let padded = register_with("meta", "x".repeat(16 * 1024).into());
    assert_eq!(Pair::new().hub_hears(&padded), Seen::Close(1009));
}

#[test]
fn every_close_reason_fits_a_close_frame() {
    use convoke_kenny::close;
    for close in [close::SHUTTING_DOWN, close::REPLACED, close::REVOKED] {
        assert!(close.reason.len() <= 123);
    }
}

/// What the agent does with a first frame.
fn agent_end(text: &str) -> EndReason {
    let mut pair = Pair::new();
    match pair.agent.on_text(text, s(0)) {
        AgentEvent::End(reason) => {
            assert!(!pair.agent.is_live());
            let challenge = golden("hub/challenge.json");
            let after = pair.agent.on_text(&challenge, s(0));
            assert!(matches!(after, AgentEvent::Dropped(_)), "no second chance");
            reason
        }
        other => panic!("the agent went on: {other:?}"),
    }
}

#[test]
fn the_agent_answers_nothing_but_a_valid_challenge() {
    for name in ["policy", "request_powershell_exec", "ping", "pong"] {
        assert_eq!(agent_end(&golden(&format!("hub/{name}.json"))), EndReason::NotChallenge, "{name}");
    }
    assert_eq!(agent_end(r#"{"type":"hello"}"#), EndReason::NotChallenge);
    assert!(matches!(agent_end("{"), EndReason::BadChallenge(_)));

    let challenge = |key, agent_id: &str, client_nonce, server_nonce: [u8; 32]| {
        let server_sig = Transcript::new(agent_id, &client_nonce, &[0xbb; 32]).sign(&key);
        HubFrame::Challenge { server_nonce, server_sig }.encode()
    };
    for forged in [
        challenge(key(64), AGENT, [0xaa; 32], [0xbb; 32]),
        challenge(agent_key(), AGENT, [0xaa; 32], [0xbb; 32]),
        challenge(server_key(), "other-pc", [0xaa; 32], [0xbb; 32]),
        challenge(server_key(), AGENT, [0xab; 32], [0xbb; 32]),
        challenge(server_key(), AGENT, [0xaa; 32], [0xbc; 32]),
    ] {
        assert_eq!(agent_end(&forged), EndReason::BadServerSignature);
    }
}

#[test]
fn the_agent_does_not_wait_for_ever() {
    let mut pair = Pair::new();
    assert_eq!(pair.agent.on_tick(s(9)), AgentTick::Wait);
    assert_eq!(pair.agent.on_tick(s(10)), AgentTick::End(EndReason::ChallengeTimeout));
}

#[test]
fn many_agents_share_nothing() {
    // Two sessions of one agent with one hub: each has its own nonces, neither's auth fits the other.
    let config = AgentConfig::new(PeerId::kenny(AGENT).expect("an id"), server_key().verifying_key());
    let mut sessions: Vec<(HubSession<()>, String)> = Vec::new();
    for n in 1..=2u8 {
        let mut hub = HubSession::new(HubConfig::default(), s(0));
        let mut agent = AgentSession::new(config.clone(), agent_key(), [n; 32], s(0));
        let register = agent.register_frame(&meta());
        let convoke_kenny::hub::Event::Register(register) = hub.on_text(&register, s(0)) else {
            panic!("no register")
        };
        let stored = [agent_key().verifying_key()];
        let Seen::Send(challenge) = seen_step(hub.on_register(&register, [n + 10; 32], &server_key(), &stored, s(0)))
        else {
            panic!("no challenge")
        };
        let AgentEvent::Auth(auth) = agent.on_text(&challenge, s(0)) else { panic!("no auth") };
        sessions.push((hub, auth));
    }
    let swapped = sessions[1].1.clone();
    assert!(matches!(sessions[0].0.on_text(&swapped, s(0)), convoke_kenny::hub::Event::Close(_)));
    assert!(matches!(sessions[1].0.on_text(&swapped, s(0)), convoke_kenny::hub::Event::Accepted(_)));
}
