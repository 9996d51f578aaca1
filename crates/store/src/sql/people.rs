//! What operators set: their tokens, deny rules, confirm rules; and sealed secrets.

use async_trait::async_trait;
use convoke_core::confirm::ConfirmRule;
use convoke_core::grant::Role;
use convoke_core::guard::Rule;
use convoke_core::id::TokenId;
use convoke_core::journal::Draft;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::row::{blob, json, maybe_time, named, time, uuid};
use super::writer::{SMALL, Tx};
use super::{Connection, OptionalExtension as _, SqlStore, params};
use crate::error::StoreError;
use crate::{People, Result, TokenRow};

#[async_trait]
impl People for SqlStore {
    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        self.readers.read(tokens).await
    }

    async fn put_token(&self, token: TokenRow, record: Draft) -> Result<()> {
        self.queue.run(SMALL, move |tx| put_token(tx, &token, &record)).await
    }

    async fn revoke_token(&self, id: TokenId, now: Timestamp, record: Draft) -> Result<bool> {
        self.queue.withdraw(SMALL, move |tx| revoke_token(tx, id, now, &record)).await
    }

    async fn deny_rules(&self) -> Result<Vec<Rule>> {
        self.readers.read(rules).await
    }

    async fn put_deny_rule(&self, rule: &Rule, record: Draft) -> Result<()> {
        let rule = rule.clone();
        self.queue.run(SMALL, move |tx| put_recorded(tx, &rule, &record)).await
    }

    async fn add_deny_rule(&self, rule: &Rule, record: Draft) -> Result<()> {
        let rule = rule.clone();
        self.queue.withdraw(SMALL, move |tx| put_recorded(tx, &rule, &record)).await
    }

    async fn delete_deny_rule(&self, id: &str, record: Draft) -> Result<bool> {
        let id = id.to_owned();
        self.queue.run(SMALL, move |tx| delete_rule::<Rule>(tx, &id, &record)).await
    }

    async fn confirm_rules(&self) -> Result<Vec<ConfirmRule>> {
        self.readers.read(rules).await
    }

    async fn put_confirm_rule(&self, rule: &ConfirmRule, record: Draft) -> Result<()> {
        let rule = rule.clone();
        self.queue.run(SMALL, move |tx| put_recorded(tx, &rule, &record)).await
    }

    async fn add_confirm_rule(&self, rule: &ConfirmRule, record: Draft) -> Result<()> {
        let rule = rule.clone();
        self.queue.withdraw(SMALL, move |tx| put_recorded(tx, &rule, &record)).await
    }

    async fn delete_confirm_rule(&self, id: &str, record: Draft) -> Result<bool> {
        let id = id.to_owned();
        self.queue.run(SMALL, move |tx| delete_rule::<ConfirmRule>(tx, &id, &record)).await
    }
}

pub(super) fn tokens(conn: &Connection) -> Result<Vec<TokenRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT id, name, hash, role, scopes, created_at, expires_at, revoked_at, last_used, owner FROM tokens ORDER BY created_at, id",
    )?;
    let rows = statement.query_map([], |row| {
        Ok(TokenRow {
            id: TokenId::new(uuid(row, 0)?),
            name: row.get(1)?,
            hash: TokenHash(blob(row, 2)?),
            role: named(row, 3, Role::parse)?,
            scopes: json(row, 4)?,
            created_at: time(row, 5)?,
            expires_at: maybe_time(row, 6)?,
            revoked_at: maybe_time(row, 7)?,
            last_used: maybe_time(row, 8)?,
            owner: row.get(9)?,
        })
    })?;
    rows.collect()
}

