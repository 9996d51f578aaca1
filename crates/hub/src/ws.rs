//! WebSockets as the hub needs them: limits that change after authentication, no memory for idle connections, one
//! place that reads and writes.

pub mod decode;
mod socket;
mod upgrade;

pub use decode::{Event, WsError};
pub use socket::{Socket, SocketError};
pub use upgrade::{Stream, Upgrade, Upgraded, upgrade};
