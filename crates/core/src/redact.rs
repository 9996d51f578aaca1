//! Arguments as the journal may show them: secrets removed, size bounded. The journal also keeps a keyed digest of
//! the exact arguments, so nothing that proves what was asked is lost with them.

mod command;
mod names;
mod programs;
mod words;

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use serde_json::value::RawValue;

/// The text that replaces a secret.
pub const REMOVED: &str = "[removed]";

/// Largest text kept of one string; the rest is told as a count.
pub const MAX_TEXT: usize = 8 * 1024;

/// Largest name of an argument that is kept.
const MAX_NAME: usize = 256;

/// Most arguments that are read as one command.
const MAX_WORDS: usize = 4096;

/// Largest arguments kept in a record; above it only the names of the arguments are.
pub const MAX_ARGS: usize = 32 * 1024;

/// The arguments without secrets and within bounds, as JSON text. Text that is no JSON is not shown at all.
pub fn args(raw: &RawValue) -> Box<RawValue> {
    let text = raw.get();
    // Most calls carry a path or nothing: then the text stands as it is and no tree is built.
    if text.len() <= MAX_TEXT && !may_hold_secret(text) {
        return raw.to_owned();
    }
    let before: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let mut value = before.clone();
    clean(&mut value, 0);
    if value == before && text.len() <= MAX_ARGS {
        return raw.to_owned();
    }
    let cleaned = serde_json::value::to_raw_value(&value);
    match cleaned {
        Ok(cleaned) if cleaned.get().len() <= MAX_ARGS => cleaned,
        _ => {
            let keys: Vec<&String> = value.as_object().map(|o| o.keys().take(64).collect()).unwrap_or_default();
            let note = serde_json::json!({ "[too large to keep]": text.len(), "[arguments]": keys });
            serde_json::value::to_raw_value(&note).unwrap_or_else(|_| RawValue::NULL.to_owned())
        }
    }
}

/// Whether an argument of this name holds a secret, whatever its value.
pub fn is_secret_name(name: &str) -> bool {
    static NAMES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            "(?i)pass(word|wd|phrase|code)|^pwd$|^pin$|secret|token|credential|(api|access|private|signing|account|shared)[-_. ]?key|authorization|cookie|^auth$",
        )
        .expect("a constant pattern, compiled by a test")
    });
    NAMES.is_match(name) || names::names_secret(name)
}

fn clean(value: &mut Value, depth: usize) {
    match value {
        Value::Object(map) => {
            clean_program(map);
            for (mut name, mut value) in std::mem::take(map) {
                // Counts and switches are no secrets: `max_tokens: 5` stays.
                if is_secret_name(&name) && !matches!(value, Value::Number(_) | Value::Bool(_) | Value::Null) {
                    value = Value::String(REMOVED.into());
                } else if depth < 64 {
                    clean(&mut value, depth + 1);
                }
                clean_string(&mut name, MAX_NAME);
                map.insert(name, value);
            }
        }
        Value::Array(items) => {
            for run in items.chunk_by_mut(|a, b| a.is_string() && b.is_string()) {
                clean_words(run.iter_mut());
            }
            if depth < 64 {
                items.iter_mut().for_each(|item| clean(item, depth + 1));
            }
        }
        Value::String(text) => clean_string(text, MAX_TEXT),
        _ => {}
    }
}

/// Whether a variable of the environment that is called so holds a secret.
pub fn is_secret_variable(name: &str) -> bool {
    names::names_secret(name) && !name.to_ascii_uppercase().ends_with("ASKPASS")
}

/// The text without secrets, cut to this length.
fn clean_string(text: &mut String, most: usize) {
    *text = clean_text(text);
    if text.len() > most {
        let cut = text.floor_char_boundary(most);
        let rest = text.len() - cut;
        text.truncate(cut);
        text.push_str(&format!("… [{rest} more bytes]"));
    }
}

