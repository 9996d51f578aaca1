//! Calls that outlive their request, and the approvals some of them wait for.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use convoke_core::approval::{Approval, ApprovalState, Binding};
use convoke_core::call::CallState;
use convoke_core::door::Door;
use convoke_core::id::{ApprovalId, CallId, HubId, PeerId, TokenId};
use convoke_core::journal::Draft;
use convoke_core::time::Timestamp;

use super::row::{named, peer, time, uuid};
use super::writer::{SMALL, Tx};
use super::{Connection, OptionalExtension as _, RESTORED, Row, SqlStore, Value, journal, meta, params};
use crate::error::StoreError;
use crate::seal::DataKey;
use crate::{APPROVALS_BYTES, ApprovalMove, CallEnd, CallRow, Calls, Reservation, Result};

#[async_trait]
impl Calls for SqlStore {
    async fn put_call(
        &self,
        call: CallRow,
        approval: Option<Approval>,
        record: Option<Draft>,
    ) -> Result<Reservation> {
        let key = Arc::clone(&self.key);
        let purpose = args_purpose(call.id, call.target.as_str(), &call.tool);
        let args = call.args.as_ref().map(|args| key.seal(&purpose, args.reveal())).transpose()?;
        let weight = SMALL + 2 * args.as_ref().map_or(0, Vec::len);
        let keep = move |tx: &mut Tx<'_>| put(tx, &call, args.as_deref(), approval.as_ref(), record.as_ref(), &key);
        self.queue.run(weight, keep).await
    }

    async fn call_with_key(&self, caller: TokenId, key: &str, now: Timestamp) -> Result<Option<CallRow>> {
        let (used, key) = (key.to_owned(), Arc::clone(&self.key));
        let find = move |conn: &Connection| match with_key(conn, caller, &used)? {
            Some(used) if used.is_kept_at(now) => call(conn, used.id, &key),
            _ => Ok(None),
        };
        self.readers.read(find).await
    }

    async fn call(&self, id: CallId) -> Result<Option<CallRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| call(conn, id, &key)).await
    }

    async fn move_approval(&self, moved: ApprovalMove) -> Result<bool> {
        self.queue.run(SMALL, move |tx| move_approval(tx, &moved)).await
    }

    async fn end_approval(&self, moved: ApprovalMove, call: CallEnd) -> Result<bool> {
        let end = move |tx: &mut Tx<'_>| {
            let has_moved = move_approval(tx, &moved)?;
            if has_moved {
                finish(tx, call.id, &call.outcome, &call.record)?;
            }
            Ok(has_moved)
        };
        self.queue.run(2 * SMALL, end).await
    }

    async fn start_call(&self, id: CallId) -> Result<()> {
        self.queue.run(SMALL, move |tx| start(tx, id)).await
    }

    async fn unuse_approval(&self, call: CallId, record: Draft) -> Result<bool> {
        self.queue.run(SMALL, move |tx| unuse(tx, call, &record)).await
    }

    async fn finish_call(&self, id: CallId, outcome: &str, record: Draft) -> Result<()> {
        let outcome = outcome.to_owned();
        self.queue.run(SMALL + outcome.len(), move |tx| finish(tx, id, &outcome, &record)).await
    }

    async fn approvals(
        &self,
        state: Option<ApprovalState>,
        after: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<(Approval, CallRow)>> {
        let key = Arc::clone(&self.key);
        let which = state.map_or(Which::All, Which::In);
        self.readers.read(move |conn| approvals(conn, &which, after, limit, &key)).await
    }

    async fn approvals_without_args(
        &self,
        state: ApprovalState,
        after: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<(Approval, CallRow)>> {
        let key = Arc::clone(&self.key);
        let which = Which::InWithoutArgs(state);
        self.readers.read(move |conn| approvals(conn, &which, after, limit, &key)).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<(Approval, CallRow)>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| Ok(approvals(conn, &Which::One(id), None, 1, &key)?.pop())).await
    }

    async fn approval_of(&self, call: CallId) -> Result<Option<Approval>> {
        let key = Arc::clone(&self.key);
        let find = move |conn: &Connection| approvals(conn, &Which::Of(call), None, 1, &key);
        Ok(self.readers.read(find).await?.pop().map(|(approval, _)| approval))
    }

    async fn stranded_calls(&self) -> Result<Vec<CallRow>> {
        let key = Arc::clone(&self.key);
        let hub_id = self.hub_id;
        self.readers.read(move |conn| stranded(conn, hub_id, &key)).await
    }

    async fn open_intents(&self) -> Result<Vec<Draft>> {
        let hub_id = self.hub_id;
        self.readers.read(move |conn| journal::open_intents(conn, hub_id)).await
    }

    async fn is_restored(&self) -> Result<bool> {
        self.readers.read(|conn| Ok(meta(conn, RESTORED)?.is_some())).await
    }

    async fn settle_restored(&self, record: Draft) -> Result<()> {
        let settle = move |tx: &mut Tx<'_>| {
            tx.conn.execute("DELETE FROM meta WHERE name = ?1", [RESTORED])?;
            tx.append(&record).map(drop)
        };
        self.queue.run(SMALL, settle).await
    }
}

