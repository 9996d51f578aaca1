//! The agent at our own hub.

use std::time::Duration;

use convoke_core::id::PeerId;
use convoke_core::secret::SecretText;
use convoke_endpoint::RemoteControl;
use convoke_endpoint::address::HubAddress;
use convoke_endpoint::config::Identity;
use convoke_endpoint::enrol::{EnrolError, enrol};
use convoke_hub::settings::{Settings, Sources};
use convoke_hub::{Adopted, HubOptions, Running as Hub};
use serde_json::{Value, json};

use crate::kenny::{Endpoint, ID, PATIENCE, soon};

const TOKEN: &str = "cvk_test-operator-token";

pub async fn start(dir: &std::path::Path, more: &[(&str, &str)]) -> Hub {
    let mut flags = vec![("hub.listen".to_owned(), "127.0.0.1:0".to_owned())];
    flags.extend(more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
    let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
    let operator_token = Some(SecretText::new(TOKEN));
    let options = HubOptions { data: dir.to_owned(), settings, data_key: None, hub_seed: None, operator_token };
    convoke_hub::start(options).await.expect("starts")
}

pub async fn ask(hub: &Hub, method: &str, path: &str, body: Value) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let request = client.request(method.parse().expect("a method"), format!("{}{path}", hub.http)).bearer_auth(TOKEN);
    let request = if method == "GET" { request } else { request.json(&body) };
    request.send().await.expect("answers").json().await.expect("JSON")
}

pub async fn until(hub: &Hub, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    until_within(PATIENCE, hub, path, fits).await
}

/// A snapshot takes as long as the slowest of its sections may: on a full disk that is all of a section's time.
const COLLECTING: Duration = Duration::from_secs(150);

async fn until_within(patience: Duration, hub: &Hub, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
    let mut news = hub.hub.events.subscribe();
    let asking = async {
        loop {
            let answer = ask(hub, "GET", path, Value::Null).await;
            if fits(&answer) {
                return answer;
            }
            // Not everything is an event.
            let _ = tokio::time::timeout(Duration::from_millis(200), news.next(&hub.hub.events)).await;
        }
    };
    tokio::time::timeout(patience, asking).await.unwrap_or_else(|_| panic!("{path}: it never happened"))
}