/// Arguments that are the words of one command: `["mysqldump", "--password", "x"]`.
fn clean_words<'v>(items: impl Iterator<Item = &'v mut Value>) {
    let mut items: Vec<&mut String> =
        items.filter_map(|item| if let Value::String(text) = item { Some(text) } else { None }).collect();
    for run in items.chunks_mut(MAX_WORDS) {
        let mut words: Vec<String> = run.iter().map(|text| text.to_string()).collect();
        command::cleaned_words(&mut words);
        run.iter_mut().zip(words).for_each(|(text, word)| **text = word);
    }
}

/// `{"command": "sshpass", "args": ["-p", "x"]}`: the same in two arguments.
fn clean_program(map: &mut serde_json::Map<String, Value>) {
    let program = ["command", "program", "cmd", "exe", "executable", "file"].iter().find_map(|name| map.get(*name));
    let Some(program @ Value::String(_)) = program.cloned() else { return };
    for name in ["args", "arguments", "argv"] {
        if let Some(Value::Array(args)) = map.get_mut(name) {
            clean_words(std::iter::once(&mut program.clone()).chain(args));
        }
    }
}

/// A text (a script, a command line, a message) with what looks like a secret removed.
pub fn clean_text(text: &str) -> String {
    let mut out = text.to_owned();
    for (pattern, replacement) in SHAPES.iter() {
        if let std::borrow::Cow::Owned(changed) = pattern.replace_all(&out, *replacement) {
            out = changed;
        }
    }
    command::cleaned(&out)
}

/// A cheap look at the raw JSON, which says no when nothing in it could be a secret: no name of one, nothing with a shape
/// of its own, and no string that is more than a path.
fn may_hold_secret(text: &str) -> bool {
    static HINT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?i)[\\=@%\[;|&'(<>`\t]|"-|[^:,{ ] |pass|pwd|pw"|pin|psk|sig|secret|token|credential|key|auth|cookie|bearer|basic|connstr|connectionstring|AKIA|ASIA|eyJ|gh[opsur]_|glpat|xox|sk-|AIza|cv[ekns]_|hf_|npm_|hvs|pypi|k_live|hooks\.|/webhook|\.webhook|org/bot|org/file"#,
        )
        .expect("a constant pattern, compiled by a test")
    });
    HINT.is_match(text)
}

