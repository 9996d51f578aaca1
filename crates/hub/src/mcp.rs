//! MCP for assistants: `/mcp`, Streamable HTTP, both eras on one endpoint.
//!
//! A request passes the same keeper as every door (host, origin, token), then [`Door`] (body bound, the tool's right,
//! whose session it is), and only then the SDK, which speaks the protocol and calls `Server`. What a tool does goes
//! through the gate ([`crate::calls::place`]) like every other call. What machines answer is shown as data of that
//! machine (`render.rs`), never as the hub's own words.
//!
//! Nothing here knows a protocol: tools are brought by whoever has some (`toolset.rs`).

mod approve;
mod bound;
pub(crate) mod call;
#[cfg(feature = "conformance")]
mod conformance;
mod door;
pub(crate) mod fleet;
mod hidden;
mod own;
pub(crate) mod page;
mod peek;
mod places;
pub(crate) mod progress;
mod prompts;
pub(crate) mod render;
mod resources;
pub(crate) mod schema;
mod server;
mod sessions;
mod standing;
mod streams;
pub(crate) mod toolset;
mod watch;

#[cfg(feature = "conformance")]
pub use conformance::mount as mount_conformance_fixtures;
pub use door::{Door, challenge, metadata};
pub(crate) use door::{record_out_of_reach, record_refusal};
pub(crate) use own::HubTools;
pub(crate) use server::Asker;
pub use sessions::Sessions;
pub use toolset::{AnyOf, Entry, Need, Tools, Toolset};

/// Where it is served.
pub const PATH: &str = "/mcp";
