//! What the hub asks of a store. One trait, so that another engine can be put underneath without touching callers.
//!
//! Every `async` method that changes something resolves once the change is committed and would survive a power cut;
//! what may be lost with the last moment (logs, telemetry, last-seen times) goes through [`Store::enqueue`], which
//! resolves once the bounded queue has taken it.

use async_trait::async_trait;
use convoke_core::approval::{Approval, ApprovalState};
use convoke_core::call::CallState;
use convoke_core::confirm::ConfirmRule;
use convoke_core::grant::{Role, Scopes};
use convoke_core::guard::Rule;
use convoke_core::id::{ApprovalId, CallId, HubId, PeerId, TokenId};
use convoke_core::journal::{Checkpoint, Draft};
use convoke_core::peer::Trust;
use convoke_core::secret::{SecretBytes, TokenHash};
use convoke_core::time::Timestamp;
use serde_json::value::RawValue;

use crate::error::StoreError;
use crate::sonde::{SondeAgentRow, SondeEnrolled, SondeTokenRow};

/// Shorthand for what every method answers.
pub type Result<T> = std::result::Result<T, StoreError>;

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
    /// Rendered per-section health of the latest snapshot: see [`SnapshotRow::health`].
    pub health: Option<String>,
    /// When the latest snapshot was collected, as the agent said.
    pub collected_at: Option<String>,
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

/// How an approval moves, by whom, and what is recorded of it.
#[derive(Clone, Debug)]
pub struct ApprovalMove {
    /// Which.
    pub id: ApprovalId,
    /// Where it is, or nothing happens.
    pub from: ApprovalState,
    /// Where it will be.
    pub to: ApprovalState,
    /// Who decided, if someone did.
    pub decided_by: Option<TokenId>,
    /// Its record.
    pub record: Draft,
}

/// The end of a kept call.
#[derive(Clone, Debug)]
pub struct CallEnd {
    /// Which.
    pub id: CallId,
    /// Its outcome, as it is kept.
    pub outcome: String,
    /// Its record.
    pub record: Draft,
}

/// What came of an enrolment.
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

/// An operator token as it is kept.
#[derive(Clone, Debug)]
pub struct TokenRow {
    /// Its id.
    pub id: TokenId,
    /// Its name; never used twice, so that the journal stays unambiguous.
    pub name: String,
    /// Its hash.
    pub hash: TokenHash,
    /// The person it belongs to; absent, it is a person of its own.
    pub owner: Option<String>,
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

/// Where a history goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// With what was received before this time.
    Time(Timestamp),
    /// With what came before this snapshot, whenever: several may have come in one moment.
    Snapshot(i64),
}

/// A telemetry snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// In order of arrival; 0 until it is kept.
    pub id: i64,
    /// Whose.
    pub agent: PeerId,
    /// When the agent says it collected it.
    pub collected_at: String,
    /// When it came.
    pub received_at: Timestamp,
    /// The section map, exact JSON text.
    pub body: String,
    /// Per-section health as the hub judged it, JSON text `{"section":{"status","summary",...}}`; kept beside the body
    /// so that a fleet view after a restart reads no snapshot.
    pub health: String,
}

/// A log line, from an agent or from the hub about it.
#[derive(Clone, Debug)]
pub struct LogRow {
    /// Its place, for paging; 0 before it is kept.
    pub id: i64,
    /// When, as the source says (RFC 3339 text as it came).
    pub at: String,
    /// When it came.
    pub received_at: Timestamp,
    /// Which agent.
    pub agent: Option<PeerId>,
    /// `agent` or `hub`.
    pub source: String,
    /// `error`, `warn`, `info`, `debug`, `trace`.
    pub level: String,
    /// The emitting module.
    pub target: String,
    /// The message.
    pub message: String,
    /// Structured fields, JSON object text.
    pub fields: Option<String>,
}

/// Which log lines.
#[derive(Clone, Debug, Default)]
pub struct LogFilter {
    /// Only of this agent.
    pub agent: Option<PeerId>,
    /// Only at or above this level.
    pub level: Option<String>,
    /// Only after this id.
    pub after: Option<i64>,
    /// At most so many.
    pub limit: u32,
}

/// A call that outlives its request: it needs a person, or the caller gave an idempotency key.
#[derive(Clone, Debug)]
pub struct CallRow {
    /// Its id.
    pub id: CallId,
    /// Who asked.
    pub caller: TokenId,
    /// Their key, if any.
    pub idempotency_key: Option<String>,
    /// Whom it goes to.
    pub target: PeerId,
    /// What is asked.
    pub tool: String,
    /// Keyed digest of the exact arguments.
    pub args_digest: String,
    /// The door it came through.
    pub door: convoke_core::door::Door,
    /// The exact arguments, while they are still needed: sealed at rest, gone once the call is done.
    pub args: Option<SecretBytes>,
    /// What the caller asked for, in milliseconds.
    pub timeout_ms: Option<u64>,
    /// The runbook that asked, or `api`; absent in what an earlier version kept.
    pub requested_by: Option<String>,
    /// Where it stands.
    pub state: CallState,
    /// The outcome, as the API shows it, once it is done.
    pub outcome: Option<String>,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When the row may be forgotten.
    pub keep_until: Timestamp,
}

