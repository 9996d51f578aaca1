//! Passkeys and one-time codes, with an authenticator of the test's own.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

use super::{Browser, PASSWORD, add_user, signed_in, step_down};
use crate::support::{Reply, TOKEN, TestHub};

/// A software authenticator with one key: ES256, resident, with user verification, no attestation.
struct Authenticator {
    key: EcdsaKeyPair,
    id: [u8; 16],
    user: Vec<u8>,
    counter: u32,
}

const PRESENT_AND_VERIFIED: u8 = 0x05;
const WITH_KEY: u8 = 0x40;

impl Authenticator {
    fn new() -> Self {
        let alg = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(alg, &SystemRandom::new()).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(alg, document.as_ref()).expect("the key");
        Self { key, id: convoke_gate::clock::random(), user: Vec::new(), counter: 0 }
    }

    fn data(&mut self, rp: &str, flags: u8) -> Vec<u8> {
        self.counter += 1;
        let mut data = digest(&SHA256, rp.as_bytes()).as_ref().to_vec();
        data.push(flags);
        data.extend(self.counter.to_be_bytes());
        data
    }

    /// What `navigator.credentials.create` answers.
    fn create(&mut self, options: &Value, origin: &str) -> Value {
        let options = &options["publicKey"];
        assert_eq!(options["authenticatorSelection"]["residentKey"], "required");
        self.user = BASE64.decode(options["user"]["id"].as_str().expect("an id")).expect("base64");
        let rp = options["rp"]["id"].as_str().expect("a name").to_owned();
        let mut data = self.data(&rp, PRESENT_AND_VERIFIED | WITH_KEY);
        data.extend([0; 16]);
        data.extend(16u16.to_be_bytes());
        data.extend(self.id);
        let point = self.key.public_key().as_ref();
        // The key in COSE: {1: 2, 3: -7, -1: 1, -2: x, -3: y}.
        data.extend([0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20]);
        data.extend(&point[1..33]);
        data.extend([0x22, 0x58, 0x20]);
        data.extend(&point[33..65]);
        // {"fmt": "none", "attStmt": {}, "authData": data}
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58".to_vec();
        object.push(u8::try_from(data.len()).expect("short"));
        object.extend(data);
        let client = client_data("webauthn.create", options, origin);
        json!({
            "id": BASE64.encode(self.id), "rawId": BASE64.encode(self.id), "type": "public-key",
            "response": { "attestationObject": BASE64.encode(object), "clientDataJSON": BASE64.encode(client) },
            "clientExtensionResults": {},
        })
    }

    /// What `navigator.credentials.get` answers.
    fn get(&mut self, options: &Value, origin: &str) -> Value {
        let options = &options["publicKey"];
        let rp = options["rpId"].as_str().expect("a name").to_owned();
        let data = self.data(&rp, PRESENT_AND_VERIFIED);
        let client = client_data("webauthn.get", options, origin);
        let mut signed = data.clone();
        signed.extend(digest(&SHA256, &client).as_ref());
        let signature = self.key.sign(&SystemRandom::new(), &signed).expect("signs");
        json!({
            "id": BASE64.encode(self.id), "rawId": BASE64.encode(self.id), "type": "public-key",
            "response": {
                "authenticatorData": BASE64.encode(data), "clientDataJSON": BASE64.encode(client),
                "signature": BASE64.encode(signature.as_ref()), "userHandle": BASE64.encode(&self.user),
            },
            "clientExtensionResults": {},
        })
    }
}

fn client_data(kind: &str, options: &Value, origin: &str) -> Vec<u8> {
    let data = json!({ "type": kind, "challenge": options["challenge"], "origin": origin, "crossOrigin": false });
    data.to_string().into_bytes()
}

fn localhost(hub: &TestHub) -> String {
    format!("http://localhost:{}", hub.hub().listen.port())
}

/// Asks as a page at `http://localhost:…` does.
async fn at_localhost(browser: &mut Browser<'_>, path: &str, body: Value) -> Reply {
    browser.host = Some(format!("localhost:{}", browser.hub.hub().listen.port()));
    browser.post(path, body).await
}

