//! `config.json`: changed under a lock that other processes respect, replaced whole.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use serde_json::{Map, Value};

use crate::environment::{Environment, shown};
use crate::files;
use crate::redact::Redactor;

/// Why the configuration cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("Invalid Kward config JSON: {0}")]
    NotJson(String),
    #[error("Kward config cannot be read or written: {0}: {1}")]
    File(String, std::io::Error),
    #[error("Config values must be an object")]
    NotAnObject,
}

/// The file, and its content when it was last read.
#[derive(Debug)]
pub(crate) struct ConfigStore {
    path: PathBuf,
    redactor: Arc<Redactor>,
    last: Mutex<Option<(Stamp, Arc<Config>)>>,
}

/// Tells whether the file has changed.
type Stamp = Option<(SystemTime, u64)>;

/// The configuration at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config(pub(crate) Map<String, Value>);

impl ConfigStore {
    pub(crate) fn new(path: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { path, redactor, last: Mutex::new(None) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The configuration now. The file is read only if it has changed.
    pub(crate) fn read(&self) -> Result<Arc<Config>, ConfigError> {
        let stamp = self.stamp();
        let mut last = self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some((_, config)) = last.as_ref().filter(|(of, _)| *of == stamp) {
            return Ok(config.clone());
        }
        let config = Arc::new(self.load()?);
        self.redactor.learn_from(&Value::Object(config.0.clone()));
        *last = Some((stamp, config.clone()));
        Ok(config)
    }

    /// The same, or an empty one if it cannot be read; changing the configuration reports the error.
    pub(crate) fn read_or_default(&self) -> Arc<Config> {
        self.read().unwrap_or_default()
    }

    /// Changes the file. Other processes wait meanwhile, so that no change is lost.
    pub(crate) fn update(&self, change: impl FnOnce(&mut Map<String, Value>)) -> Result<Arc<Config>, ConfigError> {
        let failed = |why| ConfigError::File(shown(&self.path), why);
        let dir = self.path.parent().unwrap_or(Path::new("."));
        let _lock = files::Lock::of(&dir.join(".config.lock")).map_err(failed)?;
        let mut config = self.load()?;
        change(&mut config.0);
        // A `Map` can always be written.
        let mut text = serde_json::to_vec_pretty(&config.0).unwrap_or_default();
        text.push(b'\n');
        files::replace_private(&self.path, &text).map_err(failed)?;
        self.forget();
        self.read()
    }

    /// Reads the file again next time, whatever its time says.
    pub(crate) fn forget(&self) {
        *self.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = None;
    }

    fn stamp(&self) -> Stamp {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }

    fn load(&self) -> Result<Config, ConfigError> {
        let text = match std::fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Config::default()),
            Err(error) => return Err(ConfigError::File(shown(&self.path), error)),
        };
        if text.trim_ascii().is_empty() {
            return Ok(Config::default());
        }
        serde_json::from_slice(&text).map(Config).map_err(|_| ConfigError::NotJson(shown(&self.path)))
    }
}

impl Config {
    /// A text that is set and not blank.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty())
    }

    /// A member of a group; both ways of writing names are read.
    pub(crate) fn member(&self, group: &str, key: &str) -> Option<&Value> {
        let group = self.0.get(group)?;
        group.get(key).or_else(|| group.get(camel(key).as_str()))
    }

    /// A switch in a group.
    pub(crate) fn switch(&self, group: &str, key: &str) -> Option<bool> {
        self.member(group, key).and_then(Value::as_bool)
    }

    /// A value from the environment (the name in capitals), else from the file.
    pub(crate) fn text_or_env<'a>(&'a self, environment: &'a Environment, key: &str) -> Option<&'a str> {
        environment.get(&key.to_ascii_uppercase()).map(str::trim).or_else(|| self.text(key))
    }
}

fn camel(key: &str) -> String {
    let mut out = String::new();
    let mut upper = false;
    for c in key.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                out.extend(c.to_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_of_two_processes_are_both_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        let stores = [ConfigStore::new(path.clone(), Arc::default()), ConfigStore::new(path.clone(), Arc::default())];
        stores[0].read().unwrap();
        std::thread::scope(|scope| {
            for (index, store) in stores.iter().enumerate() {
                scope.spawn(move || {
                    for n in 0..20 {
                        store.update(|map| drop(map.insert(format!("k{index}_{n}"), n.into()))).unwrap();
                    }
                });
            }
        });
        assert_eq!(stores[0].read().unwrap().0.len(), 40);
    }

    #[test]
    fn what_is_no_json_is_told_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        std::fs::write(&path, "{ oops").unwrap();
        let store = ConfigStore::new(path.clone(), Arc::default());
        let why = store.update(|map| drop(map.insert("a".into(), 1.into()))).unwrap_err().to_string();
        assert_eq!(why, format!("Invalid Kward config JSON: {}", path.display()));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{ oops");
    }

    #[test]
    fn groups_are_read_in_both_spellings() {
        let Value::Object(map) = json!({ "compaction": { "reserveTokens": 5 }, "a": " x " }) else { panic!() };
        let config = Config(map);
        assert_eq!(config.member("compaction", "reserve_tokens"), Some(&json!(5)));
        assert_eq!(config.text("a"), Some("x"));
    }
}
