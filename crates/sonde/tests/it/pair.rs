//! Both ends joined, with a fake clock: frames and time in, events out.

use std::sync::Arc;
use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_core::time::Timestamp;
use convoke_sonde::Mono;
use convoke_sonde::ack::{Ack, UpdateAvailable};
use convoke_sonde::agent::{self, AgentConfig, AgentSession, Ask, Failure, Ran, Tick};
use convoke_sonde::envelope::{Envelope, MAX_FRAME};
use convoke_sonde::hub::{Close, Event, HubConfig, HubSession, Member, Output, refusal};
use convoke_sonde::pending::StartError;
use convoke_sonde::probe::{Metadata, Status, code};
use convoke_sonde::register::{Dialect, PackInfo, RegisterOut};
use convoke_sonde::sign::{Signer, Verifier};
use serde_json::value::RawValue;
use uuid::Uuid;

const AGENT: &str = "3f0b2c1d-1111-4a22-8b33-0123456789ab";
const AT: Timestamp = Timestamp::from_millis(1_780_596_000_123);

const fn s(seconds: u64) -> Mono {
    Duration::from_secs(seconds)
}

fn id(n: u128) -> Uuid {
    Uuid::from_u128(n)
}

/// Not a signature, but as unlike another key's or another text's as one.
struct Key(&'static str);

impl Signer for Key {
    fn sign(&self, bytes: &[u8]) -> String {
        format!("{}:{}", self.0, String::from_utf8_lossy(bytes).len())
    }
}

impl Verifier for Key {
    fn verify(&self, bytes: &[u8], signature: &str) -> bool {
        self.sign(bytes) == signature
    }
}

fn register() -> RegisterOut<'static> {
    static PACKS: std::sync::LazyLock<Vec<PackInfo>> = std::sync::LazyLock::new(|| {
        vec![PackInfo { name: "system".into(), version: "0.2.0".into(), status: "active".into() }]
    });
    RegisterOut {
        name: "web-1",
        hostname: "web-1",
        os: "linux",
        os_version: "Debian 12",
        arch: "x64",
        kernel: "6.1",
        version: "0.1.0",
        packs: &PACKS,
        capabilities: &[],
        binary_hash: "a",
        config_hash: "b",
        token: None,
        csr: None,
        manifests: &[],
        machine: None,
    }
}

struct Pair {
    hub: HubSession<u32>,
    agent: AgentSession,
}

fn member(signed: bool) -> Member {
    Member {
        agent_id: AGENT.into(),
        verifier: signed.then(|| Arc::new(Key("agent")) as Arc<dyn Verifier>),
        signer: signed.then(|| Arc::new(Key("hub")) as Arc<dyn Signer>),
        names_requests: false,
    }
}

fn pair_of(signed: bool) -> Pair {
    let mut hub = HubSession::new(HubConfig::default(), s(0));
    let config = AgentConfig {
        signer: signed.then(|| Arc::new(Key("agent")) as Arc<dyn Signer>),
        verifier: signed.then(|| Arc::new(Key("hub")) as Arc<dyn Verifier>),
        ..AgentConfig::default()
    };
    let (mut agent, hello) = AgentSession::new(config, &register(), Dialect::Field, id(900), AT, s(0));
    let Event::Register(registration) = hub.on_text(&hello, s(0)) else { panic!("a registration") };
    assert_eq!(registration.register.name, "web-1");
    let ack = Ack { agent_id: Some(AGENT.into()), ..Ack::default() };
    let ack = hub.accept(member(signed), &ack, id(901), AT, s(0));
    let event = agent.on_text(&ack, id(902), AT, s(0));
    assert!(matches!(event, agent::Event::Acked(_)), "{event:?}");
    Pair { hub, agent }
}

