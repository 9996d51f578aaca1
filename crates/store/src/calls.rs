//! Calls that outlive their request, the approvals some of them wait for, and what a killed hub left open.

use async_trait::async_trait;
use convoke_core::approval::{Approval, ApprovalState};
use convoke_core::call::CallState;
use convoke_core::door::Door;
use convoke_core::id::{ApprovalId, CallId, PeerId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use crate::store::Result;

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
    pub door: Door,
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

/// The result of reserving an idempotency key.
#[derive(Clone, Debug)]
pub enum Reservation {
    /// The key is new (or there is none): the call is kept and may go on.
    Fresh,
    /// The same caller used the key within its life: that call.
    Existing(Box<CallRow>),
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

/// Kept calls, approvals and open intents.
#[async_trait]
pub trait Calls: Send + Sync {
    /// Keeps a call that outlives its request, with its approval if it needs one; with an idempotency key that its
    /// caller already used, keeps nothing and returns that call.
    async fn put_call(&self, call: CallRow, approval: Option<Approval>, record: Option<Draft>)
    -> Result<Reservation>;
    /// The call for which this caller used this idempotency key, unless its time is over at `now`.
    async fn call_with_key(&self, caller: TokenId, key: &str, now: Timestamp) -> Result<Option<CallRow>>;
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
    /// The approval of a call, if it has one.
    async fn approval_of(&self, call: CallId) -> Result<Option<Approval>>;
    /// Kept calls that have not ended and that nobody will approve any more: with an open intent or without one, a hub
    /// that was killed left them behind.
    async fn stranded_calls(&self) -> Result<Vec<CallRow>>;
    /// Calls with an `intent` and no `outcome`: what a hub that was killed left behind. Each with the draft of its
    /// intent.
    async fn open_intents(&self) -> Result<Vec<Draft>>;
    /// Whether this went back to an earlier time, by a backup that was restored or a damaged log that was accepted, and no
    /// hub has settled since what waited then.
    async fn is_restored(&self) -> Result<bool>;
    /// What waited then is settled.
    async fn settle_restored(&self, record: Draft) -> Result<()>;
}
