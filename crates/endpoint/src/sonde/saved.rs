//! What is kept between runs: `sonde.json` in the state directory, for its owner alone.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::effect::Effect;
use convoke_probes::Config;
use convoke_sonde::register::Dialect;
use convoke_sonde::sign::{Signer, Verifier};
use serde::{Deserialize, Serialize};

use super::SondeError;
use super::keys::{HubKey, OwnKey};
use crate::state::{self, StateDir};

/// Who this agent is at a Sonde hub, and what it allows there.
#[derive(Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// The hub's door.
    pub hub: String,
    /// The agent's name.
    pub name: String,
    /// The id it was given.
    pub agent_id: String,
    /// Its API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key: Option<String>,
    /// Its certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert_pem: Option<String>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_pem: Option<String>,
    /// The hub's CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_pem: Option<String>,
    /// Certificates of the only authority to trust, where that is not the hub's CA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// The shape that the hub understood.
    pub dialect: Dialect,
    /// Seconds between heartbeats. The contract says 30; a hub that expects them more often must be given them.
    pub heartbeat_s: f64,
    /// What the agent allows: its owner may edit this.
    pub allowed: Allowed,
}

impl std::fmt::Debug for Saved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Saved({} at {}, certificate: {})", self.name, self.hub, self.cert_pem.is_some())
    }
}

impl Default for Saved {
    fn default() -> Self {
        Self {
            hub: String::new(),
            name: String::new(),
            agent_id: String::new(),
            api_key: None,
            cert_pem: None,
            key_pem: None,
            ca_pem: None,
            ca_file: None,
            dialect: Dialect::Field,
            heartbeat_s: 30.0,
            allowed: Allowed::default(),
        }
    }
}

/// What the agent allows, whatever the hub asks.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Allowed {
    /// The most that a probe may do.
    pub ceiling: Effect,
    /// Directories of logs.
    pub log_dirs: Vec<PathBuf>,
    /// Directories of nginx' logs.
    pub nginx_log_dirs: Vec<PathBuf>,
    /// Hosts besides this machine on which databases may be asked.
    pub database_hosts: Vec<String>,
    /// Packs that are not loaded.
    pub disabled_packs: Vec<String>,
    /// Where packs of one's own are; `packs` in the state directory when nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packs_dir: Option<PathBuf>,
    /// Patterns for what must not leave the machine.
    pub scrub: Vec<String>,
}

impl Default for Allowed {
    fn default() -> Self {
        let Config { ceiling, log_dirs, nginx_log_dirs, database_hosts, disabled_packs, scrub, .. } =
            Config::default();
        Self { ceiling, log_dirs, nginx_log_dirs, database_hosts, disabled_packs, packs_dir: None, scrub }
    }
}

impl Allowed {
    pub(super) fn config(&self, state: &StateDir) -> Config {
        let Self { ceiling, log_dirs, nginx_log_dirs, database_hosts, disabled_packs, packs_dir, scrub } =
            self.clone();
        let packs_dir = Some(packs_dir.unwrap_or_else(|| state.path().join("packs")));
        let usual = Config::default();
        Config { ceiling, log_dirs, nginx_log_dirs, database_hosts, disabled_packs, packs_dir, scrub, ..usual }
    }
}

pub(super) fn file(state: &StateDir) -> PathBuf {
    state.path().join("sonde.json")
}

impl Saved {
    pub(super) fn read(state: &StateDir) -> Result<Self, SondeError> {
        let path = file(state);
        let bytes = state::read(&path)?;
        serde_json::from_slice(&bytes).map_err(|why| SondeError::Saved(format!("{}: {why}", path.display())))
    }

    pub(super) fn write(&self, state: &StateDir) -> Result<(), SondeError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|why| SondeError::Saved(why.to_string()))?;
        text.push('\n');
        Ok(state::write_whole(&file(state), text.as_bytes())?)
    }

    /// Between heartbeats.
    pub(super) fn heartbeat(&self) -> Result<Duration, SondeError> {
        let fits = (0.05..=3600.0).contains(&self.heartbeat_s);
        let bad = || SondeError::Saved("`heartbeat_s` in sonde.json must be from 0.05 to 3600 seconds".into());
        fits.then(|| Duration::from_secs_f64(self.heartbeat_s)).ok_or_else(bad)
    }

    /// What signs for this agent, if it has a certificate.
    pub(super) fn signer(&self) -> Result<Option<Arc<dyn Signer>>, SondeError> {
        match (&self.cert_pem, &self.key_pem) {
            (Some(_), Some(pem)) => Ok(Some(Arc::new(OwnKey::from_pem(pem)?))),
            _ => Ok(None),
        }
    }

    /// What checks the hub's signatures, if it has a CA.
    pub(super) fn verifier(&self) -> Result<Option<Arc<dyn Verifier>>, SondeError> {
        match &self.ca_pem {
            Some(pem) => Ok(Some(Arc::new(HubKey::from_pem(pem)?))),
            None => Ok(None),
        }
    }

    /// What proves to the attestation that this is the same agent: everything but secrets and what the hub gave.
    pub(super) fn config_text(&self) -> String {
        serde_json::json!({ "hub": self.hub, "name": self.name, "allowed": self.allowed }).to_string()
    }
}
