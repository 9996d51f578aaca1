//! The guard: calls that would wreck a machine, blind it or read its credentials are refused before they run, whoever
//! asks and whoever approved.
//!
//! A call shows the guard one or more [`Surface`]s, each a text and the group of rules it is checked against. Rules are
//! patterns: the builtin ones come from `guard/catalogue.json`, an operator may add more and can take none away. Each
//! text is matched as it was sent and in a normalised form (see `guard/normal.rs`), so that quotes, escapes, spacing
//! and line breaks do not get a call past a rule.
//!
//! The guard is a seat belt, not a sandbox: a text that builds its command at run time can say anything. It is there
//! for the mistaken operator and the assistant carried away, and grants and approval are there for the rest.

mod expand;
mod fetched;
mod normal;
mod place;
mod portable;
mod quoted;
#[cfg(test)]
mod tests;
mod variables;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, OnceLock};

use regex::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};

pub use portable::{RuleError, Whole, validate};

/// Most operator rules a guard takes.
pub const MAX_OPERATOR_RULES: usize = 500;

/// Memory for the automaton a set builds while it matches. What does not fit is matched slower, never differently.
const AUTOMATON_BYTES: usize = 8 << 20;
/// The same for a single pattern.
const SINGLE_AUTOMATON_BYTES: usize = 2 << 20;

/// Longest text that is matched with all patterns of a group at once. The automaton of many patterns has states without
/// number: a long text of mixed words fills it over and over, which takes hundreds of times as long as the text would
/// otherwise, and from then on every text does. That of one pattern stays small, whatever the text.
const AT_ONCE: usize = 4 << 10;

/// The group of rules a text is checked against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AppliesTo {
    /// A PowerShell or cmd script.
    Powershell,
    /// A POSIX shell command.
    Posix,
    /// Any script or command: what would stop, remove or impersonate our own agent.
    SelfProtection,
    /// A path that a file tool would read, list or search.
    Path,
}

impl AppliesTo {
    /// All groups.
    pub const ALL: [Self; 4] = [Self::Powershell, Self::Posix, Self::SelfProtection, Self::Path];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Powershell => "powershell",
            Self::Posix => "posix",
            Self::SelfProtection => "self_protection",
            Self::Path => "path",
        }
    }

    /// The group of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// One rule: a text of its group that the pattern matches is refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name, which a refusal tells.
    pub id: String,
    /// The texts it looks at.
    pub applies_to: AppliesTo,
    /// A pattern that means the same in Rust and in Python; matches anywhere in the text.
    pub pattern: String,
    /// The reason that the caller sees.
    pub reason: String,
}

/// One text of a call, to be checked against one group.
#[derive(Clone, Debug)]
pub struct Surface<'a> {
    /// The rules it is checked against.
    pub group: AppliesTo,
    /// The text as it would be run or opened.
    pub text: Cow<'a, str>,
}

/// Why a call is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The rule's id.
    pub rule: String,
    /// The rule's reason.
    pub reason: String,
    /// Whether the rule is one of ours rather than the operator's.
    pub builtin: bool,
}

/// The rules in force. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Guard {
    operator: Option<Arc<Compiled>>,
}

impl Guard {
    /// The builtin rules alone. Each group is compiled when a text is first checked against it: a machine that never
    /// sees a script for another system's shell need not hold what it takes to read one.
    pub fn builtin() -> Self {
        Self { operator: None }
    }

    /// The builtin rules and then the operator's. A rule that cannot be used is left out and told with its id; it
    /// never takes another rule with it.
    pub fn with_operator_rules(rules: &[Rule]) -> (Self, Vec<(String, RuleError)>) {
        let mut refused = Vec::new();
        let mut seen = HashSet::new();
        let mut kept: Vec<Rule> = Vec::new();
        for rule in rules {
            let verdict = match validate(rule) {
                Err(error) => Err(error),
                Ok(()) if kept.len() >= MAX_OPERATOR_RULES => Err(RuleError::TooMany),
                Ok(()) if !seen.insert(&rule.id) => Err(RuleError::IdTaken),
                Ok(()) => Ok(()),
            };
            match verdict {
                Ok(()) => kept.push(rule.clone()),
                Err(error) => refused.push((rule.id.clone(), error)),
            }
        }
        let (compiled, failed) = Compiled::new(kept);
        refused.extend(failed.into_iter().map(|id| (id, RuleError::TooLarge)));
        // Whoever keeps rules of its own answers for many machines, and should not let the first caller wait.
        for group in AppliesTo::ALL {
            builtin_sets(group);
        }
        (Self { operator: Some(Arc::new(compiled)) }, refused)
    }

