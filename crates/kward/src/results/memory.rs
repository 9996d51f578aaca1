//! Memories.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

results! {
    /// `memory/status`.
    MemoryStatus {
        /// Whether memories reach the model.
        enabled: bool,
        /// Whether turns are summarised.
        auto_summary: bool,
        /// The files.
        paths: MemoryPaths,
    }
    /// Where memories are.
    MemoryPaths {
        /// JSON.
        core: String,
        /// JSON lines.
        soft: String,
        /// JSON lines.
        events: String,
    }
    /// `memory/enable`, `memory/disable`, `memory/autoSummary/enable` and `/disable`. The contract has one of the two in
    /// each; the client takes the other for off if it is not there.
    MemorySwitched {
        /// Whether memories reach the model now.
        enabled: bool,
        /// Whether turns are summarised now.
        auto_summary: bool,
    }
    /// `memory/add`, `memory/addCore`, `memory/promote` and `memory/relax`.
    OneMemory {
        /// As it is stored.
        memory: Value,
    }
    /// `memory/forget`.
    Forgotten {
        /// Whether there was one.
        forgotten: bool,
    }
    /// `memory/inspect`.
    MemoryInspect {
        /// As stored.
        core: Vec<Value>,
        /// As stored, with forgotten ones.
        soft: Vec<Value>,
        /// Whether memories reach the model.
        enabled: bool,
        /// Whether turns are summarised.
        auto_summary: bool,
        /// The files.
        paths: MemoryPaths,
    }
    /// `memory/summarize`.
    Memories {
        /// The new ones.
        memories: Vec<Value>,
    }
}

/// `memory/list`: the keys of the contract, and those that newer clients read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryList {
    /// As stored.
    pub core: Vec<Value>,
    /// As stored.
    pub soft: Vec<Value>,
    /// Core ones for everywhere.
    pub global_core: Vec<Value>,
    /// Core ones for this workspace.
    pub workspace_core: Vec<Value>,
    /// Soft ones for this workspace.
    pub workspace_soft: Vec<Value>,
}

/// `memory/why`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryWhy {
    /// Whether memories reach the model.
    pub enabled: bool,
    /// What was looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// What was taken.
    #[serde(default)]
    pub core: Vec<Value>,
    /// What was taken.
    #[serde(default)]
    pub soft: Vec<Value>,
    /// Why.
    #[serde(default)]
    pub reasons: Vec<MemoryReason>,
    /// Why there is nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// All of it in sentences.
    #[serde(default)]
    pub explanation: String,
}

/// Why a memory was taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryReason {
    /// Which.
    pub id: String,
    /// `core` or `soft`.
    pub layer: String,
    /// The higher the sooner.
    pub score: f64,
    /// In words.
    pub reasons: Vec<String>,
}
