//! Deny rules and confirm rules.

use convoke_core::confirm::ConfirmRule;
use convoke_core::guard::Rule;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All deny rules in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DenyRules {
    /// Compiled in; they cannot be weakened.
    #[schema(value_type = Vec<Object>)]
    pub builtin: Vec<Rule>,
    /// Added by operators.
    #[schema(value_type = Vec<Object>)]
    pub operator: Vec<Rule>,
}

/// All confirm rules in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ConfirmRules {
    /// The rules.
    #[schema(value_type = Vec<Object>)]
    pub rules: Vec<ConfirmRule>,
}