    /// The builtin rules and those that a hub sent. An operator's own entry can still be mended when it is refused; here
    /// nobody is there to do so, and a rule that could be enforced must not be lost to its form: whatever compiles
    /// holds. What does not is left out and told with its id.
    pub fn with_received_rules(rules: &[Rule]) -> (Self, Vec<(String, RuleError)>) {
        let mut refused = Vec::new();
        let mut kept: Vec<Rule> = Vec::new();
        for rule in rules {
            let verdict = match portable::compiles(&rule.pattern) {
                Ok(()) if kept.len() >= MAX_OPERATOR_RULES => Err(RuleError::TooMany),
                verdict => verdict,
            };
            match verdict {
                Ok(()) => kept.push(rule.clone()),
                Err(error) => refused.push((rule.id.clone(), error)),
            }
        }
        let (compiled, failed) = Compiled::new(kept);
        refused.extend(failed.into_iter().map(|id| (id, RuleError::TooLarge)));
        (Self { operator: Some(Arc::new(compiled)) }, refused)
    }

    /// The rule that refuses the call, if one does: the first of the builtin rules in catalogue order, else the first
    /// of the operator's.
    pub fn check(&self, surfaces: &[Surface<'_>]) -> Option<Hit> {
        let texts: Vec<(AppliesTo, normal::Forms<'_>)> =
            surfaces.iter().map(|s| (s.group, normal::forms(s.group, &s.text))).collect();
        let hit = |rule: &Rule, builtin| Hit { rule: rule.id.clone(), reason: rule.reason.clone(), builtin };
        let groups = AppliesTo::ALL.into_iter().filter(|of| texts.iter().any(|(group, _)| group == of));
        if let Some(place) = first_match(groups.flat_map(builtin_sets), &texts) {
            return Some(hit(&RULES[place], true));
        }
        let operator = self.operator.as_ref()?;
        Some(hit(&operator.rules[first_match(operator.sets.iter(), &texts)?], false))
    }

    /// Whether a check of these takes long enough for others not to wait for it.
    pub fn is_long(surfaces: &[Surface<'_>]) -> bool {
        surfaces.iter().any(|surface| surface.text.len() > AT_ONCE)
    }

    /// The builtin rules, in catalogue order.
    pub fn builtin_rules() -> &'static [Rule] {
        &RULES
    }
}

/// The catalogue as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Catalogue {
    #[serde(rename = "catalog_version")]
    _version: u32,
    #[serde(rename = "comment")]
    _comment: String,
    rules: Vec<Rule>,
}

static RULES: LazyLock<Vec<Rule>> = LazyLock::new(|| {
    let catalogue: Catalogue = serde_json::from_str(include_str!("guard/catalogue.json"))
        .expect("the catalogue is part of the binary and a test reads it");
    catalogue.rules
});

/// The builtin rules' sets, by group in the order of [`AppliesTo::ALL`].
static BUILTIN: [OnceLock<Vec<Set>>; AppliesTo::ALL.len()] = [const { OnceLock::new() }; AppliesTo::ALL.len()];

/// The builtin rules' sets of a group, compiled if they are not.
fn builtin_sets(group: AppliesTo) -> &'static [Set] {
    let sets = AppliesTo::ALL.iter().zip(&BUILTIN).find(|(of, _)| **of == group);
    sets.map_or(&[], |(_, sets)| sets.get_or_init(|| compile_builtin(group)).as_slice())
}

