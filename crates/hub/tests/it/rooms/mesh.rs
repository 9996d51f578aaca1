//! Rooms on the mesh with participants over WebRTC, and with some of the relay for whom the hub speaks.

use std::time::{Duration, Instant};

use convoke_kibitz::grant::Capability;
use convoke_kibitz::participant::{Event, Profile};
use convoke_room::{Config, Session, Transport};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TOKEN, TestHub};

/// How somebody enters a mesh room.
pub fn config(hub: &TestHub, room: &str, profile: Profile) -> Config {
    let (hub, room) = (hub.http.clone(), room.to_owned());
    Config { hub, room, transport: Transport::Mesh, profile, token: None, key: None }
}

/// Somebody in a mesh room, over WebRTC.
pub async fn join(hub: &TestHub, room: &str, profile: Profile) -> Session {
    let joined = tokio::time::timeout(PATIENCE, Session::join(config(hub, room, profile), || {}));
    joined.await.expect("in time").expect("is let in")
}

pub fn named(name: &str) -> Profile {
    Profile { name: name.into(), ..Profile::default() }
}

fn agent(name: &str) -> Profile {
    Profile { agent: true, ..named(name) }
}

fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("JSON")
}

/// What happens until something fits.
pub async fn until<T>(session: &mut Session, mut fits: impl FnMut(&Session, &Event) -> Option<T>) -> T {
    let look = async {
        loop {
            let event = session.next().await.expect("it is in the room");
            if let Some(found) = fits(session, &event) {
                return found;
            }
        }
    };
    tokio::time::timeout(PATIENCE, look).await.expect("in time")
}

/// The next line of chat: who said it, and what.
async fn heard(session: &mut Session) -> (String, String) {
    until(session, |_, event| match event {
        Event::Chat(said) => Some((said.name.clone(), said.text.clone())),
        _ => None,
    })
    .await
}

/// Waits until it is connected to everybody in the roster, of whom there are so many.
async fn connected(session: &mut Session, others: usize) {
    let Session::Mesh(mesh) = session else { panic!("on the mesh") };
    let all = async {
        while mesh.connections() != (others, others) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, all).await.expect("in time");
}

/// The id of a participant, as the operator sees them.
pub async fn id_of(hub: &TestHub, room: &str, name: &str) -> String {
    let room = hub.get(&format!("/api/rooms/{room}")).await.body;
    let people = room["participants"].as_array().expect("a list").clone();
    let found = people.iter().find(|person| person["name"] == name).expect("there");
    found["id"].as_str().expect("an id").to_owned()
}

async fn grant(hub: &TestHub, room: &str, id: &str, act: Value) {
    let path = format!("/api/rooms/{room}/grants/{id}");
    let reply = hub.request("PATCH", &path, Some(TOKEN), Some(json!({ "act": act }))).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

#[tokio::test]
async fn who_comes_over_the_relay_takes_part_in_a_mesh_room() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "lab", "transport": "mesh", "open": true })).await;
    let mut anna = join(&hub, "lab", named("Anna")).await;
    let mut relayed = hub.join("lab", Some(TOKEN), json!({ "name": "Olga" })).await;
    let mut ben = join(&hub, "lab", named("Ben")).await;
    // The hub itself, the other, and who is bridged.
    connected(&mut anna, 3).await;
    connected(&mut ben, 3).await;
    let marked = |session: &Session| {
        let member = session.roster().into_iter().find(|member| member.name.starts_with("Olga"))?;
        let meta: Value = serde_json::from_str(member.meta?.get()).ok()?;
        Some((member.id, meta["bridged"].clone()))
    };
    let (bridge, bridged) = marked(&ben).expect("listed");
    assert_eq!(bridged, true);
    assert!(bridge.starts_with("zzzz"), "browsers dial it: {bridge}");
    let shown = hub.get("/api/rooms/lab").await.body;
    assert_eq!((&shown["present"], &shown["participants"][1]["bridged"]), (&json!(3), &json!(true)), "{shown}");

    relayed.say("hello from afar").await;
    for session in [&mut anna, &mut ben] {
        assert_eq!(heard(session).await, ("Olga (operator)".into(), "hello from afar".into()));
    }
    anna.chat("hello Olga").await.expect("said");
    assert_eq!(relayed.content().await["text"], "hello Olga");
    assert_eq!(heard(&mut ben).await.1, "hello Olga");
    // To one alone, both ways.
    let anna_id = id_of(&hub, "lab", "Anna").await;
    relayed.send(json!({ "t": "to", "id": anna_id, "payload": { "k": "chat", "text": "psst", "dm": true } })).await;
    assert_eq!(heard(&mut anna).await.1, "psst");
    ben.send(&raw(&json!({ "for": "Olga" })), Some(&bridge)).await.expect("said");
    assert_eq!(relayed.content().await["data"], json!({ "for": "Olga" }));

    // An agent over the relay: what it may not say reaches nobody, and what is withheld is not sent to it.
    let mut bot = hub.join("lab", None, json!({ "name": "bot", "meta": { "role": "agent" } })).await;
    connected(&mut anna, 4).await;
    bot.say("let me").await;
    assert_eq!(bot.refused().await, "send-chat");
    grant(&hub, "lab", &bot.id, json!(["send-chat"])).await;
    bot.say("thank you").await;
    assert_eq!(heard(&mut anna).await, ("bot".into(), "thank you".into()));
    assert_eq!(relayed.content().await["text"], "thank you", "and from relay to relay");
    relayed.send(json!({ "t": "leave" })).await;
    let gone =
        |session: &Session, _: &Event| (!session.roster().iter().any(|m| m.name.starts_with("Olga"))).then_some(());
    until(&mut ben, gone).await;
}

