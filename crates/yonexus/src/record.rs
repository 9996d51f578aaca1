//! What a server knows of one client (contract, 6.2, 7 and 10.1): its trust, its key and secret, a pairing under way, and
//! the rolling windows. Every decision about trust is made here, from what is passed in.
//!
//! ```text
//! Unpaired ──hello──▶ Pending ──code, or an operator's yes──▶ Trusted ──collision, rate──▶ Unpaired
//!     ▲                  │                                       │
//!     └── expired, burnt, denied ─────┘                          └── an operator ──▶ Revoked
//! ```
//!
//! `Trusted` is what the contract calls `paired`. A trusted client may pair again (it lost its secret): its old secret
//! holds until the new pairing is confirmed.

use std::time::Duration;

use convoke_core::peer::Trust;
use convoke_core::secret::SecretText;
use convoke_core::time::Timestamp;
use ed25519_dalek::VerifyingKey;

use crate::Now;
use crate::builtin::AuthRequest;
use crate::code::{MAX_WRONG, PairingCode};
use crate::reason::{AuthFailure, PairFailure, Unsafe};
use crate::window::{Drift, Windows, drift};
use crate::{key, proof};

/// Revoked secrets that are remembered, to tell `invalid_secret` from `invalid_signature`.
pub const MAX_OLD_SECRETS: usize = 3;
/// How long after a burnt code no new pairing of that identifier begins.
pub const BURNT_PAUSE: Duration = Duration::from_secs(60);
/// Milliseconds in the second that a refusal names.
const PAUSE_SHOWN: i64 = 1000;

/// One client.
#[derive(Clone, Debug)]
pub struct Record {
    /// The client's identifier.
    pub identifier: String,
    /// Whether it is believed.
    pub trust: Trust,
    /// Its key.
    pub key: Option<VerifyingKey>,
    /// Its secret.
    pub secret: Option<SecretText>,
    /// Earlier secrets, revoked; the newest first.
    pub old_secrets: Vec<SecretText>,
    /// A pairing under way.
    pub pairing: Option<Pairing>,
    /// No new pairing before this.
    pub pause_until: Option<Timestamp>,
    /// An operator lets it present another key.
    pub rotation: Option<Rotation>,
    /// Why its trust was reset, until it pairs again.
    pub reset: Option<Unsafe>,
    /// When it was paired.
    pub paired_at: Option<Timestamp>,
    windows: Windows,
}

/// A pairing under way.
#[derive(Clone, Debug)]
pub struct Pairing {
    /// The code.
    pub code: PairingCode,
    /// The key that the first `hello` presented: no other one can use the code.
    pub key: VerifyingKey,
    /// When it began.
    pub created_at: Timestamp,
    /// When the code's time is over.
    pub expires_at: Timestamp,
    /// Wrong codes so far.
    pub wrong: u8,
    /// Whether the administrator has been told.
    pub notification: Notification,
    /// An operator has said yes while the client was away.
    pub approved: bool,
}

/// An operator's leave to present another key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Until when.
    pub until: Timestamp,
    /// The only key that it is for. Without one, whoever has the client's secret may bind any.
    pub key: Option<VerifyingKey>,
}

impl Rotation {
    fn allows(&self, key: &VerifyingKey, now: Timestamp) -> bool {
        now < self.until && self.key.is_none_or(|only| only == *key)
    }
}

/// The state of the notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// Under way.
    Pending,
    /// An administrator has the code.
    Sent,
    /// Nobody was notified; the code cannot be used.
    Failed,
}

impl Notification {
    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Sent => "sent",
            Self::Failed => "failed",
        }
    }

    /// The one of that name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Pending, Self::Sent, Self::Failed].into_iter().find(|n| n.name() == text)
    }
}

/// The contents of a `hello`.
#[derive(Clone, Copy, Debug)]
pub struct Greeting<'a> {
    /// Its key.
    pub key: Option<&'a VerifyingKey>,
    /// Whether it has a secret.
    pub has_secret: bool,
}

/// The outcome of a `hello`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloOutcome {
    /// Prove yourself.
    AuthRequired,
    /// A pairing has begun: keep it, and tell the administrator.
    Started,
    /// A pairing is under way.
    Waiting,
    /// An operator has said yes already: call [`Record::complete`].
    Approved,
    /// A pairing needs a key.
    NoKey,
    /// Not here.
    Rejected(HelloRefusal),
}

/// Why a `hello` is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelloRefusal {
    /// Not on the allow-list, or revoked: the two look the same from outside.
    NotAllowed,
    /// A pairing with another key is under way.
    OtherKey,
    /// A code was burnt or denied a moment ago; so many seconds are left.
    TooSoon(u64),
    /// As many pairings as there may be are under way.
    TooMany,
}

/// Proof that [`Record::authenticate`] accepted a client. Nothing else makes one, so nothing else opens a session.
#[derive(Debug)]
pub struct Accepted {
    identifier: String,
    rotated: bool,
}