pub(super) fn put_token(tx: &mut Tx<'_>, token: &TokenRow, record: &Draft) -> Result<()> {
    let taken: bool = tx
        .conn
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM tokens WHERE name = ?1) OR EXISTS (SELECT 1 FROM users WHERE name = ?1)",
        )?
        .query_row([&token.name], |row| row.get(0))?;
    if taken {
        let name = &token.name;
        return Err(StoreError::Conflict(format!(
            "a token or user named {name:?} exists or existed; a name is used once"
        )));
    }
    tx.conn
        .prepare_cached(
            "INSERT INTO tokens (id, name, hash, role, scopes, created_at, expires_at, revoked_at, last_used, owner)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            token.id.uuid().into_bytes(),
            token.name,
            token.hash.0,
            token.role.name(),
            text(&token.scopes),
            token.created_at.millis(),
            token.expires_at.map(Timestamp::millis),
            token.revoked_at.map(Timestamp::millis),
            token.last_used.map(Timestamp::millis),
            token.owner,
        ])?;
    tx.append(record)?;
    Ok(())
}

pub(super) fn revoke_token(tx: &mut Tx<'_>, id: TokenId, now: Timestamp, record: &Draft) -> Result<bool> {
    let revoked = tx
        .conn
        .prepare_cached("UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL")?
        .execute(params![id.uuid().into_bytes(), now.millis()])?;
    if revoked > 0 {
        tx.append(record)?;
    }
    Ok(revoked > 0)
}

/// Whether a token is known, and revoked.
pub(super) fn is_revoked(conn: &Connection, id: TokenId) -> Result<bool> {
    let mut statement = conn.prepare_cached("SELECT 1 FROM tokens WHERE id = ?1 AND revoked_at IS NOT NULL")?;
    statement.exists([id.uuid().into_bytes()])
}

/// The two kinds of rules are kept alike.
pub(super) trait Kept: Serialize + DeserializeOwned {
    /// The table.
    const TABLE: &'static str;
    /// The rule's name.
    fn id(&self) -> &str;
}

impl Kept for Rule {
    const TABLE: &'static str = "deny_rules";
    fn id(&self) -> &str {
        &self.id
    }
}

impl Kept for ConfirmRule {
    const TABLE: &'static str = "confirm_rules";
    fn id(&self) -> &str {
        &self.id
    }
}

pub(super) fn rules<R: Kept>(conn: &Connection) -> Result<Vec<R>> {
    let mut statement = conn.prepare_cached(&format!("SELECT body FROM {} ORDER BY place", R::TABLE))?;
    let rows = statement.query_map([], |row| json(row, 0))?;
    rows.collect()
}

/// A rule that is replaced keeps its place.
pub(super) fn put_rule<R: Kept>(conn: &Connection, rule: &R) -> Result<()> {
    conn.prepare_cached(&format!(
        "INSERT INTO {} (id, body) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = excluded.body",
        R::TABLE
    ))?
    .execute(params![rule.id(), text(rule)])?;
    Ok(())
}

fn put_recorded<R: Kept>(tx: &mut Tx<'_>, rule: &R, record: &Draft) -> Result<()> {
    put_rule(tx.conn, rule)?;
    tx.append(record)?;
    Ok(())
}

pub(super) fn delete_rule<R: Kept>(tx: &mut Tx<'_>, id: &str, record: &Draft) -> Result<bool> {
    let gone = tx.conn.prepare_cached(&format!("DELETE FROM {} WHERE id = ?1", R::TABLE))?.execute([id])?;
    if gone > 0 {
        tx.append(record)?;
    }
    Ok(gone > 0)
}

pub(super) fn text(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("rules and scopes are plain data with string keys")
}

/// What a secret is sealed for.
pub(super) fn secret_purpose(name: &str) -> String {
    format!("secret:{name}")
}

pub(super) fn sealed_secret(conn: &Connection, name: &str) -> Result<Option<Vec<u8>>> {
    conn.prepare_cached("SELECT sealed FROM secrets WHERE name = ?1")?.query_row([name], |row| row.get(0)).optional()
}

pub(super) fn put_sealed_secret(conn: &Connection, name: &str, sealed: &[u8]) -> Result<()> {
    conn.prepare_cached(
        "INSERT INTO secrets VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET sealed = excluded.sealed",
    )?
    .execute(params![name, sealed])?;
    Ok(())
}
