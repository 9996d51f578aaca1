//! Deny rules and confirm rules.

use convoke_core::confirm::ConfirmRule;
use convoke_core::guard::Rule;
use convoke_core::id::CallId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::words;

/// All deny rules in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DenyRules {
    /// Compiled in; they cannot be weakened.
    #[schema(value_type = Vec<DenyRuleShape>)]
    pub builtin: Vec<Rule>,
    /// Added by operators.
    #[schema(value_type = Vec<DenyRuleShape>)]
    pub operator: Vec<Rule>,
}

/// A call that nobody makes, to see what the gate would say.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PolicyTest {
    /// On which agent.
    pub agent: String,
    /// Which tool.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Value>,
    /// The user or token that would ask; who asks by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub caller: Option<String>,
    /// Through which door; for an assistant `mcp` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<words::Door>)]
    pub door: Option<String>,
    /// With this deny rule, too, or in place of the one with the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DenyRuleShape>)]
    pub deny: Option<Rule>,
    /// With this confirm rule, too, or in place of the one with the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ConfirmRuleShape>)]
    pub confirm: Option<ConfirmRule>,
}

/// What the gate would say.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PolicyVerdict {
    /// `allowed`, `denied` (no right), `blocked` (a deny rule) or `confirm` (a person is asked).
    pub verdict: String,
    /// The rule that decides; `grant:<id>` where a time-boxed grant stands in for a person's yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Why it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// It takes a second person's yes.
    #[serde(default)]
    pub second_person: bool,
    /// What the call may do.
    #[schema(value_type = words::Effect)]
    pub effect: String,
    /// The texts that deny rules look at.
    pub texts: Vec<TestedText>,
}

/// A text of a call that deny rules look at.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct TestedText {
    /// The rules that look at it.
    #[schema(value_type = words::AppliesTo)]
    pub applies_to: String,
    /// The text.
    pub text: String,
}

/// One rule to be tried on the calls of the past: `deny` or `confirm`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// A deny rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DenyRuleShape>)]
    pub deny: Option<Rule>,
    /// A confirm rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ConfirmRuleShape>)]
    pub confirm: Option<ConfirmRule>,
    /// How many days back (1 to 90; 30 by default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

/// What a rule would have done to the calls that went out.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Replay {
    /// Calls that were judged.
    pub judged: u64,
    /// Of those, calls of which the journal kept no secrets: what was removed was not looked at.
    pub incomplete: u64,
    /// Calls that could not be judged: too little of them was kept, or their machine is gone.
    pub not_judged: u64,
    /// Calls that the rule would have refused, or asked a person for.
    pub matched: u64,
    /// The first 200 of these, oldest first.
    pub calls: Vec<ReplayedCall>,
    /// It took too long: the newest calls were not looked at.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// One call of the past.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ReplayedCall {
    /// The journal record of its outcome.
    pub seq: u64,
    /// Its id.
    #[schema(value_type = String)]
    pub call_id: CallId,
    /// When it ended.
    #[schema(value_type = words::Time)]
    pub at: String,
    /// Who asked.
    pub who: String,
    /// The agent.
    pub target: String,
    /// The tool.
    pub tool: String,
    /// The arguments as the journal kept them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub args: Option<Box<RawValue>>,
}

/// All confirm rules in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfirmRules {
    /// The rules.
    #[schema(value_type = Vec<ConfirmRuleShape>)]
    pub rules: Vec<ConfirmRule>,
}

/// A deny rule: a text of its group that the pattern matches is refused.
///
/// How the OpenAPI document describes [`Rule`], which knows nothing of documents.
#[derive(Clone, Debug, ToSchema)]
#[schema(as = DenyRule, description = "A deny rule: a text of its group that the pattern matches is refused.")]
#[expect(dead_code, reason = "described, and never made")]
pub struct DenyRuleShape {
    /// Its name, which a refusal tells.
    id: String,
    /// The texts that it examines: `powershell`, `posix`, `self_protection` or `path`.
    applies_to: words::AppliesTo,
    /// A pattern that means the same in Rust and in Python; matches anywhere in the text.
    pattern: String,
    /// The reason that the caller sees.
    reason: String,
}

/// A confirm rule: a call that matches every list that is there needs a person's approval.
///
/// How the OpenAPI document describes [`ConfirmRule`].
#[derive(Clone, Debug, ToSchema)]
#[schema(
    as = ConfirmRule,
    description = "A call that matches every list that is there needs a person's approval. A rule with no list matches every call."
)]
#[expect(dead_code, reason = "described, and never made")]
pub struct ConfirmRuleShape {
    /// The rule's id.
    id: String,
    /// Tools, globs allowed.
    tools: Option<Vec<String>>,
    /// Effects: `observe`, `interact`, `manage`.
    effects: Option<Vec<words::Effect>>,
    /// Agents by id, globs allowed.
    agents: Option<Vec<String>>,
    /// Agents by tag, globs allowed.
    tags: Option<Vec<String>>,
    /// Callers by token name, globs allowed.
    callers: Option<Vec<String>>,
    /// Doors: `http`, `mcp`, `cli`, `room`.
    doors: Option<Vec<words::Door>>,
    /// Only a second person's yes counts: not the owner's of what asks.
    second_person: Option<bool>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use convoke_core::guard::AppliesTo;
    use serde_json::{Value, json};
    use utoipa::PartialSchema;

    use super::*;

    fn described<T: PartialSchema>() -> (BTreeSet<String>, Value) {
        let schema = serde_json::to_value(T::schema()).expect("JSON");
        (keys(&schema["properties"]), schema["required"].clone())
    }

    fn keys(value: &Value) -> BTreeSet<String> {
        value.as_object().expect("an object").keys().cloned().collect()
    }

    #[test]
    fn rules_are_described_as_they_are() {
        let rule =
            Rule { id: "r".into(), applies_to: AppliesTo::Posix, pattern: "x".into(), reason: "because".into() };
        let (names, required) = described::<DenyRuleShape>();
        assert_eq!(names, keys(&json!(rule)));
        assert_eq!(required, json!(["id", "applies_to", "pattern", "reason"]));
        let rule = ConfirmRule {
            id: "r".into(),
            tools: Some(Vec::new()),
            effects: Some(Vec::new()),
            agents: Some(Vec::new()),
            tags: Some(Vec::new()),
            callers: Some(Vec::new()),
            doors: Some(Vec::new()),
            second_person: true,
        };
        let (names, required) = described::<ConfirmRuleShape>();
        assert_eq!(names, keys(&json!(rule)));
        assert_eq!(required, json!(["id"]));
    }
}
