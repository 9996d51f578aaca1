//! Runbooks on Sonde agents: those that packs bring, and those that look at each of a list.

use serde_json::{Value, json};

use crate::sonde::{Joined, field_register, join, token};
use convoke_core::door::Door;
use convoke_core::secret::TokenHash;
use convoke_gate::calls::{self, Ask, Placed};
use convoke_gate::operators::Caller;
use serde_json::value::RawValue;

use crate::support::{TOKEN, TestHub};

fn with_own_pack(name: &str, category: &str) -> Value {
    let mut register = field_register(name);
    register["packs"] = json!([{ "name": "system", "version": "0.2.0", "status": "active" },
        { "name": "queue", "version": "1.0.0", "status": "active" }]);
    let probe = |name: &str| json!({ "name": name, "description": "d", "capability": "observe" });
    register["manifests"] = json!([{ "name": "queue", "version": "1.0.0", "description": "Our queues",
        "probes": [probe("depth"), probe("age"), probe("other")],
        "runbook": { "category": category, "probes": ["depth", "age"] } }]);
    register
}

#[tokio::test]
async fn a_runbook_that_a_pack_brings_is_offered_and_run_on_the_agent_that_brings_it() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut web = join(&hub, &token(&hub).await, &with_own_pack("web-1", "queues")).await;
    let sly = join(&hub, &token(&hub).await, &with_own_pack("sly", "system")).await;
    let listed = hub.get("/api/v1/runbooks").await.body;
    let of = |category: &str| {
        let all = listed["runbooks"].as_array().expect("a list").iter();
        all.filter(|r| r["category"] == category).map(|r| r["from"].clone()).collect::<Vec<_>>()
    };
    assert_eq!((of("queues"), of("system")), (vec![json!("pack queue")], vec![json!("built in")]));
    let capabilities = hub.get("/api/v1/capabilities").await.body;
    assert_eq!(capabilities["agents"][1]["runbookCategories"], json!(["system", "queues"]), "{capabilities}");
    assert_eq!(capabilities["agents"][0]["runbookCategories"], json!(["system"]), "nobody changes what system means");
    let shown = capabilities["runbookCategories"].as_array().expect("a list").iter();
    let shown: Vec<_> = shown.filter(|r| r["category"] == "queues").collect();
    assert_eq!(shown, [&json!({ "category": "queues", "type": "simple", "description": "Our queues" })]);
    // By the agent's name, and by the category alone: only one brings it.
    for body in [json!({ "agent": "web-1", "category": "queues" }), json!({ "category": "queues" })] {
        let (reply, ()) = tokio::join!(hub.post("/api/v1/diagnose", body), async {
            for _ in 0..2 {
                let request = web.request().await;
                web.answer(&request, json!({ "n": 3 })).await;
            }
        });
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(
            (&reply.body["meta"]["runbookId"], &reply.body["meta"]["target"]),
            (&json!("queues-runbook"), &json!("web-1"))
        );
        assert_eq!(reply.body["probes"]["queue.depth"]["data"], json!({ "n": 3 }));
        assert_eq!(reply.body["probes"].as_object().map(serde_json::Map::len), Some(2));
    }
    let elsewhere = hub.post("/api/v1/diagnose", json!({ "agent": "sly", "category": "queues" })).await;
    assert!(elsewhere.body["error"].as_str().is_some_and(|e| e.contains("no runbook 'queues'")), "{elsewhere:?}");
    let _twin = join(&hub, &token(&hub).await, &with_own_pack("web-2", "queues")).await;
    let many = hub.post("/api/v1/diagnose", json!({ "category": "queues" })).await;
    assert!(many.body["error"].as_str().is_some_and(|e| e.contains("2 agents")), "{many:?}");
    // Out of reach, out of sight.
    let narrow = hub.token("narrow", "operator", json!({ "agents": [format!("sonde:{}", sly.id)] })).await;
    let hidden = hub.request("GET", "/api/v1/runbooks", Some(&narrow), None).await.body.to_string();
    assert!(!hidden.contains("queues"), "{hidden}");
}

