//! MCP for assistants: `/mcp`, Streamable HTTP, both eras on one endpoint.
//!
//! A request passes the same keeper as every door (host, origin, token), then [`Door`] (body bound, the tool's right,
//! whose session it is), and only then the SDK, which speaks the protocol and calls `Server`. What a tool does goes
//! through the gate ([`crate::calls::place`]) like every other call. What machines answer is shown as data of that
//! machine (`render.rs`), never as the hub's own words.

mod approve;
mod bound;
mod call;
mod call_many;
#[cfg(feature = "conformance")]
mod conformance;
mod door;
mod fleet;
mod hidden;
mod page;
mod peek;
mod places;
mod progress;
mod prompts;
mod render;
mod resources;
mod rules;
mod schema;
mod server;
mod sessions;
mod sonde;
mod standing;
mod streams;
mod tools;
mod watch;

#[cfg(feature = "conformance")]
pub use conformance::mount as mount_conformance_fixtures;
pub use door::{Door, challenge, metadata};
pub use sessions::Sessions;
pub use tools::{Entry, Need, TOOLS, find, visible};

/// Where it is served.
pub const PATH: &str = "/mcp";
