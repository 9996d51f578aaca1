//! `convoke rpc` as its client drives it: a real process, real pipes, a provider on loopback that speaks the real format.

#![cfg(unix)]

mod auth;
mod busy;
mod client;
mod compaction;
mod errors;
mod files;
mod logging;
mod memory;
mod providers;
mod secrets;
mod sessions;
mod several;
mod start;
mod turns;
mod world;
