//! Rules, the inbox, and what waits for clients that are away.

use convoke_core::id::HubId;
use convoke_core::journal::Draft;
use convoke_core::time::Timestamp;

use super::row::time;
use super::telemetry::page;
use super::writer::Tx;
use super::{Connection, params};
use crate::seal::DataKey;
use crate::{MessageFilter, MessageRow, OutboxRow, OutboxTotal, Result, RuleRow};

/// What a rule's secret is sealed for.
pub(super) fn rule_purpose(rule: &str) -> String {
    format!("rule:{rule}")
}

pub(super) fn rules(conn: &Connection, key: &DataKey) -> Result<Vec<RuleRow>> {
    let mut statement = conn.prepare_cached("SELECT id, body, secret FROM rules ORDER BY place")?;
    let rows = statement.query_map([], |row| {
        let sealed: Option<Vec<u8>> = row.get(2)?;
        Ok((RuleRow { rule: row.get(0)?, body: row.get(1)?, secret: None }, sealed))
    })?;
    rows.map(|row| {
        let (mut rule, sealed) = row?;
        rule.secret = sealed.map(|sealed| key.open(&rule_purpose(&rule.rule), &sealed)).transpose()?;
        Ok(rule)
    })
    .collect()
}

/// A rule that is replaced keeps its place.
pub(super) fn put_rule(tx: &mut Tx<'_>, rule: &RuleRow, sealed: Option<&[u8]>, record: &Draft) -> Result<()> {
    tx.conn
        .prepare_cached(
            "INSERT INTO rules (id, body, secret) VALUES (?1, ?2, ?3)
             ON CONFLICT (id) DO UPDATE SET body = excluded.body, secret = excluded.secret",
        )?
        .execute(params![rule.rule, rule.body, sealed])?;
    tx.append(record)?;
    Ok(())
}

pub(super) fn delete_rule(tx: &mut Tx<'_>, rule: &str, record: &Draft) -> Result<bool> {
    let gone = tx.conn.prepare_cached("DELETE FROM rules WHERE id = ?1")?.execute([rule])?;
    if gone > 0 {
        tx.append(record)?;
    }
    Ok(gone > 0)
}

pub(super) fn put_message(tx: &mut Tx<'_>, message: &MessageRow, most: u64) -> Result<i64> {
    let id: i64 = tx
        .conn
        .prepare_cached("INSERT INTO messages (at, rule, sender, content) VALUES (?1, ?2, ?3, ?4) RETURNING id")?
        .query_row(params![message.at.millis(), message.rule, message.sender, message.content], |row| row.get(0))?;
    // Ids have no gaps but those of what was pruned by age, so this keeps `most` at the most.
    let oldest = id.saturating_sub(i64::try_from(most).unwrap_or(i64::MAX));
    tx.conn.prepare_cached("DELETE FROM messages WHERE id <= ?1")?.execute([oldest])?;
    Ok(id)
}

pub(super) fn messages(conn: &Connection, filter: &MessageFilter) -> Result<Vec<MessageRow>> {
    let read = |row: &super::Row<'_>| {
        Ok(MessageRow {
            id: row.get(0)?,
            at: time(row, 1)?,
            rule: row.get(2)?,
            sender: row.get(3)?,
            content: row.get(4)?,
        })
    };
    let after = filter.after.unwrap_or(0);
    match &filter.rule {
        Some(rule) => conn
            .prepare_cached(
                "SELECT id, at, rule, sender, content FROM messages WHERE rule = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
            )?
            .query_map(params![rule, after, filter.limit], read)
            .and_then(|rows| page(rows, MessageRow::bytes)),
        None => conn
            .prepare_cached("SELECT id, at, rule, sender, content FROM messages WHERE id > ?1 ORDER BY id LIMIT ?2")?
            .query_map(params![after, filter.limit], read)
            .and_then(|rows| page(rows, MessageRow::bytes)),
    }
}

pub(super) fn put_outbox(tx: &mut Tx<'_>, message: &OutboxRow, destinations: &[String]) -> Result<i64> {
    let id: i64 = tx
        .conn
        .prepare_cached(
            "INSERT INTO outbox (created_at, expires_at, rule, sender, with_id, content, hub_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) RETURNING id",
        )?
        .query_row(
            params![
                message.created_at.millis(),
                message.expires_at.millis(),
                message.rule,
                message.sender,
                message.with_id,
                message.content,
                tx.hub_id().to_string()
            ],
            |row| row.get(0),
        )?;
    let mut insert = tx.conn.prepare_cached("INSERT INTO deliveries VALUES (?1, ?2) ON CONFLICT DO NOTHING")?;
    for destination in destinations {
        insert.execute(params![destination, id])?;
    }
    Ok(id)
}

