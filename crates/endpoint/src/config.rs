//! Who the agent is and where its hub is: from the command line, the environment (our names and the original agent's), and
//! what an enrolment has left in the state directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use convoke_core::id::PeerId;
use convoke_core::secret::SecretText;
use convoke_kenny::enrol::parse_key;
use convoke_kenny::wire_bytes;
use ed25519_dalek::VerifyingKey;

use crate::address::HubAddress;
use crate::settings::{Settings, Sources};
use crate::state::{StateDir, StateError, read, write_whole};

/// The keys of `agent.toml` that are no settings.
const IDENTITY: [&str; 4] = ["id", "hub", "hub_key", "ca"];

/// Who the agent is, and whom it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its id.
    pub id: PeerId,
    /// Its hub.
    pub hub: HubAddress,
    /// The hub's key, pinned.
    pub hub_key: VerifyingKey,
    /// The only authority whose certificates count.
    pub ca: Option<PathBuf>,
}

/// What the command line says.
#[derive(Clone, Debug, Default)]
pub struct Given {
    /// `--hub`.
    pub hub: Option<String>,
    /// `--id`.
    pub id: Option<String>,
    /// `--hub-key`.
    pub hub_key: Option<String>,
    /// `--ca`.
    pub ca: Option<PathBuf>,
    /// `--token`.
    pub token: Option<SecretText>,
    /// `--set`.
    pub set: Vec<(String, String)>,
}

/// What is in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who, where, whom.
    pub identity: Identity,
    /// The settings.
    pub settings: Settings,
    /// The token to enrol with, if one was given.
    pub token: Option<SecretText>,
    /// Whether the state directory has been enrolled as exactly this agent of exactly this hub.
    pub enrolled: bool,
}

/// Why there is no usable configuration. Each is for whoever started the agent.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Nobody said who the agent is.
    #[error("this agent is not enrolled: {missing} missing (state directory {})\n  convoke agent enroll --hub URL --id ID --token TOKEN --hub-key KEY\n`convoke enroll-token ID` on the hub prints the last three", state.display())]
    NotEnrolled {
        /// What is missing.
        missing: String,
        /// Where it would be.
        state: PathBuf,
    },
    /// Something that was given is wrong.
    #[error("{origin}: {why}")]
    Wrong {
        /// Where it stands.
        origin: String,
        /// What is wrong with it.
        why: String,
    },
    /// Settings.
    #[error("{}", .0.join("\n"))]
    Settings(Vec<String>),
    /// The state directory.
    #[error(transparent)]
    State(#[from] StateError),
}

impl Config {
    /// Puts it together: the command line wins over the environment, and that over the file.
    pub fn load(state: &StateDir, given: &Given, env: &BTreeMap<String, String>) -> Result<Self, ConfigError> {
        let file = read_file(state)?;
        let mut missing = Vec::new();
        let mut find = |flag: &str, given: Option<&String>, variables: [&str; 2], key: &str| {
            let found = given
                .map(|text| (flag.to_owned(), text.clone()))
                .or_else(|| variable(env, &variables))
                .or_else(|| file.get(key).map(|text| (format!("agent.toml: {key}"), text.clone())));
            if found.is_none() {
                missing.push(flag.trim_start_matches('-').replace('-', " "));
            }
            found
        };
        let id = find("--id", given.id.as_ref(), ["CONVOKE_AGENT_ID", "KENNY_AGENT_ID"], "id");
        let hub = find("--hub", given.hub.as_ref(), ["CONVOKE_AGENT_HUB", "KENNY_SERVER"], "hub");
        let hub_key =
            find("--hub-key", given.hub_key.as_ref(), ["CONVOKE_AGENT_HUB_KEY", "KENNY_SERVER_PUBKEY"], "hub_key");
        let (Some(id), Some(hub), Some(hub_key)) = (id, hub, hub_key) else {
            let are = if missing.len() == 1 { "is" } else { "are" };
            let missing = format!("{} {are}", missing.join(", "));
            return Err(ConfigError::NotEnrolled { missing, state: state.path().to_owned() });
        };
        let wrong = |origin: &str, why: String| ConfigError::Wrong { origin: origin.to_owned(), why };
        let ca = given.ca.clone().or_else(|| variable(env, &["CONVOKE_AGENT_CA"]).map(|(_, path)| path.into()));
        let identity = Identity {
            id: PeerId::kenny(id.1.trim()).map_err(|why| wrong(&id.0, why.to_string()))?,
            hub: HubAddress::parse(&hub.1).map_err(|why| wrong(&hub.0, why.to_string()))?,
            hub_key: parse_key(&hub_key.1).map_err(|why| {
                wrong(
                    &hub_key.0,
                    format!("not a hub's public key: {}", why.to_string().replace("public_key ", "it ")),
                )
            })?,
            ca: ca.or_else(|| file.get("ca").map(PathBuf::from)),
        };
        let enrolled = file.get("id").is_some_and(|id| id == identity.id.as_str())
            && file.get("hub_key").is_some_and(|key| parse_key(key) == Ok(identity.hub_key))
            && state.has_key();
        let settings = settings(given, env, file).map_err(ConfigError::Settings)?;
        let token = given.token.clone().or_else(|| {
            // The original takes its bearer token for both; ours only ever signs.
            let names = ["CONVOKE_AGENT_TOKEN", "KENNY_ENROLL_TOKEN", "KENNY_TOKEN"];
            variable(env, &names).map(|(_, token)| SecretText::new(token))
        });
        Ok(Self { identity, settings, token, enrolled })
    }

