//! What is kept of rooms.

use async_trait::async_trait;
use convoke_core::journal::Draft;
use convoke_core::secret::SecretBytes;
use convoke_core::time::Timestamp;

use crate::store::Result;

/// A room as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomRow {
    /// Its name.
    pub name: String,
    /// What its authority keeps, JSON text.
    pub body: String,
    /// The private half of its key, sealed at rest.
    pub key: SecretBytes,
    /// When it was made.
    pub created_at: Timestamp,
}

/// Rooms.
#[async_trait]
pub trait Rooms: Send + Sync {
    /// All rooms, by name.
    async fn rooms(&self) -> Result<Vec<RoomRow>>;
    /// Keeps a new room. False when there is one of that name; then nothing is recorded.
    async fn add_room(&self, room: RoomRow, record: Draft) -> Result<bool>;
    /// Keeps what a room's authority keeps now. False when there is no such room; then nothing is recorded.
    async fn set_room(&self, name: &str, body: String, record: Option<Draft>) -> Result<bool>;
    /// As [`Self::set_room`], where something is withdrawn from somebody.
    async fn withdraw_in_room(&self, name: &str, body: String, record: Option<Draft>) -> Result<bool> {
        self.set_room(name, body, record).await
    }
    /// Removes a room. False when unknown.
    async fn remove_room(&self, name: &str, record: Draft) -> Result<bool>;
}
