//! What a request proves itself with.

use async_trait::async_trait;
use convoke_core::secret::SecretText;

use crate::ModelError;

/// The credentials of a request.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Nothing: a server on this machine.
    None,
    /// A key.
    ApiKey(SecretText),
    /// A ChatGPT account's access token.
    Account {
        /// The bearer token.
        access_token: SecretText,
        /// Which of the account's workspaces is meant.
        account_id: Option<String>,
    },
}

impl Credentials {
    /// The bearer token, if there is one.
    pub(crate) fn bearer(&self) -> Option<&SecretText> {
        match self {
            Self::None => None,
            Self::ApiKey(key) => Some(key),
            Self::Account { access_token, .. } => Some(access_token),
        }
    }
}

/// Where credentials come from. [`crate::oauth::TokenKeeper`] is one that renews; [`Fixed`] is one that does not.
#[async_trait]
pub trait CredentialSource: Send + Sync + std::fmt::Debug {
    /// What to send now. Renews by itself what is about to expire.
    async fn current(&self) -> Result<Credentials, ModelError>;

    /// Called once per request when the provider refused `rejected` (401). `None`: there is nothing better.
    async fn renewed(&self, rejected: &Credentials) -> Result<Option<Credentials>, ModelError>;
}

/// Credentials that stay as they are.
#[derive(Clone, Debug)]
pub struct Fixed(pub Credentials);

#[async_trait]
impl CredentialSource for Fixed {
    async fn current(&self) -> Result<Credentials, ModelError> {
        Ok(self.0.clone())
    }

    async fn renewed(&self, _: &Credentials) -> Result<Option<Credentials>, ModelError> {
        Ok(None)
    }
}
