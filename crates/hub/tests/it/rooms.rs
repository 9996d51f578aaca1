//! Rooms as their participants and operators meet them.

mod hostile;
mod mesh;
mod raw;
mod standing;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use convoke_kibitz::admission::{assert, relay_fingerprint};
use convoke_kibitz::key::{PublicKey, Signer};
use futures_util::future::join_all;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};

use crate::people::{add_user, signed_in};
use crate::support::{Bare, PATIENCE, TOKEN, TestHub};

pub struct Key(EcdsaKeyPair);

impl Key {
    pub fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub fn jwk(&self) -> Value {
        serde_json::to_value(self.public_key()).expect("JSON")
    }
}

impl Signer for Key {
    fn public_key(&self) -> PublicKey {
        PublicKey::from_sec1(self.0.public_key().as_ref()).expect("a point")
    }

    fn sign(&self, bytes: &[u8]) -> Option<[u8; 64]> {
        self.0.sign(&SystemRandom::new(), bytes).expect("signs").as_ref().try_into().ok()
    }
}

/// Somebody at a room's door.
struct Peer {
    socket: Bare,
    host: String,
    challenge: String,
    id: String,
    heard: Vec<Value>,
}

impl TestHub {
    async fn room(&self, body: Value) -> Value {
        let reply = self.post("/api/rooms", body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    /// A connection that has said nothing, or the status of the refusal.
    async fn knock(&self, room: &str, token: Option<&str>) -> Result<Peer, u16> {
        let bearer = token.map(|token| ("authorization", format!("Bearer {token}")));
        self.knock_with(room, bearer.as_slice()).await
    }

    /// The same with these headers.
    async fn knock_with(&self, room: &str, headers: &[(&'static str, String)]) -> Result<Peer, u16> {
        let url = format!("{}/rooms/{room}/ws", self.http.replace("http://", "ws://"));
        let mut request = url.into_client_request().expect("a request");
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let socket = match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Bare(socket),
            Err(WsError::Http(reply)) => return Err(reply.status().as_u16()),
            Err(why) => panic!("{why}"),
        };
        let host = self.http.trim_start_matches("http://").to_owned();
        let mut peer = Peer { socket, host, challenge: String::new(), id: String::new(), heard: Vec::new() };
        let hello = peer.frame().await;
        assert_eq!((&hello["t"], &hello["relay"]), (&json!("hello"), &json!(1)));
        peer.challenge = hello["challenge"].as_str().expect("a text").to_owned();
        Ok(peer)
    }

    /// Somebody who is in.
    async fn join(&self, room: &str, token: Option<&str>, mut voice: Value) -> Peer {
        let mut peer = self.knock(room, token).await.expect("upgrades");
        voice["t"] = json!("voice");
        voice["on"] = json!(true);
        peer.send(voice).await;
        peer.entered().await;
        peer
    }

    /// The holder of a key, in.
    async fn room_agent(&self, room: &str, key: &Key) -> Peer {
        let mut peer = self.knock(room, None).await.expect("upgrades");
        let voice = peer.assertion(room, key);
        peer.send(voice).await;
        peer.entered().await;
        peer
    }
}

impl Peer {
    async fn send(&mut self, frame: Value) {
        self.socket.send(frame.to_string()).await;
    }

    async fn say(&mut self, text: &str) {
        self.send(json!({ "t": "to", "ref": 1, "payload": { "k": "chat", "text": text } })).await;
    }

    fn assertion(&self, room: &str, key: &Key) -> Value {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        let fingerprint = relay_fingerprint(&self.host, &self.challenge);
        let signed = assert(key, room, &fingerprint, now.as_secs() as i64).expect("signed");
        json!({ "t": "voice", "on": true, "name": "scribe", "agentAssertion": signed })
    }

    async fn frame(&mut self) -> Value {
        let text = self.socket.next().await.unwrap_or_else(|code| panic!("closed with {code:?}"));
        let frame: Value = serde_json::from_str(&text).expect("JSON");
        self.heard.push(frame.clone());
        frame
    }

    /// The next frame of this kind.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let frame = self.frame().await;
            if fits(&frame) {
                return frame;
            }
        }
    }

    async fn entered(&mut self) {
        let id = self.until(|frame| frame["t"] == "id").await;
        self.id = id["id"].as_str().expect("a text").to_owned();
        self.until(|frame| frame["t"] == "roster").await;
        self.until(|frame| frame["payload"]["k"] == "caps").await;
    }

    /// The next content of others.
    async fn content(&mut self) -> Value {
        let frame = self.until(|frame| frame["t"] == "from" && frame["payload"]["k"] != "caps").await;
        frame["payload"].clone()
    }

    async fn refused(&mut self) -> Value {
        self.until(|frame| frame["t"] == "refused").await["reason"].clone()
    }

    /// Waits until the hub has worked through everything that was sent.
    async fn settled(&mut self) {
        self.socket.0.send(Message::Ping(b"settled".as_slice().into())).await.expect("sends");
        let pong = async {
            loop {
                match self.socket.0.next().await {
                    Some(Ok(Message::Pong(payload))) if payload.as_ref() == b"settled" => return,
                    Some(Ok(Message::Text(text))) => self.heard.push(serde_json::from_str(&text).expect("JSON")),
                    Some(Ok(_)) => {}
                    other => panic!("{other:?}"),
                }
            }
        };
        tokio::time::timeout(PATIENCE, pong).await.expect("a pong");
    }
}

#[tokio::test]
async fn the_id_of_a_mesh_room_is_the_hubs() {
    let hub = TestHub::start().await;
    let made = hub.room(json!({ "name": "lab", "transport": "mesh", "open": true })).await;
    assert_eq!(made["transport"], "mesh");
    hub.room(json!({ "name": "other" })).await;
    let peer = |id: &str| {
        let url = hub.http.replace("http://", "ws://");
        format!("{url}/peerjs?key=peerjs&id={id}&token=t&version=1.5.5")
    };
    for (id, kind) in [("anna", "OPEN"), ("kbz-v1-lab", "ID-TAKEN"), ("kbz-v1-other", "ID-TAKEN"), ("", "ERROR")] {
        let (socket, _) = tokio_tungstenite::connect_async(peer(id)).await.expect("upgrades");
        let told: Value = serde_json::from_str(&Bare(socket).next().await.expect("a text")).expect("JSON");
        assert_eq!(told["type"], kind, "{id}");
    }
    assert_eq!(hub.request("DELETE", "/api/rooms/other", Some(TOKEN), None).await.status, 200);
    let (socket, _) = tokio_tungstenite::connect_async(peer("kbz-v1-other")).await.expect("upgrades");
    let told: Value = serde_json::from_str(&Bare(socket).next().await.expect("a text")).expect("JSON");
    assert_eq!(told["type"], "OPEN", "free again");
}

#[tokio::test]
async fn a_room_is_made_shown_and_removed() {
    let hub = TestHub::start().await;
    let made = hub.room(json!({ "name": "My Lab!", "transport": "relay", "open": true })).await;
    assert_eq!((&made["name"], &made["open"]), (&json!("my-lab"), &json!(true)));
    assert!(made["relay"].as_str().is_some_and(|url| url.starts_with("ws://") && url.ends_with("/rooms/my-lab/ws")));
    let invite = made["host_invite"].as_str().expect("an invite").to_owned();
    assert_eq!(hub.post("/api/rooms", json!({ "name": "my lab" })).await.status, 409);
    for (bad, word) in [
        (json!({ "name": "☕" }), "`name`"),
        (json!({ "name": "x", "transport": "pigeon" }), "`relay`"),
        (json!({ "name": "x", "agent_keys": [{ "key": {} }] }), "P-256"),
        (json!({ "name": "x", "agent_keys": [{ "key": Key::new().jwk(), "caps": { "act": ["fly"] } }] }), "fly"),
    ] {
        let reply = hub.post("/api/rooms", bad.clone()).await;
        assert_eq!(reply.status, 400, "{bad}");
        assert!(reply.body["error"]["message"].as_str().is_some_and(|m| m.contains(word)), "{bad}: {reply:?}");
    }
    let mut anna = hub.join("my-lab", None, json!({ "name": "Anna" })).await;
    let mut ben = hub.join("My%20Lab", None, json!({ "name": "Ben" })).await;
    anna.say("hello").await;
    assert_eq!(ben.content().await["text"], "hello");
    let shown = hub.get("/api/rooms/my-lab").await.body;
    assert_eq!(shown["present"], 2);
    assert!(shown["host_invite"].is_null(), "it lets somebody in, so it is shown once");
    let listed = hub.get("/api/rooms").await.body;
    assert_eq!(listed["rooms"][0]["name"], "my-lab");
    let host = hub.join("my-lab", None, json!({ "jwt": invite })).await;
    assert!(host.id.starts_with("invited-"));
    assert_eq!(hub.request("DELETE", "/api/rooms/my-lab", Some(TOKEN), None).await.status, 200);
    assert_eq!(anna.until(|frame| frame["t"] == "error").await["code"], "removed");
    assert_eq!(anna.socket.closed().await, Some(4404));
    assert_eq!(hub.get("/api/rooms/my-lab").await.status, 404);
    assert_eq!(hub.knock("my-lab", None).await.err(), Some(404));
    let journal = hub.journal("kind=grant").await;
    let what: Vec<_> = journal.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert_eq!(what, ["room made", "room removed"]);
    assert!(journal.iter().all(|r| r["target"] == "room:my-lab" && r["who"] == "operator"));
}

#[tokio::test]
async fn keys_and_rooms_that_are_added_at_once_are_all_there() {
    let mut hub = TestHub::with(&[("rooms.max_rooms", "3")]).await;
    hub.room(json!({ "name": "standup" })).await;
    let add = (0..8).map(|n| {
        let body = json!({ "key": Key::new().jwk(), "label": format!("k-{n}") });
        hub.post("/api/rooms/standup/keys", body)
    });
    for reply in join_all(add).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let make = (0..8).map(|n| hub.post("/api/rooms", json!({ "name": format!("room-{n}") })));
    let made = join_all(make).await.iter().filter(|reply| reply.status == 200).count();
    assert_eq!(made, 2, "as many as there may be");
    let shown = |room: Value| room["agent_keys"].as_array().expect("a list").len();
    assert_eq!(shown(hub.get("/api/rooms/standup").await.body), 8);
    hub.restart(&[("rooms.max_rooms", "3")]).await;
    assert_eq!(shown(hub.get("/api/rooms/standup").await.body), 8);
}

#[tokio::test]
async fn agents_come_by_their_keys_and_grants_outlive_the_hub() {
    let mut hub = TestHub::start().await;
    let (reader, speaker) = (Key::new(), Key::new());
    let caps = json!({ "act": ["send-chat"] });
    let keys = json!([{ "key": reader.jwk(), "label": "reader" }, { "key": speaker.jwk(), "caps": caps }]);
    let made = hub.room(json!({ "name": "standup", "agent_keys": keys })).await;
    assert!(made["manifest"].is_string() && made["link"].as_str().is_some_and(|link| link.contains("&gm=")));
    let mut reads = hub.room_agent("standup", &reader).await;
    let mut speaks = hub.room_agent("standup", &speaker).await;
    speaks.say("hello").await;
    assert_eq!(reads.content().await["text"], "hello");
    reads.say("me too").await;
    assert_eq!(reads.refused().await, "send-chat", "the engine refuses, whatever the client thinks");
    let record = hub
        .until("/api/journal?kind=grant&limit=1000", |page| page["records"].as_array().is_some_and(|r| r.len() == 2))
        .await;
    let blocked = &record["records"][1];
    assert_eq!((&blocked["decision"], &blocked["door"]), (&json!("blocked"), &json!("room")));
    assert_eq!(blocked["detail"]["detail"], "chat: send-chat");

    let path = format!("/api/rooms/standup/grants/{}", reads.id);
    let wider = json!({ "act": ["send-chat"], "expires_at": "2999-01-01T00:00:00Z" });
    let granted = hub.request("PATCH", &path, Some(TOKEN), Some(wider)).await;
    assert_eq!((granted.status, &granted.body["grant"]["act"]), (200, &json!(["send-chat"])), "{granted:?}");
    assert_eq!(granted.body["grant"]["perceive"], json!(["read-chat", "read-roster", "receive-directed"]));
    reads.say("at last").await;
    assert_eq!(speaks.content().await["text"], "at last");
    for (bad, status) in [
        (json!({}), 400),
        (json!({ "act": ["read-chat"] }), 400),
        (json!({ "default": true, "act": [] }), 400),
        (json!({ "acts": [] }), 400),
    ] {
        assert_eq!(hub.request("PATCH", &path, Some(TOKEN), Some(bad.clone())).await.status, status, "{bad}");
    }
    let nobody =
        hub.request("PATCH", "/api/rooms/standup/grants/nobody", Some(TOKEN), Some(json!({ "act": [] }))).await;
    assert_eq!(nobody.status, 404);

    hub.restart(&[]).await;
    assert_eq!(reads.until(|frame| frame["t"] == "error").await["code"], "stopping");
    assert_eq!(reads.socket.closed().await, Some(1001));
    let mut reads = hub.room_agent("standup", &reader).await;
    let mut speaks = hub.room_agent("standup", &speaker).await;
    reads.say("still").await;
    assert_eq!(speaks.content().await["text"], "still", "grants and keys are kept");
    let revoked = hub.request("PATCH", &path, Some(TOKEN), Some(json!({ "perceive": [], "act": [] }))).await;
    assert_eq!(revoked.status, 200);
    reads.say("no more").await;
    assert_eq!(reads.refused().await, "send-chat");
    speaks.say("alone").await;
    reads.settled().await;
    assert!(
        !reads.heard.iter().any(|frame| frame["payload"]["text"] == "alone"),
        "what is withheld is not delivered"
    );

    // Its key is dropped from the list: out at once, and in no more.
    let path = format!("/api/rooms/standup/keys/{}", speaker.public_key().thumbprint());
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    assert_eq!(speaks.socket.closed().await, Some(4401));
    let mut again = hub.knock("standup", None).await.expect("upgrades");
    let voice = again.assertion("standup", &speaker);
    again.send(voice).await;
    assert_eq!(again.frame().await, json!({ "t": "lobby", "status": "unverified" }));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 404);
    let added = hub.post("/api/rooms/standup/keys", json!({ "key": speaker.jwk(), "label": "again" })).await;
    assert_eq!(added.status, 200, "{added:?}");
    assert_eq!(hub.post("/api/rooms/standup/keys", json!({ "key": speaker.jwk() })).await.status, 409);
    let voice = again.assertion("standup", &speaker);
    again.send(voice).await;
    again.entered().await;
}

