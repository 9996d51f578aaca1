//! The hubs that share a database.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Response, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use convoke_api::hubs::{HubList, HubView};
use convoke_store::HubRow;

use convoke_doors::ApiError;
use convoke_doors::extract::{By, Json, PathOf};
use convoke_gate::cluster::parcels;
use convoke_gate::hub::Hub;

#[utoipa::path(get, path = "/api/hubs", responses((status = 200, body = HubList)), tag = "hub")]
/// List the hubs that share this hub's database; a hub that has its database alone lists itself.
pub async fn list(State(hub): State<Hub>, _: By) -> Result<Json<HubList>, ApiError> {
    if hub.cluster.is_none() {
        let alone = HubView {
            id: hub.store.hub_id(),
            name: hub.settings.hub.name.clone().unwrap_or_else(|| "hub".into()),
            address: hub.base_url(),
            live: true,
            links: hub.agents.online() as u64,
            since: hub.wall(std::time::Duration::ZERO),
            public_key: Some(hub.public_key()),
        };
        return Ok(Json(HubList { hubs: vec![alone] }));
    }
    let hubs = hub.store.hubs().await?;
    Ok(Json(HubList { hubs: hubs.into_iter().map(view).collect() }))
}

fn view(row: HubRow) -> HubView {
    HubView {
        id: row.id,
        name: row.name,
        address: row.announced.address,
        live: row.is_live,
        links: row.links,
        since: row.since,
        public_key: row.public_key.map(|key| STANDARD.encode(key)),
    }
}

#[utoipa::path(get, path = "/api/hubs/parcels/{link}", params(("link" = String, Path)),
    responses((status = 200, content_type = "application/octet-stream", body = Vec<u8>), (status = 404)), tag = "hub")]
/// For other hubs: what was too large for the bus, sealed under the hubs' key, by a link that is good once.
pub async fn parcel(State(hub): State<Hub>, PathOf(link): PathOf<String>) -> Result<Response<Body>, ApiError> {
    let sealed =
        parcels::give_out(&hub, &link).ok_or_else(|| ApiError::not_found("there is nothing under this link"))?;
    let mut response = Response::new(Body::from(sealed));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}
