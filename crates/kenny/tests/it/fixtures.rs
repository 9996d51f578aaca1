//! Every golden frame decodes, re-encodes to the same bytes where the contract fixes them, and every frame, tool,
//! error code and log level of the contract is there.

use std::collections::BTreeSet;

use crate::support::{golden, golden_all};
use convoke_core::secret::SecretText;
use convoke_kenny::frame::{self, AgentFrame, ErrorCode, HubFrame, LogLevel, Register, RemoteControl, Telemetry};
use convoke_kenny::policy::{Dialect, ShellMode};
use convoke_kenny::tools::{self, TOOLS};
use convoke_kenny::transcript::Transcript;
use convoke_kenny::{enrol, wire_bytes};
use ed25519_dalek::SigningKey;
use serde_json::Value;

/// Writes a decoded frame with the agent's own builders.
fn reencode(decoded: AgentFrame<'_>) -> String {
    match decoded {
        AgentFrame::Register(r) => {
            frame::register(&r.agent_id, &r.client_nonce.expect("a nonce").expect("32 bytes"), &r.meta)
        }
        AgentFrame::Auth { agent_sig } => frame::auth(&agent_sig),
        AgentFrame::Response(r) => {
            let id = r.id;
            match r.outcome() {
                Ok(result) => frame::response_ok(id, result),
                Err(error) => frame::response_error(id, &error.code, &error.message),
            }
        }
        AgentFrame::Telemetry(t) => frame::telemetry(&t.agent_id, &t.collected_at, &t.snapshot),
        AgentFrame::Log(l) => frame::log(&l.agent_id, &l.at, l.level, &l.target, &l.message, l.fields),
        AgentFrame::Ping => frame::ping(),
        AgentFrame::Pong => frame::pong(),
        AgentFrame::Unknown { kind } => panic!("unknown frame {kind}"),
    }
}