#[tokio::test]
async fn operators_come_by_their_token_within_its_rights() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "ops" })).await;
    let mut admin = hub.join("ops", Some(TOKEN), json!({ "name": "Olga" })).await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let mut looks = hub.join("ops", Some(&viewer), json!({})).await;
    admin.say("hello").await;
    assert_eq!(looks.content().await["text"], "hello");
    looks.say("x").await;
    assert_eq!(looks.refused().await, "send-chat", "a viewer looks");
    let elsewhere = hub.token("elsewhere", "operator", json!({ "agents": ["room:other"] })).await;
    assert_eq!(hub.knock("ops", Some(&elsewhere)).await.err(), Some(403));
    assert_eq!(hub.journal("kind=refusal").await.pop().expect("recorded")["target"], "room:ops");
    assert_eq!(hub.knock("ops", Some("cvk_wrong")).await.err(), Some(401));
    let seen = hub.request("GET", "/api/rooms", Some(&elsewhere), None).await.body;
    assert_eq!(seen["rooms"], json!([]));
    // A token that is revoked takes its holder out of the room.
    let listed = hub.get("/api/tokens").await.body;
    let id =
        listed["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "viewer").expect("there")["id"]
            .clone();
    hub.request("DELETE", &format!("/api/tokens/{}", id.as_str().expect("an id")), Some(TOKEN), None).await;
    assert_eq!(looks.until(|frame| frame["t"] == "error").await["code"], "revoked");
    assert_eq!(looks.socket.closed().await, Some(4401));
}