    /// The settings alone, for verbs that need no identity.
    pub fn settings(
        state: &StateDir,
        given: &Given,
        env: &BTreeMap<String, String>,
    ) -> Result<Settings, ConfigError> {
        settings(given, env, read_file(state)?).map_err(ConfigError::Settings)
    }
}

impl Identity {
    /// Keeps it in the state directory. Settings that stand there stay.
    pub fn save(&self, state: &StateDir) -> Result<(), StateError> {
        let mut table = parse_file(state).unwrap_or_default();
        table.insert("id".into(), self.id.as_str().into());
        table.insert("hub".into(), self.hub.to_string().into());
        table.insert("hub_key".into(), wire_bytes::encode(self.hub_key.as_bytes()).into());
        match &self.ca {
            Some(ca) => drop(table.insert("ca".into(), ca.display().to_string().into())),
            None => drop(table.remove("ca")),
        }
        write_whole(&state.config_file(), table.to_string().as_bytes())
    }
}

fn settings(
    given: &Given,
    env: &BTreeMap<String, String>,
    mut file: BTreeMap<String, String>,
) -> Result<Settings, Vec<String>> {
    file.retain(|name, _| !IDENTITY.contains(&name.as_str()));
    Settings::resolve(&Sources { flags: given.set.clone(), env: env.clone(), file })
}

fn variable(env: &BTreeMap<String, String>, names: &[&str]) -> Option<(String, String)> {
    names.iter().find_map(|name| {
        let value = env.get(*name).filter(|value| !value.trim().is_empty())?;
        Some(((*name).to_owned(), value.clone()))
    })
}

fn parse_file(state: &StateDir) -> Result<toml::Table, ConfigError> {
    let bytes = match read(&state.config_file()) {
        Ok(bytes) => bytes,
        Err(StateError::Io { why, .. }) if why.kind() == std::io::ErrorKind::NotFound => {
            return Ok(toml::Table::new());
        }
        Err(why) => return Err(why.into()),
    };
    let text = String::from_utf8_lossy(&bytes);
    text.parse().map_err(|why: toml::de::Error| ConfigError::Wrong {
        origin: state.config_file().display().to_string(),
        why: why.message().to_owned(),
    })
}