impl Pair {
    fn ask(&mut self, n: u128, probe: &str, deadline: Mono) -> Ask {
        let frame =
            self.hub.request(id(n), probe, None, "api", s(30), deadline, AT, n as u32).expect("the probe starts");
        match self.agent.on_text(&frame, id(903), AT, s(0)) {
            agent::Event::Probe(ask) => ask,
            other => panic!("{other:?}"),
        }
    }

    fn answer(&mut self, ask: &Ask, data: &str) -> String {
        let ran = ran(Ok(RawValue::from_string(data.into()).expect("JSON")));
        self.agent.answer(ask, &ran, id(904), AT)
    }
}

fn ran(outcome: Result<Box<RawValue>, Failure>) -> Ran {
    let metadata = Metadata {
        agent_version: "0.1.0".into(),
        pack_name: "system".into(),
        pack_version: "0.2.0".into(),
        capability_level: Effect::Observe,
    };
    Ran { outcome, duration: s(1), metadata }
}

#[track_caller]
fn error_of(event: Event<u32>) -> String {
    match event {
        Event::Reply(text) => serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["error"]
            .as_str()
            .expect("a text")
            .to_owned(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn probes_are_answered_in_any_order_plain_and_signed() {
    for signed in [false, true] {
        let mut pair = pair_of(signed);
        let first = pair.ask(1, "system.disk.usage", s(30));
        let second = pair.ask(2, "system.disk.usage", s(30));
        for (ask, n) in [(&second, 2), (&first, 1)] {
            let frame = pair.answer(ask, &format!("{{\"n\":{n}.0,\"1\":-0}}"));
            match pair.hub.on_text(&frame, s(1)) {
                Event::Answered { waiter, answer, .. } => {
                    assert_eq!((waiter, answer.status), (n, Status::Success));
                    assert_eq!(answer.data.expect("data").get(), format!("{{\"1\":0,\"n\":{n}}}"));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(pair.hub.in_flight(), 0);
    }
}

#[test]
fn a_stale_request_id_answers_nobody() {
    let mut pair = pair_of(false);
    let old = pair.ask(1, "system.disk.usage", s(5));
    let outputs = pair.hub.on_tick(s(5));
    assert!(matches!(outputs[..], [Output::Expired(_, 1)]), "{outputs:?}");
    pair.ask(2, "system.disk.usage", s(60));
    let frame = pair.answer(&old, "{}");
    assert!(matches!(pair.hub.on_text(&frame, s(6)), Event::Late { .. }));
    assert!(matches!(pair.hub.on_text(&frame, s(6)), Event::Stranger { .. }));
    assert_eq!(pair.hub.in_flight(), 1, "the other caller still waits");
}

#[test]
fn an_answer_from_another_link_answers_nobody() {
    let (mut a, mut b) = (pair_of(false), pair_of(false));
    let ask = a.ask(1, "system.disk.usage", s(30));
    b.ask(2, "system.disk.usage", s(30));
    let frame = a.answer(&ask, "{}");
    assert!(matches!(b.hub.on_text(&frame, s(1)), Event::Stranger { .. }));
    assert_eq!(b.hub.in_flight(), 1);
}

#[test]
fn the_first_match_is_only_for_agents_that_never_named_a_request() {
    let frame = |request: Option<&str>| {
        let request = request.map(|r| format!("\"requestId\":\"{r}\",")).unwrap_or_default();
        format!(
            r#"{{"id":"{}","type":"probe.response","timestamp":"2026-01-02T03:04:05Z","agentId":"{AGENT}","signature":"","payload":{{"probe":"p.x","status":"success","data":{{}},"durationMs":1,{request}"metadata":{{"agentVersion":"1","packName":"p","packVersion":"1","capabilityLevel":"observe"}}}}}}"#,
            id(77)
        )
    };
    let mut pair = pair_of(false);
    for n in 1..=3 {
        pair.hub.request(id(n), "p.x", None, "api", s(30), s(30), AT, n as u32).expect("starts");
    }
    assert!(matches!(pair.hub.on_text(&frame(None), s(1)), Event::Answered { waiter: 1, .. }));
    assert!(!pair.hub.names_requests());
    assert!(matches!(pair.hub.on_text(&frame(Some(&id(3).to_string())), s(1)), Event::Answered { waiter: 3, .. }));
    assert!(pair.hub.names_requests());
    assert!(matches!(pair.hub.on_text(&frame(None), s(1)), Event::Stranger { .. }), "it has named one");
    assert!(matches!(pair.hub.on_text(&frame(Some("mine")), s(1)), Event::Stranger { .. }));
    assert_eq!(pair.hub.in_flight(), 1);
}

#[test]
fn heartbeats_decide() {
    let mut pair = pair_of(false);
    assert_eq!(pair.agent.next_deadline(), Some(s(30)));
    let Some(Tick::Send(beat)) = pair.agent.on_tick(id(1), AT, s(30)) else { panic!("a heartbeat") };
    assert!(matches!(pair.hub.on_text(&beat, s(30)), Event::Heartbeat));
    assert!(pair.hub.on_tick(s(74)).is_empty());
    assert!(matches!(pair.hub.on_tick(s(75))[..], [Output::Overdue]));
    assert!(pair.hub.on_tick(s(80)).is_empty(), "told once");
    let ask = pair.ask(1, "system.disk.usage", s(500));
    let frame = pair.answer(&ask, "{}");
    pair.hub.on_text(&frame, s(119));
    assert!(matches!(pair.hub.on_tick(s(120))[..], [Output::Close(Close::NoHeartbeat)]), "an answer is no heartbeat");
    assert!(!pair.hub.is_live());
}

#[test]
fn a_hub_that_is_silent_is_gone_for_the_agent() {
    let mut agent = pair_of(false).agent;
    for beat in [30, 60] {
        assert!(matches!(agent.on_tick(id(1), AT, s(beat)), Some(Tick::Send(_))));
    }
    agent.heard(s(61));
    assert!(matches!(agent.on_tick(id(1), AT, s(90)), Some(Tick::Send(_))), "an answer to a ping is enough");
    agent.heard(s(5));
    assert_eq!(agent.next_deadline(), Some(s(120)));
    assert!(matches!(agent.on_tick(id(1), AT, s(120)), Some(Tick::Send(_))));
    assert_eq!(agent.on_tick(id(1), AT, s(150)).map(|t| matches!(t, Tick::Send(_))), Some(true));
    assert_eq!(agent.next_deadline(), Some(s(151)));
    assert_eq!(agent.on_tick(id(1), AT, s(151)), Some(Tick::Silent));
    assert_eq!((agent.next_deadline(), agent.on_tick(id(1), AT, s(500))), (None, None));
}

#[test]
fn once_there_is_a_certificate_everything_is_signed() {
    let mut signed = pair_of(true);
    let mut plain = pair_of(false);
    let ask = plain.ask(1, "p.x", s(30));
    let unsigned = plain.answer(&ask, "{}");
    assert_eq!(error_of(signed.hub.on_text(&unsigned, s(1))), "Signature required");
    let forged = unsigned.replace("\"signature\":\"\"", "\"signature\":\"agent:1\"");
    assert_eq!(error_of(signed.hub.on_text(&forged, s(1))), "Signature verification failed");
    let Some(Tick::Send(beat)) = signed.agent.on_tick(id(1), AT, s(30)) else { panic!("a heartbeat") };
    let nameless = beat.replace(&format!("\"agentId\":\"{AGENT}\","), "");
    let unsigned = nameless.replace("agent:2", "");
    assert_eq!(error_of(signed.hub.on_text(&unsigned, s(1))), "Signature required", "with or without an agentId");
    assert!(matches!(signed.hub.on_text(&nameless, s(1)), Event::Heartbeat));

    let request = plain.hub.request(id(9), "p.x", None, "api", s(1), s(1), AT, 9).expect("starts");
    let event = signed.agent.on_text(&request, id(2), AT, s(1));
    assert!(matches!(event, agent::Event::Noted(_)), "an agent with a CA runs nothing unsigned: {event:?}");
}

#[test]
fn what_cannot_be_taken_is_answered_and_the_link_lives() {
    let mut pair = pair_of(false);
    let Some(Tick::Send(beat)) = pair.agent.on_tick(id(1), AT, s(30)) else { panic!("a heartbeat") };
    for (frame, error) in [
        ("".to_owned(), "Invalid message format"),
        ("{".to_owned(), "Invalid message format"),
        (beat.replace("agent.heartbeat", "agent.status"), "Invalid message format"),
        (beat.replace("agent.heartbeat", "hub.ack"), "Invalid message format"),
        (beat.replace(AGENT, "another"), "Agent ID mismatch"),
        (beat.replace("agent.heartbeat", "probe.response"), "Invalid message format"),
        (beat.replace("agent.heartbeat", "agent.register"), "Invalid registration data"),
    ] {
        assert_eq!(error_of(pair.hub.on_text(&frame, s(31))), error, "{frame}");
    }
    assert!(matches!(pair.hub.on_text(&beat, s(31)), Event::Heartbeat));
}

#[test]
fn frames_beyond_the_limits() {
    let config = HubConfig { max_frame: 1000, ..HubConfig::default() };
    let mut pair = pair_of(false);
    let mut small: HubSession<u32> = HubSession::new(config, s(0));
    small.accept(member(false), &Ack::default(), id(1), AT, s(0));
    small.request(id(1), "p.x", None, "api", s(30), s(30), AT, 1).expect("starts");
    let ask = pair.ask(1, "p.x", s(30));
    let frame = pair.answer(&ask, &format!("\"{}\"", "x".repeat(1000)));
    assert!(matches!(small.on_text(&frame, s(1)), Event::TooLarge { waiter: 1, .. }));
    assert!(small.is_live());
    assert!(matches!(small.on_text(&"x".repeat(2001), s(1)), Event::Close(Close::TooLarge)));

    let ask = pair.ask(2, "p.x", s(30));
    let frame = pair.answer(&ask, &format!("\"{}\"", "x".repeat(MAX_FRAME)));
    assert!(frame.len() <= MAX_FRAME);
    match pair.hub.on_text(&frame, s(1)) {
        Event::Answered { answer, .. } => assert_eq!(answer.code.as_deref(), Some(code::TOO_LARGE)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_peer_that_does_not_register_is_let_go() {
    let mut hub: HubSession<u32> = HubSession::new(HubConfig::default(), s(0));
    let beat = Envelope::decode(
        r#"{"id":"7f2c1c1e-6a0d-4d8e-9a55-0d6d4b0a9a11","type":"agent.heartbeat","timestamp":"2026-01-02T03:04:05Z","signature":"","payload":{}}"#,
    );
    let beat = beat.expect("a heartbeat");
    let text = convoke_sonde::envelope::encode(beat.id, beat.kind, beat.timestamp, None, None, "{}");
    assert_eq!(error_of(hub.on_text(&text, s(1))), "Not registered");
    assert!(matches!(hub.request(id(1), "p", None, "api", s(1), s(1), AT, 1), Err((StartError::NotLive, 1))));
    assert!(matches!(hub.on_tick(s(10))[..], [Output::Close(Close::RegisterTimeout)]));
}

#[test]
fn refusals_are_told_in_the_peers_own_shape() {
    for (dialect, other_shape) in [(Dialect::Contract, true), (Dialect::Field, false)] {
        let config = AgentConfig::default();
        let (mut agent, _) = AgentSession::new(config, &register(), Dialect::Field, id(1), AT, s(0));
        let frame = refusal(dialect, "Enrollment token rejected: Token expired", id(2), AT);
        match agent.on_text(&frame, id(3), AT, s(1)) {
            agent::Event::Refused(refused) => {
                assert_eq!(refused.reason, "Enrollment token rejected: Token expired");
                assert_eq!(refused.try_other_shape, other_shape);
            }
            other => panic!("{other:?}"),
        }
    }
    let (mut agent, _) = AgentSession::new(AgentConfig::default(), &register(), Dialect::Field, id(1), AT, s(0));
    let event = agent.on_text(r#"{"error":"Invalid registration data"}"#, id(2), AT, s(0));
    assert!(matches!(event, agent::Event::Refused(_)), "{event:?}");
    let (mut agent, _) = AgentSession::new(AgentConfig::default(), &register(), Dialect::Field, id(1), AT, s(0));
    assert_eq!(agent.on_tick(id(2), AT, s(10)), Some(Tick::NoAck));
}

#[test]
fn a_broken_registration_is_told_what_is_wrong() {
    let mut hub: HubSession<u32> = HubSession::new(HubConfig::default(), s(0));
    let (_, hello) = AgentSession::new(AgentConfig::default(), &register(), Dialect::Field, id(1), AT, s(0));
    match hub.on_text(&hello.replace("\"agentVersion\":\"0.1.0\"", "\"agentVersion\":7"), s(0)) {
        Event::BadRegistration { bare, bad } => {
            assert!(bare.starts_with(r#"{"error":"Invalid registration data""#), "{bare}");
            assert_eq!(bad.dialect, Dialect::Field);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_request_that_cannot_be_taken_is_answered_with_its_id() {
    let mut pair = pair_of(false);
    let frame = pair.hub.request(id(5), "p.x", None, "api", s(1), s(9), AT, 5).expect("starts");
    let broken = frame.replace("\"timeout\":1000", "\"timeout\":\"soon\"");
    let agent::Event::Reply(reply) = pair.agent.on_text(&broken, id(6), AT, s(0)) else { panic!("a reply") };
    match pair.hub.on_text(&reply, s(0)) {
        Event::Answered { waiter, answer, .. } => {
            assert_eq!((waiter, answer.status), (5, Status::Error));
            assert!(answer.error.expect("a text").starts_with("Invalid probe request payload"));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_agent_runs_so_many_probes_and_no_more() {
    let mut pair = pair_of(false);
    let asks: Vec<Ask> = (1..=32).map(|n| pair.ask(n, "p.x", s(30))).collect();
    let frame = pair.hub.request(id(33), "p.x", None, "api", s(1), s(9), AT, 33).expect("starts");
    let agent::Event::Reply(reply) = pair.agent.on_text(&frame, id(6), AT, s(0)) else { panic!("busy") };
    assert!(reply.contains(code::BUSY), "{reply}");
    pair.answer(&asks[0], "{}");
    pair.ask(34, "p.x", s(30));
}

#[test]
fn a_newer_version_is_told() {
    let mut pair = pair_of(false);
    let update = UpdateAvailable { latest_version: "9.0.0".into(), current_version: "0.1.0".into() };
    let frame = pair.hub.update_available(&update, id(1), AT).expect("live");
    match pair.agent.on_text(&frame, id(2), AT, s(0)) {
        agent::Event::Update(got) => assert_eq!(got, update),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_end_of_a_link_ends_its_probes() {
    let mut pair = pair_of(false);
    pair.ask(1, "p.x", s(30));
    pair.ask(2, "p.y", s(30));
    assert_eq!(pair.hub.end(), [(id(1), 1), (id(2), 2)]);
    assert!(matches!(pair.hub.on_text("{}", s(1)), Event::Ignored));
}

proptest::proptest! {
    #[test]
    fn no_frame_kills_a_live_link_or_answers_what_it_does_not_name(text in "\\PC{0,200}") {
        let mut pair = pair_of(false);
        pair.ask(1, "p.x", s(30));
        let _ = pair.hub.on_text(&text, s(1));
        let _ = pair.agent.on_text(&text, id(1), AT, s(1));
        proptest::prop_assert!(pair.hub.is_live());
        proptest::prop_assert_eq!(pair.hub.in_flight(), 1);
    }
}