#[tokio::test]
async fn who_is_signed_in_comes_as_an_operator_from_the_hubs_own_page_alone() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "ops" })).await;
    hub.room(json!({ "name": "plaza", "open": true })).await;
    let mut browser = signed_in(&hub, "anna", "admin", json!({})).await;
    let cookie = ("cookie", browser.cookie.clone().expect("a cookie"));
    let origin = ("origin", hub.http.clone());
    let site = |site: &str| ("sec-fetch-site", site.to_owned());
    for foreign in [vec![], vec![site("cross-site"), origin.clone()], vec![("origin", "http://127.0.0.1:9".into())]] {
        let headers = [vec![cookie.clone()], foreign].concat();
        assert_eq!(hub.knock_with("ops", &headers).await.err(), Some(403), "{headers:?}");
    }
    let enter = async |room: &str, headers: &[(&'static str, String)]| {
        let mut peer = hub.knock_with(room, headers).await.expect("upgrades");
        peer.send(json!({ "t": "voice", "on": true })).await;
        peer.entered().await;
        peer
    };
    let own = [cookie.clone(), site("same-origin"), origin.clone()];
    let mut anna = enter("ops", &own).await;
    assert!(anna.id.starts_with("operator-"));
    let by_origin = enter("ops", &[cookie, origin]).await;
    assert_eq!(by_origin.id, anna.id, "the same person");
    assert_eq!(anna.until(|frame| frame["t"] == "error").await["code"], "replaced");
    let mut anna = enter("ops", &own).await;
    let shown = hub.get("/api/rooms/ops").await.body["participants"][0].clone();
    assert_eq!((&shown["name"], &shown["via"], &shown["host"]), (&json!("anna"), &json!("operator"), &json!(true)));

    // Out of their reach they are what anybody is.
    add_user(&hub, "ben", "operator", json!({ "agents": ["room:other"] })).await;
    let mut other = crate::people::Browser::new(&hub);
    other.sign_in("ben").await;
    let bens = [("cookie", other.cookie.clone().expect("a cookie")), site("same-origin")];
    assert!(enter("plaza", &bens).await.id.starts_with("guest-"));
    let mut outside = hub.knock_with("ops", &bens).await.expect("upgrades");
    outside.send(json!({ "t": "voice", "on": true })).await;
    assert_eq!(outside.frame().await["status"], "unverified");
    assert_eq!(other.post("/api/rooms/ops/pass", json!({})).await.status, 403);

    // A pass: the same operator, without the cookie, and out when they sign out.
    let pass = browser.post("/api/rooms/ops/pass", json!({})).await;
    assert_eq!(pass.status, 200, "{pass:?}");
    let voice = json!({ "t": "voice", "on": true, "jwt": pass.body["invite"], "token": "another of hers" });
    let mut by_pass = hub.knock("ops", None).await.expect("upgrades");
    by_pass.send(voice.clone()).await;
    by_pass.entered().await;
    assert!(by_pass.id.starts_with("operator-") && by_pass.id != anna.id);
    let kicked = hub.post("/api/rooms/ops/kick", json!({ "participant": by_pass.id })).await;
    assert_eq!(kicked.status, 200);
    assert_eq!(anna.socket.closed().await, Some(4403), "a kick is the person's, however they came");
    let back = json!({ "participant": by_pass.id, "admit": true });
    assert_eq!(hub.post("/api/rooms/ops/admit", back).await.status, 200);
    let mut anna = enter("ops", &own).await;
    let mut by_pass = hub.knock("ops", None).await.expect("upgrades");
    by_pass.send(voice.clone()).await;
    by_pass.entered().await;
    assert_eq!(browser.ask("DELETE", "/api/session", None).await.status, 200);
    for peer in [&mut anna, &mut by_pass] {
        assert_eq!(peer.until(|frame| frame["t"] == "error").await["code"], "revoked");
        assert_eq!(peer.socket.closed().await, Some(4401));
    }
    let mut late = hub.knock("ops", None).await.expect("upgrades");
    late.send(voice).await;
    assert_eq!(late.frame().await["status"], "unverified");
}

