//! One sign-in, from the browser's address to tokens.

use std::time::Duration;

use super::{OAuthConfig, OAuthError, Tokens};
use crate::Http;

/// How a login stands.
#[derive(Clone, Debug)]
pub enum LoginState {
    /// Waiting for the browser or a pasted code.
    Pending,
    /// Signed in.
    Completed(Tokens),
    /// It will not happen any more.
    Failed(OAuthError),
}

/// A sign-in under way. Cheap to clone; when the last clone goes, the callback's port is closed.
#[derive(Clone, Debug)]
pub struct Login {
    authorization_url: String,
    redirect_uri: String,
}

impl Login {
    /// Opens the callback's port and begins to wait.
    pub async fn start(http: Http, config: OAuthConfig, timeout: Duration) -> Result<Self, OAuthError> {
        let _ = (http, timeout);
        Err(OAuthError::NoPort(config.base_url))
    }

    /// The address for the user's browser.
    pub fn authorization_url(&self) -> &str {
        &self.authorization_url
    }

    /// Where the browser comes back to.
    pub fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    /// How it stands.
    pub fn state(&self) -> LoginState {
        LoginState::Pending
    }

    /// Takes a code, or the whole address that the browser came back to. If what was pasted is wrong, the login stays
    /// pending, so that it can be pasted again.
    pub async fn submit(&self, pasted: &str) -> Result<Tokens, OAuthError> {
        let _ = pasted;
        Err(OAuthError::NotPending)
    }

    /// Ends it.
    pub fn cancel(&self) {}

    /// Waits until it has ended. May be awaited by many and at any time.
    pub async fn outcome(&self) -> Result<Tokens, OAuthError> {
        Err(OAuthError::NotPending)
    }
}
