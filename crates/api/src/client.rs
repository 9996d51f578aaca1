//! A client of the HTTP API.

use std::any::Any;
use std::time::Duration;

use convoke_core::secret::SecretText;
use reqwest::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE, ORIGIN, SET_COOKIE};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::CLIENT_HEADER;
use crate::error::{ErrorBody, ErrorDetail};
use crate::people::SignIn;
use crate::stream::EventStream;

/// What a stream of events says that it is.
const EVENTS: &str = "text/event-stream";

/// A client of one hub. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    shows: Shows,
}

/// What a client shows of who it is.
#[derive(Clone, Debug)]
enum Shows {
    Token(SecretText),
    /// The cookie of a session, as `name=value`.
    Cookie(SecretText),
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The hub said no, in its own words.
    #[error("{}", refusal(.status, .body))]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        body: Box<ErrorBody>,
    },
    /// Something answered, but not a hub.
    #[error("{url} answered {status}, but not as a Convoke hub; is this the hub's address?")]
    NotAHub {
        /// What was asked.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// Something answered that cannot prove who it is.
    #[error("the certificate of {url} is not trusted here: {why}{}", authority(.why))]
    Distrusted {
        /// What was asked.
        url: String,
        /// Why not.
        why: String,
    },
    /// The connection ended before the answer was there.
    #[error("lost the connection to {url} before the hub answered ({why}); the request may have been carried out")]
    Lost {
        /// What was asked.
        url: String,
        /// Why.
        why: String,
    },
    /// Something answers there, with TLS where none was expected or the other way round.
    #[error("the hub at {url} {why}")]
    OtherScheme {
        /// What was asked.
        url: String,
        /// What to write.
        why: &'static str,
    },
    /// Nothing answered.
    #[error("cannot reach the hub at {url}: {why}; start it with `convoke up`")]
    Unreachable {
        /// What was asked.
        url: String,
        /// Why not.
        why: String,
    },
}

fn refusal(status: &u16, body: &ErrorBody) -> String {
    let mut text = format!("{} ({}, {status})", body.error.message, body.error.code);
    if let Some(hint) = &body.error.hint {
        text.push_str("\n  hint: ");
        text.push_str(hint);
    }
    text
}

/// How every TLS library below begins to say it.
const DISTRUST: &str = "invalid peer certificate: ";

/// What may help, where the authority is unknown.
fn authority(why: &str) -> &'static str {
    if why.contains("UnknownIssuer") {
        "; if a private authority signed it, name that one's certificate with SSL_CERT_FILE=ca.pem; if the hub runs with \
         --lan, name its public key with CONVOKE_HUB_KEY (`convoke keys show` there)"
    } else if why.contains("CaUsedAsEndEntity") {
        "; it is an authority's own (CA:TRUE), so name this certificate itself with SSL_CERT_FILE=cert.pem"
    } else {
        ""
    }
}

impl ClientError {
    /// Why a request to `url` got no answer.
    pub fn of(url: &str, error: &reqwest::Error) -> Self {
        let (url, why) = (url.to_owned(), chain(error));
        match why.strip_prefix(DISTRUST) {
            Some(why) => Self::Distrusted { url, why: why.to_owned() },
            // Without a connection nothing was sent; and what speaks no HTTP is no hub.
            None if why.starts_with(NO_HTTP) && url.starts_with("http://") => {
                Self::OtherScheme { url, why: "does not speak plain HTTP; write https:// if it serves TLS" }
            }
            None if why.contains(NO_TLS) && url.starts_with("https://") => {
                Self::OtherScheme { url, why: "does not speak TLS; write http:// instead of https://" }
            }
            None if error.is_connect() || error.is_builder() => Self::Unreachable { url, why },
            None => Self::Lost { url, why },
        }
    }
}

/// A hub on this machine is never behind a proxy.
fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder().connect_timeout(Duration::from_secs(10)).no_proxy()
}

impl Client {
    /// A client of the hub at `base` (`http://127.0.0.1:7410`).
    pub fn new(base: &str, token: SecretText) -> Result<Self, ClientError> {
        let mut builder = builder();
        if base.starts_with("http://") {
            // No certificate is ever looked at, and a small system has no store of authorities to load.
            builder = builder.tls_certs_only([]);
        }
        Self::built(base, token, builder)
    }

    /// The same for a caller who says whose certificates count: `tls` is what reqwest takes as such.
    pub fn with_tls(base: &str, token: SecretText, tls: impl Any) -> Result<Self, ClientError> {
        Self::built(base, token, builder().tls_backend_preconfigured(tls))
    }

    fn built(base: &str, token: SecretText, builder: reqwest::ClientBuilder) -> Result<Self, ClientError> {
        let http = builder.build().map_err(|why| ClientError::of(base, &why))?;
        Ok(Self { http, base: base.trim_end_matches('/').to_owned(), shows: Shows::Token(token) })
    }

