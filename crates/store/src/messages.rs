//! Yonexus: clients and their pairings, rules, the inbox and the outbox.

use async_trait::async_trait;
use convoke_core::id::TokenId;
use convoke_core::journal::Draft;
use convoke_core::peer::{Liveness, Trust};
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use crate::store::Result;

/// A client as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientRow {
    /// Who.
    pub identifier: String,
    /// Whether an operator put it on the allow-list. (The settings may do so too; that is not kept here.)
    pub listed: bool,
    /// Whether it is believed.
    pub trust: Trust,
    /// Its key.
    pub public_key: Option<[u8; 32]>,
    /// Its secret, sealed at rest.
    pub secret: Option<SecretBytes>,
    /// Earlier secrets, sealed at rest; the newest first.
    pub old_secrets: Vec<SecretBytes>,
    /// A pairing under way.
    pub pairing: Option<PairingRow>,
    /// No new pairing before this.
    pub pause_until: Option<Timestamp>,
    /// It may present another key until then.
    pub rotation_until: Option<Timestamp>,
    /// The only key that it may present then, if the operator named one.
    pub rotation_key: Option<[u8; 32]>,
    /// Why its trust was reset.
    pub reset: Option<String>,
    /// When it was first heard of.
    pub created_at: Timestamp,
    /// When it was paired.
    pub paired_at: Option<Timestamp>,
    /// When it last proved itself.
    pub last_auth: Option<Timestamp>,
    /// When it was last heard.
    pub last_seen: Option<Timestamp>,
    /// Its last known liveness.
    pub liveness: Liveness,
}

/// A pairing under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairingRow {
    /// The code, sealed at rest.
    pub code: SecretBytes,
    /// The key that is being paired.
    pub public_key: [u8; 32],
    /// When it began.
    pub created_at: Timestamp,
    /// When the code's time is over.
    pub expires_at: Timestamp,
    /// Wrong codes so far.
    pub wrong: u8,
    /// `pending`, `sent` or `failed`.
    pub notification: String,
    /// How the administrator was told, or why not: in words.
    pub notified: String,
    /// An operator has said yes.
    pub approved: bool,
    /// Where the client connected from.
    pub address: String,
}

/// A rule as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleRow {
    /// The rule identifier.
    pub rule: String,
    /// What it does, JSON text.
    pub body: String,
    /// What its webhook's calls are signed with, sealed at rest.
    pub secret: Option<SecretBytes>,
}

/// A message in the inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRow {
    /// Its place, for paging; 0 before it is kept.
    pub id: i64,
    /// When it came.
    pub at: Timestamp,
    /// The rule identifier.
    pub rule: String,
    /// The client that sent it.
    pub sender: String,
    /// The content.
    pub content: String,
}

impl MessageRow {
    /// About how much of a page it takes.
    pub fn bytes(&self) -> usize {
        self.rule.len() + self.sender.len() + self.content.len()
    }
}

/// Which messages.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Only of this rule.
    pub rule: Option<String>,
    /// Only after this id.
    pub after: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// A message that waits for someone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxRow {
    /// Its id, which travels with it; 0 before it is kept.
    pub id: i64,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When nobody needs it any more.
    pub expires_at: Timestamp,
    /// The rule identifier.
    pub rule: String,
    /// Who sent it.
    pub sender: String,
    /// Whether its id goes before the content.
    pub with_id: bool,
    /// The content.
    pub content: String,
}

/// What waits for one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxTotal {
    /// For whom.
    pub destination: String,
    /// How many messages.
    pub count: u64,
    /// How much content.
    pub bytes: u64,
}

/// Clients, rules, the inbox and the outbox.
#[async_trait]
pub trait Messages: Send + Sync {
    /// All clients.
    async fn clients(&self) -> Result<Vec<ClientRow>>;
    /// One client.
    async fn client(&self, identifier: &str) -> Result<Option<ClientRow>>;
    /// Keeps a client as it is now, with its pairing or without one. `None` records nothing.
    async fn put_client(&self, client: ClientRow, record: Option<Draft>) -> Result<()>;
    /// As [`Self::put_client`], for a client whose trust is withdrawn or narrowed.
    async fn withdraw_client(&self, client: ClientRow, record: Option<Draft>) -> Result<()> {
        self.put_client(client, record).await
    }
    /// Removes a client with its pairing and what waits for it. False when unknown.
    async fn remove_client(&self, identifier: &str, record: Draft) -> Result<bool>;

    /// The rules, in the order they were added.
    async fn rules(&self) -> Result<Vec<RuleRow>>;
    /// Adds a rule, or replaces the one of that identifier in its place.
    async fn put_rule(&self, rule: RuleRow, record: Draft) -> Result<()>;
    /// Removes one. False when unknown.
    async fn delete_rule(&self, rule: &str, record: Draft) -> Result<bool>;

    /// Keeps a message in the inbox; beyond `most` the oldest goes. Answers its id.
    async fn put_message(&self, message: MessageRow, most: u64) -> Result<i64>;
    /// Messages in order of arrival.
    async fn messages(&self, filter: MessageFilter) -> Result<Vec<MessageRow>>;

    /// Keeps a message for each destination. Answers its id.
    async fn put_outbox(&self, message: OutboxRow, destinations: Vec<String>) -> Result<i64>;
    /// The same for an operator's token, if that is not revoked: looked at in the same transaction, so that nothing is
    /// kept once a revocation is committed.
    async fn put_outbox_of(&self, by: TokenId, message: OutboxRow, to: Vec<String>) -> Result<Option<i64>>;
    /// What waits for a destination and has not expired, in order, after this id. For a client that is what any hub has kept for
    /// it, for a webhook (its name has a colon) what this hub has.
    async fn outbox(&self, destination: &str, after: i64, limit: u32, now: Timestamp) -> Result<Vec<OutboxRow>>;
    /// A destination has got these messages.
    async fn delivered(&self, destination: &str, messages: Vec<i64>) -> Result<()>;
    /// What waits for whom.
    async fn outbox_totals(&self) -> Result<Vec<OutboxTotal>>;
    /// Removes what has expired and messages of the inbox from before. Answers how many deliveries lapsed.
    async fn lapse(&self, now: Timestamp, inbox_before: Option<Timestamp>) -> Result<u64>;
}
