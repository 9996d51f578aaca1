//! Every setting of the hub: one dotted name each, with its value and where that came from.
//!
//! Strongest first: `--set name=value` (and the flags that stand for one), the environment
//! (`CONVOKE_KENNY__HEARTBEAT_S`), the TOML file, the default. A value that does not fit names the setting, the value,
//! where it came from and what is allowed, and all such mistakes are told at once.

mod nearest;
mod table;
mod value;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use convoke_core::id::PeerId;

pub use table::{SETTINGS, Setting};
pub use value::{Kind, Value};

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The TOML file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// One mistake in the settings, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such setting.
    #[error("{from}: setting `{name}` does not exist{}", nearest::hint(.like))]
    Unknown {
        /// As given.
        name: String,
        /// Where.
        from: Source,
        /// The names that may be meant, as they are written there.
        like: Vec<String>,
    },
    /// A value that does not fit.
    #[error("{from}: `{name}` cannot be {value}; allowed: {allowed}")]
    Bad {
        /// The setting.
        name: &'static str,
        /// As given; hidden for secrets.
        value: String,
        /// What would fit.
        allowed: String,
        /// Where.
        from: Source,
    },
    /// `--set` without `=`.
    #[error("command line: `--set {0}` has no `=`; write --set name=value")]
    NoEquals(String),
    /// The file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Two settings that do not go together.
    #[error("{0}")]
    Conflict(String),
}

/// All mistakes, a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<SettingError>);

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}

/// What the settings are made from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// `name=value` from the command line, weakest first.
    pub flags: Vec<(String, String)>,
    /// The environment.
    pub env: Vec<(String, String)>,
    /// The TOML file, when there is one.
    pub file: Option<(PathBuf, String)>,
}

/// The settings in force.
#[derive(Clone, Debug)]
pub struct Settings {
    values: BTreeMap<&'static str, (Value, Source)>,
}

/// Variables of the original server that stand for a setting here, so that it drops in.
const FIELD_VARIABLES: &[(&str, &str)] = &[
    ("KENNY_ALLOW_TOKEN_AUTH", "kenny.allow_token_auth"),
    ("KENNY_AGENT_TOKENS", "kenny.agent_tokens"),
    ("KENNY_MAX_FRAME_BYTES", "kenny.max_frame_bytes"),
    ("KENNY_MAX_TELEMETRY_BYTES", "kenny.max_telemetry_bytes"),
    ("KENNY_PUBLIC_URL", "hub.public_url"),
];

/// Variables with the prefix that are no settings but have a meaning of their own.
const RESERVED_VARIABLES: &[&str] = &[
    "CONVOKE_HUB",
    "CONVOKE_TOKEN",
    "CONVOKE_DATA",
    "CONVOKE_CONFIG",
    "CONVOKE_DATA_KEY",
    "CONVOKE_OPERATOR_TOKEN",
    "CONVOKE_KENNY_PRIVATE_KEY",
    "CONVOKE_PASSPHRASE",
    "CONVOKE_LOG",
    "CONVOKE_ROOM_INVITE",
    // What this program tells the programs it starts; a hub may be started by one of those.
    "CONVOKE_RUN",
    "CONVOKE_COMMAND",
    "CONVOKE_RULE",
    "CONVOKE_FILE",
];

/// The beginning of the agent's own variables, which may be set for an agent on the same machine.
const AGENT_VARIABLES: &str = "CONVOKE_AGENT_";

fn is_reserved(variable: &str) -> bool {
    RESERVED_VARIABLES.contains(&variable) || variable.starts_with(AGENT_VARIABLES)
}

