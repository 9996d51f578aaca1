//! Tokens served to requests, and renewed before they end.

use std::any::Any;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use convoke_core::secret::SecretText;
use tokio::sync::Mutex;

use super::endpoint::TokenEndpoint;
use super::tokens::expiry;
use super::{OAuthConfig, OAuthError, Tokens};
use crate::{CredentialSource, Credentials, Http, ModelError, ProviderKind};

/// A token with so many seconds left is renewed before it is used.
const MARGIN_S: i64 = 60;

/// Tokens cannot be read or kept.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Where tokens are kept between runs.
#[async_trait]
pub trait TokenStore: Send + Sync + std::fmt::Debug {
    /// What is kept now. Asked before each use and again before each renewal, since another process may have renewed
    /// or signed out in the meantime.
    async fn load(&self) -> Result<Option<Tokens>, StoreError>;

    /// Keeps new tokens.
    async fn save(&self, tokens: &Tokens) -> Result<(), StoreError>;

    /// Keeps other processes from renewing until what is returned is dropped. A refresh token is good for one use:
    /// two processes that renew at once would end each other's login.
    async fn lock(&self) -> Result<Box<dyn Any + Send>, StoreError> {
        Ok(Box::new(()))
    }
}

/// Serves tokens to requests and renews them: when a minute or less is left, and when a provider refuses them. However
/// many requests ask at once, one renewal is made. Clones share it.
#[derive(Clone, Debug)]
pub struct TokenKeeper {
    http: Http,
    config: OAuthConfig,
    store: Arc<dyn TokenStore>,
    renewing: Arc<Mutex<()>>,
}

impl TokenKeeper {
    /// A keeper of what is in the store.
    pub fn new(http: Http, config: OAuthConfig, store: Arc<dyn TokenStore>) -> Self {
        Self { http, config, store, renewing: Arc::default() }
    }

    /// Tokens that are good now.
    pub async fn tokens(&self) -> Result<Tokens, OAuthError> {
        let tokens = self.store.load().await?.ok_or(OAuthError::NotSignedIn)?;
        if is_fresh(&tokens) { Ok(tokens) } else { self.renew(&tokens.access_token).await }
    }

    /// Renews `old`, unless somebody else has done so by the time it is our turn. In a task of its own: a refresh token
    /// is used up by being sent, so a caller who goes away must not take the new tokens along.
    async fn renew(&self, old: &SecretText) -> Result<Tokens, OAuthError> {
        let (keeper, old) = (self.clone(), old.clone());
        let renewal = tokio::spawn(async move { keeper.renew_now(&old).await });
        renewal.await.unwrap_or_else(|why| Err(OAuthError::Network(format!("the renewal was interrupted: {why}"))))
    }

    async fn renew_now(&self, old: &SecretText) -> Result<Tokens, OAuthError> {
        let _only_one = self.renewing.lock().await;
        let _only_here = self.store.lock().await?;
        let kept = self.store.load().await?.ok_or(OAuthError::NotSignedIn)?;
        if kept.access_token.hash() != old.hash() && is_fresh(&kept) {
            return Ok(kept);
        }
        let endpoint = TokenEndpoint::new(self.http.clone(), &self.config)?;
        let renewed = endpoint.renew(&kept).await?;
        self.store.save(&renewed).await?;
        Ok(renewed)
    }
}

fn is_fresh(tokens: &Tokens) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs().cast_signed();
    let end = tokens.expires_at.or_else(|| expiry(&tokens.access_token));
    end.is_none_or(|end| end - now > MARGIN_S)
}

#[async_trait]
impl CredentialSource for TokenKeeper {
    async fn current(&self) -> Result<Credentials, ModelError> {
        self.tokens().await.map(account).map_err(in_model_words)
    }

    async fn renewed(&self, rejected: &Credentials) -> Result<Option<Credentials>, ModelError> {
        let Credentials::Account { access_token, .. } = rejected else { return Ok(None) };
        self.renew(access_token).await.map(|tokens| Some(account(tokens))).map_err(in_model_words)
    }
}

fn account(tokens: Tokens) -> Credentials {
    Credentials::Account { access_token: tokens.access_token.clone(), account_id: tokens.account_id }
}

fn in_model_words(why: OAuthError) -> ModelError {
    match why {
        OAuthError::Network(message) => ModelError::Network { provider: ProviderKind::Codex, message },
        other => ModelError::NotConfigured(other.to_string()),
    }
}
