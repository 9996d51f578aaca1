//! Hubs, leases, links and changes behind [`Hubs`]. Only on a server; an embedded database has one hub.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use convoke_core::id::{HubId, PeerId};
use convoke_core::journal::Draft;
use convoke_core::lease::{link_wins, may_be_fenced};
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use super::readers::Readers;
use super::row::{maybe_blob, time};
use super::writer::{SMALL, Tx};
use super::{Connection, OptionalExtension as _, Row, SqlStore, agents, calls, journal, params};
use crate::error::StoreError;
use crate::postgres::{NOW, Seat, Server, lock_of};
use crate::seal::random;
use crate::{AgentRow, Announced, CallRow, ChangeRow, HubRow, Hubs, Membership, OnChange, PeerLink, Result, Turn};

/// Changes in one page.
const PAGE: u32 = 1_000;
/// Connections beside the store's own, so that a lease is renewed however busy those are.
const CONNECTIONS: usize = 3;
/// How long a thread waits for a notification before it looks whether the store is still open.
const LISTEN: Duration = Duration::from_secs(1);

/// This hub's place among several.
pub(crate) struct ClusterSeat {
    server: Server,
    hub_id: HubId,
    instance: [u8; 16],
    epoch: u64,
    in_force: u64,
    lease: Duration,
    beside: Readers,
    closed: Arc<AtomicBool>,
}

impl fmt::Debug for ClusterSeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterSeat")
            .field("hub_id", &self.hub_id)
            .field("epoch", &self.epoch)
            .finish_non_exhaustive()
    }
}

impl Drop for ClusterSeat {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

impl ClusterSeat {
    pub(crate) fn new(server: &Server, seat: &Seat, lease: Duration) -> Self {
        let reading = server.clone();
        Self {
            server: server.clone(),
            hub_id: seat.hub_id,
            instance: seat.instance,
            epoch: seat.epoch as u64,
            in_force: seat.in_force as u64,
            lease,
            beside: Readers::new(Arc::new(move || reading.connect()), CONNECTIONS),
            closed: Arc::default(),
        }
    }

    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.beside.close();
    }
}

/// What only a server has was asked of an embedded database.
fn alone() -> StoreError {
    StoreError::Conflict("this hub has its database alone".into())
}

impl SqlStore {
    fn seat(&self) -> Result<&ClusterSeat> {
        self.cluster.as_deref().ok_or_else(alone)
    }

    /// Runs something beside the writer, on a connection that only the cluster's own statements use.
    async fn beside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.seat()?.beside.read(work).await
    }
}

#[async_trait]
impl Hubs for SqlStore {
    fn membership(&self) -> Option<Membership> {
        let seat = self.cluster.as_ref()?;
        Some(Membership {
            key: SecretBytes::new(*self.key.bytes()),
            epoch: seat.epoch,
            lease: seat.lease,
            in_force: seat.in_force,
        })
    }

    async fn hubs(&self) -> Result<Vec<HubRow>> {
        match &self.cluster {
            Some(_) => self.beside(hubs).await,
            None if self.server.is_some() => self.readers.read(hubs).await,
            None => Ok(Vec::new()),
        }
    }

    async fn renew(&self, announced: Announced, in_force: u64) -> Result<bool> {
        let seat = self.seat()?;
        let (id, instance, length) = (seat.hub_id.to_string(), seat.instance, seat.lease.as_millis() as i64);
        let renew = format!(
            "UPDATE hubs SET lease_until = {NOW} + ?3, address = ?4, pin = ?5, in_force = greatest(in_force, ?6)
             WHERE id = ?1 AND instance = ?2"
        );
        self.beside(move |conn| {
            let values = params![id, instance, length, announced.address, announced.pin, in_force as i64];
            Ok(conn.execute(&renew, values)? > 0)
        })
        .await
    }

    async fn release(&self) -> Result<()> {
        let seat = self.seat()?;
        let (id, instance) = (seat.hub_id.to_string(), seat.instance);
        self.beside(move |conn| {
            conn.transaction(|conn| {
                let ours = "UPDATE hubs SET lease_until = 0 WHERE id = ?1 AND instance = ?2";
                if conn.execute(ours, params![id, instance])? > 0 {
                    conn.execute("DELETE FROM links WHERE hub_id = ?1", [id])?;
                }
                Ok(())
            })
        })
        .await
    }

