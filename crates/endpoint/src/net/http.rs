//! Single HTTP requests over a [`Dialler`]'s connections: enrolment, downloads, and files that are sent.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use url::Url;

use super::{DialError, Dialler};

/// Most redirects that are followed.
const MAX_REDIRECTS: usize = 5;

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// No connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The exchange broke off.
    #[error("{host} broke off: {why}")]
    Broken {
        /// Who.
        host: String,
        /// How.
        why: String,
    },
    /// It took too long.
    #[error("{host} did not finish within {} s", .patience.as_secs())]
    TimedOut {
        /// Who.
        host: String,
        /// How long it had.
        patience: Duration,
    },
    /// Larger than it may be.
    #[error("{host} sent more than {limit} bytes")]
    TooLarge {
        /// Who.
        host: String,
        /// The limit.
        limit: u64,
    },
    /// A redirect to where it may not lead.
    #[error("{0}")]
    Redirect(String),
    /// What was received could not be kept.
    #[error("cannot store the download: {0}")]
    Sink(std::io::Error),
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

impl Dialler {
    /// Posts JSON with a bearer token and reads an answer of at most `limit` bytes.
    pub(crate) async fn post_json(
        &self,
        url: &Url,
        bearer: &str,
        body: String,
        limit: u64,
        patience: Duration,
    ) -> Result<Answer, HttpError> {
        let exchange = async {
            let mut request = Request::new(Full::new(Bytes::from(body)));
            *request.method_mut() = Method::POST;
            let headers = request.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
            // A token that is no header value is no token of a hub either.
            if let Ok(mut value) = HeaderValue::from_str(&format!("Bearer {bearer}")) {
                value.set_sensitive(true);
                headers.insert(header::AUTHORIZATION, value);
            }
            let response = self.exchange(url, request).await?;
            let status = response.status().as_u16();
            let mut kept = Vec::new();
            drain(url, response, limit, |chunk| {
                kept.extend_from_slice(chunk);
                Ok(())
            })
            .await?;
            Ok(Answer { status, body: kept })
        };
        self.bounded(url, patience, exchange).await
    }

    /// Fetches a file of at most `limit` bytes, piece by piece. Every address on the way must be `allowed`.
    pub(crate) async fn download(
        &self,
        url: &Url,
        limit: u64,
        patience: Duration,
        allowed: impl Fn(&Url) -> Result<(), String>,
        mut sink: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u16, HttpError> {
        let exchange = async {
            let mut url = url.clone();
            for _ in 0..=MAX_REDIRECTS {
                allowed(&url).map_err(HttpError::Redirect)?;
                let mut request = Request::new(Full::new(Bytes::new()));
                *request.method_mut() = Method::GET;
                let response = self.exchange(&url, request).await?;
                let status = response.status();
                if status.is_redirection() {
                    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                    let next = location.and_then(|text| url.join(text).ok());
                    url = next.ok_or_else(|| HttpError::Redirect(format!("{url} redirects without an address")))?;
                    continue;
                }
                if status.is_success() {
                    drain(&url, response, limit, &mut sink).await?;
                }
                return Ok(status.as_u16());
            }
            Err(HttpError::Redirect(format!("more than {MAX_REDIRECTS} redirects")))
        };
        self.bounded(url, patience, exchange).await
    }

    /// Puts so many bytes that come through `body`, and reads an answer of at most `limit` bytes.
    pub(crate) async fn upload(
        &self,
        url: &Url,
        (body, size): (Channel<Bytes>, u64),
        limit: u64,
        patience: Duration,
    ) -> Result<Answer, HttpError> {
        let exchange = async {
            let mut request = Request::new(body);
            *request.method_mut() = Method::PUT;
            let headers = request.headers_mut();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(header::CONTENT_LENGTH, size.into());
            let response = self.exchange(url, request).await?;
            let status = response.status().as_u16();
            let mut kept = Vec::new();
            drain(url, response, limit, |chunk| {
                kept.extend_from_slice(chunk);
                Ok(())
            })
            .await?;
            Ok(Answer { status, body: kept })
        };
        self.bounded(url, patience, exchange).await
    }

    async fn bounded<T>(
        &self,
        url: &Url,
        patience: Duration,
        exchange: impl Future<Output = Result<T, HttpError>>,
    ) -> Result<T, HttpError> {
        let outcome = tokio::time::timeout(patience, exchange).await;
        outcome.unwrap_or_else(|_| Err(HttpError::TimedOut { host: host(url), patience }))
    }

    async fn exchange<B>(&self, url: &Url, mut request: Request<B>) -> Result<Response<Incoming>, HttpError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let broken = |why: hyper::Error| HttpError::Broken { host: host(url), why: why.to_string() };
        let io = self.dial(url).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(broken)?;
        // Ends with the exchange: the body's end, or the drop of its reader.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        *request.uri_mut() = path.parse().map_err(|_| HttpError::Redirect(format!("cannot request {url}")))?;
        if let Ok(value) = HeaderValue::from_str(&host(url)) {
            request.headers_mut().insert(header::HOST, value);
        }
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        sender.send_request(request).await.map_err(broken)
    }
}

fn host(url: &Url) -> String {
    let name = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

async fn drain(
    url: &Url,
    response: Response<Incoming>,
    limit: u64,
    mut sink: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<(), HttpError> {
    let too_large = || HttpError::TooLarge { host: host(url), limit };
    let mut body = response.into_body();
    let mut total = 0u64;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|why| HttpError::Broken { host: host(url), why: why.to_string() })?;
        let Some(chunk) = frame.data_ref() else { continue };
        total = total.saturating_add(chunk.len() as u64);
        if total > limit {
            return Err(too_large());
        }
        sink(chunk).map_err(HttpError::Sink)?;
    }
    Ok(())
}
