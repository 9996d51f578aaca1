//! Peers of the two agent protocols: trust, keys, enrolment.

use async_trait::async_trait;
use convoke_core::id::PeerId;
use convoke_core::journal::Draft;
use convoke_core::peer::Trust;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use crate::store::Result;

/// An agent as it is kept.
#[derive(Clone, Debug)]
pub struct AgentRow {
    /// Its id.
    pub id: PeerId,
    /// Its trust.
    pub trust: Trust,
    /// Its bound Ed25519 key, 32 bytes.
    pub public_key: Option<[u8; 32]>,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// `register.meta` of the last connection, as it came.
    pub meta: Option<Box<RawValue>>,
    /// `register.protocol` of the last connection.
    pub protocol_version: Option<String>,
    /// When it was first heard of.
    pub created_at: Timestamp,
    /// When its key was bound.
    pub enrolled_at: Option<Timestamp>,
    /// The last frame of the last connection.
    pub last_seen: Option<Timestamp>,
    /// Rendered per-section health of the latest snapshot: see [`SnapshotRow::health`](crate::SnapshotRow::health).
    pub health: Option<String>,
    /// When the latest snapshot was collected, as the agent said.
    pub collected_at: Option<String>,
}

/// A peer that is the second tunnel of a machine, or that an admin keeps apart from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinRow {
    /// The second tunnel.
    pub tunnel: PeerId,
    /// The machine.
    pub machine: PeerId,
    /// How they came to it.
    pub how: Joining,
    /// When.
    pub at: Timestamp,
}

/// How two peers came to be one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Joining {
    /// The machine's key signed the other's id.
    Proven,
    /// An admin joined them.
    Admin,
    /// They are not: an admin split them, and no proof joins them again.
    Apart,
}

impl Joining {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Admin => "admin",
            Self::Apart => "apart",
        }
    }

    /// The one of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Proven, Self::Admin, Self::Apart].into_iter().find(|how| how.name() == text)
    }
}

/// An enrolment token before it is kept: only its hash.
#[derive(Clone, Debug)]
pub struct EnrolToken {
    /// For whom.
    pub agent: PeerId,
    /// Its hash.
    pub hash: TokenHash,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// Whether it may replace a bound key (key rotation, or re-enrolment of a revoked agent).
    pub replaces_key: bool,
}

/// The result of an enrolment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnrolOutcome {
    /// The key is bound now.
    Bound,
    /// The same token bound the same key before: the reply was lost, nothing changes.
    AlreadySame,
    /// No such token for this agent, or it lapsed, or was used with another key.
    BadToken,
    /// A key is bound already and the token does not replace it.
    AlreadyEnrolled,
    /// The key was revoked or replaced before, or is the one that is to be replaced. The token is still good.
    OldKey,
}

/// A Sonde agent as it is kept, beside its row among all agents.
#[derive(Clone, Debug)]
pub struct SondeAgentRow {
    /// Its id.
    pub id: PeerId,
    /// Its name: no two agents have the same.
    pub name: String,
    /// The hash of its API key.
    pub key_hash: TokenHash,
    /// Its certificate.
    pub cert_pem: Option<String>,
    /// SHA-256 of the certificate.
    pub cert_fingerprint: Option<[u8; 32]>,
    /// Whether it made its key itself.
    pub own_key: bool,
    /// What it says about itself and what was made of it: JSON text.
    pub facts: String,
}

/// An enrolment token: only its hash.
#[derive(Clone, Debug)]
pub struct SondeTokenRow {
    /// Its hash.
    pub hash: TokenHash,
    /// The only name it is good for, if it is for one.
    pub name: Option<String>,
    /// When it was minted.
    pub created_at: Timestamp,
    /// When it lapses.
    pub expires_at: Timestamp,
    /// When it was used.
    pub used_at: Option<Timestamp>,
    /// By whom.
    pub used_by: Option<PeerId>,
}

/// The result of an enrolment by token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SondeEnrolled {
    /// The agent is kept and trusted, the token used.
    Done,
    /// No such token.
    Unknown,
    /// Used before.
    Used,
    /// Lapsed.
    Expired,
    /// It is for another name.
    OtherName,
    /// Another agent took the name in the meantime.
    NameTaken,
}

/// Agents, their enrolment, and what Sonde keeps beside them.
#[async_trait]
pub trait Peers: Send + Sync {
    /// All agents.
    async fn agents(&self) -> Result<Vec<AgentRow>>;
    /// Keeps an enrolment token and moves the agent's trust; makes the agent if it is new. Earlier unused tokens of
    /// the same agent lapse.
    async fn mint_enrol_token(&self, token: EnrolToken, trust: Trust, now: Timestamp, record: Draft) -> Result<()>;
    /// Makes an agent that is known by name only, unless it is there already.
    async fn ensure_agent(&self, agent: &PeerId, now: Timestamp) -> Result<()>;
    /// Whether a token is a living enrolment token of this agent, unused, or used with this very key. Consumes nothing.
    async fn enrol_token_valid(
        &self,
        agent: &PeerId,
        token: &TokenHash,
        key: Option<[u8; 32]>,
        now: Timestamp,
    ) -> Result<bool>;
    /// Consumes a token and binds a key, in one transaction with its record. Records nothing unless it bound.
    async fn enrol(
        &self,
        agent: &PeerId,
        token: &TokenHash,
        public_key: [u8; 32],
        now: Timestamp,
        record: Draft,
    ) -> Result<EnrolOutcome>;
    /// Sets an agent's trust; with `forget_key` its key and open tokens go too. False when there is no such agent.
    async fn set_trust(&self, agent: &PeerId, trust: Trust, forget_key: bool, record: Draft) -> Result<bool>;
    /// Sets an agent's tags. False when there is no such agent.
    async fn set_tags(&self, agent: &PeerId, tags: &[String], record: Draft) -> Result<bool>;
    /// Agents whose invitation ran out unused are `unpaired` again, each with a record. Answers which.
    async fn lapse_invitations(&self, now: Timestamp) -> Result<Vec<PeerId>>;
    /// Removes an agent with its tokens (the journal keeps its records). Its snapshots and logs are read by nobody from now
    /// on; [`Peers::sweep`] takes them away. False when unknown.
    async fn remove_agent(&self, agent: &PeerId, record: Draft) -> Result<bool>;
    /// Takes away what removed agents left behind, in pieces between which others get their turn. Whoever stops waiting
    /// leaves the rest for the next time.
    async fn sweep(&self) -> Result<()>;

    /// Which peers are one machine, and which are kept apart. Enrolling or removing either forgets it.
    async fn joined(&self) -> Result<Vec<JoinRow>>;
    /// Joins two peers, or parts them.
    async fn put_join(&self, join: JoinRow, record: Draft) -> Result<()>;

    /// All Sonde agents.
    async fn sonde_agents(&self) -> Result<Vec<SondeAgentRow>>;
    /// Sonde's enrolment tokens that are kept, used and lapsed ones too.
    async fn sonde_tokens(&self) -> Result<Vec<SondeTokenRow>>;
    /// Keeps an enrolment token.
    async fn put_sonde_token(&self, token: SondeTokenRow, record: Draft) -> Result<()>;
    /// Uses a token and keeps the agent as trusted, in one transaction with its record.
    async fn enrol_sonde(
        &self,
        token: &TokenHash,
        agent: SondeAgentRow,
        now: Timestamp,
        record: Draft,
    ) -> Result<SondeEnrolled>;
    /// Keeps what a Sonde agent says about itself. False when unknown.
    async fn set_sonde_facts(&self, agent: &PeerId, facts: String, record: Option<Draft>) -> Result<bool>;
}
