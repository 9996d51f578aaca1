//! Rule messages under load: simulated Yonexus clients, and the same messages through a bare relay and through NATS.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`clients`] | Yonexus clients that pair through the hub's own doors, and prove themselves |
//! | [`relay`] | the raw limit: what one WebSocket sends, every other one gets |
//! | [`nats`] | a NATS server, if one is installed, and connections to it |
//! | [`load`] | one sender, some receivers, so many messages in flight |

pub mod clients;
pub mod load;
pub mod nats;
pub mod relay;

/// Why a measurement of rule messages failed.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// A socket.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The upgrade to a WebSocket.
    #[error(transparent)]
    Upgrade(#[from] crate::ws::UpgradeError),
    /// A WebSocket.
    #[error(transparent)]
    Ws(#[from] crate::ws::SocketError),
    /// The server ended the connection.
    #[error(transparent)]
    Lost(#[from] convoke_socket::drive::Lost),
    /// The HTTP API.
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
    /// Something else than what was expected.
    #[error("{0}")]
    Odd(String),
}
