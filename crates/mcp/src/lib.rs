//! MCP for assistants: `/mcp`, Streamable HTTP, both eras on one endpoint.
//!
//! A request passes the same keeper as every door (host, origin, token), then [`Door`] (body bound, the tool's right,
//! whose session it is), and only then the SDK, which speaks the protocol and calls `Server`. What a tool does goes
//! through the gate ([`convoke_gate::calls::place`]) like every other call. What machines answer is shown as data of that
//! machine (`render.rs`), never as the hub's own words.
//!
//! Nothing here knows a protocol: tools are brought by whoever has some (`toolset.rs`).

mod approve;
mod bound;
pub mod call;
#[cfg(feature = "conformance")]
mod conformance;
mod door;
pub mod fleet;
mod hidden;
mod own;
pub mod page;
mod peek;
pub mod progress;
mod prompts;
mod quota;
pub mod render;
mod resources;
pub mod schema;
mod server;
mod sessions;
mod standing;
mod streams;
mod tool_list;
pub mod toolset;
mod watch;

use axum::http::Method;
#[cfg(feature = "conformance")]
pub use conformance::mount as mount_conformance_fixtures;
use convoke_core::grant::Right;
use convoke_doors::Doors;
pub use door::{Door, challenge, metadata};
pub use door::{record_out_of_reach, record_refusal};
pub use own::HubTools;
pub use server::McpCaller;
pub use sessions::Sessions;

pub use toolset::{AllTools, AnyOf, Entry, Need, Tools, Toolset};

/// Where it is served.
pub const PATH: &str = "/mcp";

/// Opens MCP's doors, each with the right it needs.
#[rustfmt::skip]
pub fn open(doors: Doors) -> Doors {
    use Right::{Public, View};
    let mcp = Door::new(doors.hub());
    doors
        .open(Method::GET, "/.well-known/oauth-protected-resource", Public, metadata)
        .open(Method::GET, "/.well-known/oauth-protected-resource/mcp", Public, metadata)
        .open_for_assistants(Method::POST, PATH, View, mcp.handler(), challenge)
        .open_for_assistants(Method::GET, PATH, View, mcp.handler(), challenge)
        .open_for_assistants(Method::DELETE, PATH, View, mcp.handler(), challenge)
}
