//! What operators of the hub itself look at.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use convoke_api::settings::{SettingList, SettingView};
use serde_json::json;

use convoke_doors::extract::{By, Json};
use convoke_gate::hub::Hub;
use convoke_gate::metrics::in_text_format;
use convoke_gate::settings::{Setting, Source};

/// `/healthz`: the process is alive.
pub async fn healthz() -> Json<serde_json::Value> {
    Json(json!({ "status": "ok" }))
}

/// `/readyz`: it can take calls: not stopping, the store commits, and of several hubs it is one that has its lease and the bus.
pub async fn readyz(State(hub): State<Hub>) -> Response<Body> {
    let store = hub.store.stats();
    let why = if hub.stopping.is_cancelled() {
        Some("stopping")
    } else if let Some(why) = hub.takes_nothing().or_else(|| hub.reaches_nobody()) {
        Some(why)
    } else if store.owed > 0 {
        Some("withdrawals in force are not stored yet: the disk takes nothing")
    } else if store.failing {
        Some("the store fails to commit")
    } else if store.queued >= store.queue_limit {
        Some("the store's queue is full")
    } else {
        None
    };
    match why {
        None => Json(json!({ "status": "ready" })).into_response(),
        Some(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(json!({ "status": "not ready", "why": why }))).into_response()
        }
    }
}

/// `/metrics`: OpenMetrics for whoever asks for it, as Prometheus does, and Prometheus' text format for the rest.
pub async fn metrics(State(hub): State<Hub>, _: By, headers: HeaderMap) -> Response<Body> {
    let mut page = hub.metrics.render(&hub.gauges());
    let mut accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let kind = if accepted.any(|value| value.contains("application/openmetrics-text")) {
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    } else {
        page = in_text_format(&page);
        "text/plain; version=0.0.4; charset=utf-8"
    };
    let mut response = Response::new(Body::from(page));
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[utoipa::path(get, path = "/api/hub", responses((status = 200)), tag = "hub")]
/// What this hub is: its id, version, public key and what is switched on.
pub async fn about(State(hub): State<Hub>, _: By) -> Json<serde_json::Value> {
    let token_auth = hub.settings.kenny.allow_token_auth;
    let (stats, disk) = (hub.store.stats(), hub.store.disk());
    Json(json!({
        "hub_id": hub.store.hub_id(),
        "version": env!("CARGO_PKG_VERSION"),
        "http": hub.base_url(),
        "kenny_public_key": hub.public_key(),
        "kenny_token_auth": token_auth,
        "agents": hub.agents.count(),
        "online": hub.agents.online() + hub.agents.online_elsewhere(),
        "calls": { "running": hub.calls.running(), "waiting": hub.calls.waiting() },
        "journal_seq": stats.journal_seq,
        "store_failing": stats.failing,
        "store_bytes": disk.used_bytes,
        "disk_free_bytes": disk.free_bytes,
    }))
}

#[utoipa::path(get, path = "/api/settings", responses((status = 200, body = SettingList)), tag = "hub")]
/// List the settings in force, with where each comes from. Secrets are not shown.
pub async fn settings(State(hub): State<Hub>, _: By) -> Json<SettingList> {
    let view = |(setting, value, source): (&Setting, &str, &Source)| SettingView {
        name: setting.name.into(),
        value: value.into(),
        default: setting.default.into(),
        source: source.to_string(),
        doc: setting.doc.into(),
    };
    let settings = hub.settings.listing().map(view).collect();
    Json(SettingList { settings, warnings: hub.settings.warnings().to_vec() })
}
