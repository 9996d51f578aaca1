//! The methods on memories, and what a turn takes from them and leaves to them.

use std::path::Path;
use std::sync::Arc;

use convoke_kward::params;
use convoke_kward::results::{
    Forgotten, Memories, MemoryInspect, MemoryList, MemoryStatus, MemorySwitched, MemoryWhy, OneMemory,
};
use convoke_kward::rpc::RpcError;
use convoke_kward::transcript::Role;
use serde_json::{Map, Value, json};

use super::store::{Layer, MemoryError, Source, is_active, tags};
use super::{infer, retrieve};
use crate::backend::{Backend, file_failed};
use crate::clock;
use crate::config::Config;
use crate::environment::shown;
use crate::sessions::live::Live;

impl From<MemoryError> for RpcError {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::File(_) | MemoryError::Broken(_) => Self::failed("FileError", error.to_string()),
            error => Self::invalid_params(error.to_string()),
        }
    }
}

impl Backend {
    pub(crate) fn memory_status(&self) -> Result<MemoryStatus, RpcError> {
        let config = self.read_config()?;
        Ok(MemoryStatus { enabled: is_enabled(&config), auto_summary: is_auto(&config), paths: self.memory.paths() })
    }

    pub(crate) fn memory_enable(&self, enabled: bool) -> Result<MemorySwitched, RpcError> {
        self.memory.prepare().map_err(file_failed)?;
        self.switch_memory("enabled", enabled)?;
        self.memory.event(if enabled { "enable" } else { "disable" }, json!({})).map_err(file_failed)?;
        let config = self.read_config()?;
        Ok(MemorySwitched { enabled, auto_summary: is_auto(&config) })
    }

    pub(crate) fn auto_summary_enable(&self, auto_summary: bool) -> Result<MemorySwitched, RpcError> {
        self.memory.prepare().map_err(file_failed)?;
        self.switch_memory("auto_summary", auto_summary)?;
        let kind = if auto_summary { "auto_summary_enable" } else { "auto_summary_disable" };
        self.memory.event(kind, json!({})).map_err(file_failed)?;
        let config = self.read_config()?;
        Ok(MemorySwitched { enabled: is_enabled(&config), auto_summary })
    }

    /// A switch that is off is not there.
    fn switch_memory(&self, key: &str, on: bool) -> Result<(), RpcError> {
        self.config.update(|map| {
            let group = map.entry("memory").or_insert_with(|| Value::Object(Map::new()));
            if !group.is_object() {
                *group = json!({});
            }
            if let Value::Object(group) = group {
                group.remove("autoSummary");
                match on {
                    true => drop(group.insert(key.to_owned(), true.into())),
                    false => drop(group.remove(key)),
                }
                if group.is_empty() {
                    map.remove("memory");
                }
            }
        })?;
        Ok(())
    }

    pub(crate) fn memory_list(&self, params: params::MemoryList) -> Result<MemoryList, RpcError> {
        let root = self.memory_root(params.session_id.as_deref(), params.workspace_root.as_deref())?;
        let here = format!("workspace:{root}");
        let core = self.memory.core();
        let mut soft = self.memory.soft();
        if params.include_inactive != Some(true) {
            soft.retain(is_active);
        }
        let with_scope = |memories: &[Value], scope: &str| -> Vec<Value> {
            let fits = |memory: &&Value| memory["scope"].as_str().unwrap_or("global") == scope;
            memories.iter().filter(fits).cloned().collect()
        };
        Ok(MemoryList {
            global_core: with_scope(&core, "global"),
            workspace_core: with_scope(&core, &here),
            // The client has one list of soft ones: those that can come up here.
            workspace_soft: soft
                .iter()
                .filter(|m| matches!(m["scope"].as_str(), None | Some("global")) || m["scope"] == here.as_str())
                .cloned()
                .collect(),
            core,
            soft,
        })
    }

    pub(crate) fn memory_add(&self, params: params::MemoryAdd) -> Result<OneMemory, RpcError> {
        self.add_memory(Layer::Soft, params)
    }

    pub(crate) fn memory_add_core(&self, params: params::MemoryAdd) -> Result<OneMemory, RpcError> {
        self.add_memory(Layer::Core, params)
    }

    fn add_memory(&self, layer: Layer, params: params::MemoryAdd) -> Result<OneMemory, RpcError> {
        let scope = match params.scope.as_deref().map(str::trim).filter(|scope| !scope.is_empty()) {
            None => "global".to_owned(),
            // Clients say just this; which workspace is meant is known here.
            Some("workspace") => {
                format!(
                    "workspace:{}",
                    self.memory_root(params.session_id.as_deref(), params.workspace_root.as_deref())?
                )
            }
            Some(scope) => match scope.strip_prefix("workspace:") {
                Some(path) => {
                    let real = std::fs::canonicalize(self.environment.expand(path, self.environment.launch_dir()));
                    format!("workspace:{}", real.map_or_else(|_| path.to_owned(), |real| shown(&real)))
                }
                None => scope.to_owned(),
            },
        };
        let text = self.redactor.text(&params.text);
        let memory = self.memory.add(layer, Source::Person, &text, &scope, &tags(params.tags.as_ref()))?;
        Ok(OneMemory { memory })
    }

    pub(crate) fn memory_forget(&self, params: params::OfMemory) -> Result<Forgotten, RpcError> {
        Ok(Forgotten { forgotten: self.memory.forget(params.id.trim())? })
    }

    pub(crate) fn memory_promote(&self, params: params::OfMemory) -> Result<OneMemory, RpcError> {
        Ok(OneMemory { memory: self.memory.promote(params.id.trim())? })
    }

