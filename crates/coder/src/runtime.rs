//! The state of a session, for a client's status line and settings page.

use std::sync::Arc;

use convoke_kward::params;
use convoke_kward::results::{ContextUsage, OkMessage, RuntimeState, RuntimeStats, SettingApplied};
use convoke_kward::rpc::RpcError;
use convoke_kward::transcript::Role;
use convoke_models::ProviderKind;
use convoke_toolbox::Toolbox;

use crate::backend::{Backend, file_failed};
use crate::environment::shown;
use crate::sessions::cut::{self, Settings};
use crate::sessions::live::{Live, PERSONA};

impl Backend {
    pub(crate) fn runtime_state(&self, params: params::OfSession) -> Result<RuntimeState, RpcError> {
        let live = self.session(&params.session_id)?;
        let config = self.config.read_or_default();
        let compaction = Settings::of(&config);
        let (pinned, name, messages, is_compacting) = {
            let state = live.state();
            (state.pinned.clone(), state.name.clone(), state.items.len(), state.is_compacting)
        };
        let selection = self.selection(&config, Some(&pinned));
        let default = self.default_selection(&config, self.default_provider(&config));
        let (is_streaming, pending) = {
            let queue = live.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            (queue.at_work().is_some(), queue.len())
        };
        let default_id = default.model.clone().unwrap_or_default();
        Ok(RuntimeState {
            model: Some(self.current_entry(&selection)),
            thinking_level: selection.effort,
            is_streaming,
            is_compacting,
            steering_mode: "in-flight".into(),
            follow_up_mode: "one-at-a-time".into(),
            session_file: shown(&live.path),
            session_id: live.persistent_id.clone(),
            rpc_session_id: live.id.clone(),
            persistent_session_id: live.persistent_id.clone(),
            session_name: name,
            auto_compaction_enabled: compaction.is_enabled,
            auto_compaction_reserve_tokens: compaction.reserve,
            auto_retry_enabled: true,
            default_provider: default.kind.label().into(),
            default_model: format!("{}/{default_id}", default.kind.label()),
            default_thinking_level: default.effort,
            hide_thinking_block: false,
            quiet_startup: false,
            transport: "kward-rpc".into(),
            image_auto_resize: false,
            block_images: false,
            enabled_models: Vec::new(),
            enable_skill_commands: true,
            active_persona_label: PERSONA.into(),
            message_count: messages as u64,
            pending_message_count: pending as u64,
        })
    }

    pub(crate) fn runtime_stats(&self, params: params::OfSession) -> Result<RuntimeStats, RpcError> {
        let live = self.session(&params.session_id)?;
        let config = self.config.read_or_default();
        let compaction = Settings::of(&config);
        let state = live.state();
        let count = |role: Role| state.items.iter().filter(|item| item.message.role() == role).count() as u64;
        let tool_calls = state.items.iter().map(|item| item.message.calls().count() as u64).sum();
        let selection = self.selection(&config, Some(&state.pinned));
        let window = compaction
            .window
            .or_else(|| self.catalogue_lookup(selection.kind, selection.model.as_deref()?).context_window);
        let has_image = state.items.iter().any(|item| item.message.images().next().is_some());
        let context_usage = window.filter(|_| !state.items.is_empty() && !has_image).map(|context_window| {
            let tokens = cut::tokens_in(&state.items);
            let percent = tokens as f64 / context_window as f64 * 100.0;
            ContextUsage { tokens, context_window, percent: (percent * 100.0).round() / 100.0, estimated: true }
        });
        Ok(RuntimeStats {
            session_file: shown(&live.path),
            session_id: live.persistent_id.clone(),
            rpc_session_id: live.id.clone(),
            persistent_session_id: live.persistent_id.clone(),
            session_name: state.name.clone(),
            user_messages: count(Role::User),
            assistant_messages: count(Role::Assistant),
            tool_calls,
            tool_results: count(Role::Tool),
            total_messages: state.items.len() as u64,
            using_subscription: selection.kind == ProviderKind::Codex,
            auto_compaction_enabled: compaction.is_enabled,
            tokens: state.totals.tokens,
            cost: state.totals.cost(),
            context_usage,
        })
    }

    /// `runtime/updateSetting`: changes the configuration and the open sessions.
    pub(crate) fn update_setting(&self, params: params::UpdateSetting) -> Result<SettingApplied, RpcError> {
        self.session(&params.session_id)?;
        let value = params.value.as_str().map(str::trim).filter(|value| !value.is_empty());
        let message = match params.setting_id.as_str() {
            "defaultModel" => {
                let value = value.ok_or_else(|| RpcError::invalid_params("Model must be a non-empty string"))?;
                let (provider, model) = match value.split_once('/') {
                    Some((provider, model)) if provider.parse::<ProviderKind>().is_ok() => (Some(provider), model),
                    _ => (None, value),
                };
                if model.is_empty() {
                    return Err(RpcError::invalid_params("Model must be a non-empty string"));
                }
                self.choose_model(provider, model)?;
                "Model updated for this session."
            }
            "defaultThinkingLevel" => {
                let text = "Reasoning effort must be a non-empty string";
                self.choose_effort(None, value.ok_or_else(|| RpcError::invalid_params(text))?)?;
                "Thinking level updated for this session."
            }
            other => return Err(RpcError::invalid_params(format!("Unsupported runtime setting: {other}"))),
        };
        Ok(SettingApplied { applied: "live".into(), message: message.into() })
    }

    /// `runtime/reload`: reads configuration, skills and prompts again.
    pub(crate) fn reload(self: &Arc<Self>, params: params::OfSession) -> Result<OkMessage, RpcError> {
        let live = self.session(&params.session_id)?;
        self.config.forget();
        self.read_config()?;
        ProviderKind::ALL.into_iter().for_each(|kind| self.catalogue(kind).forget());
        self.reopen_tools(&live)?;
        Ok(OkMessage { ok: true, message: "Resources reloaded.".into() })
    }

    /// Gives a session's tools new settings and skills; files that were read still count as read.
    fn reopen_tools(self: &Arc<Self>, live: &Live) -> Result<(), RpcError> {
        let read = live.tools().read_paths();
        let tools = Toolbox::open(self.tool_settings(&live.id, &live.root)).map_err(file_failed)?;
        read.iter().for_each(|path| tools.mark_read(path));
        live.tools.store(Arc::new(tools));
        Ok(())
    }
}
