//! Deny rules and confirm rules.

use convoke_core::confirm::ConfirmRule;
use convoke_core::guard::Rule;
use serde::{Deserialize, Serialize};
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
