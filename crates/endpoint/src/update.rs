//! `agent_update`: another version of this program in place of this one, and back again if that does not come up.
//!
//! 1. The address must be below `/d/binary/` at the hub's own address, or, by HTTPS, of a host that this machine's owner
//!    named in the setting `update_hosts`. So must every address that it redirects to.
//! 2. The program is fetched beside the present one, at most 256 MiB within 100 s, and must have the SHA-256 that was
//!    announced. Until then nobody may execute the file.
//! 3. It must be a program for this kind of machine, and must answer when it is asked whether it is an agent.
//! 4. `update.json` is written, the present program is kept as `NAME.previous`, and the new one renamed into its place.
//! 5. The call is answered and the agent ends; its supervisor starts the new version.
//! 6. The new version is on trial until it has authenticated at the hub. If that takes longer than `update_trial_s`, or
//!    if it has been started more than three times meanwhile, the previous one is put back.
//!
//! Only where something starts the agent again; in a plain run the answer is `unsupported`.

mod stage;
mod trial;

use std::path::PathBuf;
use std::sync::Arc;

use convoke_machine::ToolError;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::address::{HubAddress, bare_host};
use crate::config::Identity;
use crate::net::Dialler;
use crate::settings::Settings;
use crate::state::StateDir;

pub use stage::{CHECK_ANSWER, CHECK_ARGS};
pub use trial::{Settled, Trial, recover, settle};

/// Where a hub offers programs.
const DOOR: &str = "/d/binary/";

/// Who starts the agent again when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Supervision {
    /// Nobody: it runs in somebody's terminal.
    None,
    /// A service manager, from this program.
    Service {
        /// The program that it starts.
        program: PathBuf,
    },
}

impl Supervision {
    /// Whether something starts the agent again.
    pub const fn is_service(&self) -> bool {
        matches!(self, Self::Service { .. })
    }
}

/// Carries out updates. Cheap to clone; clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct Updater {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    hub: HubAddress,
    hosts: Vec<String>,
    dialler: Dialler,
    state: StateDir,
    supervision: Supervision,
    trial_s: u64,
    /// One at a time.
    under_way: Mutex<()>,
    restart: CancellationToken,
}

