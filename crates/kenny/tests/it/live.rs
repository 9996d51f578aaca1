//! A tunnel at work.

use crate::support::{AGENT, Pair, Seen, call, golden, s};
use convoke_kenny::agent::{AgentEvent, AgentTick, Dropped, EndReason};
use convoke_kenny::frame::{self, ErrorCode};
use convoke_kenny::hub::{Event, HubConfig, Unreadable};
use convoke_kenny::inflight::{Match, StartError};
use serde_json::value::RawValue;

fn answer(n: u32) -> String {
    frame::response_ok(call(n.into()).uuid(), RawValue::NULL)
}

#[test]
fn a_call_goes_out_and_its_answer_comes_back() {
    let mut pair = Pair::live();
    pair.start(7, s(30));
    let request = golden("hub/request_powershell_exec.json");
    let AgentEvent::Request { tool, .. } = pair.agent.on_text(&request, s(0)) else { panic!("no request") };
    assert_eq!(tool, "powershell_exec");
    assert_eq!(pair.hub_hears(&answer(7)), Seen::Answered(7, true));
    assert_eq!(pair.hub_hears(&answer(7)), Seen::Stranger);
    assert_eq!(pair.hub.in_flight(), 0);
}

#[test]
fn a_failure_ends_its_call_too() {
    let mut pair = Pair::live();
    pair.start(7, s(30));
    let refused = frame::response_error(call(7).uuid(), &ErrorCode::Disabled, "remote control is off");
    assert_eq!(pair.hub_hears(&refused), Seen::Answered(7, false));
}

#[test]
fn an_answer_after_the_deadline_is_late_and_one_to_nothing_a_strangers() {
    let mut pair = Pair::live();
    pair.start(7, s(5));
    assert_eq!(pair.hub.next_deadline(), Some(s(5)));
    assert_eq!(pair.hub_at(s(5)), [Seen::Expired(7)]);
    assert_eq!(pair.hub_hears(&answer(7)), Seen::Late);
    assert_eq!(pair.hub_hears(&answer(8)), Seen::Stranger);
}

#[test]
fn calls_need_a_live_link() {
    let mut pair = Pair::new();
    assert_eq!(pair.hub.start(call(1), s(9), 1), Err((StartError::NotLive, 1)));
    let mut pair = Pair::live();
    pair.start(1, s(9));
    assert_eq!(pair.hub.end(), [(call(1), 1)]);
    assert_eq!(pair.hub.start(call(2), s(9), 2), Err((StartError::NotLive, 2)));
    assert_eq!(pair.hub_hears(&answer(1)), Seen::Ignored);
}

#[test]
fn an_answer_over_the_limit_fails_its_call_and_the_tunnel_lives() {
    let mut pair = Pair::with(HubConfig { max_frame_bytes: 4096, ..HubConfig::default() }, [0xaa; 32], [0xbb; 32]);
    assert_eq!(pair.handshake(), Seen::Accepted);
    let large = |n: u32, bytes: usize| {
        let result = RawValue::from_string(format!("\"{}\"", "x".repeat(bytes))).expect("JSON");
        frame::response_ok(call(n.into()).uuid(), &result)
    };
    pair.start(7, s(30));
    assert_eq!(pair.hub_hears(&large(7, 3000)), Seen::Answered(7, true));
    pair.start(8, s(30));
    assert_eq!(pair.hub_hears(&large(8, 5000)), Seen::Unreadable(Some(8)));
    assert_eq!(pair.hub_hears(&golden("agent/ping.json")), Seen::Send(frame::pong()));
    assert_eq!(pair.hub_hears(&large(9, 9000)), Seen::Close(1009));
}

