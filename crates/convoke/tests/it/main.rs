//! The program as people and scripts use it: real processes, real sockets.

#![cfg(unix)]

#[path = "../support/mod.rs"]
mod support;

mod approvals;
mod configuration;
mod cp;
mod data_0_1_0;
mod disk;
mod endpoint;
mod exec;
mod fleet_file;
mod kill;
mod log;
mod mcp;
mod open_files;
mod records;
mod rooms;
mod service;
mod sonde;
mod start;
mod tls;
mod verbs;
mod yonexus;
