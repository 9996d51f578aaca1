//! A session's client whose connection breaks while a call runs takes the answer up again.

use serde_json::json;

use super::client::{Mcp, events_of};
use crate::support::{PATIENCE, TOKEN, TestHub};

#[tokio::test]
async fn an_answer_is_not_lost_with_its_connection() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let message = client.message("tools/call", json!({ "name": "net_config", "arguments": { "agent": "pc" } }));
    let (reply, request) = tokio::join!(client.request(&message).send(), agent.request());
    let mut reply = reply.expect("the stream begins while the call runs");
    let head = reply.chunk().await.expect("reads").expect("an event");
    let head = String::from_utf8(head.to_vec()).expect("text");
    assert!(head.contains("retry:"), "says when to come back: {head}");
    let id = head.lines().find_map(|line| line.strip_prefix("id:")).expect("an id to resume from").trim();
    drop(reply);
    let resume = async || {
        let resumed = hub
            .http_client
            .get(format!("{}/mcp", hub.http))
            .bearer_auth(TOKEN)
            .header("accept", "text/event-stream")
            .header("mcp-protocol-version", super::client::OLD)
            .header("mcp-session-id", client.session.as_deref().expect("a session"))
            .header("last-event-id", id);
        let resumed = resumed.send().await.expect("the hub answers");
        assert_eq!(resumed.status(), 200);
        resumed
    };
    let rest = async |resumed: reqwest::Response| {
        let text = tokio::time::timeout(PATIENCE, resumed.text()).await.expect("in time").expect("a body");
        let answers = events_of(&text);
        assert_eq!(answers.len(), 1, "{text}");
        assert_eq!(answers[0]["result"]["structuredContent"]["state"], "done");
    };
    let back = resume().await;
    agent.answer(&request.id, json!({ "interfaces": [] })).await;
    rest(back).await;
    // However long the client is away.
    hub.until("/api/journal?limit=1000&kind=call", |j| {
        j["records"].as_array().is_some_and(|r| r.iter().any(|r| r["outcome"] == "ok"))
    })
    .await;
    rest(resume().await).await;
}

#[tokio::test]
async fn a_hub_that_stops_answers_what_it_waited_for() {
    for (tool, meta) in [
        ("net_config", json!({})),
        ("net_config", json!({ "progressToken": "p" })),
        ("net_config", json!({ "traceparent": "x" })),
        ("call_agents", json!({})),
    ] {
        for in_session in [true, false] {
            let mut hub = TestHub::start().await;
            let mut agent = hub.agent("pc").await;
            let arguments = match tool {
                "call_agents" => json!({ "tool": "net_config", "agents": ["pc"] }),
                _ => json!({ "agent": "pc" }),
            };
            let client = if in_session { Mcp::open(&hub, TOKEN).await } else { Mcp::stateless(&hub, TOKEN) };
            let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
            let asked = client.request(&client.message("tools/call", params));
            let answer = tokio::spawn(asked.send());
            let request = agent.request().await;
            if in_session {
                // Its stream has begun.
                while !answer.is_finished() {
                    tokio::task::yield_now().await;
                }
            }
            let stopping = hub.hub().stopping.clone();
            let answering = async {
                stopping.cancelled().await;
                agent.answer(&request.id, json!({ "dns": ["the answer"] })).await;
                // Until the hub says goodbye.
                agent
            };
            let ((), _agent) = tokio::join!(hub.stop(), answering);
            let text = answer.await.expect("no panic").expect("answers").text().await.expect("whole");
            assert!(text.contains("the answer"), "{tool} {meta} {in_session}: {text}");
        }
    }
}
