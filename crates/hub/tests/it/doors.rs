//! Every door, tried without the right it needs. The list is the router's own, so a new door is tried too.

use convoke_core::door::Door;
use convoke_core::grant::Right;
use convoke_core::journal::{Draft, Kind};
use convoke_core::time::Timestamp;
use serde_json::json;

use crate::sonde;
use crate::support::{TOKEN, TestHub};

pub fn fill(path: &str) -> String {
    let agent = if path.starts_with("/api/v1/") { "box" } else { "pc" };
    let path = path.replace("{id}", agent).replace("{rule}", "x").replace("{link}", "x").replace("{name}", "x");
    path.replace("{room}", "lab").replace("{participant}", "guest-1").replace("{key}", "x")
}

#[tokio::test]
async fn every_door_but_the_public_ones_refuses_a_stranger() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    assert_eq!(hub.post("/api/rooms", json!({ "name": "lab" })).await.status, 200);
    for door in convoke_hub::doors(hub.hub()).list() {
        let reply = hub.request(door.method.as_str(), &fill(door.path), None, Some(json!({}))).await;
        match door.right {
            Right::Public => assert_eq!(reply.status, 200, "{door:?}"),
            Right::SignIn => assert!([400, 401, 409].contains(&reply.status), "{door:?} {reply:?}"),
            Right::OwnCredential | Right::Guest => {
                assert!([401, 404, 426].contains(&reply.status), "{door:?} {reply:?}")
            }
            _ => {
                assert_eq!(reply.status, 401, "{door:?}");
                if door.path.starts_with("/api/v1/") {
                    assert!(reply.body["error"].is_string(), "{door:?}");
                } else {
                    assert_eq!(reply.body["error"]["code"], "unauthorized");
                    assert!(reply.body["error"]["request_id"].is_string());
                }
            }
        }
    }
}

#[tokio::test]
async fn every_door_refuses_a_known_caller_without_the_right_and_records_it() {
    let hub = TestHub::start().await;
    hub.enrol("pc").await;
    let viewer = hub.token("viewer", "viewer", json!({})).await;
    let distant = hub.token("distant", "admin", json!({ "agents": ["elsewhere"] })).await;
    let enrolment = sonde::token(&hub).await;
    let _box = sonde::join(&hub, &enrolment, &sonde::contract_register("box")).await;
    // The record of its arrival comes from its own task, and must not be counted among the refusals.
    hub.until("/api/journal?kind=auth", |page| page["records"].as_array().is_some_and(|r| !r.is_empty())).await;
    for door in convoke_hub::doors(hub.hub()).list() {
        let body = match door.path {
            "/api/agents/{id}/call" => json!({ "tool": "shell_exec", "args": { "command": "uptime" } }),
            "/api/v1/probe" => json!({ "agent": "box", "probe": "own.thing" }),
            "/api/v1/diagnose" => json!({ "agent": "box", "category": "system" }),
            "/api/v1/health-check" => json!({ "agent": "box" }),
            "/api/messages" => json!({ "rule": "chat", "content": "x", "to": ["client-a"] }),
            "/api/policy/test" => json!({ "agent": "pc", "tool": "x" }),
            "/api/users/{name}/passkeys" => json!({ "challenge_id": "x", "credential": {} }),
            "/api/users/{name}/totp/confirm" => json!({ "code": "000000" }),
            _ => json!({}),
        };
        // Without a catch-all: a new right needs a decision here.
        let (who, token) = match door.right {
            // Their probes only look, which a viewer may: it is the agent that must be within reach.
            Right::Call if ["/api/v1/diagnose", "/api/v1/health-check"].contains(&door.path) => ("distant", &distant),
            Right::Approve
            | Right::Policy
            | Right::Tokens
            | Right::Users
            | Right::Trust
            | Right::Withdraw
            | Right::Call => ("viewer", &viewer),
            // Whoever may not change users changes their own password alone.
            Right::View if door.path.starts_with("/api/users/{name}") => ("viewer", &viewer),
            // Every token may look, but not at an agent that is out of its reach.
            Right::View if door.path.contains("/agents/{id}") || door.path.contains("/rooms/{room}") => {
                ("distant", &distant)
            }
            Right::View | Right::Public | Right::OwnCredential | Right::Guest | Right::SignIn => continue,
        };
        let before = hub.journal("").await.len();
        let reply = hub.request(door.method.as_str(), &fill(door.path), Some(token), Some(body)).await;
        assert_eq!(reply.status, 403, "{door:?} {reply:?}");
        let records = hub.journal("").await;
        assert_eq!(records.len(), before + 1, "{door:?}");
        let record = records.last().expect("one");
        assert_eq!((&record["who"], &record["decision"]), (&json!(who), &json!("denied")), "{door:?}");
    }
}

