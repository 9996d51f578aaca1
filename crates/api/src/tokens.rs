//! Operator tokens.

use convoke_core::grant::{Role, Scopes};
use convoke_core::id::TokenId;
use convoke_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{object, words};

/// Create a token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenRequest {
    /// The token's name; a name is used only once, so that the journal stays unambiguous.
    pub name: String,
    /// `viewer`, `operator` or `admin`.
    #[schema(value_type = words::Role)]
    pub role: Role,
    /// The scopes that narrow the role.
    #[serde(default, deserialize_with = "object::optional", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScopesShape>)]
    pub scopes: Option<Scopes>,
    /// The person it belongs to. Who asked can never approve, by person: none of their tokens may decide on a call of
    /// another. Absent, it is a person of its own, or belongs to the owner of the token that mints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// How long it is valid; for ever by default.
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

/// Pause an assistant's token, or let it go on.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenChange {
    /// Whether it is refused until it is let go on.
    pub paused: bool,
}

/// One token, without its secret.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: TokenId,
    /// Its name.
    pub name: String,
    /// The owner, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Its role.
    #[schema(value_type = words::Role)]
    pub role: Role,
    /// The scopes that narrow the role.
    #[schema(value_type = ScopesShape)]
    pub scopes: Scopes,
    /// Whether it is valid.
    #[schema(value_type = words::TokenState)]
    pub state: String,
    /// When it was created.
    #[schema(value_type = words::Time)]
    pub created_at: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
    pub expires_at: Option<Timestamp>,
    /// When it was last used, to the minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Time>)]
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

/// A query for tokens.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct TokenQuery {
    /// Only entries after this name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Most entries to return (1 to 1000; 100 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// The scopes of a token; an absent list narrows nothing.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = Scopes)]
#[expect(dead_code, reason = "described, and never made")]
pub(crate) struct ScopesShape {
    /// Effects that its calls may have.
    effects: Option<Vec<words::Effect>>,
    /// Tools by name, globs allowed.
    tools: Option<Vec<String>>,
    /// Agents by id, globs allowed.
    agents: Option<Vec<String>>,
    /// Agents by tag, globs allowed.
    tags: Option<Vec<String>>,
    /// Doors at which it is good; all by default. `["mcp"]` makes a token for an assistant.
    doors: Option<Vec<words::Door>>,
    /// Whether it may approve others' waiting calls; no by default.
    approve: Option<bool>,
    /// Most calls in a minute, through all doors together.
    calls_per_minute: Option<u32>,
    /// Most calls at once.
    concurrent_calls: Option<u32>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};
    use utoipa::PartialSchema as _;

    use super::*;

    #[test]
    fn scopes_are_described_as_they_are() {
        let schema = serde_json::to_value(ScopesShape::schema()).expect("JSON");
        let scopes = Scopes {
            effects: Some(Vec::new()),
            tools: Some(Vec::new()),
            agents: Some(Vec::new()),
            tags: Some(Vec::new()),
            doors: Some(Vec::new()),
            approve: Some(true),
            calls_per_minute: Some(1),
            concurrent_calls: Some(1),
        };
        let keys =
            |value: &Value| -> BTreeSet<String> { value.as_object().expect("an object").keys().cloned().collect() };
        assert_eq!(keys(&schema["properties"]), keys(&json!(scopes)));
        assert_eq!(schema["required"], Value::Null);
    }
}