async fn add(browser: &mut Browser<'_>, user: &str, name: &str, key: &mut Authenticator) -> Reply {
    let origin = localhost(browser.hub);
    let asked = at_localhost(browser, &format!("/api/users/{user}/passkeys/challenge"), json!({})).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    let credential = key.create(&asked.body["options"], &origin);
    let body = json!({ "challenge_id": asked.body["challenge_id"], "name": name, "credential": credential });
    at_localhost(browser, &format!("/api/users/{user}/passkeys"), body).await
}

async fn show(browser: &mut Browser<'_>, key: &mut Authenticator, origin: &str) -> (Reply, Value) {
    let asked = at_localhost(browser, "/api/session/passkey/challenge", json!({})).await;
    assert_eq!(asked.status, 200, "{asked:?}");
    let credential = key.get(&asked.body["options"], origin);
    let body = json!({ "challenge_id": asked.body["challenge_id"], "credential": credential });
    (at_localhost(browser, "/api/session/passkey", body.clone()).await, body)
}

#[tokio::test]
async fn a_passkey_is_added_listed_signs_in_steps_up_and_is_removed() {
    let mut hub = TestHub::start().await;
    let mut key = Authenticator::new();
    let id = {
        let mut anna = signed_in(&hub, "anna", "admin", json!({ "approve": true })).await;
        let added = add(&mut anna, "anna", "laptop", &mut key).await;
        assert_eq!((added.status, &added.body["usable"]), (200, &json!(true)), "{added:?}");
        let listed = anna.get("/api/users/anna/passkeys").await.body;
        assert_eq!(listed["passkeys"][0]["name"], "laptop");
        assert_eq!(listed["passkeys"][0]["relying_party"], "localhost");
        listed["passkeys"][0]["id"].as_str().expect("an id").to_owned()
    };
    hub.restart(&[]).await;
    let origin = localhost(&hub);
    let mut anna = Browser::new(&hub);
    let (reply, body) = show(&mut anna, &mut key, &origin).await;
    assert_eq!((reply.status, &reply.body["user"]), (200, &json!("anna")), "{reply:?}");
    assert_eq!(reply.body["session"]["passkeys"], 1);
    let again = at_localhost(&mut Browser::new(&hub), "/api/session/passkey", body).await;
    assert_eq!(again.status, 401, "an answer is good once");

    step_down(&hub, "anna");
    let rule = json!({ "id": "x", "effects": ["manage"] });
    assert_eq!(anna.post("/api/policy/confirm", rule.clone()).await.body["error"]["code"], "step_up");
    let before = anna.get("/api/session").await.body["session"]["id"].clone();
    let (reply, _) = show(&mut anna, &mut key, &origin).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.body["session"]["id"], before, "the session goes on");
    assert_eq!(anna.post("/api/policy/confirm", rule).await.status, 200);

    let path = format!("/api/users/anna/passkeys/{id}");
    assert_eq!(anna.ask("DELETE", &path, None).await.status, 200);
    let (reply, _) = show(&mut Browser::new(&hub), &mut key, &origin).await;
    assert_eq!(reply.status, 401);
    let whats: Vec<_> = hub.journal("kind=user").await.iter().map(|r| r["detail"]["what"].clone()).collect();
    assert_eq!(whats[1..], ["added", "passkey added", "passkey removed"]);
    let auths: Vec<_> = hub.journal("kind=auth").await.iter().map(|r| r["detail"]["how"].clone()).collect();
    assert_eq!(auths, ["password", "passkey", "passkey"]);
}

