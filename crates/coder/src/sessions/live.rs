//! A session that is open: its conversation, its file, its tools and its queue of turns.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use arc_swap::ArcSwap;
use convoke_kward::results::{MemoryWhy, Session};
use convoke_kward::transcript::{Role, Stored};
use convoke_toolbox::Toolbox;
use serde_json::json;

use super::file::SessionFile;
use super::load::{self, Item, Totals};
use super::record::Record;
use crate::clock;
use crate::environment::shown;
use crate::providers::Pinned;
use crate::turns::queue::Queue;

/// Who answers, as clients show it.
pub(crate) const PERSONA: &str = "Assistant";

/// An open session.
#[derive(Debug)]
pub(crate) struct Live {
    /// Its id in this process.
    pub(crate) id: String,
    /// Its id in the file.
    pub(crate) persistent_id: String,
    pub(crate) path: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) created_at: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) parent_path: Option<String>,
    pub(crate) tools: ArcSwap<Toolbox>,
    pub(crate) queue: Mutex<Queue>,
    state: Mutex<State>,
}

/// What changes.
#[derive(Debug)]
pub(crate) struct State {
    /// Gone once the session is closed.
    file: Option<SessionFile>,
    pub(crate) name: Option<String>,
    pub(crate) pinned: Pinned,
    pub(crate) items: Vec<Item>,
    pub(crate) totals: Totals,
    pub(crate) last_retrieval: Option<MemoryWhy>,
    pub(crate) is_compacting: bool,
    /// Nothing has been said since the last compaction.
    pub(crate) is_just_compacted: bool,
}

/// What a new [`Live`] is made of.
#[derive(Debug)]
pub(crate) struct Opening {
    pub(crate) file: SessionFile,
    pub(crate) persistent_id: String,
    pub(crate) root: PathBuf,
    pub(crate) created_at: String,
    pub(crate) parent_id: Option<String>,
    pub(crate) parent_path: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) pinned: Pinned,
    pub(crate) items: Vec<Item>,
    pub(crate) totals: Totals,
    pub(crate) last_retrieval: Option<MemoryWhy>,
    pub(crate) is_just_compacted: bool,
}

impl Live {
    pub(crate) fn new(id: String, opening: Opening, tools: Toolbox) -> Self {
        let ends_with_summary = opening.items.last().is_some_and(|item| item.message.role() == Role::Summary);
        Self {
            id,
            persistent_id: opening.persistent_id,
            path: opening.file.path().to_owned(),
            root: opening.root,
            created_at: opening.created_at,
            parent_id: opening.parent_id,
            parent_path: opening.parent_path,
            tools: ArcSwap::from_pointee(tools),
            queue: Mutex::default(),
            state: Mutex::new(State {
                file: Some(opening.file),
                name: opening.name,
                pinned: opening.pinned,
                items: opening.items,
                totals: opening.totals,
                last_retrieval: opening.last_retrieval,
                is_compacting: false,
                is_just_compacted: opening.is_just_compacted || ends_with_summary,
            }),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(crate) fn tools(&self) -> Arc<Toolbox> {
        self.tools.load_full()
    }

    /// What a client is told of it.
    pub(crate) fn shown(&self) -> Session {
        let state = self.state();
        Session {
            id: self.id.clone(),
            persistent_id: self.persistent_id.clone(),
            path: shown(&self.path),
            workspace_root: shown(&self.root),
            cwd: shown(&self.root),
            name: state.name.clone(),
            created_at: self.created_at.clone(),
            modified_at: state.file.as_ref().and_then(SessionFile::modified_at),
            parent_id: self.parent_id.clone(),
            parent_path: self.parent_path.clone(),
            active_persona_label: PERSONA.into(),
        }
    }

    /// Whether nothing is at work in it.
    pub(crate) fn is_idle(&self) -> bool {
        let is_queue_empty = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).is_empty();
        is_queue_empty && !self.state().is_compacting
    }

    /// Takes no more turns if there is none. Says whether it did: what is said in this very moment is not lost.
    pub(crate) fn close_if_idle(&self) -> bool {
        let mut queue = self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_idle = queue.is_empty() && !self.state().is_compacting;
        queue.is_closed |= is_idle;
        is_idle
    }

    /// Whether nobody has said or named anything.
    pub(crate) fn is_unused(&self) -> bool {
        let state = self.state();
        state.name.is_none() && state.items.is_empty()
    }

    /// Lets go of the file.
    pub(crate) fn release(&self) {
        if let Some(file) = self.state().file.take() {
            // The disk gets it in its own time; whoever reads the file sees it already.
            let _ = file.sync();
        }
    }
}

impl State {
    fn file(&mut self) -> io::Result<&mut SessionFile> {
        self.file.as_mut().ok_or_else(|| io::Error::other("the session was closed"))
    }

