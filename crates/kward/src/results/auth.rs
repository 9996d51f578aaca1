//! Credentials and logins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

results! {
    /// `auth/providers`.
    AuthProviders {
        /// One card each.
        providers: Vec<AuthCard>,
    }
    /// `auth/loginWithApiKey` and `auth/logoutProvider`.
    ProviderMessage {
        /// Whose.
        provider_id: String,
        /// For the person.
        message: String,
    }
}

/// `auth/status`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuthStatus {
    /// Signed in.
    #[serde(rename = "openaiOAuth")]
    pub openai_oauth: bool,
    /// As whom.
    #[serde(rename = "openaiAccountId")]
    pub openai_account_id: Option<String>,
    /// A key is there.
    #[serde(rename = "openrouterApiKey")]
    pub openrouter_api_key: bool,
    /// A token is in the environment.
    #[serde(rename = "openaiAccessToken")]
    pub openai_access_token: bool,
    /// A key for the platform's own API is there.
    #[serde(rename = "openaiApiKey")]
    pub openai_api_key: bool,
    /// False: not offered.
    #[serde(rename = "githubOAuth")]
    pub github_oauth: bool,
    /// Why nothing could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A provider, as a settings page shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthCard {
    /// `openai`, `openrouter` or `github`.
    pub id: String,
    /// For people.
    pub name: String,
    /// `oauth` or `api_key`.
    pub auth_type: String,
    /// Whether there are credentials.
    pub configured: bool,
    /// Whether there are some that can be removed.
    pub can_logout: bool,
    /// `environment` or `stored`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// What is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_credential_type: Option<String>,
    /// Whether the login waits for a browser on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_callback_server: Option<bool>,
    /// One phrase for the person.
    pub label: String,
    /// False for what is only listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supported: Option<bool>,
    /// Why it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// How a login stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginStatus {
    /// Waiting for the browser.
    Pending,
    /// Signed in.
    Completed,
    /// It did not work, or took too long.
    Failed,
}

/// A login.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Login {
    /// `openai`.
    pub provider_id: String,
    /// Its id.
    pub login_id: String,
    /// How it stands.
    pub status: LoginStatus,
    /// Where the browser comes back to.
    pub redirect_uri: String,
    /// For the person.
    pub message: String,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// A login that has begun. The address to open is given once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LoginStarted {
    /// `openai`.
    pub provider_id: String,
    /// Its id.
    pub login_id: String,
    /// For the browser.
    pub authorization_url: String,
    /// Where the browser comes back to.
    pub redirect_uri: String,
    /// `pending`.
    pub status: LoginStatus,
}
