//! The model every door and every protocol shares: who is connected (peers), what may be asked (grants, the gate, the
//! guard), what was asked (calls), how a machine is doing (health) and what happened (the journal).
//!
//! Nothing in this crate reads a clock, a file, a socket or a random number: time and randomness are passed in.
//! It knows no wire protocol. That is what lets the hub, the endpoint, the property tests and the simulator run
//! the very same code.

pub mod approval;
pub mod call;
pub mod confirm;
pub mod contents;
pub mod door;
pub mod effect;
pub mod event;
pub mod gate;
pub mod glob;
pub mod grant;
pub mod guard;
pub mod health;
pub mod hidden;
pub mod id;
pub mod journal;
pub mod json;
pub mod lease;
pub mod peer;
pub mod query;
pub mod redact;
pub mod secret;
mod shell;
pub mod time;
