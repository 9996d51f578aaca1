//! The log of numbers: off by default, sums of what is on.

use convoke_models::testkit::Reply;
use serde_json::json;

use crate::world::World;

#[test]
fn sums_are_told_for_what_is_on() {
    let world = World::new();
    world.config(&json!({ "logging": { "enabled": true, "tokens": true, "tools": true, "performance": true } }));
    let mut client = world.client_with(&[("KWARD_LOGGING_PERFORMANCE", "off")]);
    let session = world.session(&mut client);
    world.says(&Reply::text("").and_call("c1", "list_directory", &json!({ "path": "." })).and_usage(10, 4, 2, 0));
    world.says(&Reply::text("done").and_usage(20, 0, 3, 0));
    client.run(&session, "something only I said");
    let stats = client.call("logging/stats", json!({ "range": "1 day" }));
    assert_eq!(stats["enabledCategories"], json!(["tokens", "tools"]));
    assert_eq!((&stats["range"]["unit"], &stats["range"]["count"]), (&json!("day"), &json!(1)));
    assert_eq!(stats["recordsByCategory"], json!({ "tokens": 2, "tools": 1 }));
    assert_eq!(stats["usageStats"]["totals"]["input_tokens"], 30);
    assert_eq!(stats["usageStats"]["modelUsageEvents"], 2);
    assert_eq!((&stats["tools"]["calls"], &stats["tools"]["byName"]), (&json!(1), &json!({ "list_directory": 1 })));
    let csv = client.call("logging/tokenCsv", json!({ "range": "1 day", "bucket": "month" }))["csv"]
        .as_str()
        .unwrap()
        .to_owned();
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(
        rows[0],
        "bucket_start,bucket_end,provider,model,events,input_tokens,output_tokens,cache_read_tokens,cache_write_tokens,total_tokens"
    );
    assert!(rows.len() == 2 && rows[1].ends_with(",Local,test-model,2,30,5,4,0,35"), "{csv}");
    for range in ["soon", "0 days", "1 fortnight"] {
        let error = client.refused("logging/stats", json!({ "range": range }));
        assert_eq!(
            (&error["code"], &error["message"]),
            (&json!(-32602), &json!("Usage: /stats [N minutes|hours|days|weeks|months|years] (default: 1 week)"))
        );
    }
    client.finish();
    // Numbers only: what was said stands in no log.
    for entry in std::fs::read_dir(world.config_dir().join("logs")).unwrap().flatten() {
        assert!(
            !std::fs::read_to_string(entry.path()).unwrap().contains("something only"),
            "{}",
            entry.path().display()
        );
    }
}

#[test]
fn a_log_of_kwards_is_counted_too() {
    let world = World::new();
    world.config(&json!({ "logging": { "enabled": true, "errors": true } }));
    let record = json!({
        "error_class": "Kward::ProviderError", "provider": "OpenRouter", "error_code": 429,
        "error_message": "OpenRouter request failed: 429", "timestamp": "2026-03-04T05:06:07.000Z",
        "category": "errors", "event": "model_request",
    });
    world.file("home/.kward/logs/2026-03-04.jsonl", &format!("{record}\n"));
    let mut client = world.client();
    let errors = client.call("logging/stats", json!({ "range": "100 years" }))["errors"].clone();
    assert_eq!((&errors["count"], &errors["byCode"]), (&json!(1), &json!({ "429": 1 })));
    assert_eq!(errors["byProvider"], json!({ "OpenRouter": 1 }));
    client.finish();
}
