//! Models as their providers list them, kept for a while.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{Model, facts, known_models};
use crate::{Client, ModelError, Price, ProviderKind};

/// How long a list is kept.
const KEPT: Duration = Duration::from_secs(600);
/// The largest list that is read. OpenRouter's is below one MiB.
const LIST_BYTES: usize = 16 * 1024 * 1024;
/// The most models of a list that are kept; the rest is left out.
const LIST_MODELS: usize = 5_000;

/// OpenAI lists everything it has. Models of these kinds hold no conversation.
const MUTE: &[&str] = &[
    "audio",
    "babbage",
    "dall-e",
    "davinci",
    "embedding",
    "image",
    "moderation",
    "realtime",
    "sora",
    "transcribe",
    "tts",
    "whisper",
];

/// The lists of providers, fetched when asked for and kept for ten minutes. Shared by all sessions of a process.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// By base URL and path, since two accounts of one provider may see different lists.
    lists: Mutex<HashMap<(String, &'static str), List>>,
}

#[derive(Debug)]
struct List {
    models: Vec<Model>,
    fetched: Instant,
}

impl Catalogue {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// The models that this client's account can use, as the provider lists them. Codex has no list and gets the
    /// models that are known; OpenRouter is asked for those of the key, and for all if it will not say.
    pub async fn models(&self, client: &Client) -> Result<Vec<Model>, ModelError> {
        match client.provider().kind {
            ProviderKind::Codex => Ok(known_models(ProviderKind::Codex)),
            ProviderKind::OpenRouter => match self.list(client, "/models/user").await {
                Ok(models) => Ok(models),
                Err(_) => self.list(client, "/models").await,
            },
            ProviderKind::OpenAi | ProviderKind::Local => self.list(client, "/models").await,
        }
    }

    /// All models that the provider has, whoever may use them. For OpenRouter this needs no key.
    pub async fn all(&self, client: &Client) -> Result<Vec<Model>, ModelError> {
        match client.provider().kind {
            ProviderKind::Codex => Ok(known_models(ProviderKind::Codex)),
            _ => self.list(client, "/models").await,
        }
    }

    /// Forgets what was fetched, so that the next question goes to the provider.
    pub fn forget(&self) {
        self.lock().clear();
    }

    /// What is known of one model: from a list that was fetched already, otherwise by its name. Asks nobody.
    pub fn lookup(&self, client: &Client, id: &str) -> Model {
        let base = &client.provider().base_url;
        let listed = ["/models/user", "/models"].into_iter().find_map(|path| {
            let lists = self.lock();
            let list = lists.get(&(base.clone(), path))?;
            list.models.iter().find(|model| model.id == id).cloned()
        });
        listed.unwrap_or_else(|| facts(client.provider().kind, id))
    }

    async fn list(&self, client: &Client, path: &'static str) -> Result<Vec<Model>, ModelError> {
        let key = (client.provider().base_url.clone(), path);
        if let Some(list) = self.lock().get(&key).filter(|list| list.fetched.elapsed() < KEPT) {
            return Ok(list.models.clone());
        }
        let provider = client.provider().kind;
        let document = client.document(path, LIST_BYTES).await?;
        let listed: Listed = serde_json::from_slice(&document).map_err(|why| {
            let message = format!("the list of models is not as expected: {why}");
            ModelError::Malformed { provider, message }
        })?;
        let talks =
            |entry: &Entry| provider != ProviderKind::OpenAi || !MUTE.iter().any(|kind| entry.id.contains(kind));
        let entries = listed.data.into_iter().filter(talks).take(LIST_MODELS);
        let mut models: Vec<Model> = entries.map(|entry| entry.into_model(provider)).collect();
        models.sort_by(|a, b| a.id.cmp(&b.id));
        models.dedup_by(|a, b| a.id == b.id);
        self.lock().insert(key, List { models: models.clone(), fetched: Instant::now() });
        Ok(models)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<(String, &'static str), List>> {
        self.lists.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A list, with no more of each entry than is used.
#[derive(Deserialize)]
struct Listed {
    #[serde(default)]
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    name: Option<String>,
    context_length: Option<u64>,
    /// vLLM's name for it.
    max_model_len: Option<u64>,
    pricing: Option<Pricing>,
    supported_parameters: Option<Vec<String>>,
    architecture: Option<Architecture>,
    /// llama.cpp's facts.
    meta: Option<Meta>,
}

#[derive(Deserialize)]
struct Architecture {
    input_modalities: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Meta {
    n_ctx: Option<u64>,
    n_ctx_train: Option<u64>,
}

/// Dollars per token, as text.
#[derive(Deserialize)]
struct Pricing {
    prompt: Option<String>,
    completion: Option<String>,
    request: Option<String>,
    input_cache_read: Option<String>,
    input_cache_write: Option<String>,
}

impl Pricing {
    fn into_price(self) -> Option<Price> {
        // A negative price means "it depends" (OpenRouter's automatic choice).
        let dollars = |text: Option<String>| text?.parse::<f64>().ok().filter(|price| *price >= 0.0);
        Some(Price {
            input: dollars(self.prompt)?,
            output: dollars(self.completion)?,
            cached_input: dollars(self.input_cache_read),
            cache_write: dollars(self.input_cache_write),
            request: dollars(self.request).unwrap_or(0.0),
            most_input: None,
        })
    }
}

impl Entry {
    fn into_model(self, provider: ProviderKind) -> Model {
        let known = facts(provider, &self.id);
        let reasons = |parameters: Vec<String>| parameters.iter().any(|name| name == "reasoning");
        let sees = |inputs: Vec<String>| inputs.iter().any(|input| input == "image");
        let local_window = self.meta.and_then(|meta| meta.n_ctx.or(meta.n_ctx_train));
        Model {
            provider,
            name: self.name.unwrap_or_else(|| self.id.clone()),
            reasoning: self.supported_parameters.map_or(known.reasoning, reasons),
            images: self.architecture.and_then(|a| a.input_modalities).map(sees).or(known.images),
            context_window: self
                .context_length
                .or(self.max_model_len)
                .or(local_window)
                .or(known.context_window)
                .filter(|window| *window > 0),
            price: self.pricing.and_then(Pricing::into_price).or(known.price),
            id: self.id,
        }
    }
}
