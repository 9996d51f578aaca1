//! Where the hub keeps things: one interface ([`Store`]), and a database behind it ([`SqlStore`]).
//!
//! Callers know the interface only; nothing of an engine shows through it. What works on a data directory without a
//! running hub stands beside it: [`audit`] verifies and exports the journal, [`backup`] copies and restores,
//! [`keys`] rotates the data key.

mod accounts;
pub mod audit;
pub mod backup;
mod calls;
mod engine;
mod error;
mod files;
mod grants;
mod health;
mod hubs;
mod journal;
pub mod keys;
mod messages;
mod notices;
mod peers;
mod people;
mod postgres;
mod rooms;
mod runs;
mod seal;
mod sql;
mod sqlite;
mod store;
mod telemetry;

pub use accounts::*;
pub use calls::*;
pub use engine::Data;
pub use error::{LogDamage, StoreError};
pub use files::{Holder, Paths, holder};
pub use grants::*;
pub use health::*;
pub use hubs::*;
pub use journal::*;
pub use messages::*;
pub use notices::*;
pub use peers::*;
pub use people::*;
pub use postgres::{BadUrl, Moved, Server, migrate};
pub use rooms::{RoomRow, Rooms};
pub use runs::*;
pub use sql::{OpenOptions, SqlStore};
pub use sqlite::peek_secret;
pub use store::*;
pub use telemetry::*;
