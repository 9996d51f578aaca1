//! One attempt: a request out, a stream in.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use convoke_sse::{Decoder, TooLong};
use reqwest::{Method, Response};
use tokio::time::Instant;
use url::Url;

use super::status::{explains_itself, from_http};
use super::{Client, Limits};
use crate::draft::Draft;
use crate::{Credentials, ModelError, ProviderKind, Sink, chat, responses};

/// Which API a provider is asked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Api {
    Responses,
    Chat,
}

impl Api {
    pub(super) fn of(provider: ProviderKind) -> Self {
        match provider {
            ProviderKind::Codex | ProviderKind::OpenAi => Self::Responses,
            ProviderKind::OpenRouter | ProviderKind::Local => Self::Chat,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Responses => "/responses",
            Self::Chat => "/chat/completions",
        }
    }
}

/// Why the reading of a stream stopped.
enum Stop {
    Complete,
    TooLong(TooLong),
    Failed(ModelError),
}

impl From<TooLong> for Stop {
    fn from(why: TooLong) -> Self {
        Self::TooLong(why)
    }
}

impl Client {
    /// Asks once and reads the answer to its end.
    pub(super) async fn attempt(
        &self,
        body: &Bytes,
        credentials: &Credentials,
        draft: &mut Draft,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        let api = Api::of(self.provider.kind);
        let post = Post { path: api.path(), body: Some(body.clone()), accept: "text/event-stream" };
        let response = self.send(post, credentials).await?;
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/html") {
            let message = "it answered with a web page; check the base URL".into();
            return Err(ModelError::Rejected { provider: self.provider.kind, status: 200, message });
        }
        if kind.starts_with("application/json") {
            let whole = self.collect(response, self.limits.answer_bytes).await?;
            return match api {
                Api::Responses => responses::read_whole(self.provider.kind, &whole, draft, sink),
                Api::Chat => chat::read_whole(self.provider.kind, &whole, draft, sink),
            };
        }
        self.read_stream(api, response, draft, sink).await
    }

    async fn read_stream(
        &self,
        api: Api,
        mut response: Response,
        draft: &mut Draft,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        let provider = self.provider.kind;
        let Limits { idle, quiet, line_bytes, .. } = self.limits;
        // Atomic, so that whoever asks may wait for the answer on any thread.
        let began = Instant::now();
        let heard_ms = AtomicU64::new(0);
        let heard = || began + Duration::from_millis(heard_ms.load(Ordering::Relaxed));
        let mut decoder = Decoder::new(line_bytes);
        let mut take = |name: &str, data: &str| {
            heard_ms.store(u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            let complete = match api {
                Api::Responses => responses::read(provider, name, data, draft, sink),
                Api::Chat => chat::read(provider, data, draft, sink),
            };
            match complete {
                Ok(false) => Ok(()),
                Ok(true) => Err(Stop::Complete),
                Err(why) => Err(Stop::Failed(why)),
            }
        };
        let stop = loop {
            let deadline = (Instant::now() + idle).min(heard() + quiet);
            let fed = match tokio::time::timeout_at(deadline, response.chunk()).await {
                Err(_) => {
                    let after = if heard().elapsed() >= quiet { quiet } else { idle };
                    Err(Stop::Failed(ModelError::Idle { provider, after }))
                }
                Ok(Ok(Some(chunk))) => decoder.feed(&chunk, |message| take(message.name, message.data)),
                Ok(Ok(None)) => {
                    let last = decoder.finish(|message| take(message.name, message.data));
                    last.and(Err(Stop::Failed(ModelError::CutOff { provider })))
                }
                Ok(Err(_)) => Err(Stop::Failed(ModelError::CutOff { provider })),
            };
            if let Err(stop) = fed {
                break stop;
            }
            // A flood is always ready, and a time-out asks what is ready first.
            if heard().elapsed() >= quiet {
                break Stop::Failed(ModelError::Idle { provider, after: quiet });
            }
        };
        match stop {
            Stop::Complete => {
                // What usually lies behind the last event is the end of the body. Reading it lets the next request
                // use this connection.
                let _ = tokio::time::timeout(std::time::Duration::ZERO, response.chunk()).await;
                Ok(())
            }
            // Some servers just hang up after the last chunk.
            Stop::Failed(ModelError::CutOff { .. }) if api == Api::Chat && draft.finish.is_some() => Ok(()),
            Stop::Failed(why) => Err(why),
            Stop::TooLong(TooLong(limit)) => Err(ModelError::TooLarge { provider, what: "a line", limit }),
        }
    }

    /// Sends a request and gives its successful answer.
    pub(super) async fn send(&self, post: Post, credentials: &Credentials) -> Result<Response, ModelError> {
        use std::sync::atomic::Ordering::Relaxed;

        let bare = self.base()?;
        let (root, usual) = (bare.path().trim_end_matches('/').is_empty(), self.provider.kind.usual_path());
        let prefix = if root && self.usual_path.load(Relaxed) { usual } else { "" };
        let first = match self.send_to(prefix, &post, credentials).await? {
            Ok(response) => return Ok(response),
            Err(refusal) => refusal,
        };
        if first.status != 404 || !root || !prefix.is_empty() {
            return Err(first.into_error(self.provider.kind));
        }
        // An address without a path may mean the place where the API's own path begins.
        match self.send_to(usual, &post, credentials).await? {
            Ok(response) => {
                self.usual_path.store(true, Relaxed);
                Ok(response)
            }
            Err(second) if second.status == 404 && explains_itself(&first.body) => {
                Err(first.into_error(self.provider.kind))
            }
            Err(second) => Err(second.into_error(self.provider.kind)),
        }
    }

    async fn send_to(
        &self,
        prefix: &str,
        post: &Post,
        credentials: &Credentials,
    ) -> Result<Result<Response, Refusal>, ModelError> {
        let provider = self.provider.kind;
        let url = self.address(&format!("{prefix}{}", post.path))?;
        let http = self.http.to(&url).map_err(|why| self.network(why))?;
        let method = if post.body.is_some() { Method::POST } else { Method::GET };
        let mut request = http.request(method, url).header("accept", post.accept);
        if let Some(body) = &post.body {
            request = request.header("content-type", "application/json").body(body.clone());
        }
        if let Some(token) = credentials.bearer() {
            request = request.bearer_auth(token.reveal());
        }
        if provider == ProviderKind::Codex {
            request = request.header("originator", "codex_cli_rs");
            if let Credentials::Account { account_id: Some(account), .. } = credentials {
                request = request.header("chatgpt-account-id", account);
            }
        }
        let sent = tokio::time::timeout(self.limits.first_byte, request.send()).await;
        let sent = sent.map_err(|_| ModelError::Idle { provider, after: self.limits.first_byte })?;
        let mut response = sent.map_err(|why| self.network(why))?;
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = Vec::new();
        // A refusal counts even if its reason does not arrive.
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout(self.limits.idle, response.chunk()).await {
            let room = self.limits.error_bytes - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if body.len() == self.limits.error_bytes {
                break;
            }
        }
        Ok(Err(Refusal { status, headers, body }))
    }

    /// Reads a whole body up to a limit.
    pub(super) async fn collect(&self, mut response: Response, limit: usize) -> Result<Vec<u8>, ModelError> {
        let provider = self.provider.kind;
        let mut body = Vec::new();
        loop {
            let chunk = tokio::time::timeout(self.limits.idle, response.chunk()).await;
            let chunk = chunk.map_err(|_| ModelError::Idle { provider, after: self.limits.idle })?;
            match chunk {
                Ok(Some(chunk)) if body.len() + chunk.len() > limit => {
                    return Err(ModelError::TooLarge { provider, what: "an answer", limit });
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                Ok(None) => return Ok(body),
                Err(_) => return Err(ModelError::CutOff { provider }),
            }
        }
    }

    fn base(&self) -> Result<Url, ModelError> {
        self.address("")
    }

    fn address(&self, path: &str) -> Result<Url, ModelError> {
        let (provider, base) = (self.provider.kind, &self.provider.base_url);
        let bad = |why: String| ModelError::BadAddress { provider, url: base.clone(), why };
        let mut url = Url::parse(base).map_err(|why| bad(why.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err(bad("it must begin with http:// or https:// and name a host".into()));
        }
        if !path.is_empty() {
            let joined = format!("{}{path}", url.path().trim_end_matches('/'));
            url.set_path(&joined);
        }
        Ok(url)
    }

    fn network(&self, why: reqwest::Error) -> ModelError {
        // The address may hold a password; what counts is the chain of causes.
        let why = why.without_url();
        let mut message = why.to_string();
        let mut cause = std::error::Error::source(&why);
        while let Some(inner) = cause {
            let told = inner.to_string();
            if !message.contains(&told) {
                message = format!("{message}: {told}");
            }
            cause = inner.source();
        }
        ModelError::Network { provider: self.provider.kind, message }
    }
}

/// What is sent.
#[derive(Clone, Debug)]
pub(super) struct Post {
    pub(super) path: &'static str,
    /// With a body it is a POST, otherwise a GET.
    pub(super) body: Option<Bytes>,
    pub(super) accept: &'static str,
}

/// An answer that is no success.
struct Refusal {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Vec<u8>,
}

impl Refusal {
    fn into_error(self, provider: ProviderKind) -> ModelError {
        from_http(provider, self.status, &self.headers, &self.body)
    }
}
