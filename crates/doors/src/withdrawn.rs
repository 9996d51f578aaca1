//! How a withdrawal is answered. It is in force before it is kept, and a disk that is full does not make it fail.

use convoke_store::StoreError;
use serde::Serialize;
use serde_json::Value;

use crate::ApiError;
use crate::extract::Json;

/// Whether a withdrawal that is in force is stored, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Stored {
    /// It is.
    Yes,
    /// Not yet: it is written first when there is space.
    Owed,
}

impl Stored {
    /// What became of it, where the store has nothing else to say.
    pub fn of<T>(answer: Result<T, StoreError>) -> Result<Self, StoreError> {
        Ok(if StoreError::owed(answer)?.is_some() { Self::Yes } else { Self::Owed })
    }

    /// What became of two.
    pub fn and(self, other: Self) -> Self {
        if self == Self::Yes { other } else { self }
    }

    /// The answer, which says so where it is not stored.
    pub fn answer(self, body: &impl Serialize) -> Result<Json<Value>, ApiError> {
        let mut body = serde_json::to_value(body).map_err(|_| ApiError::internal())?;
        if self == Self::Owed {
            body["stored"] = false.into();
        }
        Ok(Json(body))
    }
}
