//! Operators: tokens, who a request comes from, and how guessing is slowed.

pub mod budget;
pub mod throttle;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use convoke_core::door::Door;
use convoke_core::grant::Grant;
use convoke_core::id::TokenId;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use convoke_store::TokenRow;

use crate::people::{People, Session};

/// The name of the token a data directory starts with.
pub const FIRST_TOKEN: &str = "operator";

/// A token that lives in memory while the hub runs.
#[derive(Debug)]
pub struct Token {
    /// Its id.
    pub id: TokenId,
    /// Its name: the journal's `who`.
    pub name: String,
    /// The person it belongs to, where somebody said so.
    pub owner: Option<String>,
    /// What it may do.
    pub grant: Grant,
    /// When it was minted.
    pub created_at: Timestamp,
    /// When it lapses.
    pub expires_at: Option<Timestamp>,
    /// What it has used of its limits.
    pub budget: budget::Budget,
    revoked: std::sync::atomic::AtomicBool,
    paused: std::sync::atomic::AtomicBool,
    last_used: AtomicI64,
}

impl Token {
    /// A principal that is no token: a user, or a guest of a room.
    pub(crate) fn principal(id: TokenId, name: String, grant: Grant, created_at: Timestamp) -> Self {
        Self {
            id,
            name,
            owner: None,
            grant,
            created_at,
            expires_at: None,
            budget: budget::Budget::default(),
            revoked: false.into(),
            paused: false.into(),
            last_used: AtomicI64::new(i64::MIN),
        }
    }

    /// It is refused from this moment on.
    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::Release);
    }

    /// Whose it is: its owner's, or a person of its own name.
    pub fn person(&self) -> &str {
        self.owner.as_deref().unwrap_or(&self.name)
    }

    /// Whether it may be used.
    pub fn is_active(&self, now: Timestamp) -> bool {
        !self.revoked.load(Ordering::Acquire) && !self.is_paused() && self.expires_at.is_none_or(|at| now < at)
    }

    /// Whether it was revoked.
    pub fn is_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Whether it is good for nothing until somebody goes on with it.
    pub fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Acquire)
    }

    /// Pauses it, or goes on with it: in force from this moment on.
    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    /// `active`, `paused`, `expired` or `revoked`.
    pub fn state(&self, now: Timestamp) -> &'static str {
        if self.revoked.load(Ordering::Acquire) {
            "revoked"
        } else if self.is_active(now) {
            "active"
        } else if self.is_paused() && self.expires_at.is_none_or(|at| now < at) {
            "paused"
        } else {
            "expired"
        }
    }

    /// When it was last used.
    pub fn last_used(&self) -> Option<Timestamp> {
        match self.last_used.load(Ordering::Relaxed) {
            i64::MIN => None,
            millis => Some(Timestamp::from_millis(millis)),
        }
    }

    /// Notes a use. True when the store should hear of it: once a minute is enough.
    pub fn used(&self, now: Timestamp) -> bool {
        let before = self.last_used.load(Ordering::Relaxed);
        if before != i64::MIN && now.millis() < before + 60_000 {
            return false;
        }
        self.last_used.store(now.millis(), Ordering::Relaxed);
        true
    }
}

/// Who makes a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Their token, or the user in a session.
    pub token: Arc<Token>,
    /// The session in which they are signed in; absent for a token.
    pub session: Option<Arc<Session>>,
    /// The door they came through.
    pub door: Door,
    /// From where.
    pub address: IpAddr,
}

impl Caller {
    /// Somebody with a token.
    pub fn with_token(token: Arc<Token>, door: Door, address: IpAddr) -> Self {
        Self { token, session: None, door, address }
    }

    /// Whether they came by the welcome link and are no user yet.
    pub fn is_welcome(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.user().is_none())
    }

    /// When their token lapses, or their session ends.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.session.as_ref().map(|session| session.expires_at).or(self.token.expires_at)
    }

    /// Whether they may go on.
    pub fn is_active(&self, now: Timestamp) -> bool {
        self.token.is_active(now) && self.session.as_ref().is_none_or(|session| session.is_active(now))
    }
}

