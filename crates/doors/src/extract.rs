//! Extractors whose failures have the one shape of errors.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{FromRef, FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{ApiError, From};
use crate::keeper::HttpContext;
use convoke_gate::clock;
use convoke_gate::hub::Hub;
use convoke_gate::operators::Caller;

/// How long a client may take over a body: one that drips holds its connection no longer.
const BODY_PATIENCE: Duration = Duration::from_secs(30);

/// The same at a hub that stops.
const STOP_PATIENCE: Duration = Duration::from_secs(1);

/// Most that is taken from somebody who has not shown yet who they are: it waits in memory until it is whole.
const STRANGERS_BODY: usize = 16 * 1024;

/// Most that is read of a body that is refused, and for how long.
const DISCARDED: usize = 16 * 1024 * 1024;
const DISCARD_PATIENCE: Duration = Duration::from_secs(1);

/// A JSON body, in or out.
#[derive(Debug)]
pub struct Json<T>(pub T);

/// A JSON body that may be absent.
#[derive(Debug)]
pub struct MaybeJson<T>(pub Option<T>);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T>
where
    Hub: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = whole_body(request, &Hub::from_ref(state)).await?;
        parse(&bytes).map(Json)
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for MaybeJson<T>
where
    Hub: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = whole_body(request, &Hub::from_ref(state)).await?;
        if bytes.is_empty() { Ok(Self(None)) } else { parse(&bytes).map(|value| Self(Some(value))) }
    }
}

async fn whole_body(request: Request, hub: &Hub) -> Result<Bytes, ApiError> {
    let (parts, sent) = request.into_parts();
    body(sent, &parts.headers, context(&parts)?.caller.as_ref(), hub).await
}

/// A request's body, within the hub's bound and patience. Who takes their time over it may have lost their token when it
/// is whole: nothing is begun for them then.
pub async fn body(
    mut sent: Body,
    headers: &HeaderMap,
    caller: Option<&Caller>,
    hub: &Hub,
) -> Result<Bytes, ApiError> {
    let (limit, whose) = match caller {
        Some(_) => (hub.limits.body, " (hub.max_body_bytes)"),
        None => (hub.limits.body.min(STRANGERS_BODY), ""),
    };
    let too_large = || ApiError::body_too_large(format!("the body is over the limit of {limit} bytes{whose}"));
    // Who announces too much is not invited to send it: the first look at a body does that (`100 Continue`).
    if sent.size_hint().lower() > limit as u64 {
        if !headers.contains_key(header::EXPECT) {
            discard(&mut sent).await;
        }
        return Err(too_large());
    }
    let collected = Limited::new(&mut sent, limit).collect();
    let stopped = async {
        hub.stopping.cancelled().await;
        tokio::time::sleep(STOP_PATIENCE).await;
    };
    let collected = tokio::select! {
        // Nearly always it is there already.
        biased;
        collected = tokio::time::timeout(BODY_PATIENCE, collected) => collected.ok(),
        () = stopped => None,
    };
    let Some(collected) = collected else {
        return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", "the body did not arrive in time"));
    };
    match collected {
        Ok(_) if caller.is_some_and(|caller| !caller.is_active(clock::now())) => {
            Err(ApiError::unauthorized("this token is no longer valid"))
        }
        Ok(body) => Ok(body.to_bytes()),
        Err(why) if why.is::<LengthLimitError>() => {
            discard(&mut sent).await;
            Err(too_large())
        }
        Err(_) => Err(ApiError::bad_request("the body ended too early")),
    }
}

/// Reads on for a little, into nothing: many clients look for an answer only when they have sent everything, and to them a
/// connection that is closed before that is an accident.
async fn discard(sent: &mut Body) {
    let mut left = DISCARDED;
    let reading = async {
        while let Some(Ok(frame)) = sent.frame().await
            && left > 0
        {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
        }
    };
    let _ = tokio::time::timeout(DISCARD_PATIENCE, reading).await;
}

fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    // A list would be taken as an object's values in their order.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(ApiError::bad_request("the body must be a JSON object"));
    }
    serde_json::from_slice(bytes).map_err(|why| {
        // Read once more to learn where: keeping track of it costs every body that fits.
        let again = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(bytes)).err();
        let what = again.map_or_else(|| crate::error::clip(&why.to_string()).to_owned(), |again| misfit(&again));
        ApiError::bad_request(format!("invalid body: {what}"))
    })
}

/// What does not fit, and where: the field, and serde's text, which has the place and quotes a wrong value. Values of secret
/// fields are texts of the right type, so they are not among those quoted.
pub fn misfit(why: &serde_path_to_error::Error<serde_json::Error>) -> String {
    let field = why.path().to_string();
    let text = why.inner().to_string();
    let text = crate::error::clip(&text);
    if field == "." { text.to_owned() } else { format!("`{}`: {text}", crate::error::clip(&field)) }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response<Body> {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => json_bytes(bytes),
            Err(why) => {
                tracing::error!(%why, "cannot serialise an answer");
                ApiError::internal().into_response()
            }
        }
    }
}

/// An answer that is JSON text already.
pub fn json_bytes(bytes: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(bytes.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// What the router put there.
fn context(parts: &Parts) -> Result<&HttpContext, ApiError> {
    parts.extensions.get::<HttpContext>().ok_or_else(ApiError::internal)
}

/// What stands for the `{name}` in the door's path.
#[derive(Debug)]
pub struct PathOf<T>(pub T);

impl<S: Send + Sync> FromRequestParts<S> for PathOf<String> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // A door without a name in its path has none.
        context(parts)?.names.first().cloned().map(Self).ok_or_else(ApiError::internal)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PathOf<(String, String)> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let [first, second] = &context(parts)?.names[..] else { return Err(ApiError::internal()) };
        Ok(Self((first.clone(), second.clone())))
    }
}

/// A query's values.
#[derive(Debug)]
pub struct QueryOf<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for QueryOf<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let Query(value) = Query::from_request_parts(parts, state)
            .await
            .map_err(|why| ApiError::bad_request(query_misfit(&why.body_text())))?;
        Ok(Self(value))
    }
}

/// What does not fit in a query, in other words than a parser's.
fn query_misfit(why: &str) -> String {
    let why = why.strip_prefix("Failed to deserialize query string: ").unwrap_or(why);
    let wanted = |text: &str| match text {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            Some("a whole number, 0 or more")
        }
        "number too large to fit in target type" => Some("a smaller number"),
        "invalid float literal" | "cannot parse float from empty string" => Some("a number"),
        "provided string was not `true` or `false`" => Some("`true` or `false`"),
        _ => None,
    };
    match why.split_once(": ").and_then(|(name, text)| Some((name, wanted(text)?))) {
        Some((name, wanted)) => format!("`{}` must be {wanted}", crate::error::clip(name)),
        None => format!("invalid query: {}", crate::error::clip(why)),
    }
}

/// Who makes the request: the door has checked their right.
#[derive(Debug)]
pub struct By(pub Caller);

impl<S: Send + Sync> FromRequestParts<S> for By {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // A door that asks nobody has no caller.
        context(parts)?.caller.clone().map(Self).ok_or_else(ApiError::internal)
    }
}

/// Who makes the request, at a door that also takes those who show no token.
#[derive(Debug)]
pub struct MaybeCaller(pub Option<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for MaybeCaller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(context(parts)?.caller.clone()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for From {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        Ok(Self(context(parts)?.from))
    }
}

/// A page's length: 100 when nobody says, 1000 at most.
pub fn limit(asked: Option<u32>) -> Result<u32, ApiError> {
    match asked {
        None => Ok(100),
        Some(n @ 1..=1000) => Ok(n),
        Some(_) => Err(ApiError::bad_request("`limit` must be from 1 to 1000")),
    }
}
