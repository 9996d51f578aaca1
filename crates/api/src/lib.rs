//! The HTTP API as types, and a client for it. The hub answers with these types, the command line and the tests read
//! them, and the OpenAPI document is made from them.

pub mod agents;
pub mod approvals;
pub mod backup;
pub mod calls;
pub mod client;
pub mod error;
pub mod files;
pub mod fleet;
pub mod grants;
pub mod hubs;
pub mod inbox;
pub mod notices;
mod object;
pub mod passkeys;
pub mod people;
pub mod policy;
pub mod record;
pub mod rooms;
pub mod runs;
pub mod settings;
mod stream;
pub mod tokens;
pub mod tools;
mod words;
pub mod yonexus;

pub use client::{Client, ClientError};
pub use error::{ErrorBody, ErrorDetail};
pub use stream::{EventStream, StreamEvent};

/// The header by which the command line says that it is one (the journal's `door`).
pub const CLIENT_HEADER: &str = "x-convoke-client";
