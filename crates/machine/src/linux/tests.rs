//! Facts for tests.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use crate::Options;
use crate::facts::Facts;

/// Facts, and the runtime that they need to live.
pub(crate) fn facts(options: Options) -> (Runtime, Facts) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let facts = Facts {
        options: Arc::new(options),
        handle: runtime.handle().clone(),
        stop: CancellationToken::new(),
        patience: Duration::from_secs(30),
        remembered: Arc::default(),
        rules: None,
    };
    (runtime, facts)
}

/// A root with these files in it.
pub(crate) fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    root
}

/// What a collector makes of a root with these files in it.
pub(crate) fn collected(collector: crate::collect::Collector, files: &[(&str, &str)]) -> serde_json::Value {
    let root = root(files);
    let (_runtime, facts) = facts(Options { root: root.path().to_owned(), ..Options::default() });
    collector(&facts).into()
}
