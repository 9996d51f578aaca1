use serde_json::json;

use super::*;

#[track_caller]
fn check(text: &str, expect: &str) {
    assert_eq!(Scrubber::default().text(text), expect);
    assert_eq!(Scrubber::default().text(expect), expect, "scrubbing twice changes nothing more");
}

#[test]
fn what_is_no_secret_stays() {
    for text in [
        "monkey: banana",
        "key: net0",
        "keyboard=us",
        "https://example.org:8080/path@2x.png",
        "http://host:80/a?b=c",
        "the bearer of bad news",
        "tokens: 12 of 100",
        "listening on tcp://0.0.0.0:2375",
        "primary_key=id",
        "public_key=ssh-ed25519 AAAA",
        "basic auth",
        "user@example.org: hello",
        "Passenger: 3",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    ] {
        check(text, text);
    }
}

#[test]
fn a_value_is_taken_to_its_end() {
    check("PASSWORD: two words", "PASSWORD: [REDACTED]");
    check("DB_PASSWORD=hunter2 two", "DB_PASSWORD=[REDACTED]");
    check("export API_KEY=abc", "export API_KEY=[REDACTED]");
    check("a\nTOKEN=x y\nHOST=z", "a\nTOKEN=[REDACTED]\nHOST=z");
    check("login user=bob password=hunter2 ok", "login user=bob password=[REDACTED] ok");
    check("password=\"two words\" host=x", "password=\"[REDACTED]\" host=x");
    check("password='it\\'s' x", "password='[REDACTED]' x");
    check(r#"{"password": "a\"b", "host": "x"}"#, r#"{"password": "[REDACTED]", "host": "x"}"#);
    check("{\"password\":12345,\"a\":1}", "{\"password\":[REDACTED],\"a\":1}");
    check("Authorization: Digest username=x", "Authorization: [REDACTED]");
    check("url?token=abc&x=1", "url?token=[REDACTED]&x=1");
    check("secret => abc", "secret => [REDACTED]");
    check("password:", "password:");
    check("password: a, host: b", "password: [REDACTED], host: b");
    check("password: a, b", "password: [REDACTED]");
}

#[test]
fn credentials_in_urls_go_whatever_the_scheme() {
    check("postgres://bob:hunter2@db:5432/x", "postgres://bob:[REDACTED]@db:5432/x");
    check("mongodb+srv://bob:p@ss@db/x", "mongodb+srv://bob:[REDACTED]@db/x");
    check("redis://:secret@h", "redis://:[REDACTED]@h");
    check("https://u:12345@h/", "https://u:[REDACTED]@h/");
    check("amqp://u:p/w@h", "amqp://u:[REDACTED]@h");
}

#[test]
fn secrets_show_by_their_form() {
    check("Bearer abc.def-123", "Bearer [REDACTED]");
    check("key is AKIAIOSFODNN7EXAMPLE.", "key is [REDACTED].");
    check("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig_-", "[REDACTED]");
    check("x ghp_0123456789abcdefghijklmnopqrstuvwxyz y", "x [REDACTED] y");
    check("a\n-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", "a\n[REDACTED]\nb");
    check("-----BEGIN PRIVATE KEY-----\nMIIE cut off", "[REDACTED]");
}

#[test]
fn values_are_scrubbed_by_name_and_inside() {
    let mut value = json!({
        "password": "x", "pin": 1, "dbPassword": 12345, "tokens": 12, "apiKey": "k", "key": "net0", "empty_secret": "",
        "credentials": {"user": "u", "n": [1, "v"]}, "totalKeys": 3,
        "lines": ["ok", "-----BEGIN PRIVATE KEY-----", "MIIEvQ", "-----END PRIVATE KEY-----", "PASSWORD=x"],
        "nested": [{"env": "A_TOKEN=b"}],
    });
    Scrubber::default().value(&mut value);
    assert_eq!(
        value,
        json!({
            "password": "[REDACTED]", "pin": 1, "dbPassword": "[REDACTED]", "tokens": 12, "apiKey": "[REDACTED]",
            "key": "net0", "empty_secret": "",
            "credentials": {"user": "[REDACTED]", "n": [1, "[REDACTED]"]}, "totalKeys": 3,
            "lines": ["ok", "[REDACTED]", "[REDACTED]", "[REDACTED]", "PASSWORD=[REDACTED]"],
            "nested": [{"env": "A_TOKEN=[REDACTED]"}],
        })
    );
}

#[test]
fn an_operators_patterns_are_used_and_bad_ones_refused() {
    let scrubber = Scrubber::new(&["kunde-[0-9]+".into()]).expect("a good pattern");
    assert_eq!(scrubber.text("KUNDE-17 und kunde-x"), "[REDACTED] und kunde-x");
    for bad in ["(", "x*", "(?i", &"a{1000}{1000}".repeat(3)] {
        assert!(Scrubber::new(&[bad.into()]).is_err(), "{bad}");
    }
    assert!(Scrubber::new(&vec!["x".into(); MAX_CUSTOM + 1]).is_err());
}

proptest::proptest! {
    #[test]
    fn a_password_never_survives(
        name in "(DB_|my-|)(PASSWORD|api_key|Token|clientSecret)",
        sep in "(=|: |=\")",
        secret in "Zq[a-zA-Z0-9!$%+]{8,20}Zq",
        before in "[a-z ]{0,10}",
    ) {
        let text = format!("{before}\n{name}{sep}{secret}");
        let scrubbed = Scrubber::default().text(&text);
        proptest::prop_assert!(!scrubbed.contains(&secret), "{} -> {}", text, scrubbed);
        proptest::prop_assert!(scrubbed.contains(&name), "the name stays: {}", scrubbed);
    }

    #[test]
    fn any_text_is_scrubbed_without_panic(text in "\\PC{0,80}") {
        let _ = Scrubber::default().text(&text);
    }
}
