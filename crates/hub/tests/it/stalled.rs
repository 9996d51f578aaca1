//! Agents that are slow to read what they are sent.

use convoke_hub::link::Command;
use serde_json::json;

use crate::support::{PATIENCE, TestAgent, TestHub};

/// More than the buffers of a narrow connection hold.
const MANY: usize = 12;
const LARGE: usize = 900_000;

/// Has so much on its way to an agent that what comes now waits in the link's queue.
fn stall(hub: &TestHub, agent: &str) {
    let link = hub.hub().agents.find(agent).and_then(|agent| agent.link()).expect("is connected");
    for _ in 0..MANY {
        let noise = json!({ "type": "noise", "content": "x".repeat(LARGE) });
        link.push(Command::Send(noise.to_string())).expect("room");
    }
}

/// Reads up to the first request, and answers it.
async fn answer_the_first(agent: &mut TestAgent) -> String {
    loop {
        let frame = agent.frame().await;
        if frame["type"] == "request" {
            agent.answer(frame["id"].as_str().expect("an id"), json!({})).await;
            return frame["tool"].as_str().expect("a tool").to_owned();
        }
    }
}

#[tokio::test]
async fn a_call_behind_much_else_goes_out_as_soon_as_that_is_read() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    stall(&hub, "pc");
    // The agent says nothing before it has the call: only that it reads tells the hub that there is room.
    let call = hub.post("/api/agents/pc/call", json!({ "tool": "fs_list" }));
    let both = async { tokio::join!(call, answer_the_first(&mut agent)) };
    let (reply, _) = tokio::time::timeout(PATIENCE / 2, both).await.expect("long before the next heartbeat");
    assert_eq!(reply.body["ok"], true, "{reply:?}");
}
