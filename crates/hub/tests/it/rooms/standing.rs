//! Agents that an issuer vouches for, with keys that the hub fetches; and agents that pay.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use convoke_kibitz::key::Signer as _;
use serde_json::{Value, json};

use crate::rooms::Key;
use crate::support::{TOKEN, TestHub};
use crate::yonexus::fake_http::FakeHttp;

struct Rsa(KeyPair);

impl Rsa {
    fn new() -> Self {
        Self(KeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    fn jwk(&self) -> Value {
        // PKCS #1: a sequence of the modulus, with a zero before it, and of 65537.
        let der = self.0.public_key().as_ref();
        assert_eq!((der.len(), der[8]), (270, 0));
        json!({ "kty": "RSA", "kid": "rsa", "alg": "RS256", "n": URL_SAFE_NO_PAD.encode(&der[9..265]), "e": "AQAB" })
    }

    fn jwt(&self, claims: &Value) -> String {
        let signed = signed(&json!({ "alg": "RS256", "typ": "JWT", "kid": "rsa" }), claims);
        let mut signature = vec![0; 256];
        self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).expect("signs");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn signed(header: &Value, claims: &Value) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims.to_string()))
}

fn soon() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    now.as_secs() + 60
}

fn elliptic(key: &Key, claims: &Value) -> String {
    let signed = signed(&json!({ "alg": "ES256", "kid": "ec" }), claims);
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(key.sign(signed.as_bytes()).expect("signs")))
}

#[tokio::test]
async fn an_issuers_keys_are_fetched_and_whom_it_vouches_for_is_let_in() {
    let mut issuer = FakeHttp::start().await;
    let hub = TestHub::with(&[("rooms.jwks_hosts", "127.0.0.1")]).await;
    hub.room(json!({ "name": "ci" })).await;
    let (rsa, ec) = (Rsa::new(), Key::new());
    let policy = json!({
        "issuer": "https://ci.example", "jwks_uri": issuer.url("/jwks"), "audience": "rooms",
        "claims": { "sub": "repo:acme/*", "protected": "true" }, "caps": { "act": ["send-chat"] }, "label": "ci",
    });
    let set = hub.post("/api/rooms/ci/admission", json!({ "issuers": [policy] })).await;
    assert_eq!(set.status, 200, "{set:?}");
    assert_eq!(set.body["admission"]["issuers"][0]["audience"], "rooms");
    let claims = json!({ "iss": "https://ci.example", "sub": "repo:acme/x", "aud": ["rooms"], "exp": soon(), "protected": true });
    let mut agent = hub.knock("ci", None).await.expect("upgrades");
    agent.send(json!({ "t": "voice", "on": true, "jwt": rsa.jwt(&claims) })).await;
    let mut jwk = ec.jwk();
    jwk["kid"] = json!("ec");
    issuer.expect("GET", "/jwks", 200, &json!({ "keys": [rsa.jwk(), jwk] }).to_string()).await;
    agent.entered().await;
    let mut other = hub.join("ci", None, json!({ "jwt": elliptic(&ec, &claims) })).await;
    agent.say("built").await;
    assert_eq!(other.content().await["text"], "built");
    let shown = hub.get("/api/rooms/ci").await.body["participants"].clone();
    assert_eq!(
        (&shown[0]["kind"], &shown[0]["via"], &shown[0]["name"]),
        (&json!("agent"), &json!("issuer"), &json!("ci"))
    );
    let forged = Rsa::new();
    let mut elsewhere = claims.clone();
    elsewhere["aud"] = json!("elsewhere");
    for bad in [forged.jwt(&claims), rsa.jwt(&elsewhere), elliptic(&Key::new(), &claims)] {
        let mut stranger = hub.knock("ci", None).await.expect("upgrades");
        stranger.send(json!({ "t": "voice", "on": true, "jwt": bad })).await;
        assert_eq!(stranger.frame().await["status"], "unverified");
    }
    // The policy is taken back: who came by it is out at once.
    assert_eq!(hub.post("/api/rooms/ci/admission", json!({})).await.status, 200);
    assert_eq!(agent.until(|frame| frame["t"] == "kick").await["reason"], "lapsed");
    assert_eq!(agent.socket.closed().await, Some(4401));
    let what: Vec<_> = hub.journal("kind=grant").await.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert_eq!(what, ["room made", "admission changed", "admission changed"]);
}

#[tokio::test]
async fn agents_that_must_pay_bring_a_credit_for_this_room() {
    let mut hub = TestHub::start().await;
    let (rsa, key) = (Rsa::new(), Key::new());
    hub.room(json!({ "name": "paid", "agent_keys": [{ "key": key.jwk() }] })).await;
    for bad in [
        json!({ "credits": { "issuers": [], "jwks": { "keys": [rsa.jwk()] } } }),
        json!({ "credits": { "issuers": ["https://pay.example"] } }),
        json!({ "credits": { "issuers": ["https://pay.example"], "jwks": { "keys": [] } } }),
        json!({ "credits": { "issuers": ["https://pay.example"], "jwks_uri": "http://127.0.0.1:1/" } }),
        json!({ "issuers": [{ "issuer": "x", "audience": "", "jwks": { "keys": [rsa.jwk()] } }] }),
    ] {
        assert_eq!(hub.post("/api/rooms/paid/admission", bad.clone()).await.status, 400, "{bad}");
    }
    let credits = json!({ "issuers": ["https://pay.example"], "jwks": { "keys": [rsa.jwk()] } });
    assert_eq!(hub.post("/api/rooms/paid/admission", json!({ "credits": credits })).await.status, 200);
    hub.restart(&[]).await;
    let credit =
        |room: &str| rsa.jwt(&json!({ "iss": "https://pay.example", "sub": "wallet", "room": room, "exp": soon() }));
    let mut agent = hub.knock("paid", None).await.expect("upgrades");
    for without in [Value::Null, json!(credit("other"))] {
        let mut voice = agent.assertion("paid", &key);
        voice["agentCredit"] = without;
        agent.send(voice).await;
        assert_eq!(agent.frame().await["status"], "unverified");
    }
    let mut voice = agent.assertion("paid", &key);
    voice["agentCredit"] = json!(credit("paid"));
    agent.send(voice).await;
    agent.entered().await;
    // People need none.
    hub.join("paid", Some(TOKEN), json!({})).await;
}