fn compile_builtin(group: AppliesTo) -> Vec<Set> {
    let (mut sets, mut failed) = (Vec::new(), Vec::new());
    compile(&RULES, group, &places(&RULES, group), &mut sets, &mut failed);
    // A guard with a hole must not let anything by, and a test would have told.
    assert!(failed.is_empty(), "builtin guard rules of the group {} do not compile", group.name());
    sets
}

/// Where the rules of a group are.
fn places(rules: &[Rule], group: AppliesTo) -> Vec<usize> {
    (0..rules.len()).filter(|&i| rules[i].applies_to == group).collect()
}

/// Rules with the sets that match them.
#[derive(Debug)]
struct Compiled {
    rules: Vec<Rule>,
    sets: Vec<Set>,
}

/// The patterns of one group, and for each its place among the rules.
#[derive(Debug)]
struct Set {
    group: AppliesTo,
    patterns: RegexSet,
    /// Each for itself, compiled when a long text is first checked. None if one of them cannot be.
    singly: OnceLock<Option<Vec<Regex>>>,
    places: Vec<usize>,
}

impl Set {
    /// The place of the first rule that matches.
    fn first_match(&self, text: &str) -> Option<usize> {
        if text.len() > AT_ONCE
            && let Some(singly) = self.singly.get_or_init(|| self.compile_singly())
        {
            // A clone has an automaton of its own, which goes with it: what a long text made of it is of no use to others.
            let matches = |pattern: &Regex| pattern.clone().is_match(text);
            return singly.iter().position(matches).map(|i| self.places[i]);
        }
        // Most calls are allowed, and whether anything matches is cheaper to know than what does.
        if !self.patterns.is_match(text) {
            return None;
        }
        self.patterns.matches(text).iter().next().map(|i| self.places[i])
    }

    fn compile_singly(&self) -> Option<Vec<Regex>> {
        let compile = |pattern: &String| {
            RegexBuilder::new(pattern)
                .size_limit(compiled_bytes(self.places.len()))
                .dfa_size_limit(SINGLE_AUTOMATON_BYTES)
                .build()
                .ok()
        };
        self.patterns.patterns().iter().map(compile).collect()
    }
}

/// What so many patterns may take once they are compiled.
const fn compiled_bytes(patterns: usize) -> usize {
    (patterns + 1) * portable::MAX_COMPILED_BYTES
}

impl Compiled {
    /// The rules compiled, and the ids of those that could not be.
    fn new(rules: Vec<Rule>) -> (Self, Vec<String>) {
        let mut sets = Vec::new();
        let mut failed = Vec::new();
        for group in AppliesTo::ALL {
            compile(&rules, group, &places(&rules, group), &mut sets, &mut failed);
        }
        let failed = failed.into_iter().map(|i| rules[i].id.clone()).collect();
        (Self { rules, sets }, failed)
    }
}

/// The first rule that matches, by its place.
fn first_match<'s>(sets: impl Iterator<Item = &'s Set>, texts: &[(AppliesTo, normal::Forms<'_>)]) -> Option<usize> {
    let mut first: Option<usize> = None;
    for set in sets {
        for (_, forms) in texts.iter().filter(|(group, _)| *group == set.group) {
            for form in forms.iter() {
                first = first.into_iter().chain(set.first_match(form)).min();
            }
        }
    }
    first
}

/// One set for all of `places`; when they are too large together, two halves, so that no rule is lost to its
/// neighbours.
fn compile(rules: &[Rule], group: AppliesTo, places: &[usize], sets: &mut Vec<Set>, failed: &mut Vec<usize>) {
    if places.is_empty() {
        return;
    }
    let built = RegexSetBuilder::new(places.iter().map(|&i| &rules[i].pattern))
        .size_limit(compiled_bytes(places.len()))
        .dfa_size_limit(AUTOMATON_BYTES)
        .build();
    match built {
        Ok(patterns) => sets.push(Set { group, patterns, singly: OnceLock::new(), places: places.to_vec() }),
        Err(_) if places.len() == 1 => failed.extend(places),
        Err(_) => {
            let (left, right) = places.split_at(places.len() / 2);
            compile(rules, group, left, sets, failed);
            compile(rules, group, right, sets, failed);
        }
    }
}
