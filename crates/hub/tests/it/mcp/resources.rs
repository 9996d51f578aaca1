//! Resources, subscriptions and prompts.

use serde_json::{Value, json};

use super::client::{Events, Mcp, OLD};
use crate::support::{TOKEN, TestAgent, TestHub};

async fn telemetry(agent: &mut TestAgent, percent: u32) {
    let disk = json!({ "status": "ok", "summary": "C:", "volumes": [{ "percent_used": percent }] });
    let frame = json!({ "type": "telemetry", "agent_id": agent.id, "collected_at": "2026-06-04T18:00:00Z",
        "snapshot": { "disk": disk } });
    agent.socket.send(frame.to_string()).await;
}

async fn read(client: &Mcp<'_>, uri: &str) -> Value {
    let answer = client.ask("resources/read", json!({ "uri": uri })).await;
    let text = answer.result()["contents"][0]["text"].as_str().expect("a text").to_owned();
    serde_json::from_str(&text).expect("JSON")
}

#[tokio::test]
async fn what_there_is_can_be_listed_and_read_within_reach() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    hub.enrol("secret-pc").await;
    telemetry(&mut agent, 96).await;
    hub.until("/api/agents/pc/snapshot", |s| s["agent_id"] == "pc").await;
    let narrow = hub.token("narrow", "viewer", json!({ "agents": ["pc"] })).await;
    for client in [Mcp::stateless(&hub, &narrow), Mcp::open(&hub, &narrow).await] {
        let listed = client.ask("resources/list", json!({})).await;
        let uris: Vec<_> =
            listed.result()["resources"].as_array().expect("a list").iter().map(|r| r["uri"].clone()).collect();
        assert_eq!(
            uris,
            [
                "convoke://fleet",
                "convoke://journal",
                "convoke://agents/pc",
                "convoke://agents/pc/health",
                "convoke://agents/pc/snapshot"
            ]
        );
        assert_eq!(read(&client, "convoke://fleet").await["agents"].as_array().map(Vec::len), Some(1));
        assert_eq!(read(&client, "convoke://agents/pc").await["id"], "pc");
        assert_eq!(read(&client, "convoke://agents/pc/health").await["overall"], "crit");
        let snapshot = read(&client, "convoke://agents/pc/snapshot").await;
        assert_eq!(snapshot["snapshot"]["disk"]["volumes"][0]["percent_used"], 96);
        let journal = read(&client, "convoke://journal/0").await;
        assert!(journal["records"].as_array().is_some_and(|r| r.iter().all(|r| r["target"] == "pc")), "{journal}");
        for uri in ["convoke://agents/secret-pc", "convoke://agents/nobody", "convoke://nothing"] {
            let refused = client.ask("resources/read", json!({ "uri": uri })).await;
            assert!(refused.last()["error"]["code"].is_i64(), "{uri}: {refused:?}");
        }
        let templates = client.ask("resources/templates/list", json!({})).await;
        assert_eq!(templates.result()["resourceTemplates"].as_array().map(Vec::len), Some(4));
    }
}

#[tokio::test]
async fn what_a_machine_sent_is_bounded_and_marked_here_too() {
    let hub = TestHub::with(&[("mcp.max_result_bytes", "10000")]).await;
    let mut agent = hub.agent("pc").await;
    let disk = json!({ "status": "ok", "summary": "x\u{202e}", "volumes": [], "text": "y".repeat(50_000) });
    let frame = json!({ "type": "telemetry", "agent_id": "pc", "collected_at": "2026-06-04T18:00:00Z",
        "snapshot": { "disk": disk } });
    agent.socket.send(frame.to_string()).await;
    hub.until("/api/agents/pc/snapshot", |s| s["agent_id"] == "pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let answer = client.ask("resources/read", json!({ "uri": "convoke://agents/pc/snapshot" })).await;
    let content = &answer.result()["contents"][0];
    let text = content["text"].as_str().expect("a text");
    assert!(text.len() < 12_000 && text.contains("\\u202e"), "{} bytes", text.len());
    let shown: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&shown["truncated"], &shown["agent_id"]), (&json!(true), &json!("pc")));
    assert!(shown["note"].is_string() && content["_meta"]["convoke/untrusted"] == true);
}

/// The session's standing stream.
pub fn standing(client: &Mcp<'_>) -> reqwest::RequestBuilder {
    let stream = client.hub.http_client.get(format!("{}/mcp", client.hub.http)).bearer_auth(TOKEN);
    let stream = stream.header("accept", "text/event-stream").header("mcp-protocol-version", OLD);
    stream.header("mcp-session-id", client.session.as_deref().expect("open"))
}