#[tokio::test]
async fn every_door_refuses_a_token_for_another_door_and_records_it() {
    let hub = TestHub::start().await;
    let assistant = hub.token("assistant", "admin", json!({ "doors": ["mcp"], "approve": true })).await;
    let other = hub.token("other", "admin", json!({ "doors": ["http", "cli"], "approve": true })).await;
    // Refusals of one are recorded up to a number a minute, and there are more doors than that.
    let second = hub.token("assistant-2", "admin", json!({ "doors": ["mcp"], "approve": true })).await;
    hub.post("/api/rooms", json!({ "name": "lab" })).await;
    for (at, door) in convoke_hub::doors(hub.hub()).list().iter().enumerate() {
        let (who, token) = match (door.right, door.door) {
            // Whoever signs in shows something else than a token.
            (Right::Public | Right::OwnCredential | Right::SignIn, _) => continue,
            (_, Door::Mcp) => ("other", &other),
            (_, Door::Http | Door::Cli | Door::Page | Door::Room | Door::Wire) if at % 2 == 0 => {
                ("assistant", &assistant)
            }
            (_, Door::Http | Door::Cli | Door::Page | Door::Room | Door::Wire) => ("assistant-2", &second),
        };
        let before = hub.journal("").await.len();
        let reply = hub.request(door.method.as_str(), &fill(door.path), Some(token), Some(json!({}))).await;
        assert_eq!(reply.status, 403, "{door:?} {reply:?}");
        let record = hub.journal("").await.split_off(before);
        let [record] = &record[..] else { panic!("{door:?}: {record:?}") };
        assert_eq!((&record["who"], &record["decision"]), (&json!(who), &json!("denied")), "{door:?}");
        assert_eq!(record["door"], door.door.name(), "{door:?}");
    }
    // Whatever a request says of itself, and whatever the token may otherwise do.
    let call = json!({ "tool": "shell_exec", "args": { "command": "uptime" } });
    let asked = hub.http_client.post(format!("{}/api/agents/pc/call", hub.http)).bearer_auth(&assistant);
    let reply = asked.header("x-convoke-client", "cli").json(&call).send().await.expect("answers");
    assert_eq!(reply.status(), 403);
    let told = hub.request("GET", "/api/agents", Some(&assistant), None).await;
    assert_eq!(told.body["error"]["hint"], "it is good at these doors: mcp");
    assert_eq!(hub.request("GET", "/api/agents", Some(&other), None).await.status, 200);
    let listed = hub.get("/api/tokens").await.body;
    let listed = listed["tokens"].as_array().expect("a list");
    let doors = |name: &str| listed.iter().find(|t| t["name"] == name).expect("is listed")["scopes"]["doors"].clone();
    assert_eq!((doors("assistant"), doors("operator")), (json!(["mcp"]), json!(null)));
}