/// All tokens.
#[derive(Debug, Default)]
pub struct Operators {
    by_hash: RwLock<HashMap<TokenHash, Arc<Token>>>,
    /// Participants of rooms that came without a token: callers while they are connected, and no longer.
    guests: RwLock<HashMap<TokenId, Arc<Token>>>,
    /// Users, and the sessions in which they are signed in.
    pub people: People,
    /// Slows whoever shows wrong tokens; of other doors each has its own.
    pub throttle: throttle::Throttle,
    /// The turn of one who revokes: of two who revoke each other, one must stay.
    pub revoking: tokio::sync::Mutex<()>,
}

/// Why a bearer token was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthError {
    /// None was given.
    Missing,
    /// Not a token of this hub, or lapsed, or revoked.
    Unknown,
    /// It is paused.
    Paused,
    /// A wrong one after too many from this address.
    Throttled {
        /// For how long.
        seconds: u32,
    },
}

impl Operators {
    /// Starts from what is stored.
    pub fn load(rows: Vec<TokenRow>) -> Self {
        let operators = Self::default();
        for row in rows {
            operators.add(row);
        }
        operators
    }

    /// Takes over what the store has, where other hubs change it, too. Answers which are out of force since.
    pub fn follow(&self, rows: Vec<TokenRow>, paused: &[TokenId]) -> Vec<TokenId> {
        let mut ended = Vec::new();
        for row in rows {
            let known = self.by_hash.read().unwrap_or_else(PoisonError::into_inner).get(&row.hash).cloned();
            let Some(token) = known else {
                let id = row.id;
                self.add(row);
                self.find(id).iter().for_each(|token| token.pause(paused.contains(&id)));
                continue;
            };
            let was_good = !token.is_revoked() && !token.is_paused();
            if row.revoked_at.is_some() {
                token.revoke();
            }
            token.pause(paused.contains(&row.id));
            if was_good && (token.is_revoked() || token.is_paused()) {
                ended.push(row.id);
            }
        }
        ended
    }

    /// Takes a token in.
    pub fn add(&self, row: TokenRow) {
        let token = Token {
            id: row.id,
            name: row.name,
            owner: row.owner,
            grant: Grant { role: row.role, scopes: row.scopes },
            created_at: row.created_at,
            expires_at: row.expires_at,
            budget: budget::Budget::default(),
            revoked: row.revoked_at.is_some().into(),
            paused: false.into(),
            last_used: AtomicI64::new(row.last_used.map_or(i64::MIN, Timestamp::millis)),
        };
        // One that is known already is in use.
        self.by_hash
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(row.hash)
            .or_insert_with(|| Arc::new(token));
    }

    /// A caller without a token of its own, for as long as it is connected.
    pub fn guest(&self, name: String, grant: Grant, now: Timestamp) -> Arc<Token> {
        let token = Arc::new(Token::principal(TokenId::new(crate::clock::uuid()), name, grant, now));
        self.guests.write().unwrap_or_else(PoisonError::into_inner).insert(token.id, Arc::clone(&token));
        token
    }

    /// A guest is gone: what it asked for and what waits does not run any more.
    pub fn guest_left(&self, id: TokenId) {
        if let Some(token) = self.guests.write().unwrap_or_else(PoisonError::into_inner).remove(&id) {
            token.revoke();
        }
    }

    /// Marks a token revoked: it is refused from this moment on.
    pub fn revoke(&self, id: TokenId) {
        if let Some(token) = self.find(id) {
            token.revoke();
        }
    }

    /// Whether nobody could let anyone in again without this token: no other one hands on every right, and for good.
    pub fn is_last(&self, token: &Token, now: Timestamp) -> bool {
        let lets_in = |t: &Token| t.is_active(now) && t.grant.hands_on_everything();
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        lets_in(token) && !map.values().any(|t| t.id != token.id && lets_in(t) && t.expires_at.is_none())
    }

    /// Whether this is a token that is in force.
    pub fn is_in_force(&self, hash: TokenHash, now: Timestamp) -> bool {
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        map.get(&hash).is_some_and(|token| token.is_active(now))
    }

    /// Those of these tokens that are in force.
    pub fn in_force(&self, of: &HashSet<TokenId>, now: Timestamp) -> HashSet<TokenId> {
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        map.values().filter(|t| of.contains(&t.id) && t.is_active(now)).map(|t| t.id).collect()
    }

    /// A user or token by name.
    pub fn named(&self, name: &str) -> Option<Arc<Token>> {
        let user = self.people.find(name).map(|user| user.principal);
        user.or_else(|| self.list().into_iter().find(|token| token.name == name))
    }

