use std::time::Duration;

use convoke_core::secret::SecretText;

use super::*;

fn sources(flags: &[(&str, &str)], env: &[(&str, &str)], file: &str) -> Sources {
    let own = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
    let file = (!file.is_empty()).then(|| (PathBuf::from("convoke.toml"), file.to_owned()));
    Sources { flags: own(flags), env: own(env), file }
}

#[test]
fn the_stronger_source_wins_and_is_named() {
    let all = sources(
        &[("kenny.heartbeat_s", "5")],
        &[("CONVOKE_KENNY__HEARTBEAT_S", "6"), ("CONVOKE_CALLS__GRACE_S", "7"), ("PATH", "x")],
        "[kenny]\nheartbeat_s = 8\nmax_in_flight = 9\n",
    );
    let settings = Settings::resolve(&all).expect("valid");
    assert_eq!(settings.kenny.heartbeat_s, Duration::from_secs(5));
    assert_eq!(settings.calls.grace_s, Duration::from_secs(7));
    assert_eq!(settings.kenny.max_in_flight, 9);
    let from: BTreeMap<_, _> = settings.listing().map(|(s, _, from)| (s.name, from.to_string())).collect();
    assert_eq!(from["kenny.heartbeat_s"], "command line");
    assert_eq!(from["calls.grace_s"], "environment CONVOKE_CALLS__GRACE_S");
    assert_eq!(from["kenny.max_in_flight"], "file convoke.toml");
    assert_eq!(from["hub.listen"], "default");
}

#[test]
fn every_mistake_is_told_with_key_value_and_what_is_allowed() {
    let all = sources(
        &[("kenny.heartbeat_s", "soon")],
        &[("CONVOKE_KENNY__HARTBEAT_S", "1")],
        "[hub]\nlisten = \"nowhere\"\n",
    );
    let text = Settings::resolve(&all).expect_err("three mistakes").to_string();
    assert!(text.contains("`kenny.heartbeat_s` cannot be \"soon\"; allowed: a whole number from 1 to"), "{text}");
    assert!(text.contains("did you mean `CONVOKE_KENNY__HEARTBEAT_S`?"), "{text}");
    assert!(text.contains("`hub.listen` cannot be \"nowhere\""), "{text}");
}

#[test]
fn what_does_not_fit_together_is_told_and_secrets_are_not() {
    for (flags, word) in [
        (&[("calls.default_timeout_s", "500"), ("calls.max_timeout_s", "10")][..], "must not be more than"),
        (&[("yonexus.unstable_after_s", "500"), ("yonexus.offline_after_s", "10")], "yonexus.offline_after_s"),
        (&[("hub.allowed_origins", "foo")], "`foo` is not an origin"),
        (&[("hub.allowed_origins", "https://a/b")], "not an origin"),
        (&[("hub.allowed_origins", "https://a:b")], "not an origin"),
        (&[("hub.allowed_origins", "https://a:443")], "browsers write it as https://a"),
        (&[("hub.allowed_origins", "https://bücher")], "browsers write it as https://xn--bcher-kva"),
        (&[("kenny.agent_tokens", "a=ok,canary")], "entry 2 is not"),
        (&[("kenny.agent_tokens", "a b=canary")], "entry 1 is not"),
        (&[("hub.public_url", "https://u:p@a")], "without a user"),
        (&[("sonde.tls_listen", "foo")], "an IP address and a port"),
    ] {
        let told = Settings::resolve(&sources(flags, &[], "")).expect_err("it does not fit").to_string();
        assert!(told.contains(word) && !told.contains("canary"), "{flags:?}: {told}");
    }
    let fits = [("hub.allowed_origins", "https://a:8,vscode-webview://x"), ("sonde.tls_listen", "")];
    Settings::resolve(&sources(&fits, &[], "")).expect("fits");
}

#[test]
fn variables_of_the_other_parts_are_no_settings_of_the_hub() {
    let others = [
        "CONVOKE_AGENT_STATE",
        "CONVOKE_AGENT_TELEMETRY_S",
        "CONVOKE_ROOM_INVITE",
        "CONVOKE_RUN",
        "CONVOKE_COMMAND",
        "CONVOKE_RULE",
        "CONVOKE_LOG",
    ];
    for variable in others {
        Settings::resolve(&sources(&[], &[(variable, "x")], "")).expect(variable);
    }
    let told = Settings::resolve(&sources(&[], &[("CONVOKE_AGENTS", "x")], "")).expect_err("no such setting");
    assert!(told.to_string().contains("CONVOKE_AGENTS"), "{told}");
}

