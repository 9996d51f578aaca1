//! A hub killed under load starts again with everything it acknowledged.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoke_api::Client;
use convoke_core::secret::SecretText;
use serde_json::{Value, json};

use crate::support::{Agent, Hub};

/// Callers at once.
const CALLERS: usize = 8;
/// Calls that must have been answered before the hub is killed.
const ENOUGH: usize = 200;

/// Calls until the hub is gone; every call that was answered is noted first.
async fn call_until_gone(client: Client, answered: Arc<std::sync::Mutex<BTreeSet<String>>>, enough: Arc<AtomicBool>) {
    let body = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    while let Ok(reply) = client.post::<_, Value>("/api/agents/pc-1/call", &body).await {
        let mut all = answered.lock().expect("no caller panics");
        all.insert(reply["call_id"].as_str().expect("an id").to_owned());
        enough.store(all.len() >= ENOUGH, Ordering::Release);
    }
}

#[test]
fn a_hub_killed_under_load_keeps_every_call_it_answered() {
    let mut hub = Hub::start();
    let agent = Agent::join(&hub, "pc-1");
    let token = hub.ready["operator_token"].as_str().expect("the first token").to_owned();
    hub.run(&["policy", "confirm", "add", "--id", "ask", "--doors", "cli", "--effects", "manage"]).ok();
    hub.run(&["call", "pc-1", "shell_exec", "--args", r#"{"command":"id"}"#]).code(3);
    hub.run(&["policy", "confirm", "remove", "ask"]).ok();
    hub.run(&["enroll-token", "pc-2"]).ok();

    let (answered, enough) = (Arc::default(), Arc::new(AtomicBool::new(false)));
    let callers = std::thread::spawn({
        let (http, answered, enough) = (hub.http().to_owned(), Arc::clone(&answered), Arc::clone(&enough));
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let client = Client::new(&http, SecretText::new(token)).expect("a client");
                let calls =
                    (0..CALLERS).map(|_| call_until_gone(client.clone(), Arc::clone(&answered), Arc::clone(&enough)));
                futures_util::future::join_all(calls).await;
            });
        }
    });
    while !enough.load(Ordering::Acquire) {
        agent.asked();
    }
    hub.server.signal("KILL");
    assert!(!hub.server.end().success());
    callers.join().expect("the callers end with the hub");
    drop(agent);

    let hub = hub.restart_killed();
    hub.run(&["audit", "verify"]).ok();
    let records = hub.run(&["audit", "list", "--kind", "call", "--json"]).ok().json();
    let of_phase = |phase: &str| -> BTreeSet<String> {
        let all = records["records"].as_array().expect("a list").iter();
        all.filter(|r| r["phase"] == phase).map(|r| r["call_id"].as_str().expect("an id").to_owned()).collect()
    };
    let (intents, outcomes) = (of_phase("intent"), of_phase("outcome"));
    let answered = answered.lock().expect("no caller panicked");
    assert!(answered.len() >= ENOUGH);
    assert!(answered.is_subset(&outcomes), "every call that was answered is in the journal");
    assert_eq!(intents, outcomes, "and every intent has found its outcome, if only `interrupted`");

    let agents = hub.run(&["agents", "list", "--json"]).ok().stdout;
    assert!(agents.contains("pc-1") && agents.contains("pc-2") && agents.contains("trusted"));
    hub.run(&["approvals", "list"]).ok().says("shell_exec");
}
