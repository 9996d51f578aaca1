//! The agent against servers: a scripted one that does whatever a test wants, and our own hub.

mod behaviour;
mod calls;
mod handshake;
mod hub;
mod kenny;
mod paths;
mod policy;
mod sonde;
mod switch;
