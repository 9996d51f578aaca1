//! What a call does to the machine it reaches, from looking to changing.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The effect of a call. Ordered: `observe` < `interact` < `manage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// Reads and changes nothing.
    Observe,
    /// Touches a person's session or makes a small, reversible change.
    Interact,
    /// Runs code or changes the machine.
    Manage,
}

impl Effect {
    /// All effects, weakest first.
    pub const ALL: [Self; 3] = [Self::Observe, Self::Interact, Self::Manage];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Observe => "observe",
            Self::Interact => "interact",
            Self::Manage => "manage",
        }
    }

    /// Whether a call of this effect leaves an `intent` record before it is dispatched.
    pub const fn needs_intent(self) -> bool {
        !matches!(self, Self::Observe)
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Effect {
    type Err = UnknownEffect;

    fn from_str(text: &str) -> Result<Self, UnknownEffect> {
        Self::ALL.into_iter().find(|e| e.name() == text).ok_or_else(|| UnknownEffect(text.into()))
    }
}

/// The text names no effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no effect: use observe, interact or manage")]
pub struct UnknownEffect(String);
