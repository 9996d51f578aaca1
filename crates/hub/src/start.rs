//! Bringing a hub up, and down again.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoke_core::event::{AgentChange, Event, HubEvent, HubState};
use convoke_core::grant::{Role, Scopes};
use convoke_core::id::TokenId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::secret::{SecretBytes, SecretText};
use convoke_store::{BadUrl, Lossy, OpenOptions, Server, SqlStore, Store, StoreError};
use convoke_store::{Retention, TokenRow};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{cluster, serve};
use convoke_gate::agents::Agents;
use convoke_gate::clock;
use convoke_gate::hub::{Hub, HubInit};
use convoke_gate::link::Close;
use convoke_gate::operators::{FIRST_TOKEN, Operators};
use convoke_gate::own_files;
use convoke_gate::part;
use convoke_gate::people::User;
use convoke_gate::people::passkeys::{RelyingParty, made_for};
use convoke_gate::policy::Policy;
use convoke_gate::settings::Settings;
use convoke_mcp::{AllTools, Sessions};
use convoke_wires::{Wires, rooms, sonde, yonexus};

use crate::tools::TOOLS;

/// The first operator token, sealed, so that `--reveal-token` and the local command line can find it again.
pub const OPERATOR_TOKEN_SECRET: &str = "operator_token";
/// How long the last answers may take to be written at a stop, once there are no more.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// The key of argument digests.
const DIGEST_KEY_SECRET: &str = "digest_key";

/// What a start needs besides the settings.
#[derive(Debug)]
pub struct HubOptions {
    /// The data directory.
    pub data: PathBuf,
    /// The settings.
    pub settings: Settings,
    /// The data key, where it does not come from the data directory.
    pub data_key: Option<SecretBytes>,
    /// The hub's key, where it does not come from the store.
    pub hub_seed: Option<SecretBytes>,
    /// The first operator token, where it should not be random.
    pub operator_token: Option<SecretText>,
}