#[tokio::test]
async fn an_agent_that_is_paused_is_held_back_at_every_receiver_at_once() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "lab", "transport": "mesh", "open": true })).await;
    let mut anna = join(&hub, "lab", named("Anna")).await;
    let mut bot = join(&hub, "lab", agent("bot")).await;
    connected(&mut anna, 2).await;
    connected(&mut bot, 2).await;
    let (id, media) = (id_of(&hub, "lab", "bot").await, bot.id().expect("in"));
    let may = |capability| {
        let media = media.clone();
        move |session: &Session, _: &Event| {
            Some(session.grant(&media)?.allows(capability, 0)).filter(|may| *may).map(drop)
        }
    };
    let may_not = |capability| {
        let media = media.clone();
        move |session: &Session, _: &Event| {
            Some(session.grant(&media)?.allows(capability, 0)).filter(|may| !*may).map(drop)
        }
    };
    grant(&hub, "lab", &id, json!(["send-chat"])).await;
    until(&mut anna, may(Capability::SendChat)).await;
    until(&mut bot, may(Capability::SendChat)).await;
    bot.say("I may").await.expect("said");
    assert_eq!(heard(&mut anna).await.1, "I may");
    let path = format!("/api/rooms/lab/participants/{id}");
    let hold = async |how: &str| hub.request("PATCH", &path, Some(TOKEN), Some(json!({ "hold": how }))).await;
    for (how, lost) in [("silenced", Capability::SendChat), ("paused", Capability::ReadChat)] {
        let reply = hold(how).await;
        assert_eq!((reply.status, &reply.body["hold"]), (200, &json!(how)), "{reply:?}");
        let asked = Instant::now();
        until(&mut anna, may_not(lost)).await;
        until(&mut bot, may_not(lost)).await;
        let took = asked.elapsed();
        assert!(took < Duration::from_millis(250), "{how} was in force after {took:?}");
        assert!(bot.say("still?").await.is_err());
    }
    assert_eq!(hold("sideways").await.status, 400);
    assert_eq!(hold("none").await.status, 200);
    until(&mut anna, may(Capability::SendChat)).await;
    until(&mut bot, may(Capability::SendChat)).await;
    bot.say("back again").await.expect("said");
    assert_eq!(heard(&mut anna).await.1, "back again");
    let what: Vec<_> = hub.journal("kind=grant").await.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert_eq!(what, ["room made", "granted", "silenced", "paused", "resumed"]);
}

