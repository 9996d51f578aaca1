//! The methods on models.

use convoke_kward::params;
use convoke_kward::results::{Model, Models};
use convoke_kward::rpc::RpcError;
use convoke_models::{Client, Credentials, Fixed, ModelError, Provider, ProviderKind, known_models};

use std::sync::Arc;

use crate::backend::Backend;
use crate::config::Config;
use crate::providers::{Selection, key_prefix};

impl Backend {
    /// `models/list`: what the providers that are set up have; for a provider that cannot be asked, the known ones.
    pub(crate) async fn list_models(&self) -> Result<Models, RpcError> {
        let config = self.config.read_or_default();
        let current = self.current_selection(&config);
        let listed = ProviderKind::ALL.map(|kind| self.models_of(&config, kind, &current));
        let listed = futures_util::future::join_all(listed).await;
        let mut models: Vec<Model> = listed.into_iter().flatten().map(|model| self.entry(&model, &current)).collect();
        if !models.iter().any(|model| model.current) && current.model.is_some() {
            models.push(self.current_entry(&current));
        }
        models.sort_by(|a, b| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
        Ok(Models { models })
    }

    async fn models_of(
        &self,
        config: &Config,
        kind: ProviderKind,
        current: &Selection,
    ) -> Vec<convoke_models::Model> {
        let is_wanted = self.is_configured(config, kind) || kind == current.kind;
        // The two that the contract names are always offered; the others when they are set up.
        let known = || match kind {
            ProviderKind::Codex | ProviderKind::OpenRouter => known_models(kind),
            _ if is_wanted => known_models(kind),
            _ => Vec::new(),
        };
        if !self.is_configured(config, kind) {
            return known();
        }
        let Ok(client) = self.client(config, kind) else { return known() };
        match self.catalogue(kind).models(&client).await {
            Ok(models) if !models.is_empty() => models,
            _ => known(),
        }
    }

    /// `openrouter/catalog`.
    pub(crate) async fn openrouter_catalog(&self) -> Result<Models, RpcError> {
        let config = self.config.read_or_default();
        let current = self.current_selection(&config);
        let kind = ProviderKind::OpenRouter;
        let client = self.client(&config, kind).unwrap_or_else(|_| {
            let provider = match config.text_or_env(&self.environment, "openrouter_base_url") {
                Some(url) => Provider::at(kind, url),
                None => Provider::usual(kind),
            };
            Client::new(self.http.clone(), provider, Arc::new(Fixed(Credentials::None)))
        });
        let all = self.catalogue(kind).all(&client).await;
        let all = all.map_err(|why| RpcError::failed(why.code(), why.to_string()))?;
        let mut models: Vec<Model> = all.iter().map(|model| self.entry(model, &current)).collect();
        models.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(Models { models })
    }

    pub(crate) fn current_model(&self) -> Result<Model, RpcError> {
        let config = self.read_config()?;
        Ok(self.current_entry(&self.current_selection(&config)))
    }

    pub(crate) fn set_model(&self, params: params::SetModel) -> Result<Model, RpcError> {
        let model = params.model.trim();
        if model.is_empty() {
            return Err(RpcError::internal("Model must be a non-empty string"));
        }
        self.choose_model(params.provider.as_deref(), model)?;
        self.current_model()
    }

    pub(crate) fn set_reasoning(&self, params: params::SetReasoning) -> Result<Model, RpcError> {
        let effort = params.effort.trim();
        if effort.is_empty() {
            return Err(RpcError::internal("Reasoning effort must be a non-empty string"));
        }
        self.choose_effort(params.provider.as_deref(), effort)?;
        self.current_model()
    }

    /// Stores the choice for later sessions and applies it to the open ones.
    pub(crate) fn choose_model(&self, provider: Option<&str>, model: &str) -> Result<(), RpcError> {
        let kind = self.kind_named(provider)?;
        let key = format!("{}_model", key_prefix(kind));
        self.config.update(|map| {
            map.insert(key, model.into());
            // In the words of Kward's own configuration.
            map.insert("provider".into(), kind.label().to_lowercase().into());
        })?;
        self.pin(|pinned| {
            pinned.provider = Some(kind.label().to_owned());
            pinned.model = Some(model.to_owned());
        });
        Ok(())
    }

    pub(crate) fn choose_effort(&self, provider: Option<&str>, effort: &str) -> Result<(), RpcError> {
        let kind = self.kind_named(provider)?;
        let key = format!("{}_reasoning_effort", key_prefix(kind));
        self.config.update(|map| drop(map.insert(key, effort.into())))?;
        self.pin(|pinned| pinned.effort = Some(effort.to_owned()));
        Ok(())
    }

    fn pin(&self, change: impl Fn(&mut crate::providers::Pinned)) {
        for live in self.open_sessions() {
            let mut state = live.state();
            change(&mut state.pinned);
            // The choice holds for this process in any case; the next one reads it from the configuration.
            let _ = state.note_info();
        }
    }

    fn kind_named(&self, provider: Option<&str>) -> Result<ProviderKind, RpcError> {
        let config = self.read_config()?;
        match provider.map(str::trim).filter(|name| !name.is_empty()) {
            Some(name) => {
                let kind = name.parse().map_err(|why| RpcError::invalid_params(format!("{why}")))?;
                Ok(self.chosen(&config, kind))
            }
            None => Ok(self.current_selection(&config).kind),
        }
    }

    /// The model in use: that of the one open session, else the configured one.
    fn current_selection(&self, config: &Config) -> Selection {
        match self.open_sessions().as_slice() {
            [one] => self.selection(config, Some(&one.state().pinned.clone())),
            _ => self.selection(config, None),
        }
    }

    /// The model to ask. A server of one's own that is not told which gets its first.
    pub(crate) async fn model_of(&self, selection: &Selection) -> Result<String, ModelError> {
        if let Some(model) = &selection.model {
            return Ok(model.clone());
        }
        let config = self.config.read_or_default();
        let client = self.client(&config, selection.kind)?;
        let models = self.catalogue(selection.kind).models(&client).await?;
        models.first().map(|model| model.id.clone()).ok_or_else(|| {
            let text = "The local server names no model. Set LOCAL_MODEL in the environment or local_model in the configuration.";
            ModelError::NotConfigured(text.into())
        })
    }
}
