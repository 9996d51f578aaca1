//! The tools as a model meets them: real files, real processes, real sockets.

#![cfg(test)]
#![cfg(unix)]

mod files;
mod others;
mod search;
mod shell;
mod web;

use convoke_toolbox::{Call, Outcome, Output, Settings, Toolbox};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// A workspace in a folder of its own, with a neighbour that nothing may reach.
struct Bench {
    folder: tempfile::TempDir,
    toolbox: Toolbox,
}

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("ws")).unwrap();
        std::fs::write(folder.path().join("secret.txt"), "outside").unwrap();
        let mut settings = Settings::new(folder.path().join("ws"));
        change(&mut settings);
        let toolbox = Toolbox::open(settings).unwrap();
        Self { folder, toolbox }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join("ws").join(name)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    async fn run(&self, tool: &str, arguments: Value) -> Outcome {
        self.toolbox.run(&call(tool, &arguments), &mut |_: Output| {}, &CancellationToken::new()).await
    }

    /// What a failed call says.
    async fn fails(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.run(tool, arguments).await;
        assert!(outcome.is_error, "{outcome:?}");
        outcome.content.strip_prefix("Error: ").unwrap().to_owned()
    }
}

fn call(tool: &str, arguments: &Value) -> Call {
    Call { id: "call_1".into(), name: tool.into(), arguments: arguments.to_string() }
}