/// Why a hub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The listener.
    #[error("cannot listen on {address}: {why}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        why: io::Error,
    },
    /// TLS.
    #[error("TLS: {0}")]
    Tls(io::Error),
    /// A certificate of the hub's own.
    #[error("tls.own: {0}")]
    OwnTls(#[from] serve::own::OwnError),
    /// Plain HTTP for everyone.
    #[error(
        "other machines can reach {0}, and tokens would cross the network unencrypted; use --lan, set tls.cert and tls.key, or allow it with --insecure-listen"
    )]
    Insecure(SocketAddr),
    /// The listener for Sonde agents.
    #[error("sonde.tls_listen: {0}")]
    SondeTls(io::Error),
    /// The address of the database.
    #[error(transparent)]
    StoreUrl(#[from] BadUrl),
    /// The socket for mesh rooms.
    #[error("rooms.udp_listen: {0}")]
    RoomsUdp(io::Error),
    /// The bus.
    #[error("bus.url: {0}")]
    Bus(#[from] convoke_bus::BusError),
    /// How other hubs would reach this one.
    #[error("hub.address: {0}")]
    Address(&'static str),
    /// A key from outside that is no key.
    #[error("{0}")]
    Key(&'static str),
}

/// Whether the first operator's token was shown to anybody: `no`, until it was.
const TOKEN_SHOWN_SECRET: &str = "operator_token_shown";

/// A hub that runs.
#[derive(Debug)]
pub struct Running {
    /// The hub.
    pub hub: Hub,
    /// Its address.
    pub http: String,
    /// Where the mutual-TLS listener for Sonde agents is, if there is one.
    pub sonde_tls: Option<SocketAddr>,
    /// The operator token: only on the first start of a data directory, and until somebody was shown it
    /// ([`note_token_shown`]).
    pub first_token: Option<SecretText>,
    /// The link behind which the first admin is made, after the `#`; while there is no user.
    pub welcome: Option<SecretText>,
    serving: tokio::task::JoinHandle<()>,
    upkeep: tokio::task::JoinHandle<()>,
    clearing: tokio::task::JoinHandle<()>,
    /// What it does as one of several.
    tasks: cluster::Tasks,
}

/// Starts a hub.
pub async fn start(options: HubOptions) -> Result<Running, StartError> {
    let HubOptions { data, settings, data_key, hub_seed, operator_token } = options;
    for warning in settings.warnings() {
        tracing::warn!("{warning}");
    }
    let address = settings.hub.listen;
    let acceptor = acceptor(&settings)?;
    let has_tls = acceptor.is_some() || settings.tls.own;
    check_reach(&settings, has_tls)?;
    if !has_tls && !address.ip().is_loopback() {
        tracing::warn!(%address, "other machines reach this hub without TLS (hub.insecure_listen): the network can read tokens and answers");
    }
    hub_seed.as_ref().map_or(Ok(()), check_seed)?;
    let queue_limit = settings.store.queue_limit;
    let accept_damaged_log = settings.store.accept_damaged_log;
    let server = server(&settings)?;
    let bus = cluster::bus(&settings).await?;
    let lease = bus.is_some().then_some(settings.hub.lease_s);
    let options =
        OpenOptions { queue_limit, accept_damaged_log, data_key, hub_seed, server, lease, ..OpenOptions::new(&data) };
    let asked_at = clock::boot();
    // Opening reads, migrates and locks: not on the runtime's threads.
    let opened = tokio::task::spawn_blocking(move || SqlStore::open(options)).await;
    let store = opened.map_err(|_| StartError::Key("opening the store panicked"))??;
    let key = store.hub_key().clone();
    let store: Arc<dyn Store> = Arc::new(store);
    // Bound before anything is announced, after the store is locked: two hubs on one directory never both listen.
    let listener = TcpListener::bind(address).await.map_err(|why| StartError::Listen { address, why })?;
    let listen = listener.local_addr().map_err(|why| StartError::Listen { address, why })?;

    let acceptor = match acceptor {
        None if settings.tls.own => {
            let public = settings.hub.public_url.as_deref().and_then(host_of);
            let names = serve::own::names(listen.ip(), public.as_deref());
            Some(serve::own::acceptor(&*store, &key, &names, &data).await?)
        }
        given => given,
    };

    // What only one may do that starts: make what all of them share.
    let turn = store.turn("start").await?;
    let first_token = first_token(&*store, operator_token).await?;
    let digest_key = match store.secret(DIGEST_KEY_SECRET).await? {
        Some(key) => key,
        None => {
            let key = SecretBytes::new(clock::random::<32>());
            store.put_secret(DIGEST_KEY_SECRET, &key).await?;
            key
        }
    };
    let cluster = cluster::join(&*store, &settings, bus, asked_at, (listen, acceptor.as_ref()))?;
    let init = HubInit {
        agents: Agents::load(store.agents().await?, convoke_wires::kenny::facts),
        operators: Operators::load(store.tokens().await?),
        adapters: convoke_wires::adapters(),
        parts: part::Parts::default()
            .with(Arc::new(convoke_wires::State::load(&*store, &settings).await?))
            .with(Arc::new(AllTools(&TOOLS)))
            .with(Arc::new(Sessions::new(&settings))),
        policy: Policy::protecting(
            own_files::rules(&data, settings.tls.key.as_deref()),
            store.deny_rules().await?,
            store.confirm_rules().await?,
        ),
        settings,
        store,
        data,
        key,
        digest_key,
        cluster,
        listen,
        tls: acceptor.is_some(),
    };
    let hub = Hub::new(init);
    hub.store.joined().await?.iter().for_each(|join| hub.agents.join(join));
    let tasks = cluster::begin(&hub).await?;
    let people = &hub.operators.people;
    people.load(hub.store.users().await?, hub.store.sessions(clock::now()).await?, hub.store.passkeys().await?);
    warn_of_lost_passkeys(&hub);
    hub.grants.load(hub.store.grants(clock::now()).await?);
    convoke_gate::notices::load(&hub).await?;
    hub.health.load(hub.store.health_changes(None, clock::now(), clock::now(), u32::MAX).await?);
    for id in hub.store.paused_tokens().await? {
        hub.operators.find(id).iter().for_each(|token| token.pause(true));
    }
    let welcome = convoke_http::users::welcome(&hub).await?;
    convoke_gate::calls::recover(&hub).await?;
    drop(turn);
    let started = Draft::new(clock::now(), Kind::Hub)
        .detail(&json!({ "what": "started", "version": env!("CARGO_PKG_VERSION") }));
    hub.store.append(started).await?;
    hub.events.publish(Event::Hub(HubEvent { state: HubState::Started, at: clock::now() }));
    if hub.settings.kenny.allow_token_auth {
        tracing::warn!(
            "kenny.allow_token_auth is on: agents may connect with a bearer token and without a signature"
        );
    }
    let wires = Wires::of(&hub);
    yonexus::resume(&wires);
    let router = crate::doors(&hub).router();
    let mutual = sonde::listen::bind(&wires).await.map_err(StartError::SondeTls)?;
    tokio::spawn(rooms::ops::run(wires.clone()));
    if let Some(mesh) = rooms::mesh::Mesh::bind(&hub.settings).await.map_err(StartError::RoomsUdp)? {
        tracing::info!(address = %mesh.public(), "WebRTC of mesh rooms");
        tokio::spawn(rooms::mesh::run(wires.clone(), mesh));
    }
    let sonde_tls = mutual.as_ref().map(|(_, _, address)| *address);
    let mutual = mutual.map(|(listener, acceptor, _)| {
        let router = sonde::listen::doors(&wires).router();
        let tls = serve::Tls { acceptor, mutual: true };
        tokio::spawn(serve::serve(hub.clone(), listener, router, Some(tls)))
    });
    let tls = acceptor.map(|acceptor| serve::Tls { acceptor, mutual: false });
    let main = tokio::spawn(serve::serve(hub.clone(), listener, router, tls));
    let serving = tokio::spawn(async move {
        let _ = main.await;
        if let Some(mutual) = mutual {
            let _ = mutual.await;
        }
    });
    let upkeep = tokio::spawn(upkeep(hub.clone()));
    hub.tasks.spawn(convoke_gate::notices::run(hub.clone()));
    let clearing = tokio::spawn(clearing(hub.clone()));
    Ok(Running { http: hub.base_url(), sonde_tls, hub, first_token, welcome, serving, upkeep, clearing, tasks })
}

/// Browsers bind a passkey to the name it was made for: after another `hub.public_url` it signs nobody in.
fn warn_of_lost_passkeys(hub: &Hub) {
    let people = &hub.operators.people;
    let party = RelyingParty::of(hub).ok();
    let name = party.as_ref().map(RelyingParty::id);
    let lost = |user: &User| {
        let of_other = |row: &convoke_store::PasskeyRow| made_for(row).as_deref() != name;
        people.passkeys(user.principal.id).iter().filter(|row| of_other(row)).count()
    };
    let (users, passkeys) =
        people.users().iter().map(lost).filter(|n| *n > 0).fold((0, 0), |(u, p), n| (u + 1, p + n));
    if passkeys > 0 {
        tracing::warn!(
            passkeys,
            users,
            "passkeys were made for another name than this hub has now (hub.public_url) and sign nobody in; \
             `convoke users link NAME` makes a one-time link for a user without a password"
        );
    }
}

/// What a start would refuse of these settings before it looks at the data directory: all of it, in the start's own words.
pub fn check_settings(settings: &Settings) -> Vec<StartError> {
    let unreadable = |path: &PathBuf| {
        let why = std::fs::File::open(path).err()?;
        Some(StartError::Tls(io::Error::other(format!("{}: {why}", path.display()))))
    };
    // The start stops at the first file that it cannot read.
    let files = [&settings.tls.cert, &settings.tls.key];
    let mut found: Vec<_> = files.into_iter().flatten().filter_map(unreadable).collect();
    if found.is_empty() {
        found.extend(acceptor(settings).err());
    }
    // Of a certificate that is no good it is said already.
    found.extend(check_reach(settings, settings.tls.cert.is_some() || settings.tls.own).err());
    found.extend(server(settings).err());
    found
}

/// The server that has the data, when it is not in the data directory, and this hub's name there.
fn server(settings: &Settings) -> Result<Option<(Server, String)>, StartError> {
    let Some(url) = &settings.store.url else { return Ok(None) };
    // Not the machine's name by default: a container has another one with each start.
    let name = settings.hub.name.clone().unwrap_or_else(|| "hub".into());
    Ok(Some((url.reveal().parse()?, name)))
}

/// Whether this can be a hub's private key.
pub fn check_seed(seed: &SecretBytes) -> Result<(), StartError> {
    if seed.reveal().len() == 32 {
        return Ok(());
    }
    Err(StartError::Key("CONVOKE_KENNY_PRIVATE_KEY must be the base64 of a 32-byte seed"))
}

/// What TLS is served with, if it is.
fn acceptor(settings: &Settings) -> Result<Option<TlsAcceptor>, StartError> {
    match (&settings.tls.cert, &settings.tls.key) {
        (Some(cert), Some(key)) => serve::tls(cert, key).map(Some).map_err(StartError::Tls),
        _ => Ok(None),
    }
}

/// The host in an address.
fn host_of(url: &str) -> Option<String> {
    let url = url.parse::<axum::http::Uri>().ok()?;
    url.host().map(|host| host.trim_matches(['[', ']']).to_owned())
}

/// Whether other machines would reach a hub that serves in the clear.
fn check_reach(settings: &Settings, tls: bool) -> Result<(), StartError> {
    let address = settings.hub.listen;
    if !tls && !settings.hub.insecure_listen && !address.ip().is_loopback() {
        return Err(StartError::Insecure(address));
    }
    Ok(())
}

/// Mints the first operator token, once per data directory; and another one where nobody is left who could let anyone
/// in: who starts the hub has its data and its key, and so owns it.
async fn first_token(store: &dyn Store, given: Option<SecretText>) -> Result<Option<SecretText>, StoreError> {
    let known = store.tokens().await?;
    let operators = Operators::load(known.clone());
    let now = clock::now();
    let is_new = given.as_ref().is_some_and(|given| known.iter().all(|token| !given.hash().matches(&token.hash)));
    if operators.list().iter().any(|token| token.is_active(now) && token.grant.hands_on_everything()) {
        if is_new {
            tracing::warn!("ignoring CONVOKE_OPERATOR_TOKEN: the data directory was created with another token");
        }
        return unshown(store, &operators).await;
    }
    let secret = given.filter(|_| is_new).unwrap_or_else(|| clock::token("cvk_"));
    // A name is used once.
    let numbered = (2..).map(|n| format!("{FIRST_TOKEN}-{n}"));
    let mut names = std::iter::once(FIRST_TOKEN.to_owned()).chain(numbered);
    let name = names.find(|name| known.iter().all(|token| token.name != *name)).unwrap_or_default();
    if name != FIRST_TOKEN {
        tracing::warn!(name, "no token is left that can create tokens and approve; creating one");
    }
    let row = TokenRow {
        id: TokenId::new(clock::uuid()),
        name,
        owner: None,
        hash: secret.hash(),
        role: Role::Admin,
        scopes: Scopes { approve: Some(true), ..Scopes::default() },
        created_at: now,
        expires_at: None,
        revoked_at: None,
        last_used: None,
    };
    // Sealed first: a stop in between leaves a sealed text that nothing refers to, not a token nobody knows.
    store.put_secret(OPERATOR_TOKEN_SECRET, &SecretBytes::new(secret.reveal().as_bytes())).await?;
    store.put_secret(TOKEN_SHOWN_SECRET, &SecretBytes::new(b"no")).await?;
    let mut record = Draft::new(now, Kind::Token);
    record.who = Some("hub".into());
    let record = record.detail(&json!({ "what": "minted", "id": row.id, "name": row.name, "role": row.role }));
    store.put_token(row, record).await?;
    Ok(Some(secret))
}

/// The token that a start before this one minted and did not come to show: it failed, or was ended, before that.
async fn unshown(store: &dyn Store, operators: &Operators) -> Result<Option<SecretText>, StoreError> {
    if store.secret(TOKEN_SHOWN_SECRET).await?.is_none_or(|shown| shown.reveal() != b"no") {
        return Ok(None);
    }
    let sealed = store.secret(OPERATOR_TOKEN_SECRET).await?;
    let text = sealed.and_then(|bytes| String::from_utf8(bytes.reveal().to_vec()).ok()).map(SecretText::new);
    Ok(text.filter(|token| operators.is_in_force(token.hash(), clock::now())))
}

/// What happens by the clock: lapsed approvals every second; counts and checkpoints every minute.
async fn upkeep(hub: Hub) {
    let wires = Wires::of(&hub);
    let sessions = Sessions::of(&hub);
    let mut seconds: u64 = 0;
    let mut before = clock::now();
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {}
            () = hub.stopping.cancelled() => return,
        }
        let now = clock::now();
        for token in hub.operators.lapsed(before, now) {
            convoke_gate::calls::withdraw_unsent(&hub, token);
        }
        before = now;
        convoke_gate::calls::expire_due(&hub).await;
        convoke_gate::calls::settle_owed(&hub).await;
        convoke_gate::grants::end_those_over(&hub).await;
        yonexus::tick(&wires).await;
        rooms::tick(&wires).await;
        sessions.tidy(|tokens| hub.operators.in_force(tokens, clock::now()));
        // A commit shows that the database is there again; until then no call is taken that would.
        if hub.cluster.is_some() && hub.store.stats().failing {
            let _ = hub.store.checkpoint(now).await;
        }
        // Every second where something is owed; else now and then, which also makes room again for the next time.
        let is_due = hub.store.stats().owed > 0 || seconds.is_multiple_of(60);
        if is_due && let Err(why) = hub.store.write_owed().await {
            tracing::debug!(%why, "withdrawals are still not stored");
        }
        seconds += 1;
        if seconds.is_multiple_of(SEEN_EVERY_S) {
            note_seen(&hub, seconds / SEEN_EVERY_S).await;
        }
        if seconds.is_multiple_of(60) {
            let now = clock::now();
            for record in hub.strangers.drain(now).into_iter().chain(hub.refusals.drain(now)) {
                hub.note(record).await;
            }
            match hub.store.lapse_invitations(now).await {
                Ok(lapsed) => lapsed.iter().for_each(|agent| {
                    hub.agents.invitation_lapsed(agent.as_str());
                    hub.events.agent(agent, AgentChange::Trust);
                }),
                Err(why) => tracing::error!(%why, "cannot remove expired enrolment tokens"),
            }
            if let Err(why) = hub.store.checkpoint(now).await {
                tracing::error!(%why, "cannot sign the end of the journal");
            }
            hub.operators.people.tidy(now);
            yonexus::tidy(&wires).await;
        }
    }
}

/// How often some of the agents that are connected are noted as seen, and after how many times all of them were: a hub that is
/// killed knows of each within five minutes when it was there.
const SEEN_EVERY_S: u64 = 5;
const SEEN_PARTS: u64 = 60;

/// Notes a part of the agents that are connected as seen. When one leaves, that is noted anyway.
async fn note_seen(hub: &Hub, round: u64) {
    let agents = hub.agents.list(None);
    let part = agents.iter().enumerate().filter(|(place, _)| *place as u64 % SEEN_PARTS == round % SEEN_PARTS);
    for (_, agent) in part {
        let seen = {
            let state = agent.state();
            state.last_seen().filter(|_| state.presence().link().is_some())
        };
        let Some(at) = seen else { continue };
        let seen = Lossy::Seen { agent: agent.id.clone(), at, hello: None };
        if let Err(why) = hub.store.enqueue(seen).await {
            tracing::error!(%why, "cannot store when agents were last seen");
            return;
        }
    }
}

/// Takes away what removed agents left, every minute, and what was kept long enough, every hour. A task of its own, since
/// that lasts as long as there are rows: neither the upkeep nor a stop waits for all of them.
async fn clearing(hub: Hub) {
    let minute = Duration::from_secs(60);
    let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + minute, minute);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for minutes in 0_u64.. {
        if hub.stopping.run_until_cancelled(tick.tick()).await.is_none() {
            return;
        }
        clear(&hub, minutes.is_multiple_of(60)).await;
    }
}

