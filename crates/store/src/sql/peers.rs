//! Agents and Sonde agents behind [`Peers`].

use async_trait::async_trait;
use convoke_core::id::PeerId;
use convoke_core::journal::Draft;
use convoke_core::peer::Trust;
use convoke_core::secret::TokenHash;
use convoke_core::time::Timestamp;

use super::writer::{SMALL, Tx};
use super::{SqlStore, agents, joined, sonde};
use crate::{
    AgentRow, EnrolOutcome, EnrolToken, JoinRow, Joining, Peers, Result, SondeAgentRow, SondeEnrolled, SondeTokenRow,
};

#[async_trait]
impl Peers for SqlStore {
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
        let work = move |tx: &mut Tx<'_>| agents::set_trust(tx, &agent, trust, forget_key, &record);
        if trust == Trust::Revoked {
            self.queue.withdraw(SMALL, work).await
        } else {
            self.queue.run(SMALL, work).await
        }
    }

    async fn set_tags(&self, agent: &PeerId, tags: &[String], record: Draft) -> Result<bool> {
        let (agent, tags) = (agent.clone(), tags.to_vec());
        self.queue.run(SMALL, move |tx| agents::set_tags(tx, &agent, &tags, &record)).await
    }

    async fn lapse_invitations(&self, now: Timestamp) -> Result<Vec<PeerId>> {
        self.queue.run(SMALL, move |tx| agents::lapse(tx, now)).await
    }

    async fn remove_agent(&self, agent: &PeerId, record: Draft) -> Result<bool> {
        let agent = agent.clone();
        self.queue.withdraw(SMALL, move |tx| agents::remove(tx, &agent, &record)).await
    }

    async fn joined(&self) -> Result<Vec<JoinRow>> {
        self.readers.read(joined::all).await
    }

    async fn put_join(&self, join: JoinRow, record: Draft) -> Result<()> {
        let parts = join.how == Joining::Apart;
        let work = move |tx: &mut Tx<'_>| joined::put(tx, &join, &record);
        if parts { self.queue.withdraw(SMALL, work).await } else { self.queue.run(SMALL, work).await }
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
}
