//! Each provider as configuration names it: where it is asked, and with which credentials.

use convoke_models::ProviderKind;
use convoke_models::testkit::{Answer, Received, Reply};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::World;

fn asked(world: &World, path: &str) -> Received {
    let received = world.provider.received();
    received.into_iter().rfind(|one| one.path == path).unwrap_or_else(|| panic!("nobody asked for {path}"))
}

#[test]
fn each_provider_is_asked_in_its_own_way() {
    for (kind, key, base, path) in [
        (ProviderKind::OpenAi, "OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1/responses"),
        (ProviderKind::OpenRouter, "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL", "/v1/chat/completions"),
        (ProviderKind::Codex, "OPENAI_ACCESS_TOKEN", "CODEX_BASE_URL", "/v1/responses"),
    ] {
        let world = World::new();
        let mut command = world.command();
        command
            .env("KWARD_PROVIDER", kind.label())
            .env(key, "canary-of-this-test")
            .env(base, format!("{}/v1", world.provider.url()));
        let mut client = Client::start(&mut command);
        let session = world.session(&mut client);
        world.provider.push(Reply::text("hello").and_usage(10, 0, 2, 0).answer(kind));
        let turn = client.turn(&session, "hi");
        assert_eq!(client.event(&turn, "turnFinished")["status"], "completed", "{kind}");
        let asked = asked(&world, path);
        assert_eq!(asked.header("authorization"), Some("Bearer canary-of-this-test"), "{kind}");
        let message = client.events(&turn).into_iter().find(|e| e["type"] == "assistantMessage").expect("an answer");
        assert_eq!(message["payload"]["message"]["provider"], kind.label());
        let stats = client.call("runtime/stats", json!({ "sessionId": session }));
        assert_eq!(
            (&stats["tokens"]["total"], &stats["usingSubscription"]),
            (&json!(12), &json!(kind == ProviderKind::Codex))
        );
        client.hang_up();
        assert!(!client.ended().stdout.contains("canary-"), "{kind}");
    }
}

#[test]
fn what_the_client_calls_codex_goes_by_what_is_set_up() {
    let world = World::new();
    let with = |variable: &str| {
        let mut command = world.command();
        Client::start(command.env(variable, "canary-of-this-test"))
    };
    for (variable, named, expected) in
        [("OPENAI_API_KEY", "Codex", "OpenAI"), ("OPENAI_ACCESS_TOKEN", "OpenAI", "Codex")]
    {
        let mut client = with(variable);
        let chosen = client.call("models/set", json!({ "provider": named, "model": "gpt-5.4" }));
        assert_eq!((&chosen["provider"], &chosen["id"]), (&json!(expected), &json!("gpt-5.4")));
        let config = client.call("config/read", json!({}))["config"].clone();
        assert_eq!(config["provider"], expected.to_lowercase(), "as Kward writes it");
        client.finish();
    }
    // A sign-in that is gone does not become a bill.
    let mut client = with("OPENAI_API_KEY");
    assert_eq!(client.call("models/current", json!({}))["provider"], "Codex");
    client.finish();
}

#[test]
fn a_login_that_is_about_to_end_is_renewed_and_kept() {
    let world = World::new();
    let old = json!({ "auth_mode": "openai_oauth", "tokens": { "access_token": "canary-old-access", "refresh_token": "canary-old-refresh" }, "expires_at": 1000 });
    world.file("home/.kward/auth.json", &old.to_string());
    let new =
        json!({ "access_token": "canary-new-access", "refresh_token": "canary-new-refresh", "expires_in": 3600 });
    world.provider.route("/oauth/token", Answer::json(200, &new));
    let mut client = Client::start(&mut world.command());
    let session = world.session(&mut client);
    world.provider.push(Reply::text("hello").answer(ProviderKind::Codex));
    assert_eq!(client.run(&session, "hi")["status"], "completed");
    assert_eq!(asked(&world, "/responses").header("authorization"), Some("Bearer canary-new-access"));
    let kept: Value = serde_json::from_slice(&std::fs::read(world.config_dir().join("auth.json")).unwrap()).unwrap();
    assert_eq!(kept["tokens"]["refresh_token"], "canary-new-refresh");
    client.finish();
}

#[test]
fn a_session_follows_as_soon_as_a_provider_is_set_up() {
    let world = World::new();
    let mut client = Client::start(&mut world.command());
    let session = world.session(&mut client);
    assert_eq!(client.run(&session, "hi")["status"], "failed");
    client.call("auth/loginWithApiKey", json!({ "providerId": "openrouter", "apiKey": "canary-of-this-test" }));
    world.provider.push(Reply::text("hello").answer(ProviderKind::OpenRouter));
    assert_eq!(client.run(&session, "again")["status"], "completed");
    client.finish();
}

#[test]
fn lists_come_from_the_providers_or_from_what_is_known() {
    let world = World::new();
    let models = json!({ "data": [{ "id": "vendor/b", "name": "B", "context_length": 1000 }, { "id": "vendor/a", "name": "A", "context_length": 2000 }] });
    world.provider.route("/models", Answer::json(200, &models));
    world.provider.route("/models/user", Answer::json(200, &models));
    let mut client = world.client_with(&[("OPENROUTER_API_KEY", "canary-of-this-test")]);
    let all = client.call("openrouter/catalog", json!({}))["models"].clone();
    let ids: Vec<&str> = all.as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["vendor/a", "vendor/b"]);
    let listed = client.call("models/list", json!({}))["models"].clone();
    let has = |provider: &str, id: &str| {
        listed.as_array().unwrap().iter().any(|m| m["provider"] == provider && m["id"] == id && m["model"] == id)
    };
    assert!(has("OpenRouter", "vendor/a") && has("Codex", "gpt-5.5"), "{listed}");
    assert!(listed.as_array().unwrap().iter().any(|m| m["current"] == true && m["id"] == "test-model"), "{listed}");
    client.finish();
}

#[test]
fn a_cost_is_told_where_the_price_is_known() {
    let world = World::new();
    let asks = |model: &str| {
        let mut command = world.command();
        command
            .env("KWARD_PROVIDER", "OpenAI")
            .env("OPENAI_API_KEY", "a-key-of-this-test")
            .env("OPENAI_MODEL", model);
        let mut client = Client::start(&mut command);
        let session = world.session(&mut client);
        let answer = Reply::text("ok").and_usage(1_000_000, 400_000, 100_000, 0);
        world.provider.push(answer.answer(ProviderKind::OpenAi));
        assert_eq!(client.run(&session, "hi")["status"], "completed");
        let stats = client.call("runtime/stats", json!({ "sessionId": session }));
        client.finish();
        stats["cost"].as_f64().map(|cost| (cost * 1000.0).round() / 1000.0)
    };
    assert_eq!(asks("gpt-4o"), Some(0.6 * 2.5 + 0.4 * 1.25 + 0.1 * 10.0));
    assert_eq!(asks("gpt-nobody-knows"), None, "no price, no number");
    world.config(&json!({ "prices": { "gpt-nobody-knows": { "input": 1, "output": 10 } } }));
    assert_eq!(asks("gpt-nobody-knows"), Some(2.0));
}
