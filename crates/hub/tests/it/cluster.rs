//! Several hubs on one PostgreSQL and one NATS.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use convoke_core::journal::Expected;
use convoke_store::{Data, audit};
use convoke_testing::nats::Nats;
use convoke_testing::postgres::Postgres;
use serde_json::{Value, json};

use crate::support::{PATIENCE, TestHub, key_of};

static SERVERS: OnceLock<Option<(Postgres, Nats)>> = OnceLock::new();
static COUNT: AtomicU32 = AtomicU32::new(0);

/// A database, and the bus of its hubs.
pub(crate) struct Cluster {
    url: String,
    bus: String,
    key: [u8; 32],
}

impl Cluster {
    /// None where PostgreSQL or NATS is not installed.
    pub(crate) fn new() -> Option<Self> {
        let servers = SERVERS.get_or_init(|| Postgres::start().zip(Nats::start()));
        let Some((postgres, nats)) = servers else {
            convoke_testing::skip("PostgreSQL or nats-server is not installed: `cargo xtask setup`");
            return None;
        };
        let url = postgres.database(&format!("cluster{}", COUNT.fetch_add(1, Ordering::Relaxed)));
        Some(Self { url, bus: nats.url(), key: [7; 32] })
    }

    /// Another hub.
    pub(crate) async fn hub(&self, name: &str) -> TestHub {
        self.hub_with(name, &[]).await
    }

    pub(crate) async fn hub_with(&self, name: &str, settings: &[(&str, &str)]) -> TestHub {
        let own = [("store.url", &*self.url), ("bus.url", &*self.bus), ("hub.name", name), ("hub.lease_s", "5")];
        TestHub::with_key(&[&own, settings].concat(), self.key).await
    }

    /// Every chain holds. The hubs have stopped.
    pub(crate) async fn verify(&self, hub: &TestHub) {
        let data = Data { dir: hub.data().to_owned(), server: Some(self.url.parse().expect("an address")) };
        let verdicts = tokio::task::spawn_blocking(move || audit::verify_all(data, &Expected::default()));
        for (hub, verdict) in verdicts.await.expect("no panic").expect("reads") {
            assert!(verdict.is_good(), "{hub}: {verdict:?}");
        }
    }
}

