//! The gate's decision: the one function every call passes, whatever door it came through.
//!
//! The order is fixed: authorise (role, scopes) → guard (deny rules) → confirm (a person). Authentication comes before
//! it (there is a [`Grant`] to look at), recording and dispatch after it. A guard's refusal stands above a person's
//! yes, and a call that was confirmed is decided again from the top before it runs, with what is in force then.

use crate::confirm::{ConfirmRule, Facts};
use crate::grant::{Grant, Missing};
use crate::guard::{Guard, Hit, Surface};

/// The gate's verdict on a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The caller has no right to it.
    Denied(Missing),
    /// A deny rule refuses it.
    Blocked(Hit),
    /// A person must say yes first; the rule that asks for it.
    Confirm {
        /// The confirm rule.
        rule: String,
        /// A rule that matches asks for a second person.
        second_person: bool,
    },
    /// The call may be sent.
    Allowed,
}

/// Whether a person has said yes already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consent {
    /// Nobody was asked.
    NotAsked,
    /// A valid approval, bound to this very call, has been consumed.
    Given,
}

/// Decides on one call.
pub fn decide(
    grant: &Grant,
    guard: &Guard,
    surfaces: &[Surface<'_>],
    confirm: &[ConfirmRule],
    facts: &Facts<'_>,
    consent: Consent,
) -> Verdict {
    decide_with(grant, || guard.check(surfaces), confirm, facts, consent)
}

/// The same with the guard as a closure. It is asked only about calls that the caller has a right to.
pub fn decide_with(
    grant: &Grant,
    guard: impl FnOnce() -> Option<Hit>,
    confirm: &[ConfirmRule],
    facts: &Facts<'_>,
    consent: Consent,
) -> Verdict {
    let right = grant.check_door(facts.door);
    if let Err(missing) = right.and_then(|()| grant.check_call(facts.effect, facts.tool, facts.agent, facts.tags)) {
        return Verdict::Denied(missing);
    }
    if let Some(hit) = guard() {
        return Verdict::Blocked(hit);
    }
    match consent {
        Consent::Given => Verdict::Allowed,
        Consent::NotAsked => {
            let matching = || confirm.iter().filter(|rule| rule.matches(facts));
            // The strictest says whose yes it takes.
            match matching().find(|rule| rule.second_person).or_else(|| matching().next()) {
                Some(rule) => Verdict::Confirm { rule: rule.id.clone(), second_person: rule.second_person },
                None => Verdict::Allowed,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::Door;
    use crate::effect::Effect;
    use crate::grant::{Role, Scopes};
    use crate::guard::AppliesTo;

    fn decide_on(role: Role, command: &str, door: Door, consent: Consent) -> Verdict {
        let facts = Facts { tool: "shell_exec", effect: Effect::Manage, agent: "pc", tags: &[], caller: "c", door };
        let surfaces = [Surface { group: AppliesTo::Posix, text: command.into() }];
        let grant = Grant { role, scopes: Scopes::default() };
        decide(&grant, &Guard::builtin(), &surfaces, &[ConfirmRule::default_rule()], &facts, consent)
    }

    #[test]
    fn authorise_comes_before_guard_and_guard_before_confirm() {
        let denied = decide_on(Role::Viewer, "rm -rf /", Door::Mcp, Consent::NotAsked);
        assert!(matches!(denied, Verdict::Denied(_)));
        let blocked = decide_on(Role::Operator, "rm -rf /", Door::Mcp, Consent::NotAsked);
        assert!(matches!(blocked, Verdict::Blocked(_)));
        let asked = decide_on(Role::Operator, "uptime", Door::Mcp, Consent::NotAsked);
        assert!(matches!(asked, Verdict::Confirm { .. }));
        assert_eq!(decide_on(Role::Operator, "uptime", Door::Http, Consent::NotAsked), Verdict::Allowed);
    }

    #[test]
    fn a_token_for_assistants_is_denied_at_every_other_door() {
        let doors = Some(vec![Door::Mcp]);
        let grant = Grant { role: Role::Operator, scopes: Scopes { doors, ..Scopes::default() } };
        for door in Door::ALL {
            let facts =
                Facts { tool: "net_config", effect: Effect::Observe, agent: "pc", tags: &[], caller: "c", door };
            let verdict = decide(&grant, &Guard::builtin(), &[], &[], &facts, Consent::NotAsked);
            let expected =
                if door == Door::Mcp { Verdict::Allowed } else { Verdict::Denied(Missing::Scope("doors")) };
            assert_eq!(verdict, expected, "{door}");
        }
    }

    #[test]
    fn the_strictest_rule_says_whose_yes_it_takes() {
        let facts = Facts {
            tool: "shell_exec",
            effect: Effect::Manage,
            agent: "pc",
            tags: &[],
            caller: "c",
            door: Door::Mcp,
        };
        let grant = Grant { role: Role::Operator, scopes: Scopes::default() };
        let strict = ConfirmRule { id: "strict".into(), second_person: true, ..ConfirmRule::default() };
        let other = ConfirmRule { tools: Some(vec!["fs_*".into()]), ..strict.clone() };
        let verdict =
            |rules: &[ConfirmRule]| decide(&grant, &Guard::builtin(), &[], rules, &facts, Consent::NotAsked);
        let confirm = |rule: &str, second_person| Verdict::Confirm { rule: rule.into(), second_person };
        let default = ConfirmRule::default_rule();
        assert_eq!(verdict(&[default.clone(), strict]), confirm("strict", true));
        assert_eq!(verdict(&[default.clone(), other]), confirm(&default.id, false));
    }

    #[test]
    fn a_yes_does_not_lift_the_guard_or_the_grant() {
        assert!(matches!(decide_on(Role::Operator, "rm -rf /", Door::Mcp, Consent::Given), Verdict::Blocked(_)));
        assert!(matches!(decide_on(Role::Viewer, "uptime", Door::Mcp, Consent::Given), Verdict::Denied(_)));
        assert_eq!(decide_on(Role::Operator, "uptime", Door::Mcp, Consent::Given), Verdict::Allowed);
    }
}