impl Updater {
    pub(crate) fn new(
        identity: &Identity,
        settings: &Settings,
        dialler: Dialler,
        state: StateDir,
        supervision: Supervision,
    ) -> Self {
        let inner = Inner {
            hub: identity.hub.clone(),
            hosts: settings.list("update_hosts"),
            dialler,
            state,
            supervision,
            trial_s: settings.seconds("update_trial_s").as_secs().max(1),
            under_way: Mutex::new(()),
            restart: CancellationToken::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Whether the address of an update may be used at all: a matter of the guard, whoever asks.
    pub(crate) fn check_source(&self, args: &Value) -> Result<(), String> {
        match args.get("url").and_then(Value::as_str) {
            Some(text) => match Url::parse(text) {
                Ok(url) => self.allowed(&url),
                Err(_) => Err("cannot read the update's address".to_owned()),
            },
            // For the handler to complain of.
            None => Ok(()),
        }
    }

    fn allowed(&self, url: &Url) -> Result<(), String> {
        let door = self.inner.hub.http(DOOR);
        if url.origin() == door.origin() && url.path().starts_with(door.path()) {
            return Ok(());
        }
        let host = bare_host(url).to_ascii_lowercase();
        let is_named = self.inner.hosts.iter().any(|named| {
            let named = named.to_ascii_lowercase();
            host == named || host.strip_suffix(&named).is_some_and(|rest| rest.ends_with('.'))
        });
        match url.scheme() {
            "https" if is_named => Ok(()),
            scheme if is_named => Err(format!("updates may not come by {}", shown(scheme))),
            _ => {
                let from = shown(url.as_str());
                Err(format!(
                    "updates come from {door} only, or from hosts in this agent's update_hosts, not from {from}"
                ))
            }
        }
    }

    /// Fetches, checks and puts in place. The result is the contract's; a restart must follow.
    pub(crate) async fn stage(&self, args: &Map<String, Value>) -> Result<Value, ToolError> {
        let Supervision::Service { program } = &self.inner.supervision else {
            return Err(ToolError::unsupported(
                "agent_update is only available where the agent is installed as a service (convoke agent install)",
            ));
        };
        convoke_kenny::tools::validate_args("agent_update", &Value::Object(args.clone()))
            .map_err(ToolError::bad_args)?;
        let text = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
        let url = Url::parse(text("url")).map_err(|_| ToolError::bad_args("cannot read agent_update.url"))?;
        let order = stage::Order {
            version: text("version").chars().filter(|c| !c.is_control()).take(64).collect(),
            url,
            sha256: text("sha256").trim().to_ascii_lowercase(),
            program: program.clone(),
            trial_s: self.inner.trial_s,
        };
        let Ok(_alone) = self.inner.under_way.try_lock() else {
            return Err(ToolError::failed("another update is running"));
        };
        if self.inner.state.update_file().exists() {
            return Err(ToolError::failed("the last update is still on trial"));
        }
        tracing::warn!(version = order.version, url = %order.url, "updating");
        stage::run(&self.inner.dialler, &self.inner.state, &order, |url| self.allowed(url)).await?;
        tracing::warn!(version = order.version, "the update is installed; restarting");
        Ok(json!({ "ok": true, "staged_version": order.version }))
    }

    /// Asks for a restart, where the tunnel that should have asked is gone.
    pub(crate) fn restart(&self) {
        self.inner.restart.cancel();
    }

    /// Cancelled when a restart was asked for.
    pub(crate) fn restarting(&self) -> CancellationToken {
        self.inner.restart.clone()
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use convoke_core::id::PeerId;

    use super::*;

    fn updater(hub: &str) -> Updater {
        let identity = Identity {
            id: PeerId::kenny("pc-1").expect("an id"),
            hub: HubAddress::parse(hub).expect("an address"),
            hub_key: ed25519_dalek::SigningKey::from_bytes(&[1; 32]).verifying_key(),
            ca: None,
        };
        let sources = crate::settings::Sources {
            flags: vec![("update_hosts".into(), "mirror.example".into())],
            ..Default::default()
        };
        let settings = Settings::resolve(&sources).expect("fits");
        let dialler = Dialler::new(None, Duration::from_secs(1));
        Updater::new(&identity, &settings, dialler, StateDir::new("nowhere"), Supervision::None)
    }

    #[test]
    fn updates_come_from_allowed_hosts_only() {
        let (secure, plain) = (updater("wss://hub.example:8443"), updater("ws://127.0.0.1:7410"));
        let below = updater("https://hub.example/convoke");
        let allowed = |updater: &Updater, url: &str| updater.check_source(&json!({ "url": url })).is_ok();
        for url in [
            "https://hub.example:8443/d/binary/x",
            "https://HUB.example:8443/d/binary/x",
            "https://mirror.example/x",
            "https://eu.mirror.example:9000/x",
        ] {
            assert!(allowed(&secure, url), "{url}");
        }
        for url in [
            "https://hub.example:8443/x",
            "https://hub.example:8443/d/binary/../x",
            "https://hub.example:8443/d/binary/%2e%2e/x",
            "https://hub.example/d/binary/x",
            "https://hub.example:9000/d/binary/x",
            "http://hub.example:8443/d/binary/x",
            "https://github.com/a/b",
            "https://objects.githubusercontent.com/a",
            "https://evil.example/x",
            "https://evilmirror.example/x",
            "https://hub.example:8443.evil.example/d/binary/x",
            "https://hub.example:8443@evil.example/d/binary/x",
            "http://mirror.example/x",
            "file:///d/binary/x",
            "ftp://hub.example:8443/d/binary/x",
            "nonsense",
        ] {
            assert!(!allowed(&secure, url), "{url}");
        }
        assert!(allowed(&plain, "http://127.0.0.1:7410/d/binary/x"));
        for url in
            ["http://127.0.0.1:17999/d/binary/x", "http://127.0.0.2:7410/d/binary/x", "http://127.0.0.1:7410/x"]
        {
            assert!(!allowed(&plain, url), "{url}");
        }
        assert!(allowed(&below, "https://hub.example/convoke/d/binary/x"));
        assert!(!allowed(&below, "https://hub.example/d/binary/x"));
    }

    #[tokio::test]
    async fn a_plain_run_has_no_updates() {
        let args = json!({ "version": "1", "url": "http://127.0.0.1:7410/x", "sha256": "00" });
        let why = updater("ws://127.0.0.1:7410").stage(args.as_object().expect("an object")).await;
        assert_eq!(why.expect_err("unsupported").code, convoke_kenny::frame::ErrorCode::Unsupported);
    }
}