#[tokio::test]
async fn a_probe_that_does_not_answer_holds_up_nothing_but_what_builds_on_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let steps: String = (0..20).map(|n| format!("[[steps]]\nprobe = \"queue.p{n}\"\n")).collect();
    let each = "[[steps]]\nprobe = \"queue.each\"\neach = { of = \"queue.p1\", list = \"l\", label = \"id\" }\n";
    std::fs::write(folder.path().join("q.toml"), format!("category = \"q\"\n{steps}{each}")).expect("writes");
    let folder = folder.path().to_str().expect("a path");
    let hub = TestHub::with(&[("sonde.cache_s", "0"), ("sonde.runbook_dir", folder)]).await;
    let mut register = with_own_pack("web-1", "queues");
    let names = (0..20).map(|n| format!("p{n}")).chain(["each".into()]);
    let probes: Vec<Value> =
        names.map(|name| json!({ "name": name, "description": "d", "capability": "observe" })).collect();
    register["manifests"][0]["probes"] = probes.into();
    register["manifests"][0]["runbook"] = Value::Null;
    let mut web = join(&hub, &token(&hub).await, &register).await;
    let (reply, ()) = tokio::join!(hub.post("/api/v1/diagnose", json!({ "category": "q" })), async {
        let mut held = None;
        for _ in 0..22 {
            let request = web.request().await;
            match request["payload"]["probe"].as_str() {
                Some("queue.p0") => held = Some(request),
                _ => web.answer(&request, json!({ "l": [{ "id": "a" }, { "id": "b" }] })).await,
            }
        }
        web.answer(&held.expect("it was asked for"), json!({})).await;
    });
    assert_eq!(reply.body["meta"]["probesSucceeded"], 22, "{reply:?}");
    assert!(reply.body["probes"]["queue.each:b"].is_object(), "{reply:?}");
}