impl Accepted {
    /// The client's identifier.
    pub fn identifier(&self) -> &str {
        &self.identifier
    }

    /// Whether another key was bound: keep the record.
    pub const fn rotated(&self) -> bool {
        self.rotated
    }
}

/// Why a proof was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthRefusal {
    /// The reason that travels.
    pub reason: AuthFailure,
    /// Trust was reset with it: keep the record, and send `re_pair_required`.
    pub reset: Option<Unsafe>,
    /// Whether the signature verified: only then was it the client itself.
    pub proven: bool,
}

impl Record {
    /// A client that has only been named.
    pub fn new(identifier: &str) -> Self {
        Self {
            identifier: identifier.into(),
            trust: Trust::Unpaired,
            key: None,
            secret: None,
            old_secrets: Vec::new(),
            pairing: None,
            pause_until: None,
            rotation: None,
            reset: None,
            paired_at: None,
            windows: Windows::default(),
        }
    }

    /// A `hello` (contract, 5.1). `fresh` makes a code if a pairing may begin.
    pub fn hello(
        &mut self,
        greeting: Greeting<'_>,
        now: Now,
        ttl: Duration,
        fresh: impl FnOnce() -> Option<PairingCode>,
    ) -> HelloOutcome {
        if self.trust == Trust::Revoked {
            return HelloOutcome::Rejected(HelloRefusal::NotAllowed);
        }
        self.expire(now);
        // Whatever stranger started a pairing, a client that has its secret gets in.
        if self.trust == Trust::Trusted && greeting.has_secret {
            return HelloOutcome::AuthRequired;
        }
        let Some(presented) = greeting.key else { return HelloOutcome::NoKey };
        match &self.pairing {
            Some(pairing) if pairing.key != *presented => {
                return HelloOutcome::Rejected(HelloRefusal::OtherKey);
            }
            Some(pairing) if pairing.approved => return HelloOutcome::Approved,
            Some(_) => return HelloOutcome::Waiting,
            None => {}
        }
        if let Some(until) = self.pause_until {
            let left = until.millis().saturating_sub(now.wall.millis());
            if left > 0 {
                let seconds = u64::try_from(left / PAUSE_SHOWN + 1).unwrap_or(0);
                return HelloOutcome::Rejected(HelloRefusal::TooSoon(seconds));
            }
            self.pause_until = None;
        }
        let Some(code) = fresh() else { return HelloOutcome::Rejected(HelloRefusal::TooMany) };
        self.pairing = Some(Pairing {
            code,
            key: *presented,
            created_at: now.wall,
            expires_at: now.wall.after(ttl),
            wrong: 0,
            notification: Notification::Pending,
            approved: false,
        });
        if self.trust == Trust::Unpaired {
            self.trust = Trust::Pending;
        }
        HelloOutcome::Started
    }

    /// A `pair_confirm` (contract, 5.2) from a connection that presented `key`.
    pub fn confirm(
        &mut self,
        typed: &SecretText,
        key: &VerifyingKey,
        secret: SecretText,
        now: Now,
    ) -> Result<(), PairFailure> {
        if self.trust == Trust::Revoked {
            return Err(PairFailure::IdentifierNotAllowed);
        }
        self.expire(now);
        let Some(pairing) = &mut self.pairing else { return Err(PairFailure::Expired) };
        if pairing.key != *key {
            return Err(PairFailure::IdentifierNotAllowed);
        }
        if pairing.notification == Notification::Failed {
            return Err(PairFailure::AdminNotificationFailed);
        }
        if !pairing.code.matches(typed) {
            pairing.wrong += 1;
            if pairing.wrong >= MAX_WRONG {
                self.drop_pairing();
                self.pause_until = Some(now.wall.after(BURNT_PAUSE));
            }
            return Err(PairFailure::InvalidCode);
        }
        self.bind(secret, now);
        Ok(())
    }

    /// An operator says yes. True when there was something to say yes to.
    pub fn approve(&mut self, now: Now) -> bool {
        self.expire(now);
        match &mut self.pairing {
            Some(pairing) => {
                pairing.approved = true;
                true
            }
            None => false,
        }
    }

    /// Completes a pairing that an operator approved. False when there is none, or not of this key.
    pub fn complete(&mut self, key: &VerifyingKey, secret: SecretText, now: Now) -> bool {
        self.expire(now);
        let approved = self.pairing.as_ref().is_some_and(|p| p.approved && p.key == *key);
        if approved {
            self.bind(secret, now);
        }
        approved
    }

    /// An operator says no. True when there was something to say no to.
    pub fn deny(&mut self, now: Now, pause: Duration) -> bool {
        self.expire(now);
        let denied = self.pairing.is_some();
        if denied {
            self.drop_pairing();
            self.pause_until = Some(now.wall.after(pause));
        }
        denied
    }

    /// Ends a pairing whose time is over. True when it did.
    pub fn expire(&mut self, now: Now) -> bool {
        let over = self.pairing.as_ref().is_some_and(|p| now.wall >= p.expires_at);
        if over {
            self.drop_pairing();
        }
        over
    }