#[tokio::test]
async fn an_action_on_the_mesh_is_a_call_of_the_hubs() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "lab", "transport": "mesh", "open": true })).await;
    let mut app = join(&hub, "lab", named("App")).await;
    let mut bot = join(&hub, "lab", agent("bot")).await;
    connected(&mut app, 2).await;
    connected(&mut bot, 2).await;
    let hub_media = bot.roster().into_iter().find(|member| member.name == "hub").expect("listed").id;
    let act = raw(&json!({ "__kib_agent": "act", "action": { "play": "7" }, "id": "mine" }));
    let id = id_of(&hub, "lab", "bot").await;
    let media = bot.id().expect("in");
    grant(&hub, "lab", &id, json!(["send-chat", "act"])).await;
    until(&mut bot, |session, _| session.grant(&media)?.allows(Capability::Act, 0).then_some(())).await;
    bot.send(&act, Some(&hub_media)).await.expect("said");
    let asked = until(&mut app, |_, event| match event {
        Event::Act { from, id: Some(id), action } => Some((from.clone(), id.clone(), action.get().to_owned())),
        _ => None,
    });
    let (from, name, action) = asked.await;
    assert_eq!((&from, action.as_str()), (&id, r#"{"play":"7"}"#), "the hub says who asked");
    assert_ne!(name, "mine", "the hub's own id, which no other action has");
    app.acted(&from, &name, Ok(Some(raw(&json!({ "trick": 3 }))))).await.expect("said");
    let told = until(&mut bot, |_, event| match event {
        Event::Acted { from, id, outcome } => Some((from.clone(), id.clone(), outcome.clone())),
        _ => None,
    });
    let (from, mine, outcome) = told.await;
    assert_eq!((from.as_str(), mine.as_str()), ("hub", "mine"));
    assert_eq!(outcome.expect("done").expect("a result").get(), r#"{"trick":3}"#);
    let records = hub.journal("kind=call").await;
    let seen: Vec<_> = records.iter().map(|r| (r["phase"].clone(), r["outcome"].clone())).collect();
    assert_eq!(seen, [(json!("intent"), Value::Null), (json!("outcome"), json!("ok"))], "{records:?}");
    assert_eq!((&records[1]["who"], &records[1]["door"]), (&json!(format!("room:lab/{id}")), &json!("room")));
    assert_eq!(records[1]["detail"], json!({ "what": "answered", "heard_by": 1 }));
    // Past the hub nobody honours it.
    bot.send(&act, None).await.expect("sent");
    bot.say("after that").await.expect("said");
    assert_eq!(
        until(&mut app, |_, event| match event {
            Event::Chat(said) => Some(said.text.clone()),
            Event::Data { .. } | Event::Act { .. } => Some("an action".into()),
            _ => None,
        })
        .await,
        "after that"
    );
}

#[tokio::test]
async fn an_operator_enters_a_mesh_room_with_a_pass() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "ops", "transport": "mesh" })).await;
    let looks = hub.token("viewer", "viewer", json!({})).await;
    let pass = async |token: &str| {
        let reply = hub.request("POST", "/api/rooms/ops/pass", Some(token), Some(json!({}))).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        Some(reply.body["invite"].as_str().expect("a text").to_owned())
    };
    let admin = join(&hub, "ops", Profile { invite: pass(TOKEN).await, ..named("Olga") }).await;
    let mut viewer = join(&hub, "ops", Profile { invite: pass(&looks).await, ..named("") }).await;
    let shown = hub.get("/api/rooms/ops").await.body;
    let mut people: Vec<_> = shown["participants"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|p| (p["name"].clone(), p["via"].clone(), p["host"].clone()))
        .collect();
    people.sort_by_key(|(name, ..)| name.to_string());
    let operator = json!("operator");
    let expected =
        [(json!("Olga (operator)"), operator.clone(), json!(true)), (json!("viewer"), operator, json!(false))];
    assert_eq!(people, expected);
    until(&mut viewer, |session, _| {
        let grant = session.grant(&session.id()?)?;
        Some(grant.allows(Capability::SendChat, 0)).filter(|speaks| !speaks)
    })
    .await;
    assert!(admin.can_act());
    let listed = hub.get("/api/tokens").await.body;
    let found =
        listed["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "viewer").expect("there")["id"]
            .clone();
    hub.request("DELETE", &format!("/api/tokens/{}", found.as_str().expect("an id")), Some(TOKEN), None).await;
    hub.until("/api/rooms/ops", |room| room["present"] == json!(1)).await;
}
