//! A paired Yonexus client as a library: it keeps a connection to a hub, reconnects, keeps its key and secret in a file
//! of its own, and hands messages to rule processors.
//!
//! `examples/client.rs` is a whole program.
//!
//! The protocol itself is [`convoke_yonexus::client`]; here are the socket, the clock, the file and the task around it.
//! A crate of its own, so that a program that only wants to be a client carries neither the hub nor the agent.

mod clock;
mod config;
mod connect;
mod run;
mod state;

pub use config::{Client, Config, Event, Handle, Message, Pairing, Running, SendError};
pub use connect::{ConnectError, hub_url};
pub use convoke_yonexus::client::State;
pub use run::Ended;
pub use state::{Kept, Lock, StateError, StateFile, Status};
