//! One WebSocket connection for every program of ours: hub, agent, client, participant and simulator.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`socket`] | a connection over any stream, as server or client |
//! | [`upgrade`] | the client's side of the HTTP upgrade |
//! | [`queue`] | what a connection is asked to do: a bounded queue |
//! | [`drive`] | the loop that drives a protocol machine over a socket |
//! | [`budget`] | memory for large messages that arrive, shared by many connections |
//!
//! Frames are decoded by [`convoke_ws`], which does no input or output. This crate knows no protocol that is spoken over
//! a WebSocket.

pub mod budget;
pub mod drive;
pub mod queue;
pub mod socket;
pub mod upgrade;

pub use budget::Budget;
pub use convoke_ws::{Event, Skipped, WsError};
pub use socket::{CLOSE_PATIENCE, Connection, NO_MEMORY, Socket, SocketError, frame_text, text_frame};
pub use upgrade::{Request, Response, UpgradeError, upgrade};
