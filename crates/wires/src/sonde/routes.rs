//! `/api/v1/…`: Sonde's own doors, with its shapes, behind our gate.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_core::journal::{Decision, Draft, Kind};
use convoke_store::SondeTokenRow;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Wires;
use crate::joined;
use crate::sonde::ask::{self, AskError, ProbeAsk};
use crate::sonde::change::{self, NotChanged};
use crate::sonde::diagnose::{self, Known};
use crate::sonde::overview;
use crate::sonde::registry::token_label;
use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, MaybeJson, PathOf, QueryOf};
use convoke_doors::keeper::record_refusal;
use convoke_gate::clock;

impl std::convert::From<AskError> for ApiError {
    fn from(error: AskError) -> Self {
        match error {
            AskError::Bad(why) => Self::bad_request(why),
            AskError::Refused(why) => why.into(),
            AskError::Pending { approval, .. } => {
                Self::new(StatusCode::ACCEPTED, "pending", format!("this waits for approval {approval}"))
            }
        }
    }
}

#[derive(Debug, Deserialize, Default, utoipa::ToSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MintBody {
    /// The only name it is valid for.
    name: Option<String>,
}

#[utoipa::path(post, path = "/api/v1/enrollment-tokens", request_body = MintBody, responses((status = 200)), tag = "sonde")]
/// Create a one-time enrolment token for a Sonde agent. It is shown once.
pub async fn mint(
    State(hub): State<Wires>,
    By(caller): By,
    MaybeJson(body): MaybeJson<MintBody>,
) -> Result<Json<Value>, ApiError> {
    let name = body.and_then(|b| b.name);
    if name.as_ref().is_some_and(|n| n.is_empty() || n.chars().count() > 255) {
        return Err(ApiError::bad_request("`name` must have 1 to 255 characters"));
    }
    if let Err(missing) = ask::check_admit(&hub, &caller, name.as_deref()) {
        record_refusal(&hub, &caller, "letting in an agent out of reach", None).await;
        return Err(ApiError::forbidden(&missing));
    }
    let now = clock::now();
    let token = clock::token("cvn_");
    let expires_at = now.after(hub.settings.sonde.enrol_token_ttl_s);
    let row = SondeTokenRow { hash: token.hash(), name, created_at: now, expires_at, used_at: None, used_by: None };
    let mut record = Draft::new(now, Kind::Enrol)
        .detail(&json!({ "what": "Sonde enrolment token", "name": row.name, "expires_at": expires_at }));
    record.who = Some(caller.token.name.clone());
    record.door = Some(caller.door);
    record.decision = Some(Decision::Allowed);
    // A place for it first: one that is kept must also be known.
    if !hub.sonde.registry.add_token(row.clone(), now) {
        return Err(ApiError::busy("too many enrolment tokens are open; wait until some expire"));
    }
    let hash = row.hash;
    hub.store.put_sonde_token(row, record).await.inspect_err(|_| hub.sonde.registry.drop_token(&hash))?;
    Ok(Json(json!({ "token": token.reveal(), "expiresAt": expires_at })))
}

