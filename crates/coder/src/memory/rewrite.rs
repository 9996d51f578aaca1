//! A memory in a model's words, where the person wants that (`memory.rewrite`). Whatever goes wrong, the person's own
//! words stay.

use std::time::Duration;

use convoke_models::{Event, Message, Request, RetryPolicy};

use super::store::cleaned;
use crate::backend::Backend;
use crate::sessions::live::Live;

const INSTRUCTIONS: &str = "You turn a sentence that somebody said while programming into one short note about them or \
    their project, in the third person, such as \"The user prefers tabs\". Keep the facts, leave out greetings and \
    reasons, write at most 100 characters. Answer with the note alone. If the sentence is such a note already, repeat it.";

/// How long a model has for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tokens that it may take.
const MAX_TOKENS: u32 = 100;

/// A longer note is none.
const MAX_CHARS: usize = 300;

impl Backend {
    /// A memory as a model words it, or as it is.
    pub(super) async fn in_a_models_words(&self, live: &Live, text: String) -> String {
        let config = self.config.read_or_default();
        if config.switch("memory", "rewrite") != Some(true) {
            return text;
        }
        let selection = self.selection(&config, Some(&live.state().pinned.clone()));
        let Ok(client) = self.client(&config, selection.kind) else { return text };
        let Ok(model) = self.model_of(&selection).await else { return text };
        let request = Request {
            model,
            instructions: INSTRUCTIONS.into(),
            messages: vec![Message::user(format!("The sentence: {text}"))],
            max_output_tokens: Some(MAX_TOKENS),
            ..Request::default()
        };
        let client = client.with_retry(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
        let mut sink = |_: Event| {};
        let answer = client.stream(&request, &mut sink, &self.end);
        let Ok(Ok(answered)) = tokio::time::timeout(PATIENCE, answer).await else { return text };
        let note = cleaned(&self.redactor.text(answered.text.trim()));
        let fits = !note.is_empty() && note.chars().count() <= MAX_CHARS;
        if fits { note } else { text }
    }
}
