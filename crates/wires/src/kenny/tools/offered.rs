//! Which tools the machines within a caller's reach have: an assistant is shown no others.

use std::collections::BTreeSet;

use convoke_core::health::Os;
use convoke_core::id::Protocol;
use convoke_core::peer::Trust;
use convoke_gate::agents::AgentState;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;
use convoke_gate::resolve::is_shown;
use convoke_kenny::tools::{FEATURE_PROBES, Offers, TOOLS};

/// What the machines within reach have.
#[derive(Debug, Default)]
pub(crate) struct Offered {
    /// Tools of the catalogue. Everything where there is no machine yet: nobody knows what the first will be.
    tools: Option<BTreeSet<&'static str>>,
    /// Whether any of them answers probes.
    pub(crate) probes: bool,
}

impl Offered {
    pub(crate) fn to(hub: &Hub, caller: &Caller) -> Self {
        let mut offered = Self::default();
        let scopes = &caller.token.grant.scopes;
        for agent in hub.agents.list(None).iter().filter(|agent| is_shown(scopes, agent)) {
            let state = agent.state();
            let is_machine = [Protocol::Kenny, Protocol::Sonde].contains(&agent.id.protocol());
            if !is_machine || state.trust != Trust::Trusted {
                continue;
            }
            let tools = offered.tools.get_or_insert_default();
            if agent.id.protocol() == Protocol::Sonde {
                offered.probes = true;
                continue;
            }
            offered.probes |= state.has_feature(FEATURE_PROBES) || state.tunnel().is_some();
            if tools.len() < TOOLS.len() {
                let machine = about(&state);
                tools.extend(TOOLS.iter().filter(|tool| tool.is_offered_by(machine)).map(|tool| tool.name));
            }
        }
        offered.probes |= offered.tools.is_none();
        offered
    }

    pub(crate) fn has(&self, tool: &str) -> bool {
        self.tools.as_ref().is_none_or(|tools| tools.contains(tool))
    }
}

/// What an agent said of its machine. One that never connected may be anything.
pub(crate) fn about(state: &AgentState) -> Offers<'static> {
    let os = match state.os {
        _ if state.meta.is_none() => "",
        Os::Windows => "windows",
        Os::Linux => "linux",
        Os::Macos => "macos",
        Os::Other => "",
    };
    let version = state.protocol_version.as_deref().and_then(|version| version.parse().ok());
    Offers { os, version, shell_exec: state.has_feature("shell_exec") }
}
