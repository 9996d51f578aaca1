//! The policy in force: the guard with the operators' deny rules, and the confirm rules. Readers take a snapshot;
//! changes swap it whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use convoke_core::confirm::ConfirmRule;
use convoke_core::guard::{Guard, Hit, Rule, Surface};
use tokio::runtime::RuntimeFlavor;

/// The policy.
#[derive(Debug)]
pub struct Policy {
    current: ArcSwap<InForce>,
    places: Vec<Rule>,
    /// Held by whoever changes rules, from before they are kept until they are in force.
    turn: tokio::sync::Mutex<()>,
    /// What was asked last of those that take long.
    long: tokio::sync::Mutex<Option<Asked>>,
}

/// What the guard said to long texts.
#[derive(Debug)]
struct Asked {
    of: Arc<InForce>,
    what: String,
    hit: Option<Hit>,
}

/// What is in force at one moment.
#[derive(Debug)]
pub struct InForce {
    /// Built-ins and operators' rules, compiled.
    pub guard: Guard,
    /// The operators' deny rules.
    pub deny: Vec<Rule>,
    /// The confirm rules.
    pub confirm: Vec<ConfirmRule>,
}

impl Policy {
    /// Starts from what is stored.
    pub fn new(deny: Vec<Rule>, confirm: Vec<ConfirmRule>) -> Self {
        Self::protecting(Vec::new(), deny, confirm)
    }

    /// The same, with rules for what this hub has on its own machine.
    pub fn protecting(places: Vec<Rule>, deny: Vec<Rule>, confirm: Vec<ConfirmRule>) -> Self {
        Self {
            current: ArcSwap::from_pointee(InForce::new(&places, deny, confirm)),
            places,
            turn: tokio::sync::Mutex::default(),
            long: tokio::sync::Mutex::default(),
        }
    }

    /// The turn of one who changes rules: two at once could each put in force what they read before the other.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// What is in force now.
    pub fn current(&self) -> Arc<InForce> {
        self.current.load_full()
    }

    /// Puts other deny rules in force.
    pub fn set_deny(&self, deny: Vec<Rule>) {
        let confirm = self.current().confirm.clone();
        self.swap(InForce::new(&self.places, deny, confirm));
    }

    /// Puts other confirm rules in force.
    pub fn set_confirm(&self, confirm: Vec<ConfirmRule>) {
        let current = self.current();
        self.swap(InForce { guard: current.guard.clone(), deny: current.deny.clone(), confirm });
    }

    /// What would be in force with one more rule of each kind, or another in place of the one with its id.
    pub fn with(&self, deny: Option<Rule>, confirm: Option<ConfirmRule>) -> Arc<InForce> {
        let current = self.current();
        let mut next = match deny {
            None => {
                InForce { guard: current.guard.clone(), deny: current.deny.clone(), confirm: current.confirm.clone() }
            }
            Some(rule) => {
                let others = current.deny.iter().filter(|one| one.id != rule.id).cloned();
                InForce::new(&self.places, others.chain([rule.clone()]).collect(), current.confirm.clone())
            }
        };
        if let Some(rule) = confirm {
            next.confirm.retain(|one| one.id != rule.id);
            next.confirm.push(rule);
        }
        Arc::new(next)
    }

    /// Asks the guard about texts that are long: one call's at a time, so that whoever has many takes one processor at the
    /// most, and off the threads that serve. `what` tells one call's texts from another's: what goes to many machines is
    /// looked at once.
    pub async fn check_long(&self, of: &Arc<InForce>, what: String, surfaces: &[Surface<'_>]) -> Option<Hit> {
        let mut last = self.long.lock().await;
        if let Some(asked) = &*last
            && Arc::ptr_eq(&asked.of, of)
            && asked.what == what
        {
            return asked.hit.clone();
        }
        let hit = beside(|| of.guard.check(surfaces));
        *last = Some(Asked { of: Arc::clone(of), what, hit: hit.clone() });
        hit
    }

    fn swap(&self, next: InForce) {
        self.current.store(Arc::new(next));
    }
}

/// Does what takes a while on this thread, and has another one serve meanwhile; where there is none, everybody waits.
fn beside<T>(work: impl FnOnce() -> T) -> T {
    match tokio::runtime::Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

impl InForce {
    fn new(places: &[Rule], deny: Vec<Rule>, confirm: Vec<ConfirmRule>) -> Self {
        let (guard, skipped) = Guard::with_operator_rules(&[places, &deny].concat());
        for (rule, why) in skipped {
            // Rules are validated when they are added; one that no longer compiles was written by another version.
            tracing::error!(rule, %why, "ignoring a stored deny rule that cannot be used");
        }
        Self { guard, deny, confirm }
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::guard::AppliesTo;

    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_long_text_is_looked_at_once_for_all_machines_and_anew_under_other_rules() {
        let policy = Policy::new(Vec::new(), Vec::new());
        let surface = |text: &str| [Surface { group: AppliesTo::Posix, text: text.to_owned().into() }];
        let (bad, good) = (surface("rm -rf /"), surface("true"));
        let before = policy.current();
        let hit = policy.check_long(&before, "a".into(), &bad).await;
        assert!(hit.is_some());
        // The same call for another machine: its texts are not looked at.
        assert_eq!(policy.check_long(&before, "a".into(), &good).await, hit);
        assert_eq!(policy.check_long(&before, "b".into(), &good).await, None, "another call's are");
        let rule =
            Rule { id: "x".into(), applies_to: AppliesTo::Posix, pattern: "true".into(), reason: "because".into() };
        policy.set_deny(vec![rule]);
        let hit = policy.check_long(&policy.current(), "b".into(), &good).await.expect("refused by the new rule");
        assert_eq!(hit.rule, "x");
    }
}
