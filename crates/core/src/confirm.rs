//! Which calls need a person: confirm rules, as data.

use serde::{Deserialize, Serialize};

use crate::door::Door;
use crate::effect::Effect;
use crate::glob;

/// A call that matches every list that is there needs a person's approval. A rule with no list matches every call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfirmRule {
    /// Its name.
    pub id: String,
    /// Tools, globs allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Vec<Effect>>,
    /// Agents by id, globs allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Vec<String>>,
    /// Agents by tag, globs allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<Vec<String>>,
    /// Callers by token name, globs allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub callers: Option<Vec<String>>,
    /// Doors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doors: Option<Vec<Door>>,
    /// The yes must come from a second person: not from the owner of what asks, nor from anything of theirs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub second_person: bool,
}

/// The rule a new hub starts with: what an assistant wants to change, a person confirms.
pub const DEFAULT_RULE_ID: &str = "mcp-needs-a-person";

/// Most confirm rules a hub takes.
pub const MAX_RULES: usize = 500;
/// Most entries in one list of a rule.
pub const MAX_LIST: usize = 100;

/// The facts of a call that a rule examines.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The tool.
    pub tool: &'a str,
    /// Its effect.
    pub effect: Effect,
    /// The target.
    pub agent: &'a str,
    /// The target's tags.
    pub tags: &'a [String],
    /// The caller's name.
    pub caller: &'a str,
    /// The door it came through.
    pub door: Door,
}

impl ConfirmRule {
    /// The rule a new hub starts with.
    pub fn default_rule() -> Self {
        Self {
            id: DEFAULT_RULE_ID.into(),
            effects: Some(vec![Effect::Interact, Effect::Manage]),
            doors: Some(vec![Door::Mcp, Door::Room]),
            ..Self::default()
        }
    }

    /// Whether the rule asks for a person.
    pub fn matches(&self, facts: &Facts<'_>) -> bool {
        let globs =
            |list: &Option<Vec<String>>, text: &str| list.as_ref().is_none_or(|globs| glob::any_matches(globs, text));
        globs(&self.tools, facts.tool)
            && self.effects.as_ref().is_none_or(|list| list.contains(&facts.effect))
            && globs(&self.agents, facts.agent)
            && self.tags.as_ref().is_none_or(|list| facts.tags.iter().any(|tag| glob::any_matches(list, tag)))
            && globs(&self.callers, facts.caller)
            && self.doors.as_ref().is_none_or(|list| facts.door.is_in(list))
    }

    /// Whether the rule may be kept, in words for the operator.
    pub fn validate(&self) -> Result<(), BadConfirmRule> {
        let id_ok = !self.id.is_empty()
            && self.id.len() <= 64
            && self.id.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        if !id_ok {
            return Err(BadConfirmRule::Id);
        }
        for (name, list) in
            [("tools", &self.tools), ("agents", &self.agents), ("tags", &self.tags), ("callers", &self.callers)]
        {
            let Some(list) = list else { continue };
            if list.len() > MAX_LIST || list.iter().any(|g| g.is_empty() || g.len() > 128) {
                return Err(BadConfirmRule::List(name));
            }
            // Callers have whatever name they were given.
            if name != "callers" && !list.iter().all(|pattern| glob::is_for_names(pattern)) {
                return Err(BadConfirmRule::Pattern(name));
            }
        }
        // An empty list can match nothing, so the rule would look like protection and be none.
        let empty = [
            ("tools", self.tools.as_ref().map(Vec::len)),
            ("effects", self.effects.as_ref().map(Vec::len)),
            ("agents", self.agents.as_ref().map(Vec::len)),
            ("tags", self.tags.as_ref().map(Vec::len)),
            ("callers", self.callers.as_ref().map(Vec::len)),
            ("doors", self.doors.as_ref().map(Vec::len)),
        ];
        match empty.into_iter().find(|(_, len)| *len == Some(0)) {
            Some((name, _)) => Err(BadConfirmRule::Empty(name)),
            None => Ok(()),
        }
    }
}

/// Why a confirm rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConfirmRule {
    /// The id.
    #[error("`id` must be 1 to 64 letters, digits, '_', '.' or '-'")]
    Id,
    /// A list is too long or has an entry that is empty or too long.
    #[error("`{0}` takes at most {MAX_LIST} entries of 1 to 128 characters")]
    List(&'static str),
    /// A pattern that no name fits.
    #[error(
        "`{0}` has an entry that could never match: a name has letters, digits, '.', '_', ':' and '-', only `*` stands for others, and each name is an entry of its own"
    )]
    Pattern(&'static str),
    /// An empty list.
    #[error("`{0}` is empty, so the rule could never match; leave it out to match all")]
    Empty(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &str, door: Door, effect: Effect, expect: bool) {
        let rule: ConfirmRule = serde_json::from_str(rule).expect("test rule");
        let tags = ["lab".to_owned()];
        let facts = Facts { tool: "shell_exec", effect, agent: "pc-1", tags: &tags, caller: "bot", door };
        assert_eq!(rule.matches(&facts), expect);
    }

    #[test]
    fn lists_narrow_and_absent_ones_do_not() {
        check(r#"{"id":"all"}"#, Door::Http, Effect::Observe, true);
        check(r#"{"id":"x","doors":["mcp"]}"#, Door::Http, Effect::Manage, false);
        check(r#"{"id":"x","doors":["mcp"],"effects":["manage"]}"#, Door::Mcp, Effect::Manage, true);
        check(r#"{"id":"x","tags":["lab"],"agents":["pc-*"],"callers":["b*"]}"#, Door::Cli, Effect::Manage, true);
        check(r#"{"id":"x","tags":["prod"]}"#, Door::Cli, Effect::Manage, false);
        check(r#"{"id":"x","tools":["fs_*"]}"#, Door::Cli, Effect::Manage, false);
        check(r#"{"id":"x","doors":["http"]}"#, Door::Cli, Effect::Manage, true);
        check(r#"{"id":"x","doors":["cli"]}"#, Door::Http, Effect::Manage, false);
    }

    #[test]
    fn the_default_asks_for_what_changes_things_through_mcp() {
        let rule = serde_json::to_string(&ConfirmRule::default_rule()).expect("serialises");
        check(&rule, Door::Mcp, Effect::Interact, true);
        check(&rule, Door::Mcp, Effect::Observe, false);
        check(&rule, Door::Cli, Effect::Manage, false);
    }

    #[test]
    fn a_rule_that_cannot_match_is_refused() {
        let rule: ConfirmRule = serde_json::from_str(r#"{"id":"x","doors":[]}"#).expect("parses");
        assert_eq!(rule.validate(), Err(BadConfirmRule::Empty("doors")));
        for (list, entry) in [
            ("tags", "prod?"),
            ("agents", "pc-[12]"),
            ("tools", "{shell,powershell}_exec"),
            ("tags", "a, b"),
            ("agents", "!other"),
            ("tags", "lab/*"),
        ] {
            let rule: ConfirmRule =
                serde_json::from_value(serde_json::json!({ "id": "x", (list): [entry] })).expect("parses");
            assert_eq!(rule.validate(), Err(BadConfirmRule::Pattern(list)), "{entry}");
        }
        let rule: ConfirmRule = serde_json::from_str(
            r#"{"id":"x","callers":["who is it?"],"agents":["sonde:*"],"tools":["system.disk.*"]}"#,
        )
        .expect("parses");
        assert_eq!(rule.validate(), Ok(()));
        assert!(ConfirmRule::default_rule().validate().is_ok());
    }
}
