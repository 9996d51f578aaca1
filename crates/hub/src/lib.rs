//! Puts the hub together: settings, store, gate, doors; start, stop, upkeep, and the listener.
//!
//! [`start`] brings a hub up in a data directory and returns a handle to stop it with.

mod cluster;
mod openapi;
mod routes;
mod serve;
mod start;
pub mod tools;

pub use convoke_gate::{Adopted, Hub, clock, settings};
pub use convoke_mcp as mcp;
pub use convoke_wires::Wires;
pub use convoke_wires::sonde::diagnose::read_file as read_runbook;
pub use routes::doors;
pub use serve::own::lan_address;
pub use start::{
    HubOptions, OPERATOR_TOKEN_SECRET, Running, StartError, check_seed, check_settings, note_token_shown, start,
};