#[tokio::test]
async fn the_newest_stream_hears_though_the_hub_has_not_noticed_that_the_old_one_is_dead() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let uri = "convoke://agents/pc/health";
    assert_eq!(client.ask("resources/subscribe", json!({ "uri": uri })).await.result(), &json!({}));
    let _dead = Events::of(standing(&client)).await;
    let mut newest = Events::of(standing(&client)).await;
    telemetry(&mut agent, 50).await;
    assert_eq!(newest.next().await["params"]["uri"], uri);
    // Who comes back with the first one's beginning hears all of it, and every event has an id of its own.
    let mut back = Events::of(standing(&client).header("last-event-id", "standing/0")).await;
    assert_eq!(back.next().await["params"]["uri"], uri);
    telemetry(&mut agent, 99).await;
    assert_eq!(back.next().await["params"]["uri"], uri);
}

#[tokio::test]
async fn a_stream_opened_with_an_id_that_nobody_gave_hears_the_news() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let uri = "convoke://agents/pc/health";
    assert_eq!(client.ask("resources/subscribe", json!({ "uri": uri })).await.result(), &json!({}));
    for (percent, unknown) in (50..).zip(["7/99", "xyz", "0"]) {
        let mut events = Events::of(standing(&client).header("last-event-id", unknown)).await;
        telemetry(&mut agent, percent).await;
        assert_eq!(events.next().await["params"]["uri"], uri, "{unknown}");
    }
}

#[tokio::test]
async fn a_list_of_resources_goes_on_where_its_cursor_says() {
    let hub = TestHub::start().await;
    for n in 0..101 {
        hub.enrol(&format!("pc-{n:03}")).await;
    }
    let client = Mcp::stateless(&hub, TOKEN);
    let first = client.ask("resources/list", json!({})).await;
    let cursor = first.result()["nextCursor"].as_str().expect("there is more").to_owned();
    let second = client.ask("resources/list", json!({ "cursor": cursor })).await;
    let count = |page: &Value| page["resources"].as_array().expect("a list").len();
    assert_eq!((count(first.result()), count(second.result())), (2 + 300, 3));
    assert_eq!(second.result()["resources"][0]["uri"], "convoke://agents/pc-100");
    assert_eq!(second.result()["nextCursor"], Value::Null);
    let altered = client.ask("resources/list", json!({ "cursor": cursor.replace("pc-099", "pc-098") })).await;
    assert_eq!(altered.last()["error"]["code"], -32602, "{altered:?}");
}

#[tokio::test]
async fn a_session_hears_of_what_it_subscribed_to() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::open(&hub, TOKEN).await;
    let mut events = Events::of(standing(&client)).await;
    let uri = "convoke://agents/pc/health";
    assert_eq!(client.ask("resources/subscribe", json!({ "uri": uri })).await.result(), &json!({}));
    telemetry(&mut agent, 50).await;
    let heard = events.next().await;
    assert_eq!(heard["method"], "notifications/resources/updated", "{heard}");
    assert_eq!(heard["params"]["uri"], uri);
    assert_eq!(client.ask("resources/unsubscribe", json!({ "uri": uri })).await.result(), &json!({}));
    let wrong = client.ask("resources/subscribe", json!({ "uri": "convoke://agents/nobody" })).await;
    assert!(wrong.last()["error"].is_object(), "{wrong:?}");
}

#[tokio::test]
async fn a_client_without_a_session_listens() {
    let hub = TestHub::start().await;
    let mut agent = hub.agent("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let filter = json!({ "notifications": { "resourceSubscriptions": ["convoke://fleet", "convoke://nothing"] } });
    let mut events = Events::of(client.request(&client.message("subscriptions/listen", filter))).await;
    let acknowledged = events.next().await;
    assert_eq!(
        acknowledged["params"]["notifications"]["resourceSubscriptions"],
        json!(["convoke://fleet"]),
        "{acknowledged}"
    );
    telemetry(&mut agent, 50).await;
    let heard = events.next().await;
    assert_eq!(
        (&heard["method"], &heard["params"]["uri"]),
        (&json!("notifications/resources/updated"), &json!("convoke://fleet"))
    );
}

#[tokio::test]
async fn prompts_name_the_machine_and_only_one_within_reach() {
    let hub = TestHub::start().await;
    hub.enrol("pc-1").await;
    hub.enrol("hq-1").await;
    let narrow = hub.token("narrow", "viewer", json!({ "agents": ["pc-*"] })).await;
    let client = Mcp::stateless(&hub, &narrow);
    let listed = client.ask("prompts/list", json!({})).await;
    let names: Vec<_> =
        listed.result()["prompts"].as_array().expect("a list").iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["triage_machine", "why_is_it_slow", "is_the_fleet_healthy"]);
    for name in ["triage_machine", "why_is_it_slow"] {
        let args = json!({ "agent": "pc-1", "symptom": "it hums" });
        let got = client.ask("prompts/get", json!({ "name": name, "arguments": args })).await;
        let text = got.result()["messages"][0]["content"]["text"].as_str().expect("a text").to_owned();
        assert!(text.contains("`pc-1`") && text.contains("it hums") && !text.contains("{agent}"), "{text}");
        let refused = client.ask("prompts/get", json!({ "name": name, "arguments": { "agent": "hq-1" } })).await;
        assert!(refused.last()["error"].is_object(), "{refused:?}");
        let missing = client.ask("prompts/get", json!({ "name": name })).await;
        assert_eq!(missing.last()["error"]["code"], -32602, "{missing:?}");
    }
    let healthy = client.ask("prompts/get", json!({ "name": "is_the_fleet_healthy" })).await;
    assert!(
        healthy.result()["messages"][0]["content"]["text"].as_str().is_some_and(|t| t.contains("fleet_overview"))
    );
    let params = json!({ "ref": { "type": "ref/prompt", "name": "triage_machine" },
        "argument": { "name": "agent", "value": "" } });
    let completed = client.ask("completion/complete", params).await;
    assert_eq!(completed.result()["completion"]["values"], json!(["pc-1"]));
}