const MAX_PAGE: u32 = 10_000;

/// What a call's arguments are sealed for: this tool of this target, and no other that someone writes beside them.
pub(super) fn args_purpose(id: CallId, target: &str, tool: &str) -> String {
    format!("call-args:{id}\0{target}\0{tool}")
}

/// Reads a call; its arguments need the key.
fn call_row(row: &Row<'_>, key: &DataKey) -> Result<CallRow> {
    let id = CallId::new(uuid(row, 0)?);
    let (target, tool): (PeerId, String) = (peer(row, 3)?, row.get(4)?);
    let sealed: Option<Vec<u8>> = row.get(11)?;
    // What cannot be opened is this call's loss, and not every other's: it cannot run.
    let args = sealed.and_then(|sealed| {
        let opened = key.open(&args_purpose(id, target.as_str(), &tool), &sealed);
        opened.inspect_err(|_| tracing::error!(call = %id, "cannot open the arguments of a kept call")).ok()
    });
    Ok(CallRow {
        id,
        caller: TokenId::new(uuid(row, 1)?),
        idempotency_key: row.get(2)?,
        target,
        tool,
        args_digest: row.get(5)?,
        door: named(row, 6, Door::parse)?,
        timeout_ms: row.get::<Option<i64>>(7)?.map(|ms| ms as u64),
        state: named(row, 8, CallState::parse)?,
        created_at: time(row, 9)?,
        keep_until: time(row, 10)?,
        args,
        outcome: row.get(12)?,
        requested_by: row.get(13)?,
    })
}

const CALL: &str = "c.id, c.caller, c.idempotency_key, c.target, c.tool, c.args_digest, c.door, c.timeout_ms, c.state, \
                    c.created_at, c.keep_until, c.args, c.outcome, c.requested_by";

pub(super) fn call(conn: &Connection, id: CallId, key: &DataKey) -> Result<Option<CallRow>> {
    let mut statement = conn.prepare_cached(&format!("SELECT {CALL} FROM calls c WHERE c.id = ?1"))?;
    statement.query_row([id.uuid().into_bytes()], |row| call_row(row, key)).optional()
}

/// A call that took an idempotency key.
struct UsedKey {
    id: CallId,
    keep_until: Timestamp,
    is_done: bool,
}

impl UsedKey {
    fn is_kept_at(&self, now: Timestamp) -> bool {
        self.keep_until > now || !self.is_done
    }
}

fn with_key(conn: &Connection, caller: TokenId, key: &str) -> Result<Option<UsedKey>> {
    let sql = "SELECT id, keep_until, state = 'done' FROM calls WHERE caller = ?1 AND idempotency_key = ?2";
    let read = |row: &Row<'_>| {
        Ok(UsedKey { id: CallId::new(uuid(row, 0)?), keep_until: time(row, 1)?, is_done: row.get(2)? })
    };
    conn.prepare_cached(sql)?.query_row(params![caller.uuid().into_bytes(), key], read).optional()
}

/// Keeps a call with its approval, unless its caller used the key before. `args` are sealed already.
pub(super) fn put(
    tx: &mut Tx<'_>,
    call: &CallRow,
    args: Option<&[u8]>,
    approval: Option<&Approval>,
    record: Option<&Draft>,
    key: &DataKey,
) -> Result<Reservation> {
    if let Some(idempotency_key) = &call.idempotency_key {
        match with_key(tx.conn, call.caller, idempotency_key)? {
            Some(used) if used.is_kept_at(call.created_at) => {
                let first = self::call(tx.conn, used.id, key)?;
                return Ok(first.map_or(Reservation::Fresh, |row| Reservation::Existing(Box::new(row))));
            }
            // Its time is over and only the pruning has not come by yet.
            Some(used) => {
                tx.conn.prepare_cached("DELETE FROM calls WHERE id = ?1")?.execute([used.id.uuid().into_bytes()])?;
            }
            None => {}
        }
    }
    tx.conn
        .prepare_cached(
            "INSERT INTO calls (id, caller, idempotency_key, target, tool, args_digest, door, timeout_ms, state,
                created_at, keep_until, args, outcome, hub_id, requested_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
        )?
        .execute(params![
            call.id.uuid().into_bytes(),
            call.caller.uuid().into_bytes(),
            call.idempotency_key,
            call.target.as_str(),
            call.tool,
            call.args_digest,
            call.door.name(),
            call.timeout_ms.map(|ms| ms as i64),
            call.state.name(),
            call.created_at.millis(),
            call.keep_until.millis(),
            args,
            call.outcome,
            tx.hub_id().to_string(),
            call.requested_by,
        ])?;
    if let Some(approval) = approval {
        put_approval(tx.conn, call, approval)?;
    }
    if let Some(record) = record {
        tx.append(record)?;
    }
    Ok(Reservation::Fresh)
}

