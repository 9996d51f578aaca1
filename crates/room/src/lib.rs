//! A headless participant of a Kibitz room: the socket, the clock and the key file around
//! [`convoke_kibitz::participant`]. It speaks the relay; another transport would stand beside [`connect`] and leave
//! [`session`] as it is.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`connect`] | a connection to a room's relay |
//! | [`key`] | an agent's own key in a file |
//! | [`session`] | taking part: what happens, and saying something |

pub mod connect;
pub mod key;
pub mod session;

pub use connect::{ConnectError, relay_url};
pub use key::{AgentKeyFile, KeyError};
pub use session::{Config, JoinError, Said, SayError, Session};
