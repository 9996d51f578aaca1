//! What people may do: operator tokens and policy rules.

use async_trait::async_trait;
use convoke_core::confirm::ConfirmRule;
use convoke_core::grant::{Role, Scopes};
use convoke_core::guard::Rule;
use convoke_core::id::TokenId;
use convoke_core::journal::Draft;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;

use crate::store::Result;

/// An operator token as it is kept.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// Its name; never used twice, so that the journal stays unambiguous.
    pub name: String,
    /// The person it belongs to; absent, it is a person of its own.
    pub owner: Option<String>,
    /// Its hash.
    pub hash: TokenHash,
    /// Its role.
    pub role: Role,
    /// What narrows it.
    pub scopes: Scopes,
    /// When it was minted.
    pub created_at: Timestamp,
    /// When it lapses.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
    /// When it was last used (to the minute or so).
    pub last_used: Option<Timestamp>,
}

/// Operator tokens and policy rules.
#[async_trait]
pub trait People: Send + Sync {
    /// All operator tokens, revoked ones too.
    async fn tokens(&self) -> Result<Vec<TokenRow>>;
    /// Keeps a token. [`StoreError::Conflict`] when the name was ever used.
    async fn put_token(&self, token: TokenRow, record: Draft) -> Result<()>;
    /// Revokes a token. False when unknown or revoked already.
    async fn revoke_token(&self, id: TokenId, now: Timestamp, record: Draft) -> Result<bool>;

    /// The operators' deny rules, in the order they were added.
    async fn deny_rules(&self) -> Result<Vec<Rule>>;
    /// Adds or replaces a deny rule.
    async fn put_deny_rule(&self, rule: &Rule, record: Draft) -> Result<()>;
    /// Adds one that is new. It takes something from callers, and so counts as a withdrawal.
    async fn add_deny_rule(&self, rule: &Rule, record: Draft) -> Result<()>;
    /// Removes one. False when unknown.
    async fn delete_deny_rule(&self, id: &str, record: Draft) -> Result<bool>;
    /// The confirm rules. A new store has the default one.
    async fn confirm_rules(&self) -> Result<Vec<ConfirmRule>>;
    /// Adds or replaces a confirm rule.
    async fn put_confirm_rule(&self, rule: &ConfirmRule, record: Draft) -> Result<()>;
    /// Adds one that is new. It takes something from callers, and so counts as a withdrawal.
    async fn add_confirm_rule(&self, rule: &ConfirmRule, record: Draft) -> Result<()>;
    /// Removes one. False when unknown.
    async fn delete_confirm_rule(&self, id: &str, record: Draft) -> Result<bool>;
}
