//! The policy in force: the guard with the operators' deny rules, and the confirm rules. Readers take a snapshot;
//! changes swap it whole.

use std::sync::{Arc, PoisonError, RwLock};

use convoke_core::confirm::ConfirmRule;
use convoke_core::guard::{Guard, Rule};
use convoke_kenny::policy::{Group, PolicyRule};

/// The policy.
#[derive(Debug)]
pub struct Policy {
    current: RwLock<Arc<InForce>>,
    /// Held by whoever changes rules, from before they are kept until they are in force.
    turn: tokio::sync::Mutex<()>,
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
        Self { current: RwLock::new(Arc::new(InForce::new(deny, confirm))), turn: tokio::sync::Mutex::default() }
    }

    /// The turn of one who changes rules: two at once could each put in force what they read before the other.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// What is in force now.
    pub fn current(&self) -> Arc<InForce> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other deny rules in force.
    pub fn set_deny(&self, deny: Vec<Rule>) {
        let confirm = self.current().confirm.clone();
        self.swap(InForce::new(deny, confirm));
    }

    /// Puts other confirm rules in force.
    pub fn set_confirm(&self, confirm: Vec<ConfirmRule>) {
        let current = self.current();
        self.swap(InForce { guard: current.guard.clone(), deny: current.deny.clone(), confirm });
    }

    fn swap(&self, next: InForce) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }
}

impl InForce {
    fn new(deny: Vec<Rule>, confirm: Vec<ConfirmRule>) -> Self {
        let (guard, skipped) = Guard::with_operator_rules(&deny);
        for (rule, why) in skipped {
            // Rules are validated when they are added; one that no longer compiles was written by another version.
            tracing::error!(rule, %why, "a deny rule of the store is not in force");
        }
        Self { guard, deny, confirm }
    }

    /// The operators' rules as kenny agents take them.
    pub fn wire_rules(&self) -> impl Iterator<Item = PolicyRule> + '_ {
        self.deny.iter().filter_map(|rule| {
            Some(PolicyRule {
                id: rule.id.clone(),
                applies_to: Group::parse(rule.applies_to.name())?,
                pattern: rule.pattern.clone(),
                reason: rule.reason.clone(),
            })
        })
    }
}