fn read_file(state: &StateDir) -> Result<BTreeMap<String, String>, ConfigError> {
    let text = |value: toml::Value| match value {
        toml::Value::String(text) => text,
        toml::Value::Array(list) => {
            let texts = list.iter().map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(",")
        }
        other => other.to_string(),
    };
    Ok(parse_file(state)?.into_iter().map(|(name, value)| (name, text(value))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

    fn state() -> (tempfile::TempDir, StateDir) {
        let dir = tempfile::tempdir().expect("a directory");
        let state = StateDir::new(dir.path().join("state"));
        state.create().expect("made");
        (dir, state)
    }

    fn env(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_originals_variables_are_enough() {
        let (_dir, state) = state();
        let env = env(&[
            ("KENNY_SERVER", "ws://127.0.0.1:8000/agent/ws"),
            ("KENNY_AGENT_ID", "example-pc"),
            ("KENNY_SERVER_PUBKEY", KEY),
            ("KENNY_ENROLL_TOKEN", "secret-token"),
            ("KENNY_LOG_FORWARD_LEVEL", "warn"),
        ]);
        let config = Config::load(&state, &Given::default(), &env).expect("complete");
        assert_eq!(config.identity.id.as_str(), "example-pc");
        assert_eq!(config.settings.text("log_forward_level"), "warn");
        assert!(config.token.is_some() && !config.enrolled);
        assert!(!format!("{config:?}").contains("secret-token"));
    }

    #[test]
    fn an_enrolment_is_remembered_and_another_identity_is_another_enrolment() {
        let (_dir, state) = state();
        state.key_or_new().expect("a key");
        let given = Given {
            hub: Some("https://hub.example".into()),
            id: Some("pc-1".into()),
            hub_key: Some(KEY.into()),
            ..Given::default()
        };
        let config = Config::load(&state, &given, &BTreeMap::new()).expect("complete");
        assert!(!config.enrolled);
        config.identity.save(&state).expect("saved");
        let again = Config::load(&state, &Given::default(), &BTreeMap::new()).expect("remembered");
        assert!(again.enrolled);
        assert_eq!(again.identity, config.identity);
        let moved = Given { hub: Some("wss://new.example".into()), ..Given::default() };
        assert!(Config::load(&state, &moved, &BTreeMap::new()).expect("complete").enrolled, "a hub may move");
        let other = Given { id: Some("pc-2".into()), ..Given::default() };
        assert!(!Config::load(&state, &other, &BTreeMap::new()).expect("complete").enrolled);
    }

    #[test]
    fn saving_keeps_the_settings_in_the_file() {
        let (_dir, state) = state();
        std::fs::write(state.config_file(), "telemetry_s = 60\nupdate_hosts = [\"a\", \"b\"]\n").expect("written");
        let given = Given {
            hub: Some("https://hub.example".into()),
            id: Some("pc-1".into()),
            hub_key: Some(KEY.into()),
            ..Given::default()
        };
        Config::load(&state, &given, &BTreeMap::new()).expect("complete").identity.save(&state).expect("saved");
        let config = Config::load(&state, &Given::default(), &BTreeMap::new()).expect("complete");
        assert_eq!(config.settings.text("telemetry_s"), "60");
        assert_eq!(config.settings.list("update_hosts"), ["a", "b"]);
    }

    #[test]
    fn what_is_missing_or_wrong_is_told_with_its_origin() {
        let (_dir, state) = state();
        let of = |pairs: &[(&str, &str)]| {
            Config::load(&state, &Given::default(), &env(pairs)).expect_err("not usable").to_string()
        };
        assert!(of(&[]).contains("id, hub, hub key are missing"), "{}", of(&[]));
        assert!(of(&[("KENNY_AGENT_ID", "a"), ("KENNY_SERVER_PUBKEY", KEY)]).contains("hub is missing"));
        let full = |id, hub, key| [("KENNY_AGENT_ID", id), ("KENNY_SERVER", hub), ("KENNY_SERVER_PUBKEY", key)];
        assert!(of(&full("a b", "ws://h", KEY)).starts_with("KENNY_AGENT_ID:"));
        assert!(of(&full("a", "h:1", KEY)).starts_with("KENNY_SERVER:"));
        assert!(of(&full("a", "ws://h", "x")).starts_with("KENNY_SERVER_PUBKEY:"));
        std::fs::write(state.config_file(), "id = ").expect("written");
        assert!(of(&[]).contains("agent.toml"));
    }
}
