//! One provider, asked over HTTP.

mod exchange;
mod http;
mod retry;
mod status;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub use http::Http;
pub use retry::RetryPolicy;
pub(crate) use status::{told_by_status, told_in_stream};

use crate::draft::Draft;
use crate::responses::Summary;
use crate::{
    Completion, CredentialSource, Credentials, Event, Failure, ModelError, Partial, Provider, Request, Retry, Sink,
    chat, responses,
};
use exchange::{Api, Post};

/// How long a list may take. Somebody looks at an empty menu meanwhile.
const DOCUMENT: Duration = Duration::from_secs(30);

/// What is waited for and kept at most. At a limit the request fails and says which one it was.
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long the provider may take to begin its answer (its status and headers).
    pub first_byte: Duration,
    /// How long it may then send nothing.
    pub idle: Duration,
    /// How long it may send nothing but signs of life: comments, or an event that never ends.
    pub quiet: Duration,
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
            quiet: Duration::from_secs(900),
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
    /// The base URL has no path, and the API was found under the one that this provider usually has.
    usual_path: Arc<AtomicBool>,
}

impl Client {
    /// A client with the usual limits and retries.
    pub fn new(http: Http, provider: Provider, credentials: Arc<dyn CredentialSource>) -> Self {
        let (limits, retry) = (Limits::default(), RetryPolicy::default());
        Self { http, provider, credentials, limits, retry, usual_path: Arc::default() }
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
        let mut run = Run { draft: Draft::new(self.provider.kind, &self.limits), request_bytes: 0, attempts: 0 };
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ModelError::Cancelled),
            ended = self.attempts(request, events, &mut run) => ended,
        };
        let Run { draft, request_bytes, attempts } = run;
        match ended {
            Ok(()) => Ok(draft.complete(&request.model, request_bytes, attempts, events)),
            Err(error) => {
                let partial: Partial = draft.into_partial();
                Err(Failure { error, partial, request_bytes, attempts })
            }
        }
    }

    /// Asks until there is an answer, or a reason to give up.
    async fn attempts(&self, request: &Request, events: &mut dyn Sink, run: &mut Run) -> Result<(), ModelError> {
        let mut credentials = self.credentials.current().await?;
        let mut body = self.body(request, Summary::Auto)?;
        let (mut may_renew, mut summary) = (true, Summary::Auto);
        loop {
            run.attempts += 1;
            run.request_bytes = body.len();
            let asked = self.attempt(&body, &credentials, &mut run.draft, events).await;
            let Err(error) = asked else { return Ok(()) };
            let error = error.without(credentials.bearer());
            if run.draft.is_visible() {
                // Asked again, the model would say it again, in other words.
                return Err(error);
            }
            run.draft = Draft::new(self.provider.kind, &self.limits);
            let is_refused = matches!(error, ModelError::Unauthorised { status: 401, .. });
            if is_refused
                && std::mem::take(&mut may_renew)
                && let Some(newer) = self.credentials.renewed(&credentials).await?
            {
                credentials = newer;
                run.attempts -= 1;
                continue;
            }
            if summary == Summary::Auto && refuses_summary(&error) {
                summary = Summary::Without;
                body = self.body(request, summary)?;
                run.attempts -= 1;
                continue;
            }
            let attempt = run.attempts + 1;
            let Some(delay) = self.retry.delay(attempt, &error, chance()) else {
                return Err(self.given_up(error, run.attempts));
            };
            events.event(Event::Retry(Retry {
                provider: self.provider.kind,
                model: request.model.clone(),
                attempt,
                max_attempts: self.retry.max_attempts,
                delay,
                error: error.to_string(),
                request_bytes: body.len(),
            }));
            tokio::time::sleep(delay).await;
        }
    }

    /// Fetches a JSON document of the provider's, such as its list of models.
    pub(crate) async fn document(&self, path: &'static str, limit: usize) -> Result<Vec<u8>, ModelError> {
        let credentials = self.credentials.current().await.unwrap_or(Credentials::None);
        let post = Post { path, body: None, accept: "application/json" };
        let fetched = async { self.collect(self.send(post, &credentials).await?, limit).await };
        let idle = |_| ModelError::Idle { provider: self.provider.kind, after: DOCUMENT };
        let fetched = tokio::time::timeout(DOCUMENT, fetched).await.map_err(idle).and_then(|fetched| fetched);
        fetched.map_err(|why: ModelError| why.without(credentials.bearer()))
    }

    fn body(&self, request: &Request, summary: Summary) -> Result<Bytes, ModelError> {
        let provider = self.provider.kind;
        let body: Value = match Api::of(provider) {
            Api::Responses => responses::body(provider, request, summary),
            Api::Chat => chat::body(provider, request),
        };
        serde_json::to_vec(&body).map(Bytes::from).map_err(|why| {
            let message = format!("cannot serialise the request: {why}");
            ModelError::Rejected { provider, status: 400, message }
        })
    }

    fn given_up(&self, last: ModelError, attempts: u32) -> ModelError {
        if attempts < 2 || !last.is_transient() {
            return last;
        }
        ModelError::Exhausted { provider: self.provider.kind, attempts, last: Box::new(last) }
    }
}

/// How a request stands, kept outside of what a cancellation drops.
struct Run {
    draft: Draft,
    request_bytes: usize,
    attempts: u32,
}

/// An organisation that may not have reasoning summaries is refused the whole request.
fn refuses_summary(error: &ModelError) -> bool {
    match error {
        ModelError::Rejected { status: 400, message, .. } => {
            message.contains("reasoning summar") || message.contains("reasoning.summary")
        }
        _ => false,
    }
}

/// A number in 0..=1.
fn chance() -> f64 {
    let mut bytes = [0_u8; 4];
    // Without randomness there is no jitter, which is no reason to fail.
    let _ = getrandom::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}
