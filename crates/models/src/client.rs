//! One provider, asked over HTTP.

mod http;
mod retry;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use http::Http;
pub use retry::RetryPolicy;

use crate::{Completion, CredentialSource, Failure, ModelError, Partial, Provider, Request, Sink};

/// What is waited for and kept at most. At a limit the request fails and says which one it was.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long the provider may take to begin its answer (its status and headers).
    pub first_byte: Duration,
    /// How long it may then send nothing.
    pub idle: Duration,
    /// The longest line of a stream.
    pub line_bytes: usize,
    /// The largest whole answer: text, reasoning and tool calls together.
    pub answer_bytes: usize,
    /// How much of an error's body is read.
    pub error_bytes: usize,
    /// The most tool calls in one answer.
    pub tool_calls: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            first_byte: Duration::from_secs(300),
            idle: Duration::from_secs(300),
            line_bytes: 8 * 1024 * 1024,
            answer_bytes: 16 * 1024 * 1024,
            error_bytes: 64 * 1024,
            tool_calls: 128,
        }
    }
}

/// A provider that can be asked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: Http,
    provider: Provider,
    credentials: Arc<dyn CredentialSource>,
    limits: Limits,
    retry: RetryPolicy,
}

impl Client {
    /// A client with the usual limits and retries.
    pub fn new(http: Http, provider: Provider, credentials: Arc<dyn CredentialSource>) -> Self {
        Self { http, provider, credentials, limits: Limits::default(), retry: RetryPolicy::default() }
    }

    /// The same with other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The same with other retries.
    #[must_use]
    pub fn with_retry(self, retry: RetryPolicy) -> Self {
        Self { retry, ..self }
    }

    /// Whom it asks.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Asks, and streams the answer into `events`. Dropping the future or cancelling the token closes the connection.
    pub async fn stream(
        &self,
        request: &Request,
        events: &mut dyn Sink,
        cancel: &CancellationToken,
    ) -> Result<Completion, Failure> {
        let _ = (request, events, cancel, &self.http, &self.credentials, &self.limits, &self.retry);
        let error = ModelError::NotConfigured("streaming is not there yet".into());
        Err(Failure { error, partial: Partial::default(), request_bytes: 0, attempts: 0 })
    }
}