    async fn fence(&self, hub: HubId) -> Result<bool> {
        let (id, nobody) = (hub.to_string(), random::<16>()?);
        let own = self.hub_id;
        if hub == own {
            return Ok(false);
        }
        self.beside(move |conn| {
            conn.transaction(|conn| {
                let look = format!("SELECT lease_until, {NOW} FROM hubs WHERE id = ?1 FOR UPDATE");
                let found: Option<(i64, i64)> =
                    conn.query_row(&look, [&id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
                if !found.is_some_and(|(until, now)| may_be_fenced(until, now)) {
                    return Ok(false);
                }
                conn.execute(
                    "UPDATE hubs SET epoch = epoch + 1, instance = ?2, lease_until = 0 WHERE id = ?1",
                    params![id, nobody],
                )?;
                conn.execute("DELETE FROM links WHERE hub_id = ?1", [&id])?;
                Ok(true)
            })
        })
        .await
    }

    async fn turn(&self, what: &'static str) -> Result<Turn> {
        let Some(seat) = &self.cluster else { return Ok(Turn::alone()) };
        let server = seat.server.clone();
        let taken = tokio::task::spawn_blocking(move || {
            let conn = server.connect()?;
            conn.query_row("SELECT 1 FROM pg_advisory_lock(?1)", [lock_of("convoke-turn-v1", what)], |_| Ok(()))?;
            Ok(Turn::holding(conn))
        });
        taken.await.map_err(|_| StoreError::Closed)?
    }

    async fn next_link(&self) -> Result<u64> {
        self.beside(|conn| {
            let epoch: i64 = conn.query_row("SELECT nextval('link_epochs')", [], |row| row.get(0))?;
            Ok(epoch as u64)
        })
        .await
    }

    async fn claim_link(&self, link: PeerLink) -> Result<bool> {
        self.queue.run(SMALL + link.facts.len(), move |tx| claim(tx, &link)).await
    }

    async fn leave_link(&self, peer: &str, epoch: u64) -> Result<()> {
        let peer = peer.to_owned();
        self.queue
            .run(SMALL, move |tx| {
                let leave = "DELETE FROM links WHERE peer = ?1 AND epoch = ?2";
                tx.conn.execute(leave, params![peer, epoch as i64]).map(drop)
            })
            .await
    }

    async fn set_link_facts(&self, peer: &str, epoch: u64, facts: String) -> Result<()> {
        let peer = peer.to_owned();
        self.queue
            .run(SMALL + facts.len(), move |tx| {
                let set = "UPDATE links SET facts = ?3 WHERE peer = ?1 AND epoch = ?2";
                tx.conn.execute(set, params![peer, epoch as i64, facts]).map(drop)
            })
            .await
    }

    async fn links(&self, of: Option<Vec<String>>) -> Result<Vec<PeerLink>> {
        self.beside(move |conn| links(conn, of)).await
    }

    async fn changes(&self, after: u64) -> Result<Vec<ChangeRow>> {
        let own = self.hub_id.to_string();
        self.beside(move |conn| {
            let page = "SELECT num, what, id, hub_id FROM changes WHERE num > ?1 ORDER BY num LIMIT ?2";
            let rows = conn.prepare_cached(page)?.query_map(params![after as i64, i64::from(PAGE)], |row| {
                Ok(ChangeRow {
                    num: row.get::<i64>(0)? as u64,
                    what: row.get(1)?,
                    id: row.get(2)?,
                    is_own: *row.text(3)? == own,
                })
            })?;
            rows.collect()
        })
        .await
    }

    async fn last_change(&self) -> Result<u64> {
        self.beside(|conn| {
            let num: i64 = conn.query_row("SELECT num FROM change_count", [], |row| row.get(0))?;
            Ok(num as u64)
        })
        .await
    }

    async fn forget_changes(&self) -> Result<()> {
        let forget =
            format!("DELETE FROM changes WHERE num <= (SELECT min(in_force) FROM hubs WHERE lease_until > {NOW})");
        self.beside(move |conn| conn.execute(&forget, []).map(drop)).await
    }

    fn on_change(&self, call: OnChange) -> Result<()> {
        let seat = self.seat()?;
        let (server, closed) = (seat.server.clone(), Arc::clone(&seat.closed));
        let listening = thread::Builder::new().name("store-changes".into()).spawn(move || {
            while !closed.load(Ordering::Relaxed) {
                // Whoever follows looks now and then by itself, so a server that is away costs only time.
                if let Err(why) = listen(&server, &closed, &call) {
                    tracing::debug!(%why, "cannot listen for changes; trying again");
                    thread::sleep(LISTEN);
                }
            }
        });
        listening
            .map(drop)
            .map_err(|why| StoreError::Io { what: "start a thread that listens".into(), source: Arc::new(why) })
    }

    async fn agent(&self, id: &PeerId) -> Result<Option<AgentRow>> {
        let id = id.clone();
        self.readers.read(move |conn| agents::one(conn, &id)).await
    }

    async fn open_intents_of(&self, hub: HubId) -> Result<Vec<Draft>> {
        self.readers.read(move |conn| journal::open_intents(conn, hub)).await
    }

    async fn stranded_calls_of(&self, hub: HubId) -> Result<Vec<CallRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| calls::stranded(conn, hub, &key)).await
    }
}

