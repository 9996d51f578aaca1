//! Arguments as the journal may show them: secrets removed, size bounded. The journal also keeps a keyed digest of
//! the exact arguments, so nothing that proves what was asked is lost with them.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;
use serde_json::value::RawValue;

/// The text that replaces a secret.
pub const REMOVED: &str = "[removed]";

/// Largest text kept of one string; the rest is told as a count.
pub const MAX_TEXT: usize = 8 * 1024;

/// Largest arguments kept in a record; above it only the names of the arguments are.
pub const MAX_ARGS: usize = 32 * 1024;

/// The arguments without secrets and within bounds, as JSON text. Text that is no JSON is not shown at all.
pub fn args(raw: &RawValue) -> Box<RawValue> {
    let text = raw.get();
    // Most calls carry a path or nothing: then the text stands as it is and no tree is built.
    if text.len() <= MAX_TEXT && !may_hold_secret(text) {
        return raw.to_owned();
    }
    let mut value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    clean(&mut value, 0);
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
    NAMES.is_match(name)
}

/// Whether a word of a command line says that the next one is a secret: `["mysqldump", "--password", "x"]`.
fn is_secret_option(word: &str) -> bool {
    word.starts_with('-') && !word.contains(['=', ':', ' ']) && is_secret_name(word.trim_start_matches('-'))
}

fn clean(value: &mut Value, depth: usize) {
    match value {
        Value::Object(map) => {
            for (name, value) in map.iter_mut() {
                // Counts and switches are no secrets: `max_tokens: 5` stays.
                if is_secret_name(name) && !matches!(value, Value::Number(_) | Value::Bool(_) | Value::Null) {
                    *value = Value::String(REMOVED.into());
                } else if depth < 64 {
                    clean(value, depth + 1);
                }
            }
        }
        Value::Array(items) if depth < 64 => {
            let mut is_value = false;
            for item in items {
                if is_value && item.is_string() {
                    *item = Value::String(REMOVED.into());
                    is_value = false;
                } else {
                    is_value = item.as_str().is_some_and(is_secret_option);
                    clean(item, depth + 1);
                }
            }
        }
        Value::String(text) => {
            // Looked at first: there may be hundreds of thousands, and the patterns are many.
            if may_hold_secret(text) {
                *text = clean_text(text);
            }
            if text.len() > MAX_TEXT {
                let cut = text.floor_char_boundary(MAX_TEXT);
                let rest = text.len() - cut;
                text.truncate(cut);
                text.push_str(&format!("… [{rest} more bytes]"));
            }
        }
        _ => {}
    }
}

/// A text (a script, a command line, a message) with what looks like a secret removed.
pub fn clean_text(text: &str) -> String {
    let mut out = text.to_owned();
    for (pattern, replacement) in PATTERNS.iter() {
        if let std::borrow::Cow::Owned(changed) = pattern.replace_all(&out, *replacement) {
            out = changed;
        }
    }
    out
}

/// A cheap look at the raw JSON, which says yes to whatever a name or one of the patterns finds in it. An escape counts as
/// a hint: `\u0070assword` must not slip by, nor white space that raw JSON writes as a letter (`net\tuser`). Those of a quote
/// and of a backslash do not: no pattern hangs on one, and every Windows path has them.
fn may_hold_secret(text: &str) -> bool {
    static HINT: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?i)[^\\](?:\\\\)*(?-i:\\[bfnrtu/])|net1?(\.exe)?\s+user|secure|pass|pwd|pin|secret|token|credential|pw\s*=|key|auth|cookie|bearer|basic|mysql|mariadb|://[^/\s]*@|AKIA|ASIA|eyJ|gh[opsur]_|github_pat|glpat|xox|sk-|\s-u|--user|AIza|cv[ekns]_|login|sudo|redis|7z|zip|sqlcmd|bcp|ldap|mongo|psexec|net1?(\.exe)?\s+use",
        )
        .expect("a constant pattern, compiled by a test")
    });
    HINT.is_match(text)
}

