//! Yonexus clients and their pairings.

use convoke_core::journal::Draft;
use convoke_core::peer::{Liveness, Trust};
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use super::row::{blob, maybe_blob, maybe_time, named, time};
use super::writer::Tx;
use super::{Connection, params};
use crate::Result;
use crate::seal::DataKey;
use crate::{ClientRow, PairingRow};

/// What a client's sealed values are sealed for.
pub(super) fn client_purpose(identifier: &str, what: &str) -> String {
    format!("client:{identifier}:{what}")
}

/// A client with its sealed values sealed.
pub(super) struct SealedClient {
    row: ClientRow,
    secret: Option<Vec<u8>>,
    old_secrets: Option<Vec<u8>>,
    code: Option<Vec<u8>>,
}

impl SealedClient {
    /// Seals on the caller's thread: the writer has other things to do.
    pub(super) fn new(key: &DataKey, row: ClientRow) -> Result<Self> {
        let seal = |what: &str, plain: &[u8]| key.seal(&client_purpose(&row.identifier, what), plain);
        let secret = row.secret.as_ref().map(|secret| seal("secret", secret.reveal())).transpose()?;
        let old_secrets = match row.old_secrets.as_slice() {
            [] => None,
            old => Some(seal("old", &joined(old))?),
        };
        let code = row.pairing.as_ref().map(|pairing| seal("code", pairing.code.reveal())).transpose()?;
        Ok(Self { row, secret, old_secrets, code })
    }
}

/// Secrets are texts without a line break.
fn joined(secrets: &[SecretBytes]) -> Vec<u8> {
    secrets.iter().map(SecretBytes::reveal).collect::<Vec<_>>().join(&b'\n')
}

fn liveness(text: &str) -> Option<Liveness> {
    [Liveness::Online, Liveness::Unstable, Liveness::Offline].into_iter().find(|l| l.name() == text)
}

/// All clients, or the one of that identifier.
pub(super) fn all(conn: &Connection, key: &DataKey, only: Option<&str>) -> Result<Vec<ClientRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT c.identifier, c.listed, c.trust, c.public_key, c.secret, c.old_secrets, c.pause_until,
                c.rotation_until, c.reset, c.created_at, c.paired_at, c.last_auth, c.last_seen, c.liveness,
                p.code, p.public_key, p.created_at, p.expires_at, p.wrong, p.notification, p.notified, p.approved,
                p.address, c.rotation_key
         FROM clients c LEFT JOIN pairings p ON p.client = c.identifier
         WHERE ?1 OR c.identifier = ?2 ORDER BY c.identifier",
    )?;
    let rows = statement.query_map(params![only.is_none(), only], |row| {
        let identifier: String = row.get(0)?;
        let sealed: [Option<Vec<u8>>; 3] = [row.get(4)?, row.get(5)?, row.get(14)?];
        let pairing = match &sealed[2] {
            None => None,
            Some(_) => Some(PairingRow {
                code: SecretBytes::new(Vec::new()),
                public_key: blob(row, 15)?,
                created_at: time(row, 16)?,
                expires_at: time(row, 17)?,
                wrong: row.get(18)?,
                notification: row.get(19)?,
                notified: row.get(20)?,
                approved: row.get(21)?,
                address: row.get(22)?,
            }),
        };
        let client = ClientRow {
            identifier,
            listed: row.get(1)?,
            trust: named(row, 2, Trust::parse)?,
            public_key: maybe_blob(row, 3)?,
            secret: None,
            old_secrets: Vec::new(),
            pairing,
            pause_until: maybe_time(row, 6)?,
            rotation_until: maybe_time(row, 7)?,
            rotation_key: maybe_blob(row, 23)?,
            reset: row.get(8)?,
            created_at: time(row, 9)?,
            paired_at: maybe_time(row, 10)?,
            last_auth: maybe_time(row, 11)?,
            last_seen: maybe_time(row, 12)?,
            liveness: named(row, 13, liveness)?,
        };
        Ok((client, sealed))
    })?;
    rows.map(|row| {
        let (mut client, [secret, old, code]) = row?;
        let open = |what: &str, sealed: &[u8]| key.open(&client_purpose(&client.identifier, what), sealed);
        let secret = secret.map(|sealed| open("secret", &sealed)).transpose()?;
        let old = old.map(|sealed| open("old", &sealed)).transpose()?;
        let code = code.map(|sealed| open("code", &sealed)).transpose()?;
        client.secret = secret;
        if let Some(old) = old {
            client.old_secrets = old.reveal().split(|b| *b == b'\n').map(SecretBytes::new).collect();
        }
        if let (Some(pairing), Some(code)) = (&mut client.pairing, code) {
            pairing.code = code;
        }
        Ok(client)
    })
    .collect()
}

