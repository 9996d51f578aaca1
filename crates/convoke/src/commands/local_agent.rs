//! The agent that `convoke up` starts for this machine. It is a separate process with its own state directory, so that its
//! failures do not affect the hub.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use convoke_cli::agent::HUBS_AGENT;
use convoke_core::id::PeerId;
use convoke_endpoint::address::HubAddress;
use convoke_endpoint::config::Identity;
use convoke_endpoint::state::StateDir;
use convoke_hub::Adopted;
use convoke_hub::Hub;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Its id.
pub(super) const ID: &str = "local";
/// How long it may take to end.
const FAREWELL: Duration = Duration::from_secs(8);
/// How long to wait before it is started again: from this, doubling to the other.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The agent beside the hub. Ends with it.
#[derive(Debug)]
pub(super) struct LocalAgent {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl LocalAgent {
    /// Starts it, with as many `open_files` as the hub had before it raised that. Whatever goes wrong is told in the log
    /// and costs the hub nothing.
    pub(super) fn start(hub: &Hub, data: &Path, http: String, open_files: Option<u64>) -> Self {
        let stop = CancellationToken::new();
        let runner = Runner { hub: hub.clone(), state: data.join(HUBS_AGENT), http, open_files };
        let task = tokio::spawn({
            let stop = stop.clone();
            async move {
                if let Err(why) = runner.keep_running(&stop).await {
                    tracing::warn!("cannot start the local agent: {why:#}");
                }
            }
        });
        Self { stop, task }
    }

    /// Ends it and waits for its end.
    pub(super) async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

struct Runner {
    hub: Hub,
    state: PathBuf,
    http: String,
    open_files: Option<u64>,
}

impl Runner {
    async fn keep_running(&self, stop: &CancellationToken) -> Result<()> {
        let identity = self.enrol().await?;
        let mut pause = PAUSES.0;
        loop {
            let mut child = self.spawn(&identity)?;
            // Out of the child's hands: waiting for a child closes what it still holds of it.
            let stdin = child.stdin.take();
            let begun = std::time::Instant::now();
            let status = tokio::select! {
                status = child.wait() => status.context("cannot wait for the local agent")?,
                () = stop.cancelled() => {
                    // Its standard input ends, and so does it.
                    drop(stdin);
                    if tokio::time::timeout(FAREWELL, child.wait()).await.is_err() {
                        let _ = child.kill().await;
                    }
                    return Ok(());
                }
            };
            if begun.elapsed() > PAUSES.1 {
                pause = PAUSES.0;
            }
            tracing::warn!(%status, pause_s = pause.as_secs(), "the local agent ended; starting it again");
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => return Ok(()),
            }
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// Makes its key, binds it at the hub, and keeps who it is.
    async fn enrol(&self) -> Result<Identity> {
        let state = StateDir::new(&self.state);
        state.create()?;
        let id = PeerId::kenny(ID).context("its id")?;
        let key = state.key_or_new()?.verifying_key();
        let mut adopted = self.hub.adopt(&id, key).await.context("cannot enrol the local agent")?;
        if adopted == Adopted::OldKey {
            // Revoked once, and invited again or forgotten since.
            let key = state.new_key()?.verifying_key();
            adopted = self.hub.adopt(&id, key).await.context("cannot enrol the local agent")?;
        }
        match adopted {
            Adopted::Yes => {}
            Adopted::OldKey => bail!("the hub refuses the local agent's new key"),
            Adopted::Revoked => bail!("agent `{ID}` was revoked by an operator"),
            Adopted::Taken => bail!("another machine is connected as `{ID}`"),
        }
        let hub = HubAddress::parse(&self.http)?;
        // The hub's own certificate is reason enough to trust the hub's own certificate.
        let ca = self.hub.settings.tls.cert.clone().filter(|_| self.hub.tls);
        let identity = Identity { id, hub, hub_key: self.hub.key.verifying_key(), ca };
        identity.save(&state)?;
        Ok(identity)
    }

    fn spawn(&self, identity: &Identity) -> Result<Child> {
        let program = std::env::current_exe().context("cannot find the path of this program")?;
        let mut command = Command::new(program);
        command.args(["agent", "run", "--console", "warn", "--until-stdin-closes", "--state"]).arg(&self.state);
        command.args(["--hub", &identity.hub.to_string()]);
        if let Some(open_files) = self.open_files {
            command.args(["--open-files", &open_files.to_string()]);
        }
        // What is set for the hub, or for another agent of this machine, is not meant for this one.
        for (name, _) in std::env::vars_os() {
            let bytes = name.as_encoded_bytes();
            if bytes.starts_with(b"KENNY_") || (bytes.starts_with(b"CONVOKE_") && bytes != b"CONVOKE_LOG") {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::piped()).stdout(Stdio::null()).kill_on_drop(true);
        // Ctrl-C is for the hub, which ends the agent when its calls are over.
        #[cfg(unix)]
        command.process_group(0);
        command.spawn().context("cannot start the local agent's process")
    }
}