    /// A token, user or guest by id.
    pub fn find(&self, id: TokenId) -> Option<Arc<Token>> {
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let found = map.values().find(|t| t.id == id).cloned();
        found
            .or_else(|| self.people.principal(id))
            .or_else(|| self.guests.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned())
    }

    /// Those that lapsed after one moment and by another.
    pub fn lapsed(&self, after: Timestamp, by: Timestamp) -> Vec<TokenId> {
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        map.values().filter(|t| t.expires_at.is_some_and(|end| after < end && end <= by)).map(|t| t.id).collect()
    }

    /// How many are in force.
    pub fn count_active(&self, now: Timestamp) -> usize {
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        map.values().filter(|t| t.is_active(now)).count()
    }

    /// All tokens, by name.
    pub fn list(&self) -> Vec<Arc<Token>> {
        let map = self.by_hash.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = map.values().cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Who presents this token. The map is keyed by a hash of 256 random bits, so that looking it up tells nothing.
    pub fn authenticate(
        &self,
        bearer: Option<TokenHash>,
        from: IpAddr,
        now: Timestamp,
    ) -> Result<Arc<Token>, AuthError> {
        let Some(bearer) = bearer else { return Err(AuthError::Missing) };
        let found = self.by_hash.read().unwrap_or_else(PoisonError::into_inner).get(&bearer).cloned();
        match found {
            // Whatever others try at the same address: a token is not guessed.
            Some(token) if token.is_active(now) => Ok(token),
            Some(token) if token.state(now) == "paused" => Err(AuthError::Paused),
            _ => match self.throttle.blocked_for(from, now) {
                Some(seconds) => Err(AuthError::Throttled { seconds }),
                None => {
                    self.throttle.failed(from, now);
                    Err(AuthError::Unknown)
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::grant::{Role, Scopes};
    use convoke_core::secret::SecretText;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(127, 0, 0, 2));

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn operators(secret: &SecretText, expires_at: Option<Timestamp>) -> Operators {
        Operators::load(vec![TokenRow {
            id: TokenId::new(uuid::Uuid::from_u128(1)),
            name: "x".into(),
            owner: None,
            hash: secret.hash(),
            role: Role::Viewer,
            scopes: Scopes::default(),
            created_at: at(0),
            expires_at,
            revoked_at: None,
            last_used: None,
        }])
    }

    #[test]
    fn lapsed_and_revoked_tokens_are_unknown() {
        let secret = SecretText::new("s");
        let all = operators(&secret, Some(at(10)));
        assert_eq!((all.count_active(at(9)), all.count_active(at(10))), (1, 0));
        assert!(all.authenticate(Some(secret.hash()), HERE, at(9)).is_ok());
        assert_eq!(all.authenticate(Some(secret.hash()), HERE, at(10)).err(), Some(AuthError::Unknown));
        all.revoke(TokenId::new(uuid::Uuid::from_u128(1)));
        assert_eq!(all.authenticate(Some(secret.hash()), HERE, at(9)).err(), Some(AuthError::Unknown));
        assert_eq!(all.authenticate(None, HERE, at(9)).err(), Some(AuthError::Missing));
    }

    #[test]
    fn guessing_blocks_who_guesses_and_no_token_that_is_good() {
        let secret = SecretText::new("s");
        let all = operators(&secret, None);
        let wrong = SecretText::new("w");
        let guess = |from, ms| all.authenticate(Some(wrong.hash()), from, at(ms)).err();
        while guess(HERE, 1) == Some(AuthError::Unknown) {}
        assert_eq!(guess(HERE, 2), Some(AuthError::Throttled { seconds: 60 }));
        assert!(all.authenticate(Some(secret.hash()), HERE, at(2)).is_ok(), "though nobody has worked from there");
        assert_eq!(guess(THERE, 2), Some(AuthError::Unknown));
        assert_eq!(guess(HERE, 2 + 60_000), Some(AuthError::Unknown), "a minute later they are told more again");
    }

    #[test]
    fn the_store_hears_of_uses_once_a_minute() {
        let token = SecretText::new("s");
        let all = operators(&token, None);
        let token = all.authenticate(Some(token.hash()), HERE, at(0)).expect("valid");
        assert_eq!([0, 1, 59_999, 60_000].map(|ms| token.used(at(ms))), [true, false, false, true]);
    }
}
