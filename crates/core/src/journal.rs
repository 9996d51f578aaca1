//! The journal: what happened, in one append-only chain per hub. Each record carries the hash of the one before it,
//! so that a changed, missing or reordered record is found; signed checkpoints bind the chain to the hub's key.
//!
//! A record begins as a [`Draft`], gets its place and its hash from the [`Chain`], and is checked by the [`Verifier`].
//! `docs/journal.md` has the format in plain words.

mod chain;
mod checkpoint;
mod export;
mod verify;

pub use chain::{Chain, GENESIS, Hash, Sealed, record_hash, shown};
pub use checkpoint::{BadSignature, Checkpoint};
pub use export::{ExportHeader, FORMAT, checkpoint_line};
pub use verify::{Anchor, BadAnchor, Expected, Finding, Summary, Verifier};

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::door::Door;
use crate::id::{ApprovalId, CallId};
use crate::time::Timestamp;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A call.
    Call,
    /// An agent's key was bound, or a token for it was minted.
    Enrol,
    /// A peer or caller proved who it is, or failed to.
    Auth,
    /// A person was asked, or answered.
    Approval,
    /// A deny rule or confirm rule changed.
    Policy,
    /// A client was paired.
    Pairing,
    /// A room's grant changed.
    Grant,
    /// An operator token was minted or revoked.
    Token,
    /// A user was added, changed or removed, or one of their sessions, links or passkeys was.
    User,
    /// An agent was tagged, revoked, re-keyed or removed.
    Trust,
    /// The hub itself: started, stopped, restored, re-keyed.
    Hub,
    /// A door refused a known caller, or counted strangers it refused.
    Refusal,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 12] = [
        Self::Call,
        Self::Enrol,
        Self::Auth,
        Self::Approval,
        Self::Policy,
        Self::Pairing,
        Self::Grant,
        Self::Token,
        Self::User,
        Self::Trust,
        Self::Hub,
        Self::Refusal,
    ];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Enrol => "enrol",
            Self::Auth => "auth",
            Self::Approval => "approval",
            Self::Policy => "policy",
            Self::Pairing => "pairing",
            Self::Grant => "grant",
            Self::Token => "token",
            Self::User => "user",
            Self::Trust => "trust",
            Self::Hub => "hub",
            Self::Refusal => "refusal",
        }
    }

    /// The kind of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|k| k.name() == text)
    }
}

/// Which part of a call a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Before dispatch, for calls that change something.
    Intent,
    /// Before the caller is answered.
    Outcome,
    /// An answer after the deadline.
    Late,
}

impl Phase {
    /// All phases.
    pub const ALL: [Self; 3] = [Self::Intent, Self::Outcome, Self::Late];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Intent => "intent",
            Self::Outcome => "outcome",
            Self::Late => "late",
        }
    }
}

/// The gate's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The call may be sent.
    Allowed,
    /// The caller has no right to it.
    Denied,
    /// A deny rule refused it.
    Blocked,
    /// It waits for a person.
    Pending,
    /// A person said yes.
    Confirmed,
    /// A person said no.
    Rejected,
    /// Nobody answered in time.
    Expired,
}

impl Decision {
    /// All decisions.
    pub const ALL: [Self; 7] =
        [Self::Allowed, Self::Denied, Self::Blocked, Self::Pending, Self::Confirmed, Self::Rejected, Self::Expired];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Blocked => "blocked",
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        }
    }
}

/// Longest name of a caller, peer, tool or rule in a record.
const MAX_NAME: usize = 512;
/// Largest arguments in a record: as much as [`crate::redact`] leaves of them.
const MAX_ARGS: usize = crate::redact::MAX_ARGS;
/// Largest other facts in a record.
const MAX_DETAIL: usize = 64 * 1024;

