//! Agents and their enrolment tokens.

use convoke_core::id::PeerId;
use convoke_core::journal::{Draft, Kind};
use convoke_core::peer::{Trust, TrustEvent};
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use serde_json::json;

use super::row::{self, maybe_blob, maybe_raw, maybe_time, named, peer, time};
use super::writer::Tx;
use super::{Connection, OptionalExtension as _, Row, params, telemetry};
use crate::{AgentRow, EnrolOutcome, EnrolToken, Result};

const AGENT: &str =
    "SELECT a.id, a.trust, a.public_key, a.tags, a.meta, a.protocol_version, a.created_at, a.enrolled_at,
            m.last_seen, s.health, s.collected_at
     FROM agents a LEFT JOIN agent_marks m ON m.num = a.num
     LEFT JOIN snapshots s ON s.id = m.latest_snapshot AND s.agent = a.num";

/// All agents, each with the health of its latest snapshot.
pub(super) fn all(conn: &Connection) -> Result<Vec<AgentRow>> {
    let rows = conn.prepare_cached(&format!("{AGENT} ORDER BY a.id"))?.query_map([], agent_row)?;
    rows.collect()
}

/// One agent.
pub(super) fn one(conn: &Connection, id: &PeerId) -> Result<Option<AgentRow>> {
    conn.prepare_cached(&format!("{AGENT} WHERE a.id = ?1"))?.query_row([id.as_str()], agent_row).optional()
}

fn agent_row(row: &Row<'_>) -> Result<AgentRow> {
    Ok(AgentRow {
        id: peer(row, 0)?,
        trust: named(row, 1, Trust::parse)?,
        public_key: maybe_blob(row, 2)?,
        tags: row::json(row, 3)?,
        meta: maybe_raw(row, 4)?,
        protocol_version: row.get(5)?,
        created_at: time(row, 6)?,
        enrolled_at: maybe_time(row, 7)?,
        last_seen: maybe_time(row, 8)?,
        health: row.get(9)?,
        collected_at: row.get(10)?,
    })
}