    /// A core memory for everywhere becomes one for a workspace.
    pub(crate) fn memory_relax(&self, params: params::MemoryRelax) -> Result<OneMemory, RpcError> {
        let root = self.memory_root(params.session_id.as_deref(), params.workspace_root.as_deref())?;
        Ok(OneMemory { memory: self.memory.relax(params.id.trim(), &format!("workspace:{root}"))? })
    }

    pub(crate) fn memory_inspect(&self) -> Result<MemoryInspect, RpcError> {
        let config = self.read_config()?;
        Ok(MemoryInspect {
            core: self.memory.core(),
            soft: self.memory.soft(),
            enabled: is_enabled(&config),
            auto_summary: is_auto(&config),
            paths: self.memory.paths(),
        })
    }

    pub(crate) fn memory_why(&self, params: params::MemoryWhy) -> Result<MemoryWhy, RpcError> {
        let last = match params.session_id.as_deref() {
            Some(id) => self.session(id)?.state().last_retrieval.clone(),
            None => self.memory.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone(),
        };
        Ok(last.unwrap_or_else(|| {
            let text = "No memories have been retrieved yet.";
            let enabled = is_enabled(&self.config.read_or_default());
            MemoryWhy { enabled, message: Some(text.into()), explanation: text.into(), ..MemoryWhy::default() }
        }))
    }

    pub(crate) async fn memory_summarize(self: &Arc<Self>, params: params::OfSession) -> Result<Memories, RpcError> {
        let live = self.session(&params.session_id)?;
        let said = said(&live, false);
        Ok(Memories { memories: self.infer(&live, &said).await? })
    }

    /// After a turn that was answered: the same for what was said in it, where the person has turned that on.
    pub(crate) async fn summarize_by_itself(self: &Arc<Self>, live: &Arc<Live>) {
        let config = self.config.read_or_default();
        if !is_enabled(&config) || !is_auto(&config) {
            return;
        }
        let said = said(live, true);
        // It is quiet by contract: what cannot be kept is not told.
        let _ = self.infer(live, &said).await;
    }

    /// Keeps what is worth it in what a person said.
    async fn infer(self: &Arc<Self>, live: &Arc<Live>, said: &[String]) -> Result<Vec<Value>, RpcError> {
        let mut texts: Vec<String> = Vec::new();
        for candidate in infer::candidates(said.iter().map(String::as_str)) {
            let text = super::store::cleaned(&self.redactor.text(&candidate));
            texts.push(self.in_a_models_words(live, text).await);
        }
        let (backend, scope) = (self.clone(), format!("workspace:{}", shown(&live.root)));
        let kept = tokio::task::spawn_blocking(move || backend.keep_new(&texts, &scope)).await;
        Ok(kept.map_err(|_| RpcError::internal("The summary could not be made"))??)
    }

    fn keep_new(&self, texts: &[String], scope: &str) -> Result<Vec<Value>, MemoryError> {
        let memories = [self.memory.core(), self.memory.soft()].concat();
        let mut known: Vec<String> =
            memories.iter().filter_map(|memory| memory["text"].as_str().map(str::to_lowercase)).collect();
        let mut made = Vec::new();
        for text in texts {
            let lower = text.to_lowercase();
            if !known.contains(&lower) {
                made.push(self.memory.add(Layer::Soft, Source::Inferred, text, scope, &["workflow".to_owned()])?);
                known.push(lower);
            }
        }
        Ok(made)
    }

    /// What is remembered for an input: the explanation, and the block for the model.
    pub(crate) fn remember(&self, config: &Config, root: &Path, input: &str) -> (MemoryWhy, String) {
        if !is_enabled(config) {
            let text = "Memory is disabled.";
            let why = MemoryWhy { message: Some(text.into()), explanation: text.into(), ..MemoryWhy::default() };
            return (why, String::new());
        }
        let scopes = ["global".to_owned(), format!("workspace:{}", shown(root))];
        let why = retrieve::retrieve(&self.memory.core(), &self.memory.soft(), &scopes, input, clock::now());
        let ids = |layer: &str| -> Vec<String> {
            why.reasons.iter().filter(|reason| reason.layer == layer).map(|reason| reason.id.clone()).collect()
        };
        let (core_ids, soft_ids) = (ids("core"), ids("soft"));
        // A turn goes on without the record of what it remembered.
        let _ = self.memory.touch(&soft_ids);
        let _ =
            self.memory.event("retrieve", json!({ "core_ids": core_ids, "soft_ids": soft_ids, "scopes": scopes }));
        *self.memory.last.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(why.clone());
        let block = retrieve::block(&why);
        (why, block)
    }

    /// The workspace that is meant: named, of a session, of the one session that is open, of this process.
    fn memory_root(&self, session: Option<&str>, root: Option<&str>) -> Result<String, RpcError> {
        if let Some(root) = root {
            return Ok(shown(&self.workspace(Some(root))?));
        }
        if let Some(id) = session {
            return Ok(shown(&self.session(id)?.root));
        }
        let mut open: Vec<String> = self.open_sessions().iter().map(|live| shown(&live.root)).collect();
        open.sort();
        open.dedup();
        match open.as_slice() {
            [one] => Ok(one.clone()),
            _ => Ok(shown(&self.workspace(None)?)),
        }
    }
}

/// What the person said: in the whole session, or since the last answer but one.
fn said(live: &Live, only_last: bool) -> Vec<String> {
    let state = live.state();
    let users = state.items.iter().filter(|item| item.message.role() == Role::User);
    let texts: Vec<String> = users.map(|item| item.message.display_text()).collect();
    match only_last {
        true => texts.last().cloned().into_iter().collect(),
        false => texts,
    }
}

fn is_enabled(config: &Config) -> bool {
    config.switch("memory", "enabled") == Some(true)
}

fn is_auto(config: &Config) -> bool {
    config.switch("memory", "auto_summary") == Some(true)
}
