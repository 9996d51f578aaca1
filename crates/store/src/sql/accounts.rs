//! People who sign in.

use std::sync::Arc;

use async_trait::async_trait;
use convoke_core::grant::Role;
use convoke_core::id::{SessionId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use uuid::Uuid;

use super::row::{blob, json, maybe_blob, named, time, uuid};
use super::writer::{SMALL, Tx};
use super::{Connection, OptionalExtension as _, Params, SqlStore, params};
use crate::error::StoreError;
use crate::seal::DataKey;
use crate::{Accounts, Ends, LinkRow, PasskeyRow, PasswordHash, Result, SessionRow, UserRow};

/// What the secret of a user's one-time codes is sealed for.
fn purpose(user: TokenId) -> String {
    format!("totp:{user}")
}

#[async_trait]
impl Accounts for SqlStore {
    async fn users(&self) -> Result<Vec<UserRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| users(conn, &key)).await
    }

    async fn add_user(&self, user: UserRow, link: Option<LinkRow>, record: Draft) -> Result<()> {
        let totp = self.sealed_totp(&user)?;
        self.queue.run(SMALL, move |tx| add_user(tx, &user, totp, link.as_ref(), &record)).await
    }

    async fn set_user(&self, user: UserRow, ends: Ends, record: Draft) -> Result<bool> {
        let totp = self.sealed_totp(&user)?;
        self.queue.run(SMALL, move |tx| set_user(tx, &user, totp.as_deref(), ends, &record)).await
    }

    async fn withdraw_from_user(&self, user: UserRow, ends: Ends, record: Draft) -> Result<bool> {
        let totp = self.sealed_totp(&user)?;
        self.queue.withdraw(SMALL, move |tx| set_user(tx, &user, totp.as_deref(), ends, &record)).await
    }

    async fn remove_user(&self, id: TokenId, now: Timestamp, record: Draft) -> Result<bool> {
        self.queue.withdraw(SMALL, move |tx| remove_user(tx, id, now, &record)).await
    }

    async fn sessions(&self, now: Timestamp) -> Result<Vec<SessionRow>> {
        self.queue.run(SMALL, move |tx| sessions(tx.conn, now)).await
    }

    async fn put_session(&self, session: SessionRow, record: Option<Draft>) -> Result<()> {
        self.queue.run(SMALL, move |tx| put_session(tx, &session, record.as_ref())).await
    }

    async fn end_session(&self, id: SessionId, record: Draft) -> Result<bool> {
        let sql = "DELETE FROM sessions WHERE id = ?1";
        self.queue.withdraw(SMALL, move |tx| changed(tx, sql, params![bytes(id.uuid())], &record)).await
    }

    async fn link(&self, hash: TokenHash, now: Timestamp) -> Result<Option<LinkRow>> {
        self.readers.read(move |conn| link(conn, hash, now)).await
    }

    async fn put_link(&self, link: LinkRow, record: Draft) -> Result<()> {
        self.queue.run(SMALL, move |tx| put_link(tx.conn, &link).and_then(|()| tx.append(&record).map(drop))).await
    }

    async fn use_link(&self, hash: TokenHash, session: SessionRow, record: Draft) -> Result<bool> {
        self.queue.run(SMALL, move |tx| use_link(tx, hash, &session, &record)).await
    }

    async fn paused_tokens(&self) -> Result<Vec<TokenId>> {
        self.readers.read(paused_tokens).await
    }

    async fn pause_token(&self, id: TokenId, paused: bool, record: Draft) -> Result<bool> {
        let sql = match paused {
            true => "INSERT INTO paused_tokens VALUES (?1) ON CONFLICT DO NOTHING",
            false => "DELETE FROM paused_tokens WHERE id = ?1",
        };
        let work = move |tx: &mut Tx<'_>| changed(tx, sql, params![bytes(id.uuid())], &record);
        if paused { self.queue.withdraw(SMALL, work).await } else { self.queue.run(SMALL, work).await }
    }

    async fn passkeys(&self) -> Result<Vec<PasskeyRow>> {
        self.readers.read(passkeys).await
    }

    async fn put_passkey(&self, passkey: PasskeyRow, record: Option<Draft>) -> Result<()> {
        self.queue.run(SMALL + passkey.body.len(), move |tx| put_passkey(tx, &passkey, record.as_ref())).await
    }

    async fn remove_passkey(&self, user: TokenId, id: &str, record: Draft) -> Result<bool> {
        let id = id.to_owned();
        let sql = "DELETE FROM passkeys WHERE \"user\" = ?1 AND id = ?2";
        self.queue.withdraw(SMALL, move |tx| changed(tx, sql, params![bytes(user.uuid()), id], &record)).await
    }
}

impl SqlStore {
    fn sealed_totp(&self, user: &UserRow) -> Result<Option<Vec<u8>>> {
        user.totp.as_ref().map(|secret| self.key.seal(&purpose(user.id), secret.reveal())).transpose()
    }
}

fn bytes(id: Uuid) -> [u8; 16] {
    id.into_bytes()
}

