//! Credentials: the account's tokens in `auth.json`, logins under way, and what clients are told of both.

use std::any::Any;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use convoke_core::time::Timestamp;
use convoke_kward::events::name;
use convoke_kward::params;
use convoke_kward::results::{
    AuthCard, AuthProviders, AuthStatus, Login, LoginStarted, LoginStatus, ProviderMessage,
};
use convoke_kward::rpc::{self, RpcError};
use convoke_models::oauth::{self, DEFAULT_TIMEOUT, StoreError, TokenStore, Tokens};
use convoke_models::{ProviderKind, SecretText};
use serde_json::{Value, json};

use crate::backend::Backend;
use crate::clock;
use crate::environment::shown;
use crate::files::{self, Lock};
use crate::redact::Redactor;

/// Most logins that are kept; one more ends the oldest.
const MAX_LOGINS: usize = 16;

/// The longest a login may wait for the browser.
const LONGEST_LOGIN: Duration = Duration::from_secs(3600);

/// `auth.json`.
#[derive(Debug)]
pub(crate) struct AuthFile {
    path: PathBuf,
    redactor: Arc<Redactor>,
    /// Whether there was a login when the file was last read, and the state of the file then.
    signed_in: Mutex<Option<((SystemTime, u64), bool)>>,
}

impl AuthFile {
    pub(crate) fn new(path: PathBuf, redactor: Arc<Redactor>) -> Self {
        Self { path, redactor, signed_in: Mutex::default() }
    }