/// Secrets that show by themselves, wherever they are.
static SHAPES: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        // A private key in PEM, even when its end was cut off.
        (
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
            "[removed private key]",
        ),
        // Authorization: Bearer …, Basic …
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", "$1 [removed]"),
        // user:password@host in an address, and a token in place of both
        (r"([a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@", "$1[removed]@"),
        (r"(?i)(https?://)[^/\s:@]{16,}@", "$1[removed]@"),
        // Addresses that are the secret: whoever has one posts there
        (
            r#"(?i)(https?://(?:hooks\.slack\.com/(?:services|workflows)|discord(?:app)?\.com/api(?:/v[0-9]+)?/webhooks|[a-z0-9.-]+\.webhook\.office\.com|api\.telegram\.org/(?:file/)?bot)/?)[^\s"'<>|;&)]+"#,
            "$1[removed]",
        ),
        // A key that a shell writes into a file for the moment: private-key <(echo …)
        (r"(?i)((?:key|pass|secret|token|psk)[a-z_-]*[ =]<\(\s*(?:echo|printf)\s)[^)\n]*\)", "$1[removed])"),
        // Keys with a shape of their own; the first are this hub's: tokens of operators and of enrolment, and agents' keys.
        (r"\bcv[ekns]_[A-Za-z0-9_-]{16,}", "[removed]"),
        (r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", "[removed]"),
        (r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*", "[removed]"),
        (
            r"\b(gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|hvs\.[A-Za-z0-9_-]{20,}|pypi-[A-Za-z0-9_-]{40,}|[rs]k_live_[A-Za-z0-9]{16,})",
            "[removed]",
        ),
    ]
    .into_iter()
    .map(|(pattern, replacement)| {
        (Regex::new(pattern).expect("a constant pattern, compiled by a test"), replacement)
    })
    .collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expect: &str) {
        let raw = RawValue::from_string(input.to_owned()).expect("test input is JSON");
        assert_eq!(args(&raw).get(), expect);
    }

    #[test]
    fn plain_arguments_stand_as_they_are() {
        check(r#"{"path": "/var/log"}"#, r#"{"path": "/var/log"}"#);
        check("{}", "{}");
    }

    #[test]
    fn values_with_a_secret_name_go() {
        check(r#"{"password":"canary"}"#, r#"{"password":"[removed]"}"#);
        check(r#"{"a":{"apiKey":["canary"]}}"#, r#"{"a":{"apiKey":"[removed]"}}"#);
        check(r#"{"p\u0061ssword":"canary"}"#, r#"{"password":"[removed]"}"#);
        check(r#"{"max_tokens":5}"#, r#"{"max_tokens":5}"#);
    }

    #[test]
    fn words_that_follow_a_secret_option_go() {
        check(r#"{"argv":["run","--password","canary","-v"]}"#, r#"{"argv":["run","--password","[removed]","-v"]}"#);
        check(r#"["-Password","canary"]"#, r#"["-Password","[removed]"]"#);
        check(r#"["--token",5,"--api-key=canary","x"]"#, r#"["--token",5,"--api-key=[removed]","x"]"#);
        check(r#"["passwd","--help"]"#, r#"["passwd","--help"]"#);
    }

    #[test]
    fn secrets_inside_scripts_go() {
        for script in [
            "mysql -u root -pcanary db",
            "mysql -pcanary shop -e 'select 1'",
            "sudo mysqldump -hdb -pcanary x",
            "mysql -p'horse canary' shop",
            "mysql -e 'select 1; select 2' -pcanary shop",
            "mysql -h db \\\n  -pcanary shop",
            "mariadb-dump -pcanary shop",
            r#"& "C:\mysql\mysql.exe" -pcanary shop"#,
            "mysqldump --password=canary db",
            "curl -u bob:canary https://x",
            "curl -ubob:canary https://x",
            "curl -u 'bob:horse canary' https://x",
            "curl -H 'X-Login: Basic Y2FuYXJ5canaryOmNhbmFyeQ==' https://x",
            "curl -H 'Authorization: Bearer canary-canary' https://x",
            "export API_KEY=canary; run",
            "$p = ConvertTo-SecureString 'canary' -AsPlainText",
            "net user bob canary /add",
            "net\tuser bob canary /add",
            "net.exe user \"bob the builder\" canary /add",
            r#"net user bob "horse canary battery" /add"#,
            "net user bob 'horse canary battery' /add",
            "sshpass -p 'horse canary' ssh x",
            "New-LocalUser -Password 'canary x'",
            "psql postgres://u:canary@db/x",
            "sshpass -p canary ssh x",
            r#"curl -d '{"token":"canary"}' https://x"#,
            "-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----",
            "-----BEGIN PRIVATE KEY-----\ncanary",
            "aws configure set aws_secret_access_key canary",
            "docker login -u bob -p canary registry.example",
            "helm registry login r.example -u bob -p 'horse canary'",
            "az login --service-principal -u x -p canary --tenant t",
            "mongosh -u admin -p canary --host db",
            r"PsExec64.exe \\pc -u bob -p canary cmd",
            "redis-cli -h db -a canary ping",
            "zip -P canary out.zip a b",
            "unzip -q -P 'horse canary' x.zip",
            "7z x -pcanary x.7z",
            "sqlcmd -S db -U sa -P canary -Q 'select 1'",
            "ldapsearch -x -D cn=admin -w canary -b dc=x",
            r"net use z: \\srv\share canary /user:bob",
            "cmdkey /add:srv /user:bob /pass:canary",
            "openssl rsa -in k.pem -passin pass:canary",
            "echo bob:canary | sudo chpasswd",
            "echo 'bob:canary' | chpasswd",
            "chpasswd <<< 'bob:canary'",
            "echo canary | sudo -S apt update",
            "echo -n 'horse canary' | passwd --stdin bob",
            "echo canary | docker login -u bob --password-stdin registry.example",
            r"net use \\srv\share /user:bob canary",
            r"net use * \\srv\share canary /user:bob",
            r#"net use "\\srv\my share" /user:bob /persistent:no "horse canary""#,
            "net use x /user:bob canary",
            r#"$pw="canary""#,
            "$pw = 'horse canary'; run",
            "DB_PASS=canary run",
            "chpasswd <<EOF\nbob:canary\nalice:horse canary\nEOF\n",
            "sudo chpasswd -e <<-'END'\nbob:canary",
            "echo 'bob:horse canary' | chpasswd",
            "printf 'bob:%s' canary | sudo chpasswd",
            "printf '%s:%s\\n' bob canary | chpasswd",
            "echo canary | sudo -u root -S apt update",
            "echo canary | sudo -kS true",
            "printf '%s\\n' canary | sudo -S true",
            "sudo -S apt update <<< canary",
            "echo canary | passwd bob --stdin",
            "echo -e 'canary\\ncanary' | sudo passwd bob",
            "passwd --stdin bob <<< 'horse canary'",
            "htpasswd -b /etc/htpasswd bob canary",
            "htpasswd -c -b f bob 'horse canary'; true",
            "htpasswd -nbB bob canary",
        ] {
            let raw = serde_json::value::to_raw_value(&serde_json::json!({ "script": script })).expect("JSON");
            let shown = args(&raw);
            assert!(!shown.get().contains("canary"), "{script} → {shown}");
        }
        for token in [
            "cvk_61aUVrtDOuL90LooPUqOLdi1Ke5J6WmCIm2DZfecADw",
            "AKIAIOSFODNN7EXAMPLE",
            "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
            "eyJhbGciOi.eyJzdWIiOiIx.sig",
        ] {
            assert!(!clean_text(&format!("echo {token} | x")).contains(token));
        }
    }

    #[test]
    fn innocent_scripts_stay_readable() {
        for script in [
            "Get-Process | Select -First 5",
            "ls -la /etc/passwd",
            "systemctl status sshd",
            "git config user.name x",
            "net user bob /active:no",
            "net user \"bob the builder\" /delete",
            "mysql -p shop; nmap -p80 db",
            "docker run -p 8080:80 nginx",
            "docker login registry.example",
            "zip -r out.zip src",
            "7z a out.7z src",
            "redis-cli -h db ping",
            "ldapsearch -x -W -b dc=x",
            r"net use z: \\srv\share /user:bob",
            r"net use \\srv\share * /user:bob",
            "echo hello | grep -S x",
            "echo hello | sudo tee /etc/motd",
            "mkdir -p a/b",
            "date -u +%T",
            "net use x /user:bob /persistent:no",
            "bypass=1 run; compass=north",
            "test $pass == 3",
        ] {
            assert_eq!(clean_text(script), script);
        }
    }

    fn table(text: &str) -> Vec<String> {
        serde_json::from_str(text).expect("a table of texts")
    }

    fn shown(value: Value) -> String {
        args(&serde_json::value::to_raw_value(&value).expect("JSON")).get().to_owned()
    }

    #[test]
    fn no_command_of_the_table_shows_its_secret() {
        let secrets = table(include_str!("../../../fixtures/redact/secrets.json"));
        assert!(secrets.len() >= 126, "{} commands", secrets.len());
        let mut leaks = Vec::new();
        for command in &secrets {
            for shown in [
                shown(serde_json::json!({ "script": command })),
                shown(serde_json::json!({ command: 1 })),
                shown(serde_json::json!(["sh", "-c", command])),
                clean_text(&format!("cd /tmp && {command}")),
                clean_text(&format!("cd /tmp\n{command}\nls")),
            ] {
                if shown.contains("canary") {
                    leaks.push(format!("{command}\n  → {shown}"));
                }
            }
        }
        assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
    }

    #[test]
    fn innocent_commands_of_the_table_stay_readable() {
        let innocents = table(include_str!("../../../fixtures/redact/innocents.json"));
        let changed: Vec<String> = innocents
            .iter()
            .filter(|command| clean_text(command) != **command)
            .map(|command| format!("{command}\n  → {}", clean_text(command)))
            .collect();
        assert!(changed.is_empty(), "{} changed:\n{}", changed.len(), changed.join("\n"));
    }

    #[test]
    fn words_of_a_program_are_read_as_its_command() {
        check(r#"["usermod","-p","canary","bob"]"#, r#"["usermod","-p","[removed]","bob"]"#);
        check(r#"["net","user","bob","canary"]"#, r#"["net","user","bob","[removed]"]"#);
        check(
            r#"{"args":["-p","canary","ssh","x"],"command":"sshpass"}"#,
            r#"{"args":["-p","[removed]","ssh","x"],"command":"sshpass"}"#,
        );
    }

    #[test]
    fn names_of_arguments_are_cleaned_and_cut() {
        check(r#"{"password=canary":1}"#, r#"{"password=[removed]":1}"#);
        check(r#"{"x":{"--token canary":1}}"#, r#"{"x":{"--token [removed]":1}}"#);
        let long = shown(serde_json::json!({ "n".repeat(100_000): 1 }));
        assert!(long.len() < 400, "{long}");
        let many = shown(serde_json::json!({ "a": vec!["x y"; 20_000], "token=canary": 1, "n".repeat(100_000): 1 }));
        assert!(many.len() < 1_000 && many.contains("[too large to keep]") && !many.contains("canary"), "{many}");
    }

    #[test]
    fn quotes_stay_around_what_is_removed() {
        for (text, expect) in [
            ("run --token='canary x' y", "run --token='[removed]' y"),
            (r#"PASS="canary" run"#, r#"PASS="[removed]" run"#),
            ("sh -c 'mysql -pcanary db'", "sh -c 'mysql -p[removed] db'"),
            (r#"curl -d '{"token":"canary","a":1}' x"#, r#"curl -d '{"token":"[removed]","a":1}' x"#),
            ("chpasswd <<E\nbob:canary\nE\nls", "chpasswd <<E\n[removed]\nE\nls"),
        ] {
            assert_eq!(clean_text(text), expect, "{text}");
        }
    }

    #[test]
    fn a_million_words_are_read_in_time_for_their_length() {
        for piece in [
            "net use x ",
            "sudo mysql -px ",
            "a=1;token=",
            "echo 'a' | ",
            "\"$( ",
            "@'\n",
            "$'",
            "<# ",
            "<<E ",
            "password, ",
            "{\"a\": ",
        ] {
            let text = piece.repeat((64 << 10) / piece.len());
            let started = std::time::Instant::now();
            clean_text(&text);
            shown(serde_json::json!(text.split(' ').collect::<Vec<_>>()));
            // Generous, since tests run unoptimised and beside others; a square would take minutes.
            assert!(started.elapsed().as_secs() < 10, "{piece}: {:?}", started.elapsed());
        }
    }

    #[test]
    fn long_texts_are_cut_with_a_count_and_huge_arguments_named() {
        let long = format!(r#"{{"script":"{}"}}"#, "ä".repeat(MAX_TEXT));
        let raw = RawValue::from_string(long).expect("JSON");
        assert!(args(&raw).get().ends_with(r#"… [8192 more bytes]"}"#));
        let many: Vec<String> = (0..10_000).map(|i| format!("item {i}")).collect();
        let raw = serde_json::value::to_raw_value(&serde_json::json!({ "domains": many })).expect("JSON");
        assert!(args(&raw).get().contains(r#""[arguments]":["domains"]"#));
    }

    proptest::proptest! {
        #[test]
        fn never_panics_and_stays_json(text in ".{0,200}") {
            let raw = serde_json::value::to_raw_value(&serde_json::json!({ "script": text })).expect("JSON");
            serde_json::from_str::<Value>(args(&raw).get()).expect("still JSON");
        }

        /// What the cheap look lets by is what a thorough one would leave as it is.
        #[test]
        fn nothing_is_let_by_that_would_be_removed(
            name in "[a-z_]{1,6}|p(ass)?|pin|psk|pw|auth|sig|token|api_key",
            text in r"([a-z/.:]|pass|pin|-p|net|user|token|://|sk-|ghp_|eyJ|AKIA){0,20}",
        ) {
            let mut value = serde_json::json!({ name: text });
            let raw = value.to_string();
            if !may_hold_secret(&raw) {
                let before = value.clone();
                clean(&mut value, 0);
                proptest::prop_assert_eq!(value, before);
            }
        }
    }
}
