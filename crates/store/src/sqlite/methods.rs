//! The interface's methods: each is a read on a reader or a change handed to the writer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use async_trait::async_trait;
use convoke_core::approval::{Approval, ApprovalState};
use convoke_core::confirm::ConfirmRule;
use convoke_core::guard::Rule;
use convoke_core::id::{ApprovalId, CallId, HubId, PeerId, TokenId};
use convoke_core::journal::{Checkpoint, Draft};
use convoke_core::peer::Trust;
use convoke_core::secret::{SecretBytes, TokenHash};
use convoke_core::time::Timestamp;
use tokio::sync::oneshot;

use super::writer::Op;
use super::{SqliteStore, agents, calls, journal, operators, sonde, telemetry};
use crate::backup;
use crate::interface::{
    AgentRow, ApprovalMove, Before, CallEnd, CallRow, EnrolOutcome, EnrolToken, JournalFilter, JournalRow, LogFilter,
    LogRow, Lossy, Observer, Pruned, Reservation, Result, Retention, SnapshotRow, Store, StoreStats, TokenRow,
};
use crate::sonde::{SondeAgentRow, SondeEnrolled, SondeTokenRow};

/// About how much a change without a large part holds.
const SMALL: usize = 1_024;

#[async_trait]
impl Store for SqliteStore {
    fn hub_id(&self) -> HubId {
        self.hub_id
    }

    fn stats(&self) -> StoreStats {
        let numbers = self.queue.numbers();
        StoreStats {
            queued: self.queue.waiting(),
            queue_limit: self.queue.limit(),
            commits: numbers.commits.load(Relaxed),
            writes: numbers.writes.load(Relaxed),
            lost: numbers.lost.load(Relaxed),
            journal_seq: numbers.journal_seq.load(Relaxed),
            failing: numbers.failing.load(Relaxed),
        }
    }

    async fn close(&self) -> Result<()> {
        let (reply, answer) = oneshot::channel();
        self.queue.send(Op::Stop(reply), 0).await?;
        self.readers.close();
        answer.await.map_err(|_| crate::StoreError::Closed)?
    }

    async fn secret(&self, name: &str) -> Result<Option<SecretBytes>> {
        let (name, key) = (name.to_owned(), Arc::clone(&self.key));
        self.readers
            .read(move |conn| {
                let sealed = operators::sealed_secret(conn, &name)?;
                sealed.map(|sealed| key.open(&operators::secret_purpose(&name), &sealed)).transpose()
            })
            .await
    }

    async fn put_secret(&self, name: &str, value: &SecretBytes) -> Result<()> {
        let sealed = self.key.seal(&operators::secret_purpose(name), value.reveal())?;
        let name = name.to_owned();
        self.queue.run(SMALL + sealed.len(), move |tx| operators::put_sealed_secret(tx.conn, &name, &sealed)).await
    }

    async fn agents(&self) -> Result<Vec<AgentRow>> {
        self.readers.read(agents::all).await
    }

    async fn mint_enrol_token(&self, token: EnrolToken, trust: Trust, now: Timestamp, record: Draft) -> Result<()> {
        self.queue.run(SMALL, move |tx| agents::mint_token(tx, &token, trust, now, &record)).await
    }

    async fn ensure_agent(&self, agent: &PeerId, now: Timestamp) -> Result<()> {
        let agent = agent.clone();
        self.queue.run(SMALL, move |tx| agents::ensure(tx, &agent, now)).await
    }

    async fn enrol_token_valid(
        &self,
        agent: &PeerId,
        token: &TokenHash,
        key: Option<[u8; 32]>,
        now: Timestamp,
    ) -> Result<bool> {
        let (agent, token) = (agent.clone(), *token);
        self.readers.read(move |conn| agents::token_valid(conn, &agent, &token, key, now)).await
    }

    async fn enrol(
        &self,
        agent: &PeerId,
        token: &TokenHash,
        public_key: [u8; 32],
        now: Timestamp,
        record: Draft,
    ) -> Result<EnrolOutcome> {
        let (agent, token) = (agent.clone(), *token);
        self.queue.run(SMALL, move |tx| agents::enrol(tx, &agent, &token, public_key, now, &record)).await
    }

    async fn set_trust(&self, agent: &PeerId, trust: Trust, forget_key: bool, record: Draft) -> Result<bool> {
        let agent = agent.clone();
        self.queue.run(SMALL, move |tx| agents::set_trust(tx, &agent, trust, forget_key, &record)).await
    }

    async fn lapse_invitations(&self, now: Timestamp) -> Result<Vec<PeerId>> {
        self.queue.run(SMALL, move |tx| agents::lapse(tx, now)).await
    }

    async fn set_tags(&self, agent: &PeerId, tags: &[String], record: Draft) -> Result<bool> {
        let (agent, tags) = (agent.clone(), tags.to_vec());
        self.queue.run(SMALL, move |tx| agents::set_tags(tx, &agent, &tags, &record)).await
    }

    async fn remove_agent(&self, agent: &PeerId, record: Draft) -> Result<bool> {
        let agent = agent.clone();
        self.queue.run(SMALL, move |tx| agents::remove(tx, &agent, &record)).await
    }