#[utoipa::path(get, path = "/api/v1/enrollment-tokens", responses((status = 200)), tag = "sonde")]
/// List the enrolment tokens with their states, without the tokens themselves.
pub async fn tokens(State(hub): State<Wires>, By(caller): By) -> Json<Value> {
    let now = clock::now();
    // Whose name a token bears, or who used it.
    let about = |t: &SondeTokenRow| {
        let user = t.used_by.as_ref().and_then(|id| hub.sonde.registry.named(id.as_str()));
        user.map(|user| user.name.clone()).or_else(|| t.name.clone())
    };
    let tokens: Vec<Value> = hub
        .sonde
        .registry
        .tokens()
        .into_iter()
        .filter(|t| ask::check_admit(&hub, &caller, about(t).as_deref()).is_ok())
        .map(|t| {
            let status = match t.used_at {
                Some(_) => "used",
                None if now >= t.expires_at => "expired",
                None => "active",
            };
            json!({
                "token": token_label(&t.hash), "status": status, "name": t.name,
                "createdAt": t.created_at, "expiresAt": t.expires_at, "usedAt": t.used_at,
                "usedByAgent": t.used_by.map(|id| id.as_str().to_owned()),
            })
        })
        .collect();
    Json(json!({ "tokens": tokens }))
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub struct ProbeBody {
    /// The agent, by name or id; may be omitted when only one agent has the pack.
    agent: Option<String>,
    /// The full name of the probe.
    probe: String,
    /// A JSON object.
    #[schema(value_type = Object)]
    params: Option<Box<RawValue>>,
    /// Milliseconds for the whole probe; 30000 by default.
    timeout: Option<f64>,
}

#[utoipa::path(post, path = "/api/v1/probe", request_body = ProbeBody, responses((status = 200), (status = 202), (status = 400), (status = 403)), tag = "sonde")]
/// Run a probe. A failure of the agent is a response with its status; no answer is an error.
pub async fn probe(
    State(hub): State<Wires>,
    By(caller): By,
    Json(body): Json<ProbeBody>,
) -> Result<Response<Body>, ApiError> {
    let timeout = match body.timeout {
        None => None,
        Some(ms) => Some(
            Duration::try_from_secs_f64(ms / 1000.0)
                .ok()
                .filter(|d| !d.is_zero())
                .ok_or_else(|| ApiError::bad_request("`timeout` must be a number of milliseconds above 0"))?,
        ),
    };
    let params = body.params.filter(|p| p.get() != "null");
    let ask = ProbeAsk { agent: body.agent.as_deref(), probe: &body.probe, params, timeout, requested_by: "api" };
    match ask::probe(&hub, &caller, ask).await {
        Ok(reply) => match &reply.outcome {
            // The agent's own words, in its own order.
            Ok(response) => Ok(convoke_doors::extract::json_bytes(response.get().to_owned())),
            Err(_) if reply.is_answered() => Ok(Json(reply.shown()).into_response()),
            Err(failure) => Err(ApiError::bad_request(failure.message.clone())),
        },
        Err(error) => pending(error),
    }
}

fn pending(error: AskError) -> Result<Response<Body>, ApiError> {
    match error {
        AskError::Pending { call_id, approval, expires_at } => {
            let body = json!({ "approval": { "id": approval, "expires_at": expires_at }, "call_id": call_id });
            Ok((StatusCode::ACCEPTED, Json(body)).into_response())
        }
        other => Err(other.into()),
    }
}

#[derive(Debug, Deserialize, utoipa::ToSchema)]
pub struct DiagnoseBody {
    /// The agent, by name or id; may be omitted when only one agent has the runbook's probes.
    agent: Option<String>,
    /// The runbook.
    category: String,
    /// The runbook's parameters.
    #[schema(value_type = Object)]
    params: Option<Box<RawValue>>,
}

#[utoipa::path(post, path = "/api/v1/diagnose", request_body = DiagnoseBody, responses((status = 200), (status = 400), (status = 403)), tag = "sonde")]
/// Run a runbook on an agent.
pub async fn diagnose(
    State(hub): State<Wires>,
    By(caller): By,
    Json(body): Json<DiagnoseBody>,
) -> Result<Response<Body>, ApiError> {
    let params = body.params.as_deref().map(RawValue::get).filter(|p| *p != "null");
    match diagnose::diagnose(&hub, &caller, body.agent.as_deref(), &body.category, params).await {
        Ok(diagnosis) => Ok(Json(diagnosis.shown).into_response()),
        Err(error) => pending(error),
    }
}

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct TagQuery {
    /// Only agents with all of these, separated by commas.
    tags: Option<String>,
}

fn split(tags: Option<&str>) -> Vec<String> {
    tags.unwrap_or_default().split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::to_owned).collect()
}

#[utoipa::path(get, path = "/api/v1/agents", params(TagQuery), responses((status = 200)), tag = "sonde")]
/// List the Sonde agents within the caller's scopes.
pub async fn agents(State(hub): State<Wires>, By(caller): By, QueryOf(query): QueryOf<TagQuery>) -> Json<Value> {
    Json(overview::agents(&hub, &caller, &split(query.tags.as_deref())))
}

#[utoipa::path(get, path = "/api/v1/agents/{id}", params(("id" = String, Path)), responses((status = 200)), tag = "sonde")]
/// Show one Sonde agent, by name or id.
pub async fn agent(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let (sonde, _) = ask::find(&hub, &caller, &id).await.map_err(|error| match error {
        AskError::Bad(_) => ApiError::no_agent(&id),
        other => other.into(),
    })?;
    Ok(Json(overview::agent(&hub, &sonde)))
}

#[utoipa::path(get, path = "/api/v1/packs", responses((status = 200)), tag = "sonde")]
/// List the packs: built-in ones and those of agents.
pub async fn packs(State(hub): State<Wires>, By(caller): By) -> Json<Value> {
    Json(overview::packs(&hub, &caller))
}

