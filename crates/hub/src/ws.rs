//! WebSockets as the hub needs them: limits that change after authentication, no memory for idle connections, one
//! place that reads and writes.

mod socket;
mod upgrade;

pub use convoke_ws::{Event, WsError};
pub use socket::{Socket, SocketError, text_frame};
pub use upgrade::{Stream, Upgrade, Upgraded, upgrade};
