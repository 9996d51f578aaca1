//! The state of one backend process.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use convoke_kward::rpc::RpcError;
use convoke_models::{Catalogue, Http, ProviderKind};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::auth::{AuthFile, Logins};
use crate::config::{Config, ConfigError, ConfigStore};
use crate::environment::{Environment, Paths, shown};
use crate::lanes::Lanes;
use crate::logs::Logs;
use crate::memory::Memory;
use crate::outbox::{Outbox, Pipe};
use crate::redact::Redactor;
use crate::sessions::live::Live;
use crate::turns::question::Questions;
use crate::turns::queue::Turns;

/// The backend of one client.
#[derive(Debug)]
pub(crate) struct Backend {
    pub(crate) environment: Environment,
    pub(crate) paths: Paths,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) out: Arc<Outbox>,
    pub(crate) config: ConfigStore,
    pub(crate) auth: Arc<AuthFile>,
    pub(crate) http: Http,
    catalogues: [Catalogue; ProviderKind::ALL.len()],
    pub(crate) sessions: RwLock<HashMap<String, Arc<Live>>>,
    pub(crate) turns: Turns,
    pub(crate) questions: Questions,
    pub(crate) logins: Logins,
    pub(crate) memory: Memory,
    pub(crate) logs: Logs,
    pub(crate) lanes: Lanes,
    /// Fired when the process is to end.
    pub(crate) end: CancellationToken,
    tasks: TaskTracker,
    runtime: Handle,
}

impl Backend {
    pub(crate) fn new(
        environment: Environment,
        pipe: Box<dyn Pipe>,
        end: CancellationToken,
        runtime: Handle,
    ) -> Arc<Self> {
        let paths = Paths::new(&environment);
        let redactor = Arc::new(Redactor::default());
        environment.secrets().for_each(|secret| redactor.learn_from_environment(secret));
        let gone = end.clone();
        let out = Arc::new(Outbox::new(pipe, redactor.clone(), move || gone.cancel()));
        Arc::new(Self {
            config: ConfigStore::new(paths.config.clone(), redactor.clone()),
            auth: Arc::new(AuthFile::new(paths.auth.clone(), redactor.clone())),
            http: Http::new(),
            catalogues: std::array::from_fn(|_| Catalogue::new()),
            sessions: RwLock::default(),
            turns: Turns::default(),
            questions: Questions::default(),
            logins: Logins::default(),
            memory: Memory::new(&paths.dir),
            logs: Logs::new(paths.logs(), redactor.clone()),
            lanes: Lanes::default(),
            tasks: TaskTracker::new(),
            environment,
            paths,
            redactor,
            out,
            end,
            runtime,
        })
    }

    /// Starts a task that the backend waits for when it ends.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn_on(task, &self.runtime);
    }

    /// Waits for the tasks.
    pub(crate) async fn wait_for_tasks(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// The facts of a provider's models.
    pub(crate) fn catalogue(&self, kind: ProviderKind) -> &Catalogue {
        let at = ProviderKind::ALL.iter().position(|one| *one == kind).unwrap_or(0);
        &self.catalogues[at]
    }

    /// An open session. Clients match the wording of the error and then open the session again.
    pub(crate) fn session(&self, id: &str) -> Result<Arc<Live>, RpcError> {
        let sessions = self.sessions.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = sessions.get(id).cloned();
        found.ok_or_else(|| RpcError::failed("UnknownSession", format!("Unknown session: {id}")))
    }

    /// All open sessions.
    pub(crate) fn open_sessions(&self) -> Vec<Arc<Live>> {
        self.sessions.read().unwrap_or_else(|poisoned| poisoned.into_inner()).values().cloned().collect()
    }

    /// The real path of a workspace.
    pub(crate) fn workspace(&self, root: Option<&str>) -> Result<PathBuf, RpcError> {
        let base = self.environment.launch_dir();
        let path = match root.map(str::trim).filter(|root| !root.is_empty()) {
            Some(root) => self.environment.expand(root, base),
            None => base.to_owned(),
        };
        match std::fs::canonicalize(&path) {
            Ok(real) if real.is_dir() => Ok(real),
            _ => Err(no_workspace(&path)),
        }
    }

    /// The configuration, or the error in it.
    pub(crate) fn read_config(&self) -> Result<Arc<Config>, RpcError> {
        Ok(self.config.read()?)
    }
}

fn no_workspace(path: &Path) -> RpcError {
    let text = format!("Workspace root is not an existing directory: {}", shown(path));
    RpcError::failed("InvalidWorkspace", text)
}

impl From<ConfigError> for RpcError {
    fn from(error: ConfigError) -> Self {
        Self::failed("ConfigError", error.to_string())
    }
}

/// A file could not be read or written.
pub(crate) fn file_failed(error: std::io::Error) -> RpcError {
    RpcError::failed("FileError", error.to_string())
}
