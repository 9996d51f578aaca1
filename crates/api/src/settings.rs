//! The settings that a hub runs with.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The settings in force.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SettingList {
    /// Every setting, in the order of the documentation.
    pub settings: Vec<SettingView>,
    /// What was given and is probably not meant.
    pub warnings: Vec<String>,
}

/// One setting.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SettingView {
    /// Its dotted name.
    pub name: String,
    /// The value in force; a secret is not shown.
    pub value: String,
    /// The default, as text.
    pub default: String,
    /// Where the value comes from.
    pub source: String,
    /// What it does.
    pub doc: String,
}
