//! Ops rooms: what happens in the fleet is posted, and operators decide and ask there.

use convoke_core::secret::SecretText;
use convoke_kibitz::participant::{Event, Profile};
use convoke_room::{Config, Session, Transport};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use crate::mcp::client::Mcp;
use crate::support::{PATIENCE, TestHub};

/// Somebody in the room, by a token or as a guest.
async fn enter(hub: &TestHub, name: &str, token: Option<&str>, agent: bool) -> Session {
    let profile = Profile { name: name.into(), agent, ..Profile::default() };
    let (hub, token) = (hub.http.clone(), token.map(SecretText::new));
    let config = Config { hub, room: "ops".into(), transport: Transport::Relay, profile, token, key: None };
    Session::join(config, || {}).await.expect("enters")
}

/// The first event that fits.
async fn hears<T>(session: &mut Session, fits: impl Fn(Event) -> Option<T>) -> T {
    let heard = async {
        loop {
            if let Some(found) = fits(session.next().await.expect("in the room")) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("it comes")
}

/// The next line that a rule posted: who it is about, and what it says.
async fn posted(session: &mut Session, rule: &str) -> (String, String) {
    hears(session, |event| match event {
        Event::Chat(said) if said.rule.as_deref() == Some(rule) => Some((said.sender.unwrap_or_default(), said.text)),
        _ => None,
    })
    .await
}

async fn refused(session: &mut Session) -> String {
    hears(session, |event| if let Event::Refused { reason, .. } = event { Some(reason) } else { None }).await
}

/// The next data of the hub's own of this kind.
async fn shown(session: &mut Session, kind: &str) -> Value {
    hears(session, |event| match event {
        Event::Data { from, data } if from == "hub" => {
            let data: Value = serde_json::from_str(data.get()).expect("JSON");
            (data["__convoke"] == kind).then_some(data)
        }
        _ => None,
    })
    .await
}

async fn ops_room(hub: &TestHub) {
    hub.post("/api/rooms", json!({ "name": "ops", "open": true })).await;
    let reply = hub.post("/api/rooms/ops/posts", json!({ "posts": ["findings", "approvals", "offline"] })).await;
    assert_eq!(
        (reply.status, &reply.body["posts"]),
        (200, &json!(["findings", "approvals", "offline"])),
        "{reply:?}"
    );
}

#[tokio::test]
async fn a_call_that_waits_is_posted_and_decided_in_the_room_by_who_may() {
    let hub = TestHub::start().await;
    let mut pc = hub.agent("pc").await;
    ops_room(&hub).await;
    let anna = hub.token("anna", "operator", json!({ "approve": true })).await;
    let ben = hub.token("ben", "operator", json!({})).await;
    let claude = hub.token("claude", "operator", json!({ "doors": ["mcp"] })).await;
    let (mut anna, mut ben) =
        (enter(&hub, "Anna", Some(&anna), false).await, enter(&hub, "Ben", Some(&ben), false).await);
    let mut guest = enter(&hub, "Guest", None, false).await;
    let mcp = Mcp::stateless(&hub, &claude);
    let asked = mcp.call("net_dns_flush", json!({ "agent": "pc" })).await;
    let approval = asked.structured()["approval"]["id"].as_str().expect("it waits").to_owned();
    let (who, text) = posted(&mut anna, "approval").await;
    assert!(who == "claude" && text.contains("net_dns_flush on pc") && text.contains(&approval), "{who}: {text}");
    let card = shown(&mut anna, "approval").await;
    assert_eq!((&card["id"], &card["state"], &card["args"]), (&json!(approval), &json!("pending"), &Value::Null));

    // Of a guest it is a line like others.
    guest.chat(&format!("/approve {approval}")).await.expect("said");
    let line = hears(&mut anna, |event| if let Event::Chat(said) = event { Some(said.text) } else { None }).await;
    assert_eq!(line, format!("/approve {approval}"));
    ben.chat(&format!("/approve {approval}")).await.expect("taken");
    assert_eq!(refused(&mut ben).await, "forbidden");
    anna.chat(&format!("/approve {approval} go on")).await.expect("taken");
    let request = pc.request().await;
    assert_eq!(request.tool, "net_dns_flush");
    pc.answer(&request.id, json!({ "ok": true })).await;
    assert_eq!(posted(&mut anna, "approval").await.1, "net_dns_flush on pc: anna said yes");
    let records = hub.journal("kind=approval").await;
    assert!(records.iter().any(|r| r["who"] == "anna" && r["door"] == "room" && r["decision"] == "confirmed"));

    let asked = mcp.call("shell_exec", json!({ "agent": "pc", "command": "uptime" })).await;
    let approval = asked.structured()["approval"]["id"].as_str().expect("it waits").to_owned();
    let decide = to_raw_value(&json!({ "__convoke": "decide", "id": approval, "approve": true })).expect("JSON");
    anna.send(&decide, Some("hub")).await.expect("taken");
    assert_eq!(refused(&mut anna).await, "page_only", "what changes a machine is approved on the page");
    let decide = to_raw_value(&json!({ "__convoke": "decide", "id": approval, "approve": false })).expect("JSON");
    anna.send(&decide, Some("hub")).await.expect("taken");
    assert_eq!(shown(&mut anna, "decided").await["state"], "denied");
}

#[tokio::test]
async fn agents_that_come_and_go_and_findings_are_posted() {
    let hub = TestHub::start().await;
    ops_room(&hub).await;
    let mut guest = enter(&hub, "Guest", None, false).await;
    let pc = hub.agent("pc").await;
    drop(pc);
    assert_eq!(posted(&mut guest, "offline").await, ("fleet".into(), "pc went offline".into()));
    let narrow = hub.token("narrow", "admin", json!({ "agents": ["room:*"] })).await;
    let reply =
        hub.request("POST", "/api/rooms/ops/posts", Some(&narrow), Some(json!({ "posts": ["offline"] }))).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    assert_eq!(hub.post("/api/rooms/ops/posts", json!({ "posts": ["gossip"] })).await.status, 400);
}

#[tokio::test]
async fn an_operator_in_the_room_asks_for_a_call_and_everybody_sees_it() {
    let hub = TestHub::start().await;
    let mut pc = hub.agent("pc").await;
    ops_room(&hub).await;
    let anna = hub.token("anna", "operator", json!({})).await;
    let mut anna = enter(&hub, "Anna", Some(&anna), false).await;
    let mut guest = enter(&hub, "Guest", None, false).await;
    let call = json!({ "__convoke": "call", "id": 7, "agent": "pc", "tool": "fs_list", "args": { "path": "/" } });
    let call = to_raw_value(&call).expect("JSON");
    guest.send(&call, Some("hub")).await.expect_err("no operator");
    anna.send(&call, Some("hub")).await.expect("taken");
    let request = pc.request().await;
    assert_eq!((request.tool.as_str(), &request.args), ("fs_list", &json!({ "path": "/" })));
    let card = shown(&mut guest, "call").await;
    assert_eq!(
        (&card["state"], &card["caller"], &card["tool"]),
        (&json!("running"), &json!("anna"), &json!("fs_list"))
    );
    pc.answer(&request.id, json!({ "entries": [] })).await;
    let answer = shown(&mut anna, "called").await;
    assert_eq!(
        (&answer["id"], &answer["ok"], &answer["result"]),
        (&json!(7), &json!(true), &json!({ "entries": [] }))
    );
    assert_eq!(shown(&mut guest, "call").await["state"], "done");
    let records = hub.journal("kind=call&tool=fs_list").await;
    assert!(records.iter().all(|r| r["door"] == "room" && r["who"] == "anna") && !records.is_empty(), "{records:?}");
}

#[tokio::test]
async fn what_an_agent_in_the_room_wants_to_change_waits_for_a_person() {
    let hub = TestHub::start().await;
    let _pc = hub.agent("pc").await;
    ops_room(&hub).await;
    let bot = hub.token("bot", "operator", json!({})).await;
    let mut anna = enter(&hub, "Anna", None, false).await;
    let mut bot = enter(&hub, "Bot", Some(&bot), true).await;
    let call = to_raw_value(&json!({ "__convoke": "call", "agent": "pc", "tool": "net_dns_flush" })).expect("JSON");
    bot.send(&call, Some("hub")).await.expect_err("an agent only reads at first");
    let id = bot.id().expect("in the room");
    let path = format!("/api/rooms/ops/grants/{id}");
    let grant = json!({ "act": ["send-chat", "act"] });
    assert_eq!(hub.request("PATCH", &path, Some(crate::support::TOKEN), Some(grant)).await.status, 200);
    hears(&mut bot, |event| matches!(event, Event::Roster).then_some(())).await;
    bot.send(&call, Some("hub")).await.expect("taken");
    let card = shown(&mut anna, "call").await;
    assert_eq!((&card["state"], card["approval"].is_string()), (&json!("waiting"), true), "{card}");
}
