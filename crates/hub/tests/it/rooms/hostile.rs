//! Peers on the mesh that do what they must not.

use convoke_kibitz::admission::assert as signed;
use convoke_kibitz::grant::Capability;
use convoke_kibitz::participant::{Event, Profile};
use convoke_room::JoinError;
use serde_json::{Value, json};

use crate::rooms::Key;
use crate::rooms::mesh::{config, id_of, join, named, until};
use crate::rooms::raw::Raw;
use crate::support::{TOKEN, TestHub};

fn now() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    i64::try_from(now.as_secs()).expect("fits")
}

#[tokio::test]
async fn an_assertion_counts_for_its_room_its_certificate_and_its_time() {
    let hub = TestHub::start().await;
    let (key, stranger) = (Key::new(), Key::new());
    let keys = json!([{ "key": key.jwk(), "caps": { "act": ["send-chat"] } }]);
    hub.room(json!({ "name": "lab", "transport": "mesh", "agent_keys": keys })).await;
    let mut agent = Raw::open(&hub, "agent").await;
    agent.presence("lab").await;
    let (ours, theirs) = (agent.fingerprint().to_owned(), ["ab"; 32].join(":"));
    for (key, room, fingerprint, age, why) in [
        (&key, "lab", &ours, 301, "stale"),
        (&key, "lab", &ours, -120, "from the future"),
        (&key, "other", &ours, 0, "for another room"),
        (&key, "lab", &theirs, 0, "bound to another certificate"),
    ] {
        let assertion = signed(key, room, fingerprint, now() - age).expect("signed");
        agent.voice("lab", &json!({ "agentAssertion": assertion }));
        assert_eq!(agent.told("lab", "lobby").await["status"], "unverified", "{why}");
    }
    // Five wrong ones, and the connection is closed; a new one starts afresh.
    let assertion = signed(&stranger, "lab", &ours, now()).expect("signed");
    agent.voice("lab", &json!({ "agentAssertion": assertion }));
    assert_eq!(agent.told("lab", "lobby").await["status"], "unverified", "a stranger's signature");
    let mut agent = Raw::open(&hub, "another").await;
    agent.presence("lab").await;
    // It says that it is a person, and is the agent that its key makes it.
    let assertion = signed(&key, "lab", agent.fingerprint(), now()).expect("signed");
    agent.voice("lab", &json!({ "agentAssertion": assertion, "meta": { "role": "human" } }));
    agent.told("lab", "roster").await;
    let shown = hub.get("/api/rooms/lab").await.body["participants"][0].clone();
    assert_eq!((&shown["kind"], &shown["via"], &shown["state"]), (&json!("agent"), &json!("key"), &json!("present")));
}

