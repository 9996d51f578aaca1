//! Sign-in with an OpenAI account: OAuth with PKCE, a callback on this machine, and tokens that renew themselves.
//!
//! [`Login::start`] opens the callback's port and gives an address for the user's browser. The login ends by the
//! browser's return, by a pasted code ([`Login::submit`]), by its time-out or by [`Login::cancel`]; [`Login::outcome`]
//! waits for that. What comes out are [`Tokens`], which a [`TokenKeeper`] serves to requests and renews.

mod callback;
mod endpoint;
mod keeper;
mod login;
mod tokens;

use std::time::Duration;

pub use keeper::{StoreError, TokenKeeper, TokenStore};
pub use login::{Login, LoginState};
pub use tokens::{Tokens, account_id};

/// The public client id under which command-line programs sign in to ChatGPT accounts.
pub const DEFAULT_CLIENT_ID: &str = "app_EMoamEEZ73f0CkXaXp7hrann";

/// The port that the account's server knows for callbacks. If it is taken, any free one is used.
pub const DEFAULT_PORT: u16 = 1455;

/// How long a login may take if the caller does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How this program signs in.
#[derive(Clone, Debug)]
pub struct OAuthConfig {
    /// `https://auth.openai.com`, or another server in its place.
    pub base_url: String,
    /// The client id.
    pub client_id: String,
    /// The client's name, as the account's server shows it.
    pub originator: String,
    /// The callback's port; 0 takes any free one.
    pub port: u16,
}

impl Default for OAuthConfig {
    fn default() -> Self {
        Self {
            base_url: "https://auth.openai.com".into(),
            client_id: DEFAULT_CLIENT_ID.into(),
            originator: "kward".into(),
            port: DEFAULT_PORT,
        }
    }
}

/// Why a login or a renewal did not work.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OAuthError {
    /// The pasted address belongs to another login.
    #[error("OAuth state mismatch")]
    StateMismatch,
    /// There is no code in what was pasted.
    #[error("Missing authorization code")]
    MissingCode,
    /// The login has ended already.
    #[error("Login is not pending")]
    NotPending,
    /// Nobody came back from the browser.
    #[error("Login timed out after {} seconds", .0.as_secs())]
    TimedOut(Duration),
    /// The caller ended it.
    #[error("Login was cancelled")]
    Cancelled,
    /// The account's server, or the user at it, said no.
    #[error("The sign-in was refused: {0}")]
    Refused(String),
    /// The account's server does not renew the tokens any more.
    #[error("The OpenAI login has expired ({0}). Sign in again.")]
    Expired(String),
    /// There is no login.
    #[error("No OpenAI OAuth login found. Sign in, or set an API key or another provider.")]
    NotSignedIn,
    /// The system gives no random bytes, without which a sign-in is not safe.
    #[error("The system gives no random bytes: {0}")]
    NoRandomness(String),
    /// No port can be opened for the callback.
    #[error("No port can be opened for the sign-in's callback: {0}")]
    NoPort(String),
    /// The account's server cannot be reached.
    #[error("The sign-in server cannot be reached: {0}")]
    Network(String),
    /// The account's server answered something unreadable.
    #[error("The sign-in server's answer cannot be read: {0}")]
    Malformed(String),
    /// An address from configuration cannot be used.
    #[error("The sign-in server's address {0:?} cannot be used: {1}")]
    BadAddress(String, String),
    /// Tokens cannot be read or kept.
    #[error("{0}")]
    Store(#[from] StoreError),
}