fn id_bytes(id: Option<TokenId>) -> Option<[u8; 16]> {
    id.map(|id| bytes(id.uuid()))
}

/// Makes one change, and records it if there was something to change.
fn changed(tx: &mut Tx<'_>, sql: &str, params: impl Params, record: &Draft) -> Result<bool> {
    let changed = tx.conn.prepare_cached(sql)?.execute(params)?;
    if changed > 0 {
        tx.append(record)?;
    }
    Ok(changed > 0)
}

pub(super) fn users(conn: &Connection, key: &DataKey) -> Result<Vec<UserRow>> {
    let mut statement =
        conn.prepare_cached("SELECT id, name, role, scopes, password, totp, created_at FROM users ORDER BY name")?;
    let rows = statement.query_map([], |row| {
        let user = UserRow {
            id: TokenId::new(uuid(row, 0)?),
            name: row.get(1)?,
            role: named(row, 2, Role::parse)?,
            scopes: json(row, 3)?,
            password: row.get::<Option<String>>(4)?.map(PasswordHash),
            totp: None,
            created_at: time(row, 6)?,
        };
        Ok((user, row.get::<Option<Vec<u8>>>(5)?))
    })?;
    rows.map(|row| {
        let (mut user, sealed) = row?;
        user.totp = sealed.map(|sealed| key.open(&purpose(user.id), &sealed)).transpose()?;
        Ok(user)
    })
    .collect()
}

fn add_user(
    tx: &mut Tx<'_>,
    user: &UserRow,
    totp: Option<Vec<u8>>,
    link: Option<&LinkRow>,
    record: &Draft,
) -> Result<()> {
    let taken: bool = tx
        .conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM users WHERE name = ?1) OR EXISTS (SELECT 1 FROM tokens WHERE name = ?1)",
        )?
        .query_row([&user.name], |row| row.get(0))?;
    if taken {
        return Err(StoreError::Conflict(format!("a user or token has the name {:?}", user.name)));
    }
    tx.conn.prepare_cached("INSERT INTO users VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?.execute(params![
        bytes(user.id.uuid()),
        user.name,
        user.role.name(),
        super::people::text(&user.scopes),
        user.password.as_ref().map(|hash| &hash.0),
        totp,
        user.created_at.millis(),
    ])?;
    if let Some(link) = link {
        put_link(tx.conn, link)?;
    }
    // The first user's arrival ends what the welcome link was for.
    tx.conn.prepare_cached("DELETE FROM sign_in_links WHERE \"user\" IS NULL")?.execute([])?;
    tx.conn.prepare_cached("DELETE FROM sessions WHERE \"user\" IS NULL")?.execute([])?;
    tx.append(record)?;
    Ok(())
}

fn set_user(tx: &mut Tx<'_>, user: &UserRow, totp: Option<&[u8]>, ends: Ends, record: &Draft) -> Result<bool> {
    let set = "UPDATE users SET role = ?2, scopes = ?3, password = ?4, totp = ?5 WHERE id = ?1";
    let id = bytes(user.id.uuid());
    let (scopes, password) = (super::people::text(&user.scopes), user.password.as_ref().map(|hash| &hash.0));
    let values = params![id, user.role.name(), scopes, password, totp];
    if !changed(tx, set, values, record)? {
        return Ok(false);
    }
    if let Ends::AllBut(kept) = ends {
        let kept = kept.map(|id| bytes(id.uuid()));
        tx.conn
            .prepare_cached("DELETE FROM sessions WHERE \"user\" = ?1 AND id IS DISTINCT FROM ?2")?
            .execute(params![id, kept])?;
        tx.conn.prepare_cached("DELETE FROM sign_in_links WHERE \"user\" = ?1")?.execute([id])?;
    }
    Ok(true)
}

fn remove_user(tx: &mut Tx<'_>, id: TokenId, now: Timestamp, record: &Draft) -> Result<bool> {
    let id = bytes(id.uuid());
    tx.conn
        .prepare_cached(
            "UPDATE tokens SET revoked_at = ?2
             WHERE owner = (SELECT name FROM users WHERE id = ?1) AND revoked_at IS NULL",
        )?
        .execute(params![id, now.millis()])?;
    changed(tx, "DELETE FROM users WHERE id = ?1", params![id], record)
}

fn sessions(conn: &Connection, now: Timestamp) -> Result<Vec<SessionRow>> {
    conn.prepare_cached("DELETE FROM sessions WHERE expires_at <= ?1")?.execute([now.millis()])?;
    let mut statement = conn.prepare_cached(
        "SELECT id, \"user\", hash, created_at, expires_at, stepped_up_at, address, browser FROM sessions ORDER BY created_at",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(SessionRow {
            id: SessionId::new(uuid(row, 0)?),
            user: maybe_blob(row, 1)?.map(|id| TokenId::new(Uuid::from_bytes(id))),
            hash: TokenHash(blob(row, 2)?),
            created_at: time(row, 3)?,
            expires_at: time(row, 4)?,
            stepped_up_at: time(row, 5)?,
            address: row.get(6)?,
            browser: row.get(7)?,
        })
    })?;
    rows.collect()
}

