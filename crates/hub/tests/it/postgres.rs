//! The hub with its data in PostgreSQL.

use convoke_core::journal::Expected;
use convoke_core::secret::SecretText;
use convoke_store::{Data, audit, backup};
use convoke_testing::postgres::Postgres;
use serde_json::json;

use crate::support::{TOKEN, TestHub, key_of};

fn good(data: impl Into<Data>) {
    for (hub, verdict) in audit::verify_all(data, &Expected::default()).expect("reads") {
        assert!(verdict.is_good(), "{hub}: {verdict:?}");
    }
}

/// Blocking work, where that is allowed.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

/// An agent enrols, answers a call, and a call that a person must agree to runs after the yes.
async fn main_path(hub: &TestHub, agent: &str) {
    let mut machine = hub.agent(agent).await;
    let list = json!({ "tool": "fs_list", "args": { "path": "/" } });
    let path = format!("/api/agents/{agent}/call");
    let answer = async {
        let request = machine.request().await;
        machine.answer(&request.id, json!({ "entries": [] })).await;
    };
    let (reply, ()) = tokio::join!(hub.post(&path, list), answer);
    assert_eq!(reply.body["ok"], true, "{reply:?}");
    let rule = json!({ "id": "all-changes", "effects": ["interact", "manage"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let asker = hub.token(&format!("asker-{agent}"), "operator", json!({})).await;
    let shell = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    let asked = hub.post_as(&asker, &path, shell).await;
    assert_eq!(asked.status, 202, "{asked:?}");
    let approval = asked.body["approval"]["id"].as_str().expect("an id").to_owned();
    let answer = async {
        let request = machine.request().await;
        machine.answer(&request.id, json!({ "stdout": "up", "stderr": "", "exit_code": 0 })).await;
    };
    let yes = format!("/api/approvals/{approval}");
    let (yes, ()) = tokio::join!(hub.post(&yes, json!({ "approve": true })), answer);
    assert_eq!(yes.status, 200, "{yes:?}");
    let call = format!("/api/calls/{}", asked.body["call_id"].as_str().expect("an id"));
    let done = hub.until(&call, |call| call["state"] == "done").await;
    assert_eq!(done["outcome"], "ok", "{done}");
    let phases: Vec<_> =
        hub.journal(&format!("kind=call&agent={agent}")).await.iter().map(|record| record["phase"].clone()).collect();
    assert!(phases.contains(&json!("intent")) && phases.contains(&json!("outcome")), "{phases:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_runs_whole_on_postgresql() {
    let Some(server) = Postgres::start() else {
        convoke_testing::skip("PostgreSQL is not installed: `cargo xtask setup`");
        return;
    };
    let url = server.database("hub");
    let mut hub = TestHub::with(&[("store.url", url.as_str())]).await;
    main_path(&hub, "pc").await;
    hub.restart(&[("store.url", url.as_str())]).await;
    let shown = hub.get("/api/agents/pc").await.body;
    assert_eq!((&shown["trust"], &shown["online"]), (&json!("trusted"), &json!(false)));
    hub.connect("pc", key_of("pc")).await;
    assert!(!hub.data().join("hub.db").exists());

    // The server goes and comes: what it cannot confirm is refused, and the hub goes on by itself.
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'hub'";
    server.run("postgres", end);
    // Unless something else noticed it before.
    let refused = hub.request("PATCH", "/api/agents/pc", Some(TOKEN), Some(json!({ "tags": ["lab"] }))).await;
    assert!(refused.status >= 500 || refused.status == 200, "{refused:?}");
    let again = hub.request("PATCH", "/api/agents/pc", Some(TOKEN), Some(json!({ "tags": ["lab"] }))).await;
    assert_eq!(again.status, 200, "{again:?}");

    // A backup of a server is one of a directory.
    let data = Data { dir: hub.data().to_owned(), server: Some(url.parse().expect("an address")) };
    let elsewhere = tempfile::tempdir().expect("a directory");
    let (file, restored) = (elsewhere.path().join("b"), elsewhere.path().join("restored"));
    let phrase = SecretText::new("correct horse");
    aside({
        let (data, file, restored) = (data.clone(), file.clone(), restored.clone());
        move || {
            backup::create(data, &file, Some(&phrase), None).expect("backs up");
            backup::restore(&file, &restored, Some(&phrase), None, backup::Accept::Proven).expect("restores");
            good(&restored);
        }
    })
    .await;
    hub.stop().await;
    aside(move || good(data)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_data_directory_moves_to_postgresql() {
    let Some(server) = Postgres::start() else {
        convoke_testing::skip("PostgreSQL is not installed: `cargo xtask setup`");
        return;
    };
    let mut hub = TestHub::start().await;
    main_path(&hub, "pc").await;
    let before = hub.journal("").await.len() as u64;
    hub.stop().await;
    let url = server.database("moved");
    let (dir, to) = (hub.data().to_owned(), url.parse().expect("an address"));
    let moved = aside(move || convoke_store::migrate(&dir, &to, "hub", None).expect("moves")).await;
    assert!(moved.records > before && moved.secrets > 2, "{moved:?}");
    let dir = hub.data().to_owned();
    let to = url.parse().expect("an address");
    aside(move || convoke_store::migrate(&dir, &to, "hub", None).expect_err("there is nothing to move any more"))
        .await;
    hub.restart(&[("store.url", url.as_str())]).await;
    hub.connect("pc", key_of("pc")).await;
    main_path(&hub, "pc-2").await;
    let data = Data { dir: hub.data().to_owned(), server: Some(url.parse().expect("an address")) };
    hub.stop().await;
    let rotated = {
        let data = data.clone();
        aside(move || convoke_store::keys::rotate(data, None, None).expect("rotates")).await
    };
    assert!(rotated.values > 2);
    aside(move || good(data)).await;
    hub.restart(&[("store.url", url.as_str())]).await;
    hub.connect("pc", key_of("pc")).await;
    hub.stop().await;
}
