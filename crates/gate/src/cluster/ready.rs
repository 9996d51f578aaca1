//! Whether a hub among several can answer for a call before it takes it: its lease lives, and database and bus are there.

use crate::agents::Agent;
use crate::hub::Hub;

const FENCED: &str = "another hub has ended this one, whose lease was over; it starts anew";
const NO_LEASE: &str = "this hub cannot renew its lease in the database (store.url, hub.lease_s)";
const NO_DATABASE: &str = "the database (store.url) takes nothing";
const NO_BUS: &str = "this hub cannot reach the bus (bus.url)";

impl Hub {
    /// Why this hub can take nothing now that must be recorded. Never, where it is alone.
    pub fn takes_nothing(&self) -> Option<&'static str> {
        let cluster = self.cluster.as_ref()?;
        if cluster.fenced.is_cancelled() {
            Some(FENCED)
        } else if !cluster.may_act() {
            Some(NO_LEASE)
        } else if self.store.stats().failing {
            Some(NO_DATABASE)
        } else {
            None
        }
    }

    /// Why this hub reaches no other one, and gets no new connections of agents.
    pub fn reaches_nobody(&self) -> Option<&'static str> {
        self.cluster.as_ref().filter(|cluster| !cluster.has_bus()).map(|_| NO_BUS)
    }

    /// Why a call to this agent cannot be taken now.
    pub(crate) fn cannot_call(&self, agent: &Agent) -> Option<&'static str> {
        self.takes_nothing().or_else(|| self.reaches_nobody().filter(|_| agent.state().remote().is_some()))
    }

    /// Whether another hub has ended this one.
    pub fn is_fenced(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.fenced.is_cancelled())
    }

    /// Resolves when another hub has ended this one: it writes and sends nothing any more, and is started anew.
    pub async fn fenced(&self) {
        match &self.cluster {
            Some(cluster) => cluster.fenced.cancelled().await,
            None => std::future::pending().await,
        }
    }
}