#[tokio::test]
async fn the_lobby_holds_guests_until_an_operator_decides_and_a_kick_holds() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "door", "lobby": true })).await;
    let invite = hub.post("/api/rooms/door/invites", json!({ "name": "Gil", "expires_in_s": 60 })).await;
    let invite = invite.body["invite"].as_str().expect("an invite").to_owned();
    for bad in [json!({ "name": "" }), json!({ "name": "x", "expires_in_s": 0 })] {
        assert_eq!(hub.post("/api/rooms/door/invites", bad).await.status, 400);
    }
    let mut gil = hub.knock("door", None).await.expect("upgrades");
    gil.send(json!({ "t": "voice", "on": true, "jwt": invite, "token": "his own" })).await;
    assert_eq!(gil.frame().await["status"], "waiting");
    let shown = hub.get("/api/rooms/door").await.body;
    let waiting = &shown["participants"][0];
    assert_eq!((&waiting["name"], &waiting["state"]), (&json!("Gil"), &json!("waiting")));
    let body = json!({ "participant": waiting["id"], "admit": true });
    assert_eq!(hub.post("/api/rooms/door/admit", body.clone()).await.status, 200);
    gil.entered().await;
    assert_eq!(hub.post("/api/rooms/door/admit", body.clone()).await.status, 404, "nobody waits");
    let kicked = hub.post("/api/rooms/door/kick", json!({ "participant": gil.id })).await;
    assert_eq!((kicked.status, &kicked.body["kicked"]), (200, &json!(true)));
    assert_eq!(gil.until(|frame| frame["t"] == "kick").await, json!({ "t": "kick" }));
    assert_eq!(gil.socket.closed().await, Some(4403));
    let come = async || {
        let mut gil = hub.knock("door", None).await.expect("upgrades");
        gil.send(json!({ "t": "voice", "on": true, "jwt": invite, "token": "his own" })).await;
        gil
    };
    assert_eq!(come().await.frame().await, json!({ "t": "kick" }));
    assert_eq!(hub.post("/api/rooms/door/admit", body).await.status, 200, "a kick is taken back");
    come().await.entered().await;
    let what: Vec<_> = hub.journal("kind=grant").await.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert_eq!(what, ["room made", "invited", "admitted", "kicked", "admitted"]);
    let journal = serde_json::to_string(&hub.journal("").await).expect("JSON");
    assert!(!journal.contains(&invite), "an invite lets somebody in: it is in no record");
}