    /// Reads the conversation again if another process has written to its file, so that it goes on from there. How many
    /// messages it has then.
    pub(crate) fn catch_up(&mut self) -> io::Result<Option<usize>> {
        let file = self.file()?;
        if !file.is_behind()? {
            return Ok(None);
        }
        let bytes = file.read_again()?;
        let Some(loaded) = load::load_at(&bytes, file.path()) else { return Ok(None) };
        file.continue_after(loaded.last_entry);
        self.name = loaded.name;
        self.items = loaded.items;
        self.totals = loaded.totals;
        self.is_just_compacted = loaded.is_just_compacted;
        Ok(Some(self.items.len()))
    }

    /// Writes a message down and adds it to the conversation.
    pub(crate) fn append(&mut self, mut message: Stored) -> io::Result<Arc<Stored>> {
        let id = self.file()?.message(&mut message)?;
        self.totals.add(&message);
        let message = Arc::new(message);
        self.items.push(Item { id, message: message.clone() });
        self.is_just_compacted = false;
        Ok(message)
    }

    /// Puts a summary in the place of what was before `kept`.
    pub(crate) fn compact(&mut self, mut summary: Stored, kept: usize) -> io::Result<()> {
        if self.file()?.is_behind()? {
            return Err(io::Error::other("another process continued the session meanwhile"));
        }
        let id = self.file()?.compaction(&mut summary)?;
        let kept = self.items.split_off(kept.min(self.items.len()));
        self.items = vec![Item { id, message: Arc::new(summary) }];
        self.items.extend(kept);
        self.is_just_compacted = true;
        Ok(())
    }

    /// Writes down something that is no part of the conversation.
    pub(crate) fn note(&mut self, record: &Record<'_>) -> io::Result<()> {
        self.file()?.note(record)
    }

    /// Writes down name, model and effort.
    pub(crate) fn note_info(&mut self) -> io::Result<()> {
        let (name, pinned) = (self.name.clone(), self.pinned.clone());
        self.note(&Record::SessionInfo {
            timestamp: clock::now_text(),
            name: name.as_deref(),
            provider: pinned.provider.as_deref(),
            model: pinned.model.as_deref(),
            reasoning_effort: pinned.effort.as_deref(),
        })
    }

    /// Answers every tool call that nobody answered. Providers refuse a conversation in which one is left open.
    pub(crate) fn repair(&mut self) -> io::Result<()> {
        for (id, name) in unanswered(&self.items) {
            let message = json!({ "role": "tool", "tool_call_id": id, "name": name, "content": "Cancelled.", "is_error": true });
            self.append(Stored::from_value(message))?;
        }
        Ok(())
    }
}

/// The calls of the last answer that nobody answered. Earlier ones are mended when a request is made.
fn unanswered(items: &[Item]) -> Vec<(String, String)> {
    let Some(last) = items.iter().rposition(|item| item.message.role() == Role::Assistant) else { return Vec::new() };
    let answered: Vec<&str> = items[last + 1..].iter().filter_map(|item| item.message.call_id()).collect();
    // Something said since then ends the answer: a result appended now would stand in the wrong place.
    if items[last + 1..].iter().any(|item| item.message.role() != Role::Tool) {
        return Vec::new();
    }
    let calls = items[last].message.calls();
    calls.filter(|call| !answered.contains(&call.id)).map(|call| (call.id.to_owned(), call.name.to_owned())).collect()
}
