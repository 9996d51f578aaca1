//! A headless participant of a Kibitz room: the socket, the clock and the key file around
//! [`convoke_kibitz::participant`]. Over the relay and over the mesh it is the same [`Session`], and on it stands the same
//! [`Agent`].
//!
//! | module | what it is |
//! | --- | --- |
//! | [`connect`] | a connection to a room's relay |
//! | [`mesh`] | a room on the mesh: the broker, UDP and WebRTC |
//! | [`key`] | an agent's own key in a file |
//! | [`session`] | taking part: what happens, and saying something |
//! | [`agent`] | an agent: the contract's surface, over a session or over an application of the program's own |

pub mod agent;
pub mod connect;
pub mod key;
pub mod mesh;
pub mod session;
mod udp;

pub use agent::{ActError, Agent, Bridge, cooldown};
pub use connect::{ConnectError, relay_url};
pub use convoke_kibitz::participant::{Event, Profile};
pub use convoke_kibitz::room::Transport;
pub use key::{AgentKeyFile, KeyError};
pub use session::{Config, JoinError, Said, SayError, Session, Utterance};
