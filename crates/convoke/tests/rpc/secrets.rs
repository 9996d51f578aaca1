//! Canaries in every place a secret can be, and a search through everything that leaves.

use std::path::Path;

use convoke_models::testkit::{Answer, Reply};
use serde_json::json;

use crate::world::World;

const KEYS: [(&str, &str); 9] = [
    ("OPENAI_ACCESS_TOKEN", "canary-env-access-token"),
    ("OPENAI_API_KEY", "canary-env-openai-key"),
    ("OPENROUTER_API_KEY", "canary-env-openrouter-key"),
    ("LOCAL_API_KEY", "canary-env-local-key"),
    ("ANTHROPIC_API_KEY", "canary-env-anthropic"),
    ("GITHUB_TOKEN", "canary-1"),
    ("AWS_SECRET_ACCESS_KEY", "canary-env/aws+key"),
    ("HF_TOKEN", "canary-env-hf"),
    ("DATABASE_URL", "postgres://bob:canary-env-db@db/x"),
];

#[test]
fn no_secret_leaves() {
    let world = World::new();
    world.config(&json!({
        "openrouter_api_key": "canary-config-openrouter", "openai_api_key": "canary-config-openai",
        "mcpServers": { "x": { "env": { "api_key": "canary-config-nested" } } },
        "logging": { "enabled": true, "tokens": true, "performance": true, "tools": true, "errors": true },
        "memory": { "enabled": true },
    }));
    world.file(
        "home/.kward/auth.json",
        &json!({ "tokens": { "access_token": "canary-auth-access", "refresh_token": "canary-auth-refresh" } })
            .to_string(),
    );
    let mut client = world.client_with(&KEYS);
    let session = world.session(&mut client);
    for method in [
        "config/read",
        "auth/status",
        "auth/providers",
        "models/list",
        "runtime/state",
        "initialize",
        "memory/inspect",
    ] {
        client.call(method, json!({ "sessionId": session }));
    }
    client.call("config/update", json!({ "values": { "local_api_key": "canary-updated-key", "harmless": 1 } }));
    client.call("auth/loginWithApiKey", json!({ "providerId": "openrouter", "apiKey": "canary-login-key" }));
    client.call("memory/add", json!({ "text": "the key is canary-login-key" }));
    // A provider that repeats what it was sent, and a command that prints all it can reach.
    world.provider.push(Answer::error(401, "invalid_api_key", "Incorrect API key provided: canary-env-local-key"));
    assert_eq!(client.run(&session, "first")["status"], "failed");
    let command = "env; cat $HOME/.kward/config.json $HOME/.kward/auth.json";
    world.says(&Reply::text("").and_call("c1", "run_shell_command", &json!({ "command": command })));
    world.says(&Reply::text("It says canary-config-openrouter and canary-auth-refresh."));
    let turn = client.turn(&session, "look around");
    let shown = client.event(&turn, "toolResult")["content"].as_str().unwrap().to_owned();
    assert!(shown.contains("[REDACTED]"), "{shown}");
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    client.call("sessions/export", json!({ "sessionId": session }));
    client.call("logging/stats", json!({}));
    client.call("sessions/transcript", json!({ "sessionId": session }));
    client.hang_up();
    let ended = client.ended();
    assert!(!ended.stdout.contains("canary-"), "{}", around(&ended.stdout));
    assert_eq!(ended.stderr, "");
    // Nor does it stand in any file but the two that are made for it.
    for path in files(&world.config_dir()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name != "config.json" && name != "auth.json" {
            let text = std::fs::read_to_string(&path).unwrap();
            assert!(!text.contains("canary-"), "{}: {}", path.display(), around(&text));
        }
    }
    // Nor was it sent to the model as part of the conversation.
    for asked in world.provider.received() {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        assert!(!body.contains("canary-"), "{}", around(&body));
    }
}

#[test]
fn a_secret_in_two_pieces_does_not_leave_either() {
    let world = World::new();
    let mut client = world.client_with(&KEYS);
    let session = world.session(&mut client);
    // The second half is printed when the first has been read.
    let status = std::process::Command::new("mkfifo").arg(world.work().join("gate")).status();
    assert!(status.is_ok_and(|status| status.success()), "mkfifo");
    let command = "echo begun; printf 'key=canary-env-lo'; read _ < gate; printf 'cal-key;\\n'; echo 'canary-env-'";
    world.says(&Reply::text("").and_call("c1", "run_shell_command", &json!({ "command": command })));
    world.says(&Reply::text("It is canary-env").and_text("-local-").and_text("key, or canary").and_text("-bird."));
    let turn = client.turn(&session, "go");
    client.event(&turn, "toolUpdate");
    std::fs::write(world.work().join("gate"), "\n").unwrap();
    assert_eq!(client.event(&turn, "turnFinished")["status"], "completed");
    let events = client.events(&turn);
    let told = |kind: &str, path: &str| -> String {
        let of_kind = events.iter().filter(|event| event["type"] == kind);
        of_kind.filter_map(|event| event["payload"].pointer(path)?.as_str()).collect()
    };
    assert_eq!(told("toolUpdate", "/delta/content"), "begun\nkey=[REDACTED];\ncanary-env-\n");
    assert_eq!(told("assistantDelta", "/delta"), "It is [REDACTED], or canary-bird.");
    assert_eq!(told("answer", "/content"), "It is [REDACTED], or canary-bird.");
    client.finish();
}

fn around(text: &str) -> String {
    let at = text.find("canary-").unwrap_or(0);
    text.chars().skip(text[..at].chars().count().saturating_sub(80)).take(200).collect()
}

fn files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
