//! Sonde agents and their enrolment tokens.

use convoke_core::journal::Draft;
use convoke_core::peer::Trust;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;

use super::row::{blob, maybe_blob, maybe_time, peer, time};
use super::writer::Tx;
use super::{Connection, OptionalExtension as _, params};
use crate::Result;
use crate::{SondeAgentRow, SondeEnrolled, SondeTokenRow};

pub(super) fn agents(conn: &Connection) -> Result<Vec<SondeAgentRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT agent, name, key_hash, cert_pem, cert_fingerprint, own_key, facts FROM sonde_agents ORDER BY agent",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(SondeAgentRow {
            id: peer(row, 0)?,
            name: row.get(1)?,
            key_hash: TokenHash(blob(row, 2)?),
            cert_pem: row.get(3)?,
            cert_fingerprint: maybe_blob(row, 4)?,
            own_key: row.get(5)?,
            facts: row.get(6)?,
        })
    })?;
    rows.collect()
}

pub(super) fn tokens(conn: &Connection) -> Result<Vec<SondeTokenRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT hash, name, created_at, expires_at, used_at, used_by FROM sonde_tokens ORDER BY created_at",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(SondeTokenRow {
            hash: TokenHash(blob(row, 0)?),
            name: row.get(1)?,
            created_at: time(row, 2)?,
            expires_at: time(row, 3)?,
            used_at: maybe_time(row, 4)?,
            used_by: row.get::<Option<String>>(5)?.map(|_| peer(row, 5)).transpose()?,
        })
    })?;
    rows.collect()
}

/// Keeps a token; those that lapsed more than a day ago go.
pub(super) fn put_token(tx: &mut Tx<'_>, token: &SondeTokenRow, record: &Draft) -> Result<()> {
    const DAY_MS: i64 = 86_400_000;
    tx.conn
        .prepare_cached("DELETE FROM sonde_tokens WHERE expires_at < ?1")?
        .execute([token.created_at.millis() - DAY_MS])?;
    tx.conn
        .prepare_cached("INSERT INTO sonde_tokens (hash, name, created_at, expires_at) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![token.hash.0, token.name, token.created_at.millis(), token.expires_at.millis()])?;
    tx.append(record)?;
    Ok(())
}

/// Uses a token and keeps the agent, in one transaction with its record. Records nothing unless it did.
pub(super) fn enrol(
    tx: &mut Tx<'_>,
    token: &TokenHash,
    agent: &SondeAgentRow,
    now: Timestamp,
    record: &Draft,
) -> Result<SondeEnrolled> {
    let found: Option<(Option<String>, Timestamp, Option<Timestamp>)> = tx
        .conn
        .prepare_cached("SELECT name, expires_at, used_at FROM sonde_tokens WHERE hash = ?1")?
        .query_row([token.0], |row| Ok((row.get(0)?, time(row, 1)?, maybe_time(row, 2)?)))
        .optional()?;
    let Some((name, expires_at, used_at)) = found else { return Ok(SondeEnrolled::Unknown) };
    if used_at.is_some() {
        return Ok(SondeEnrolled::Used);
    }
    if now >= expires_at {
        return Ok(SondeEnrolled::Expired);
    }
    if name.is_some_and(|name| name != agent.name) {
        return Ok(SondeEnrolled::OtherName);
    }
    let holder: Option<String> = tx
        .conn
        .prepare_cached("SELECT agent FROM sonde_agents WHERE name = ?1")?
        .query_row([&agent.name], |row| row.get(0))
        .optional()?;
    if holder.is_some_and(|holder| holder != agent.id.as_str()) {
        return Ok(SondeEnrolled::NameTaken);
    }
    tx.conn
        .prepare_cached(
            "INSERT INTO agents (id, trust, created_at, enrolled_at) VALUES (?1, ?2, ?3, ?3)
             ON CONFLICT (id) DO UPDATE SET trust = excluded.trust, enrolled_at = excluded.enrolled_at",
        )?
        .execute(params![agent.id.as_str(), Trust::Trusted.name(), now.millis()])?;
    put(tx, agent)?;
    super::joined::forget(tx, &agent.id)?;
    tx.conn
        .prepare_cached("UPDATE sonde_tokens SET used_at = ?2, used_by = ?3 WHERE hash = ?1")?
        .execute(params![token.0, now.millis(), agent.id.as_str()])?;
    tx.append(record)?;
    Ok(SondeEnrolled::Done)
}

fn put(tx: &Tx<'_>, agent: &SondeAgentRow) -> Result<()> {
    tx.conn
        .prepare_cached(
            "INSERT INTO sonde_agents (agent, name, key_hash, cert_pem, cert_fingerprint, own_key, facts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (agent) DO UPDATE SET name = excluded.name, key_hash = excluded.key_hash,
               cert_pem = excluded.cert_pem, cert_fingerprint = excluded.cert_fingerprint,
               own_key = excluded.own_key, facts = excluded.facts",
        )?
        .execute(params![
            agent.id.as_str(),
            agent.name,
            agent.key_hash.0,
            agent.cert_pem,
            agent.cert_fingerprint,
            agent.own_key,
            agent.facts
        ])?;
    Ok(())
}

/// Keeps what an agent says about itself. False when there is no such agent.
pub(super) fn set_facts(tx: &mut Tx<'_>, agent: &str, facts: &str, record: Option<&Draft>) -> Result<bool> {
    let changed = tx
        .conn
        .prepare_cached("UPDATE sonde_agents SET facts = ?2 WHERE agent = ?1")?
        .execute(params![agent, facts])?;
    if let (true, Some(record)) = (changed > 0, record) {
        tx.append(record)?;
    }
    Ok(changed > 0)
}
