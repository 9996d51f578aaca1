//! The agent's own guard: what would wreck this machine is refused here, whoever asked and whatever the hub's guard said.
//!
//! Compiling the builtin catalogue takes memory that an agent which is never called need not hold, so it is compiled at
//! the first call. Rules of the operator come by `policy` and can only add.

use std::sync::{Mutex, PoisonError};

use convoke_core::guard::{AppliesTo, Guard, Hit, Rule, RuleError, Surface};
use convoke_kenny::policy::PolicyRule;
use convoke_kenny::tools::guard_surfaces;
use serde_json::Value;

/// Longest reason that is kept, in characters.
const MAX_REASON: usize = 500;

/// The rules in force.
#[derive(Debug, Default)]
pub(crate) struct AgentGuard {
    operator: Mutex<Option<Guard>>,
}

impl AgentGuard {
    /// Takes the operator's rules in place of those before, and returns those that cannot be used. Compiles, so not on
    /// the runtime's thread.
    pub(crate) fn set_rules(&self, rules: Vec<PolicyRule>) -> Vec<(String, RuleError)> {
        let rules: Vec<Rule> = rules.into_iter().filter_map(rule).collect();
        let (guard, refused) = if rules.is_empty() {
            (None, Vec::new())
        } else {
            let (guard, refused) = Guard::with_received_rules(&rules);
            (Some(guard), refused)
        };
        *self.operator.lock().unwrap_or_else(PoisonError::into_inner) = guard;
        refused
    }

    /// The rule that refuses a call, if one does. Matches, so not on the runtime's thread.
    pub(crate) fn check(&self, tool: &str, args: &Value) -> Option<Hit> {
        let surfaces: Vec<Surface<'_>> = guard_surfaces(tool, args)
            .into_iter()
            .filter_map(|(group, text)| Some(Surface { group: AppliesTo::parse(group.name())?, text }))
            .collect();
        if surfaces.is_empty() {
            return None;
        }
        let guard = self.operator.lock().unwrap_or_else(PoisonError::into_inner).clone();
        guard.unwrap_or_else(Guard::builtin).check(&surfaces)
    }
}

fn rule(rule: PolicyRule) -> Option<Rule> {
    let reason = match rule.reason.trim() {
        "" => "a rule of the operator".to_owned(),
        text => text.chars().take(MAX_REASON).collect(),
    };
    let applies_to = AppliesTo::parse(rule.applies_to.name())?;
    Some(Rule { id: rule.id.chars().take(128).collect(), applies_to, pattern: rule.pattern, reason })
}

#[cfg(test)]
mod tests {
    use convoke_kenny::policy::Group;
    use serde_json::json;

    use super::*;

    fn policy(id: &str, pattern: &str) -> PolicyRule {
        PolicyRule { id: id.into(), applies_to: Group::Posix, pattern: pattern.into(), reason: String::new() }
    }

    fn refused_by(guard: &AgentGuard, command: &str) -> Option<String> {
        guard.check("shell_exec", &json!({ "command": command })).map(|hit| hit.rule)
    }

    #[test]
    fn operator_rules_only_add_and_are_replaced_as_a_whole() {
        let guard = AgentGuard::default();
        assert!(refused_by(&guard, "rm -rf /").is_some());
        assert_eq!(refused_by(&guard, "nmap 10.0.0.1"), None);
        let bad = guard.set_rules(vec![policy("no_nmap", "nmap"), policy("bad", "(")]);
        assert!(matches!(bad.as_slice(), [(id, _)] if id == "bad"), "{bad:?}");
        assert_eq!(refused_by(&guard, "nmap 10.0.0.1").as_deref(), Some("no_nmap"));
        assert!(refused_by(&guard, "rm -rf /").is_some());
        assert!(guard.set_rules(Vec::new()).is_empty());
        assert_eq!(refused_by(&guard, "nmap 10.0.0.1"), None);
        assert!(refused_by(&guard, "rm -rf /").is_some(), "an empty policy leaves the builtin rules");
    }
}
