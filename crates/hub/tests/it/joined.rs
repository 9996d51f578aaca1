//! Two tunnels of one machine: joined by a proof or by an admin, never by name, and one machine from then on.

use serde_json::{Value, json};

use crate::sonde::{Joined, enrolled, field_register, join, key, probe, token_for};
use crate::support::{TestHub, key_of};

/// The Sonde agent comes back with its key, and with a proof by this key that it is this machine.
async fn back(hub: &TestHub, agent: Joined, name: &str, proof: Option<(&str, &str)>) -> Joined {
    let mut register = field_register(name);
    if let Some((machine, key)) = proof {
        let signature = convoke_kenny::joined::sign(&key_of(key), machine, &agent.id);
        register["machine"] = json!({ "id": machine, "signature": signature });
    }
    let api_key = key(&agent);
    let Joined { ack, .. } = agent;
    let mut again = join(hub, &api_key, &register).await;
    again.ack = ack;
    again
}

async fn ids(hub: &TestHub, token: Option<&str>) -> Vec<String> {
    let list = hub.request("GET", "/api/agents", token.or(Some(crate::support::TOKEN)), None).await.body;
    let list = list["agents"].as_array().unwrap_or_else(|| panic!("{list}")).clone();
    list.iter().map(|agent| agent["id"].as_str().expect("an id").to_owned()).collect()
}

/// What the probe of the machine answers, when the Sonde agent serves it.
async fn served(hub: &TestHub, agent: &mut Joined, text: &str) -> Value {
    let asked = probe(hub, text, "system.disk.usage", json!({}));
    let serve = async {
        let request = agent.request().await;
        agent.answer(&request, json!({ "filesystems": [] })).await;
    };
    tokio::join!(asked, serve).0.body
}

#[tokio::test]
async fn a_machine_that_proves_its_second_tunnel_is_one() {
    let mut hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let machine = hub.agent("pc").await;
    let agent = enrolled(&hub, "web-1").await;
    let tunnel = format!("sonde:{}", agent.id);
    // Another key, another machine's name: no proof. Nor is a name one.
    let agent = back(&hub, agent, "web-1", Some(("pc", "another key"))).await;
    let agent = back(&hub, agent, "web-1", Some(("pc-2", "pc"))).await;
    assert_eq!(ids(&hub, None).await, ["pc", &tunnel]);
    let mut agent = back(&hub, agent, "web-1", Some(("pc", "pc"))).await;
    assert_eq!(ids(&hub, None).await, ["pc"]);
    let bare = agent.id.clone();
    for text in ["pc", "web-1", &tunnel, &bare] {
        let shown = hub.get(&format!("/api/agents/{text}")).await.body;
        assert_eq!((&shown["id"], &shown["tunnels"][0]["id"]), (&json!("pc"), &json!(tunnel)), "{text}");
        assert_eq!(served(&hub, &mut agent, text).await["status"], "success", "{text}");
    }
    let records = hub.journal("kind=call").await;
    assert!(records.iter().all(|record| record["target"] == "pc"), "{records:?}");
    assert_eq!(hub.get("/api/v1/agents").await.body["agents"].as_array().map(Vec::len), Some(1));
    // Without its first tunnel it is still there, for probes.
    drop(machine);
    hub.until("/api/agents/pc", |shown| shown["liveness"] == "offline").await;
    assert_eq!(hub.get("/api/agents/pc").await.body["online"], true);
    assert_eq!(served(&hub, &mut agent, "pc").await["status"], "success");
    let call = hub.post("/api/agents/pc/call", json!({ "tool": "net_config", "args": {} })).await;
    assert_eq!(call.body["error"]["code"], "offline", "{call:?}");
    hub.restart(&[("sonde.cache_s", "0")]).await;
    assert_eq!(ids(&hub, None).await, ["pc"], "it is kept");
    let mut agent = back(&hub, agent, "web-1", None).await;
    // Revoking the machine revokes both.
    assert_eq!(hub.post("/api/agents/web-1/revoke", json!({})).await.status, 200);
    assert_eq!(agent.socket.next().await, Err(Some(4001)));
    let reply = probe(&hub, "pc", "system.disk.usage", json!({})).await;
    assert_ne!(reply.body["status"], "success", "{reply:?}");
    // Who is enrolled again is another one, until it is proved anew.
    let _again = join(&hub, &token_for(&hub, "web-1").await, &field_register("web-1")).await;
    assert_eq!(ids(&hub, None).await, ["pc", &tunnel]);
    assert_eq!(hub.get("/api/agents/pc").await.body["trust"], "revoked");
}

#[tokio::test]
async fn an_admin_joins_and_splits_and_scopes_hold_for_both() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let _machine = hub.agent("pc").await;
    let agent = enrolled(&hub, "web-1").await;
    let tunnel = format!("sonde:{}", agent.id);
    let of_machine = hub.token("m", "operator", json!({ "agents": ["pc"] })).await;
    let of_tunnel = hub.token("t", "operator", json!({ "agents": [tunnel] })).await;
    assert_eq!(hub.post("/api/agents/web-1/join", json!({ "tunnel": "pc" })).await.status, 400);
    let joined = hub.post("/api/agents/pc/join", json!({ "tunnel": "web-1" })).await;
    assert_eq!((joined.status, &joined.body["tunnels"][0]["how"]), (200, &json!("admin")), "{joined:?}");
    assert_eq!(
        hub.post("/api/agents/pc/join", json!({ "tunnel": tunnel })).await.status,
        400,
        "it is the machine now"
    );
    // Who reaches the machine probes it; who reaches only the other agent sees that, and gets no tool by it.
    let mut agent = back(&hub, agent, "web-1", None).await;
    assert_eq!(
        (ids(&hub, Some(&of_machine)).await, ids(&hub, Some(&of_tunnel)).await),
        (vec!["pc".into()], vec![tunnel.clone()])
    );
    let path = "/api/agents/web-1/call";
    let tool = json!({ "tool": "net_config", "args": {} });
    assert_eq!(hub.post_as(&of_tunnel, path, tool).await.status, 400);
    let probe = json!({ "tool": "system.disk.usage", "args": {} });
    let serve = async {
        let request = agent.request().await;
        agent.answer(&request, json!({ "filesystems": [] })).await;
    };
    let (reply, ()) = tokio::join!(hub.post_as(&of_machine, "/api/agents/pc/call", probe), serve);
    assert_eq!(reply.body["ok"], true, "{reply:?}");
    // Split by an admin, and no proof joins them again.
    assert_eq!(hub.post("/api/agents/web-1/split", json!({})).await.status, 200);
    assert_eq!(hub.post("/api/agents/pc/split", json!({})).await.status, 409);
    let _agent = back(&hub, agent, "web-1", Some(("pc", "pc"))).await;
    assert_eq!(ids(&hub, None).await, ["pc", &tunnel]);
    let what: Vec<_> =
        hub.journal("kind=trust").await.iter().map(|record| record["detail"]["what"].clone()).collect();
    assert!(what.contains(&json!("joined")) && what.contains(&json!("split")), "{what:?}");
}
