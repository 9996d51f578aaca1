//! The methods on sessions.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use convoke_kward::params;
use convoke_kward::results::{
    Closed, Deleted, ForkMessage, ForkMessages, Forked, MemoryWhy, Session, Sessions, Transcript,
};
use convoke_kward::rpc::RpcError;
use convoke_kward::transcript::{self, Role};
use convoke_toolbox::Toolbox;

use super::file::SessionFile;
use super::live::{Live, Opening};
use super::load::{self, Item, Totals};
use super::record::{Header, VERSION};
use super::scan::compact;
use super::{folder, list};
use crate::backend::{Backend, file_failed};
use crate::clock;
use crate::config::Config;
use crate::environment::shown;
use crate::providers::Pinned;

/// Sessions in a list that names no limit.
const DEFAULT_LIMIT: usize = 20;

/// Most sessions in a list.
const MAX_LIMIT: usize = 10_000;

/// Sessions that may be open at once in one process.
const MAX_OPEN: usize = 256;

/// How long the turns of a session that is closed have to end.
const GRACE: Duration = Duration::from_secs(2);

/// Where a new session comes from.
struct Origin<'a> {
    source: &'a Live,
    items: Vec<Item>,
}

impl Backend {
    pub(crate) fn create_session(self: &Arc<Self>, params: params::Create) -> Result<Session, RpcError> {
        let root = self.workspace(params.workspace_root.as_deref())?;
        // A person who has turned it off in the configuration gets a new one, whatever the client would like.
        let may_resume = self.config.read_or_default().switch("sessions", "auto_resume") != Some(false);
        if params.resume_last == Some(true)
            && may_resume
            && let Some(path) = folder::last(&folder::of_workspace(&self.paths.sessions(), &root))
            && let Ok(session) = self.open_file(&path, &root)
        {
            return Ok(session);
        }
        // Also when the last one cannot be opened any more: there has to be one to speak in.
        self.make(&root, None, params.name)
    }

    pub(crate) fn resume_session(self: &Arc<Self>, params: params::Resume) -> Result<Session, RpcError> {
        let root = params.workspace_root.as_deref().map(|root| self.workspace(Some(root))).transpose()?;
        let base = root.as_deref().unwrap_or_else(|| self.environment.launch_dir());
        let path = self.environment.expand(params.path.trim(), base);
        let in_folder = folder::of_workspace(&self.paths.sessions(), base).join(params.path.trim());
        let path = [path.clone(), in_folder].into_iter().find(|path| path.is_file()).unwrap_or(path);
        self.open_file(&path, base)
    }

    pub(crate) fn list_sessions(&self, params: params::List) -> Result<Sessions, RpcError> {
        let root = self.workspace(params.workspace_root.as_deref())?;
        let limit = params.limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
        let default = if params.current_session_path.is_some() { MAX_LIMIT } else { DEFAULT_LIMIT };
        let limit = limit.unwrap_or(default).min(MAX_LIMIT);
        let dir = folder::of_workspace(&self.paths.sessions(), &root);
        Ok(Sessions { sessions: list::list(&dir, &shown(&root), limit).map_err(file_failed)? })
    }

    pub(crate) fn rename_session(&self, params: params::Rename) -> Result<Session, RpcError> {
        let live = self.session(&params.session_id)?;
        let mut state = live.state();
        state.name = params.name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        state.note_info().map_err(file_failed)?;
        drop(state);
        Ok(live.shown())
    }

    pub(crate) fn clone_session(self: &Arc<Self>, params: params::OfSession) -> Result<Session, RpcError> {
        let source = self.session(&params.session_id)?;
        if source.is_idle() {
            self.catch_up(&source).map_err(file_failed)?;
        }
        let (items, name) = {
            let state = source.state();
            (state.items.clone(), state.name.clone())
        };
        let session = self.make(&source.root.clone(), Some(Origin { source: &source, items }), name)?;
        if let Ok(clone) = self.session(&session.id) {
            source.tools().read_paths().iter().for_each(|path| clone.tools().mark_read(path));
        }
        Ok(session)
    }

    pub(crate) fn fork_messages(&self, params: params::OfSession) -> Result<ForkMessages, RpcError> {
        let live = self.session(&params.session_id)?;
        if live.is_idle() {
            self.catch_up(&live).map_err(file_failed)?;
        }
        let state = live.state();
        let users = state.items.iter().enumerate().filter(|(_, item)| item.message.role() == Role::User);
        let message = |(index, item): (usize, &Item)| ForkMessage {
            entry_id: format!("message:{index}"),
            text: compact(&item.message.display_text()),
        };
        Ok(ForkMessages { messages: users.map(message).collect() })
    }

