//! People who sign in: users, their sessions, one-time links and passkeys.

use async_trait::async_trait;
use convoke_core::grant::{Role, Scopes};
use convoke_core::id::{SessionId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::secret::{SecretBytes, TokenHash};
use convoke_core::time::Timestamp;

use crate::store::Result;

/// A user as they are kept.
#[derive(Clone, Debug)]
pub struct UserRow {
    /// Their id, as a principal.
    pub id: TokenId,
    /// Their name; no user or token has the same.
    pub name: String,
    /// Their role.
    pub role: Role,
    /// What narrows it.
    pub scopes: Scopes,
    /// The hash of their password (Argon2id, PHC text), if they have one.
    pub password: Option<PasswordHash>,
    /// The secret of their one-time codes, sealed at rest, if they use them.
    pub totp: Option<SecretBytes>,
    /// When they were added.
    pub created_at: Timestamp,
}

/// A password's hash. Not printed: who has it can guess at leisure.
#[derive(Clone, PartialEq, Eq)]
pub struct PasswordHash(pub String);

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PasswordHash(…)")
    }
}

/// A session as it is kept.
#[derive(Clone, Debug)]
pub struct SessionRow {
    /// Its id.
    pub id: SessionId,
    /// Whose; nobody's where it came by the welcome link and there is no user yet.
    pub user: Option<TokenId>,
    /// The hash of its cookie's value.
    pub hash: TokenHash,
    /// When the person signed in.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// When they last showed a password, passkey or link.
    pub stepped_up_at: Timestamp,
    /// From which address they signed in.
    pub address: String,
    /// What their browser calls itself.
    pub browser: String,
}

/// A one-time link: only its hash.
#[derive(Clone, Debug)]
pub struct LinkRow {
    /// Its hash.
    pub hash: TokenHash,
    /// Whom it signs in; nobody for the welcome link.
    pub user: Option<TokenId>,
    /// When it lapses.
    pub expires_at: Timestamp,
}

/// A passkey.
#[derive(Clone, Debug)]
pub struct PasskeyRow {
    /// Its credential id, as text.
    pub id: String,
    /// Whose.
    pub user: TokenId,
    /// What they call it.
    pub name: String,
    /// What verifies it: JSON text.
    pub body: String,
    /// When it was added.
    pub created_at: Timestamp,
}

/// Users, sessions, links and passkeys.
#[async_trait]
pub trait Accounts: Send + Sync {
    /// All users, by name.
    async fn users(&self) -> Result<Vec<UserRow>>;
    /// Keeps a user, and the link by which they sign in first. [`StoreError::Conflict`](crate::StoreError::Conflict) when a
    /// user or token has the name.
    async fn add_user(&self, user: UserRow, link: Option<LinkRow>, record: Draft) -> Result<()>;
    /// Keeps what a user is now, and ends all their sessions except one that may stay, if `ends` says so. False when unknown.
    async fn set_user(&self, user: UserRow, ends: Ends, record: Draft) -> Result<bool>;
    /// As [`Self::set_user`], for a user who may do less from now on, or whose sessions end.
    async fn withdraw_from_user(&self, user: UserRow, ends: Ends, record: Draft) -> Result<bool> {
        self.set_user(user, ends, record).await
    }
    /// Removes a user with their sessions, links and passkeys, and revokes their tokens. False when unknown.
    async fn remove_user(&self, id: TokenId, now: Timestamp, record: Draft) -> Result<bool>;

    /// All sessions that have not ended. Those that have are removed.
    async fn sessions(&self, now: Timestamp) -> Result<Vec<SessionRow>>;
    /// Keeps a session; one with the same id is replaced, which is how a cookie is changed.
    async fn put_session(&self, session: SessionRow, record: Option<Draft>) -> Result<()>;
    /// Ends a session. False when unknown.
    async fn end_session(&self, id: SessionId, record: Draft) -> Result<bool>;

    /// A link that has not lapsed.
    async fn link(&self, hash: TokenHash, now: Timestamp) -> Result<Option<LinkRow>>;
    /// Keeps a link. Earlier ones of the same user, or the earlier welcome link, are void from then on.
    async fn put_link(&self, link: LinkRow, record: Draft) -> Result<()>;
    /// Uses a link up, and keeps the session that it opens. False when it was used, has lapsed or is void.
    async fn use_link(&self, hash: TokenHash, session: SessionRow, record: Draft) -> Result<bool>;

    /// The tokens that are paused.
    async fn paused_tokens(&self) -> Result<Vec<TokenId>>;
    /// Pauses a token, or lets it go on. False when it was so already.
    async fn pause_token(&self, id: TokenId, paused: bool, record: Draft) -> Result<bool>;

    /// All passkeys, in the order they were added.
    async fn passkeys(&self) -> Result<Vec<PasskeyRow>>;
    /// Keeps a passkey; one with the same id of the same user is replaced.
    async fn put_passkey(&self, passkey: PasskeyRow, record: Option<Draft>) -> Result<()>;
    /// Removes one of a user's. False when unknown.
    async fn remove_passkey(&self, user: TokenId, id: &str, record: Draft) -> Result<bool>;
}

/// Which sessions of a user end when they are changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// None.
    Nothing,
    /// All, except this one where somebody changes their own password. Links are void, too.
    AllBut(Option<SessionId>),
}