#[tokio::test]
async fn what_does_not_count_is_told_counted_and_slowed_and_others_go_on() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "shut" })).await;
    let mut member = hub.join("shut", Some(TOKEN), json!({})).await;
    let mut stranger = hub.knock("shut", None).await.expect("upgrades");
    stranger.send(json!({ "t": "to", "payload": { "k": "chat", "text": "x" } })).await;
    assert_eq!(stranger.frame().await["code"], "not_admitted");
    for _ in 0..4 {
        stranger.send(json!({ "t": "knock", "jwt": "a.b" })).await;
        assert_eq!(stranger.frame().await["status"], "unverified");
    }
    stranger.socket.send("x".repeat(17 * 1024)).await;
    assert_eq!(stranger.frame().await["code"], "too_large");
    stranger.socket.send("x".repeat(40 * 1024)).await;
    assert_eq!(stranger.until(|frame| frame["t"] == "error").await["code"], "too_large");
    assert_eq!(stranger.socket.closed().await, Some(1009));
    let mut last = None;
    for _ in 0..70 {
        match hub.knock("nowhere", None).await {
            Ok(_) => panic!("there is no such room"),
            Err(status) => last = Some(status),
        }
    }
    assert_eq!(last, Some(429), "an address that keeps failing is not listened to");
    member.send(json!({ "t": "ping" })).await;
    assert_eq!(member.until(|frame| frame["t"] == "ping").await, json!({ "t": "ping" }));
    let page = hub.request("GET", "/rooms/shut/ws", None, None).await;
    assert!([426, 429].contains(&page.status));
}

