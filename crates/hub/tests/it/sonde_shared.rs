//! One probe that many ask for at once, each with a time of its own.

use serde_json::json;

use crate::sonde::enrolled;
use crate::support::TestHub;

#[tokio::test]
async fn who_waits_longer_is_not_given_up_with_whoever_asked_first() {
    let hub = TestHub::start().await;
    let mut agent = enrolled(&hub, "a").await;
    let question = |timeout: u64| json!({ "agent": "a", "probe": "system.cpu.usage", "timeout": timeout });
    let (short, (first, second, long)) = tokio::join!(hub.post("/api/v1/probe", question(400)), async {
        let first = agent.request().await;
        let (long, second) = tokio::join!(hub.post("/api/v1/probe", question(20_000)), async {
            let second = agent.request().await;
            agent.answer(&second, json!({ "usage": 1 })).await;
            second
        });
        (first, second, long)
    });
    let words = short.body.to_string();
    let id = |request: &serde_json::Value| request["payload"]["requestId"].as_str().expect("an id").to_owned();
    assert!(words.contains("did not answer in time") && words.contains(&id(&first)), "{short:?}");
    assert_eq!((long.status, &long.body["data"]), (200, &json!({ "usage": 1 })), "{long:?}");
    assert_eq!(first["payload"]["timeout"], 400);
    let left = second["payload"]["timeout"].as_u64().expect("a number");
    assert!(left <= 20_000, "{left}");
    let records = hub.journal("kind=call").await;
    let told: Vec<_> = records.iter().map(|r| (r["call_id"].as_str().unwrap_or_default(), &r["outcome"])).collect();
    assert_eq!(told, [(&*id(&first), &json!("timeout")), (&*id(&second), &json!("ok"))]);
}
