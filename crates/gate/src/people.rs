//! People: users, and the sessions in which they are signed in. All of it is in memory while the hub runs, and kept in the
//! store before it is in force here.

pub mod attempts;
pub mod codes;
pub mod openings;
pub mod passkeys;
pub mod passwords;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use convoke_core::grant::{Grant, Role, Scopes};
use convoke_core::id::{SessionId, TokenId};
use convoke_core::secret::{SecretBytes, SecretText, TokenHash};
use convoke_core::time::Timestamp;
use convoke_store::{PasskeyRow, PasswordHash, SessionRow, UserRow};

use crate::clock;
use crate::operators::Token;

/// How long what somebody has just shown counts as a step-up.
pub const STEP_UP: Duration = Duration::from_secs(5 * 60);
/// How long a session lasts.
pub const SESSION: Duration = Duration::from_secs(7 * 24 * 3600);
/// The same on plain loopback, where every program that listens on the machine is sent the cookie.
pub const SESSION_IN_THE_CLEAR: Duration = Duration::from_secs(12 * 3600);
/// Most users a hub has.
pub const MAX_USERS: usize = 10_000;
/// Most sessions of one user; a further one ends the oldest.
pub const MAX_SESSIONS: usize = 50;
/// After this long a cookie gets another value, when its page asks who is signed in.
const ROTATE_AFTER: Duration = Duration::from_secs(3600);
/// How long the value before is good once the new one has been used: requests under way have the old one.
const GRACE: Duration = Duration::from_secs(60);
/// The name of who came by the welcome link, until they are a user.
pub const WELCOME: &str = "welcome";

/// A user.
#[derive(Clone, Debug)]
pub struct User {
    /// Who they are at the gate. Another one once their role or scopes change.
    pub principal: Arc<Token>,
    /// The hash of their password.
    pub password: Option<PasswordHash>,
    /// The secret of their one-time codes.
    pub totp: Option<SecretBytes>,
}

impl User {
    /// As the store keeps them.
    pub fn row(&self) -> UserRow {
        UserRow {
            id: self.principal.id,
            name: self.principal.name.clone(),
            role: self.principal.grant.role,
            scopes: self.principal.grant.scopes.clone(),
            password: self.password.clone(),
            totp: self.totp.clone(),
            created_at: self.principal.created_at,
        }
    }
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// When the person signed in.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// From which address they signed in.
    pub address: String,
    /// What their browser calls itself.
    pub browser: String,
    /// Nobody's while there is no user yet.
    user: Mutex<Option<TokenId>>,
    cookie: Mutex<Cookie>,
    ended: AtomicBool,
    stepped_up_at: AtomicI64,
    last_seen: AtomicI64,
}

/// The values of a session's cookie.
#[derive(Clone, Copy, Debug)]
struct Cookie {
    hash: TokenHash,
    since: Timestamp,
    /// The value before, and until when it is good. For good while nobody has used the new one: the answer that had it may
    /// have been lost.
    before: Option<(TokenHash, Option<Timestamp>)>,
}

impl Session {
    fn new(row: &SessionRow) -> Self {
        Self {
            id: row.id,
            created_at: row.created_at,
            expires_at: row.expires_at,
            address: row.address.clone(),
            browser: row.browser.clone(),
            user: Mutex::new(row.user),
            cookie: Mutex::new(Cookie { hash: row.hash, since: row.created_at, before: None }),
            ended: false.into(),
            stepped_up_at: row.stepped_up_at.millis().into(),
            last_seen: row.created_at.millis().into(),
        }
    }