#[utoipa::path(get, path = "/api/v1/capabilities", params(TagQuery), responses((status = 200)), tag = "sonde")]
/// The probes and runbooks of each agent.
pub async fn capabilities(
    State(hub): State<Wires>,
    By(caller): By,
    QueryOf(query): QueryOf<TagQuery>,
) -> Json<Value> {
    Json(overview::capabilities(&hub, &caller, &split(query.tags.as_deref())).await)
}

#[utoipa::path(get, path = "/api/v1/runbooks", responses((status = 200)), tag = "sonde")]
/// List the runbooks, and files that could not be loaded.
pub async fn runbooks(State(hub): State<Wires>, By(caller): By) -> Json<Value> {
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for known in diagnose::all(&hub, &caller).await {
        match known {
            Known::Good { from, runbook } => {
                let mut shown = serde_json::to_value(&runbook).unwrap_or_default();
                shown["id"] = runbook.id().into();
                shown["from"] = from.into();
                good.push(shown);
            }
            Known::Bad { from, error } => bad.push(json!({ "from": from, "error": error })),
        }
    }
    Json(json!({ "runbooks": good, "errors": bad }))
}

#[derive(Debug, Deserialize, Default, utoipa::IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct CaQuery {
    /// `pem` for the certificate alone, as a file for programs; `json` by default.
    format: Option<String>,
}

#[utoipa::path(get, path = "/api/v1/ca", params(CaQuery), responses((status = 200)), tag = "sonde")]
/// Show the certificate of the CA that Sonde agents trust.
pub async fn ca(
    State(hub): State<Wires>,
    QueryOf(query): QueryOf<CaQuery>,
    _: By,
) -> Result<Response<Body>, ApiError> {
    let ca = hub.sonde.ca(&*hub.store).await.map_err(|why| {
        tracing::error!(%why, "cannot create or read the CA");
        ApiError::internal()
    })?;
    match query.format.as_deref() {
        None | Some("json") => Ok(Json(json!({ "caCertPem": ca.cert_pem })).into_response()),
        Some("pem") => Ok(([(header::CONTENT_TYPE, "application/x-pem-file")], ca.cert_pem.clone()).into_response()),
        Some(_) => Err(ApiError::bad_request("format must be json or pem")),
    }
}

#[derive(Debug, Deserialize, Default, utoipa::ToSchema)]
#[serde(default)]
pub struct HealthBody {
    /// Only this agent; all by default.
    agent: Option<String>,
    /// Only these runbooks.
    categories: Vec<String>,
    /// Only agents with all of these.
    tags: Vec<String>,
}

#[utoipa::path(post, path = "/api/v1/health-check", request_body = HealthBody, responses((status = 200)), tag = "sonde")]
/// Run every runbook that fits, on one agent or on all.
pub async fn health_check(
    State(hub): State<Wires>,
    By(caller): By,
    MaybeJson(body): MaybeJson<HealthBody>,
) -> Result<Json<Value>, ApiError> {
    let body = body.unwrap_or_default();
    let checked = overview::health_check(&hub, &caller, body.agent.as_deref(), &body.categories, &body.tags).await?;
    Ok(Json(checked))
}

#[utoipa::path(post, path = "/api/agents/{id}/accept", params(("id" = String, Path)), responses((status = 200)), tag = "sonde")]
/// Accept an agent whose attestation changed: what it says now is what it should say.
pub async fn accept(
    State(hub): State<Wires>,
    By(caller): By,
    PathOf(id): PathOf<String>,
) -> Result<Json<Value>, ApiError> {
    let agent = convoke_doors::agents::in_reach(&hub, &caller, &id).await?;
    let second = joined::second(&hub, &agent);
    let Some(sonde) = second.or_else(|| hub.sonde.registry.find(&agent.id)) else {
        return Err(ApiError::bad_request("only Sonde agents have attestation"));
    };
    let accepted = change::facts(&hub, &sonde, |facts| {
        let changes = facts.changed.as_ref().map(|c| c.changes.clone());
        if !facts.accept() {
            return Err(ApiError::conflict("this agent's attestation has not changed; there is nothing to accept"));
        }
        let mut record = Draft::new(clock::now(), Kind::Trust)
            .detail(&json!({ "what": "attestation accepted", "changes": changes }));
        record.who = Some(caller.token.name.clone());
        record.door = Some(caller.door);
        record.target = Some(agent.id.as_str().into());
        record.decision = Some(Decision::Allowed);
        Ok(Some(record))
    });
    accepted.await.map_err(|why| match why {
        NotChanged::Gone => ApiError::no_agent(&id),
        NotChanged::No(why) => why,
        NotChanged::Store(why) => why.into(),
    })?;
    Ok(Json(overview::agent(&hub, &Arc::clone(&sonde))))
}
