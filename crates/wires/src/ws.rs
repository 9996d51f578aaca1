//! WebSockets as the hub needs them: limits that change after authentication, no memory for idle connections, one
//! place that reads and writes.

mod arrivals;
mod socket;
mod upgrade;

pub use arrivals::Arrivals;
pub use convoke_ws::{Event, Skipped, WsError};
pub use socket::{NO_ROOM, Socket, SocketError, text_frame};
pub use upgrade::{Stream, Upgrade, Upgraded, upgrade};