    /// Whose it is; nobody's where it came by the welcome link and there is no user yet.
    pub fn user(&self) -> Option<TokenId> {
        *self.user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it goes on.
    pub fn is_active(&self, now: Timestamp) -> bool {
        !self.ended.load(Ordering::Acquire) && now < self.expires_at
    }

    /// Until when what they showed last counts as a step-up.
    pub fn stepped_up_until(&self) -> Timestamp {
        Timestamp::from_millis(self.stepped_up_at.load(Ordering::Acquire)).after(STEP_UP)
    }

    /// Whether they showed a password, passkey or link just now. Not of one who is to come: a clock may be set back.
    pub fn is_stepped_up(&self, now: Timestamp) -> bool {
        let at = Timestamp::from_millis(self.stepped_up_at.load(Ordering::Acquire));
        at <= now && now < self.stepped_up_until()
    }

    /// Something was shown at another hub.
    fn step_up(&self, at: Timestamp) {
        self.stepped_up_at.fetch_max(at.millis(), Ordering::AcqRel);
    }

    fn cookie_hash(&self) -> TokenHash {
        self.cookie.lock().unwrap_or_else(PoisonError::into_inner).hash
    }

    /// When it was last used.
    pub fn last_seen(&self) -> Timestamp {
        Timestamp::from_millis(self.last_seen.load(Ordering::Relaxed))
    }

    /// Whether its cookie is due for another value.
    pub fn is_due(&self, now: Timestamp) -> bool {
        let cookie = self.cookie.lock().unwrap_or_else(PoisonError::into_inner);
        cookie.since.after(ROTATE_AFTER) <= now
    }

    /// As the store keeps it, with another value of its cookie.
    fn row(&self, hash: TokenHash, stepped_up_at: Timestamp, user: Option<TokenId>) -> SessionRow {
        SessionRow {
            id: self.id,
            user,
            hash,
            created_at: self.created_at,
            expires_at: self.expires_at,
            stepped_up_at,
            address: self.address.clone(),
            browser: self.browser.clone(),
        }
    }
}

/// Who signs in, from where, and for how long.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Which user; nobody by the welcome link.
    pub user: Option<TokenId>,
    /// From which address.
    pub address: IpAddr,
    /// What their browser calls itself.
    pub browser: String,
    /// How long their session lasts.
    pub lasts: Duration,
}

/// A new value for a cookie, and what the store is to keep before it is in force.
#[derive(Clone, Debug)]
pub struct NewCookie {
    /// The value.
    pub value: SecretText,
    /// The session with it.
    pub row: SessionRow,
}

/// All users and sessions.
#[derive(Debug)]
pub struct People {
    inner: RwLock<Inner>,
    welcome: Arc<Token>,
    /// The turn of one who changes users or sessions.
    pub turn: tokio::sync::Mutex<()>,
    /// Hashes and checks passwords.
    pub passwords: passwords::Passwords,
    /// Slows guessing.
    pub attempts: attempts::Attempts,
    /// Links that open the page.
    pub openings: openings::Openings,
    /// What browsers are asked to show a passkey for.
    pub challenges: passkeys::Challenges,
    /// One-time codes.
    pub codes: codes::Codes,
}

#[derive(Debug, Default)]
struct Inner {
    users: HashMap<TokenId, User>,
    sessions: HashMap<SessionId, Arc<Session>>,
    by_cookie: HashMap<TokenHash, SessionId>,
    passkeys: Vec<PasskeyRow>,
}

impl Default for People {
    fn default() -> Self {
        // It may make the first user, which the door itself checks, and see nothing.
        let scopes = Scopes { agents: Some(Vec::new()), tools: Some(Vec::new()), ..Scopes::default() };
        let id = TokenId::new(clock::uuid());
        let grant = Grant { role: Role::Viewer, scopes };
        Self {
            inner: RwLock::default(),
            welcome: Arc::new(Token::principal(id, WELCOME.into(), grant, clock::now())),
            turn: tokio::sync::Mutex::default(),
            passwords: passwords::Passwords::default(),
            attempts: attempts::Attempts::default(),
            openings: openings::Openings::default(),
            challenges: passkeys::Challenges::default(),
            codes: codes::Codes::default(),
        }
    }
}

impl People {
    /// Takes in what is stored.
    pub fn load(&self, users: Vec<UserRow>, sessions: Vec<SessionRow>, passkeys: Vec<PasskeyRow>) {
        users.into_iter().for_each(|row| self.put_user(row));
        sessions.iter().for_each(|row| drop(self.admit(row)));
        self.write().passkeys = passkeys;
    }