    /// An operator withdraws trust: key and secret are refused from now on.
    pub fn revoke(&mut self) {
        self.retire_secret();
        self.pairing = None;
        self.rotation = None;
        self.trust = Trust::Revoked;
    }

    /// An operator lets a revoked client pair again. True when it was revoked.
    pub fn readmit(&mut self) -> bool {
        let revoked = self.trust == Trust::Revoked;
        if revoked {
            self.trust = Trust::Unpaired;
            self.key = None;
        }
        revoked
    }

    /// An `auth_request`: the nine checks of the contract (5.3), in that order. The first is the caller's: a record
    /// exists for identifiers on the allow-list only, and the second is that the caller found it.
    ///
    /// So only a holder of the key can cause a nonce collision or the rate condition, and nobody else can make a
    /// client pair again.
    pub fn authenticate(&mut self, request: &AuthRequest, now: Now) -> Result<Accepted, AuthRefusal> {
        let refused = |reason| Err(AuthRefusal { reason, reset: None, proven: false });
        // 3. Paired.
        let (Trust::Trusted, Some(bound), Some(secret)) = (self.trust, &self.key, &self.secret) else {
            let reset = self.reset.is_some() && self.trust != Trust::Revoked;
            return refused(if reset { AuthFailure::RePairRequired } else { AuthFailure::NotPaired });
        };
        // 4. The key, if one is named. Another one only while an operator allows a rotation.
        let presented = match request.public_key.as_deref().map(key::parse) {
            None => *bound,
            Some(Ok(key)) => key,
            Some(Err(_)) => return refused(AuthFailure::InvalidSignature),
        };
        let rotated = presented != *bound;
        if rotated && !self.rotation.is_some_and(|rotation| rotation.allows(&presented, now.wall)) {
            return refused(AuthFailure::InvalidSignature);
        }
        // 5 and 6. The signature, and in it the secret: a wrong one shows as a bad signature.
        let signed = |secret: &SecretText| {
            proof::verify(&presented, secret, &request.nonce, request.proof_timestamp, &request.signature)
        };
        if !signed(secret) {
            let old = self.old_secrets.iter().any(signed);
            return refused(if old { AuthFailure::InvalidSecret } else { AuthFailure::InvalidSignature });
        }
        let proven = |reason| Err(AuthRefusal { reason, reset: None, proven: true });
        // 7. The time.
        match drift(now.unix(), request.proof_timestamp) {
            Drift::Within => {}
            Drift::Stale(_) => return proven(AuthFailure::StaleTimestamp),
            Drift::Future(_) => return proven(AuthFailure::FutureTimestamp),
        }
        // 8. The nonce.
        if !self.windows.take_nonce(&request.nonce, now.mono) {
            return Err(self.unsafe_condition(AuthFailure::NonceCollision, Unsafe::NonceCollision));
        }
        // 9. The rate.
        if !self.windows.take_attempt(now.mono) {
            return Err(self.unsafe_condition(AuthFailure::RateLimited, Unsafe::RateLimited));
        }
        if rotated {
            self.key = Some(presented);
            self.rotation = None;
        }
        Ok(Accepted { identifier: self.identifier.clone(), rotated })
    }

    /// Forgets what the windows need no longer.
    pub fn tidy_windows(&mut self, now: Now) {
        self.windows.forget(now.mono);
    }

    /// The windows of another record: they are not kept, so a record that was read or replaced takes them over.
    pub fn take_windows(&mut self, other: &mut Self) {
        self.windows = std::mem::take(&mut other.windows);
    }

    fn unsafe_condition(&mut self, reason: AuthFailure, condition: Unsafe) -> AuthRefusal {
        self.retire_secret();
        self.trust = if self.pairing.is_some() { Trust::Pending } else { Trust::Unpaired };
        self.reset = Some(condition);
        AuthRefusal { reason, reset: Some(condition), proven: true }
    }

    fn bind(&mut self, secret: SecretText, now: Now) {
        self.retire_secret();
        let Some(pairing) = self.pairing.take() else { return };
        self.key = Some(pairing.key);
        self.secret = Some(secret);
        self.trust = Trust::Trusted;
        self.reset = None;
        self.pause_until = None;
        self.rotation = None;
        self.paired_at = Some(now.wall);
        self.windows = Windows::default();
    }

    fn retire_secret(&mut self) {
        if let Some(secret) = self.secret.take() {
            self.old_secrets.insert(0, secret);
            self.old_secrets.truncate(MAX_OLD_SECRETS);
        }
    }

    fn drop_pairing(&mut self) {
        self.pairing = None;
        if self.trust == Trust::Pending {
            self.trust = Trust::Unpaired;
        }
    }
}

/// The contract's name of a trust state (6.2).
pub const fn trust_name(trust: Trust) -> &'static str {
    match trust {
        Trust::Unpaired => "unpaired",
        Trust::Pending => "pending",
        Trust::Trusted => "paired",
        Trust::Revoked => "revoked",
    }
}