#[tokio::test]
async fn who_does_not_read_is_dropped_alone() {
    let hub = TestHub::with(&[("rooms.frames_per_second", "100000")]).await;
    hub.room(json!({ "name": "busy", "open": true })).await;
    let mut loud = hub.join("busy", None, json!({ "name": "loud" })).await;
    let mut reads = hub.join("busy", None, json!({ "name": "reads" })).await;
    let stalled = hub.join("busy", None, json!({ "name": "stalled" })).await;
    let data = "x".repeat(200_000);
    let mut sent = 0;
    // Until what the system holds for the one who does not read is full, and then what the hub does.
    let gone = loop {
        loud.send(json!({ "t": "to", "payload": { "k": "app", "data": data } })).await;
        sent += 1;
        assert_eq!(reads.content().await["k"], "app");
        let shown = hub.get("/api/rooms/busy").await.body;
        if shown["present"] == 2 {
            break true;
        }
        if sent > 500 {
            break false;
        }
    };
    assert!(gone, "100 MB waited for somebody who does not read");
    let names = reads.until(|frame| frame["t"] == "roster").await;
    assert!(!names.to_string().contains("stalled"));
    loud.say("still here").await;
    assert_eq!(reads.content().await["text"], "still here");
    let metrics = hub.get("/metrics").await.body;
    assert!(metrics.as_str().is_some_and(|page| page.contains("room_slow_participant")));
    drop(stalled);
}

