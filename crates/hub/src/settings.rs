//! Every setting of the hub: one dotted name each, with its value and where that came from. `hub.listen` is read as
//! `settings.hub.listen`, of a type that fits it.
//!
//! Strongest first: `--set name=value` (and the flags that stand for one), the environment
//! (`CONVOKE_KENNY__HEARTBEAT_S`), the TOML file, the default. A value that does not fit names the setting, the value,
//! where it came from and what is allowed, and all such mistakes are told at once.

mod check;
mod error;
mod nearest;
mod table;
#[cfg(test)]
mod tests;
mod typed;
mod value;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use error::{SettingError, SettingErrors, Source};
use table::RETIRED;
pub use table::{SETTINGS, Setting, Settings};
pub use typed::{ActEffect, AgentToken, ChangedAgents, LogLevel};
pub use value::Kind;
use value::Value;

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

/// What was given, for whoever asks about the settings themselves.
#[derive(Clone, Debug)]
struct Given {
    /// Each setting's value as it may be shown, and where that came from, in the order of [`SETTINGS`].
    values: Vec<(String, Source)>,
    /// What was set and is ignored.
    warnings: Vec<String>,
}

impl Settings {
    /// Reads all sources; tells every mistake.
    pub fn resolve(sources: &Sources) -> Result<Self, SettingErrors> {
        let mut errors = Vec::new();
        let mut warnings = Vec::new();
        let mut values: Values =
            SETTINGS.iter().map(|s| (s.name, (s.kind.default(s.default), Source::Default))).collect();
        let mut apply = |name: &str, text: Option<&str>, toml: Option<&toml::Value>, from: Source| {
            if let Some((name, why)) = RETIRED.iter().find(|(retired, _)| *retired == name) {
                warnings.push(format!("{from}: the setting `{name}` is ignored; {why}"));
                return;
            }
            let Some(setting) = SETTINGS.iter().find(|setting| setting.name == name) else {
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

        let shown = SETTINGS.iter().map(|setting| {
            let (value, source) = entry(&values, setting.name);
            let is_hidden = setting.kind.is_secret() && !value.is_unset();
            (if is_hidden { "(hidden)".into() } else { value.to_string() }, source.clone())
        });
        let given = Given { values: shown.collect(), warnings };
        let settings = Self::read(|name| &entry(&values, name).0, given);
        let agent_tokens = match &entry(&values, "kenny.agent_tokens").0 {
            Value::List(entries) => entries.as_slice(),
            _ => &[],
        };
        let conflicts = check::conflicts(&settings, |name| &entry(&values, name).1, agent_tokens);
        errors.extend(conflicts.into_iter().map(SettingError::Conflict));
        if errors.is_empty() { Ok(settings) } else { Err(SettingErrors(errors)) }
    }

    /// Every setting with its value as it may be shown, and where it came from.
    pub fn listing(&self) -> impl Iterator<Item = (&'static Setting, &str, &Source)> {
        SETTINGS.iter().zip(&self.given.values).map(|(setting, (shown, source))| (setting, shown.as_str(), source))
    }

    /// What the operator should know although the hub can start: which settings were set and are ignored.
    pub fn warnings(&self) -> &[String] {
        &self.given.warnings
    }
}

type Values = BTreeMap<&'static str, (Value, Source)>;

fn entry<'a>(values: &'a Values, name: &str) -> &'a (Value, Source) {
    values.get(name).expect("every name in the table has a value from the start, its default")
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