static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
    [
        // A private key in PEM, even when its end was cut off.
        (
            r"(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|\z)",
            "[removed private key]",
        ),
        // Authorization: Bearer …, Basic …
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", "$1 [removed]"),
        // echo name:x | chpasswd, and with more in quotes; printf '%s:%s' name x | chpasswd
        (
            r#"([^\s"':|;&]+:)([^\s"'|;&]+)(["']?\s*\|\s*(?:sudo\s+)?chpasswd)"#,
            "$1[removed]$3",
        ),
        (
            r#"(\b(?:echo|printf)\s+(?:-[a-zA-Z]+\s+)*["'][^\s:"'%]+:)([^"']*)(["']\s*\|\s*(?:sudo\s+)?chpasswd)"#,
            "$1[removed]$3",
        ),
        (
            r#"(\bprintf\s+(?:"[^"]*"|'[^']*')\s+)((?:"[^"]*"|'[^']*'|[^|;&\n"'])+?)(\s*\|\s*(?:sudo\s+)?chpasswd)"#,
            "$1[removed]$3",
        ),
        // echo x | sudo -S, … | passwd name --stdin, … | docker login --password-stdin
        (
            r#"(\b(?:echo|printf)\s+(?:-[a-zA-Z]+\s+)*)((?:"[^"]*"|'[^']*'|[^|;&\n"'])+?)(\s*\|\s*(?:sudo(?:\s[^|;&\n]*?)?\s-[a-zA-Z]*S\b|(?:sudo\s+(?:-\S+\s+)*)?(?:passwd\b|[a-z]+\s[^|;&\n]*--password-stdin)))"#,
            "$1[removed]$3",
        ),
        // chpasswd <<< name:x, and lines of such; sudo -S … <<< x, passwd … <<< x: like these, before the next takes such a
        // command for an option's name
        (r#"(\bchpasswd\s*<<<\s*["']?[^\s:"']+:)([^\s"']+)"#, "$1[removed]"),
        (r"(\bchpasswd\b[^\n<]*<<-?[^\n<]+\n)((?:[^\s:]+:[^\n]*(?:\n|\z))+)", "$1[removed]\n"),
        (
            r#"(\b(?:passwd|sudo\b[^|;&\n<]*?\s-[a-zA-Z]*S)\b[^|;&\n<]*<<<\s*)("[^"]*"?|'[^']*'?|[^\s"']+)"#,
            "$1[removed]",
        ),
        // htpasswd -b file name x: the last word
        (
            r#"(\bhtpasswd\s(?:[^|;&\n]*?\s)?-[a-zA-Z]*b[a-zA-Z]*\s[^|;&\n]*?)("[^"]*"|'[^']*'|[^\s"'|;&]+)(\s*(?:[|;&\n]|\z))"#,
            "$1[removed]$3",
        ),
        // --password x, -Password 'x', password=x, API_KEY: "x", "token":"x"
        (
            r#"(?i)([A-Za-z0-9_.-]*(?:password|passwd|passphrase|pwd|secret|token|api[-_]?key|access[-_]?key|private[-_]?key|account[-_]?key|credential)[A-Za-z0-9_]*["']?)(\s*[:=]\s*|\s+)(@?"[^"]*"|'[^']*'|[^\s"';|&)]+)"#,
            "$1$2[removed]",
        ),
        // $pw = "x", db_pass=x
        (
            r#"(?i)(\b(?:[A-Za-z0-9_]*_)?(?:pass|pw)\s*=\s*)("[^"]*"?|'[^']*'?|[^\s"'=;|&)]+)"#,
            "$1[removed]",
        ),
        // ConvertTo-SecureString 'x'
        (r#"(?i)(ConvertTo-SecureString\s+(?:-String\s+)?)("[^"]*"|'[^']*'|[^\s"']+)"#, "$1[removed]"),
        // net user name password, curl -u name:password, sshpass -p x, mysql -pX
        (
            r#"(?i)(\bnet1?(?:\.exe)?\s+user\s+(?:"[^"]*"|'[^']*'|[^\s"']\S*)\s+)("[^"]*"?|'[^']*'?|[^\s/"']\S*)"#,
            "$1[removed]",
        ),
        (
            r#"((?:\s-u|--user)[\s=]*)(?:("[^:"]+:)[^"]*|('[^:']+:)[^']*|([^\s:"']+:)[^\s"']+)"#,
            "$1$2$3$4[removed]",
        ),
        (r#"(\bsshpass\s+-p\s*)("[^"]*"?|'[^']*'?|\S+)"#, "$1[removed]"),
        // What is in quotes, or goes on in the next line, is still the same command.
        (
            r#"(\b(?:mysql|mariadb)[a-z-]*\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-p)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
            "$1[removed]",
        ),
        // docker login -p x, mongosh -p x, redis-cli -a x, zip -P x, 7z -px, ldapsearch -w x
        (
            r#"(\b(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|oc|az)\b[^|;&\n]*?\slogin\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-p[\s=]*)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
            "$1[removed]",
        ),
        (
            r#"(?i)(\b(?:mongo(?:sh|dump|restore|export|import)?|psexec(?:64)?)\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-p[\s=]*)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
            "$1[removed]",
        ),
        (
            r#"(\bredis-cli\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-a\s*)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
            "$1[removed]",
        ),
        (
            r#"(\b(?:zip|unzip|sqlcmd|bcp)\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-P\s*)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
            "$1[removed]",
        ),
        (r#"(\b7z[ar]?\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-p)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#, "$1[removed]"),
        (
            r#"(\bldap[a-z]+\b(?:"[^"]*"|'[^']*'|\\\r?\n|[^|;&\n])*?\s-w\s*)("[^"]*"?|'[^']*'?|[^\s"'-]\S*)"#,
            "$1[removed]",
        ),
        // net use \\server\share x /user:name, in either order
        (
            r#"(?i)(\bnet1?(?:\.exe)?\s+use\s+(?:(?:\S:|\*)\s+)?(?:"\\\\[^"]+"|\\\\\S+)(?:\s+/\S+)*\s+)("[^"]*"?|'[^']*'?|[^\s/"'*]\S*)"#,
            "$1[removed]",
        ),
        (r#"(?i)(\bnet1?(?:\.exe)?\s+use\s[^|;&\n]*?/user:\S+\s+)("[^"]*"?|'[^']*'?|[^\s/"'*]\S*)"#, "$1[removed]"),
        // cmdkey /pass:x, openssl -passin pass:x
        (r#"(?i)(\bpass:)("[^"]*"?|'[^']*'?|[^\s"']+)"#, "$1[removed]"),
        // user:password@host in an address
        (r"([a-zA-Z][a-zA-Z0-9+.-]*://[^/\s:@]*:)[^/\s@]+@", "$1[removed]@"),
        // Keys with a shape of their own; the first are this hub's: tokens of operators and of enrolment, and agents' keys.
        (r"\bcv[ekns]_[A-Za-z0-9_-]{16,}", "[removed]"),
        (r"\b(AKIA|ASIA)[A-Z0-9]{16}\b", "[removed]"),
        (r"\beyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]*", "[removed]"),
        (r"\b(gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,}|xox[abeprs]-[A-Za-z0-9-]{10,}|sk-[A-Za-z0-9_-]{16,}|AIza[A-Za-z0-9_-]{30,})", "[removed]"),
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

    /// Whatever a pattern would remove must be seen by the cheap look before it, in raw JSON, with all its escapes.
    #[test]
    fn what_a_pattern_finds_the_hint_finds_first() {
        for (pattern, _) in PATTERNS.iter() {
            // Without what stands for a place and for no text. A hint that hung on one would be found here, too.
            let texts = pattern.as_str().replace(r"\b", "").replace(r"|\z", "");
            let texts = proptest::string::string_regex(&texts).expect("a pattern of texts");
            // A runner of its own: one counts what it has tried over all of its runs.
            proptest::test_runner::TestRunner::deterministic()
                .run(&texts, |text| {
                    let raw = serde_json::json!({ "script": text }).to_string();
                    proptest::prop_assert!(may_hold_secret(&raw), "{raw}");
                    Ok(())
                })
                .unwrap_or_else(|why| panic!("{pattern}: {why}"));
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
    }
}