#[tokio::test]
async fn a_rule_posts_into_a_room_with_rule_and_sender_apart() {
    let mut hub = TestHub::start().await;
    hub.room(json!({ "name": "standup", "open": true })).await;
    hub.rule("deploy", json!({ "room": { "room": "Standup" } })).await;
    let rules = hub.get("/api/rules").await.body;
    assert_eq!(rules["rules"][0]["target"], json!({ "room": { "room": "standup" } }));
    hub.restart(&[]).await;
    let mut client = hub.live("client-a").await;
    client.send("deploy::built").await;
    assert_eq!(client.reason().await, "CLIENT_OFFLINE", "nobody is there");
    let mut anna = hub.join("standup", None, json!({ "name": "Anna" })).await;
    let mut agent = hub.join("standup", None, json!({ "name": "bot", "meta": { "role": "agent" } })).await;
    client.send("deploy::built::ok\nline two").await;
    for peer in [&mut anna, &mut agent] {
        let frame = peer.until(|frame| frame["payload"]["k"] == "chat").await;
        assert_eq!(frame["id"], "hub");
        let said = &frame["payload"];
        assert_eq!((&said["rule"], &said["sender"]), (&json!("deploy"), &json!("client-a")));
        assert_eq!(said["text"], "built::ok\nline two", "the content as it came");
    }
    let test = hub.post("/api/rules/deploy/test", json!({ "content": "x" })).await.body;
    assert_eq!((&test["matched"], &test["online"]), (&json!(true), &json!(["Anna", "bot"])));
    client.send(format!("deploy::{}", "y".repeat(1_100))).await;
    let mut text = String::new();
    for part in 1..=3 {
        let said = anna.content().await;
        assert_eq!((&said["part"], &said["parts"]), (&json!(part), &json!(3)));
        text.push_str(said["text"].as_str().expect("a text"));
    }
    assert_eq!(text.len(), 1_100);
    client.send("deploy:: ").await;
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
    client.send(format!("deploy::{}", "y".repeat(20_000))).await;
    assert_eq!(client.reason().await, "MALFORMED_MESSAGE");
    // The room is removed: the operator is told which rules post into it, and the sender that it is gone.
    let removed = hub.request("DELETE", "/api/rooms/standup", Some(TOKEN), None).await.body;
    assert_eq!(removed["rules"], json!(["deploy"]));
    client.send("deploy::anyone?").await;
    let told = client.next().await;
    assert_eq!(told["payload"]["code"], "CLIENT_OFFLINE");
    assert!(told["payload"]["message"].as_str().is_some_and(|m| m.contains("room does not exist")), "{told}");
    let test = hub.post("/api/rules/deploy/test", json!({ "content": "x" })).await.body;
    assert!(test["offline"].to_string().contains("room standup does not exist"));
    assert!(hub.get("/metrics").await.body.as_str().is_some_and(|page| page.contains("yonexus_room")));
    let gone = hub.post("/api/rules", json!({ "rule": "x", "target": { "room": { "room": "standup" } } })).await;
    assert_eq!(gone.status, 400);
}

