//! Which models there are and what is known of them.

mod fetch;
mod known;
mod prices;

pub use fetch::Catalogue;
pub use known::{EFFORTS, default_effort, default_model, facts, known_models};

use crate::{Price, ProviderKind};

/// A model and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Who offers it.
    pub provider: ProviderKind,
    /// As its provider calls it.
    pub id: String,
    /// For people.
    pub name: String,
    /// Whether it takes a reasoning effort.
    pub reasoning: bool,
    /// Whether it sees pictures. `None`: nobody said.
    pub images: Option<bool>,
    /// How many tokens fit, if known.
    pub context_window: Option<u64>,
    /// What it costs, if known.
    pub price: Option<Price>,
}