impl Settings {
    /// Reads all sources; tells every mistake.
    pub fn resolve(sources: &Sources) -> Result<Self, SettingErrors> {
        let mut errors = Vec::new();
        let mut values: BTreeMap<&'static str, (Value, Source)> =
            SETTINGS.iter().map(|s| (s.name, (s.kind.default(s.default), Source::Default))).collect();
        let mut apply = |name: &str, text: Option<&str>, toml: Option<&toml::Value>, from: Source| {
            let Some(setting) = find(name) else {
                let like = nearest::to(name).into_iter().map(|like| match &from {
                    Source::Env(_) => variable(like),
                    _ => like.to_owned(),
                });
                errors.push(SettingError::Unknown { name: name.into(), like: like.collect(), from });
                return;
            };
            let parsed = match (text, toml) {
                (Some(text), _) => setting.kind.parse(text),
                (None, Some(value)) => setting.kind.from_toml(value),
                (None, None) => None,
            };
            match parsed {
                Some(value) => {
                    values.insert(setting.name, (value, from));
                }
                None => {
                    let shown = match (setting.kind.is_secret(), text, toml) {
                        (true, ..) => "that value".to_owned(),
                        (false, Some(text), _) => format!("{text:?}"),
                        (false, None, Some(value)) => value.to_string(),
                        (false, None, None) => "nothing".to_owned(),
                    };
                    let allowed = setting.kind.allowed();
                    errors.push(SettingError::Bad { name: setting.name, value: shown, allowed, from });
                }
            }
        };

        let mut broken_file = None;
        if let Some((path, text)) = &sources.file {
            match text.parse::<toml::Table>() {
                Ok(table) => {
                    for (name, value) in flatten(&table) {
                        apply(&name, None, Some(&value), Source::File(path.clone()));
                    }
                }
                Err(why) => {
                    let place = why.span().map(|span| place(text, span.start)).unwrap_or_default();
                    let why = format!("{place}{}", why.message());
                    broken_file = Some(SettingError::File { path: path.clone(), why });
                }
            }
        }
        for (variable, name) in FIELD_VARIABLES {
            if let Some((_, value)) = sources.env.iter().find(|(k, _)| k == variable) {
                apply(name, Some(value), None, Source::Env((*variable).into()));
            }
        }
        for (variable, value) in &sources.env {
            let Some(rest) = variable.strip_prefix("CONVOKE_") else { continue };
            if is_reserved(variable) {
                continue;
            }
            let name = rest.to_ascii_lowercase().replace("__", ".");
            apply(&name, Some(value), None, Source::Env(variable.clone()));
        }
        for (name, value) in &sources.flags {
            apply(name, Some(value), None, Source::Flag);
        }
        errors.extend(broken_file);

        let settings = Self { values };
        errors.extend(settings.conflicts().into_iter().map(SettingError::Conflict));
        if errors.is_empty() { Ok(settings) } else { Err(SettingErrors(errors)) }
    }

    /// What does not fit together, or not what it is for. Secrets are not in it.
    fn conflicts(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (set, missing) in [("tls.cert", "tls.key"), ("tls.key", "tls.cert")] {
            if self.text(set).is_some() && self.text(missing).is_none() {
                let from = &self.entry(set).1;
                found.push(format!("{from}: `{set}` and `{missing}` go together: set both or neither"));
            }
        }
        for (smaller, larger) in [
            ("calls.default_timeout_s", "calls.max_timeout_s"),
            ("yonexus.unstable_after_s", "yonexus.offline_after_s"),
        ] {
            let (few, many) = (self.number(smaller), self.number(larger));
            if few > many {
                let ((_, from), (_, other)) = (self.entry(smaller), self.entry(larger));
                found.push(format!(
                    "{from}: `{smaller}` ({few}) must not be more than `{larger}` ({many}, from {other})"
                ));
            }
        }
        let from = &self.entry("hub.allowed_origins").1;
        for origin in self.list("hub.allowed_origins") {
            if let Err(why) = check_origin(origin) {
                found.push(format!("{from}: `hub.allowed_origins`: `{origin}` {why}"));
            }
        }
        let from = &self.entry("kenny.agent_tokens").1;
        for (n, entry) in self.list("kenny.agent_tokens").iter().enumerate() {
            let parts = entry.split_once('=').filter(|(_, token)| !token.is_empty());
            if parts.is_none_or(|(id, _)| PeerId::kenny(id).is_err()) {
                let entry = n + 1;
                found.push(format!(
                    "{from}: `kenny.agent_tokens`: entry {entry} is not `id=token` with an agent's id"
                ));
            }
        }
        found
    }