#[tokio::test]
async fn a_token_for_one_tag_reaches_nothing_else() {
    let hub = TestHub::start().await;
    for (id, tag) in [("lab-pc", "lab"), ("hq-pc", "hq")] {
        hub.enrol(id).await;
        let tags = json!({ "tags": [tag] });
        let reply = hub.request("PATCH", &format!("/api/agents/{id}"), Some(TOKEN), Some(tags)).await;
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let lab = hub.token("lab", "operator", json!({ "tags": ["lab"], "tools": ["fs_*"] })).await;
    let get = async |path: &str| hub.request("GET", path, Some(&lab), None).await;
    let agents = get("/api/agents").await.body;
    assert_eq!(agents["agents"].as_array().map(Vec::len), Some(1));
    assert_eq!(get("/api/fleet").await.body["agents"].as_array().map(Vec::len), Some(1));
    for path in ["/api/agents/hq-pc", "/api/agents/hq-pc/snapshot", "/api/agents/nobody"] {
        assert_eq!(get(path).await.status, 403, "{path}");
    }
    let call = async |id: &str, tool: &str| {
        let body = json!({ "tool": tool, "args": {} });
        hub.post_as(&lab, &format!("/api/agents/{id}/call"), body).await.status
    };
    assert_eq!(call("hq-pc", "fs_list").await, 403);
    assert_eq!(call("lab-pc", "net_config").await, 403, "not among its tools");
    assert_eq!(call("lab-pc", "fs_list").await, 200);
    let seen = get("/api/journal?limit=1000").await.body;
    let seen = seen["records"].as_array().expect("a list");
    assert!(!seen.is_empty() && seen.iter().all(|r| r["target"] == "lab-pc"), "{seen:?}");
    for page in ["journal", "logs"] {
        assert_eq!(get(&format!("/api/{page}?limit=1&agent=lab-pc")).await.status, 200);
        for other in ["hq-pc", "nobody"] {
            let refused = get(&format!("/api/{page}?limit=1&agent={other}")).await;
            assert_eq!(refused.status, 403, "whether there is a next page would tell: {refused:?}");
        }
    }
}

#[tokio::test]
async fn tokens_are_shown_once_named_once_and_revoked_at_once() {
    let hub = TestHub::start().await;
    let token = hub.token("t", "viewer", json!({})).await;
    let listed = hub.get("/api/tokens").await.body;
    assert!(!listed.to_string().contains(&token));
    let again = hub.post("/api/tokens", json!({ "name": "t", "role": "viewer" })).await;
    assert_eq!(again.status, 409, "a name is never used twice");
    for bad in [
        json!({ "name": "", "role": "viewer" }),
        json!({ "name": "hub", "role": "viewer" }),
        json!({ "name": "x", "role": "king" }),
        json!({ "name": "x", "role": "viewer", "scopes": { "agent": ["pc"] } }),
        json!({ "name": "x", "role": "viewer", "scopes": { "tags": ["prod?"] } }),
        json!({ "name": "x", "role": "viewer", "scopes": { "doors": [] } }),
        json!({ "name": "x", "role": "viewer", "scopes": { "doors": ["back"] } }),
        json!({ "name": "x", "role": "viewer", "expires_in_s": 0 }),
    ] {
        assert_eq!(hub.post("/api/tokens", bad.clone()).await.status, 400, "{bad}");
    }
    let id =
        listed["tokens"].as_array().expect("list").iter().find(|t| t["name"] == "t").expect("there")["id"].clone();
    assert_eq!(hub.request("GET", "/api/agents", Some(&token), None).await.status, 200);
    let path = format!("/api/tokens/{}", id.as_str().expect("an id"));
    assert_eq!(hub.request("DELETE", &path, Some(TOKEN), None).await.status, 200);
    assert_eq!(hub.request("GET", "/api/agents", Some(&token), None).await.status, 401);
}

#[tokio::test]
async fn the_last_token_that_lets_others_in_stays() {
    let mut hub = TestHub::start().await;
    let id_of = async |hub: &TestHub, name: &str| {
        let listed = hub.get("/api/tokens").await.body;
        let found = listed["tokens"].as_array().expect("a list").iter().find(|t| t["name"] == name);
        format!("/api/tokens/{}", found.expect("there")["id"].as_str().expect("an id"))
    };
    let first = id_of(&hub, "operator").await;
    // None of these could hand on every right for good.
    hub.token("narrowed", "admin", json!({ "approve": true, "agents": ["pc"] })).await;
    hub.token("no-approver", "admin", json!({})).await;
    let short = json!({ "name": "short", "role": "admin", "scopes": { "approve": true }, "expires_in_s": 60 });
    assert_eq!(hub.post("/api/tokens", short).await.status, 200);
    let refused = hub.request("DELETE", &first, Some(TOKEN), None).await;
    assert_eq!((refused.status, &refused.body["error"]["code"]), (409, &json!("conflict")), "{refused:?}");
    // Of two who revoke each other at once, one stays.
    let other = hub.token("other", "admin", json!({ "approve": true })).await;
    let second = id_of(&hub, "other").await;
    let (one, two) = tokio::join!(
        hub.request("DELETE", &first, Some(&other), None),
        hub.request("DELETE", &second, Some(TOKEN), None)
    );
    let mut came = [one.status, two.status];
    came.sort_unstable();
    assert!(came == [200, 409] || came == [200, 401], "{one:?} {two:?}");
    let left = if one.status == 200 { &other } else { TOKEN };
    assert_eq!(hub.request("GET", "/api/tokens", Some(left), None).await.status, 200);
    let again = hub.request("DELETE", if one.status == 200 { &first } else { &second }, Some(left), None).await;
    assert_eq!(again.status, 409, "revoked already: {again:?}");
    // A data directory that nobody can enter any more lets in who starts it.
    for token in hub.hub().operators.list() {
        let record = Draft::new(Timestamp::from_millis(1), Kind::Token);
        hub.hub().store.revoke_token(token.id, Timestamp::from_millis(1), record).await.expect("revokes");
    }
    hub.restart(&[]).await;
    let minted = hub.running.as_ref().and_then(|running| running.first_token.clone()).expect("a new token");
    assert_ne!(minted.reveal(), TOKEN, "what was revoked stays so");
    let listed = hub.request("GET", "/api/tokens", Some(minted.reveal()), None).await.body;
    let names: Vec<_> = listed["tokens"].as_array().expect("a list").iter().map(|t| &t["name"]).collect();
    assert!(names.contains(&&json!("operator-2")), "{names:?}");
}

#[tokio::test]
async fn only_who_may_approve_hands_that_right_on() {
    let hub = TestHub::start().await;
    let admin = hub.token("admin2", "admin", json!({})).await;
    let body = json!({ "name": "x", "role": "viewer", "scopes": { "approve": true } });
    assert_eq!(hub.post_as(&admin, "/api/tokens", body.clone()).await.status, 403);
    assert_eq!(hub.post("/api/tokens", body).await.status, 200);
}

#[tokio::test]
async fn guessing_is_slowed_and_whoever_worked_from_there_goes_on() {
    let hub = TestHub::start().await;
    assert_eq!(hub.get("/api/agents").await.status, 200);
    let mut last = 0;
    for n in 0..12 {
        last = hub.request("GET", "/api/agents", Some(&format!("wrong-{n}")), None).await.status;
    }
    assert_eq!(last, 429);
    assert_eq!(hub.get("/api/agents").await.status, 200);
}

#[tokio::test]
async fn foreign_pages_and_foreign_hosts_are_refused() {
    let hub = TestHub::start().await;
    let ask = async |header: &str, value: &str| {
        let request =
            hub.http_client.get(format!("{}/api/agents", hub.http)).bearer_auth(TOKEN).header(header, value);
        request.send().await.expect("answers").status().as_u16()
    };
    assert_eq!(ask("origin", "https://evil.example").await, 403);
    assert_eq!(ask("origin", "null").await, 403);
    assert_eq!(ask("origin", &hub.http).await, 200);
    assert_eq!(ask("host", "evil.example").await, 421);
    assert_eq!(ask("host", "localhost:7410").await, 200);
    assert_eq!(ask("authorization", "Bearer other").await, 401, "of two tokens neither counts");
}

#[tokio::test]
async fn a_target_that_names_a_host_is_held_to_it() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let hub = TestHub::start().await;
    let own = hub.hub().listen.to_string();
    for (target, host, status) in [
        (own.as_str(), own.as_str(), "200"),
        ("evil.example", own.as_str(), "400"),
        ("evil.example", "evil.example", "421"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(hub.hub().listen).await.expect("connects");
        let request = format!(
            "GET http://{target}/api/agents HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {TOKEN}\r\n\
             connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("is answered");
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{target} {host}: {answer}");
    }
}

#[tokio::test]
async fn a_tool_of_no_possible_name_is_told_at_once() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await.echo();
    for tool in ["a b", "fs.list", "fs_list\n", "é"] {
        let refused = hub.post("/api/agents/pc/call", serde_json::json!({ "tool": tool })).await;
        assert_eq!(refused.status, 400, "{tool}: {refused:?}");
    }
    let unheard_of = hub.post("/api/agents/pc/call", serde_json::json!({ "tool": "brand-new_9" })).await;
    assert_eq!(unheard_of.status, 200, "{unheard_of:?}");
}

#[tokio::test]
async fn unknown_addresses_and_methods_have_the_one_shape_of_errors() {
    let hub = TestHub::start().await;
    let missing = hub.get("/api/nothing").await;
    assert_eq!((missing.status, missing.body["error"]["code"].as_str()), (404, Some("not_found")));
    let wrong = hub.request("PUT", "/api/agents", Some(TOKEN), None).await;
    assert_eq!((wrong.status, wrong.body["error"]["code"].as_str()), (405, Some("method_not_allowed")));
}

#[tokio::test]
async fn the_openapi_document_names_every_door_of_the_api() {
    let hub = TestHub::start().await;
    let document = hub.get("/api/openapi.json").await.body;
    for door in convoke_hub::doors(hub.hub()).list() {
        let in_document = !document["paths"][door.path][door.method.as_str().to_lowercase()].is_null();
        let documented = door.path.starts_with("/api/") && door.path != "/api/openapi.json";
        assert!(in_document || !documented, "{door:?} is not in the document");
    }
}

#[tokio::test]
async fn the_openapi_document_is_one() {
    let hub = TestHub::start().await;
    let document = hub.get("/api/openapi.json").await.body;
    let mut ids = std::collections::BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let id = operation["operationId"].as_str().expect("an id");
            assert!(ids.insert(id.to_owned()), "{id} names two operations");
            for parameter in operation["parameters"].as_array().unwrap_or(&vec![]) {
                let name = parameter["name"].as_str().expect("a name");
                assert_eq!(
                    parameter["in"] == "path",
                    path.contains(&format!("{{{name}}}")),
                    "{method} {path} {name}"
                );
            }
            for (status, response) in operation["responses"].as_object().expect("responses") {
                let of = format!("{method} {path} {status}");
                assert!(response["description"].as_str().is_some_and(|words| !words.is_empty()), "{of} says nothing");
                let content = response["content"].as_object().unwrap_or_else(|| panic!("{of} has no content"));
                assert!(content.values().all(|kind| kind["schema"].is_object()), "{of} has no schema");
                let error = &content.values().next().expect("one")["schema"]["$ref"];
                let expected = if path.starts_with("/api/v1/") { "SondeError" } else { "ErrorBody" };
                if status.starts_with('4') || status.starts_with('5') {
                    assert_eq!(error, &json!(format!("#/components/schemas/{expected}")), "{of}");
                }
            }
        }
    }
    // Every reference leads somewhere.
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(document.pointer(reference).is_some(), "{reference} leads nowhere");
    }
}