    pub(crate) fn fork_session(self: &Arc<Self>, params: params::Fork) -> Result<Forked, RpcError> {
        let source = self.session(&params.session_id)?;
        let id = params.entry_id.as_str();
        let (items, text) = {
            let state = source.state();
            let at = match id.strip_prefix("message:").map(str::parse::<usize>) {
                Some(Ok(at)) => Some(at).filter(|at| *at < state.items.len()),
                Some(Err(_)) => return Err(RpcError::invalid_params(format!("Invalid entryId: {id}"))),
                None => match state.items.iter().position(|item| item.id == id) {
                    Some(at) => Some(at),
                    None => return Err(RpcError::invalid_params(format!("Invalid entryId: {id}"))),
                },
            };
            let Some(at) = at else {
                return Err(RpcError::invalid_params(format!("Unknown fork entryId: {id}")));
            };
            let message = &state.items[at].message;
            if message.role() != Role::User {
                return Err(RpcError::invalid_params(format!("Entry is not forkable: {id}")));
            }
            (state.items[..at].to_vec(), message.display_text().trim().to_owned())
        };
        let session = self.make(&source.root.clone(), Some(Origin { source: &source, items }), None)?;
        Ok(Forked { session, text, cancelled: false })
    }

    pub(crate) fn transcript(&self, params: params::OfSession) -> Result<Transcript, RpcError> {
        let live = self.session(&params.session_id)?;
        if live.is_idle() {
            self.catch_up(&live).map_err(file_failed)?;
        }
        let items = live.state().items.clone();
        let messages = transcript::shown(items.iter().map(|item| item.message.as_ref()));
        Ok(Transcript { session: live.shown(), messages })
    }

    pub(crate) async fn close_session(self: &Arc<Self>, params: params::OfSession) -> Result<Closed, RpcError> {
        let live = self.session(&params.session_id)?;
        self.close(&live).await;
        Ok(Closed { closed: true })
    }

    pub(crate) async fn delete_session(self: &Arc<Self>, params: params::OfSession) -> Result<Deleted, RpcError> {
        let live = self.session(&params.session_id)?;
        self.end_turns(&live).await;
        self.forget(&live);
        let path = live.path.clone();
        let removed = tokio::task::spawn_blocking(move || folder::remove(&path)).await;
        let deleted =
            removed.map_err(|_| RpcError::internal("The session could not be deleted"))?.map_err(file_failed)?;
        Ok(Deleted { deleted, path: shown(&live.path) })
    }

    /// Ends what is at work in a session, lets go of its file, and removes that if nobody used it.
    pub(crate) async fn close(self: &Arc<Self>, live: &Arc<Live>) {
        self.end_turns(live).await;
        let (backend, live) = (self.clone(), live.clone());
        // Nothing to be told: the session is closed in any case.
        let _ = tokio::task::spawn_blocking(move || backend.discard(&live)).await;
    }

    async fn end_turns(&self, live: &Live) {
        let turns = {
            let mut queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            queue.is_closed = true;
            queue.all()
        };
        turns.iter().rev().for_each(|turn| turn.request_cancel());
        let ended = async {
            for turn in &turns {
                turn.ended().await;
            }
        };
        let _ = tokio::time::timeout(GRACE, ended).await;
    }

    /// The process ends: turns are cancelled, what is at work comes to its end, then every session is closed.
    pub(crate) async fn close_all(self: &Arc<Self>, grace: Duration) {
        self.logins.cancel_all();
        for live in self.open_sessions() {
            let turns = {
                let mut queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                queue.is_closed = true;
                queue.all()
            };
            turns.iter().rev().for_each(|turn| turn.request_cancel());
        }
        // What does not end in time is left behind; what it wrote down is there.
        let _ = tokio::time::timeout(grace, self.wait_for_tasks()).await;
        let open = self.open_sessions();
        futures_util::future::join_all(open.iter().map(|live| self.close(live))).await;
    }

    fn forget(&self, live: &Live) {
        self.sessions.write().unwrap_or_else(|poisoned| poisoned.into_inner()).remove(&live.id);
        live.release();
    }

    fn discard(&self, live: &Live) {
        let is_unused = live.is_unused();
        self.forget(live);
        if is_unused {
            // A file that cannot be removed stays; it is empty and harmless.
            let _ = folder::remove_if_unused(&live.path);
        }
    }

    /// Closes the sessions of this process that nobody has used, but for those of a file.
    fn clean_up(&self, kept: &Path) {
        for live in self.open_sessions() {
            if live.path != kept && live.is_unused() && live.close_if_idle() {
                self.discard(&live);
            }
        }
    }