async fn call(hub: &TestHub, agent: &str, tool: &str, args: Value) -> Value {
    let reply = hub.post(&format!("/api/agents/{agent}/call"), json!({ "tool": tool, "args": args })).await;
    reply.body
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_reaches_an_agent_that_is_connected_to_another_hub() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let hubs = a.get("/api/hubs").await.body["hubs"].clone();
    let names: Vec<_> = hubs.as_array().expect("a list").iter().map(|hub| hub["name"].as_str()).collect();
    assert_eq!(names, [Some("a"), Some("b")], "{hubs}");

    // Enrolled at one, connected to the other at once.
    let key = a.enrol("pc").await;
    let agent = b.connect("pc", key).await.echo();
    a.until_online("pc", true).await;
    let answer = call(&a, "pc", "fs_list", json!({ "path": "/tmp" })).await;
    assert_eq!(answer["result"]["echo"]["path"], "/tmp", "{answer}");
    let answer = call(&b, "pc", "fs_list", json!({ "path": "/tmp" })).await;
    assert_eq!(answer["result"]["echo"]["path"], "/tmp", "{answer}");

    agent.abort();
    let _ = agent.await;
    a.until_online("pc", false).await;
    let answer = call(&a, "pc", "fs_list", json!({ "path": "/tmp" })).await;
    assert_eq!(answer["error"]["code"], "offline", "{answer}");
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_link_stands_wherever_it_connected() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let key = a.enrol("pc").await;
    let mut first = a.connect("pc", key.clone()).await;
    b.until_online("pc", true).await;
    let second = b.connect("pc", key).await.echo();
    let closed = tokio::time::timeout(PATIENCE, first.socket.closed()).await.expect("the older one is closed");
    assert_eq!(closed, Some(convoke_kenny::close::REPLACED.code));
    a.until("/api/agents/pc", |agent| agent["online"] == true).await;
    let answer = call(&a, "pc", "fs_list", json!({ "path": "/x" })).await;
    assert_eq!(answer["result"]["echo"]["path"], "/x", "{answer}");
    second.abort();
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_hub_withdraws_is_in_force_at_the_other_when_it_is_answered() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let token = a.token("ci", "operator", json!({})).await;
    let get = async |hub: &TestHub| hub.request("GET", "/api/agents", Some(&token), None).await.status;
    assert_eq!(get(&b).await, 200, "a token that was minted elsewhere");
    let tokens = a.get("/api/tokens").await.body;
    let mine = tokens["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == "ci").expect("there");
    let id = mine["id"].as_str().expect("an id");
    let revoked = a.request("DELETE", &format!("/api/tokens/{id}"), Some(crate::support::TOKEN), None).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    assert_eq!(get(&b).await, 401);

    let rule = json!({ "id": "no-x", "applies_to": "posix", "pattern": "xyzzy", "reason": "because" });
    assert_eq!(a.post("/api/policy/rules", rule).await.status, 200);
    let rules = b.get("/api/policy/rules").await.body;
    assert_eq!(rules["operator"][0]["id"], "no-x", "{rules}");

    let key = a.enrol("pc").await;
    let mut agent = b.connect("pc", key).await;
    assert_eq!(a.post("/api/agents/pc/revoke", json!({})).await.status, 200);
    assert_eq!(agent.socket.closed().await, Some(convoke_kenny::close::REVOKED.code));
    assert!(crate::support::TestAgent::open(&b, "pc", key_of("pc")).await.handshake().await.is_err());
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_approved_at_another_hub_and_its_asker_told() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(a.post("/api/policy/confirm", rule).await.status, 200);
    let asker = a.token("asker", "operator", json!({})).await;
    let key = a.enrol("pc").await;
    let mut agent = a.connect("pc", key).await;
    b.until_online("pc", true).await;
    let shell = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    let asked = a.post_as(&asker, "/api/agents/pc/call", shell).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let approval = asked.body["approval"]["id"].as_str().expect("an id").to_owned();
    let call = asked.body["call_id"].as_str().expect("an id").to_owned();
    let path = format!("/api/calls/{call}?wait_s=20");
    let decided = b.post(&format!("/api/approvals/{approval}"), json!({ "approve": true })).await;
    assert_eq!(decided.status, 200, "{decided:?}");
    let request = agent.request().await;
    let (at_a, at_b, ()) = tokio::join!(
        a.request("GET", &path, Some(&asker), None),
        b.request("GET", &path, Some(&asker), None),
        agent.answer(&request.id, json!({ "exit_code": 0 })),
    );
    for told in [at_a, at_b] {
        assert_eq!((&told.body["state"], &told.body["result"]["exit_code"]), (&json!("done"), &json!(0)), "{told:?}");
    }
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_calls_and_answers_go_from_hub_to_hub() {
    let Some(cluster) = Cluster::new() else { return };
    let body = [("hub.max_body_bytes", "8388608")];
    let (mut a, mut b) = (cluster.hub_with("a", &body).await, cluster.hub_with("b", &body).await);
    let key = a.enrol("pc").await;
    let agent = b.connect("pc", key).await.echo();
    a.until_online("pc", true).await;
    let large = "x".repeat(3_000_000);
    let answer = call(&a, "pc", "fs_list", json!({ "path": large })).await;
    assert_eq!(answer["result"]["echo"]["path"].as_str().map(str::len), Some(3_000_000), "{}", answer["error"]);
    agent.abort();
    a.stop().await;
    b.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_and_messages_reach_who_is_at_another_hub() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let token = crate::sonde::token(&a).await;
    let mut joined = crate::sonde::join(&b, &token, &crate::sonde::contract_register("box")).await;
    a.until("/api/v1/agents", |body| body.to_string().contains("\"box\"")).await;
    let id = format!("sonde:{}", joined.id);
    a.until_online(&id, true).await;
    let asking = a.post("/api/v1/probe", json!({ "agent": "box", "probe": "system.disk.usage" }));
    let answering = async {
        let request = joined.request().await;
        joined.answer(&request, json!({ "disks": [] })).await;
        std::future::pending::<()>().await;
    };
    let reply = tokio::select! {
        reply = asking => reply,
        () = answering => unreachable!("it goes on"),
    };
    assert_eq!((reply.status, &reply.body["data"]["disks"]), (200, &json!([])), "{reply:?}");

    // Paired at one hub, it comes to the other.
    let secret = a.pair("client-a").await;
    let mut client = b.enter("client-a", secret).await;
    a.until_client("client-a", "liveness", "online").await;
    let message = json!({ "rule": "chat", "content": "hello", "to": ["client-a"] });
    let sent = a.post("/api/messages", message.clone()).await;
    assert_eq!((sent.status, &sent.body["sent"]), (200, &json!(["client-a"])), "{sent:?}");
    assert_eq!(client.text().await, "chat::hello");
    let mut kept = message;
    kept["keep_s"] = 60.into();
    let sent = a.post("/api/messages", kept).await;
    assert_eq!(sent.body["kept"], json!(["client-a"]), "{sent:?}");
    assert_eq!(client.text().await, "chat::hello");
    let revoked = a.post("/api/yonexus/clients/client-a/revoke", json!({})).await;
    assert_eq!(revoked.status, 200, "{revoked:?}");
    while client.socket.next().await.is_ok() {}
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pairing_that_waits_at_one_hub_is_approved_at_another() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    a.allow("client-a").await;
    let mut client = b.client("client-a").await;
    client.hello().await;
    assert_eq!(client.next().await["type"], "hello_ack");
    assert_eq!(client.next().await["type"], "pair_request");
    a.until("/api/yonexus/pairings", |body| body["pairings"].as_array().is_some_and(|all| !all.is_empty())).await;
    let yes = a.post("/api/yonexus/pairings/client-a", json!({ "approve": true })).await;
    assert_eq!(yes.status, 200, "{yes:?}");
    let told = client.next().await;
    assert_eq!(told["type"], "pair_success", "{told}");
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_was_fenced_takes_nothing_says_so_and_starts_anew() {
    let Some(cluster) = Cluster::new() else { return };
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let key = a.enrol("pc").await;
    let agent = a.connect("pc", key.clone()).await.echo();
    b.until_online("pc", true).await;
    // As if it had stood still for longer than its lease: the other one takes it for gone.
    let (postgres, _) = SERVERS.get().and_then(Option::as_ref).expect("they run");
    let name = cluster.url.split(['/', '?']).nth(3).expect("a database");
    let end = "UPDATE hubs SET epoch = epoch + 1, instance = '\\x00', lease_until = 0 WHERE name = 'a'";
    postgres.run(name, end);
    tokio::time::timeout(PATIENCE, a.hub().fenced()).await.expect("it finds out");
    let ready = a.get("/readyz").await;
    assert_eq!(ready.status, 503, "{ready:?}");
    assert!(ready.body["why"].as_str().is_some_and(|why| why.contains("starts anew")), "{ready:?}");
    let list = json!({ "tool": "fs_list", "args": { "path": "/tmp" } });
    let refused = a.post("/api/agents/pc/call", list).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (503, &json!("unavailable")), "{refused:?}");
    a.stop().await;
    agent.abort();
    let mut a = cluster.hub("a").await;
    let agent = a.connect("pc", key).await.echo();
    b.until_online("pc", true).await;
    let answer = call(&b, "pc", "fs_list", json!({ "path": "/x" })).await;
    assert_eq!(answer["result"]["echo"]["path"], "/x", "{answer}");
    agent.abort();
    a.stop().await;
    b.stop().await;
    cluster.verify(&b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_bus_calls_to_other_hubs_are_refused_and_own_ones_go_on() {
    let Some(mut cluster) = Cluster::new() else { return };
    let mut nats = Nats::start().expect("it is installed");
    cluster.bus = nats.url();
    let (mut a, mut b) = (cluster.hub("a").await, cluster.hub("b").await);
    let (near, far) = (a.enrol("near").await, a.enrol("far").await);
    let near = a.connect("near", near).await.echo();
    let far = b.connect("far", far).await.echo();
    a.until_online("far", true).await;
    nats.end();
    a.until("/readyz", |ready| ready["why"].as_str().is_some_and(|why| why.contains("bus.url"))).await;
    let list = json!({ "tool": "fs_list", "args": { "path": "/tmp" } });
    let refused = a.post("/api/agents/far/call", list.clone()).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (503, &json!("unavailable")), "{refused:?}");
    let answered = a.post("/api/agents/near/call", list.clone()).await;
    assert_eq!((answered.status, &answered.body["ok"]), (200, &json!(true)), "{answered:?}");
    nats.restart();
    a.until("/readyz", |ready| ready["status"] == "ready").await;
    b.until("/readyz", |ready| ready["status"] == "ready").await;
    // The server may hear of the other hub's subscriptions a moment later.
    let answered = async { while a.post("/api/agents/far/call", list.clone()).await.body["ok"] != true {} };
    tokio::time::timeout(PATIENCE, answered).await.expect("calls go on");
    near.abort();
    far.abort();
    a.stop().await;
    b.stop().await;
    cluster.verify(&a).await;
}
