//! The server: sockets, HTTP API, pages. It drives the protocol machines and keeps the one gate.
//!
//! [`start`] brings a hub up in a data directory and returns a handle to stop it with.

mod adopt;
pub mod agents;
mod answers;
pub mod calls;
pub mod clock;
mod downloads;
pub mod events;
pub mod fleet;
pub mod http;
pub mod hub;
mod kenny;
pub mod key;
pub mod link;
pub mod mcp;
mod metrics;
pub mod operators;
pub mod policy;
pub mod rooms;
mod serve;
pub mod settings;
pub mod sonde;
mod start;
mod strangers;
pub mod tools;
pub mod ws;
pub mod yonexus;

pub use adopt::Adopted;
pub use http::DoorEntry;
pub use start::{HubOptions, OPERATOR_TOKEN_SECRET, Running, StartError, check_seed, check_settings, start};
