//! Listings that do not fit: what is shown is counted, and nothing is passed over.

use convoke_core::id::PeerId;
use serde_json::{Value, json};

use super::client::Mcp;
use crate::support::{TOKEN, TestHub};

const MANY: usize = 120;

async fn hub() -> TestHub {
    let hub = TestHub::with(&[("mcp.max_result_bytes", "4096")]).await;
    for n in 0..MANY {
        hub.hub().agents.find_or_add(&PeerId::kenny(&format!("pc-{n:03}")).expect("an id"));
    }
    hub
}

fn field(list: &Value, key: &str) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|entry| entry[key].as_str().expect("a text").to_owned()).collect()
}

fn seqs(records: &Value) -> Vec<u64> {
    records.as_array().expect("a list").iter().map(|r| r["seq"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn who_follows_next_sees_every_machine_once() {
    let hub = hub().await;
    let client = Mcp::stateless(&hub, TOKEN);
    for (tool, key) in [("list_agents", "id"), ("fleet_overview", "agent_id")] {
        let (mut seen, mut args) = (Vec::new(), json!({}));
        loop {
            let page = client.call(tool, args.clone()).await;
            let (shown, text) = (page.structured(), page.text());
            let ids = field(&shown["agents"], key);
            assert!(text.contains(&format!("{} machines", ids.len())), "{text}");
            assert_eq!(shown["truncated"] == true, shown["next"].is_string());
            seen.extend(ids);
            match shown.get("next") {
                Some(next) => args = json!({ "after": next }),
                None => break,
            }
        }
        let all: Vec<_> = (0..MANY).map(|n| format!("pc-{n:03}")).collect();
        assert_eq!(seen, all, "{tool}");
    }
    let read = client.ask("resources/read", json!({ "uri": "convoke://fleet" })).await;
    let text = read.result()["contents"][0]["text"].as_str().expect("a text").to_owned();
    let fleet: Value = serde_json::from_str(&text).expect("JSON");
    let ids = field(&fleet["agents"], "agent_id");
    assert!(ids.len() > 10 && fleet["truncated"] == true, "{fleet}");
    assert_eq!(ids.last().map(String::as_str), fleet["next"].as_str());
}

#[tokio::test]
async fn who_follows_next_sees_every_record_once_and_the_newest_are_the_newest() {
    let hub = hub().await;
    for n in 0..60 {
        hub.token(&format!("token-{n}"), "viewer", json!({})).await;
    }
    let client = Mcp::stateless(&hub, TOKEN);
    let all = seqs(&json!(hub.journal("").await));
    let (mut seen, mut after) = (Vec::new(), 0);
    loop {
        let page = client.call("journal_search", json!({ "after": after, "limit": 200 })).await;
        let shown = page.structured();
        let some = seqs(&shown["records"]);
        assert!(page.text().starts_with(&format!("{} records.", some.len())), "{}", page.text());
        seen.extend(some);
        match shown["next"].as_u64() {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!(seen, all);

    let newest = client.call("journal_search", json!({ "newest": true, "limit": 200 })).await;
    let some = seqs(&newest.structured()["records"]);
    assert_eq!(some, all[all.len() - some.len()..], "the latest of them");
    assert!(some.len() < all.len() && newest.structured()["truncated"] == true);
    let audit = client.call("query_logs", json!({ "source": "audit", "params": { "limit": 200 } })).await;
    let shown = audit.structured();
    assert_eq!(shown["count"].as_u64(), shown["entries"].as_array().map(|e| e.len() as u64));

    let (mut seen, mut uri) = (Vec::new(), "convoke://journal".to_owned());
    loop {
        let read = client.ask("resources/read", json!({ "uri": uri })).await;
        let text = read.result()["contents"][0]["text"].as_str().expect("a text").to_owned();
        let page: Value = serde_json::from_str(&text).expect("JSON");
        seen.extend(seqs(&page["records"]));
        match page["next"].as_u64() {
            Some(next) => uri = format!("convoke://journal/{next}"),
            None => break,
        }
    }
    assert_eq!(seen, all, "as a resource, too");
}