    /// Every setting with its value as it may be shown, and where it came from.
    pub fn listing(&self) -> impl Iterator<Item = (&'static Setting, String, &Source)> {
        SETTINGS.iter().map(|setting| {
            let (value, source) = self.entry(setting.name);
            let shown =
                if setting.kind.is_secret() && !value.is_unset() { "(hidden)".into() } else { value.to_string() };
            (setting, shown, source)
        })
    }

    fn entry(&self, name: &str) -> &(Value, Source) {
        self.values.get(name).expect("every name in the code is in the table, as a test checks")
    }

    /// A switch.
    pub fn flag(&self, name: &str) -> bool {
        matches!(self.entry(name).0, Value::Bool(true))
    }

    /// A number.
    pub fn number(&self, name: &str) -> u64 {
        match self.entry(name).0 {
            Value::Number(n) => n,
            _ => 0,
        }
    }

    /// A number as a size in memory.
    pub fn size(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// A number of seconds.
    pub fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.number(name))
    }

    /// A text, unless unset.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.entry(name).0 {
            Value::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// A list of texts.
    pub fn list(&self, name: &str) -> &[String] {
        match &self.entry(name).0 {
            Value::List(list) => list,
            _ => &[],
        }
    }

    /// An address to listen on.
    pub fn address(&self, name: &str) -> Option<SocketAddr> {
        self.text(name).and_then(|text| text.parse().ok())
    }
}

/// Where in a text a byte is, in words for who wrote it.
fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    format!("line {}, column {}: ", before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The variable of a setting.
fn variable(name: &str) -> String {
    format!("CONVOKE_{}", name.to_ascii_uppercase().replace('.', "__"))
}

/// The setting of that name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|s| s.name == name)
}

fn flatten(table: &toml::Table) -> Vec<(String, toml::Value)> {
    fn walk(prefix: &str, table: &toml::Table, out: &mut Vec<(String, toml::Value)>) {
        for (key, value) in table {
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
            match value {
                toml::Value::Table(inner) => walk(&name, inner, out),
                other => out.push((name, other.clone())),
            }
        }
    }
    let mut out = Vec::new();
    walk("", table, &mut out);
    out
}

/// Whether a browser could ever name this origin; if not, why.
fn check_origin(origin: &str) -> Result<(), String> {
    let none = || "is not an origin; write it as https://name, or with :port".to_owned();
    let (scheme, host) = origin.split_once("://").ok_or_else(none)?;
    if scheme.is_empty() || host.is_empty() || host.contains(['/', '@', '?', '#', ' ']) {
        return Err(none());
    }
    let url = reqwest::Url::parse(origin).map_err(|_| none())?;
    // Programs with schemes of their own write what they like; of the web's there is one way.
    let written = url.origin().ascii_serialization();
    if matches!(url.scheme(), "http" | "https") && !written.eq_ignore_ascii_case(origin) {
        return Err(format!("never matches; browsers write it as {written}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
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
        assert_eq!(settings.number("kenny.heartbeat_s"), 5);
        assert_eq!(settings.number("calls.grace_s"), 7);
        assert_eq!(settings.number("kenny.max_in_flight"), 9);
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
        let told =
            Settings::resolve(&sources(&[], &[], "[kenny]\nheartbeat_s = \n")).expect_err("no TOML").to_string();
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
        assert_eq!(settings.list("kenny.agent_tokens"), ["pc=canary"]);
    }

    #[test]
    fn every_default_parses() {
        let settings = Settings::resolve(&Sources::default()).expect("defaults");
        assert!(settings.address("hub.listen").is_some());
        for setting in SETTINGS {
            assert!(!setting.doc.is_empty());
        }
    }
}
