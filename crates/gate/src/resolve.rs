//! Which agent a text means: one rule for every door.
//!
//! An exact id comes first, then what only one agent is called: the name it enrolled with, then the name of its host. A
//! unique beginning is enough only where the door says so: for what reads, never for what withdraws or grants.

use std::sync::Arc;

use convoke_core::grant::Scopes;
use convoke_core::id::PeerId;
use convoke_core::query::{Field, Subject};

use crate::agents::{Agent, AgentState, Agents};
use crate::operators::Caller;

/// Most agents that are named when a text means several.
const MAX_NAMED: usize = 8;

/// What a text may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An id or a name.
    Name,
    /// Also the beginning of one.
    Beginning,
}

/// Why a text means no agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    /// No agent that may be meant.
    Nobody,
    /// Several agents.
    Several {
        /// Some of them.
        ids: Vec<PeerId>,
        /// How many.
        count: usize,
    },
}

/// How a text fits an agent. The better one comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The id without its prefix.
    BareId,
    Name,
    Hostname,
    Beginning,
}

/// Whether an agent is within a caller's reach.
pub fn reaches(caller: &Caller, agent: &Agent) -> bool {
    let tags = Arc::clone(&agent.state().tags);
    caller.token.grant.scopes.reaches(agent.id.as_str(), &tags)
}

/// The machine, where an agent is the second tunnel of one within reach; else the agent. Whoever reaches a machine sees one,
/// and whoever reaches only its second tunnel sees that.
pub fn machine_of(scopes: &Scopes, agent: &Arc<Agent>) -> Arc<Agent> {
    let machine = agent.state().machine();
    let reached = machine.filter(|machine| scopes.reaches(machine.id.as_str(), &Arc::clone(&machine.state().tags)));
    reached.unwrap_or_else(|| Arc::clone(agent))
}

/// Whether an agent is within reach, and is not seen as a part of its machine.
pub fn is_shown(scopes: &Scopes, agent: &Arc<Agent>) -> bool {
    let (tags, machine) = {
        let state = agent.state();
        (Arc::clone(&state.tags), state.machine())
    };
    scopes.reaches(agent.id.as_str(), &tags) && (machine.is_none() || Arc::ptr_eq(&machine_of(scopes, agent), agent))
}

/// The agent that a caller means, of those within their reach that `can` be meant. Who is out of reach makes no difference:
/// that somebody has an id must not be told by what it takes from others.
pub fn resolve(
    agents: &Agents,
    caller: &Caller,
    text: &str,
    by: By,
    can: impl Fn(&Agent) -> bool,
) -> Result<Arc<Agent>, Unresolved> {
    let scopes = &caller.token.grant.scopes;
    if let Some(agent) = agents.find(text).map(|agent| machine_of(scopes, &agent))
        && can(&agent)
        && reaches(caller, &agent)
    {
        return Ok(agent);
    }
    let all = agents.list(None);
    let fitting = all.iter().filter_map(|agent| {
        let fit = fit(agent.id.as_str(), &agent.state(), text, by)?;
        Some((fit, machine_of(scopes, agent)))
    });
    let fitting: Vec<_> = fitting.filter(|(_, agent)| can(agent) && reaches(caller, agent)).collect();
    let best = fitting.iter().map(|(fit, _)| *fit).min();
    let mut meant: Vec<_> =
        fitting.into_iter().filter(|(fit, _)| Some(*fit) == best).map(|(_, agent)| agent).collect();
    // A machine may be meant by the names of both of its tunnels.
    meant.sort_unstable_by(|a, b| a.id.as_str().cmp(b.id.as_str()));
    meant.dedup_by(|a, b| a.id == b.id);
    if meant.len() < 2 {
        return meant.pop().ok_or(Unresolved::Nobody);
    }
    let ids = meant.iter().take(MAX_NAMED).map(|agent| agent.id.clone());
    Err(Unresolved::Several { ids: ids.collect(), count: meant.len() })
}

/// An agent, as queries look at it.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Its id.
    pub id: &'a PeerId,
    /// What is known of it.
    pub state: &'a AgentState,
}

impl Subject for Described<'_> {
    fn has(&self, field: Field, fits: &dyn Fn(&str) -> bool) -> bool {
        let Self { id, state } = self;
        let optional = |text: &Option<Box<str>>| text.as_deref().is_some_and(fits);
        match field {
            Field::Any => fits(id.as_str()) || optional(&state.name) || optional(&state.hostname),
            Field::Id => fits(id.as_str()),
            Field::Name => optional(&state.name) || optional(&state.hostname),
            Field::Tag => state.tags.iter().any(|tag| fits(tag)),
            Field::Health => fits(state.overall.name()),
            Field::Protocol => fits(id.protocol().name()),
            Field::Version => optional(&state.version),
            Field::Os => fits(state.os.name()),
            Field::State => fits(state.liveness().name()),
            Field::Trust => fits(state.trust.name()),
            Field::Online => fits(if state.is_there() { "true" } else { "false" }),
        }
    }
}

fn fit(id: &str, state: &AgentState, text: &str, by: By) -> Option<Fit> {
    if text.is_empty() {
        return None;
    }
    let (name, hostname) = (state.name.as_deref(), state.hostname.as_deref());
    let begins = |with: Option<&str>| with.is_some_and(|with| with.starts_with(text));
    if id.split_once(':').is_some_and(|(_, bare)| bare == text) {
        Some(Fit::BareId)
    } else if name == Some(text) {
        Some(Fit::Name)
    } else if hostname.is_some_and(|hostname| hostname.eq_ignore_ascii_case(text)) {
        Some(Fit::Hostname)
    } else if by == By::Beginning && (begins(Some(id)) || begins(name) || begins(hostname)) {
        Some(Fit::Beginning)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `id/name/hostname`, each but the id may be empty.
    fn fits(agent: &str, text: &str, by: By) -> Option<Fit> {
        let mut parts = agent.split('/');
        let mut part = || parts.next().filter(|part| !part.is_empty());
        let agent = Agent::elsewhere(part().expect("an id").parse().expect("an id"));
        let mut state = agent.state();
        state.name = part().map(Into::into);
        state.hostname = part().map(Into::into);
        fit(agent.id.as_str(), &state, text, by)
    }

    #[test]
    fn names_fit_before_hosts_and_beginnings_only_where_they_may() {
        const UUID: &str = "0b9e4c1e-5a0f-4b57-9d8e-0d1f2a3b4c5d";
        let sonde = format!("sonde:{UUID}/web-1/box");
        for (agent, text, name, beginning) in [
            (sonde.as_str(), UUID, Some(Fit::BareId), Some(Fit::BareId)),
            (&sonde, "web-1", Some(Fit::Name), Some(Fit::Name)),
            (&sonde, "WEB-1", None, None),
            (&sonde, "BOX", Some(Fit::Hostname), Some(Fit::Hostname)),
            (&sonde, "we", None, Some(Fit::Beginning)),
            (&sonde, "sonde:0b", None, Some(Fit::Beginning)),
            (&sonde, "eb-1", None, None),
            ("pc-1//LAPTOP", "pc", None, Some(Fit::Beginning)),
            ("pc-1//LAPTOP", "laptop", Some(Fit::Hostname), Some(Fit::Hostname)),
            ("pc-1", "", None, None),
        ] {
            assert_eq!(fits(agent, text, By::Name), name, "{agent} {text}");
            assert_eq!(fits(agent, text, By::Beginning), beginning, "{agent} {text}");
        }
    }
}
