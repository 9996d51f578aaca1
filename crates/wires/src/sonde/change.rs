//! Changes of what is known of an agent: what it says, what it should say, and what it can do.
//!
//! In the agent's turn, on a copy, and kept before it is in force: two changes at once must not undo each other, and one
//! that could not be kept has not happened, so that it is tried, and recorded, the next time.

use std::sync::Arc;

use convoke_core::event::AgentChange;
use convoke_core::journal::Draft;
use convoke_store::StoreError;

use super::registry::{Facts, SondeAgent};
use crate::Wires;

/// Why nothing was changed.
#[derive(Debug)]
pub enum NotChanged<E> {
    /// The agent was removed meanwhile, or has enrolled anew and is another now.
    Gone,
    /// The change itself says no.
    No(E),
    /// It could not be kept.
    Store(StoreError),
}

/// Changes what is known of an agent. `work` answers with the record to keep beside it.
pub async fn facts<E>(
    hub: &Wires,
    agent: &Arc<SondeAgent>,
    work: impl FnOnce(&mut Facts) -> Result<Option<Draft>, E>,
) -> Result<(), NotChanged<E>> {
    let _turn = hub.agents.turn(agent.id.as_str()).await;
    if !hub.sonde.registry.find(&agent.id).is_some_and(|known| Arc::ptr_eq(&known, agent)) {
        return Err(NotChanged::Gone);
    }
    let mut facts = agent.state().facts.clone();
    let text = |facts: &Facts| serde_json::to_string(facts).unwrap_or_default();
    let before = text(&facts);
    let record = work(&mut facts).map_err(NotChanged::No)?;
    let (after, is_recorded) = (text(&facts), record.is_some());
    if after != before || is_recorded {
        hub.store.set_sonde_facts(&agent.id, after, record).await.map_err(NotChanged::Store)?;
    }
    agent.state().facts = facts;
    if is_recorded {
        hub.events.agent(&agent.id, AgentChange::Attestation);
    }
    Ok(())
}