fn identity(hub: &Hub) -> Identity {
    Identity {
        id: PeerId::kenny(ID).expect("an id"),
        hub: HubAddress::parse(&hub.http).expect("an address"),
        hub_key: hub.hub.key.verifying_key(),
        ca: None,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn enrol_connect_call_pause_and_see_it_at_the_hub() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(dir.path(), &[]).await;
    let endpoint = Endpoint::of(&hub.http, &hub.hub.key.verifying_key());
    let token = ask(&hub, "POST", &format!("/api/agents/{ID}/token"), json!({})).await;
    let token = SecretText::new(token["token"].as_str().expect("a token"));
    let wrong = enrol(&endpoint.state, &identity(&hub), &SecretText::new("cve_wrong")).await;
    assert!(matches!(wrong, Err(EnrolError::BadToken(_))), "{wrong:?}");
    enrol(&endpoint.state, &identity(&hub), &token).await.expect("enrolled");
    enrol(&endpoint.state, &identity(&hub), &token).await.expect("and again, as after a lost answer");

    let agent = endpoint.run();
    let path = format!("/api/agents/{ID}");
    let shown = until(&hub, &path, |a| a["online"] == true).await;
    assert_eq!((&shown["remote_control"], &shown["auth"]), (&json!(true), &json!("signature")));
    let call = |tool: &str, args: Value| {
        let (path, body) = (format!("{path}/call"), json!({ "tool": tool, "args": args }));
        let hub = &hub;
        async move { ask(hub, "POST", &path, body).await }
    };
    assert_eq!(call("shell_exec", json!({ "command": "echo hello" })).await["result"]["stdout"], "hello\n");

    // Our hub takes more than a field server, and says so: the whole output comes through, cut only by the agent's own cap.
    let flood = call("shell_exec", json!({ "command": "head -c 900000 /dev/zero | tr '\\0' x" })).await;
    assert_eq!(flood["result"]["stdout"].as_str().map(str::len), Some(900_000), "{}", &flood.to_string()[..200]);

    let snapshot = format!("{path}/snapshot");
    until_within(COLLECTING, &hub, &snapshot, |s| s.to_string().contains("remote control is on")).await;
    endpoint.switch().set(RemoteControl::Disabled).expect("set");
    let refused = call("shell_exec", json!({ "command": "true" })).await;
    assert_eq!(refused["error"]["code"], "disabled", "{refused}");
    let shown = until(&hub, &path, |a| a["remote_control"] == false).await;
    assert_eq!(shown["online"], true);
    agent.stop().await;
    until(&hub, &path, |a| a["online"] == false).await;
    hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_enrolment_brings_tools_and_probes() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(dir.path(), &[]).await;
    let endpoint = Endpoint::of(&hub.http, &hub.hub.key.verifying_key());
    let key = endpoint.state.key().expect("a key").verifying_key();
    assert_eq!(hub.hub.adopt(&PeerId::kenny(ID).expect("an id"), key).await.expect("stored"), Adopted::Yes);
    let agent = endpoint.run();
    let has_probes = |shown: &Value| shown["agents"][0]["probes"].to_string().contains("system.disk.usage");
    let capable = until(&hub, "/api/v1/capabilities", has_probes).await;
    assert!(capable["agents"][0]["runbookCategories"].to_string().contains("system"), "{capable}");

    let probe = |probe: &str, params: Value| {
        let (body, hub) = (json!({ "agent": ID, "probe": probe, "params": params }), &hub);
        async move { ask(hub, "POST", "/api/v1/probe", body).await }
    };
    let disk = probe("system.disk.usage", json!({})).await;
    assert_eq!((&disk["status"], &disk["metadata"]["capabilityLevel"]), (&json!("success"), &json!("observe")));
    let wrong = probe("system.logs.tail", json!({ "paths": "x" })).await;
    assert!(wrong["error"].as_str().is_some_and(|why| why.contains("system.logs.tail")), "{wrong}");
    let secret = probe("system.logs.tail", json!({ "path": "/etc/shadow" })).await;
    assert!(secret.to_string().contains("path_shadow"), "{secret}");
    let gone = probe("system.gone", json!({})).await;
    assert_eq!(gone["status"], "error", "{gone}");

    let call = |tool: &str, args: Value| {
        let (body, hub) = (json!({ "tool": tool, "args": args }), &hub);
        async move { ask(hub, "POST", &format!("/api/agents/{ID}/call"), body).await }
    };
    assert_eq!(call("system.memory.usage", json!({})).await["result"]["status"], "success");
    for wrapped in ["probe_run", "probe_list"] {
        let refused = call(wrapped, json!({ "probe": "system.memory.usage" })).await;
        assert_eq!(refused["error"]["code"], "bad_request", "{refused}");
    }
    let checked = ask(&hub, "POST", "/api/v1/health-check", json!({})).await;
    assert_eq!(checked["meta"]["agents"], json!([ID]), "{checked}");
    assert!(checked["summary"]["probesSucceeded"].as_u64().is_some_and(|count| count > 0), "{checked}");

    let records = ask(&hub, "GET", "/api/journal?kind=call&limit=1000", Value::Null).await;
    let records = records["records"].as_array().expect("a list");
    let of = |tool: &str| records.iter().find(|record| record["tool"] == tool).cloned().unwrap_or_default();
    assert_eq!((&of("system.disk.usage")["outcome"], &of("system.disk.usage")["target"]), (&json!("ok"), &json!(ID)));
    assert_eq!(of("system.logs.tail")["decision"], "blocked");
    assert_eq!(of("probe_run"), Value::Null, "the journal knows the probe itself");
    agent.stop().await;
    hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hubs_own_agent_needs_no_token_and_a_revocation_stands() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(dir.path(), &[]).await;
    let id = PeerId::kenny(ID).expect("an id");
    let endpoint = Endpoint::of(&hub.http, &hub.hub.key.verifying_key());
    let key = endpoint.state.key().expect("a key").verifying_key();
    assert_eq!(hub.hub.adopt(&id, key).await.expect("stored"), Adopted::Yes);
    assert_eq!(hub.hub.adopt(&id, key).await.expect("stored"), Adopted::Yes, "and again");
    let agent = endpoint.run();
    let path = format!("/api/agents/{ID}");
    until(&hub, &path, |a| a["online"] == true).await;
    let other = ed25519_dalek::SigningKey::from_bytes(&[9; 32]).verifying_key();
    assert_eq!(hub.hub.adopt(&id, other).await.expect("stored"), Adopted::Taken);
    ask(&hub, "POST", &format!("{path}/revoke"), json!({})).await;
    until(&hub, &path, |a| a["online"] == false).await;
    assert_eq!(hub.hub.adopt(&id, key).await.expect("stored"), Adopted::Revoked);
    agent.stop().await;
    let records = ask(&hub, "GET", "/api/journal?kind=enrol", Value::Null).await;
    assert!(records["records"].to_string().contains("local agent's key bound"), "{records}");
    hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_hub_is_trusted_by_its_authority_and_by_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).expect("a certificate");
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&cert, certified.cert.pem()).expect("written");
    std::fs::write(&key, certified.signing_key.serialize_pem()).expect("written");
    let tls = [("tls.cert", cert.to_str().expect("UTF-8")), ("tls.key", key.to_str().expect("UTF-8"))];
    let hub = start(&dir.path().join("data"), &tls).await;
    let address = HubAddress::parse(&format!("https://{}", hub.hub.listen)).expect("an address");
    let endpoint = Endpoint::of(&address.to_string(), &hub.hub.key.verifying_key());
    let token = SecretText::new("cve_wrong");
    let plain = Identity { hub: address, ..identity(&hub) };
    let stranger = enrol(&endpoint.state, &plain, &token).await.expect_err("not trusted");
    assert!(matches!(&stranger, EnrolError::Unreachable(_)) && stranger.to_string().contains("TLS"), "{stranger}");
    let trusted = Identity { ca: Some(cert), ..plain };
    let heard = enrol(&endpoint.state, &trusted, &token).await.expect_err("the token is wrong, the connection good");
    assert!(matches!(heard, EnrolError::BadToken(_)), "{heard}");
    hub.stop().await.expect("stops");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_agents_with_one_key_take_turns_and_say_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let hub = start(dir.path(), &[]).await;
    let (first, second) = (
        Endpoint::of(&hub.http, &hub.hub.key.verifying_key()),
        Endpoint::of(&hub.http, &hub.hub.key.verifying_key()),
    );
    std::fs::copy(first.state.path().join("convoke-agent.key"), second.state.path().join("convoke-agent.key"))
        .expect("copied, as with the image of a disk");
    let id = PeerId::kenny(ID).expect("an id");
    assert_eq!(
        hub.hub.adopt(&id, first.state.key().expect("a key").verifying_key()).await.expect("stored"),
        Adopted::Yes
    );
    let (one, other) = (first.run(), second.run());
    let problem = |endpoint: &Endpoint| {
        convoke_endpoint::status::Status::read(&endpoint.state).ok().flatten().and_then(|status| status.problem)
    };
    soon("both have been pushed out", async {
        let (mut of_first, mut of_second) = (None, None);
        while of_first.is_none() || of_second.is_none() {
            of_first = of_first.or_else(|| problem(&first));
            of_second = of_second.or_else(|| problem(&second));
            tokio::task::yield_now().await;
        }
        for why in [of_first, of_second].into_iter().flatten() {
            assert!(why.contains("another agent has connected with this one's id and key"), "{why}");
        }
    })
    .await;
    one.stop().await;
    // The other one has the place for itself now, and serves.
    let path = format!("/api/agents/{ID}");
    soon("a call is answered", async {
        let call = json!({ "tool": "shell_exec", "args": { "command": "echo here" } });
        while ask(&hub, "POST", &format!("{path}/call"), call.clone()).await["result"]["stdout"] != "here\n" {}
    })
    .await;
    other.stop().await;
    hub.stop().await.expect("stops");
}