fn action(n: u32) -> Value {
    json!({ "t": "to", "ref": n, "payload": { "k": "app", "data": { "__kib_agent": "act", "action": { "play": n } } } })
}

#[tokio::test]
async fn an_action_is_a_call_that_passes_the_gate_and_is_recorded() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "standup", "open": true })).await;
    let mut anna = hub.join("standup", None, json!({ "name": "Anna" })).await;
    let mut ben = hub.join("standup", None, json!({ "name": "Ben" })).await;
    anna.send(action(1)).await;
    let heard = ben.until(|frame| frame["payload"]["k"] == "app").await;
    assert_eq!(heard["payload"]["data"]["action"], json!({ "play": 1 }));
    // It is heard before its outcome is recorded.
    let is_recorded = |page: &Value| page["records"].as_array().is_some_and(|records| records.len() == 2);
    hub.until("/api/journal?kind=call", is_recorded).await;
    let records = hub.journal("kind=call").await;
    let seen: Vec<_> =
        records.iter().map(|r| (r["phase"].clone(), r["tool"].clone(), r["decision"].clone())).collect();
    let expected = ["intent", "outcome"].map(|phase| (json!(phase), json!("room_act"), json!("allowed")));
    assert_eq!(seen, expected, "{records:?}");
    assert_eq!((&records[0]["target"], &records[0]["door"]), (&json!("room:standup"), &json!("room")));
    assert_eq!(records[0]["who"], json!(format!("room:standup/{}", anna.id)));
}

#[tokio::test]
async fn an_action_waits_for_a_person_where_policy_says_so() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "standup", "open": true })).await;
    let rule = json!({ "id": "acts", "tools": ["room_act"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let mut anna = hub.join("standup", None, json!({ "name": "Anna" })).await;
    let mut ben = hub.join("standup", None, json!({ "name": "Ben" })).await;
    anna.send(action(1)).await;
    let refused = anna.until(|frame| frame["t"] == "refused").await;
    assert_eq!(
        (&refused["what"], &refused["reason"], &refused["ref"]),
        (&json!("act"), &json!("waiting"), &json!(1))
    );
    let approvals = hub.get("/api/approvals").await.body;
    let approval = approvals["approvals"][0]["id"].as_str().expect("an id").to_owned();
    assert_eq!(hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await.status, 200);
    let heard = ben.until(|frame| frame["payload"]["k"] == "app").await;
    assert_eq!(heard["payload"]["data"]["action"], json!({ "play": 1 }));
    // Who has left does not act any more, whatever is approved.
    anna.send(action(2)).await;
    anna.until(|frame| frame["ref"] == json!(2)).await;
    let approvals = hub.get("/api/approvals?state=pending").await.body;
    let approval = approvals["approvals"][0]["id"].as_str().expect("an id").to_owned();
    drop(anna);
    hub.until("/api/rooms/standup", |room| room["present"] == json!(1)).await;
    let decided = hub.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    hub.until("/api/journal?kind=call", |page| {
        let last = page["records"].as_array().and_then(|records| records.last());
        last.is_some_and(|last| last["outcome"] == "denied")
    })
    .await;
}

#[tokio::test]
async fn a_token_that_is_not_valid_opens_no_room_and_is_counted() {
    let hub = TestHub::start().await;
    hub.room(json!({ "name": "standup", "open": true })).await;
    assert_eq!(hub.knock("standup", Some("cvk_wrong")).await.err(), Some(401));
    let viewer = hub.token("viewer", "viewer", json!({ "agents": ["elsewhere"] })).await;
    assert_eq!(hub.knock("standup", Some(&viewer)).await.err(), Some(403));
    assert!(hub.knock("standup", Some(TOKEN)).await.is_ok());
}
