//! Where the hub keeps things: one interface ([`Store`]), and SQLite behind it ([`SqliteStore`]).
//!
//! Callers know the interface only; nothing of an engine shows through it. What works on a data directory without a
//! running hub stands beside it: [`audit`] verifies and exports the journal, [`backup`] copies and restores,
//! [`keys`] rotates the data key.

pub mod audit;
pub mod backup;
mod error;
mod files;
mod interface;
pub mod keys;
mod rooms;
mod seal;
mod sonde;
mod sqlite;
mod yonexus;

pub use error::StoreError;
pub use files::{Holder, Paths, holder};
pub use interface::*;
pub use rooms::{RoomRow, RoomStore};
pub use sonde::{SondeAgentRow, SondeEnrolled, SondeTokenRow};
pub use sqlite::{LogDamage, OpenOptions, SqliteStore, peek_secret};
pub use yonexus::*;