#[tokio::test]
async fn the_openapi_document_tells_the_words_that_are_used() {
    let hub = TestHub::start().await;
    let _agent = hub.agent("pc").await;
    let document = hub.get("/api/openapi.json").await.body;
    let words = |name: &str| document["components"]["schemas"][name]["enum"].as_array().expect("words").clone();
    let agent = &hub.get("/api/agents").await.body["agents"][0];
    let (fleet, token) = (hub.get("/api/fleet").await.body, hub.get("/api/tokens").await.body["tokens"][0].clone());
    let rule = &hub.get("/api/policy/rules").await.body["builtin"][0];
    for (name, used) in [
        ("Protocol", &agent["protocol"]),
        ("Trust", &agent["trust"]),
        ("Liveness", &agent["liveness"]),
        ("Health", &agent["health"]),
        ("Health", &fleet["overall"]),
        ("Role", &token["role"]),
        ("TokenState", &token["state"]),
        ("AppliesTo", &rule["applies_to"]),
    ] {
        assert!(words(name).contains(used), "{name}: {used}");
    }
    assert_eq!(words("Role"), [json!("viewer"), json!("operator"), json!("admin")]);
    let of = |schema: &str, field: &str| document["components"]["schemas"][schema]["properties"][field].to_string();
    for (schema, field, name) in [
        ("Agent", "trust", "Trust"),
        ("TokenRequest", "role", "Role"),
        ("TokenRequest", "scopes", "Scopes"),
        ("Scopes", "effects", "Effect"),
        ("CallStatus", "state", "CallState"),
        ("ApprovalView", "state", "ApprovalState"),
        ("Agent", "last_seen", "Time"),
    ] {
        assert!(
            of(schema, field).contains(&format!("#/components/schemas/{name}\"")),
            "{schema}.{field}: {}",
            of(schema, field)
        );
    }
    assert_eq!(document["components"]["schemas"]["Time"]["format"], "date-time");
}

