//! Agent binaries: offering one to an agent, and the short-lived link it is fetched from.

use std::path::Path;

use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_api::agents::UpdateReply;
use convoke_core::secret::SecretText;
use futures_util::stream;
use serde_json::json;
use tokio::io::AsyncReadExt as _;

use crate::Wires;
use crate::kenny::downloads::{self, Binary, is_newer, newest, sha256};
use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_gate::calls::{Ask, Placed};
use convoke_gate::clock;

/// Time-out of a call that updates an agent: it downloads first.
const UPDATE_TIMEOUT: Duration = Duration::from_secs(120);

#[utoipa::path(post, path = "/api/agents/{id}/update", params(("id" = String, Path)), responses((status = 200, body = UpdateReply), (status = 202), (status = 409), (status = 503)), tag = "agents")]
/// Offer the agent the newest binary for its machine: `agent_update` with a short-lived link.
pub async fn update(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Response<Body>, ApiError> {
    let agent = convoke_doors::agents::in_reach(&hub, &caller, &id).await?;
    let id = agent.id.clone();
    // Before anything is looked at on the disk: what binaries a hub has is for those who may offer them.
    let tool = "agent_update";
    if let Err(missing) = caller.token.grant.check_tool(convoke_kenny::tools::effect_of(tool), tool) {
        convoke_doors::keeper::record_refusal(&hub, &caller, "updating an agent", Some(id.as_str())).await;
        return Err(ApiError::forbidden(&missing));
    }
    let Some(meta) = agent.state().meta.as_deref().map(convoke_kenny::frame::Meta::read) else {
        let message = format!("agent {id} has never connected, so its platform is unknown");
        return Err(ApiError::conflict(message));
    };
    let arch = meta.arch.unwrap_or_else(|| "x86_64".into());
    let Some(dir) = hub.settings.kenny.update_dir.clone() else {
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no_binary", "this hub has no agent binaries")
            .hint("set kenny.update_dir to a folder of kenny-agent-VERSION-OS-ARCH files"));
    };
    let (os, arch_name) = (meta.os, arch);
    let found = tokio::task::spawn_blocking({
        let (os, arch) = (os.clone(), arch_name.clone());
        move || offer_of(&dir, &os, &arch)
    })
    .await
    .map_err(|_| ApiError::internal())?;
    let (binary, hash) = match found {
        Ok(Some(found)) => found,
        Ok(None) => {
            let message = format!("kenny.update_dir has no binary for {os} on {arch_name}");
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no_binary", message));
        }
        Err(why) => {
            let message = format!("cannot read kenny.update_dir: {why}");
            return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no_binary", message));
        }
    };
    // An agent that does not say what it is gets what there is.
    if !meta.version.is_empty() && !is_newer(&binary.version, &meta.version) {
        let message = format!("agent {id} has version {}; the newest binary is {}", meta.version, binary.version);
        return Err(ApiError::conflict(message).hint("put a newer binary into kenny.update_dir"));
    }
    let url = downloads::address(&hub, &binary.path).ok_or_else(ApiError::internal)?;
    let args = json!({ "version": binary.version, "url": url, "sha256": hash });
    let args = serde_json::value::to_raw_value(&args).map_err(|_| ApiError::internal())?;
    let timeout = Some(UPDATE_TIMEOUT);
    let ask =
        Ask { caller, agent, tool: "agent_update".into(), args, timeout, idempotency_key: None, requested_by: None };
    match convoke_gate::calls::place(&hub, ask).await {
        Ok(Placed::Running(call)) => {
            let done = call.wait().await;
            let reply = serde_json::to_value(convoke_doors::calls::reply(&call, done)).unwrap_or_default();
            let mut reply = reply.as_object().cloned().unwrap_or_default();
            reply.remove("ok");
            let update = UpdateReply { ok: done.is_ok(), version: binary.version, sha256: hash, call: reply };
            Ok(Json(update).into_response())
        }
        Ok(Placed::Pending { call, approval, expires_at }) => {
            let approval = convoke_doors::calls::pending(&call, approval, expires_at);
            let body = json!({ "approval": approval, "call_id": call.id });
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
        Err(refused) => Err(refused.into()),
    }
}

fn offer_of(dir: &Path, os: &str, arch: &str) -> std::io::Result<Option<(Binary, String)>> {
    let Some(binary) = newest(dir, os, arch)? else { return Ok(None) };
    let hash = sha256(&binary.path)?;
    Ok(Some((binary, hash)))
}

#[utoipa::path(get, path = "/d/binary/{link}", params(("link" = String, Path)), responses((status = 200), (status = 404)), tag = "agents")]
/// The binary behind a short-lived link.
pub async fn binary(State(hub): State<Wires>, PathOf(link): PathOf<String>) -> Result<Response<Body>, ApiError> {
    let gone = || ApiError::not_found("the link is not valid or has expired");
    let path = hub.downloads.find(&SecretText::new(link), clock::now()).ok_or_else(gone)?;
    let file = tokio::fs::File::open(&path).await.map_err(|_| gone())?;
    let length = file.metadata().await.map_err(|_| gone())?.len();
    let chunks = stream::unfold(file, async |mut file| {
        let mut chunk = vec![0; 64 * 1024];
        match file.read(&mut chunk).await {
            Ok(0) => None,
            Ok(n) => {
                chunk.truncate(n);
                Some((Ok::<_, std::io::Error>(chunk), file))
            }
            Err(why) => Some((Err(why), file)),
        }
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    headers.insert(header::CONTENT_LENGTH, length.into());
    Ok(response)
}