#[test]
fn an_answer_that_was_not_kept_fails_its_call_and_the_tunnel_lives() {
    let start = format!(r#"{{"type":"response","id":"{}","ok":true,"result":{{"content":"\u00e4 cut"#, call(7));
    let mut pair = Pair::new();
    assert!(matches!(pair.hub.on_skipped(&start, 9000, s(0)), Event::Ignored(_)), "not before it is live");
    let mut pair = Pair::live();
    pair.start(7, s(30));
    let told = pair.hub.on_skipped(&start, 9000, s(1));
    assert!(
        matches!(told, Event::Unreadable { why: Unreadable::Skipped(9000), call: Some((id, Match::Answered(7))) } if id == call(7))
    );
    pair.start(8, s(30));
    let by_the_alphabet = format!(r#"{{"id":"{}","ok":true,"result":{{"content":"cut"#, call(8));
    let told = pair.hub.on_skipped(&by_the_alphabet, 9000, s(1));
    assert!(matches!(told, Event::Unreadable { call: Some((_, Match::Answered(8))), .. }), "{told:?}");
    pair.start(9, s(2));
    pair.hub.on_tick(s(3));
    let other = format!(r#"{{"type":"log","id":"{}","message":"cut"#, call(9));
    assert!(matches!(pair.hub.on_skipped(&other, 9000, s(3)), Event::Unreadable { call: None, .. }));
    let late = pair.hub.on_skipped(&start.replace(&call(7).to_string(), &call(9).to_string()), 9000, s(3));
    assert!(matches!(late, Event::Unreadable { call: Some((_, Match::Late)), .. }), "{late:?}");
    assert!(matches!(pair.hub.on_skipped("", 9000, s(1)), Event::Unreadable { call: None, .. }));
    assert_eq!(pair.hub_hears(&golden("agent/ping.json")), Seen::Send(frame::pong()));
}

#[test]
fn an_unreadable_answer_ends_its_call_at_once() {
    let mut pair = Pair::live();
    pair.start(7, s(30));
    let odd = format!(r#"{{"type":"response","id":"{}","ok":"yes"}}"#, call(7));
    assert_eq!(pair.hub_hears(&odd), Seen::Unreadable(Some(7)));
}

#[test]
fn no_frame_kills_a_live_tunnel() {
    let mut pair = Pair::live();
    for text in ["", "[]", "{", r#"{"type":"dance"}"#, r#"{"type":"log","level":"loud"}"#] {
        assert!(matches!(pair.hub_hears(text), Seen::Unreadable(None) | Seen::Ignored), "{text}");
    }
    assert_eq!(pair.hub_hears(&golden("agent/register.json")), Seen::Ignored);
    assert_eq!(pair.hub_hears(&golden("agent/auth.json")), Seen::Ignored);
    assert!(pair.hub.is_live());
}

#[test]
fn an_agent_speaks_only_for_itself() {
    let mut pair = Pair::live();
    assert_eq!(pair.hub_hears(&golden("agent/telemetry_all_sections.json")), Seen::Telemetry(25));
    assert_eq!(pair.hub_hears(&golden("agent/log_warn.json")), Seen::Log);
    for name in ["telemetry", "log_warn"] {
        let forged = golden(&format!("agent/{name}.json")).replace(AGENT, "other-pc");
        assert_eq!(pair.hub_hears(&forged), Seen::Ignored, "{name}");
    }
}

#[test]
fn the_hub_pings_and_notices_silence() {
    let mut pair = Pair::live();
    assert_eq!(pair.hub_at(s(30)), [Seen::Send(frame::ping())]);
    assert_eq!(pair.hub_hears(&golden("agent/pong.json")), Seen::Alive);
    assert_eq!(pair.hub_at(s(60)), [Seen::Send(frame::ping())]);
    assert_eq!(pair.hub_at(s(90)), [Seen::Send(frame::ping())]);
    assert_eq!(pair.hub_at(s(119)), []);
    assert_eq!(pair.hub_at(s(120)), [Seen::Close(1001)]);
}

#[test]
fn a_silent_agents_calls_are_handed_back_at_the_end() {
    let mut pair = Pair::live();
    pair.start(1, s(1000));
    assert_eq!([pair.hub_at(s(30)).len(), pair.hub_at(s(60)).len()], [1, 1], "pings");
    assert_eq!(pair.hub_at(s(90)), [Seen::Close(1001)]);
    assert_eq!(pair.hub.end(), [(call(1), 1)]);
    assert_eq!(pair.hub.end(), []);
}

#[test]
fn the_agent_pings_and_notices_a_frozen_hub() {
    let mut pair = Pair::live();
    assert!(!pair.agent.is_confirmed(), "nothing has come after the auth");
    assert!(matches!(pair.agent.on_text(&golden("hub/policy_empty.json"), s(1)), AgentEvent::Policy { .. }));
    assert!(pair.agent.is_confirmed());
    assert_eq!(pair.agent.next_deadline(), Some(s(30)));
    assert_eq!(pair.agent.on_tick(s(30)), AgentTick::Send(frame::ping()));
    assert!(matches!(pair.agent.on_text(&golden("hub/pong.json"), s(31)), AgentEvent::Alive));
    for beat in [60, 90, 120] {
        assert_eq!(pair.agent.on_tick(s(beat)), AgentTick::Send(frame::ping()));
    }
    assert_eq!(pair.agent.on_tick(s(121)), AgentTick::End(EndReason::Silent));
}

#[test]
fn a_hub_that_was_stopped_for_long_hears_what_came_meanwhile() {
    let mut pair = Pair::live();
    pair.start(1, s(1000));
    assert_eq!(pair.hub_at(s(30)), [Seen::Send(frame::ping())]);
    assert_eq!(pair.hub_at(s(500)), [Seen::Send(frame::ping())], "the silence was its own");
    assert_eq!(pair.hub_hears(&golden("agent/pong.json")), Seen::Alive);
    assert_eq!(pair.hub_at(s(530)), [Seen::Send(frame::ping())]);
}

#[test]
fn the_agent_answers_pings_and_drops_what_it_does_not_know() {
    let mut pair = Pair::live();
    assert!(
        matches!(pair.agent.on_text(&golden("hub/ping.json"), s(1)), AgentEvent::Reply(text) if text == frame::pong())
    );
    for text in [r#"{"type":"dance"}"#, "{", r#"{"type":"request","id":"x"}"#] {
        let event = pair.agent.on_text(text, s(1));
        assert!(matches!(event, AgentEvent::Dropped(Dropped::Unreadable(_))), "{text}");
    }
    let challenge = golden("hub/challenge.json");
    let again = pair.agent.on_text(&challenge, s(1));
    assert!(matches!(again, AgentEvent::Dropped(Dropped::OutOfPlace)));
    assert!(pair.agent.is_live());
}