    async fn sweep(&self) -> Result<()> {
        while self.queue.run(SMALL, agents::sweep).await? > 0 {}
        Ok(())
    }

    async fn sonde_agents(&self) -> Result<Vec<SondeAgentRow>> {
        self.readers.read(sonde::agents).await
    }

    async fn sonde_tokens(&self) -> Result<Vec<SondeTokenRow>> {
        self.readers.read(sonde::tokens).await
    }

    async fn put_sonde_token(&self, token: SondeTokenRow, record: Draft) -> Result<()> {
        self.queue.run(SMALL, move |tx| sonde::put_token(tx, &token, &record)).await
    }

    async fn enrol_sonde(
        &self,
        token: &TokenHash,
        agent: SondeAgentRow,
        now: Timestamp,
        record: Draft,
    ) -> Result<SondeEnrolled> {
        let token = *token;
        self.queue.run(SMALL + agent.facts.len(), move |tx| sonde::enrol(tx, &token, &agent, now, &record)).await
    }

    async fn set_sonde_facts(&self, agent: &PeerId, facts: String, record: Option<Draft>) -> Result<bool> {
        let agent = agent.clone();
        self.queue
            .run(SMALL + facts.len(), move |tx| sonde::set_facts(tx, agent.as_str(), &facts, record.as_ref()))
            .await
    }

    async fn latest_snapshot(&self, agent: &PeerId) -> Result<Option<SnapshotRow>> {
        let agent = agent.clone();
        self.readers.read(move |conn| Ok(telemetry::snapshots(conn, &agent, None, 1)?.pop())).await
    }

    async fn snapshots(&self, agent: &PeerId, before: Option<Before>, limit: u32) -> Result<Vec<SnapshotRow>> {
        let agent = agent.clone();
        self.readers.read(move |conn| telemetry::snapshots(conn, &agent, before, limit)).await
    }

    async fn logs(&self, filter: LogFilter) -> Result<Vec<LogRow>> {
        self.readers.read(move |conn| telemetry::logs(conn, &filter)).await
    }

    async fn tokens(&self) -> Result<Vec<TokenRow>> {
        self.readers.read(operators::tokens).await
    }

    async fn put_token(&self, token: TokenRow, record: Draft) -> Result<()> {
        self.queue.run(SMALL, move |tx| operators::put_token(tx, &token, &record)).await
    }

    async fn revoke_token(&self, id: TokenId, now: Timestamp, record: Draft) -> Result<bool> {
        self.queue.run(SMALL, move |tx| operators::revoke_token(tx, id, now, &record)).await
    }

    async fn deny_rules(&self) -> Result<Vec<Rule>> {
        self.readers.read(operators::rules).await
    }

    async fn put_deny_rule(&self, rule: &Rule, record: Draft) -> Result<()> {
        let rule = rule.clone();
        self.queue
            .run(SMALL, move |tx| operators::put_rule(tx.conn, &rule).and_then(|()| tx.append(&record).map(drop)))
            .await
    }

    async fn delete_deny_rule(&self, id: &str, record: Draft) -> Result<bool> {
        let id = id.to_owned();
        self.queue.run(SMALL, move |tx| operators::delete_rule::<Rule>(tx, &id, &record)).await
    }

    async fn confirm_rules(&self) -> Result<Vec<ConfirmRule>> {
        self.readers.read(operators::rules).await
    }

    async fn put_confirm_rule(&self, rule: &ConfirmRule, record: Draft) -> Result<()> {
        let rule = rule.clone();
        self.queue
            .run(SMALL, move |tx| operators::put_rule(tx.conn, &rule).and_then(|()| tx.append(&record).map(drop)))
            .await
    }

    async fn delete_confirm_rule(&self, id: &str, record: Draft) -> Result<bool> {
        let id = id.to_owned();
        self.queue.run(SMALL, move |tx| operators::delete_rule::<ConfirmRule>(tx, &id, &record)).await
    }