#[test]
fn what_does_not_fit_together_is_told_with_where_it_came_from() {
    let told = |flags: &[(&str, &str)], env: &[(&str, &str)], file: &str| {
        Settings::resolve(&sources(flags, env, file)).expect_err("it does not fit").to_string()
    };
    let order = told(&[("calls.max_timeout_s", "10")], &[("CONVOKE_CALLS__DEFAULT_TIMEOUT_S", "500")], "");
    assert!(order.starts_with("environment CONVOKE_CALLS__DEFAULT_TIMEOUT_S: `calls.default_timeout_s` (500)"));
    assert!(order.ends_with("`calls.max_timeout_s` (10, from command line)"), "{order}");
    let origin = told(&[], &[], "[hub]\nallowed_origins = [\"foo\"]\n");
    assert!(origin.starts_with("file convoke.toml: `hub.allowed_origins`: `foo`"), "{origin}");
    let token = told(&[], &[("KENNY_AGENT_TOKENS", "canary")], "");
    assert!(token.starts_with("environment KENNY_AGENT_TOKENS: `kenny.agent_tokens`: entry 1"), "{token}");
}

#[test]
fn a_file_that_is_no_toml_is_told_with_the_place() {
    let told = Settings::resolve(&sources(&[], &[], "[kenny]\nheartbeat_s = \n")).expect_err("no TOML").to_string();
    assert!(told.contains("convoke.toml: line 2, column 15: "), "{told}");
}

#[test]
fn an_address_that_is_needed_is_not_emptied() {
    let told = Settings::resolve(&sources(&[("yonexus.discord_base_url", "")], &[], "")).expect_err("empty");
    assert!(told.to_string().contains("an http:// or https:// address"), "{told}");
    let fits = [("hub.public_url", ""), ("yonexus.webhook_url", "")];
    Settings::resolve(&sources(&fits, &[], "")).expect("these may be unset");
}

#[test]
fn a_certificate_needs_its_key() {
    let text = Settings::resolve(&sources(&[("tls.cert", "c.pem")], &[], "")).expect_err("no key").to_string();
    assert!(text.contains("go together"), "{text}");
}

#[test]
fn secret_settings_are_never_shown() {
    let all = sources(&[], &[("KENNY_AGENT_TOKENS", "pc=canary")], "");
    let settings = Settings::resolve(&all).expect("valid");
    assert!(settings.listing().all(|(_, value, _)| !value.contains("canary")));
    assert!(!format!("{settings:?}").contains("canary"));
    let [listed] = settings.kenny.agent_tokens.as_slice() else { panic!("one token: {settings:?}") };
    assert_eq!((listed.agent.as_str(), listed.token.reveal()), ("pc", "canary"));
}

#[test]
fn every_default_parses() {
    let settings = Settings::resolve(&Sources::default()).expect("defaults");
    assert_eq!(settings.hub.listen.port(), 7410);
    assert_eq!(settings.hub.log_level, LogLevel::Info);
    assert_eq!(settings.sonde.changed_agents, ChangedAgents::Flag);
    assert_eq!((&settings.tls.cert, &settings.hub.public_url, settings.sonde.tls_listen), (&None, &None, None));
    assert!(settings.warnings().is_empty());
    for setting in SETTINGS {
        assert!(!setting.doc.is_empty());
    }
}

#[test]
fn values_are_read_into_their_types() {
    let flags = [
        ("hub.public_url", "https://hub.example/"),
        ("hub.log_level", "debug"),
        ("hub.allowed_hosts", "a, b"),
        ("sonde.changed_agents", "restrict"),
        ("sonde.tls_listen", "[::1]:7411"),
        ("rooms.frames_per_second", "7"),
        ("yonexus.webhook_secret", "canary"),
    ];
    let settings = Settings::resolve(&sources(&flags, &[], "")).expect("valid");
    assert_eq!(settings.hub.public_url.as_deref(), Some("https://hub.example"));
    assert_eq!(settings.hub.log_level, LogLevel::Debug);
    assert_eq!(settings.hub.allowed_hosts, ["a", "b"]);
    assert_eq!(settings.sonde.changed_agents, ChangedAgents::Restrict);
    assert_eq!(settings.sonde.tls_listen.map(|address| address.port()), Some(7411));
    assert_eq!(settings.rooms.frames_per_second, 7);
    assert_eq!(settings.yonexus.webhook_secret.as_ref().map(SecretText::reveal), Some("canary"));
    assert!(!format!("{settings:?}").contains("canary"));
}

#[test]
fn a_retired_setting_is_ignored_with_a_warning_from_every_source() {
    for (name, why) in RETIRED {
        assert!(SETTINGS.iter().all(|setting| setting.name != *name), "{name} is still a setting");
        let (group, key) = name.split_once('.').expect("a dotted name");
        let file = format!("[{group}]\n{key} = [1]\n");
        let all = sources(&[(name, "x")], &[(&variable(name), "x")], &file);
        let settings = Settings::resolve(&all).expect("it is no mistake");
        let sources = ["file convoke.toml", &format!("environment {}", variable(name)), "command line"];
        let warnings = sources.map(|from| format!("{from}: the setting `{name}` is ignored; {why}"));
        assert_eq!(settings.warnings(), warnings);
        assert!(settings.listing().all(|(setting, ..)| setting.name != *name));
    }
}