impl CallRow {
    /// How many bytes its arguments are.
    pub fn args_bytes(&self) -> usize {
        self.args.as_ref().map_or(0, |args| args.reveal().len())
    }
}

/// Bytes of arguments with which a page of approvals ends, however many were asked for: they may be large.
pub const APPROVALS_BYTES: usize = 1 << 20;

/// What came of reserving an idempotency key.
#[derive(Clone, Debug)]
pub enum Reservation {
    /// The key is new (or there is none): the call is kept and may go on.
    Fresh,
    /// The same caller used the key within its life: that call.
    Existing(Box<CallRow>),
}

/// Which journal records.
#[derive(Clone, Debug, Default)]
pub struct JournalFilter {
    /// Only after this `seq`.
    pub after: Option<u64>,
    /// At most so many.
    pub limit: u32,
    /// Only about this peer.
    pub agent: Option<String>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// Only of this kind.
    pub kind: Option<String>,
    /// Only of this call.
    pub call_id: Option<CallId>,
}

/// A record with its place, as exact JSON text (`hub_id`, `seq`, …, `prev`, `hash`).
#[derive(Clone, Debug)]
pub struct JournalRow {
    /// Its place.
    pub seq: u64,
    /// The record.
    pub json: Box<RawValue>,
}

/// What may be lost with the last moment.
#[derive(Clone, Debug)]
pub enum Lossy {
    /// A telemetry snapshot: history, and the agent's latest.
    Snapshot(SnapshotRow),
    /// Log lines.
    Logs(Vec<LogRow>),
    /// An agent connected or was last heard: its meta, protocol version and the time.
    Seen {
        /// Which.
        agent: PeerId,
        /// When.
        at: Timestamp,
        /// With what meta and protocol version, on a new connection.
        hello: Option<(Box<RawValue>, Option<String>)>,
    },
    /// A Yonexus client was heard of: its liveness, and whether it proved itself.
    ClientSeen {
        /// Which.
        identifier: String,
        /// What it is now.
        liveness: convoke_core::peer::Liveness,
        /// When.
        at: Timestamp,
        /// It has just proved itself.
        authenticated: bool,
    },
    /// An operator token was used.
    TokenUsed(TokenId, Timestamp),
    /// A journal record nobody waits for.
    Record(Draft),
}

/// Is told of what was committed.
pub type Observer = Box<dyn Fn(Lossy) + Send + Sync>;

/// How long things are kept. `None` keeps them for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retention {
    /// Snapshots received before this go, except each agent's latest.
    pub telemetry_before: Option<Timestamp>,
    /// Log lines received before this go.
    pub logs_before: Option<Timestamp>,
}

/// What a round of pruning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Snapshots.
    pub snapshots: u64,
    /// Log lines.
    pub logs: u64,
    /// Lapsed enrolment tokens and forgotten calls.
    pub other: u64,
}

/// Numbers for `/metrics` and `/readyz`.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStats {
    /// Writes waiting for the writer.
    pub queued: usize,
    /// The queue's limit.
    pub queue_limit: usize,
    /// Transactions committed.
    pub commits: u64,
    /// Writes in them.
    pub writes: u64,
    /// What went through [`Store::enqueue`] and was lost because its commit failed.
    pub lost: u64,
    /// Last `seq` of the journal.
    pub journal_seq: u64,
    /// Whether the last commit failed (disk full, …).
    pub failing: bool,
}

/// Where the hub keeps things.
#[async_trait]
pub trait Store: crate::rooms::RoomStore + crate::yonexus::YonexusStore + Send + Sync + std::fmt::Debug {
    /// The hub's id: made when the data directory was.
    fn hub_id(&self) -> HubId;
    /// Numbers.
    fn stats(&self) -> StoreStats;
    /// Waits until everything taken so far is committed, then stops the writer. Later writes are refused.
    async fn close(&self) -> Result<()>;

    /// A sealed secret by name (the hub's private key, …).
    async fn secret(&self, name: &str) -> Result<Option<SecretBytes>>;
    /// Keeps a secret, sealed.
    async fn put_secret(&self, name: &str, value: &SecretBytes) -> Result<()>;

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
    /// on; [`Store::sweep`] takes them away. False when unknown.
    async fn remove_agent(&self, agent: &PeerId, record: Draft) -> Result<bool>;
    /// Takes away what removed agents left behind, in pieces between which others get their turn. Whoever stops waiting
    /// leaves the rest for the next time.
    async fn sweep(&self) -> Result<()>;

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