#[tokio::test]
async fn the_openapi_document_names_every_body_that_is_needed() {
    let hub = TestHub::start().await;
    let document = hub.get("/api/openapi.json").await.body;
    let mut needed = 0;
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let filled: Vec<_> = path.split('/').map(|part| if part.starts_with('{') { "x" } else { part }).collect();
        for (method, operation) in methods.as_object().expect("methods") {
            if !["post", "put", "patch"].contains(&method.as_str()) {
                continue;
            }
            let reply = hub.request(&method.to_uppercase(), &filled.join("/"), Some(TOKEN), None).await;
            let is_needed = reply.status == 400;
            needed += usize::from(is_needed);
            let body = &operation["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            assert!(body.is_string() || !is_needed, "{method} {path} needs a body: {reply:?}");
        }
    }
    assert!(needed > 10, "{needed}");
}

#[tokio::test]
async fn a_page_that_may_is_let_in_by_its_browser() {
    let hub = TestHub::with(&[("hub.allowed_origins", "https://app.example")]).await;
    let ask = async |method: reqwest::Method, origin: &str, path: &str| {
        let request = hub.http_client.request(method, format!("{}{path}", hub.http)).header("origin", origin);
        let request = request.header("access-control-request-method", "POST");
        request.header("access-control-request-headers", "authorization,mcp-method").send().await.expect("answers")
    };
    let header = |reply: &reqwest::Response, name: &str| {
        reply.headers().get(name).map(|value| value.to_str().expect("a text").to_owned())
    };
    for path in ["/api/agents/pc/call", "/mcp"] {
        let may = ask(reqwest::Method::OPTIONS, "https://app.example", path).await;
        assert_eq!(may.status(), 204, "{may:?}");
        assert_eq!(header(&may, "access-control-allow-origin").as_deref(), Some("https://app.example"));
        assert_eq!(header(&may, "access-control-allow-headers").as_deref(), Some("authorization,mcp-method"));
        assert!(header(&may, "access-control-allow-methods").is_some_and(|methods| methods.contains("POST")));
        let may_not = ask(reqwest::Method::OPTIONS, "https://evil.example", path).await;
        assert_eq!((may_not.status().as_u16(), header(&may_not, "access-control-allow-origin")), (405, None));
    }
    // What a page asks for is answered, and the page can read it: refusals, too.
    let refused = ask(reqwest::Method::GET, "https://app.example", "/api/agents").await;
    assert_eq!((refused.status().as_u16(), header(&refused, "vary").as_deref()), (401, Some("origin")));
    assert_eq!(header(&refused, "access-control-allow-origin").as_deref(), Some("https://app.example"));
    assert!(header(&refused, "access-control-allow-credentials").is_none(), "a page has a token of its own");
    let foreign = ask(reqwest::Method::GET, "https://evil.example", "/api/agents").await;
    assert_eq!((foreign.status().as_u16(), header(&foreign, "access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn a_list_is_not_taken_for_an_object() {
    let hub = TestHub::start().await;
    let refused = hub.post("/api/tokens", json!(["arr", "viewer"])).await;
    assert_eq!(refused.status, 400, "{refused:?}");
}

#[tokio::test]
async fn a_token_that_ends_mints_none_that_lives_longer() {
    let hub = TestHub::start().await;
    let minted =
        hub.post("/api/tokens", json!({ "name": "guest", "role": "admin", "expires_in_s": 3600 })).await.body;
    let guest = minted["token"].as_str().expect("a token");
    for (n, longer) in [json!({}), json!({ "expires_in_s": 7200 })].into_iter().enumerate() {
        let mut request = json!({ "name": format!("longer-{n}"), "role": "viewer" });
        request.as_object_mut().expect("an object").extend(longer.as_object().expect("an object").clone());
        let told = hub.post_as(guest, "/api/tokens", request).await;
        assert_eq!((told.status, &told.body["error"]["code"]), (403, &json!("forbidden")), "{told:?}");
        assert!(told.body["error"]["hint"].as_str().is_some_and(|hint| hint.contains("expires_in_s")), "{told:?}");
    }
    let shorter = json!({ "name": "shorter", "role": "viewer", "expires_in_s": 60 });
    assert_eq!(hub.post_as(guest, "/api/tokens", shorter).await.status, 200);
    let refusals = hub.journal("kind=refusal").await;
    assert_eq!(refusals.len(), 2, "{refusals:?}");
}

#[tokio::test]
async fn a_query_that_does_not_fit_is_told_in_plain_words() {
    let hub = TestHub::start().await;
    for (path, expected) in [
        ("/api/journal?limit=abc", "`limit` must be a whole number, 0 or more"),
        ("/api/journal?limit=-1", "`limit` must be a whole number, 0 or more"),
        ("/api/journal?limit=99999999999", "`limit` must be a smaller number"),
        ("/api/journal?limit=0", "`limit` must be from 1 to 1000"),
        ("/api/journal?after=x", "`after` must be a whole number, 0 or more"),
        ("/api/agents?online=maybe", "`online` must be `true` or `false`"),
        ("/api/journal?nope=1", "invalid query: "),
    ] {
        let told = hub.get(path).await;
        assert_eq!(told.status, 400, "{path}");
        let message = told.body["error"]["message"].as_str().expect("a sentence");
        assert!(message.starts_with(expected), "{path}: {message}");
    }
}
