//! Simulated agents and clients by the thousand in one process, and what is needed to measure a hub with them.
//!
//! The agents run the real [`AgentSession`](convoke_kenny::agent::AgentSession), signatures included, over a WebSocket
//! of their own that holds no buffer while idle: the simulator must not be what a measurement shows. Everything is
//! bounded in count and time, and only loopback is meant.
//!
//! Deliberately absent: the hub. It is another process, reached through its doors like any hub, so a figure read here
//! is a figure of the product.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`roster`] | ids and keys of the agents, the same in every process that has the seed |
//! | [`swarm`] | agents that connect, answer, push and reconnect on command |
//! | [`answer`] | what an agent answers to a request |
//! | [`telemetry`] | the snapshot that agents push |
//! | [`enrol`] | enrols a roster through the HTTP API |
//! | [`load`] | callers that keep a hub busy, and how long they wait |
//! | [`forwarder`] | the raw limit: HTTP in, WebSocket to the agent and back, HTTP out |
//! | [`bare_mcp`] | the raw limit of MCP: the SDK's server with a tool that answers at once |
//! | [`rooms`] | participants of rooms, and data channels between two of ours |
//! | `cluster` | several hubs, and what goes wrong between them |
//! | [`rules`] | Yonexus clients, a bare relay and NATS: rule messages under load |
//! | [`sonde`] | Sonde agents: enrolments, registrations, probes answered at once |
//! | [`usage`] | CPU and memory of a process |
//! | [`control`] | commands to a swarm in another process |
//! | [`stage`] | the processes of a measurement: hub, forwarder, swarm |
//! | [`http`] | one keep-alive connection to an HTTP server |
//! | [`ws`] | one WebSocket, either side |

mod agent;
pub mod answer;
pub mod bare_mcp;
#[cfg(target_os = "linux")]
pub mod cluster;
pub mod control;
pub mod enrol;
pub mod forwarder;
pub mod http;
pub mod load;
pub mod rooms;
pub mod roster;
pub mod rules;
mod server;
pub mod sonde;
pub mod stage;
pub mod swarm;
pub mod telemetry;
pub mod usage;
pub mod ws;

pub use convoke_kenny::enrol::{BadKey, parse_key};
pub use ed25519_dalek::VerifyingKey;

/// A public key as text: what [`parse_key`] reads.
pub fn key_text(key: &VerifyingKey) -> String {
    convoke_kenny::wire_bytes::encode(key.as_bytes())
}