    /// The latest snapshot.
    async fn latest_snapshot(&self, agent: &PeerId) -> Result<Option<SnapshotRow>>;
    /// Snapshots, newest first, from `before` on.
    async fn snapshots(&self, agent: &PeerId, before: Option<Before>, limit: u32) -> Result<Vec<SnapshotRow>>;
    /// Log lines in order of arrival.
    async fn logs(&self, filter: LogFilter) -> Result<Vec<LogRow>>;

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
    /// Removes one. False when unknown.
    async fn delete_deny_rule(&self, id: &str, record: Draft) -> Result<bool>;
    /// The confirm rules. A new store has the default one.
    async fn confirm_rules(&self) -> Result<Vec<ConfirmRule>>;
    /// Adds or replaces a confirm rule.
    async fn put_confirm_rule(&self, rule: &ConfirmRule, record: Draft) -> Result<()>;
    /// Removes one. False when unknown.
    async fn delete_confirm_rule(&self, id: &str, record: Draft) -> Result<bool>;

    /// Keeps a call that outlives its request, with its approval if it needs one; with an idempotency key that its
    /// caller already used, keeps nothing and returns that call.
    async fn put_call(&self, call: CallRow, approval: Option<Approval>, record: Option<Draft>)
    -> Result<Reservation>;
    /// One kept call.
    async fn call(&self, id: CallId) -> Result<Option<CallRow>>;
    /// Moves an approval, only if it is still where the move begins. False when it was not.
    async fn move_approval(&self, moved: ApprovalMove) -> Result<bool>;
    /// Moves an approval and ends its call, in one transaction, only if it is still where the move begins. False when it
    /// was not.
    async fn end_approval(&self, moved: ApprovalMove, call: CallEnd) -> Result<bool>;
    /// Marks a kept call as running: its approval is used, its arguments stay until it is done.
    async fn start_call(&self, id: CallId) -> Result<()>;
    /// Gives back the approval that was used for a call which was never sent: it is approved again, and the call waits.
    /// False when no approval was used for it.
    async fn unuse_approval(&self, call: CallId, record: Draft) -> Result<bool>;
    /// Ends a kept call with its outcome, in one transaction with the record; its arguments go.
    async fn finish_call(&self, id: CallId, outcome: &str, record: Draft) -> Result<()>;
    /// Approvals with their calls: those in `state`, or all kept ones, newest first; fewer than `limit` where the arguments
    /// of those come to [`APPROVALS_BYTES`].
    async fn approvals(
        &self,
        state: Option<ApprovalState>,
        after: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<(Approval, CallRow)>>;
    /// The same without the calls' arguments, which may be large: for who wants all of them.
    async fn approvals_without_args(
        &self,
        state: ApprovalState,
        after: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<(Approval, CallRow)>>;
    /// One approval with its call.
    async fn approval(&self, id: ApprovalId) -> Result<Option<(Approval, CallRow)>>;
    /// Whether this went back to an earlier time, by a backup that was restored or a damaged log that was accepted, and no
    /// hub has settled since what waited then.
    async fn is_restored(&self) -> Result<bool>;
    /// What waited then is settled.
    async fn settle_restored(&self, record: Draft) -> Result<()>;
    /// Kept calls that have not ended and that nobody will approve any more: with an open intent or without one, a hub
    /// that was killed left them behind.
    async fn stranded_calls(&self) -> Result<Vec<CallRow>>;
    /// Calls with an `intent` and no `outcome`: what a hub that was killed left behind. Each with the draft of its
    /// intent.
    async fn open_intents(&self) -> Result<Vec<Draft>>;

    /// Appends a record; answers its `seq` once it is committed. An `intent` is remembered as open until an `outcome`
    /// with the same `call_id` is appended.
    async fn append(&self, record: Draft) -> Result<u64>;
    /// Takes what may be lost with the last moment.
    async fn enqueue(&self, item: Lossy) -> Result<()>;
    /// Sets who is told of each log line and snapshot of [`Store::enqueue`], in order, once it is committed: lines have
    /// their ids then, snapshots are without their body. It is called between two commits and must be quick. The first one
    /// that is set stays.
    fn on_committed(&self, observer: Observer);
    /// Records in order.
    async fn journal(&self, filter: JournalFilter) -> Result<Vec<JournalRow>>;
    /// Signs the chain's end, unless it is signed already. Also notices when a store that was failing can write again.
    async fn checkpoint(&self, now: Timestamp) -> Result<()>;
    /// Checkpoints in order, after that of record `after`.
    async fn checkpoints(&self, after: Option<u64>, limit: u32) -> Result<Vec<Checkpoint>>;

    /// Removes what has been kept long enough; never the journal. In pieces, like [`Store::sweep`].
    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned>;
    /// Copies the whole store, while it is in use, to a new file.
    async fn backup(&self, to: &std::path::Path) -> Result<()>;
}
