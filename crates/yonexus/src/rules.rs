//! The rule registry (contract, section 8): exact match, in order of registration, the first one wins.
//!
//! Since matching is exact, a second rule of the same identifier could never be reached; registering one is refused, so
//! that nobody waits for messages that do not come.

use std::collections::HashMap;

use crate::message::{BadRule, check_registered};

/// Most rules in one registry.
pub const MAX_RULES: usize = 1_000;

/// Rules, each with what it does.
#[derive(Clone, Debug)]
pub struct Rules<T> {
    order: Vec<(Box<str>, T)>,
    places: HashMap<Box<str>, usize>,
}

/// Why a rule was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// No name for a rule.
    #[error(transparent)]
    Name(#[from] BadRule),
    /// It is there already.
    #[error("this rule is registered already")]
    Taken,
    /// There is no room.
    #[error("there are {MAX_RULES} rules already, the most there may be")]
    Full,
}

impl<T> Default for Rules<T> {
    fn default() -> Self {
        Self { order: Vec::new(), places: HashMap::new() }
    }
}

impl<T> Rules<T> {
    /// Registers a rule after all others.
    pub fn register(&mut self, rule: &str, does: T) -> Result<(), RegisterError> {
        check_registered(rule)?;
        if self.places.contains_key(rule) {
            return Err(RegisterError::Taken);
        }
        if self.order.len() >= MAX_RULES {
            return Err(RegisterError::Full);
        }
        self.places.insert(rule.into(), self.order.len());
        self.order.push((rule.into(), does));
        Ok(())
    }

    /// The target of the first rule with exactly this identifier.
    pub fn find(&self, rule: &str) -> Option<&T> {
        self.places.get(rule).and_then(|place| self.order.get(*place)).map(|(_, does)| does)
    }

    /// All rules in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.order.iter().map(|(rule, does)| (&**rule, does))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_is_exact_and_builtin_is_reserved() {
        let mut rules = Rules::default();
        rules.register("chat", 1).expect("free");
        rules.register("chat_sync", 2).expect("free");
        assert_eq!(rules.find("chat"), Some(&1));
        assert_eq!(rules.find("chat_sync"), Some(&2));
        for other in ["cha", "Chat", "chat ", "chat*", ""] {
            assert_eq!(rules.find(other), None, "{other:?}");
        }
        assert_eq!(rules.register("chat", 3), Err(RegisterError::Taken));
        assert_eq!(rules.register("builtin", 3), Err(RegisterError::Name(BadRule::Reserved)));
        assert_eq!(rules.iter().map(|(rule, _)| rule).collect::<Vec<_>>(), ["chat", "chat_sync"]);
    }

    #[test]
    fn there_is_a_most() {
        let mut rules = Rules::default();
        for n in 0..MAX_RULES {
            rules.register(&format!("r{n}"), ()).expect("room");
        }
        assert_eq!(rules.register("one more", ()), Err(RegisterError::Full));
    }
}