#[tokio::test]
async fn what_an_agent_may_not_say_is_dropped_by_every_receiver_whoever_sends_it() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "lab", "transport": "mesh", "open": true })).await;
    let mut anna = join(&hub, "lab", named("Anna")).await;
    let mut olga = hub.join("lab", Some(TOKEN), json!({ "name": "Olga" })).await;
    // After every other id, so that it is dialled, as a browser with the same library would be; and before the hub's.
    let mut mallory = Raw::open(&hub, "y-mallory").await;
    mallory.presence("lab").await;
    mallory.voice("lab", &json!({ "meta": { "role": "agent" }, "token": "m" }));
    let anna_id = anna.id().expect("in");
    let found = anna_id.clone();
    let bridge = mallory
        .until(|raw| {
            let mut rosters = raw.heard.iter().filter(|(_, value)| value["t"] == "roster");
            let members = rosters.next_back()?.1["members"].as_array()?.clone();
            let bridged = members.iter().find(|member| member["meta"]["bridged"] == true)?;
            bridged["id"].as_str().map(str::to_owned)
        })
        .await;
    mallory.dial(&found).await;
    mallory.dial(&bridge).await;
    let everything = json!({ "perceive": Capability::ALL.iter().filter(|c| c.perceives()).map(|c| c.name()).collect::<Vec<_>>(),
        "act": ["send-chat", "speak", "act"] });
    let chat = |text: &str| json!({ "k": "chat", "text": text });
    let hostile = |id: &str| {
        [
            chat("let me"),
            json!({ "k": "app", "data": { "__kib_agent": "chat", "text": "let me" } }),
            json!({ "k": "app", "data": { "__kib_agent": "view", "view": { "score": 99 } } }),
            json!({ "k": "app", "data": { "__kib_agent": "act", "action": 1 } }),
            json!({ "k": "schema", "name": "s", "version": "1", "schema": {} }),
            json!({ "k": "caps", "grants": { id: everything } }),
            chat("and now I may"),
        ]
    };
    for payload in hostile("y-mallory") {
        mallory.send(&anna_id, &payload);
        mallory.send(&bridge, &payload);
    }
    // A person is heard, but not with more than a message may have.
    let mut hugo = Raw::open(&hub, "x-hugo").await;
    hugo.presence("lab").await;
    hugo.voice("lab", &json!({ "token": "h" }));
    hugo.told("lab", "roster").await;
    hugo.dial(&anna_id).await;
    hugo.dial(&bridge).await;
    for (size, marker) in [(262_145 - 2, "one too many"), (262_144 - 2, "as much as there may be")] {
        let data = format!("{marker}{}", "x".repeat(size - marker.len()));
        for to in [&anna_id, &bridge] {
            hugo.send(to, &json!({ "k": "app", "data": data }));
        }
    }
    for to in [&anna_id, &bridge] {
        hugo.send(to, &json!({ "k": "caps", "grants": { "y-mallory": everything } }));
        hugo.send(to, &chat("done"));
    }
    let mut seen = Vec::new();
    let note = |seen: &mut Vec<String>, event: &Event| match event {
        Event::Chat(said) => seen.push(said.text.clone()),
        Event::Data { data, .. } => seen.push(data.get()[1..10].to_owned()),
        Event::View | Event::Schema(_) | Event::Act { .. } => seen.push(format!("{event:?}")),
        _ => {}
    };
    // Both go on at their own pace: what was sent has to be carried.
    let watch = until(&mut anna, |_, event| {
        note(&mut seen, event);
        matches!(event, Event::Chat(said) if said.text == "done").then_some(())
    });
    tokio::select! {
        () = watch => {}
        () = hugo.until(|_| None) => {}
        () = mallory.until(|_| None) => {}
    }
    assert_eq!(seen, ["as much a", "done"]);
    let relayed = async {
        loop {
            let said = olga.content().await;
            if said["text"] == "done" {
                return;
            }
            assert!(said["data"].as_str().is_some_and(|data| data.starts_with("as much")), "{}", said["k"]);
        }
    };
    tokio::select! {
        () = relayed => {}
        () = hugo.until(|_| None) => {}
        () = mallory.until(|_| None) => {}
    }
    let log = hub.get("/api/rooms/lab").await.body["audit"].to_string();
    assert!(log.contains("blocked"), "what went to who is bridged is in the room's log: {log}");
}

#[tokio::test]
async fn a_host_who_was_kicked_does_not_come_back_with_another_secret() {
    let hub = TestHub::start().await;
    let made = hub.room(json!({ "name": "lab", "transport": "mesh" })).await;
    let invite = made["host_invite"].as_str().expect("an invite").to_owned();
    let host = |token: &str| Profile { invite: Some(invite.clone()), token: Some(token.into()), ..named("") };
    let first = join(&hub, "lab", host("one")).await;
    let id = id_of(&hub, "lab", "Host").await;
    assert_eq!(hub.post("/api/rooms/lab/kick", json!({ "participant": id })).await.status, 200);
    let again = convoke_room::Session::join(config(&hub, "lab", host("two")), || {}).await;
    assert!(matches!(again, Err(JoinError::Kicked)), "{again:?}");
    drop(first);
    let shown: Value = hub.get("/api/rooms/lab").await.body;
    assert_eq!(shown["present"], 0);
}
