//! Operator tokens.

use convoke_core::grant::{Role, Scopes};
use convoke_core::id::TokenId;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::object;

/// Mint a token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// Who or what it is for; unique for ever, so that the journal stays unambiguous.
    pub name: String,
    /// `viewer`, `operator` or `admin`.
    #[schema(value_type = String)]
    pub role: Role,
    /// What narrows the role.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub scopes: Option<Scopes>,
    /// How long it lives; for ever when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<u64>,
}

/// A new token, shown once.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct TokenMinted {
    /// Its id.
    #[schema(value_type = String)]
    pub id: TokenId,
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for TokenMinted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenMinted").field("id", &self.id).finish_non_exhaustive()
    }
}

/// One token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// Its role.
    #[schema(value_type = String)]
    pub role: Role,
    /// What narrows it.
    #[schema(value_type = Object)]
    pub scopes: Scopes,
    /// `active`, `expired` or `revoked`.
    pub state: String,
    /// When it was minted.
    #[schema(value_type = String)]
    pub created_at: Timestamp,
    /// When it lapses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub last_used: Option<Timestamp>,
}

/// A page of tokens.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The tokens, by name.
    pub tokens: Vec<TokenView>,
    /// Pass as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which tokens.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TokenQuery {
    /// Only after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// At most so many (1 to 1000, 100 when absent).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}