#[tokio::test]
async fn a_runbook_finds_a_machine_by_its_name_and_looks_at_each_of_a_list() {
    let hub = TestHub::with(&[("sonde.cache_s", "0")]).await;
    let mut register = field_register("prism");
    register["packs"] = json!([{ "name": "nutanix", "version": "0.1.0", "status": "active" }]);
    let probe = |name: &str| {
        json!({ "name": name, "description": "d", "capability": "observe", "params":
        { "name": { "type": "string" }, "vm_id": { "type": "string" }, "cluster_id": { "type": "string" },
          "entity_type": { "type": "string" }, "power_state": { "type": "string" }, "resolved": { "type": "boolean" }, "limit": { "type": "number" } } })
    };
    let names = [
        "vms.list",
        "vm.detail",
        "vm.stats",
        "vm.snapshots",
        "protection.policies",
        "alerts.list",
        "clusters.list",
        "cluster.stats",
        "storage.containers",
        "hosts.list",
    ];
    register["manifests"] = json!([{ "name": "nutanix", "version": "0.1.0", "description": "d",
        "probes": names.map(probe) }]);
    let mut prism = join(&hub, &token(&hub).await, &register).await;
    let run = |body: Value| hub.post("/api/v1/diagnose", body);
    let (reply, asked) = tokio::join!(
        run(json!({ "category": "nutanix-vm-health", "params": { "vm_name": "web 1" } })),
        serve_nutanix(&mut prism, 6)
    );
    assert_eq!(asked[0], json!(["nutanix.vms.list", { "name": "web 1" }]), "{asked:?}");
    assert!(asked[1..].iter().any(|a| *a == json!(["nutanix.vm.stats", { "vm_id": "vm-7" }])), "{asked:?}");
    let titles = |reply: &crate::support::Reply| -> Vec<String> {
        let findings = reply.body["findings"].as_array().expect("findings").iter();
        findings.map(|f| f["title"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(titles(&reply), ["Alert: disk broken", "Its processors are 91 % busy"], "{reply:?}");
    let (reply, _) =
        tokio::join!(run(json!({ "category": "nutanix-capacity-planning" })), serve_nutanix(&mut prism, 9));
    assert_eq!(
        titles(&reply),
        ["east: 95 % of the processors are in use", "west: 95 % of the processors are in use"]
    );
    assert!(reply.body["probes"]["nutanix.hosts.list:west"].is_object(), "{reply:?}");
    // What they gave is kept, and can be held against the one before.
    let runs = hub.get("/api/runs?agent=prism").await.body["runs"].clone();
    let of = |n: usize| (runs[n]["runbook"].clone(), runs[n]["status"].clone(), runs[n]["titles"][0].clone());
    let capacity = json!("nutanix-capacity-planning-runbook");
    let east = json!("east: 95 % of the processors are in use");
    assert_eq!(of(0), (capacity, json!("crit"), east), "{runs}");
    let health = format!("/api/runs/{}", runs[1]["id"].as_str().expect("an id"));
    let kept = hub.get(&health).await.body;
    assert_eq!((&kept["run"]["status"], &kept["before"]), (&json!("crit"), &Value::Null), "{kept}");
    assert_eq!(kept["result"]["probes"]["nutanix.vm.stats"]["data"], json!({ "cpuUsagePct": 91 }), "{kept}");
    let inbox = hub.get("/api/inbox").await.body;
    assert_eq!(inbox["findings"][1]["detail"]["run"], kept["run"]["id"], "{inbox}");
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let seen = hub.request("GET", &health, Some(&viewer), None).await.body;
    assert_eq!((&seen["result"], &seen["run"]["status"]), (&Value::Null, &json!("crit")), "not what was read for it");
    let distant = hub.token("distant", "operator", json!({ "agents": ["elsewhere"] })).await;
    assert_eq!(hub.request("GET", &health, Some(&distant), None).await.status, 404);
    assert_eq!(hub.request("GET", "/api/runs", Some(&distant), None).await.body["runs"], json!([]));
    let nobody = run(json!({ "category": "nutanix-vm-health" })).await;
    assert!(nobody.body["error"].as_str().is_some_and(|e| e.contains("one of vm_id, vm_name")), "{nobody:?}");
    let (reply, _) = tokio::join!(
        run(json!({ "category": "nutanix-vm-health", "params": { "vm_name": "gone" } })),
        serve_nutanix(&mut prism, 2)
    );
    assert_eq!(titles(&reply)[0], "There is no machine named gone", "{reply:?}");
}

/// Answers so many probes; what was asked, with its parameters.
async fn serve_nutanix(agent: &mut Joined, count: usize) -> Vec<Value> {
    let mut asked = Vec::new();
    for _ in 0..count {
        let request = agent.request().await;
        let (probe, params) = (request["payload"]["probe"].clone(), request["payload"]["params"].clone());
        let data = match probe.as_str().unwrap_or_default() {
            "nutanix.vms.list" if params["name"] == "web 1" => {
                json!({ "vms": [{ "extId": "vm-7", "name": "web 1" }] })
            }
            "nutanix.vms.list" => json!({ "vms": [] }),
            "nutanix.vm.detail" => json!({ "name": "web 1", "powerState": "ON" }),
            "nutanix.vm.stats" => json!({ "cpuUsagePct": 91 }),
            "nutanix.alerts.list" => json!({ "alerts": [
                { "title": "disk broken", "severity": "CRITICAL", "sourceEntity": { "extId": "vm-7" } },
                { "title": "another's", "severity": "CRITICAL", "sourceEntity": { "extId": "vm-8" } },
            ] }),
            "nutanix.clusters.list" => {
                json!({ "clusters": [{ "name": "east", "extId": "c1" }, { "name": "west", "extId": "c2" }] })
            }
            "nutanix.cluster.stats" => json!({ "cpuUsagePct": 95 }),
            _ => json!({}),
        };
        agent.answer(&request, data).await;
        asked.push(json!([probe, params]));
    }
    asked
}

#[tokio::test]
async fn an_agent_is_told_which_runbook_asked_after_an_approval_too() {
    let hub = TestHub::start().await;
    let rule = json!({ "id": "every-probe", "tools": ["system.*"] });
    assert_eq!(hub.post("/api/policy/confirm", rule).await.status, 200);
    let mut web = join(&hub, &token(&hub).await, &field_register("web-1")).await;
    let asker = hub.token("asker", "operator", json!({})).await;
    let operators = &hub.hub().operators;
    let here = std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);
    let asker = operators
        .authenticate(Some(TokenHash::of(&asker)), here, convoke_core::time::Timestamp::from_millis(i64::MAX / 2))
        .expect("a token");
    let ask = Ask {
        caller: Caller::with_token(asker, Door::Http, here),
        agent: hub.hub().agents.find(&format!("sonde:{}", web.id)).expect("enrolled"),
        tool: "system.cpu.usage".into(),
        args: RawValue::from_string("{}".into()).expect("JSON"),
        timeout: None,
        idempotency_key: None,
        requested_by: Some("disk-full-runbook".into()),
    };
    let other = Ask { tool: "network.interfaces".into(), ..ask.clone() };
    assert_eq!((calls::would_ask(hub.hub(), &ask).await, calls::would_ask(hub.hub(), &other).await), (true, false));
    assert_eq!(
        (hub.hub().calls.waiting(), hub.journal("kind=approval").await.len()),
        (0, 0),
        "asking places nothing"
    );
    let Ok(Placed::Pending { approval, .. }) = calls::place(hub.hub(), ask).await else { panic!("it must wait") };
    let path = format!("/api/approvals/{approval}");
    assert_eq!(hub.request("POST", &path, Some(TOKEN), Some(json!({ "approve": true }))).await.status, 200);
    let request = web.request().await;
    assert_eq!(request["payload"]["requestedBy"], "disk-full-runbook", "{request}");
}