/// What this hub keeps for a destination.
pub(super) fn outbox(
    conn: &Connection,
    hub_id: HubId,
    destination: &str,
    after: i64,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<OutboxRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT o.id, o.created_at, o.expires_at, o.rule, o.sender, o.with_id, o.content
         FROM deliveries d JOIN outbox o ON o.id = d.message
         WHERE d.destination = ?1 AND d.message > ?2 AND o.expires_at > ?4 AND (o.hub_id = ?5 OR ?6)
         ORDER BY d.message LIMIT ?3",
    )?;
    let is_client = !destination.contains(':');
    let values = params![destination, after, limit, now.millis(), hub_id.to_string(), is_client];
    let rows = statement.query_map(values, |row| {
        Ok(OutboxRow {
            id: row.get(0)?,
            created_at: time(row, 1)?,
            expires_at: time(row, 2)?,
            rule: row.get(3)?,
            sender: row.get(4)?,
            with_id: row.get(5)?,
            content: row.get(6)?,
        })
    })?;
    rows.collect()
}

/// A destination has got these messages.
pub(super) fn delivered(tx: &mut Tx<'_>, destination: &str, messages: &[i64]) -> Result<()> {
    let mut delete = tx.conn.prepare_cached("DELETE FROM deliveries WHERE destination = ?1 AND message = ?2")?;
    for id in messages {
        delete.execute(params![destination, *id])?;
    }
    drop_delivered(tx, messages)
}

/// Messages that nobody waits for any more.
fn drop_delivered(tx: &Tx<'_>, messages: &[i64]) -> Result<()> {
    let mut delete = tx.conn.prepare_cached(
        "DELETE FROM outbox WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM deliveries WHERE message = ?1)",
    )?;
    for id in messages {
        delete.execute([id])?;
    }
    Ok(())
}

/// A destination is gone, and with it what any hub keeps for it.
pub(super) fn forget(tx: &mut Tx<'_>, destination: &str) -> Result<()> {
    let gone: Vec<i64> = tx
        .conn
        .prepare_cached("DELETE FROM deliveries WHERE destination = ?1 RETURNING message")?
        .query_map([destination], |row| row.get(0))?
        .collect::<Result<_>>()?;
    drop_delivered(tx, &gone)
}

/// What this hub keeps, by destination.
pub(super) fn totals(conn: &Connection, hub_id: HubId) -> Result<Vec<OutboxTotal>> {
    let mut statement = conn.prepare_cached(
        "SELECT d.destination, count(*), sum(octet_length(o.content))
         FROM deliveries d JOIN outbox o ON o.id = d.message WHERE o.hub_id = ?1 GROUP BY d.destination",
    )?;
    let rows = statement.query_map([hub_id.to_string()], |row| {
        let number = |column| row.get::<i64>(column).map(|n| u64::try_from(n).unwrap_or(0));
        Ok(OutboxTotal { destination: row.get(0)?, count: number(1)?, bytes: number(2)? })
    })?;
    rows.collect()
}

/// Takes away a piece of what has lapsed: of the outbox, what is this hub's. Answers how many deliveries went with it, and whether there is more.
pub(super) fn lapse(tx: &mut Tx<'_>, now: Timestamp, inbox_before: Option<Timestamp>) -> Result<(u64, bool)> {
    const PIECE: i64 = 500;
    let expired: Vec<i64> = tx
        .conn
        .prepare_cached("SELECT id FROM outbox WHERE expires_at <= ?1 AND hub_id = ?3 LIMIT ?2")?
        .query_map(params![now.millis(), PIECE, tx.hub_id().to_string()], |row| row.get(0))?
        .collect::<Result<_>>()?;
    let mut lapsed = 0;
    for id in &expired {
        lapsed += tx.conn.prepare_cached("DELETE FROM deliveries WHERE message = ?1")?.execute([id])?;
        tx.conn.prepare_cached("DELETE FROM outbox WHERE id = ?1")?.execute([id])?;
    }
    let mut old = 0;
    if let Some(before) = inbox_before {
        old = tx
            .conn
            .prepare_cached(
                "DELETE FROM messages WHERE id IN (SELECT id FROM messages WHERE at < ?1 ORDER BY id LIMIT ?2)",
            )?
            .execute(params![before.millis(), PIECE])?;
    }
    let more = expired.len() as i64 == PIECE || old as i64 == PIECE;
    Ok((lapsed as u64, more))
}

/// Seals the rules' secrets anew. Answers how many there were.
pub(super) fn reseal(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let values: Vec<(String, Vec<u8>)> = conn
        .prepare_cached("SELECT id, secret FROM rules WHERE secret IS NOT NULL")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (rule, sealed) in &values {
        let purpose = rule_purpose(rule);
        let value = new.seal(&purpose, old.open(&purpose, sealed)?.reveal())?;
        conn.execute("UPDATE rules SET secret = ?2 WHERE id = ?1", params![rule, value])?;
    }
    Ok(values.len())
}
