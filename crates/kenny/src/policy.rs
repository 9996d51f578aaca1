//! Deny rules as a `policy` frame carries them (contract, "policy"), and which agent understands which of them.

use convoke_core::guard::AppliesTo;
use serde::{Deserialize, Serialize};

use crate::version::ProtocolVersion;

/// One deny rule on the wire. Field order is the contract's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PolicyRule {
    /// Stable identifier.
    pub id: String,
    /// The group of texts that the pattern matches (contract, "policy": `applies_to`). `posix` is not in the contract: agents
    /// know it since 0.14.
    pub applies_to: AppliesTo,
    /// A regex in the subset that Rust and Python share.
    pub pattern: String,
    /// Why, for people.
    pub reason: String,
}

/// The commands that may run, in addition to the deny rules. Not in the contract: servers of the
/// field send it since 0.18, to every agent, as the key `shell` of a `policy` frame; a frame without it changes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShellPolicy {
    /// Which commands.
    pub mode: ShellMode,
    /// Those that may be run in the mode `allowlist`: a pattern must match the whole command.
    #[serde(default)]
    pub allow: Vec<PolicyRule>,
}

/// Which commands may be run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellMode {
    /// All that no deny rule refuses.
    #[default]
    Unrestricted,
    /// Of those, the ones that the list names.
    Allowlist,
    /// None.
    Off,
}

impl ShellMode {
    /// The mode of that name. A name that we do not know restricts in a way that we do not know: nothing may be run.
    pub fn parse(text: &str) -> Self {
        match text {
            "unrestricted" => Self::Unrestricted,
            "allowlist" => Self::Allowlist,
            _ => Self::Off,
        }
    }
}

/// The name under which an agent that speaks 0.8 announces in `register.meta.features` that it knows `posix` rules.
pub const FEATURE_POSIX: &str = "posix";

/// The name under which an agent announces that it heeds a `request`'s `below`: it reads files only below those folders,
/// wherever links lead (our own addition).
pub const FEATURE_BELOW: &str = "below";

/// The dialect of one agent beyond the contract, from its `register`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    posix: bool,
    shell: bool,
    below: bool,
}

impl Dialect {
    /// The dialect of an agent of that version that announced those features.
    pub fn new(protocol: Option<ProtocolVersion>, features: &[String]) -> Self {
        let posix =
            protocol.is_some_and(|v| v >= ProtocolVersion::V0_14) || features.iter().any(|f| f == FEATURE_POSIX);
        let below = features.iter().any(|f| f == FEATURE_BELOW);
        Self { posix, shell: protocol.is_some_and(|v| v >= ProtocolVersion::V0_18), below }
    }

    /// Whether the agent heeds a limit on what a call reads. Others are sent the contract's keys alone.
    pub fn heeds_below(self) -> bool {
        self.below
    }

    /// Whether the agent knows rules of this group.
    pub fn understands(self, group: AppliesTo) -> bool {
        group != AppliesTo::Posix || self.posix
    }

    /// The rules to send. An agent of the field that meets a group it does not know throws the *whole* frame away, so
    /// one `posix` rule would leave a 0.8 agent with no operator rules at all.
    pub fn filter(self, rules: impl IntoIterator<Item = PolicyRule>) -> Vec<PolicyRule> {
        rules.into_iter().filter(|r| self.understands(r.applies_to)).collect()
    }

    /// What to say of commands as such. An agent that knows a [`ShellPolicy`] keeps the one it was last told, across
    /// restarts and servers: one that comes from a server which switched commands off would refuse every command of
    /// this hub, whose means are deny rules and people's consent.
    pub fn shell(self) -> Option<ShellPolicy> {
        self.shell.then(ShellPolicy::default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn posix_rules_go_only_to_those_who_know_them() {
        let old = Dialect::new(Some(ProtocolVersion::V0_8), &[]);
        let new = Dialect::new(Some(ProtocolVersion::V0_14), &[]);
        let ours = Dialect::new(Some(ProtocolVersion::V0_8), &[FEATURE_POSIX.to_owned()]);
        let unversioned = Dialect::new(None, &[]);
        for (dialect, posix) in [(old, false), (new, true), (ours, true), (unversioned, false)] {
            assert_eq!(dialect.understands(AppliesTo::Posix), posix, "{dialect:?}");
            assert!(dialect.understands(AppliesTo::Powershell) && dialect.understands(AppliesTo::Path));
        }
        let rule = |applies_to| PolicyRule {
            id: "r".to_owned(),
            applies_to,
            pattern: "x".to_owned(),
            reason: "y".to_owned(),
        };
        assert_eq!((old.shell(), new.shell(), ours.shell()), (None, None, None));
        let newest = Dialect::new(Some(ProtocolVersion::V0_18), &[]);
        assert_eq!(newest.shell().map(|shell| shell.mode), Some(ShellMode::Unrestricted));
        assert_eq!(old.filter(AppliesTo::ALL.map(rule)).len(), 3);
        assert_eq!(new.filter(AppliesTo::ALL.map(rule)).len(), 4);
    }
}
