//! Which provider and model answer: from the session, the environment, the configuration, in this order.

use std::sync::Arc;

use convoke_kward::results;
use convoke_models::oauth::{OAuthConfig, TokenKeeper, account_id};
use convoke_models::{
    Client, CredentialSource, Credentials, Fixed, Model, ModelError, Provider, ProviderKind, SecretText,
    default_effort, default_model,
};

use crate::backend::Backend;
use crate::config::Config;
use crate::environment::shown;

/// The provider, model and effort that a session has chosen, as far as it has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
}

/// The provider and model that answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    pub(crate) kind: ProviderKind,
    /// A local server may be asked which models it has.
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
}

/// The prefix of a provider's keys in the configuration.
pub(crate) fn key_prefix(kind: ProviderKind) -> &'static str {
    match kind {
        ProviderKind::Codex | ProviderKind::OpenAi => "openai",
        ProviderKind::OpenRouter => "openrouter",
        ProviderKind::Local => "local",
    }
}

impl Backend {
    /// The provider and model for a session that has chosen this.
    pub(crate) fn selection(&self, config: &Config, pinned: Option<&Pinned>) -> Selection {
        let pinned_kind = pinned.and_then(|pinned| pinned.provider.as_deref()?.parse().ok());
        let kind = pinned_kind.unwrap_or_else(|| self.default_provider(config));
        let mut selection = self.default_selection(config, kind);
        if let Some(pinned) = pinned {
            selection.model = pinned.model.clone().or(selection.model);
            selection.effort = pinned.effort.clone().or(selection.effort);
        }
        selection
    }

    /// The provider and model by environment and configuration alone.
    pub(crate) fn default_selection(&self, config: &Config, kind: ProviderKind) -> Selection {
        let prefix = key_prefix(kind);
        let text = |key: &str| config.text_or_env(&self.environment, key).map(str::to_owned);
        let model = text(&format!("{prefix}_model")).or_else(|| config.text("model").map(str::to_owned));
        let model = model.or_else(|| default_model(kind).map(str::to_owned));
        let effort = text(&format!("{prefix}_reasoning_effort"));
        let effort = effort
            .or_else(|| config.text("reasoning_effort").or_else(|| config.text("thinking_level")).map(str::to_owned));
        let effort = effort.or_else(|| {
            let facts = self.catalogue_lookup(kind, model.as_deref()?);
            default_effort(&facts).map(str::to_owned)
        });
        Selection { kind, model, effort }
    }

    /// The provider that is named, or the first that has what it needs.
    pub(crate) fn default_provider(&self, config: &Config) -> ProviderKind {
        let named = self.environment.get("KWARD_PROVIDER").or_else(|| config.text("provider"));
        if let Some(kind) = named.and_then(|name| name.parse().ok()) {
            // Older versions of Kward wrote `openai` for the sign-in. An API key must not be used in its place: it costs money.
            return if kind == ProviderKind::OpenAi { self.chosen(config, kind) } else { kind };
        }
        let usable = ProviderKind::ALL.into_iter().find(|kind| self.is_configured(config, *kind));
        usable.unwrap_or(ProviderKind::Codex)
    }

    /// What a person means who chooses this. OpenAI answers to a sign-in or to a key; Kward's client says `Codex` for both,
    /// so where only one of the two is set up, that is the one.
    pub(crate) fn chosen(&self, config: &Config, kind: ProviderKind) -> ProviderKind {
        let other = match kind {
            ProviderKind::Codex => ProviderKind::OpenAi,
            ProviderKind::OpenAi => ProviderKind::Codex,
            kind => return kind,
        };
        if !self.is_configured(config, kind) && self.is_configured(config, other) { other } else { kind }
    }

    /// Whether a provider has what it needs.
    pub(crate) fn is_configured(&self, config: &Config, kind: ProviderKind) -> bool {
        match kind {
            ProviderKind::Codex => self.environment.get("OPENAI_ACCESS_TOKEN").is_some() || self.auth.is_signed_in(),
            ProviderKind::OpenAi | ProviderKind::OpenRouter => self.api_key(config, kind).is_some(),
            ProviderKind::Local => {
                let has = |key| config.text_or_env(&self.environment, key).is_some();
                has("local_base_url") || has("local_model")
            }
        }
    }

    /// The key of a provider.
    pub(crate) fn api_key(&self, config: &Config, kind: ProviderKind) -> Option<SecretText> {
        let key = config.text_or_env(&self.environment, &format!("{}_api_key", key_prefix(kind)))?;
        self.redactor.learn(key);
        Some(SecretText::new(key))
    }