    /// Takes over what the store has, where other hubs change it, too. Answers which principals are out of force since.
    pub fn follow(&self, users: Vec<UserRow>, sessions: &[SessionRow], passkeys: Vec<PasskeyRow>) -> Vec<TokenId> {
        let mut ended = Vec::new();
        for user in self.users() {
            if users.iter().all(|row| row.id != user.principal.id) {
                self.remove_user(user.principal.id);
                ended.push(user.principal.id);
            }
        }
        for row in users {
            let id = row.id;
            let before = self.principal(id);
            self.put_user(row);
            if before.is_some_and(|before| before.is_revoked()) {
                ended.push(id);
            }
        }
        let now = clock::now();
        for session in self.sessions(None, now) {
            match sessions.iter().find(|row| row.id == session.id) {
                Some(row) if session.cookie_hash() == row.hash => session.step_up(row.stepped_up_at),
                Some(row) => self.renew(&session, row, now),
                None => {
                    self.end_session(session.id);
                    ended.extend(session.user());
                }
            }
        }
        for row in sessions.iter().filter(|row| self.session(row.id, now).is_none()) {
            self.admit(row);
        }
        self.write().passkeys = passkeys;
        ended
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a user in, or what they are now. Whoever had another role or other scopes begins anew.
    pub fn put_user(&self, row: UserRow) {
        let grant = Grant { role: row.role, scopes: row.scopes };
        let mut inner = self.write();
        let before = inner.users.get(&row.id).map(|user| Arc::clone(&user.principal));
        let principal = match before {
            Some(same) if same.grant == grant => same,
            other => {
                if let Some(other) = other {
                    other.revoke();
                }
                Arc::new(Token::principal(row.id, row.name, grant, row.created_at))
            }
        };
        inner.users.insert(row.id, User { principal, password: row.password, totp: row.totp });
    }

    /// A user is no more: nothing of theirs is in force.
    pub fn remove_user(&self, id: TokenId) {
        let mut inner = self.write();
        if let Some(user) = inner.users.remove(&id) {
            user.principal.revoke();
        }
        inner.passkeys.retain(|passkey| passkey.user != id);
        drop(inner);
        self.codes.forget(id);
        self.end_sessions(id, None);
    }

    /// How many users there are.
    pub fn count(&self) -> usize {
        self.read().users.len()
    }

    /// A user by name.
    pub fn find(&self, name: &str) -> Option<User> {
        self.read().users.values().find(|user| user.principal.name == name).cloned()
    }

    /// A user by id.
    pub fn user(&self, id: TokenId) -> Option<User> {
        self.read().users.get(&id).cloned()
    }

    /// All users, by name.
    pub fn users(&self) -> Vec<User> {
        let mut all: Vec<_> = self.read().users.values().cloned().collect();
        all.sort_by(|a, b| a.principal.name.cmp(&b.principal.name));
        all
    }

    /// Whether no other user could let anyone in without this one.
    pub fn is_last_admin(&self, user: &User) -> bool {
        let lets_in = |user: &User| user.principal.grant.hands_on_everything();
        lets_in(user) && !self.read().users.values().any(|u| u.principal.id != user.principal.id && lets_in(u))
    }

    /// A session for who signs in. In force once it is kept and [`Self::admit`]ted.
    pub fn sign_in(arrival: &Arrival, now: Timestamp) -> NewCookie {
        let value = clock::token("cvs_");
        let row = SessionRow {
            id: SessionId::new(clock::uuid()),
            user: arrival.user,
            hash: value.hash(),
            created_at: now,
            expires_at: now.after(arrival.lasts),
            stepped_up_at: now,
            address: arrival.address.to_string(),
            browser: arrival.browser.clone(),
        };
        NewCookie { value, row }
    }

    /// A session is kept: it is in force.
    pub fn admit(&self, row: &SessionRow) -> Arc<Session> {
        let session = Arc::new(Session::new(row));
        let mut inner = self.write();
        inner.by_cookie.insert(row.hash, row.id);
        inner.sessions.insert(row.id, Arc::clone(&session));
        session
    }

    /// Another value for a session's cookie. `stepped_up` when something was shown just now; `user` when the session has
    /// one from now on. In force once it is kept and [`Self::renew`]ed.
    pub fn another_cookie(session: &Session, stepped_up: bool, user: Option<TokenId>, now: Timestamp) -> NewCookie {
        let value = clock::token("cvs_");
        let before = Timestamp::from_millis(session.stepped_up_at.load(Ordering::Acquire));
        let row = session.row(value.hash(), if stepped_up { now } else { before }, user.or_else(|| session.user()));
        NewCookie { value, row }
    }

    /// A session has another cookie, which is kept.
    pub fn renew(&self, session: &Session, row: &SessionRow, now: Timestamp) {
        let mut inner = self.write();
        let mut cookie = session.cookie.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((older, _)) = cookie.before {
            inner.by_cookie.remove(&older);
        }
        *cookie = Cookie { hash: row.hash, since: now, before: Some((cookie.hash, None)) };
        session.stepped_up_at.store(row.stepped_up_at.millis(), Ordering::Release);
        *session.user.lock().unwrap_or_else(PoisonError::into_inner) = row.user;
        inner.by_cookie.insert(row.hash, row.id);
    }

    /// Who has this cookie.
    pub fn by_cookie(&self, value: TokenHash, now: Timestamp) -> Option<(Arc<Session>, Arc<Token>)> {
        let inner = self.read();
        let session = inner.sessions.get(inner.by_cookie.get(&value)?).filter(|s| s.is_active(now))?;
        {
            let mut cookie = session.cookie.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut cookie.before {
                Some((before, Some(until))) if *before == value && *until <= now => return None,
                Some((before, until @ None)) if *before != value => *until = Some(now.after(GRACE)),
                _ => {}
            }
        }
        session.last_seen.store(now.millis(), Ordering::Relaxed);
        let principal = match session.user() {
            Some(id) => Arc::clone(&inner.users.get(&id)?.principal),
            None => Arc::clone(&self.welcome),
        };
        Some((Arc::clone(session), principal))
    }

    /// The principal of that id.
    pub(crate) fn principal(&self, id: TokenId) -> Option<Arc<Token>> {
        self.read().users.get(&id).map(|user| Arc::clone(&user.principal))
    }

    /// A session by id.
    pub fn session(&self, id: SessionId, now: Timestamp) -> Option<Arc<Session>> {
        self.read().sessions.get(&id).filter(|session| session.is_active(now)).cloned()
    }

    /// The sessions of a user, or of all, oldest first.
    pub fn sessions(&self, user: Option<TokenId>, now: Timestamp) -> Vec<Arc<Session>> {
        let inner = self.read();
        let wanted = |s: &&Arc<Session>| s.is_active(now) && user.is_none_or(|user| s.user() == Some(user));
        let mut all: Vec<_> = inner.sessions.values().filter(wanted).cloned().collect();
        all.sort_by_key(|session| (session.created_at, session.id));
        all
    }

    /// A session ends: it is refused from this moment on.
    pub fn end_session(&self, id: SessionId) {
        let mut inner = self.write();
        if let Some(session) = inner.sessions.remove(&id) {
            session.ended.store(true, Ordering::Release);
            inner.by_cookie.retain(|_, of| *of != id);
        }
    }

    /// All sessions of a user end, but one.
    pub fn end_sessions(&self, user: TokenId, but: Option<SessionId>) {
        self.end_those(|session| session.user() == Some(user) && Some(session.id) != but);
    }

    /// Those end that came by the welcome link, but one: there is a user now.
    pub fn end_welcome(&self, but: Option<SessionId>) {
        self.end_those(|session| session.user().is_none() && Some(session.id) != but);
    }

    /// Forgets sessions that have ended by the clock.
    pub fn tidy(&self, now: Timestamp) {
        self.end_those(|session| !session.is_active(now));
    }

    fn end_those(&self, which: impl Fn(&Session) -> bool) {
        let mut inner = self.write();
        let Inner { sessions, by_cookie, .. } = &mut *inner;
        sessions.retain(|_, session| {
            let ends = which(session);
            if ends {
                session.ended.store(true, Ordering::Release);
            }
            !ends
        });
        by_cookie.retain(|_, id| sessions.contains_key(id));
    }

    /// A user's passkeys.
    pub fn passkeys(&self, user: TokenId) -> Vec<PasskeyRow> {
        self.read().passkeys.iter().filter(|passkey| passkey.user == user).cloned().collect()
    }

    /// A passkey by its credential id.
    pub fn passkey(&self, id: &str) -> Option<PasskeyRow> {
        self.read().passkeys.iter().find(|passkey| passkey.id == id).cloned()
    }

    /// A passkey is kept.
    pub fn put_passkey(&self, row: PasskeyRow) {
        let mut inner = self.write();
        match inner.passkeys.iter_mut().find(|passkey| passkey.id == row.id) {
            Some(same) => *same = row,
            None => inner.passkeys.push(row),
        }
    }

    /// A passkey is removed.
    pub fn remove_passkey(&self, id: &str) {
        self.write().passkeys.retain(|passkey| passkey.id != id);
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::secret::SecretText;

    use super::*;

    fn at(s: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + s * 1000)
    }

    fn row(name: &str, role: Role) -> UserRow {
        UserRow {
            id: TokenId::new(clock::uuid()),
            name: name.into(),
            role,
            scopes: Scopes::default(),
            password: None,
            totp: None,
            created_at: at(0),
        }
    }

    fn sign_in(people: &People, user: Option<TokenId>) -> (SecretText, Arc<Session>) {
        let here = IpAddr::from([127, 0, 0, 1]);
        let arrival = Arrival { user, address: here, browser: String::new(), lasts: SESSION_IN_THE_CLEAR };
        let NewCookie { value, row } = People::sign_in(&arrival, at(0));
        (value, people.admit(&row))
    }

    #[test]
    fn a_session_ends_in_time_and_with_its_user() {
        let people = People::default();
        let anna = row("anna", Role::Admin);
        people.put_user(anna.clone());
        let (cookie, session) = sign_in(&people, Some(anna.id));
        let who = |s| people.by_cookie(cookie.hash(), at(s)).map(|(_, token)| token.name.clone());
        assert_eq!(who(1).as_deref(), Some("anna"));
        assert_eq!(who(12 * 3600), None);
        people.remove_user(anna.id);
        assert_eq!(who(1), None);
        assert!(!session.is_active(at(1)));
    }

    #[test]
    fn another_role_is_another_principal_and_another_password_is_not() {
        let people = People::default();
        let anna = row("anna", Role::Admin);
        people.put_user(anna.clone());
        let before = people.find("anna").expect("there").principal;
        people.put_user(UserRow { password: Some(PasswordHash("x".into())), ..anna.clone() });
        assert!(before.is_active(at(1)));
        people.put_user(UserRow { role: Role::Viewer, ..anna.clone() });
        assert!(!before.is_active(at(1)), "what is under way with the old role ends");
        assert_eq!(people.principal(anna.id).expect("there").grant.role, Role::Viewer);
    }

    #[test]
    fn the_old_value_of_a_cookie_is_good_until_the_new_one_has_been_used_for_a_while() {
        let people = People::default();
        let anna = row("anna", Role::Admin);
        people.put_user(anna.clone());
        let (old, session) = sign_in(&people, Some(anna.id));
        assert!(!session.is_due(at(0)));
        let NewCookie { value, row } = People::another_cookie(&session, false, None, at(4000));
        people.renew(&session, &row, at(4000));
        let good = |cookie: &SecretText, s| people.by_cookie(cookie.hash(), at(s)).is_some();
        assert!(good(&old, 9000), "the answer with the new one was lost");
        assert!(good(&value, 9001) && good(&old, 9002), "requests under way have the old one");
        assert!(!good(&old, 9062) && good(&value, 9062));
        let next = People::another_cookie(&session, true, None, at(10_000));
        people.renew(&session, &next.row, at(10_000));
        assert!(!good(&old, 9000), "only the value before the last");
    }

    #[test]
    fn a_step_up_lasts_five_minutes() {
        let people = People::default();
        let (_, session) = sign_in(&people, None);
        assert!(session.is_stepped_up(at(0)) && session.is_stepped_up(at(299)));
        assert!(!session.is_stepped_up(at(300)) && !session.is_stepped_up(at(-1)));
        let NewCookie { row, .. } = People::another_cookie(&session, true, None, at(400));
        people.renew(&session, &row, at(400));
        assert!(session.is_stepped_up(at(500)));
    }

    #[test]
    fn who_is_welcomed_sees_nothing_and_is_gone_once_there_is_a_user() {
        let people = People::default();
        let ((first, session), (second, _)) = (sign_in(&people, None), sign_in(&people, None));
        let (_, principal) = people.by_cookie(first.hash(), at(1)).expect("welcome");
        assert!(!principal.grant.scopes.reaches::<String>("pc", &[]));
        people.end_welcome(Some(session.id));
        assert!(people.by_cookie(second.hash(), at(1)).is_none());
        assert!(people.by_cookie(first.hash(), at(1)).is_some());
    }
}
