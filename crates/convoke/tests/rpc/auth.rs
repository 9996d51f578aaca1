//! Signing in, keys, and what clients are told of both.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;

use convoke_models::ProviderKind;
use convoke_models::testkit::{Answer, Reply};
use serde_json::{Value, json};

use crate::client::Client;
use crate::world::World;

fn signing_in(world: &World) -> Client {
    let mut command = world.command();
    command.env("OPENAI_OAUTH_BASE_URL", world.provider.url()).env("KWARD_OAUTH_PORT", "0");
    Client::start(&mut command)
}

fn tokens() -> Answer {
    Answer::json(
        200,
        &json!({ "access_token": "canary-access-token-1", "refresh_token": "canary-refresh-token-1", "id_token": "canary-id-token-1", "expires_in": 3600 }),
    )
}

#[test]
fn a_person_signs_in_by_the_browser() {
    let world = World::new();
    world.provider.route("/oauth/token", tokens());
    let mut client = signing_in(&world);
    let login = client.call("auth/startOpenAILogin", json!({}));
    assert_eq!((&login["providerId"], &login["status"]), (&json!("openai"), &json!("pending")));
    let address = login["authorizationUrl"].as_str().unwrap();
    assert!(address.starts_with(&format!("{}/oauth/authorize?", world.provider.url())), "{address}");
    assert_eq!(client.call("auth/loginStatus", json!({ "loginId": login["loginId"] }))["status"], "pending");
    // What the browser does in the end.
    let state = address.split("state=").nth(1).unwrap().split('&').next().unwrap();
    let callback = login["redirectUri"].as_str().unwrap();
    visit(&format!("{callback}?code=the-code&state={state}"));
    let finished = client.wait("the end", |frame| frame["method"] == "auth/loginFinished")["params"].clone();
    assert_eq!((&finished["status"], &finished["loginId"]), (&json!("completed"), &login["loginId"]));
    assert_eq!(client.call("auth/loginStatus", json!({ "loginId": login["loginId"] }))["status"], "completed");

    let auth = world.config_dir().join("auth.json");
    assert_eq!(std::fs::metadata(&auth).unwrap().permissions().mode() & 0o777, 0o600);
    let stored: Value = serde_json::from_slice(&std::fs::read(&auth).unwrap()).unwrap();
    assert_eq!(
        (&stored["auth_mode"], &stored["tokens"]["access_token"]),
        (&json!("openai_oauth"), &json!("canary-access-token-1"))
    );
    let status = client.call("auth/status", json!({}));
    assert_eq!(
        (&status["openaiOAuth"], &status["openrouterApiKey"], &status["githubOAuth"]),
        (&json!(true), &json!(false), &json!(false))
    );
    let card = client.call("auth/providers", json!({}))["providers"][0].clone();
    assert_eq!(
        (&card["configured"], &card["source"], &card["canLogout"], &card["label"]),
        (&json!(true), &json!("stored"), &json!(true), &json!("Signed in"))
    );
    assert_eq!(
        client.call("auth/logoutProvider", json!({ "providerId": "openai" }))["message"],
        "Logged out of OpenAI."
    );
    assert!(!auth.exists());
    client.hang_up();
    assert!(!client.ended().stdout.contains("canary-"), "no token leaves");
}

#[test]
fn a_code_may_be_pasted_and_a_wrong_one_pasted_again() {
    let world = World::new();
    world.provider.route("/oauth/token", tokens());
    let mut client = signing_in(&world);
    let login = client.call("auth/loginWithOAuth", json!({ "providerId": "openai", "timeoutSeconds": 60 }));
    let id = login["loginId"].clone();
    let wrong = format!("{}?code=x&state=other", login["redirectUri"].as_str().unwrap());
    assert_eq!(
        client.refused("auth/submitOpenAICode", json!({ "loginId": id, "code": wrong }))["message"],
        "OAuth state mismatch"
    );
    let done = client.call("auth/submitOpenAICode", json!({ "loginId": id, "code": "the-code" }));
    assert_eq!(done["status"], "completed");
    assert_eq!(
        client.refused("auth/submitOpenAICode", json!({ "loginId": id, "code": "again" }))["message"],
        "Login is not pending"
    );
    client.finish();
}