/// The URI of the next news.
async fn heard(events: &mut Events) -> String {
    let heard = events.next().await;
    assert_eq!(heard["method"], "notifications/resources/updated", "{heard}");
    heard["params"]["uri"].as_str().expect("a URI").to_owned()
}

async fn listen(client: &Mcp<'_>, uris: Value) -> Events {
    let filter = json!({ "notifications": { "resourceSubscriptions": uris } });
    let mut events = Events::of(client.request(&client.message("subscriptions/listen", filter))).await;
    let acknowledged = events.next().await;
    assert_eq!(acknowledged["params"]["notifications"]["resourceSubscriptions"], uris, "{acknowledged}");
    events
}

#[tokio::test]
async fn what_an_operator_changes_and_a_sonde_agents_coming_are_news() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let client = Mcp::stateless(&hub, TOKEN);
    let mut events = listen(&client, json!(["convoke://agents/pc"])).await;
    let tags = json!({ "tags": ["lab"] });
    assert_eq!(hub.request("PATCH", "/api/agents/pc", Some(TOKEN), Some(tags)).await.status, 200);
    assert_eq!(heard(&mut events).await, "convoke://agents/pc");
    assert_eq!(hub.post("/api/agents/pc/revoke", json!({})).await.status, 200);
    assert_eq!(heard(&mut events).await, "convoke://agents/pc");
    assert_eq!(hub.request("DELETE", "/api/agents/pc", Some(TOKEN), None).await.status, 200);
    assert_eq!(heard(&mut events).await, "convoke://agents/pc");

    let mut events = listen(&client, json!(["convoke://fleet"])).await;
    let agent = crate::sonde::enrolled(&hub, "web-1").await;
    assert_eq!(heard(&mut events).await, "convoke://fleet");
    let mut events = listen(&client, json!(["convoke://fleet"])).await;
    drop(agent);
    assert_eq!(heard(&mut events).await, "convoke://fleet");
}

#[tokio::test]
async fn what_is_out_of_reach_is_no_news_and_is_refused_before_it_is_acknowledged() {
    let hub = TestHub::start().await;
    let (mut near, mut far) = (hub.agent("lab-1").await, hub.agent("hq-1").await);
    let narrow = hub.token("narrow", "viewer", json!({ "agents": ["lab-*"] })).await;
    let client = Mcp::stateless(&hub, &narrow);
    let filter =
        json!({ "notifications": { "resourceSubscriptions": ["convoke://fleet", "convoke://agents/hq-1"] } });
    let refused = client.ask("subscriptions/listen", filter).await;
    assert_eq!((refused.status, refused.messages.len()), (400, 1), "{refused:?}");
    assert_eq!(refused.last()["error"]["code"], -32602, "{refused:?}");

    let mut events = listen(&client, json!(["convoke://fleet", "convoke://journal"])).await;
    let mut wide = listen(&Mcp::stateless(&hub, TOKEN), json!(["convoke://fleet", "convoke://journal"])).await;
    telemetry(&mut far, 50).await;
    hub.token("noise", "viewer", json!({})).await;
    let told: std::collections::BTreeSet<_> = [heard(&mut wide).await, heard(&mut wide).await].into();
    let all = ["convoke://fleet".to_owned(), "convoke://journal".to_owned()];
    assert_eq!(told, all.into(), "who may see it all hears of it");
    let quiet = tokio::time::timeout(std::time::Duration::from_millis(2500), events.next()).await;
    assert!(quiet.is_err(), "of others: {quiet:?}");
    telemetry(&mut near, 50).await;
    assert_eq!(heard(&mut events).await, "convoke://fleet");
    assert_eq!(hub.post("/api/agents/lab-1/revoke", json!({})).await.status, 200);
    let told: std::collections::BTreeSet<_> = [heard(&mut events).await, heard(&mut events).await].into();
    assert_eq!(told, ["convoke://fleet".to_owned(), "convoke://journal".to_owned()].into());
}
