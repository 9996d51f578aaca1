//! Seals everything anew when the data key is rotated.

use convoke_core::id::{CallId, HubId};
use convoke_core::journal::Draft;
use uuid::Uuid;

use super::{Connection, accounts, calls, clients, journal, notices, outbox, params, people, rooms, set_meta};
use crate::Result;
use crate::seal::DataKey;

/// Seals everything anew and appends the record, in one transaction. Answers how many sealed values there were.
pub(crate) fn all(
    conn: &Connection,
    hub_id: HubId,
    old: &DataKey,
    new: &DataKey,
    record: &dyn Fn(usize) -> Draft,
) -> Result<usize> {
    conn.transaction(|conn| {
        let values = reseal_secrets(conn, old, new)?
            + reseal_calls(conn, old, new)?
            + clients::reseal(conn, old, new)?
            + notices::reseal(conn, old, new)?
            + outbox::reseal(conn, old, new)?
            + rooms::reseal(conn, old, new)?
            + accounts::reseal(conn, old, new)?;
        set_meta(conn, "key_id", &new.id())?;
        journal::append_alone(conn, hub_id, &record(values))?;
        Ok(values)
    })
}

/// Opens every sealed value that must open. Answers how many there are.
pub(crate) fn open_all(conn: &Connection, key: &DataKey) -> Result<usize> {
    let names: Vec<String> =
        conn.prepare_cached("SELECT name FROM secrets")?.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    for name in &names {
        super::secret(conn, key, name)?;
    }
    let users = accounts::users(conn, key)?.iter().filter(|user| user.totp.is_some()).count();
    let rules = outbox::rules(conn, key)?.iter().filter(|rule| rule.secret.is_some()).count();
    let clients = clients::all(conn, key, None)?.iter().filter(|client| client.secret.is_some()).count();
    let whole = rooms::all(conn, key)?.len() + notices::channels(conn, key)?.len();
    Ok(names.len() + users + rules + clients + whole)
}

fn reseal_secrets(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let secrets: Vec<(String, Vec<u8>)> = conn
        .prepare_cached("SELECT name, sealed FROM secrets")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (name, sealed) in &secrets {
        let purpose = people::secret_purpose(name);
        let value = new.seal(&purpose, old.open(&purpose, sealed)?.reveal())?;
        conn.execute("UPDATE secrets SET sealed = ?2 WHERE name = ?1", params![name, value])?;
    }
    Ok(secrets.len())
}

fn reseal_calls(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let calls: Vec<([u8; 16], String, String, Vec<u8>)> = conn
        .prepare_cached("SELECT id, target, tool, args FROM calls WHERE args IS NOT NULL")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
        .collect::<Result<_>>()?;
    for (id, target, tool, sealed) in &calls {
        let purpose = calls::args_purpose(CallId::new(Uuid::from_bytes(*id)), target, tool);
        // What could not be opened before cannot be after.
        let Ok(args) = old.open(&purpose, sealed) else { continue };
        let value = new.seal(&purpose, args.reveal())?;
        conn.execute("UPDATE calls SET args = ?2 WHERE id = ?1", params![id, value])?;
    }
    Ok(calls.len())
}
