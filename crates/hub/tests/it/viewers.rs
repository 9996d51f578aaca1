//! A viewer sees facts and logs, and no contents elsewhere.

use serde_json::{Value, json};

use crate::sonde::{contract_register, join, token as enrolment_token};
use crate::support::{TestAgent, TestHub, key_of};

async fn call(hub: &TestHub, token: &str, tool: &str, args: Value) -> (u16, Value) {
    let reply = hub.post_as(token, "/api/agents/pc/call", json!({ "tool": tool, "args": args })).await;
    (reply.status, reply.body)
}

#[tokio::test]
async fn a_viewer_reads_files_only_below_the_folders_of_the_setting() {
    let hub = TestHub::with(&[("policy.viewer_paths", r"/var/log,C:\Windows\Logs")]).await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let operator = hub.token("ops", "operator", json!({})).await;
    hub.agent("pc").await.echo();
    for path in
        ["/srv/app/.env", "/var/log/../lib/x", "/var/logs/x", "relative.log", r"C:\Windows\win.ini", "/var/log", ""]
    {
        let (status, body) = call(&hub, &viewer, "fs_read", json!({ "path": path })).await;
        assert_eq!((status, &body["error"]["code"]), (403, &json!("forbidden")), "{path}: {body}");
        assert!(body["error"]["message"].to_string().contains("policy.viewer_paths"), "{body}");
    }
    for args in [json!({}), json!({ "path": ["/var/log/x"] }), json!({ "path": 1 })] {
        assert_ne!(call(&hub, &viewer, "fs_read", args.clone()).await.0, 200, "{args}");
    }
    for path in ["/var/log/syslog", r"c:\windows\logs\cbs\CBS.log"] {
        assert_eq!(call(&hub, &viewer, "fs_read", json!({ "path": path })).await.0, 200, "{path}");
    }
    // Facts, names included, are a viewer's; contents of a screen are not.
    assert_eq!(call(&hub, &viewer, "fs_list", json!({ "path": "/srv/app" })).await.0, 200);
    assert_eq!(call(&hub, &viewer, "screen_capture", json!({})).await.0, 403);
    assert_eq!(call(&hub, &operator, "fs_read", json!({ "path": "/srv/app/notes.txt" })).await.0, 200);
    let records = hub.journal("tool=fs_read").await;
    assert!(records.iter().any(|record| record["who"] == "viewer" && record["decision"] == "denied"), "{records:?}");
}

#[tokio::test]
async fn an_agent_that_heeds_it_is_told_where_a_viewer_may_read() {
    let hub = TestHub::with(&[("policy.viewer_paths", "/var/log")]).await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let operator = hub.token("ops", "operator", json!({})).await;
    drop(hub.agent("pc").await);
    for (features, heeds) in [(r#""features":["below"]"#, true), (r#""features":[]"#, false)] {
        let mut agent = TestAgent::open(&hub, "pc", key_of("pc")).await;
        agent.handshake_with(r#""features":["shell_exec"]"#, features).await.expect("is let in");
        for (token, limited) in [(&viewer, heeds), (&operator, false)] {
            let asked = call(&hub, token, "fs_read", json!({ "path": "/var/log/x" }));
            let (reply, below) = tokio::join!(asked, async {
                let frame = agent.frame().await;
                agent.answer(frame["id"].as_str().expect("an id"), json!({})).await;
                frame.get("below").cloned()
            });
            assert_eq!(reply.0, 200);
            assert_eq!(below, limited.then(|| json!(["/var/log"])), "{features}");
        }
    }
}

#[tokio::test]
async fn probes_of_an_agent_that_cannot_check_paths_are_checked_by_the_hub() {
    let hub = TestHub::with(&[("policy.viewer_paths", "/var/log")]).await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let operator = hub.token("ops", "operator", json!({})).await;
    let mut agent = join(&hub, &enrolment_token(&hub).await, &contract_register("web-1")).await;
    let ask = async |token: &str, probe: &str, params: Value| {
        let body = json!({ "agent": "web-1", "probe": probe, "params": params });
        let reply = hub.post_as(token, "/api/v1/probe", body).await;
        (reply.status, reply.body.to_string())
    };
    for (probe, params) in [
        ("nginx.access.log.tail", json!({ "logPath": "/etc/passwd" })),
        ("system.logs.tail", json!({ "path": "/srv/app/.env" })),
        ("system.logs.tail", json!({ "path": "/var/log/../../srv/x" })),
    ] {
        let (status, body) = ask(&viewer, probe, params.clone()).await;
        assert!(status == 403 || status == 400, "{probe} {params}: {status} {body}");
    }
    for path in ["/etc/shadow", "/srv/web/.ssh/id_rsa"] {
        let (_, body) = ask(&operator, "system.logs.tail", json!({ "path": path })).await;
        assert!(body.contains("path_"), "{path}: {body}");
    }
    let log = ask(&viewer, "system.logs.tail", json!({ "path": "/var/log/syslog" }));
    let (log, ()) = tokio::join!(log, async {
        let request = agent.request().await;
        assert_eq!(request["payload"]["params"]["path"], "/var/log/syslog");
        agent.answer(&request, json!({ "lines": [] })).await;
    });
    assert_eq!(log.0, 200, "{}", log.1);
}