/// One round of clearing. A stop ends it between two pieces; the next start goes on.
async fn clear(hub: &Hub, also_old: bool) {
    let round = async {
        if let Err(why) = hub.store.sweep().await {
            tracing::error!(%why, "cannot delete the data of removed agents");
        }
        if also_old {
            prune(hub).await;
        }
    };
    let _ = hub.stopping.run_until_cancelled(round).await;
}

async fn prune(hub: &Hub) {
    let now = clock::now();
    let before = |days: u64| match days {
        0 => None,
        days => Some(convoke_core::time::Timestamp::from_millis(
            now.millis().saturating_sub(i64::try_from(days).unwrap_or(i64::MAX).saturating_mul(86_400_000)),
        )),
    };
    let retention = Retention {
        telemetry_before: before(hub.settings.retention.telemetry_days),
        logs_before: before(hub.settings.retention.logs_days),
        bytes_per_agent: Some(hub.settings.retention.agent_mb).filter(|mb| *mb > 0).map(|mb| mb << 20),
    };
    match hub.store.prune(retention, now).await {
        Ok(pruned) => tracing::debug!(?pruned, "deleted old telemetry and logs"),
        Err(why) => tracing::error!(%why, "cannot delete old telemetry and logs"),
    }
}

/// The first operator's token has reached somebody: later starts keep it to themselves.
pub async fn note_token_shown(hub: &Hub) -> Result<(), StoreError> {
    hub.store.put_secret(TOKEN_SHOWN_SECRET, &SecretBytes::new(b"yes")).await
}