    /// A client of the same hub for a user who signs in. End the session with `DELETE /api/session`.
    pub async fn sign_in(&self, request: &SignIn) -> Result<Self, ClientError> {
        let asked = self.http.post(format!("{}/api/session", self.base)).header(ORIGIN, &self.base).json(request);
        let reply = asked.send().await.map_err(|why| ClientError::of(&self.base, &why))?;
        let status = reply.status().as_u16();
        let cookies = reply.headers().get_all(SET_COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
        let cookie = cookies.filter_map(|cookie| cookie.split(';').next()).next().map(SecretText::new);
        let (is_in, bytes) = (reply.status().is_success(), reply.bytes().await);
        match cookie.filter(|_| is_in) {
            Some(cookie) => Ok(Self { shows: Shows::Cookie(cookie), ..self.clone() }),
            None => Err(self.refusal(status, &bytes.map_err(|why| ClientError::of(&self.base, &why))?)),
        }
    }

    /// The hub's address.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// GET with a query.
    pub async fn get<Q: Serialize, T: DeserializeOwned>(&self, path: &str, query: &Q) -> Result<T, ClientError> {
        self.send(self.http.get(self.address(path, query)?)).await
    }

    /// GET of a stream of events.
    pub async fn events<Q: Serialize>(&self, path: &str, query: &Q) -> Result<EventStream, ClientError> {
        let reply = self.reply(self.http.get(self.address(path, query)?)).await?;
        let kind = reply.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        if reply.status().is_success() && kind.is_some_and(|kind| kind.starts_with(EVENTS)) {
            return Ok(EventStream::new(self.base.clone(), reply));
        }
        let status = reply.status().as_u16();
        let bytes = reply.bytes().await.map_err(|why| ClientError::of(&self.base, &why))?;
        Err(self.refusal(status, &bytes))
    }

    /// GET of a file: its bytes as they arrive.
    pub async fn download(&self, path: &str) -> Result<Download, ClientError> {
        let reply = self.reply(self.http.get(format!("{}{path}", self.base))).await?;
        if reply.status().is_success() {
            return Ok(Download { url: self.base.clone(), reply });
        }
        let status = reply.status().as_u16();
        let bytes = reply.bytes().await.map_err(|why| ClientError::of(&self.base, &why))?;
        Err(self.refusal(status, &bytes))
    }

    /// PUT of a file of that many bytes.
    pub async fn upload<T: DeserializeOwned>(
        &self,
        path: &str,
        body: impl Into<reqwest::Body>,
        size: u64,
    ) -> Result<T, ClientError> {
        let request = self.http.put(format!("{}{path}", self.base)).header(CONTENT_LENGTH, size);
        self.send(request.header(CONTENT_TYPE, "application/octet-stream").body(body)).await
    }

    fn address<Q: Serialize>(&self, path: &str, query: &Q) -> Result<reqwest::Url, ClientError> {
        let query = serde_json::to_value(query).unwrap_or_default();
        let pairs: Vec<(String, String)> = query
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            .collect();
        let mut address = reqwest::Url::parse(&format!("{}{path}", self.base)).map_err(|why| {
            ClientError::Unreachable { url: self.base.clone(), why: format!("not an address ({why})") }
        })?;
        if !pairs.is_empty() {
            address.query_pairs_mut().extend_pairs(pairs);
        }
        Ok(address)
    }

    /// POST with a JSON body.
    pub async fn post<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, ClientError> {
        self.send(self.http.post(format!("{}{path}", self.base)).json(body)).await
    }

    /// PATCH with a JSON body.
    pub async fn patch<B: Serialize, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, ClientError> {
        self.send(self.http.patch(format!("{}{path}", self.base)).json(body)).await
    }

    /// DELETE.
    pub async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        self.send(self.http.delete(format!("{}{path}", self.base))).await
    }

    async fn reply(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, ClientError> {
        let request = match &self.shows {
            Shows::Token(token) => request.bearer_auth(token.reveal()),
            // With a cookie a change says that it is no other page's.
            Shows::Cookie(cookie) => request.header(COOKIE, cookie.reveal()).header(ORIGIN, &self.base),
        };
        let request = request.header(CLIENT_HEADER, "cli");
        request.send().await.map_err(|why| ClientError::of(&self.base, &why))
    }

    async fn send<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, ClientError> {
        let reply = self.reply(request).await?;
        let status = reply.status().as_u16();
        let success = reply.status().is_success();
        let bytes = reply.bytes().await.map_err(|why| ClientError::of(&self.base, &why))?;
        if success && let Ok(value) = serde_json::from_slice(&bytes) {
            return Ok(value);
        }
        Err(self.refusal(status, &bytes))
    }

    /// What an answer says that is not what was asked for.
    fn refusal(&self, status: u16, bytes: &[u8]) -> ClientError {
        match serde_json::from_slice::<ErrorBody>(bytes) {
            Ok(body) => ClientError::Refused { status, body: Box::new(body) },
            // Sonde's own doors say it in one text.
            Err(_) => match serde_json::from_slice::<SondeError>(bytes) {
                Ok(SondeError { error }) => {
                    let error =
                        ErrorDetail { code: "refused".into(), message: error, hint: None, request_id: String::new() };
                    ClientError::Refused { status, body: Box::new(ErrorBody { error }) }
                }
                Err(_) => ClientError::NotAHub { url: self.base.clone(), status },
            },
        }
    }
}

/// A file that is being fetched.
#[derive(Debug)]
pub struct Download {
    url: String,
    reply: reqwest::Response,
}

impl Download {
    /// How many bytes it has, where the hub says so.
    pub fn size(&self) -> Option<u64> {
        self.reply.content_length()
    }

    /// The next piece; nothing after the last one.
    pub async fn next(&mut self) -> Result<Option<bytes::Bytes>, ClientError> {
        self.reply.chunk().await.map_err(|why| ClientError::of(&self.url, &why))
    }
}

#[derive(serde::Deserialize)]
struct SondeError {
    error: String,
}

/// How the library begins to say that what answered speaks something else.
const NO_HTTP: &str = "invalid HTTP";
/// The same of TLS: it took an answer in plain text for a record.
const NO_TLS: &str = "InvalidContentType";

/// The innermost cause: reqwest's own text repeats the address and hides the reason.
fn chain(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