    /// The stored login; none if the file cannot be read.
    fn read(&self) -> Result<Option<Value>, StoreError> {
        let bytes = match std::fs::read(&self.path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(self.failed(&error)),
        };
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|_| StoreError(format!("Invalid Kward auth JSON: {}", shown(&self.path))))?;
        self.redactor.learn_from(&value);
        Ok(Some(value))
    }

    fn tokens(&self) -> Result<Option<Tokens>, StoreError> {
        let Some(file) = self.read()? else { return Ok(None) };
        let tokens = file.get("tokens").unwrap_or(&Value::Null);
        let secret =
            |key: &str| tokens.get(key).and_then(Value::as_str).filter(|t| !t.is_empty()).map(SecretText::new);
        let Some(access_token) = secret("access_token") else { return Ok(None) };
        let account = file.get("account_id").or_else(|| tokens.get("account_id")).and_then(Value::as_str);
        let account_id = account.map(str::to_owned).or_else(|| oauth::account_id(&access_token));
        let expires_at = file.get("expires_at").or_else(|| tokens.get("expires_at")).and_then(|value| match value {
            Value::String(text) => Timestamp::parse(text).map(|at| at.millis() / 1000),
            value => value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64)),
        });
        let (refresh_token, id_token) = (secret("refresh_token"), secret("id_token"));
        Ok(Some(Tokens { access_token, refresh_token, id_token, account_id, expires_at }))
    }

    fn write(&self, tokens: &Tokens) -> Result<(), StoreError> {
        let text = |secret: &Option<SecretText>| secret.as_ref().map(|secret| secret.reveal().to_owned());
        let file = json!({
            "auth_mode": "openai_oauth",
            "tokens": {
                "access_token": tokens.access_token.reveal(),
                "refresh_token": text(&tokens.refresh_token),
                "id_token": text(&tokens.id_token),
                "account_id": tokens.account_id,
            },
            "account_id": tokens.account_id,
            "saved_at": clock::now().millis() / 1000,
            "expires_at": tokens.expires_at,
        });
        self.redactor.learn_from(&file);
        let bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
        files::replace_private(&self.path, &bytes).map_err(|error| self.failed(&error))
    }

    /// Whether there is a login. Every status line asks, so the file is read only when it has changed.
    pub(crate) fn is_signed_in(&self) -> bool {
        let stamp = std::fs::metadata(&self.path).and_then(|meta| Ok((meta.modified()?, meta.len())));
        let Ok(stamp) = stamp else { return false };
        let mut known = self.signed_in.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        match *known {
            Some((of, is_signed_in)) if of == stamp => is_signed_in,
            _ => {
                let is_signed_in = self.tokens().is_ok_and(|tokens| tokens.is_some());
                *known = Some((stamp, is_signed_in));
                is_signed_in
            }
        }
    }

    fn remove(&self) -> Result<(), StoreError> {
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(self.failed(&error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &std::io::Error) -> StoreError {
        StoreError(format!("Credentials cannot be read or written: {}: {error}", shown(&self.path)))
    }
}

#[async_trait]
impl TokenStore for AuthFile {
    async fn load(&self) -> Result<Option<Tokens>, StoreError> {
        tokio::task::block_in_place(|| self.tokens())
    }

    async fn save(&self, tokens: &Tokens) -> Result<(), StoreError> {
        tokio::task::block_in_place(|| self.write(tokens))
    }

    async fn lock(&self) -> Result<Box<dyn Any + Send>, StoreError> {
        let path = self.path.with_extension("lock");
        let lock = tokio::task::spawn_blocking(move || Lock::of(&path)).await;
        match lock {
            Ok(Ok(lock)) => Ok(Box::new(lock)),
            Ok(Err(error)) => Err(self.failed(&error)),
            Err(_) => Err(StoreError("Waiting for the lock on the credentials failed.".into())),
        }
    }
}

/// Logins of this process, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Logins(Mutex<VecDeque<Arc<OneLogin>>>);

#[derive(Debug)]
struct OneLogin {
    login: oauth::Login,
    told: Mutex<Login>,
    done: tokio::sync::Notify,
}

impl OneLogin {
    fn told(&self) -> Login {
        self.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

impl Logins {
    fn find(&self, id: &str) -> Result<Arc<OneLogin>, RpcError> {
        let logins = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = logins.iter().find(|login| login.told().login_id == id).cloned();
        found.ok_or_else(|| RpcError::failed("UnknownLogin", format!("Unknown login: {id}")))
    }

    /// The login has ended: the browser is not waited for any more.
    pub(crate) fn cancel_all(&self) {
        let logins = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        logins.iter().for_each(|one| one.login.cancel());
    }

    fn add(&self, login: Arc<OneLogin>) {
        let mut logins = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if logins.len() >= MAX_LOGINS
            && let Some(oldest) = logins.pop_front()
        {
            oldest.login.cancel();
        }
        logins.push_back(login);
    }
}

fn store_failed(why: StoreError) -> RpcError {
    RpcError::internal(why.0)
}

impl Backend {
    pub(crate) fn auth_status(&self) -> Result<AuthStatus, RpcError> {
        let config = self.config.read_or_default();
        let (tokens, error) = match self.auth.tokens() {
            Ok(tokens) => (tokens, None),
            Err(why) => (None, Some(why.0)),
        };
        Ok(AuthStatus {
            openai_oauth: tokens.is_some(),
            openai_account_id: tokens.and_then(|tokens| tokens.account_id),
            openrouter_api_key: self.api_key(&config, ProviderKind::OpenRouter).is_some(),
            openai_access_token: self.environment.get("OPENAI_ACCESS_TOKEN").is_some(),
            openai_api_key: self.api_key(&config, ProviderKind::OpenAi).is_some(),
            github_oauth: false,
            error,
        })
    }

    pub(crate) fn auth_providers(&self) -> Result<AuthProviders, RpcError> {
        let config = self.config.read_or_default();
        let signed_in = self.auth.is_signed_in();
        let source = |environment: bool, stored: bool| match (environment, stored) {
            (true, _) => Some("environment".to_owned()),
            (false, true) => Some("stored".to_owned()),
            _ => None,
        };
        let env_token = self.environment.get("OPENAI_ACCESS_TOKEN").is_some();
        let openai = AuthCard {
            id: "openai".into(),
            name: "OpenAI".into(),
            auth_type: "oauth".into(),
            configured: signed_in || env_token,
            can_logout: signed_in,
            source: source(env_token, signed_in),
            stored_credential_type: Some("oauth".into()),
            uses_callback_server: Some(true),
            label: if signed_in || env_token { "Signed in" } else { "Not signed in" }.into(),
            supported: None,
            reason: None,
        };
        let env_key = self.environment.get("OPENROUTER_API_KEY").is_some();
        let stored_key = config.text("openrouter_api_key").is_some();
        let openrouter = AuthCard {
            id: "openrouter".into(),
            name: "OpenRouter".into(),
            auth_type: "api_key".into(),
            configured: env_key || stored_key,
            can_logout: stored_key,
            source: source(env_key, stored_key),
            stored_credential_type: stored_key.then(|| "api_key".into()),
            uses_callback_server: None,
            label: if env_key || stored_key { "API key configured" } else { "API key not configured" }.into(),
            supported: None,
            reason: None,
        };
        let github = AuthCard {
            id: "github".into(),
            name: "GitHub".into(),
            auth_type: "oauth".into(),
            configured: false,
            can_logout: false,
            source: None,
            stored_credential_type: None,
            uses_callback_server: None,
            label: "Not available".into(),
            supported: Some(false),
            reason: Some("GitHub sign-in is not offered by this backend.".into()),
        };
        Ok(AuthProviders { providers: vec![openai, openrouter, github] })
    }

    pub(crate) fn login_with_api_key(&self, params: params::ApiKeyLogin) -> Result<ProviderMessage, RpcError> {
        if params.provider_id != "openrouter" {
            return Err(RpcError::internal(format!("Unsupported API key provider: {}", params.provider_id)));
        }
        let key = params.api_key.trim();
        if key.is_empty() {
            return Err(RpcError::internal("API key must be a non-empty string"));
        }
        self.redactor.learn(key);
        self.config.update(|map| drop(map.insert("openrouter_api_key".into(), key.into())))?;
        self.catalogue(ProviderKind::OpenRouter).forget();
        Ok(ProviderMessage { provider_id: params.provider_id, message: "Saved API key for OpenRouter.".into() })
    }

    pub(crate) fn logout_provider(&self, params: params::OfProvider) -> Result<ProviderMessage, RpcError> {
        let message = match params.provider_id.as_str() {
            "openai" => {
                self.auth.remove().map_err(store_failed)?;
                "Logged out of OpenAI."
            }
            "openrouter" => {
                self.config.update(|map| drop(map.remove("openrouter_api_key")))?;
                self.catalogue(ProviderKind::OpenRouter).forget();
                "Logged out of OpenRouter."
            }
            other => return Err(RpcError::internal(format!("Unsupported auth provider: {other}"))),
        };
        Ok(ProviderMessage { provider_id: params.provider_id, message: message.into() })
    }

    pub(crate) async fn login_with_oauth(
        self: &Arc<Self>,
        params: params::OauthLogin,
    ) -> Result<LoginStarted, RpcError> {
        if params.provider_id != "openai" {
            return Err(RpcError::internal(format!("Unsupported OAuth provider: {}", params.provider_id)));
        }
        self.start_login(params::StartLogin { timeout_seconds: params.timeout_seconds }).await
    }

    pub(crate) async fn start_login(self: &Arc<Self>, params: params::StartLogin) -> Result<LoginStarted, RpcError> {
        let seconds = params.timeout_seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
        let timeout = seconds
            .map_or(DEFAULT_TIMEOUT, |seconds| Duration::from_secs_f64(seconds.min(LONGEST_LOGIN.as_secs_f64())));
        let config = self.config.read()?;
        let login = oauth::Login::start(self.http.clone(), self.oauth_config(&config), timeout).await;
        let login = login.map_err(|why| RpcError::internal(why.to_string()))?;
        let told = Login {
            provider_id: "openai".into(),
            login_id: clock::unique_id(),
            status: LoginStatus::Pending,
            redirect_uri: login.redirect_uri().to_owned(),
            message: "Waiting for the sign-in in the browser.".into(),
            error: None,
        };
        let started = LoginStarted {
            provider_id: told.provider_id.clone(),
            login_id: told.login_id.clone(),
            authorization_url: login.authorization_url().to_owned(),
            redirect_uri: told.redirect_uri.clone(),
            status: LoginStatus::Pending,
        };
        let one = Arc::new(OneLogin { login, told: Mutex::new(told), done: tokio::sync::Notify::new() });
        self.logins.add(one.clone());
        let backend = self.clone();
        self.spawn(async move { backend.finish_login(&one).await });
        Ok(started)
    }

    /// Waits for the end of a login, stores its tokens and tells the client.
    async fn finish_login(&self, one: &OneLogin) {
        let kept = match one.login.outcome().await {
            Ok(tokens) => self.auth.save(&tokens).await.map_err(|why| why.0),
            Err(why) => Err(why.to_string()),
        };
        self.catalogue(ProviderKind::Codex).forget();
        let told = {
            let mut told = one.told.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            match kept {
                Ok(()) => {
                    told.status = LoginStatus::Completed;
                    told.message = "Signed in to OpenAI.".into();
                }
                Err(why) => {
                    told.status = LoginStatus::Failed;
                    told.message = "The sign-in did not succeed.".into();
                    told.error = Some(self.redactor.text(&why).into_owned());
                }
            }
            told.clone()
        };
        self.out.send(rpc::notification(name::LOGIN_FINISHED, &told));
        one.done.notify_waiters();
    }

    pub(crate) async fn submit_code(&self, params: params::SubmitCode) -> Result<Login, RpcError> {
        let one = self.logins.find(&params.login_id)?;
        let done = one.done.notified();
        tokio::pin!(done);
        done.as_mut().enable();
        if one.told().status != LoginStatus::Pending {
            return Err(RpcError::internal("Login is not pending"));
        }
        one.login.submit(&params.code).await.map_err(|why| RpcError::internal(why.to_string()))?;
        // The tokens are kept by the task that waits for the login's end; only then is it completed.
        if one.told().status == LoginStatus::Pending {
            done.await;
        }
        Ok(one.told())
    }

    pub(crate) fn login_status(&self, params: params::OfLogin) -> Result<Login, RpcError> {
        self.logins.find(&params.login_id).map(|one| one.told())
    }
}
