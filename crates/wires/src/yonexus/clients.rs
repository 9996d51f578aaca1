//! The registry of clients: who may pair, who is there, and how trust changes.
//!
//! **Trust changes one at a time, and is kept before it is in force.** A change takes the client's turn, works on a copy
//! of its record, commits that, and only then puts it in the record's place. The one exception is a change that
//! withdraws trust: it is in force even if the disk fails.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use convoke_core::id::PeerId;
use convoke_core::journal::Draft;
use convoke_core::peer::{Liveness, Presence, Trust};
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_core::time::Timestamp;
use convoke_store::{ClientRow, PairingRow, StoreError};
use convoke_yonexus::code::PairingCode;
use convoke_yonexus::reason::Unsafe;
use convoke_yonexus::record::{Notification, Pairing, Record, Rotation};

use super::link::{ClientLink, Out};
use crate::Wires;
use convoke_doors::withdrawn::Stored;
use convoke_gate::clock;

/// One client.
#[derive(Debug)]
pub struct Client {
    /// Its identifier.
    pub identifier: Arc<str>,
    turn: tokio::sync::Mutex<()>,
    state: Mutex<ClientState>,
}

/// What is known of a client now.
#[derive(Debug)]
pub struct ClientState {
    /// Trust, keys, the pairing under way, the windows.
    pub record: Record,
    /// Whether an operator put it on the allow-list.
    pub listed: bool,
    /// Whether the settings did.
    pub configured: bool,
    /// Whether it was removed: whoever still holds it changes nothing any more.
    gone: bool,
    /// What a person may want to know of the pairing under way.
    pub pairing: PairingFacts,
    /// When it was first heard of.
    pub created_at: Timestamp,
    /// When it last proved itself.
    pub last_auth: Option<Timestamp>,
    /// When it was last heard.
    pub last_seen: Option<Timestamp>,
    /// Since when it has been linked.
    pub connected_at: Option<Timestamp>,
    /// Where it is connected from.
    pub address: Option<IpAddr>,
    presence: Presence,
    link: Option<Arc<ClientLink>>,
    /// Whether another hub holds its connection.
    elsewhere: bool,
}

/// What a person may want to know of a pairing.
#[derive(Clone, Debug, Default)]
pub struct PairingFacts {
    /// Where the client connected from.
    pub address: Option<IpAddr>,
    /// How the administrator was told, or why not.
    pub notified: String,
    /// The connection that waits.
    pub link: Option<Arc<ClientLink>>,
}

impl ClientState {
    /// Whether it may pair and come in.
    pub const fn is_allowed(&self) -> bool {
        self.listed || self.configured
    }

    /// Whether it is there.
    pub fn liveness(&self) -> Liveness {
        match self.elsewhere && self.link.is_none() {
            true => Liveness::Online,
            false => self.presence.liveness(),
        }
    }

    /// The number of its link here.
    pub(crate) fn held(&self) -> Option<u64> {
        self.presence.link().map(|id| id.0)
    }

    /// Whether the connection of the pairing under way is still there.
    pub fn waits(&self) -> bool {
        self.pairing.link.as_ref().is_some_and(|link| !link.queue.has_ended())
    }
}

