//! What the command lines of `convoke` and `convoke-agent` share: how results and errors are shown, how a process ends,
//! and the verbs of the endpoint agent.
//!
//! Deliberately absent: the hub, its API's client and its store. `convoke-agent` is this crate and the endpoint.

pub mod agent;
pub mod exit;
#[cfg(unix)]
pub mod open_files;
pub mod output;
pub mod parse;
pub mod show;
pub mod signals;
pub mod table;
pub mod when;
