//! Flags that narrow a role, of users and of tokens.

use clap::Args;
use convoke_core::effect::Effect;
use convoke_core::grant::Scopes;

use crate::parse;

#[derive(Debug, Args)]
pub(crate) struct ScopeArgs {
    /// Only calls with these effects
    #[arg(long, value_delimiter = ',', value_parser = parse::effect())]
    effects: Option<Vec<Effect>>,
    /// Only these tools; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Only these agents; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    agents: Option<Vec<String>>,
    /// Only agents with one of these tags; `*` is a wild card
    #[arg(long, value_delimiter = ',')]
    tags: Option<Vec<String>>,
    /// Allow approving others' calls that wait for a person
    #[arg(long)]
    approve: bool,
}

impl From<ScopeArgs> for Scopes {
    fn from(args: ScopeArgs) -> Self {
        let ScopeArgs { effects, tools, agents, tags, approve } = args;
        Self { effects, tools, agents, tags, approve: approve.then_some(true), ..Self::default() }
    }
}

/// Scopes, if they narrow or allow anything.
pub(super) fn given(scopes: Scopes) -> Option<Scopes> {
    (scopes != Scopes::default()).then_some(scopes)
}