pub(super) fn mint_token(
    tx: &mut Tx<'_>,
    token: &EnrolToken,
    trust: Trust,
    now: Timestamp,
    record: &Draft,
) -> Result<()> {
    let num: i64 = tx
        .conn
        .prepare_cached(
            "INSERT INTO agents (id, trust, created_at) VALUES (?1, ?2, ?3)
             ON CONFLICT (id) DO UPDATE SET trust = excluded.trust RETURNING num",
        )?
        .query_row(params![token.agent.as_str(), trust.name(), now.millis()], |row| row.get(0))?;
    tx.conn.prepare_cached("DELETE FROM enrol_tokens WHERE agent = ?1 AND used_key IS NULL")?.execute([num])?;
    tx.conn
        .prepare_cached("INSERT INTO enrol_tokens (hash, agent, expires_at, replaces_key) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![token.hash.0, num, token.expires_at.millis(), token.replaces_key])?;
    tx.append(record)?;
    Ok(())
}

pub(super) fn ensure(tx: &mut Tx<'_>, agent: &PeerId, now: Timestamp) -> Result<()> {
    tx.conn
        .prepare_cached("INSERT INTO agents (id, trust, created_at) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO NOTHING")?
        .execute(params![agent.as_str(), Trust::Unpaired.name(), now.millis()])?;
    Ok(())
}

pub(super) fn token_valid(
    conn: &Connection,
    agent: &PeerId,
    token: &TokenHash,
    key: Option<[u8; 32]>,
    now: Timestamp,
) -> Result<bool> {
    let found: Option<i64> = conn
        .prepare_cached(
            "SELECT 1 FROM enrol_tokens t JOIN agents a ON a.num = t.agent
             WHERE t.hash = ?1 AND a.id = ?2 AND (t.used_key IS NULL OR t.used_key = ?4) AND t.expires_at > ?3",
        )?
        .query_row(params![token.0, agent.as_str(), now.millis(), key], |row| row.get(0))
        .optional()?;
    Ok(found.is_some())
}

pub(super) fn enrol(
    tx: &mut Tx<'_>,
    agent: &PeerId,
    token: &TokenHash,
    public_key: [u8; 32],
    now: Timestamp,
    record: &Draft,
) -> Result<EnrolOutcome> {
    type Found = (i64, Trust, Option<[u8; 32]>, Timestamp, bool, Option<[u8; 32]>);
    // Found by its hash, whose bytes tell nothing about the token that a guesser would have to find.
    let found: Option<Found> = tx
        .conn
        .prepare_cached(
            "SELECT a.num, a.trust, a.public_key, t.expires_at, t.replaces_key, t.used_key
             FROM enrol_tokens t JOIN agents a ON a.num = t.agent WHERE t.hash = ?1 AND a.id = ?2",
        )?
        .query_row(params![token.0, agent.as_str()], |row| {
            let trust = named(row, 1, Trust::parse)?;
            Ok((row.get(0)?, trust, maybe_blob(row, 2)?, time(row, 3)?, row.get(4)?, maybe_blob(row, 5)?))
        })
        .optional()?;
    let Some((num, trust, bound, expires_at, replaces_key, used_key)) = found else {
        return Ok(EnrolOutcome::BadToken);
    };
    if now >= expires_at {
        return Ok(EnrolOutcome::BadToken);
    }
    if let Some(used) = used_key {
        // Only while it still holds: a lost reply is repeated, a key that was revoked since is not welcomed back.
        let holds = used == public_key && bound == Some(public_key) && trust == Trust::Trusted;
        return Ok(if holds { EnrolOutcome::AlreadySame } else { EnrolOutcome::BadToken });
    }
    if trust.after(TrustEvent::Bound) != Trust::Trusted {
        return Ok(EnrolOutcome::BadToken);
    }
    if bound.is_some() && !replaces_key {
        return Ok(EnrolOutcome::AlreadyEnrolled);
    }
    let retired: bool = tx
        .conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM retired_keys WHERE key = ?1)")?
        .query_row([public_key], |row| row.get(0))?;
    if retired || bound == Some(public_key) {
        return Ok(EnrolOutcome::OldKey);
    }
    retire_key(tx, num)?;
    super::joined::forget(tx, agent)?;
    tx.conn
        .prepare_cached("UPDATE agents SET trust = ?2, public_key = ?3, enrolled_at = ?4 WHERE num = ?1")?
        .execute(params![num, Trust::Trusted.name(), public_key, now.millis()])?;
    tx.conn
        .prepare_cached("UPDATE enrol_tokens SET used_key = ?2 WHERE hash = ?1")?
        .execute(params![token.0, public_key])?;
    tx.append(record)?;
    Ok(EnrolOutcome::Bound)
}

pub(super) fn set_trust(
    tx: &mut Tx<'_>,
    agent: &PeerId,
    trust: Trust,
    forget_key: bool,
    record: &Draft,
) -> Result<bool> {
    let num: Option<i64> = tx
        .conn
        .prepare_cached("UPDATE agents SET trust = ?2 WHERE id = ?1 RETURNING num")?
        .query_row(params![agent.as_str(), trust.name()], |row| row.get(0))
        .optional()?;
    let Some(num) = num else { return Ok(false) };
    if forget_key {
        retire_key(tx, num)?;
        tx.conn
            .prepare_cached("UPDATE agents SET public_key = NULL, enrolled_at = NULL WHERE num = ?1")?
            .execute([num])?;
        tx.conn.prepare_cached("DELETE FROM enrol_tokens WHERE agent = ?1")?.execute([num])?;
    }
    tx.append(record)?;
    Ok(true)
}

/// The key that is bound is never taken again.
fn retire_key(tx: &mut Tx<'_>, num: i64) -> Result<()> {
    tx.conn
        .prepare_cached(
            "INSERT INTO retired_keys
             SELECT public_key, id FROM agents WHERE num = ?1 AND public_key IS NOT NULL ON CONFLICT DO NOTHING",
        )?
        .execute([num])?;
    Ok(())
}

