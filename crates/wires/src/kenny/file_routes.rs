//! The doors of files on their way: for whoever asked, and for the machine.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_api::files::{FileLink, FileQuery, FileState};
use convoke_doors::ApiError;
use convoke_doors::agents::in_reach;
use convoke_doors::calls::seconds;
use convoke_doors::extract::{By, Json, PathOf, QueryOf};
use convoke_gate::operators::Caller;

use super::files::{self, NoMeeting, TooMany, Transfer};
use crate::Wires;

/// The longest wait for a machine.
const MAX_WAIT_S: f64 = 60.0;

#[utoipa::path(post, path = "/api/agents/{id}/files", params(("id" = String, Path)), responses((status = 200, body = FileLink)), tag = "files")]
/// Make a link for one copy of a file, to be named in a call of `file_get` or `file_put`.
pub async fn make(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<FileLink>, ApiError> {
    in_reach(&hub, &caller, &id).await?;
    let (id, url, expires_at) = files::make(&hub, caller.token.id).map_err(|TooMany| {
        let message = "too many copies of files are waiting or under way";
        ApiError::new(StatusCode::TOO_MANY_REQUESTS, "limited", message)
    })?;
    Ok(Json(FileLink { id: id.to_string(), url, expires_at }))
}

#[utoipa::path(get, path = "/api/agents/{id}/files/{link}", params(("id" = String, Path), ("link" = String, Path), FileQuery),
    responses((status = 200, body = FileState), (status = 404)), tag = "files")]
/// Whether the machine has come for a copy of one's own; with `wait_s`, wait for it.
pub async fn state(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((id, link)): PathOf<(String, String)>,
    QueryOf(query): QueryOf<FileQuery>,
) -> Result<Json<FileState>, ApiError> {
    let link = own(&hub, &caller, &id, &link).await?;
    let wait = seconds(query.wait_s.unwrap_or_default().clamp(0.0, MAX_WAIT_S), "wait_s")?;
    let open = tokio::select! {
        open = link.is_open(wait) => open,
        () = hub.stopping.cancelled() => false,
    };
    Ok(Json(FileState { state: if open { "open" } else { "waiting" }.into() }))
}

#[utoipa::path(get, path = "/api/agents/{id}/files/{link}/data", params(("id" = String, Path), ("link" = String, Path)),
    responses((status = 200), (status = 404), (status = 409)), tag = "files")]
/// The file that `file_get` sends.
pub async fn read(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((id, link)): PathOf<(String, String)>,
) -> Result<Response<Body>, ApiError> {
    take(&*own(&hub, &caller, &id, &link).await?).await
}

#[utoipa::path(put, path = "/api/agents/{id}/files/{link}/data", params(("id" = String, Path), ("link" = String, Path)),
    responses((status = 200), (status = 404), (status = 409)), tag = "files")]
/// The file for `file_put`.
pub async fn write(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf((id, link)): PathOf<(String, String)>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    give(&*own(&hub, &caller, &id, &link).await?, &headers, body).await
}

#[utoipa::path(get, path = "/d/file/{link}", params(("link" = String, Path)), responses((status = 200), (status = 404)), tag = "files")]
/// A machine fetches the file for `file_put`.
pub async fn fetch(State(hub): State<Wires>, PathOf(link): PathOf<String>) -> Result<Response<Body>, ApiError> {
    take(&*shown(&hub, &link)?).await
}

#[utoipa::path(put, path = "/d/file/{link}", params(("link" = String, Path)), responses((status = 200), (status = 404)), tag = "files")]
/// A machine sends the file of `file_get`.
pub async fn send(
    State(hub): State<Wires>,
    PathOf(link): PathOf<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response<Body>, ApiError> {
    give(&*shown(&hub, &link)?, &headers, body).await
}

async fn own(hub: &Wires, caller: &Caller, id: &str, link: &str) -> Result<Arc<Transfer>, ApiError> {
    in_reach(hub, caller, id).await?;
    hub.transfers.own(link, caller.token.id).ok_or_else(gone)
}

fn shown(hub: &Wires, link: &str) -> Result<Arc<Transfer>, ApiError> {
    let link = hub.transfers.shown(link).ok_or_else(gone)?;
    link.come();
    Ok(link)
}

fn gone() -> ApiError {
    ApiError::not_found("the link is not valid, or its call has ended")
}

async fn take(link: &Transfer) -> Result<Response<Body>, ApiError> {
    let source = link.take().await.map_err(refused)?;
    let size = source.size;
    let mut response = Response::new(source.into_body());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, size.into());
    Ok(response)
}

async fn give(link: &Transfer, headers: &HeaderMap, body: Body) -> Result<Response<Body>, ApiError> {
    let told = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    let Some(size) = told.or_else(|| body.size_hint().exact()) else {
        return Err(ApiError::bad_request("`Content-Length` is missing: the file's size"));
    };
    link.give(body, size).await.map_err(refused)?;
    Ok(Json(serde_json::json!({ "size": size })).into_response())
}

fn refused(why: NoMeeting) -> ApiError {
    ApiError::conflict(why.to_string())
}