/// The binding is not kept twice: it is the call's own facts, so an approval can never be for something else.
fn put_approval(conn: &Connection, call: &CallRow, approval: &Approval) -> Result<()> {
    if approval.call_id != call.id || approval.binding != binding(call) {
        return Err(StoreError::Conflict("an approval must be bound to the call it is kept with".into()));
    }
    conn.prepare_cached(
        "INSERT INTO approvals (id, call, created_at, expires_at, state, second_person) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        approval.id.uuid().into_bytes(),
        call.id.uuid().into_bytes(),
        approval.created_at.millis(),
        approval.expires_at.millis(),
        approval.state.name(),
        approval.second_person,
    ])?;
    Ok(())
}

fn binding(call: &CallRow) -> Binding {
    Binding {
        caller: call.caller,
        target: call.target.clone(),
        tool: call.tool.clone(),
        args_digest: call.args_digest.clone(),
    }
}

pub(super) fn move_approval(tx: &mut Tx<'_>, moved: &ApprovalMove) -> Result<bool> {
    let changed = tx
        .conn
        .prepare_cached(
            "UPDATE approvals SET state = ?3, decided_by = coalesce(?4, decided_by) WHERE id = ?1 AND state = ?2",
        )?
        .execute(params![
            moved.id.uuid().into_bytes(),
            moved.from.name(),
            moved.to.name(),
            moved.decided_by.map(|by| by.uuid().into_bytes())
        ])?;
    if changed > 0 {
        tx.append(&moved.record)?;
    }
    Ok(changed > 0)
}

/// Marks the call as running and its approval as used: once.
pub(super) fn start(tx: &mut Tx<'_>, id: CallId) -> Result<()> {
    let id = id.uuid().into_bytes();
    let found: Option<(CallState, Option<String>)> = tx
        .conn
        .prepare_cached(
            "SELECT c.state, a.state FROM calls c LEFT JOIN approvals a ON a.call = c.id WHERE c.id = ?1",
        )?
        .query_row([id], |row| Ok((named(row, 0, CallState::parse)?, row.get(1)?)))
        .optional()?;
    let Some((state, approval)) = found else {
        return Err(StoreError::Conflict("the call does not exist".into()));
    };
    let approval = approval.as_deref().and_then(ApprovalState::parse);
    match (state, approval) {
        (CallState::Running, None) => return Ok(()),
        (CallState::Waiting, None | Some(ApprovalState::Approved | ApprovalState::Used)) => {}
        (CallState::Waiting, Some(other)) => {
            return Err(StoreError::Conflict(format!("the call's approval is {}", other.name())));
        }
        (other, _) => return Err(StoreError::Conflict(format!("the call is already {other}"))),
    }
    tx.conn.prepare_cached("UPDATE calls SET state = ?2, hub_id = ?3 WHERE id = ?1")?.execute(params![
        id,
        CallState::Running.name(),
        tx.hub_id().to_string()
    ])?;
    tx.conn
        .prepare_cached("UPDATE approvals SET state = ?2 WHERE call = ?1")?
        .execute(params![id, ApprovalState::Used.name()])?;
    Ok(())
}

/// Takes back that a call's approval was used.
pub(super) fn unuse(tx: &mut Tx<'_>, id: CallId, record: &Draft) -> Result<bool> {
    let id = id.uuid().into_bytes();
    let given_back = tx
        .conn
        .prepare_cached(
            "UPDATE approvals SET state = ?2 WHERE call = ?1 AND state = ?3
             AND EXISTS (SELECT 1 FROM calls WHERE id = ?1 AND state <> 'done')",
        )?
        .execute(params![id, ApprovalState::Approved.name(), ApprovalState::Used.name()])?;
    if given_back == 0 {
        return Ok(false);
    }
    tx.conn
        .prepare_cached("UPDATE calls SET state = ?2 WHERE id = ?1")?
        .execute(params![id, CallState::Waiting.name()])?;
    tx.append(record)?;
    Ok(true)
}

