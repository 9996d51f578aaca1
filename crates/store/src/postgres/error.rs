//! What PostgreSQL's errors mean for an operator.

use std::sync::Arc;

use ::postgres::error::SqlState;

use crate::StoreError;

impl From<::postgres::Error> for StoreError {
    fn from(error: ::postgres::Error) -> Self {
        let Some(code) = error.code() else {
            return Self::Unreachable(Arc::new(error));
        };
        match code {
            &SqlState::DISK_FULL => Self::DiskFull,
            &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => Self::Corrupt(error.to_string()),
            &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE => {
                Self::Conflict("another hub changed the same at the same time; try again".into())
            }
            code if code.code().starts_with("23") => Self::Conflict("this is already there".into()),
            code if ["08", "28", "53", "57", "58", "25P", "3D", "55P"]
                .iter()
                .any(|class| code.code().starts_with(class)) =>
            {
                Self::Unreachable(Arc::new(error))
            }
            _ => Self::Internal(Arc::new(error)),
        }
    }
}

/// Whether the connection is of no more use.
pub(super) fn breaks(error: &::postgres::Error) -> bool {
    // A plan that was made before another hub changed the tables is made anew with a new connection.
    error.code().is_none_or(|code| ["08", "57P", "25P03", "0A000"].iter().any(|class| code.code().starts_with(class)))
}