#[tokio::test]
async fn a_passkey_of_another_page_key_or_person_signs_nobody_in() {
    let hub = TestHub::start().await;
    let origin = localhost(&hub);
    let (mut key, mut bad) = (Authenticator::new(), Authenticator::new());
    let mut anna = signed_in(&hub, "anna", "viewer", json!({})).await;
    assert_eq!(add(&mut anna, "anna", "phone", &mut key).await.status, 200);
    let (foreign, _) = show(&mut Browser::new(&hub), &mut key, "https://evil.example").await;
    assert_eq!(foreign.status, 401, "{foreign:?}");
    let (other_port, _) = show(&mut Browser::new(&hub), &mut key, "http://localhost:1").await;
    assert_eq!(other_port.status, 200, "localhost counts on any port");
    bad.id = key.id;
    bad.user.clone_from(&key.user);
    bad.counter = 1000;
    let (forged, _) = show(&mut Browser::new(&hub), &mut bad, &origin).await;
    assert_eq!(forged.status, 401, "{forged:?}");
    add_user(&hub, "bert", "admin", json!({ "approve": true })).await;
    bad.user = hub.hub().operators.people.find("bert").expect("there").principal.id.uuid().into_bytes().to_vec();
    let (other, _) = show(&mut Browser::new(&hub), &mut bad, &origin).await;
    assert_eq!(other.status, 401);
    // Nor does anybody add one to another user, or without having shown who they are.
    let mut bert = Browser::new(&hub);
    bert.sign_in("bert").await;
    assert_eq!(at_localhost(&mut bert, "/api/users/anna/passkeys/challenge", json!({})).await.status, 403);
    step_down(&hub, "anna");
    let asked = at_localhost(&mut anna, "/api/users/anna/passkeys/challenge", json!({})).await;
    assert_eq!(asked.body["error"]["code"], "step_up");
    assert_eq!(anna.get("/api/users/bert/passkeys").await.status, 403);
    assert_eq!(bert.get("/api/users/anna/passkeys").await.body["passkeys"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn at_an_address_the_hub_says_why_there_are_no_passkeys() {
    let hub = TestHub::start().await;
    let mut browser = Browser::new(&hub);
    let support = browser.get("/api/session/passkey").await.body;
    assert_eq!((&support["available"], &support["relying_party"]), (&json!(false), &json!("localhost")));
    assert_eq!(support["url"], localhost(&hub));
    let refused = browser.post("/api/session/passkey/challenge", json!({})).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (409, &json!("no_passkeys")));
    browser.host = Some(format!("localhost:{}", hub.hub().listen.port()));
    assert_eq!(browser.get("/api/session/passkey").await.body["available"], true);
    let mut hub = TestHub::with(&[("hub.public_url", "https://192.0.2.7:7410")]).await;
    hub.http = format!("http://{}", hub.hub().listen);
    let support = Browser::new(&hub).get("/api/session/passkey").await.body;
    let reason = support["reason"].as_str().expect("a reason");
    assert!(reason.contains("not for an address") && reason.contains("password"), "{reason}");
}

#[tokio::test]
async fn one_time_codes_are_asked_for_once_they_are_on() {
    let hub = TestHub::start().await;
    let mut anna = signed_in(&hub, "anna", "viewer", json!({})).await;
    let made = anna.post("/api/users/anna/totp", json!({})).await.body;
    let uri = made["uri"].as_str().expect("an address").to_owned();
    let app = totp_rs::Totp::from_url(&uri).expect("an app takes it");
    let seconds = |off: i64| u64::try_from(convoke_gate::clock::now().millis() / 1000 + off).expect("after 1970");
    let sign_in = async |code: Option<String>| {
        let body = json!({ "user": "anna", "password": PASSWORD, "totp": code });
        Browser::new(&hub).post("/api/session", body).await
    };
    assert_eq!(sign_in(None).await.status, 200, "not yet");
    let confirm = "/api/users/anna/totp/confirm";
    assert_eq!(anna.post(confirm, json!({ "code": "nope" })).await.body["error"]["code"], "totp");
    let first = app.generate(seconds(-30)).to_string();
    assert_eq!(anna.post(confirm, json!({ "code": first })).await.status, 200);
    let missing = sign_in(None).await;
    assert_eq!((missing.status, &missing.body["error"]["code"]), (401, &json!("totp")));
    assert_eq!(sign_in(Some(first)).await.status, 401, "that one was used");
    let now = app.generate(seconds(0)).to_string();
    assert_eq!(sign_in(Some(now.clone())).await.status, 200);
    assert_eq!(sign_in(Some(now)).await.status, 401);
    assert_eq!(anna.get("/api/session").await.body["session"]["has_totp"], true);
    assert_eq!(hub.request("DELETE", "/api/users/anna/totp", None, None).await.status, 401);
    let off = hub.request("DELETE", "/api/users/anna/totp", Some(TOKEN), None).await;
    assert_eq!(off.status, 200, "an admin turns them off");
    assert_eq!(sign_in(None).await.status, 200);
    let all = json!(hub.journal("").await).to_string();
    assert!(all.contains("one-time codes on") && all.contains("one-time codes off"));
    assert!(!all.contains(made["secret"].as_str().expect("a secret")), "no secret is recorded");
}