    async fn put_call(
        &self,
        call: CallRow,
        approval: Option<Approval>,
        record: Option<Draft>,
    ) -> Result<Reservation> {
        let key = Arc::clone(&self.key);
        let purpose = calls::args_purpose(call.id, call.target.as_str(), &call.tool);
        let args = call.args.as_ref().map(|args| key.seal(&purpose, args.reveal())).transpose()?;
        let weight = SMALL + 2 * args.as_ref().map_or(0, Vec::len);
        let keep = move |tx: &mut super::writer::Tx<'_>| {
            calls::put(tx, &call, args.as_deref(), approval.as_ref(), record.as_ref(), &key)
        };
        self.queue.run(weight, keep).await
    }

    async fn call(&self, id: CallId) -> Result<Option<CallRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| calls::call(conn, id, &key)).await
    }

    async fn move_approval(&self, moved: ApprovalMove) -> Result<bool> {
        self.queue.run(SMALL, move |tx| calls::move_approval(tx, &moved)).await
    }

    async fn end_approval(&self, moved: ApprovalMove, call: CallEnd) -> Result<bool> {
        let end = move |tx: &mut super::writer::Tx<'_>| {
            let has_moved = calls::move_approval(tx, &moved)?;
            if has_moved {
                calls::finish(tx, call.id, &call.outcome, &call.record)?;
            }
            Ok(has_moved)
        };
        self.queue.run(2 * SMALL, end).await
    }

    async fn start_call(&self, id: CallId) -> Result<()> {
        self.queue.run(SMALL, move |tx| calls::start(tx, id)).await
    }

    async fn unuse_approval(&self, call: CallId, record: Draft) -> Result<bool> {
        self.queue.run(SMALL, move |tx| calls::unuse(tx, call, &record)).await
    }

    async fn finish_call(&self, id: CallId, outcome: &str, record: Draft) -> Result<()> {
        let outcome = outcome.to_owned();
        self.queue.run(SMALL + outcome.len(), move |tx| calls::finish(tx, id, &outcome, &record)).await
    }

    async fn approvals(
        &self,
        state: Option<ApprovalState>,
        after: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<(Approval, CallRow)>> {
        let key = Arc::clone(&self.key);
        let which = state.map_or(calls::Which::All, calls::Which::In);
        self.readers.read(move |conn| calls::approvals(conn, &which, after, limit, &key)).await
    }

    async fn approvals_without_args(
        &self,
        state: ApprovalState,
        after: Option<ApprovalId>,
        limit: u32,
    ) -> Result<Vec<(Approval, CallRow)>> {
        let key = Arc::clone(&self.key);
        let which = calls::Which::InWithoutArgs(state);
        self.readers.read(move |conn| calls::approvals(conn, &which, after, limit, &key)).await
    }

    async fn approval(&self, id: ApprovalId) -> Result<Option<(Approval, CallRow)>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| Ok(calls::approvals(conn, &calls::Which::One(id), None, 1, &key)?.pop())).await
    }

    async fn is_restored(&self) -> Result<bool> {
        self.readers.read(|conn| Ok(super::meta(conn, super::RESTORED)?.is_some())).await
    }

    async fn settle_restored(&self, record: Draft) -> Result<()> {
        let settle = move |tx: &mut super::writer::Tx<'_>| {
            tx.conn.execute("DELETE FROM meta WHERE name = ?1", [super::RESTORED])?;
            tx.append(&record).map(drop)
        };
        self.queue.run(SMALL, settle).await
    }

    async fn stranded_calls(&self) -> Result<Vec<CallRow>> {
        let key = Arc::clone(&self.key);
        self.readers.read(move |conn| calls::stranded(conn, &key)).await
    }

    async fn open_intents(&self) -> Result<Vec<Draft>> {
        self.readers.read(journal::open_intents).await
    }

    async fn append(&self, record: Draft) -> Result<u64> {
        self.queue.append(record).await
    }

    async fn enqueue(&self, item: Lossy) -> Result<()> {
        let weight = telemetry::weight(&item);
        self.queue.send(Op::Lossy(Box::new(item)), weight).await
    }

    fn on_committed(&self, observer: Observer) {
        self.queue.numbers().observed_by(observer);
    }

    async fn journal(&self, filter: JournalFilter) -> Result<Vec<JournalRow>> {
        self.readers.read(move |conn| journal::read(conn, &filter)).await
    }

    async fn checkpoint(&self, now: Timestamp) -> Result<()> {
        // Goes through the writer even when there is nothing to sign: its commit shows a store that failed and can
        // write again.
        self.queue.run(SMALL, move |tx| tx.sign(now)).await
    }

    async fn checkpoints(&self, after: Option<u64>, limit: u32) -> Result<Vec<Checkpoint>> {
        let hub_id = self.hub_id;
        self.readers.read(move |conn| journal::checkpoints(conn, hub_id, after.unwrap_or(0), limit)).await
    }

    async fn prune(&self, retention: Retention, now: Timestamp) -> Result<Pruned> {
        let mut pruned = Pruned::default();
        if let Some(before) = retention.telemetry_before {
            let mut next = Some(0);
            while let Some(from) = next {
                let (removed, more) =
                    self.queue.run(SMALL, move |tx| telemetry::prune_snapshots(tx, before, from)).await?;
                pruned.snapshots += removed;
                next = more;
            }
        }
        if let Some(before) = retention.logs_before {
            let mut next = Some(0);
            while let Some(from) = next {
                let (removed, more) =
                    self.queue.run(SMALL, move |tx| telemetry::prune_logs(tx, before, from)).await?;
                pruned.logs += removed;
                next = more;
            }
        }
        let mut more = true;
        while more {
            let removed;
            (removed, more) = self.queue.run(SMALL, move |tx| calls::prune(tx, now)).await?;
            pruned.other += removed;
        }
        Ok(pruned)
    }

    async fn backup(&self, to: &Path) -> Result<()> {
        let (paths, to) = (self.paths.clone(), to.to_owned());
        // Its own connection: it reads for as long as the copy takes.
        tokio::task::spawn_blocking(move || backup::copy(&paths, &to, None).map(drop))
            .await
            .map_err(|_| crate::StoreError::Closed)?
    }
}