#[test]
fn agents_frames_survive_decoding_and_encoding() {
    for (name, text) in golden_all("agent") {
        let decoded = AgentFrame::decode(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(reencode(decoded), text, "{name}");
    }
}

#[test]
fn hubs_frames_survive_decoding_and_encoding() {
    for (name, text) in golden_all("hub") {
        let decoded = HubFrame::decode(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(decoded.encode(), text, "{name}");
    }
}

#[test]
fn what_newer_servers_say_beside_the_rules_costs_no_rule() {
    let text = r#"{"type":"policy","rules":[{"id":"a","applies_to":"posix","pattern":"x","reason":"r"}],"shell":{"mode":"allowlist","allow":[]},"collect":{"web_activity":false}}"#;
    let HubFrame::Policy { rules, skipped, shell } = HubFrame::decode(text).expect("a frame") else { panic!() };
    assert_eq!((rules.len(), skipped), (1, 0));
    assert_eq!(shell.map(|shell| shell.mode), Some(ShellMode::Allowlist));
    let newest = register_dialect(&golden("field/register_0_20.json"));
    assert_eq!(HubFrame::policy_for(newest, []).encode(), golden("hub/policy_shell.json"));
    let older = register_dialect(&golden("field/register_0_17.json"));
    assert_eq!(HubFrame::policy_for(older, []).encode(), golden("hub/policy_empty.json"));
}

/// What the agent of a golden `register` understands.
fn register_dialect(text: &str) -> Dialect {
    let register = register(text);
    Dialect::new(register.protocol.and_then(Result::ok), &[])
}

#[test]
fn every_frame_of_the_contract_is_there() {
    let kinds = |folder| -> BTreeSet<String> {
        let kind = |text: &str| -> Option<String> {
            Some(serde_json::from_str::<Value>(text).ok()?.get("type")?.as_str()?.to_owned())
        };
        golden_all(folder).iter().map(|(name, text)| kind(text).unwrap_or_else(|| panic!("{name}"))).collect()
    };
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    assert_eq!(kinds("agent"), set(&["auth", "log", "ping", "pong", "register", "response", "telemetry"]));
    assert_eq!(kinds("hub"), set(&["challenge", "ping", "policy", "pong", "request"]));

    for code in ErrorCode::CONTRACT {
        let text = golden(&format!("agent/response_error_{code}.json"));
        let Ok(AgentFrame::Response(response)) = AgentFrame::decode(&text) else { panic!("{code}") };
        assert_eq!(response.outcome().expect_err("a failure").code, code);
    }
    for level in LogLevel::ALL {
        let text = golden(&format!("agent/log_{}.json", level.name()));
        assert!(matches!(AgentFrame::decode(&text), Ok(AgentFrame::Log(log)) if log.level == level));
    }
    for tool in TOOLS {
        let text = golden(&format!("hub/request_{}.json", tool.name));
        let Ok(HubFrame::Request { tool: name, args, .. }) = HubFrame::decode(&text) else { panic!("{}", tool.name) };
        let args: Value = serde_json::from_str(args.get()).expect("checked by the decoder");
        assert_eq!(name, tool.name);
        assert_eq!(tools::validate_args(&name, &args), Ok(()));
    }
}

#[test]
fn a_full_snapshot_has_the_contracts_sections() {
    let text = golden("agent/telemetry_all_sections.json");
    let telemetry = telemetry(&text);
    let names: Vec<_> = telemetry.snapshot.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        names,
        [
            "disk",
            "peripherals",
            "network",
            "routing",
            "processes",
            "services",
            "defender",
            "win_update",
            "disk_smart",
            "battery",
            "memory",
            "thermals",
            "firewall",
            "encryption",
            "av_thirdparty",
            "defender_quarantine",
            "reboot_pending",
            "os_support",
            "reliability",
            "app_updates",
            "uptime",
            "time_sync",
            "printers",
            "wifi_quality",
            "autostart"
        ]
    );
    for (name, payload) in telemetry.snapshot {
        let payload: Value = serde_json::from_str(payload.get()).expect("checked by the decoder");
        assert!(payload["status"].is_string() && payload["summary"].is_string(), "{name}");
    }
}

#[test]
fn malformed_frames_are_refused_in_these_words() {
    for (side, decode) in [
        ("agent", (|t| AgentFrame::decode(t).err().map(|e| e.to_string())) as fn(&str) -> Option<String>),
        ("hub", |t| HubFrame::decode(t).err().map(|e| e.to_string())),
    ] {
        for (name, file) in golden_all(&format!("malformed/{side}")) {
            let file: Value = serde_json::from_str(&file).expect("JSON");
            let text = file["text"].as_str().expect("text");
            assert_eq!(decode(text).as_deref(), file["error"].as_str(), "{side}/{name}");
        }
    }
}

#[test]
fn an_error_never_quotes_the_payload() {
    for text in [
        r#"{"type":"register","agent_id":"a","token":{"hunter2":"hunter2"}}"#,
        r#"{"type":"register","agent_id":"a","token":"hunter2"#,
        r#"{"type":"auth","agent_sig":"hunter2"}"#,
        r#"{"type":"response","id":"hunter2","ok":true}"#,
    ] {
        let error = AgentFrame::decode(text).expect_err("malformed");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    let Ok(AgentFrame::Register(register)) =
        AgentFrame::decode(r#"{"type":"register","agent_id":"a","token":"hunter2"}"#)
    else {
        panic!("a register");
    };
    assert!(!format!("{register:?}").contains("hunter2"));
}

#[test]
fn what_the_field_sends_is_read() {
    for (name, text) in golden_all("field") {
        AgentFrame::decode(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    }

    let text = golden("field/register_0_17.json");
    let newer = register(&text);
    assert!(newer.protocol.expect("a version").expect("well formed").signs());
    assert_eq!((newer.meta.arch.as_deref(), newer.meta.channel.as_deref()), (Some("x86_64"), Some("stable")));

    for legacy in ["field/register_token.json", "field/register_nulls.json"] {
        let text = golden(legacy);
        let legacy = register(&text);
        assert!(legacy.protocol.is_none() && legacy.client_nonce.is_none());
        assert_eq!(legacy.token.as_ref().map(SecretText::reveal), Some("legacy-example-token"));
    }

    let text = golden("agent/register_with_features.json");
    let ours = register(&text);
    assert_eq!(ours.meta.features, ["posix"]);
    assert_eq!(ours.meta.remote_control, Some(RemoteControl::Disabled));
}

#[test]
fn failures_of_the_field_keep_their_code() {
    let code = |path: &str| {
        let text = golden(path);
        let Ok(AgentFrame::Response(response)) = AgentFrame::decode(&text) else { panic!("{path}") };
        response.outcome().map(|raw| raw.get().to_owned()).map_err(|e| e.code)
    };
    assert_eq!(code("field/response_error_paused.json"), Err(ErrorCode::Paused));
    assert_eq!(code("field/response_error_future.json"), Err(ErrorCode::Other("needs_reboot".into())));
    assert_eq!(code("field/response_no_error.json"), Err(ErrorCode::Internal));
    assert_eq!(code("field/response_no_result.json"), Ok("null".into()));
    assert_eq!(code("field/response_type_last.json"), Ok(r#"{"ok":true}"#.into()));
}

#[test]
fn codes_outside_the_contract_are_not_sent() {
    for code in [ErrorCode::Paused, ErrorCode::Other("needs_reboot".into())] {
        let text = frame::response_error(uuid::Uuid::nil(), &code, "m");
        assert!(text.contains(r#""code":"internal""#), "{text}");
    }
}

#[test]
fn an_id_is_found_without_reading_on() {
    let text = golden("agent/response_ok.json");
    let id = frame::response_id(&text).expect("an id");
    assert_eq!(id.to_string(), "9f1c0e2a-4b7d-4c1e-9a53-2f6d8b0c7e11");
    // The rest may be missing or rubbish: only the beginning is read.
    assert_eq!(frame::response_id(&text[..75]), Some(id));
    assert_eq!(frame::response_id(&golden("field/response_type_last.json")), Some(id));
    for other in ["agent/ping.json", "agent/telemetry.json", "hub/request_net_config.json"] {
        assert_eq!(frame::response_id(&golden(other)), None, "{other}");
    }
}

#[test]
fn rules_of_an_unknown_group_are_skipped_and_the_others_kept() {
    let text = r#"{"type":"policy","rules":[
        {"id":"a","applies_to":"powershell","pattern":"x","reason":"r","severity":3},
        {"id":"b","applies_to":"registry","pattern":"x","reason":"r"},
        {"id":"c","applies_to":"path"},
        "nonsense"]}"#;
    let Ok(HubFrame::Policy { rules, skipped, .. }) = HubFrame::decode(text) else { panic!("a policy") };
    assert_eq!(rules.iter().map(|r| &*r.id).collect::<Vec<_>>(), ["a"]);
    assert_eq!(skipped, 3);
}

#[test]
fn text_without_escapes_is_borrowed() {
    use std::borrow::Cow;
    let text = golden("agent/telemetry_all_sections.json");
    let telemetry = telemetry(&text);
    assert!(matches!(telemetry.agent_id, Cow::Borrowed(_)));
    assert!(telemetry.snapshot.iter().all(|(name, _)| matches!(name, Cow::Borrowed(_))));
}

/// The vectors were made with another library (see the folder's README); ours must agree byte for byte.
#[test]
fn the_mutual_auth_vectors_hold() {
    let vectors: Value = serde_json::from_str(&golden("vectors/mutual_auth.json")).expect("JSON");
    let text = |name: &str| vectors[name].as_str().expect("text");
    let bytes = |name: &str| wire_bytes::decode::<32>(text(name)).expect("32 bytes");
    let transcript = Transcript::new(text("agent_id"), &bytes("client_nonce"), &bytes("server_nonce"));
    let hex: String = transcript.as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, text("transcript_hex"));
    for side in ["server", "agent"] {
        let key = SigningKey::from_bytes(&bytes(&format!("{side}_seed")));
        let public = enrol::parse_key(text(&format!("{side}_public_key"))).expect("a key");
        let signature = transcript.sign(&key);
        assert_eq!(key.verifying_key(), public);
        assert_eq!(wire_bytes::encode(&signature), text(&format!("{side}_sig")));
        assert!(transcript.verify(&public, &signature));
    }
}

fn register(text: &str) -> Box<Register<'_>> {
    match AgentFrame::decode(text) {
        Ok(AgentFrame::Register(register)) => register,
        other => panic!("not a register: {other:?}"),
    }
}

fn telemetry(text: &str) -> Telemetry<'_> {
    match AgentFrame::decode(text) {
        Ok(AgentFrame::Telemetry(telemetry)) => telemetry,
        other => panic!("not telemetry: {other:?}"),
    }
}

#[test]
fn a_shell_policy_is_read_and_in_doubt_the_strictest() {
    use convoke_kenny::policy::{ShellMode, ShellPolicy};
    let read = |shell: &str| {
        let text = format!(r#"{{"type":"policy","rules":[],"shell":{shell}}}"#);
        let Ok(HubFrame::Policy { shell, skipped, .. }) = HubFrame::decode(&text) else { panic!("a policy: {text}") };
        (shell, skipped)
    };
    let rule = r#"{"id":"a","applies_to":"posix","pattern":"id","reason":"r"}"#;
    let (shell, skipped) = read(&format!(r#"{{"mode":"allowlist","allow":[{rule},{{"id":"b"}}],"more":1}}"#));
    let shell = shell.expect("a policy");
    assert_eq!((shell.mode, shell.allow.len(), skipped), (ShellMode::Allowlist, 1, 1));
    let again = HubFrame::Policy { rules: Vec::new(), skipped: 0, shell: Some(shell.clone()) }.encode();
    assert!(matches!(HubFrame::decode(&again), Ok(HubFrame::Policy { shell: Some(same), .. }) if same == shell));
    assert_eq!(read("null"), (None, 0));
    assert_eq!(read(r#"{"mode":"unrestricted"}"#), (Some(ShellPolicy::default()), 0));
    for odd in
        [r#"{"mode":"telepathy","allow":[]}"#, "7", "{}", r#"{"mode":1}"#, r#"{"mode":"allowlist","allow":{}}"#]
    {
        assert_eq!(read(odd).0.map(|shell| shell.mode), Some(ShellMode::Off), "{odd}");
    }
}