const PUT_SESSION: &str = "INSERT INTO sessions (id, \"user\", hash, created_at, expires_at, stepped_up_at, address, browser)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
     ON CONFLICT (id) DO UPDATE SET \"user\" = excluded.\"user\", hash = excluded.hash, created_at = excluded.created_at,
        expires_at = excluded.expires_at, stepped_up_at = excluded.stepped_up_at, address = excluded.address,
        browser = excluded.browser";

fn put_session(tx: &mut Tx<'_>, session: &SessionRow, record: Option<&Draft>) -> Result<()> {
    tx.conn.prepare_cached(PUT_SESSION)?.execute(params![
        bytes(session.id.uuid()),
        id_bytes(session.user),
        session.hash.0,
        session.created_at.millis(),
        session.expires_at.millis(),
        session.stepped_up_at.millis(),
        session.address,
        session.browser,
    ])?;
    if let Some(record) = record {
        tx.append(record)?;
    }
    Ok(())
}

fn link(conn: &Connection, hash: TokenHash, now: Timestamp) -> Result<Option<LinkRow>> {
    let mut statement =
        conn.prepare_cached("SELECT \"user\", expires_at FROM sign_in_links WHERE hash = ?1 AND expires_at > ?2")?;
    let found = statement.query_row(params![hash.0, now.millis()], |row| {
        let user = maybe_blob(row, 0)?.map(|id| TokenId::new(Uuid::from_bytes(id)));
        Ok(LinkRow { hash, user, expires_at: time(row, 1)? })
    });
    found.optional()
}

fn put_link(conn: &Connection, link: &LinkRow) -> Result<()> {
    conn.prepare_cached("DELETE FROM sign_in_links WHERE \"user\" IS NOT DISTINCT FROM ?1")?
        .execute([id_bytes(link.user)])?;
    conn.prepare_cached("INSERT INTO sign_in_links VALUES (?1, ?2, ?3)")?.execute(params![
        link.hash.0,
        id_bytes(link.user),
        link.expires_at.millis()
    ])?;
    Ok(())
}

fn use_link(tx: &mut Tx<'_>, hash: TokenHash, session: &SessionRow, record: &Draft) -> Result<bool> {
    let used = tx
        .conn
        .prepare_cached(
            "DELETE FROM sign_in_links WHERE hash = ?1 AND \"user\" IS NOT DISTINCT FROM ?2 AND expires_at > ?3",
        )?
        .execute(params![hash.0, id_bytes(session.user), session.created_at.millis()])?;
    if used > 0 {
        put_session(tx, session, Some(record))?;
    }
    Ok(used > 0)
}

fn passkeys(conn: &Connection) -> Result<Vec<PasskeyRow>> {
    let mut statement =
        conn.prepare_cached("SELECT id, \"user\", name, body, created_at FROM passkeys ORDER BY num")?;
    let rows = statement.query_map([], |row| {
        Ok(PasskeyRow {
            id: row.get(0)?,
            user: TokenId::new(uuid(row, 1)?),
            name: row.get(2)?,
            body: row.get(3)?,
            created_at: time(row, 4)?,
        })
    })?;
    rows.collect()
}

fn paused_tokens(conn: &Connection) -> Result<Vec<TokenId>> {
    let mut statement = conn.prepare_cached("SELECT id FROM paused_tokens")?;
    let rows = statement.query_map([], |row| uuid(row, 0).map(TokenId::new))?;
    rows.collect()
}

fn put_passkey(tx: &mut Tx<'_>, passkey: &PasskeyRow, record: Option<&Draft>) -> Result<()> {
    let put = tx
        .conn
        .prepare_cached(
            "INSERT INTO passkeys (id, \"user\", name, body, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (id) DO UPDATE SET name = excluded.name, body = excluded.body WHERE passkeys.\"user\" = excluded.\"user\"",
        )?
        .execute(params![
            passkey.id,
            bytes(passkey.user.uuid()),
            passkey.name,
            passkey.body,
            passkey.created_at.millis()
        ])?;
    if put == 0 {
        return Err(StoreError::Conflict("another user has this passkey".into()));
    }
    if let Some(record) = record {
        tx.append(record)?;
    }
    Ok(())
}

/// Seals the secrets of one-time codes anew. Answers how many there were.
pub(super) fn reseal(conn: &Connection, old: &DataKey, new: &DataKey) -> Result<usize> {
    let values: Vec<([u8; 16], Vec<u8>)> = conn
        .prepare_cached("SELECT id, totp FROM users WHERE totp IS NOT NULL")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_>>()?;
    for (id, sealed) in &values {
        let purpose = purpose(TokenId::new(Uuid::from_bytes(*id)));
        let value = new.seal(&purpose, old.open(&purpose, sealed)?.reveal())?;
        conn.execute("UPDATE users SET totp = ?2 WHERE id = ?1", params![id, value])?;
    }
    Ok(values.len())
}
