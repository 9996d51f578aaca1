//! The Yonexus protocol (draft v0.3, version "1"), both sides of it: the frames and their codec, pairing by a code that
//! a person carries, the proof of key and secret, the security windows, the rule registry, and the server's and the
//! client's end of a connection as deterministic state machines.
//!
//! Deliberately absent: sockets, clocks, randomness, the store, and any knowledge of tokio or HTTP. Codes, secrets,
//! nonces and the time are passed in; what to send, to keep or to close comes out as values.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`message`] | `rule::content`, and what a rule identifier is |
//! | [`builtin`] | the fifteen builtin frames, decoding and encoding |
//! | [`reason`] | every reason, code, status and next action that the contract names |
//! | [`key`] | public keys in all the forms they travel in |
//! | [`proof`] | the bytes that a client signs |
//! | [`code`] | pairing codes: made, compared, never printed |
//! | [`window`] | nonces, handshake attempts, drift, liveness, rates |
//! | [`record`] | what a server knows of one client: trust, pairing, the nine checks |
//! | [`server`] | the server's end of a connection |
//! | [`answer`] | the frames with which a server says what a record decided |
//! | [`client`] | the client's end of a connection |
//! | [`rules`] | the rule registry |
//! | [`close`] | WebSocket close codes |

pub mod answer;
pub mod builtin;
pub mod client;
pub mod close;
pub mod code;
pub mod key;
pub mod message;
pub mod proof;
pub mod reason;
pub mod record;
pub mod rules;
pub mod server;
pub mod window;

/// The version that both sides announce and ask for (contract, section 11).
pub const PROTOCOL_VERSION: &str = "1";

/// Largest frame before authentication; at twice that the connection closes.
pub const MAX_FRAME_BEFORE: usize = 16 * 1024;
/// Largest frame after authentication; at twice that the connection closes.
pub const MAX_FRAME_AFTER: usize = 1024 * 1024;

/// Both clocks at one moment. The wall clock is for what travels and what is kept; the other one only goes forward, so
/// that a wall clock set back holds no window open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The wall clock.
    pub wall: convoke_core::time::Timestamp,
    /// Time since a start that the caller chose.
    pub mono: std::time::Duration,
}

impl Now {
    /// Seconds since 1970, as they travel.
    pub const fn unix(self) -> i64 {
        self.wall.millis().div_euclid(1000)
    }
}