impl Client {
    fn new(identifier: &str, configured: bool, created_at: Timestamp) -> Self {
        let state = ClientState {
            record: Record::new(identifier),
            listed: false,
            configured,
            gone: false,
            pairing: PairingFacts::default(),
            created_at,
            last_auth: None,
            last_seen: None,
            connected_at: None,
            address: None,
            presence: Presence::OFFLINE,
            link: None,
            elsewhere: false,
        };
        Self { identifier: identifier.into(), turn: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    /// What is known of it now.
    pub fn state(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was removed.
    pub(super) fn is_gone(&self) -> bool {
        self.state().gone
    }

    /// Its id among all peers.
    pub fn peer(&self) -> String {
        format!("yonexus:{}", self.identifier)
    }
}

/// Whether an identifier can be one: letters, digits, '.', '_' and '-'.
pub fn check_identifier(identifier: &str) -> Result<(), String> {
    PeerId::kenny(identifier).map(drop).map_err(|why| why.to_string())
}

/// A copy of what can change with trust.
#[derive(Debug)]
pub struct Change {
    /// The record.
    pub record: Record,
    /// Whether an operator put it on the allow-list.
    pub listed: bool,
    /// What a person may want to know of the pairing under way.
    pub pairing: PairingFacts,
}

/// Whether a change is kept.
#[derive(Debug)]
pub enum Keep {
    /// Nothing that must survive has changed.
    No,
    /// Commit it, with this record; if that fails nothing has happened.
    Yes(Option<Draft>),
    /// Commit it; it is in force even if that fails, because it withdraws trust.
    Always(Option<Draft>),
}

/// All clients.
#[derive(Debug)]
pub struct Clients {
    known: RwLock<BTreeMap<Arc<str>, Arc<Client>>>,
    live: RwLock<HashMap<Arc<str>, Arc<ClientLink>>>,
    /// Those that are connected to other hubs, each with the number of its link.
    elsewhere: RwLock<HashMap<Arc<str>, u64>>,
    /// Those with a pairing under way.
    pairing: Mutex<BTreeSet<Arc<str>>>,
}

impl Clients {
    /// Starts from what is stored, and from the settings' allow-list.
    pub(super) fn load(rows: Vec<ClientRow>, allow: &[String]) -> Self {
        let clients = Self {
            known: RwLock::default(),
            live: RwLock::default(),
            elsewhere: RwLock::default(),
            pairing: Mutex::default(),
        };
        for row in rows {
            let client = from_row(row);
            if client.state().record.pairing.is_some() {
                clients.pairing_set().insert(Arc::clone(&client.identifier));
            }
            clients.known_mut().insert(Arc::clone(&client.identifier), Arc::new(client));
        }
        for identifier in allow {
            if let Err(why) = check_identifier(identifier) {
                tracing::error!(identifier, %why, "an entry of yonexus.allow is not an identifier");
                continue;
            }
            match clients.find(identifier) {
                Some(client) => client.state().configured = true,
                None => {
                    let client = Client::new(identifier, true, clock::now());
                    clients.known_mut().insert(Arc::clone(&client.identifier), Arc::new(client));
                }
            }
        }
        clients
    }

    fn known_mut(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<Arc<str>, Arc<Client>>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn pairing_set(&self) -> MutexGuard<'_, BTreeSet<Arc<str>>> {
        self.pairing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A client that was heard of.
    pub fn find(&self, identifier: &str) -> Option<Arc<Client>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(identifier).cloned()
    }

    /// A client that may pair and come in.
    pub fn allowed(&self, identifier: &str) -> Option<Arc<Client>> {
        self.find(identifier).filter(|client| client.state().is_allowed())
    }

    /// A client for the allow-list; made if it is new, unless there are `most` already.
    pub fn find_or_add(&self, identifier: &str, most: usize) -> Option<Arc<Client>> {
        let mut known = self.known_mut();
        if let Some(client) = known.get(identifier) {
            return Some(Arc::clone(client));
        }
        if known.len() >= most {
            return None;
        }
        let client = Arc::new(Client::new(identifier, false, clock::now()));
        known.insert(Arc::clone(&client.identifier), Arc::clone(&client));
        Some(client)
    }

    /// Removes a client. Its trust is gone from memory first, so that no proof succeeds meanwhile, and even if the disk
    /// fails.
    pub(super) async fn remove(&self, hub: &Wires, client: &Client, draft: Draft) -> Result<Stored, StoreError> {
        let _turn = client.turn.lock().await;
        if client.is_gone() {
            return Ok(Stored::Yes);
        }
        let (record, pairing) = {
            let state = client.state();
            (state.record.clone(), state.pairing.clone())
        };
        let mut withdrawn = Change { record, listed: false, pairing };
        withdrawn.record.revoke();
        self.put(client, withdrawn);
        let stored = Stored::of(hub.store.remove_client(&client.identifier, draft).await)?;
        if stored == Stored::Yes {
            self.forget(client);
        }
        Ok(stored)
    }

    /// Forgets a client that could not be put on the allow-list, unless it is there by another way.
    pub(super) fn forget_unless_allowed(&self, client: &Client) {
        let state = client.state();
        let is_new = !state.is_allowed() && state.record.trust == Trust::Unpaired;
        drop(state);
        if is_new {
            self.forget(client);
        }
    }

    fn forget(&self, client: &Client) {
        let mut known = self.known_mut();
        client.state().gone = true;
        known.remove(&client.identifier);
        drop(known);
        self.pairing_set().remove(&client.identifier);
    }

    /// All clients after `after`, by identifier.
    pub fn list(&self, after: Option<&str>) -> Vec<Arc<Client>> {
        use std::ops::Bound;
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        known.range::<str, _>((from, Bound::Unbounded)).map(|(_, client)| Arc::clone(client)).collect()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// How many are linked.
    pub fn online(&self) -> usize {
        self.live.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Those with a pairing under way.
    pub fn pairings(&self) -> Vec<Arc<Client>> {
        let names: Vec<_> = self.pairing_set().iter().cloned().collect();
        names.iter().filter_map(|name| self.find(name)).collect()
    }

    /// How many pairings are under way.
    pub(super) fn pairing_count(&self) -> usize {
        self.pairing_set().len()
    }

    /// The link of a client that is there.
    pub(super) fn link(&self, identifier: &str) -> Option<Arc<ClientLink>> {
        self.live.read().unwrap_or_else(PoisonError::into_inner).get(identifier).cloned()
    }

    /// The number of a client's link at another hub.
    pub(super) fn is_elsewhere(&self, identifier: &str) -> Option<u64> {
        self.elsewhere.read().unwrap_or_else(PoisonError::into_inner).get(identifier).copied()
    }

    /// Everyone who is connected to another hub.
    pub(super) fn elsewhere(&self) -> Vec<(Arc<str>, u64)> {
        let elsewhere = self.elsewhere.read().unwrap_or_else(PoisonError::into_inner);
        elsewhere.iter().map(|(name, epoch)| (Arc::clone(name), *epoch)).collect()
    }

    /// Another hub holds a link of this client now, or none does any more. Whether that is news.
    pub(crate) fn stands_elsewhere(&self, client: &Client, epoch: Option<u64>) -> bool {
        let mut state = client.state();
        let is_news = state.elsewhere != epoch.is_some() && state.link.is_none();
        if state.link.is_none() {
            self.set_elsewhere(&client.identifier, &mut state, epoch);
        }
        is_news
    }

    fn set_elsewhere(&self, identifier: &Arc<str>, state: &mut ClientState, epoch: Option<u64>) {
        state.elsewhere = epoch.is_some();
        let mut elsewhere = self.elsewhere.write().unwrap_or_else(PoisonError::into_inner);
        match epoch {
            Some(epoch) => drop(elsewhere.insert(Arc::clone(identifier), epoch)),
            None => drop(elsewhere.remove(identifier)),
        }
    }

    /// Takes over what the store has of a client that another hub changed. Answers it, and the connection that waited for a
    /// pairing which is over.
    pub(crate) async fn follow(
        &self,
        identifier: &str,
        row: Option<ClientRow>,
    ) -> (Option<Arc<Client>>, Option<Arc<ClientLink>>) {
        let known = self.find(identifier);
        let Some(row) = row else {
            let Some(client) = known else { return (None, None) };
            let _turn = client.turn.lock().await;
            let (configured, waits) = {
                let mut state = client.state();
                state.listed = false;
                state.record.revoke();
                (state.configured, state.pairing.link.take())
            };
            if !configured {
                self.forget(&client);
            }
            return (Some(Arc::clone(&client)), waits);
        };
        let client = match known {
            Some(client) => client,
            None => {
                let client = Arc::new(Client::new(identifier, false, row.created_at));
                Arc::clone(self.known_mut().entry(Arc::clone(&client.identifier)).or_insert(client))
            }
        };
        let _turn = client.turn.lock().await;
        let new = from_row(row);
        let mut new = new.state();
        let mut state = client.state();
        let waits = state.pairing.link.take();
        std::mem::swap(&mut state.record, &mut new.record);
        state.listed = new.listed;
        state.last_auth = state.last_auth.max(new.last_auth);
        state.pairing = new.pairing.clone();
        let is_pairing = state.record.pairing.is_some();
        let over = if is_pairing {
            state.pairing.link = waits;
            None
        } else {
            waits
        };
        drop((state, new));
        let mut set = self.pairing_set();
        if is_pairing {
            set.insert(Arc::clone(&client.identifier))
        } else {
            set.remove(&client.identifier)
        };
        drop(set);
        drop(_turn);
        (Some(client), over)
    }

    /// Everyone who is there.
    pub(super) fn links(&self) -> Vec<(Arc<str>, Arc<ClientLink>)> {
        let live = self.live.read().unwrap_or_else(PoisonError::into_inner);
        live.iter().map(|(name, link)| (Arc::clone(name), Arc::clone(link))).collect()
    }

    /// Changes a client's trust: in turn, on a copy, kept before it is in force.
    pub async fn change<T>(
        &self,
        hub: &Wires,
        client: &Client,
        work: impl FnOnce(&mut Change) -> (T, Keep),
    ) -> Result<T, StoreError> {
        let _turn = client.turn.lock().await;
        let gone = client.is_gone();
        let (mut change, kept) = {
            let state = client.state();
            let change =
                Change { record: state.record.clone(), listed: state.listed, pairing: state.pairing.clone() };
            (change, (state.created_at, state.last_auth, state.last_seen, state.liveness()))
        };
        let (answer, keep) = work(&mut change);
        if gone {
            return Ok(answer);
        }
        let (draft, always) = match keep {
            Keep::No => {
                self.put(client, change);
                return Ok(answer);
            }
            Keep::Yes(draft) => (draft, false),
            Keep::Always(draft) => (draft, true),
        };
        let is_about_pairing = client.state().record.pairing.is_some() || change.record.pairing.is_some();
        let row = to_row(&change, kept);
        let stored = match always {
            true => hub.store.withdraw_client(row, draft).await,
            false => hub.store.put_client(row, draft).await,
        };
        if stored.is_ok() || always {
            self.put(client, change);
            super::events::client(hub, client, false);
            if is_about_pairing {
                super::events::pairing(hub, client);
            }
        }
        stored.map(|()| answer)
    }

    fn put(&self, client: &Client, change: Change) {
        let pairing = change.record.pairing.is_some();
        {
            let mut state = client.state();
            state.record = change.record;
            state.listed = change.listed;
            state.pairing = if pairing { change.pairing } else { PairingFacts::default() };
        }
        let mut set = self.pairing_set();
        if pairing {
            set.insert(Arc::clone(&client.identifier));
        } else {
            set.remove(&client.identifier);
        }
    }

    /// A link has authenticated: it speaks for the client from now on. Answers the one it replaces; `Err` when the
    /// client's trust has gone meanwhile, or a newer link is there.
    pub(super) fn linked(
        &self,
        client: &Client,
        link: &Arc<ClientLink>,
        address: IpAddr,
        now: Timestamp,
    ) -> Result<Option<Arc<ClientLink>>, ()> {
        let mut state = client.state();
        if state.record.trust != Trust::Trusted || !state.is_allowed() {
            return Err(());
        }
        state.presence.linked(link.id()).map_err(|_| ())?;
        let old = state.link.replace(Arc::clone(link));
        self.set_elsewhere(&client.identifier, &mut state, None);
        state.address = Some(address);
        state.connected_at = Some(now);
        state.last_auth = Some(now);
        state.last_seen = Some(now);
        // Under the client's lock, so that two links of one client cannot end in another order here.
        let mut live = self.live.write().unwrap_or_else(PoisonError::into_inner);
        live.insert(Arc::clone(&client.identifier), Arc::clone(link));
        Ok(old)
    }

    /// A link has ended, and was last heard then. True when it was the present one, so that the client is offline now.
    pub(super) fn ended(&self, client: &Client, link: &ClientLink, last_seen: Option<Timestamp>) -> bool {
        let mut state = client.state();
        if !state.presence.ended(link.id()) {
            return false;
        }
        state.link = None;
        state.connected_at = None;
        state.address = None;
        state.last_seen = state.last_seen.max(last_seen);
        self.live.write().unwrap_or_else(PoisonError::into_inner).remove(&client.identifier);
        true
    }

    /// The link's heartbeat is overdue, or it was heard again.
    pub(super) fn set_overdue(&self, client: &Client, link: &ClientLink, overdue: bool) {
        client.state().presence.set_overdue(link.id(), overdue);
    }

    /// Says this on a client's link and closes it: it is offline from this moment.
    pub(crate) fn close_link(&self, client: &Client, frames: Vec<String>, close: convoke_yonexus::close::Close) {
        let link = client.state().link.clone();
        if let Some(link) = link {
            let _ = link.push(Out::Close(frames, close));
            self.ended(client, &link, None);
        }
    }
}

fn to_row(
    change: &Change,
    (created_at, last_auth, last_seen, liveness): (Timestamp, Option<Timestamp>, Option<Timestamp>, Liveness),
) -> ClientRow {
    let Change { record, listed, pairing: facts } = change;
    let bytes = |secret: &SecretText| SecretBytes::new(secret.reveal().as_bytes());
    ClientRow {
        identifier: record.identifier.clone(),
        listed: *listed,
        trust: record.trust,
        public_key: record.key.map(|key| key.to_bytes()),
        secret: record.secret.as_ref().map(bytes),
        old_secrets: record.old_secrets.iter().map(bytes).collect(),
        pairing: record.pairing.as_ref().map(|pairing| PairingRow {
            code: SecretBytes::new(pairing.code.reveal().as_bytes()),
            public_key: pairing.key.to_bytes(),
            created_at: pairing.created_at,
            expires_at: pairing.expires_at,
            wrong: pairing.wrong,
            notification: pairing.notification.name().into(),
            notified: facts.notified.clone(),
            approved: pairing.approved,
            address: facts.address.map(|a| a.to_string()).unwrap_or_default(),
        }),
        pause_until: record.pause_until,
        rotation_until: record.rotation.map(|rotation| rotation.until),
        rotation_key: record.rotation.and_then(|rotation| rotation.key).map(|key| key.to_bytes()),
        reset: record.reset.map(|reason| reason.name().into()),
        created_at,
        paired_at: record.paired_at,
        last_auth,
        last_seen,
        liveness,
    }
}

fn from_row(row: ClientRow) -> Client {
    let client = Client::new(&row.identifier, false, row.created_at);
    let text = |bytes: &SecretBytes| SecretText::new(String::from_utf8_lossy(bytes.reveal()));
    {
        let mut state = client.state();
        state.listed = row.listed;
        state.last_auth = row.last_auth;
        state.last_seen = row.last_seen;
        let record = &mut state.record;
        record.trust = row.trust;
        record.key = row.public_key.and_then(|key| convoke_yonexus::key::from_bytes(&key).ok());
        record.secret = row.secret.as_ref().map(text);
        record.old_secrets = row.old_secrets.iter().map(text).collect();
        record.pause_until = row.pause_until;
        // Leave for a key that cannot be read is leave for none.
        record.rotation = row.rotation_until.and_then(|until| {
            let key = row.rotation_key.map(|key| convoke_yonexus::key::from_bytes(&key)).transpose().ok()?;
            Some(Rotation { until, key })
        });
        record.reset = row.reset.as_deref().and_then(Unsafe::parse);
        record.paired_at = row.paired_at;
        let Some(pairing) = row.pairing else {
            drop(state);
            return client;
        };
        let Ok(key) = convoke_yonexus::key::from_bytes(&pairing.public_key) else {
            drop(state);
            return client;
        };
        record.pairing = Some(Pairing {
            code: PairingCode::kept(text(&pairing.code)),
            key,
            created_at: pairing.created_at,
            expires_at: pairing.expires_at,
            wrong: pairing.wrong,
            notification: Notification::parse(&pairing.notification).unwrap_or(Notification::Failed),
            approved: pairing.approved,
        });
        state.pairing =
            PairingFacts { address: pairing.address.parse().ok(), notified: pairing.notified, link: None };
    }
    client
}