/// A record before it has its place in the chain. A field that does not apply is absent. The order of the fields is
/// the order in the canonical bytes that are hashed: it never changes, and new fields would need a new chain label.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Draft {
    /// When.
    pub at: Timestamp,
    /// The kind of the record.
    pub kind: Kind,
    /// Which part of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// The caller: a token's name, or `agent:<id>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
    /// The door it came through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub door: Option<Door>,
    /// The peer it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<CallId>,
    /// The arguments, secrets removed and bounded. Exact JSON text, kept as it is (but on one line).
    #[serde(default, skip_serializing_if = "absent")]
    pub args: Option<Box<RawValue>>,
    /// The keyed digest of the exact arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args_digest: Option<String>,
    /// The gate's decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// The rule that decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The approval it ran under.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalId>,
    /// `ok` or the error code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Cow<'static, str>>,
    /// From dispatch to outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Other facts of this kind: a rule's text, a count of strangers, a key's fingerprint.
    #[serde(default, skip_serializing_if = "absent")]
    pub detail: Option<Box<RawValue>>,
}

impl Draft {
    /// A record of `kind` at `at` with nothing else.
    pub const fn new(at: Timestamp, kind: Kind) -> Self {
        Self {
            at,
            kind,
            phase: None,
            who: None,
            door: None,
            target: None,
            tool: None,
            call_id: None,
            args: None,
            args_digest: None,
            decision: None,
            rule: None,
            approval: None,
            outcome: None,
            duration_ms: None,
            detail: None,
        }
    }

    /// The record as it is kept: whatever somebody put into it, no part of it is larger than it may be.
    pub fn bounded(&self) -> Cow<'_, Self> {
        let texts = [&self.who, &self.target, &self.tool, &self.args_digest, &self.rule];
        let outcome = self.outcome.as_ref().map_or(0, |outcome| outcome.len());
        let is_long = |raw: Option<&Box<RawValue>>, most: usize| raw.is_some_and(|raw| raw.get().len() > most);
        let (args, detail) = (is_long(self.args.as_ref(), MAX_ARGS), is_long(self.detail.as_ref(), MAX_DETAIL));
        if !args
            && !detail
            && outcome <= MAX_NAME
            && texts.iter().all(|t| t.as_ref().is_none_or(|t| t.len() <= MAX_NAME))
        {
            return Cow::Borrowed(self);
        }
        let mut draft = self.clone();
        let texts = [&mut draft.who, &mut draft.target, &mut draft.tool, &mut draft.args_digest, &mut draft.rule];
        for text in texts.into_iter().flatten() {
            text.truncate(text.floor_char_boundary(MAX_NAME));
        }
        if let Some(text) = draft.outcome.as_mut().filter(|_| outcome > MAX_NAME) {
            let cut = text.floor_char_boundary(MAX_NAME);
            text.to_mut().truncate(cut);
        }
        for (raw, is_long) in [(&mut draft.args, args), (&mut draft.detail, detail)] {
            if let Some(raw) = raw.as_mut().filter(|_| is_long) {
                let note = serde_json::json!({ "[too large to keep]": raw.get().len() });
                *raw = serde_json::value::to_raw_value(&note).unwrap_or_else(|_| RawValue::NULL.to_owned());
            }
        }
        Cow::Owned(draft)
    }

    /// With a detail object.
    #[must_use]
    pub fn detail(mut self, value: &serde_json::Value) -> Self {
        self.detail = serde_json::value::to_raw_value(value).ok();
        self
    }
}

/// A JSON `null` reads back as an absent field, so it must be written as one: otherwise a record would not re-encode
/// to the bytes that were hashed.
fn absent(value: &Option<Box<RawValue>>) -> bool {
    value.as_ref().is_none_or(|raw| raw.get() == "null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_of_a_record_is_larger_than_it_may_be() {
        let long = "ü".repeat(1 << 20);
        let raw = |value| serde_json::value::to_raw_value(&value).ok();
        let mut draft =
            Draft::new(Timestamp::from_millis(0), Kind::Call).detail(&serde_json::json!({ &long: &long }));
        draft.args = raw(serde_json::json!({ &long: 1 }));
        draft.args_digest = Some(long.clone());
        draft.rule = Some(long.clone());
        draft.tool = Some(long.clone());
        draft.target = Some(long.clone());
        draft.outcome = Some(long.clone().into());
        draft.who = Some(long);
        let bounded = draft.bounded();
        let size = serde_json::to_string(&bounded).expect("serialises").len();
        assert!(size < 4096, "{size}");
        assert_eq!(bounded.args.as_ref().map(|raw| raw.get()), Some(r#"{"[too large to keep]":2097158}"#));
        assert!(matches!(bounded.bounded(), Cow::Borrowed(_)), "and stays as it is");
    }
}