/// Agents that wait for an enrolment no token allows any more.
pub(super) fn lapse(tx: &mut Tx<'_>, now: Timestamp) -> Result<Vec<PeerId>> {
    let lapsed = tx
        .conn
        .prepare_cached(
            "UPDATE agents SET trust = ?1 WHERE trust = ?2 AND NOT EXISTS (SELECT 1 FROM enrol_tokens t
             WHERE t.agent = agents.num AND t.used_key IS NULL AND t.expires_at > ?3) RETURNING id",
        )?
        .query_map(
            params![Trust::Pending.after(TrustEvent::Lapsed).name(), Trust::Pending.name(), now.millis()],
            |row| peer(row, 0),
        )?
        .collect::<Result<Vec<_>>>()?;
    for agent in &lapsed {
        let mut record = Draft::new(now, Kind::Enrol);
        record.who = Some("hub".into());
        record.target = Some(agent.as_str().into());
        tx.append(&record.detail(&json!({ "what": "the enrolment token expired" })))?;
    }
    Ok(lapsed)
}

pub(super) fn set_tags(tx: &mut Tx<'_>, agent: &PeerId, tags: &[String], record: &Draft) -> Result<bool> {
    let mut tags = tags.to_vec();
    tags.sort_unstable();
    tags.dedup();
    let tags = serde_json::to_string(&tags).expect("a list of strings serialises");
    let changed = tx
        .conn
        .prepare_cached("UPDATE agents SET tags = ?2 WHERE id = ?1")?
        .execute(params![agent.as_str(), tags])?;
    if changed > 0 {
        tx.append(record)?;
    }
    Ok(changed > 0)
}

/// Takes the agent and its tokens away at once, and notes its snapshots and logs for [`sweep`].
pub(super) fn remove(tx: &mut Tx<'_>, agent: &PeerId, record: &Draft) -> Result<bool> {
    let Some((num, snapshot)) = telemetry::marks(tx.conn, agent)? else { return Ok(false) };
    tx.conn.prepare_cached("DELETE FROM agents WHERE num = ?1")?.execute([num])?;
    super::joined::forget(tx, agent)?;
    // Only lines up to here: an agent of the same name may come tomorrow.
    tx.conn
        .prepare_cached(
            "INSERT INTO sweeps (agent_num, agent, snapshot, last_log)
             VALUES (?1, ?2, ?3, (SELECT coalesce(max(id), 0) FROM logs))",
        )?
        .execute(params![num, agent.as_str(), snapshot])?;
    tx.append(record)?;
    Ok(true)
}

/// Takes away a piece of what removed agents left behind. Answers how much; 0 when there is nothing more.
pub(super) fn sweep(tx: &mut Tx<'_>) -> Result<u64> {
    const PIECE: i64 = 200;
    let work: Option<(i64, String, Option<i64>, i64)> = tx
        .conn
        .prepare_cached("SELECT agent_num, agent, snapshot, last_log FROM sweeps LIMIT 1")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .optional()?;
    let Some((num, agent, mut snapshot, last_log)) = work else { return Ok(0) };
    let mut removed = 0;
    while let Some(id) = snapshot
        && removed < PIECE
    {
        snapshot = tx
            .conn
            .prepare_cached("DELETE FROM snapshots WHERE id = ?1 AND agent = ?2 RETURNING previous")?
            .query_row([id, num], |row| row.get(0))
            .optional()?
            .flatten();
        removed += 1;
    }
    tx.conn
        .prepare_cached("UPDATE sweeps SET snapshot = ?2 WHERE agent_num = ?1")?
        .execute(params![num, snapshot])?;
    if removed < PIECE {
        let logs = tx
            .conn
            .prepare_cached(
                "DELETE FROM logs WHERE id IN (SELECT id FROM logs WHERE agent = ?1 AND id <= ?2 ORDER BY id LIMIT ?3)",
            )?
            .execute(params![agent, last_log, PIECE - removed])? as i64;
        removed += logs;
    }
    if removed < PIECE {
        tx.conn.prepare_cached("DELETE FROM sweeps WHERE agent_num = ?1")?.execute([num])?;
    }
    // A finished sweep of nothing is progress too: the caller must look for the next one.
    Ok(removed.max(1) as u64)
}
