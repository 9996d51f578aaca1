//! Every golden frame decodes as its type and encodes to the same JSON.

use convoke_kward::events::{LoginFinished, QuestionAsked, SessionEvent, TurnEvent};
use convoke_kward::methods::Method;
use convoke_kward::{results, rpc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn files(folder: &str) -> Vec<(String, String)> {
    convoke_testing::fixtures(&format!("kward/{folder}"))
}

#[track_caller]
fn same<T: DeserializeOwned + Serialize>(name: &str, text: &str) {
    let typed: T = serde_json::from_str(text).unwrap_or_else(|why| panic!("{name}: {why}"));
    let expect: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(serde_json::to_value(&typed).expect("JSON"), expect, "{name}");
}

#[test]
fn requests_are_read() {
    for (name, text) in files("requests") {
        let request = rpc::decode(text.as_bytes()).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        assert!(request.id.is_some(), "{name}");
        let method = Method::of(&request.method).unwrap_or_else(|| panic!("{name}: {}", request.method));
        method.check(request.params).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn results_are_written_with_the_contracts_keys() {
    for (name, text) in files("results") {
        match name.as_str() {
            "compacted" => same::<results::Compacted>(&name, &text),
            "fork_messages" => same::<results::ForkMessages>(&name, &text),
            "forked" => same::<results::Forked>(&name, &text),
            "turn" | "turn_failed" => same::<results::Turn>(&name, &text),
            "model" => same::<results::Model>(&name, &text),
            "reloaded" => same::<results::OkMessage>(&name, &text),
            "memory_status" => same::<results::MemoryStatus>(&name, &text),
            "memory_list" => same::<results::MemoryList>(&name, &text),
            "forgotten" => same::<results::Forgotten>(&name, &text),
            "login_started" => same::<results::LoginStarted>(&name, &text),
            "workspace_info" => same::<results::WorkspaceInfo>(&name, &text),
            "listed_session" => same::<results::ListedSession>(&name, &text),
            other => panic!("{other} is of no type"),
        }
    }
}

#[test]
fn notifications_are_written_with_the_contracts_keys() {
    for (name, text) in files("notifications") {
        match name.as_str() {
            "ui_question" => same::<QuestionAsked>(&name, &text),
            "auth_login_finished" => same::<LoginFinished>(&name, &text),
            session if session.starts_with("session_") => same::<SessionEvent>(&name, &text),
            _ => same::<TurnEvent>(&name, &text),
        }
    }
}

/// The contract's list of events, each with a frame.
#[test]
fn every_event_of_the_contract_has_a_frame() {
    let files = files("notifications");
    let frames: Vec<Value> = files.iter().map(|(_, text)| serde_json::from_str(text).expect("JSON")).collect();
    for kind in [
        "turnQueued",
        "turnSteered",
        "turnStarted",
        "reasoningDelta",
        "assistantDelta",
        "assistantMessage",
        "modelRetry",
        "toolCall",
        "toolResult",
        "answer",
        "turnCancelRequested",
        "error",
        "turnFinished",
        "compactionStart",
        "compactionEnd",
    ] {
        assert!(frames.iter().any(|frame| frame["type"] == kind), "{kind}");
    }
}

#[test]
fn the_schema_names_every_method_and_notification() {
    let schema = convoke_kward::schema::document();
    for method in Method::ALL {
        assert!(schema["methods"][method.name()].is_object(), "{}", method.name());
    }
    assert_eq!(schema["notifications"].as_object().map(serde_json::Map::len), Some(4));
}
