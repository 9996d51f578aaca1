//! Records into `<config>/logs/YYYY-MM-DD.jsonl`, and on into `-1`, `-2`, … when a file has grown large.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke_kward::capabilities::{LOG_CATEGORIES, LOG_MAX_BYTES};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::clock;
use crate::config::Config;
use crate::environment::Environment;
use crate::files;
use crate::redact::Redactor;

/// Files of one day; beyond them the last one goes on growing.
const MAX_FILES: u32 = 1000;

/// How something ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Error,
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Which categories are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Switches([bool; LOG_CATEGORIES.len()]);

impl Switches {
    /// Written are the categories that are on, if logging is; the environment has the last word.
    pub(crate) fn of(config: &Config, environment: &Environment) -> Self {
        let from_env = |name: &str| match environment.get(name)?.trim().to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Some(true),
            "0" | "false" | "no" | "off" => Some(false),
            _ => None,
        };
        let is_on = |variable: &str, key: &str| {
            from_env(variable).unwrap_or_else(|| config.switch("logging", key).unwrap_or(false))
        };
        if !is_on("KWARD_LOGGING", "enabled") && !is_on("KWARD_LOGGING_ENABLED", "enabled") {
            return Self::default();
        }
        let category = |name: &str| {
            let variable = format!("KWARD_LOGGING_{}", name.to_ascii_uppercase());
            let in_group =
                config.member("logging", "categories").and_then(|group| group.get(name)).and_then(Value::as_bool);
            from_env(&variable).or_else(|| config.switch("logging", name)).or(in_group).unwrap_or(false)
        };
        Self(LOG_CATEGORIES.map(category))
    }

    /// The categories that are on.
    pub(crate) fn names(&self) -> Vec<String> {
        LOG_CATEGORIES.iter().zip(self.0).filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()).collect()
    }

    fn has(&self, category: &str) -> bool {
        LOG_CATEGORIES.iter().zip(self.0).any(|(name, on)| on && *name == category)
    }
}

/// Where records go.
#[derive(Debug)]
pub(crate) struct Logs {
    dir: PathBuf,
    redactor: Arc<Redactor>,
}

impl Logs {
    pub(crate) fn new(dir: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { dir, redactor }
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn turn(&self, switches: &Switches, took: Duration, status: Status) {
        self.write(switches, "performance", "turn", json!({ "duration_ms": ms(took), "status": status.name() }));
    }

    #[expect(clippy::too_many_arguments, reason = "they are the members of one record")]
    pub(crate) fn model(
        &self,
        switches: &Switches,
        provider: &str,
        model: &str,
        request_bytes: usize,
        took: Duration,
        status: Status,
        usage: Option<Value>,
    ) {
        let facts = json!({
            "provider": provider, "model": model, "request_bytes": request_bytes, "duration_ms": ms(took),
            "status": status.name(),
        });
        self.write(switches, "performance", "model_request", facts.clone());
        if let Some(usage) = usage {
            let mut facts = facts;
            facts["usage"] = usage;
            self.write(switches, "tokens", "model_usage", facts);
        }
    }

    pub(crate) fn retry(&self, switches: &Switches, provider: &str, model: &str, attempt: u32, delay: Duration) {
        let facts = json!({ "provider": provider, "model": model, "attempt": attempt, "delay_ms": ms(delay) });
        self.write(switches, "performance", "model_retry", facts);
    }

    pub(crate) fn tool(&self, switches: &Switches, name: &str, took: Duration, status: Status, result_bytes: usize) {
        let facts = json!({
            "tool_name": name, "duration_ms": ms(took), "status": status.name(), "result_bytes": result_bytes,
        });
        self.write(switches, "performance", "tool_call", facts.clone());
        self.write(switches, "tools", "tool_call", facts);
    }

    pub(crate) fn error(&self, switches: &Switches, event: &str, code: &str, message: &str, provider: Option<&str>) {
        let mut facts = json!({ "error_class": code, "error_message": message, "error_code": code });
        if let Some(provider) = provider {
            facts["provider"] = provider.into();
        }
        self.write(switches, "errors", event, facts);
    }

    /// Appends a record. A log that cannot be written stops nobody.
    fn write(&self, switches: &Switches, category: &str, event: &str, mut facts: Value) {
        if !switches.has(category) {
            return;
        }
        let now = clock::now_text();
        facts["timestamp"] = now.clone().into();
        facts["category"] = category.into();
        facts["event"] = event.into();
        let line = format!("{facts}\n");
        let _ =
            files::append_private(&self.file_for(&now[..10.min(now.len())]), self.redactor.text(&line).as_bytes());
    }

    fn file_for(&self, day: &str) -> PathBuf {
        let name = |number: u32| match number {
            0 => self.dir.join(format!("{day}.jsonl")),
            number => self.dir.join(format!("{day}-{number}.jsonl")),
        };
        let is_full = |path: &Path| std::fs::metadata(path).is_ok_and(|meta| meta.len() >= LOG_MAX_BYTES);
        let free = (0..MAX_FILES).map(name).find(|path| !is_full(path));
        free.unwrap_or_else(|| name(MAX_FILES - 1))
    }
}

impl Backend {
    pub(crate) fn log_switches(&self) -> Switches {
        Switches::of(&self.config.read_or_default(), &self.environment)
    }
}

fn ms(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(value: Value) -> Config {
        let Value::Object(map) = value else { panic!("an object") };
        Config(map)
    }

    #[test]
    fn logging_is_off_until_both_switches_are_on() {
        let none = Environment::of(Path::new("/h"), &[]);
        let names = |value: Value, environment: &Environment| Switches::of(&config(value), environment).names();
        assert!(names(json!({}), &none).is_empty());
        assert!(names(json!({ "logging": { "enabled": true } }), &none).is_empty());
        assert!(names(json!({ "logging": { "enabled": "true", "tools": true } }), &none).is_empty());
        assert_eq!(names(json!({ "logging": { "enabled": true, "tools": true } }), &none), ["tools"]);
        let env = Environment::of(
            Path::new("/h"),
            &[("KWARD_LOGGING", "on"), ("KWARD_LOGGING_TOKENS", "1"), ("KWARD_LOGGING_TOOLS", "off")],
        );
        assert_eq!(names(json!({ "logging": { "enabled": false, "tools": true } }), &env), ["tokens"]);
    }

    #[test]
    fn a_full_file_is_followed_by_another() {
        let dir = tempfile::tempdir().unwrap();
        let logs = Logs::new(dir.path().to_owned(), Arc::default());
        assert!(logs.file_for("2026-01-01").ends_with("2026-01-01.jsonl"));
        std::fs::File::create(dir.path().join("2026-01-01.jsonl")).unwrap().set_len(LOG_MAX_BYTES).unwrap();
        assert!(logs.file_for("2026-01-01").ends_with("2026-01-01-1.jsonl"));
    }
}
