//! The program as people and services run it: real processes at a real hub.

#![cfg(unix)]

mod run;
mod update;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use convoke_api::Client;
use convoke_core::secret::SecretText;
use convoke_hub::settings::{Settings, Sources};
use convoke_hub::{HubOptions, Running};
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_convoke-agent");
const TOKEN: &str = "cvk_test-operator-token";
const ID: &str = "pc-1";
/// Longer than anything here takes on a busy machine; only a failure waits for it.
const PATIENCE: Duration = Duration::from_secs(90);

/// A hub in this process, and a directory for the agent beside it.
struct Stage {
    dir: TempDir,
    hub: Running,
    client: Client,
}

impl Stage {
    async fn new(more: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let mut flags = vec![("hub.listen".to_owned(), "127.0.0.1:0".to_owned())];
        flags.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
        let token = SecretText::new(TOKEN);
        let operator_token = Some(token.clone());
        let data = dir.path().join("hub");
        let options = HubOptions { data, settings, data_key: None, hub_seed: None, operator_token };
        let hub = convoke_hub::start(options).await.expect("starts");
        let client = Client::new(&hub.http, token).expect("a client");
        Self { dir, hub, client }
    }

    fn state(&self) -> std::path::PathBuf {
        self.dir.path().join("agent")
    }

    /// A verb of the program, or of a copy of it.
    fn verb(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("CONVOKE_") || name.starts_with("KENNY_")) {
                command.env_remove(name);
            }
        }
        command.args(args).arg("--state").arg(self.state()).stdin(Stdio::null());
        command
    }

    /// Runs a verb to its end: its exit code, and what it wrote.
    fn ask(&self, args: &[&str]) -> (Option<i32>, String) {
        let output = self.verb(Path::new(PROGRAM), args).output().expect("the program runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), text)
    }

    async fn enrol(&self) {
        let token: Value = self.post(&format!("/api/agents/{ID}/token"), json!({})).await;
        let text = |name: &str| token[name].as_str().expect("a text");
        let (hub, key) = (self.hub.http.as_str(), text("hub_public_key"));
        let args = ["enroll", "--id", ID, "--hub", hub, "--hub-key", key, "--token", text("token")];
        let (code, told) = self.ask(&args);
        assert_eq!(code, Some(0), "{told}");
        assert!(told.contains("is enrolled at") && told.contains("convoke-agent run"), "{told}");
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        self.client.post(path, &body).await.expect("answered")
    }

    async fn call(&self, tool: &str, args: Value) -> Value {
        self.post(&format!("/api/agents/{ID}/call"), json!({ "tool": tool, "args": args })).await
    }
}

/// A running agent. It ends when its standard input does, and is killed when dropped.
struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    told: Receiver<String>,
}

impl Agent {
    fn start(mut command: Command) -> Self {
        command.arg("--until-stdin-closes");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        let stdin = child.stdin.take();
        let stderr = child.stderr.take().expect("piped");
        let (tell, told) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Nobody listens any more once the test is over.
                let _ = tell.send(line);
            }
        });
        Self { child, stdin, told }
    }

    /// Waits for a line with this text.
    #[track_caller]
    fn told(&self, text: &str) {
        let mut told = Vec::new();
        while !told.last().is_some_and(|line: &String| line.contains(text)) {
            match self.told.recv_timeout(PATIENCE) {
                Ok(line) => told.push(line),
                Err(why) => panic!("no {text:?}: {why}; so far: {told:#?}"),
            }
        }
    }

    /// Waits for its end.
    fn ended(&mut self) {
        self.child.wait().expect("it ends");
    }

    fn stop(mut self) {
        drop(self.stdin.take());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