pub(super) fn put(tx: &mut Tx<'_>, client: &SealedClient, record: Option<&Draft>) -> Result<()> {
    let SealedClient { row, secret, old_secrets, code } = client;
    let millis = |time: Option<Timestamp>| time.map(Timestamp::millis);
    // An upsert and no replacement: that would take the pairing along before it is looked at.
    tx.conn
        .prepare_cached(
            "INSERT INTO clients (identifier, listed, trust, public_key, secret, old_secrets, pause_until, rotation_until,
                reset, created_at, paired_at, last_auth, last_seen, liveness, rotation_key)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
             ON CONFLICT (identifier) DO UPDATE SET listed = excluded.listed, trust = excluded.trust,
                public_key = excluded.public_key, secret = excluded.secret, old_secrets = excluded.old_secrets,
                pause_until = excluded.pause_until, rotation_until = excluded.rotation_until,
                rotation_key = excluded.rotation_key, reset = excluded.reset, paired_at = excluded.paired_at,
                last_auth = CASE WHEN clients.last_auth > coalesce(excluded.last_auth, 0) THEN clients.last_auth
                    ELSE excluded.last_auth END,
                last_seen = CASE WHEN clients.last_seen > coalesce(excluded.last_seen, 0) THEN clients.last_seen
                    ELSE excluded.last_seen END,
                liveness = excluded.liveness",
        )?
        .execute(params![
            row.identifier,
            row.listed,
            row.trust.name(),
            row.public_key,
            secret,
            old_secrets,
            millis(row.pause_until),
            millis(row.rotation_until),
            row.reset,
            row.created_at.millis(),
            millis(row.paired_at),
            millis(row.last_auth),
            millis(row.last_seen),
            row.liveness.name(),
            row.rotation_key,
        ])?;
    match (&row.pairing, code) {
        (Some(pairing), Some(code)) => {
            tx.conn
                .prepare_cached("INSERT INTO pairings (client, code, public_key, created_at, expires_at, wrong, notification, notified,
                        approved, address)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
                     ON CONFLICT (client) DO UPDATE SET code = excluded.code, public_key = excluded.public_key,
                        created_at = excluded.created_at, expires_at = excluded.expires_at, wrong = excluded.wrong,
                        notification = excluded.notification, notified = excluded.notified,
                        approved = excluded.approved, address = excluded.address")?
                .execute(params![
                    row.identifier,
                    code,
                    pairing.public_key,
                    pairing.created_at.millis(),
                    pairing.expires_at.millis(),
                    pairing.wrong,
                    pairing.notification,
                    pairing.notified,
                    pairing.approved,
                    pairing.address,
                ])?;
        }
        _ => {
            tx.conn.prepare_cached("DELETE FROM pairings WHERE client = ?1")?.execute([&row.identifier])?;
        }
    }
    if let Some(record) = record {
        tx.append(record)?;
    }
    Ok(())
}

pub(super) fn remove(tx: &mut Tx<'_>, identifier: &str, record: &Draft) -> Result<bool> {
    let gone = tx.conn.prepare_cached("DELETE FROM clients WHERE identifier = ?1")?.execute([identifier])?;
    if gone == 0 {
        return Ok(false);
    }
    super::outbox::forget(tx, identifier)?;
    tx.append(record)?;
    Ok(true)
}

/// A client was heard of; one that was removed meanwhile is left out.
pub(super) fn seen(
    tx: &Tx<'_>,
    identifier: &str,
    liveness: Liveness,
    at: Timestamp,
    authenticated: bool,
) -> Result<()> {
    tx.conn
        .prepare_cached(
            "UPDATE clients SET liveness = ?2, last_seen = CASE WHEN last_seen > ?3 THEN last_seen ELSE ?3 END,
                last_auth = CASE WHEN ?4 AND coalesce(last_auth, 0) < ?3 THEN ?3 ELSE last_auth END, hub_id = ?5
         WHERE identifier = ?1",
        )?
        .execute(params![identifier, liveness.name(), at.millis(), authenticated, tx.hub_id().to_string()])?;
    Ok(())
}

/// Seals everything of the clients anew. Answers how many values there were.
pub(super) fn reseal(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let mut count = 0;
    for (table, id, column, what) in [
        ("clients", "identifier", "secret", "secret"),
        ("clients", "identifier", "old_secrets", "old"),
        ("pairings", "client", "code", "code"),
    ] {
        let query = format!("SELECT {id}, {column} FROM {table} WHERE {column} IS NOT NULL");
        let values: Vec<(String, Vec<u8>)> = conn
            .prepare_cached(&query)?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_>>()?;
        for (identifier, sealed) in &values {
            let purpose = client_purpose(identifier, what);
            let value = new.seal(&purpose, old.open(&purpose, sealed)?.reveal())?;
            conn.execute(&format!("UPDATE {table} SET {column} = ?2 WHERE {id} = ?1"), params![identifier, value])?;
        }
        count += values.len();
    }
    Ok(count)
}
