//! A person's home, a workspace and a provider, each for one test.

use std::path::{Path, PathBuf};
use std::process::Command;

use convoke_models::ProviderKind;
use convoke_models::testkit::{Answer, Reply, ScriptedServer};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;

pub(crate) struct World {
    dir: TempDir,
    pub(crate) provider: ScriptedServer,
    // The provider lives on it.
    runtime: tokio::runtime::Runtime,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        for name in ["home/.kward", "work"] {
            std::fs::create_dir_all(dir.path().join(name)).expect("a directory");
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let provider = runtime.block_on(ScriptedServer::start());
        Self { dir, provider, runtime }
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub(crate) fn config_dir(&self) -> PathBuf {
        self.home().join(".kward")
    }

    /// The workspace's real path.
    pub(crate) fn work(&self) -> PathBuf {
        std::fs::canonicalize(self.dir.path().join("work")).expect("a directory")
    }

    pub(crate) fn root(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn file(&self, path: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(&path, text).expect("a file");
        path
    }

    pub(crate) fn config(&self, config: &Value) {
        self.file("home/.kward/config.json", &config.to_string());
    }

    /// Where this workspace's sessions are, as clients compute it.
    pub(crate) fn sessions(&self) -> PathBuf {
        let work = self.work();
        let safe = work.to_str().expect("text").trim_start_matches('/').replace('/', "-");
        self.config_dir().join("sessions").join(format!("--{safe}--"))
    }

    /// The program, with nothing of the tester's own environment.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_convoke"));
        command.arg("rpc").env_clear().env("HOME", self.home()).current_dir(self.dir.path());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        // Nothing here may ask anybody outside.
        for name in ["OPENAI_BASE_URL", "CODEX_BASE_URL", "OPENROUTER_BASE_URL", "OPENAI_OAUTH_BASE_URL"] {
            command.env(name, self.provider.url());
        }
        command
    }

    /// A backend that asks the provider of this world.
    pub(crate) fn client(&self) -> Client {
        self.client_with(&[])
    }

    pub(crate) fn client_with(&self, variables: &[(&str, &str)]) -> Client {
        let mut command = self.command();
        command.env("KWARD_PROVIDER", "Local").env("LOCAL_BASE_URL", format!("{}/v1", self.provider.url()));
        command.env("LOCAL_MODEL", "test-model").envs(variables.iter().copied());
        Client::start(&mut command)
    }

    /// A new session in the workspace.
    #[track_caller]
    pub(crate) fn session(&self, client: &mut Client) -> String {
        let session = client.call("sessions/create", json!({ "workspaceRoot": self.work() }));
        session["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until the provider was asked so often.
    pub(crate) fn asked(&self, count: usize) {
        self.runtime.block_on(self.provider.requests(count));
    }

    /// Waits until so many clients have hung up on a provider that says nothing more.
    pub(crate) fn hung_up(&self, count: usize) {
        self.runtime.block_on(self.provider.hung_up(count));
    }

    /// What the model says next.
    pub(crate) fn says(&self, reply: &Reply) {
        self.provider.push(answer(reply));
    }
}

/// A reply as this world's provider streams it.
pub(crate) fn answer(reply: &Reply) -> Answer {
    reply.answer(ProviderKind::Local)
}
