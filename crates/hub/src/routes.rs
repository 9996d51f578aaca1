//! Every route of the hub. A route that is not opened here does not exist, and the generated tests walk this list.

use axum::http::Method;
use convoke_core::grant::Right;
use convoke_doors::Doors;
use convoke_gate::Hub;

use crate::openapi;

/// The list, each route with the right it needs.
pub fn doors(hub: &Hub) -> Doors {
    let doors = Doors::new(hub.clone()).open(Method::GET, "/api/openapi.json", Right::Public, openapi::document);
    convoke_page::open(convoke_wires::open(convoke_mcp::open(convoke_http::open(doors))))
}