#[test]
fn a_login_that_nobody_finishes_fails_and_is_told() {
    let world = World::new();
    let mut client = signing_in(&world);
    let login = client.call("auth/startOpenAILogin", json!({ "timeoutSeconds": 0.05 }));
    let finished = client.wait("the end", |frame| frame["method"] == "auth/loginFinished")["params"].clone();
    assert_eq!((&finished["status"], &finished["loginId"]), (&json!("failed"), &login["loginId"]));
    assert!(finished["error"].as_str().unwrap().contains("timed out"));
    client.finish();
}

#[test]
fn a_login_that_has_run_out_is_renewed_for_the_next_turn() {
    let world = World::new();
    let old = json!({
        "auth_mode": "openai_oauth", "account_id": "acc-1", "saved_at": "2026-01-01T00:00:00.000Z", "expires_at": 0,
        "tokens": { "access_token": "canary-old-access", "refresh_token": "canary-old-refresh", "account_id": "acc-1" },
    });
    world.file("home/.kward/auth.json", &old.to_string());
    world.provider.route("/oauth/token", tokens());
    world.provider.push(Reply::text("welcome back").answer(ProviderKind::Codex));
    let mut client = signing_in(&world);
    let session = world.session(&mut client);
    assert_eq!(client.run(&session, "hi")["status"], "completed");
    let asked = world.provider.received();
    assert_eq!(asked[0].json()["refresh_token"], "canary-old-refresh");
    assert_eq!(asked[1].header("authorization"), Some("Bearer canary-access-token-1"));
    let stored: Value =
        serde_json::from_slice(&std::fs::read(world.config_dir().join("auth.json")).unwrap()).unwrap();
    assert_eq!(stored["tokens"]["refresh_token"], "canary-refresh-token-1");
    client.hang_up();
    assert!(!client.ended().stdout.contains("canary-"), "no token leaves");
}

#[test]
fn a_key_is_kept_and_the_environments_is_shown_as_such() {
    let world = World::new();
    let mut client = world.client();
    let saved =
        client.call("auth/loginWithApiKey", json!({ "providerId": "openrouter", "apiKey": "canary-key-stored" }));
    assert_eq!(saved, json!({ "providerId": "openrouter", "message": "Saved API key for OpenRouter." }));
    let path = world.config_dir().join("config.json");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&path).unwrap().contains("canary-key-stored"));
    let card = client.call("auth/providers", json!({}))["providers"][1].clone();
    assert_eq!(
        (&card["source"], &card["canLogout"], &card["label"]),
        (&json!("stored"), &json!(true), &json!("API key configured"))
    );
    assert_eq!(client.call("config/read", json!({}))["config"]["openrouter_api_key"], "[REDACTED]");
    assert_eq!(
        client.call("config/read", json!({ "redacted": false }))["config"]["openrouter_api_key"],
        "canary-key-stored"
    );
    assert_eq!(
        client.call("auth/logoutProvider", json!({ "providerId": "openrouter" }))["message"],
        "Logged out of OpenRouter."
    );
    assert!(!std::fs::read_to_string(&path).unwrap().contains("canary-key-stored"));
    client.finish();

    let mut client = world.client_with(&[("OPENROUTER_API_KEY", "canary-key-from-env")]);
    let card = client.call("auth/providers", json!({}))["providers"][1].clone();
    assert_eq!(
        (&card["configured"], &card["source"], &card["canLogout"]),
        (&json!(true), &json!("environment"), &json!(false))
    );
    client.finish();
}

/// What a browser does with an address of this machine.
fn visit(address: &str) {
    let rest = address.strip_prefix("http://").expect("plain HTTP");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = std::net::TcpStream::connect(host).expect("somebody listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut page = String::new();
    let _ = stream.read_to_string(&mut page);
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}
