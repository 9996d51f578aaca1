//! The Kibitz agent protocol (draft v0) as the relay carries it: content messages and the agents' envelope, grants that
//! the engine enforces, admission by an agent's own key, the frames of the relay, and both ends as deterministic state
//! machines: the room's authority and a participant.
//!
//! Deliberately absent: sockets, clocks, randomness, the store, private keys. Challenges and the time are passed in,
//! signing and verifying are small traits, and what to send, to record or to close comes out as values. Of WebRTC here is
//! what its data channels carry and how its peers find each other; sockets, certificates and media are a runtime's.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`name`] | what a room is called |
//! | [`grant`] | capabilities, defaults by kind, widening, revoking, expiry (contract, section 4) |
//! | [`key`] | P-256 public keys as JWK, thumbprints, signed tokens |
//! | [`admission`] | agent assertions, manifests and invites (contract, section 5) |
//! | [`content`] | content messages and the agents' envelope (contract, section 3) |
//! | [`frame`] | the frames of the relay, both directions |
//! | [`room`] | the authority: admission, roster, grants, and who hears what |
//! | [`participant`] | a participant's end: roster, view, schemas, and what it may do (contract, section 7) |
//! | [`transcript`] | what happened in a room since an agent's last look |
//! | [`rate`] | how much one participant may say, and the agents' own cooldown |
//! | [`close`] | WebSocket close codes |
//! | [`mesh`] | data channels between participants: their serialisation, presence, and who is held to what |
//! | [`signal`] | the PeerJS broker |
//! | [`credential`] | tokens that others issued: credits and workload identities |
//! | [`link`] | a room's address with what a browser needs to know of it |
//! | [`actions`] | what an agent offers to be asked for |

pub mod actions;
pub mod admission;
pub mod close;
pub mod content;
pub mod credential;
pub mod frame;
pub mod grant;
pub mod key;
pub mod link;
pub mod mesh;
pub mod name;
pub mod participant;
pub mod rate;
pub mod room;
pub mod signal;
pub mod transcript;

/// The version of the relay's frames, told in its first one.
pub const RELAY_VERSION: u32 = 1;
/// Largest frame before admission; at twice that the connection closes.
pub const MAX_FRAME_BEFORE: usize = 16 * 1024;
/// Largest frame after admission; at twice that the connection closes.
pub const MAX_FRAME_AFTER: usize = 1024 * 1024;

/// Both clocks at one moment. The wall clock is for what travels and what is kept; the other one only goes forward.
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
