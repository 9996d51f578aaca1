//! What can be asked of an agent.

use convoke_core::effect::Effect;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::words;

/// The tools and probes of an agent.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolList {
    /// Tools first, then probes; only what the caller may call.
    pub tools: Vec<ToolView>,
}

/// One tool or probe.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolView {
    /// The name by which it is called.
    pub name: String,
    /// What it does. Of a probe of the agent's own, in the agent's words.
    pub description: String,
    /// What it does to the machine.
    #[schema(value_type = words::Effect)]
    pub effect: Effect,
    /// Whether it is a probe.
    pub probe: bool,
    /// Whether an agent whose remote control is switched off refuses it.
    pub mutating: bool,
    /// Whether it may destroy something.
    pub destructive: bool,
    /// A JSON Schema of its arguments.
    #[schema(value_type = Object)]
    pub input_schema: Value,
}