    /// Opens a file that exists; one that does not say where it belongs is taken for this workspace's.
    fn open_file(self: &Arc<Self>, path: &Path, workspace: &Path) -> Result<Session, RpcError> {
        if !path.is_file() {
            return Err(RpcError::failed("SessionNotFound", format!("Session file not found: {}", shown(path))));
        }
        let path = std::fs::canonicalize(path).map_err(file_failed)?;
        let (mut file, bytes) = SessionFile::open(&path, self.redactor.clone()).map_err(file_failed)?;
        let Some(mut loaded) = load::load_at(&bytes, &path) else {
            return Err(RpcError::failed("InvalidSession", format!("Invalid Kward session file: {}", shown(&path))));
        };
        drop(bytes);
        file.continue_after(loaded.last_entry);
        if loaded.header.cwd.is_empty() {
            loaded.header.cwd = shown(workspace);
        }
        if loaded.is_header_lost {
            file.has_lost(&loaded.header);
        } else if !loaded.is_used && loaded.name.is_none() {
            file.may_be_made_again(&loaded.header);
        }
        let root = self.workspace(Some(&loaded.header.cwd))?;
        let pinned = Pinned { provider: loaded.provider, model: loaded.model, effort: loaded.effort };
        let pinned = self.usable(pinned);
        let read = load::read_paths(&loaded.items);
        let retrieval = loaded.last_retrieval.and_then(|value| serde_json::from_value::<MemoryWhy>(value).ok());
        let retrieval = retrieval.map(explained);
        let live = self.open(Opening {
            file,
            persistent_id: loaded.header.id,
            root,
            created_at: loaded.header.timestamp,
            parent_id: loaded.header.parent_id,
            parent_path: loaded.header.parent_path,
            name: loaded.name,
            pinned,
            items: loaded.items,
            totals: loaded.totals,
            last_retrieval: retrieval,
            is_just_compacted: loaded.is_just_compacted,
        })?;
        let tools = live.tools();
        read.iter().for_each(|path| tools.mark_read(path));
        Ok(live.shown())
    }

    /// Makes a new session, from nothing or from another.
    fn make(
        self: &Arc<Self>,
        root: &Path,
        origin: Option<Origin<'_>>,
        name: Option<String>,
    ) -> Result<Session, RpcError> {
        let config = self.config.read_or_default();
        let pinned = match &origin {
            Some(origin) => origin.source.state().pinned.clone(),
            None => self.first_choice(&config),
        };
        let created_at = clock::now_text();
        let id = clock::unique_id();
        let header = Header {
            kind: "session",
            version: VERSION,
            id: id.clone(),
            timestamp: created_at.clone(),
            cwd: shown(root),
            provider: pinned.provider.clone(),
            model: pinned.model.clone(),
            reasoning_effort: pinned.effort.clone(),
            parent_id: origin.as_ref().map(|origin| origin.source.persistent_id.clone()),
            parent_path: origin.as_ref().map(|origin| shown(&origin.source.path)),
        };
        let path: PathBuf =
            folder::of_workspace(&self.paths.sessions(), root).join(folder::file_name(&created_at, &id));
        let mut file = SessionFile::create(&path, &header, self.redactor.clone()).map_err(file_failed)?;
        let items = origin.map(|origin| origin.items).unwrap_or_default();
        let items = file.copy(&items).map_err(file_failed)?;
        let name = name.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
        let live = self.open(Opening {
            file,
            persistent_id: id,
            root: root.to_owned(),
            created_at,
            parent_id: header.parent_id,
            parent_path: header.parent_path,
            name: name.clone(),
            pinned,
            items,
            totals: Totals::default(),
            last_retrieval: None,
            is_just_compacted: false,
        })?;
        if name.is_some() {
            live.state().note_info().map_err(file_failed)?;
        }
        Ok(live.shown())
    }

    /// What a session had settled on, if that can still be used here; a model is of no use with another provider.
    fn usable(&self, pinned: Pinned) -> Pinned {
        let config = self.config.read_or_default();
        match pinned.provider.as_deref().map(str::parse) {
            Some(Ok(kind)) if self.is_configured(&config, kind) => pinned,
            Some(_) => Pinned::default(),
            None => pinned,
        }
    }

    /// What a new session settles on: the provider in use, if it can be used. Otherwise nothing yet, so that the
    /// session follows as soon as one is set up.
    fn first_choice(&self, config: &Config) -> Pinned {
        let selection = self.selection(config, None);
        match self.is_configured(config, selection.kind) {
            true => Pinned {
                provider: Some(selection.kind.label().to_owned()),
                model: selection.model,
                effort: selection.effort,
            },
            false => Pinned::default(),
        }
    }

    fn open(self: &Arc<Self>, opening: Opening) -> Result<Arc<Live>, RpcError> {
        let id = clock::unique_id();
        let settings = self.tool_settings(&id, &opening.root);
        let tools = Toolbox::open(settings).map_err(file_failed)?;
        let live = Arc::new(Live::new(id.clone(), opening, tools));
        {
            let mut sessions = self.sessions.write().unwrap_or_else(|poisoned| poisoned.into_inner());
            if sessions.len() >= MAX_OPEN {
                let text = format!("{MAX_OPEN} sessions are open in this process. Close one first.");
                return Err(RpcError::failed("TooManySessions", text));
            }
            sessions.insert(id, live.clone());
        }
        folder::remember_last(&folder::of_workspace(&self.paths.sessions(), &live.root), &live.path);
        self.clean_up(&live.path);
        Ok(live)
    }
}

/// Kward stores what it remembered without saying it in sentences.
fn explained(mut why: MemoryWhy) -> MemoryWhy {
    if why.explanation.is_empty() {
        why.explanation = crate::memory::explanation(&why);
    }
    why
}
