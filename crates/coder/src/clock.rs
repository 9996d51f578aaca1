//! The one place where time and randomness come from.

use std::time::{SystemTime, UNIX_EPOCH};

use convoke_core::time::Timestamp;
use uuid::Uuid;

/// Now, to the millisecond.
pub(crate) fn now() -> Timestamp {
    of(SystemTime::now())
}

/// Now, as the protocol and the files write it.
pub(crate) fn now_text() -> String {
    now().to_string()
}

/// A file's time.
pub(crate) fn of(time: SystemTime) -> Timestamp {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// An id that nobody else has.
pub(crate) fn unique_id() -> String {
    Uuid::new_v4().to_string()
}

/// An id within one session: eight hexadecimal digits.
pub(crate) fn entry_id() -> String {
    let id = Uuid::new_v4();
    format!("{:08x}", id.as_fields().0)
}