/// Calls back for each notification until the store is closed or the connection ends.
fn listen(server: &Server, closed: &AtomicBool, call: &OnChange) -> Result<()> {
    let conn = server.connect()?;
    let session = conn.postgres().ok_or(StoreError::Closed)?;
    session.batch("LISTEN convoke_changes")?;
    // Some may have come before.
    call();
    while !closed.load(Ordering::Relaxed) {
        if session.wait_for_notice(LISTEN)? {
            call();
        }
    }
    Ok(())
}

fn hubs(conn: &Connection) -> Result<Vec<HubRow>> {
    let all = format!(
        "SELECT id, name, address, pin, public_key, epoch, since, lease_until > {NOW}, in_force,
            (SELECT count(*) FROM links WHERE hub_id = hubs.id), lease_until <= {NOW}
                AND (lease_until > 0 OR EXISTS (SELECT 1 FROM open_intents o WHERE o.hub_id = hubs.id)) FROM hubs ORDER BY name"
    );
    let rows = conn.prepare_cached(&all)?.query_map([], |row| {
        Ok(HubRow {
            id: hub_id(row, 0)?,
            name: row.get(1)?,
            announced: Announced { address: row.get(2)?, pin: maybe_blob(row, 3)? },
            public_key: maybe_blob(row, 4)?,
            epoch: row.get::<i64>(5)? as u64,
            since: time(row, 6)?,
            is_live: row.get(7)?,
            in_force: row.get::<i64>(8)? as u64,
            links: row.get::<i64>(9)? as u64,
            has_lapsed: row.get(10)?,
        })
    })?;
    rows.collect()
}

fn hub_id(row: &Row<'_>, column: usize) -> Result<HubId> {
    row.text(column)?.parse().map_err(|_| StoreError::Corrupt("a hub's id is malformed".into()))
}

/// The newest link stands, wherever it connected.
fn claim(tx: &mut Tx<'_>, link: &PeerLink) -> Result<bool> {
    let standing: Option<i64> = tx
        .conn
        .prepare_cached("SELECT epoch FROM links WHERE peer = ?1 FOR UPDATE")?
        .query_row([&link.peer], |row| row.get(0))
        .optional()?;
    if !link_wins(standing.map(|epoch| epoch as u64), link.epoch) {
        return Ok(false);
    }
    // Where nobody stood, somebody may have come in between.
    let claimed = tx
        .conn
        .prepare_cached(
            "INSERT INTO links (peer, epoch, hub_id, since, facts) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (peer) DO UPDATE SET epoch = excluded.epoch, hub_id = excluded.hub_id, since = excluded.since,
                facts = excluded.facts WHERE links.epoch < excluded.epoch",
        )?
        .execute(params![
            link.peer,
            link.epoch as i64,
            tx.hub_id().to_string(),
            link.since.millis(),
            link.facts
        ])?;
    Ok(claimed > 0)
}

fn links(conn: &Connection, of: Option<Vec<String>>) -> Result<Vec<PeerLink>> {
    let all = format!(
        "SELECT l.peer, l.epoch, l.hub_id, l.since, l.facts, h.lease_until > {NOW} FROM links l JOIN hubs h ON h.id = l.hub_id"
    );
    let read = |row: &Row<'_>| {
        Ok(PeerLink {
            peer: row.get(0)?,
            epoch: row.get::<i64>(1)? as u64,
            hub: hub_id(row, 2)?,
            since: row.get(3).map(Timestamp::from_millis)?,
            facts: row.get(4)?,
            is_live: row.get(5)?,
        })
    };
    let Some(of) = of else { return conn.prepare_cached(&all)?.query_map([], read)?.collect() };
    let mut one = conn.prepare_cached(&format!("{all} WHERE l.peer = ?1"))?;
    let mut found = Vec::with_capacity(of.len());
    for peer in of {
        found.extend(one.query_row([peer], read).optional()?);
    }
    Ok(found)
}