/// Ends the call. A call that was forgotten meanwhile still gets its record.
pub(super) fn finish(tx: &mut Tx<'_>, id: CallId, outcome: &str, record: &Draft) -> Result<()> {
    let raw = id.uuid().into_bytes();
    let ended = tx
        .conn
        .prepare_cached(
            "UPDATE calls SET state = 'done', outcome = ?2, args = NULL WHERE id = ?1 AND state <> 'done'",
        )?
        .execute(params![raw, outcome])?;
    if ended == 0 {
        let done: bool = tx
            .conn
            .prepare_cached("SELECT EXISTS (SELECT 1 FROM calls WHERE id = ?1)")?
            .query_row([raw], |row| row.get(0))?;
        if done {
            return Err(StoreError::Conflict("the call already has an outcome".into()));
        }
    }
    tx.append(record)?;
    Ok(())
}

/// Which approvals.
pub(super) enum Which {
    One(ApprovalId),
    Of(CallId),
    In(ApprovalState),
    InWithoutArgs(ApprovalState),
    All,
}

/// Approvals with their calls, newest first; after that one, when it is named and there.
pub(super) fn approvals(
    conn: &Connection,
    which: &Which,
    after: Option<ApprovalId>,
    limit: u32,
    key: &DataKey,
) -> Result<Vec<(Approval, CallRow)>> {
    let call = match which {
        Which::InWithoutArgs(_) => Cow::Owned(CALL.replace("c.args,", "NULL AS args,")),
        _ => Cow::Borrowed(CALL),
    };
    let mut values = vec![Value::Int(limit.min(MAX_PAGE).into())];
    let mut wheres = match which {
        Which::One(id) => {
            values.push(Value::Blob(id.uuid().as_bytes().to_vec().into()));
            "a.id = ?2".to_owned()
        }
        Which::Of(call) => {
            values.push(Value::Blob(call.uuid().as_bytes().to_vec().into()));
            "a.call = ?2".to_owned()
        }
        Which::In(state) | Which::InWithoutArgs(state) => {
            values.push(Value::Text(state.name().into()));
            "a.state = ?2".to_owned()
        }
        Which::All => "true".to_owned(),
    };
    if let Some(after) = after {
        values.push(Value::Blob(after.uuid().as_bytes().to_vec().into()));
        let last = values.len();
        wheres += &format!(" AND (a.created_at, a.id) < (SELECT created_at, id FROM approvals WHERE id = ?{last})");
    }
    let mut statement = conn.prepare_cached(&format!(
        "SELECT {call}, a.id, a.created_at, a.expires_at, a.state, a.second_person
         FROM approvals a JOIN calls c ON c.id = a.call
         WHERE {wheres} ORDER BY a.created_at DESC, a.id DESC LIMIT ?1"
    ))?;
    let (mut found, mut bytes) = (Vec::new(), 0);
    statement.each(&values[..], |row| {
        let call = call_row(row, key)?;
        bytes += call.args_bytes();
        let approval = Approval {
            id: ApprovalId::new(uuid(row, 14)?),
            call_id: call.id,
            binding: binding(&call),
            created_at: time(row, 15)?,
            expires_at: time(row, 16)?,
            state: named(row, 17, ApprovalState::parse)?,
            second_person: row.get(18)?,
        };
        found.push((approval, call));
        Ok(bytes < APPROVALS_BYTES)
    })?;
    Ok(found)
}

/// This hub's calls that have not ended and wait for nobody.
pub(super) fn stranded(conn: &Connection, hub_id: HubId, key: &DataKey) -> Result<Vec<CallRow>> {
    let sql = format!(
        "SELECT {CALL} FROM calls c LEFT JOIN approvals a ON a.call = c.id
         WHERE c.hub_id = ?1 AND c.state <> 'done' AND (a.state IS NULL OR a.state NOT IN ('pending', 'approved'))
         ORDER BY c.created_at"
    );
    let mut statement = conn.prepare_cached(&sql)?;
    let rows = statement.query_map([hub_id.to_string()], |row| call_row(row, key))?;
    rows.collect()
}

/// Lapsed enrolment tokens, and calls of this hub that have ended and whose time is over. One piece; answers how many went.
pub(super) fn prune(tx: &mut Tx<'_>, now: Timestamp) -> Result<(u64, bool)> {
    const PIECE: i64 = 200;
    let tokens =
        tx.conn.prepare_cached("DELETE FROM enrol_tokens WHERE expires_at <= ?1")?.execute([now.millis()])?;
    let calls = tx
        .conn
        .prepare_cached(
            "DELETE FROM calls WHERE id IN
             (SELECT id FROM calls WHERE keep_until <= ?1 AND state = 'done' AND hub_id = ?3 LIMIT ?2)",
        )?
        .execute(params![now.millis(), PIECE, tx.hub_id().to_string()])?;
    Ok(((tokens + calls) as u64, calls as i64 == PIECE))
}