impl Running {
    /// Stops in order: no new connections and calls, running calls drained, agents told, the store closed.
    pub async fn stop(self) -> Result<(), StoreError> {
        self.stop_with(async {}).await
    }

    /// The same, with something that ends once calls are drained; if some go on, once they are told to end.
    pub async fn stop_with(self, guest: impl Future<Output = ()>) -> Result<(), StoreError> {
        let Self { hub, serving, upkeep, clearing, tasks, .. } = self;
        hub.events.publish(Event::Hub(HubEvent { state: HubState::Stopping, at: clock::now() }));
        hub.stopping.cancel();
        let _ = tokio::join!(upkeep, clearing);
        // What was under way at a hub that was fenced has been ended by another.
        let drain = if hub.is_fenced() { Duration::ZERO } else { hub.settings.hub.drain_s };
        hub.tasks.close();
        let mut guest = Some(guest);
        if tokio::time::timeout(drain, hub.tasks.wait()).await.is_err() {
            tracing::warn!("some calls were still running at the stop; they are recorded as interrupted");
        } else if let Some(guest) = guest.take() {
            guest.await;
        }
        for agent in hub.agents.list(None).iter() {
            hub.agents.close_link(agent, Close::Stopping);
        }
        let wires = Wires::of(&hub);
        yonexus::stop(&wires);
        rooms::stop(&wires);
        // Their calls end as interrupted and are recorded before the store closes.
        let _ = tokio::time::timeout(Duration::from_secs(5), hub.tasks.wait()).await;
        if let Some(guest) = guest {
            guest.await;
        }
        let sessions = Sessions::of(&hub);
        sessions.close_all().await;
        // Streams end by themselves now, with what they still have to say; whose client does not read is cut off.
        let mut serving = serving;
        if tokio::time::timeout(LAST_WORDS, &mut serving).await.is_err() {
            sessions.break_off();
            let _ = tokio::time::timeout(LAST_WORDS / 4, &mut serving).await;
            serving.abort();
        }
        convoke_gate::calls::settle_owed(&hub).await;
        tasks.end(&hub).await;
        let now = clock::now();
        for record in hub.strangers.drain(now) {
            hub.note(record).await;
        }
        let stopped = Draft::new(now, Kind::Hub).detail(&json!({ "what": "stopped" }));
        let told = async {
            hub.store.append(stopped).await?;
            hub.store.checkpoint(now).await
        };
        let told = told.await;
        // Closed also when the last word could not be written: what is committed is put in its place.
        let closed = hub.store.close().await;
        // Of a hub that was fenced nothing can be written, and nothing is missing.
        if hub.is_fenced() { Ok(()) } else { told.map(drop).and(closed) }
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::time::Timestamp;
    use convoke_store::{LogFilter, LogRow, Lossy};

    use super::*;
    use convoke_gate::settings::Sources;

    #[tokio::test]
    async fn a_stop_does_not_wait_until_all_that_is_old_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let flags = vec![("hub.listen".to_owned(), "127.0.0.1:0".to_owned())];
        let settings = Settings::resolve(&Sources { flags, ..Sources::default() }).expect("valid settings");
        let data = dir.path().to_owned();
        let options = HubOptions { data, settings, data_key: None, hub_seed: None, operator_token: None };
        let running = start(options).await.expect("starts");
        let hub = running.hub.clone();
        let line = LogRow {
            id: 0,
            at: "then".into(),
            received_at: Timestamp::from_millis(0),
            agent: None,
            source: "hub".into(),
            level: "info".into(),
            target: "t".into(),
            message: "m".into(),
            fields: None,
        };
        for _ in 0..30 {
            hub.store.enqueue(Lossy::Logs(vec![line.clone(); 1_000])).await.expect("takes");
        }
        hub.store.checkpoint(clock::now()).await.expect("commits");
        let first = async || {
            let lines = hub.store.logs(LogFilter { limit: 1, ..LogFilter::default() }).await.expect("reads");
            lines.first().map(|line| line.id)
        };
        let begun_at = first().await;
        let clearing = tokio::spawn({
            let hub = hub.clone();
            async move { clear(&hub, true).await }
        });
        while first().await == begun_at {
            tokio::task::yield_now().await;
        }
        hub.stopping.cancel();
        clearing.await.expect("ends");
        assert!(first().await.is_some(), "there is still something to clear");
        running.stop().await.expect("stops");
    }
}