    /// How this backend signs in.
    pub(crate) fn oauth_config(&self, config: &Config) -> OAuthConfig {
        let mut oauth = OAuthConfig::default();
        if let Some(url) = config.text_or_env(&self.environment, "openai_oauth_base_url") {
            oauth.base_url = url.trim_end_matches('/').to_owned();
        }
        if let Some(id) = config.text_or_env(&self.environment, "openai_oauth_client_id") {
            oauth.client_id = id.to_owned();
        }
        if let Some(port) = self.environment.get("KWARD_OAUTH_PORT").and_then(|port| port.trim().parse().ok()) {
            oauth.port = port;
        }
        oauth
    }

    /// A client for a provider. Without credentials it says what to set.
    pub(crate) fn client(&self, config: &Config, kind: ProviderKind) -> Result<Client, ModelError> {
        let address_key = match kind {
            ProviderKind::Codex => "codex_base_url".to_owned(),
            kind => format!("{}_base_url", key_prefix(kind)),
        };
        let provider = match config.text_or_env(&self.environment, &address_key) {
            Some(url) => Provider::at(kind, url),
            None => Provider::usual(kind),
        };
        let credentials: Arc<dyn CredentialSource> = match kind {
            ProviderKind::Codex => match self.environment.get("OPENAI_ACCESS_TOKEN") {
                Some(token) => {
                    self.redactor.learn(token);
                    let access_token = SecretText::new(token.trim());
                    let account_id = account_id(&access_token);
                    Arc::new(Fixed(Credentials::Account { access_token, account_id }))
                }
                None if self.auth.is_signed_in() => {
                    Arc::new(TokenKeeper::new(self.http.clone(), self.oauth_config(config), self.auth.clone()))
                }
                None => return Err(self.what_to_set(config, kind)),
            },
            ProviderKind::OpenAi | ProviderKind::OpenRouter => match self.api_key(config, kind) {
                Some(key) => Arc::new(Fixed(Credentials::ApiKey(key))),
                None => return Err(self.what_to_set(config, kind)),
            },
            ProviderKind::Local => Arc::new(Fixed(match self.api_key(config, kind) {
                Some(key) => Credentials::ApiKey(key),
                None => Credentials::None,
            })),
        };
        Ok(Client::new(self.http.clone(), provider, credentials))
    }

    fn what_to_set(&self, config: &Config, kind: ProviderKind) -> ModelError {
        let file = shown(self.config.path());
        let is_named = self.environment.get("KWARD_PROVIDER").is_some() || config.text("provider").is_some();
        let text = match kind {
            ProviderKind::OpenAi => {
                format!("No OpenAI API key found. Set OPENAI_API_KEY in the environment or openai_api_key in {file}.")
            }
            ProviderKind::OpenRouter => format!(
                "No OpenRouter API key found. Set OPENROUTER_API_KEY in the environment or openrouter_api_key in {file}."
            ),
            ProviderKind::Codex if is_named => format!(
                "No OpenAI OAuth login found. Sign in with OpenAI, set OPENAI_ACCESS_TOKEN, or choose another provider in {file}."
            ),
            _ => format!(
                "No model provider is configured: no OpenAI OAuth login found. Sign in with OpenAI, or set OPENAI_API_KEY, \
                 OPENROUTER_API_KEY, or LOCAL_BASE_URL and LOCAL_MODEL, in the environment or in small letters in {file}."
            ),
        };
        ModelError::NotConfigured(text)
    }

    /// What is known of a model without asking anybody.
    pub(crate) fn catalogue_lookup(&self, kind: ProviderKind, id: &str) -> Model {
        let client = Client::new(self.http.clone(), Provider::usual(kind), Arc::new(Fixed(Credentials::None)));
        self.catalogue(kind).lookup(&client, id)
    }

    /// A model as clients see it.
    pub(crate) fn entry(&self, model: &Model, current: &Selection) -> results::Model {
        let is_current = model.provider == current.kind && Some(&model.id) == current.model.as_ref();
        let effort = is_current.then(|| current.effort.clone()).flatten();
        let effort = effort.or_else(|| default_effort(model).map(str::to_owned)).filter(|_| model.reasoning);
        results::Model {
            provider: model.provider.label().into(),
            id: model.id.clone(),
            name: model.name.clone(),
            reasoning: model.reasoning,
            reasoning_effort: effort,
            context_window: model.context_window,
            current: is_current,
            model: model.id.clone(),
        }
    }

    /// The model in use, as clients see it.
    pub(crate) fn current_entry(&self, selection: &Selection) -> results::Model {
        let id = selection.model.clone().unwrap_or_else(|| "(none configured)".into());
        let mut entry = self.entry(&self.catalogue_lookup(selection.kind, &id), selection);
        entry.current = true;
        entry.reasoning_effort = selection.effort.clone();
        entry
    }
}
