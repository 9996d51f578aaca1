//! What SQLite's errors mean for an operator.

use std::sync::Arc;

use rusqlite::ErrorCode as Code;

use crate::StoreError;

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::Error as E;
        match &error {
            E::SqliteFailure(failure, _) => match failure.code {
                Code::DiskFull => Self::DiskFull,
                Code::SystemIoFailure if is_after_the_write(failure.extended_code) => {
                    Self::NotSynced(Arc::new(error))
                }
                Code::DatabaseCorrupt | Code::NotADatabase => Self::Corrupt(error.to_string()),
                Code::ConstraintViolation => Self::Conflict("this is already there".into()),
                Code::SystemIoFailure | Code::CannotOpen | Code::PermissionDenied | Code::ReadOnly => {
                    Self::Io { what: "read or write the database".into(), source: Arc::new(error) }
                }
                _ => Self::Internal(Arc::new(error)),
            },
            E::FromSqlConversionFailure(..) | E::InvalidColumnType(..) | E::IntegralValueOutOfRange(..) => {
                Self::Corrupt(error.to_string())
            }
            _ => Self::Internal(Arc::new(error)),
        }
    }
}

/// Whether a commit may stand in the log whole though it failed: the sync comes after the last byte of it was written.
const fn is_after_the_write(extended_code: i32) -> bool {
    use rusqlite::ffi;
    matches!(extended_code, ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC)
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn a_sync_that_failed_is_told_from_a_write_that_did() {
        let error = |code| StoreError::from(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        for code in [ffi::SQLITE_IOERR_FSYNC, ffi::SQLITE_IOERR_DIR_FSYNC] {
            let unsure = error(code);
            assert!(!unsure.has_changed_nothing() && unsure.is_of_the_storage(), "{unsure:?}");
            assert!(unsure.to_string().contains("not known"), "{unsure}");
        }
        for code in [ffi::SQLITE_IOERR_WRITE, ffi::SQLITE_IOERR_READ, ffi::SQLITE_FULL, ffi::SQLITE_READONLY] {
            let sure = error(code);
            assert!(sure.has_changed_nothing() && sure.is_of_the_storage(), "{sure:?}");
        }
    }
}
