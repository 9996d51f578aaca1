//! The hub as its users meet it: real sockets, a real store.

mod approvals;
mod at_once;
mod bodies;
mod calls;
#[cfg(target_os = "linux")]
mod cluster;
mod doors;
mod enrolment;
mod events;
mod handshake;
mod joined;
mod large_answers;
mod limits;
mod log;
mod mcp;
mod names;
mod operations;
mod ops;
mod out_of_force;
mod page;
mod people;
mod policy;
#[cfg(unix)]
mod postgres;
mod rooms;
mod sonde;
mod sonde_attested;
mod sonde_runbooks;
mod sonde_shared;
mod sonde_tls;
mod stalled;
mod support;
mod telemetry;
mod turn;
mod viewers;
mod watching;
mod withdrawals;
mod yonexus;
