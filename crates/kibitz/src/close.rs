//! WebSocket close codes of the relay. Each has a frame before it that says more.

/// A close: the code and a reason that fits a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The code.
    pub code: u16,
    /// The reason, for whoever reads the peer's log.
    pub reason: &'static str,
}

/// The participant left.
pub const LEFT: Close = Close { code: 1000, reason: "bye" };
/// The hub stops; participants come again.
pub const SHUTTING_DOWN: Close = Close { code: 1001, reason: "hub is shutting down" };
/// A frame beyond the hard limit.
pub const TOO_LARGE: Close = Close { code: 1009, reason: "frame too large" };
/// Three malformed frames in a row.
pub const MALFORMED: Close = Close { code: 4400, reason: "malformed frames" };
/// No credential that counts here, or too many wrong ones.
pub const UNVERIFIED: Close = Close { code: 4401, reason: "unverified" };
/// Removed by a host, denied in the lobby, or blocked.
pub const KICKED: Close = Close { code: 4403, reason: "kicked" };
/// The room is gone.
pub const REMOVED: Close = Close { code: 4404, reason: "room removed" };
/// Not admitted in time, or silent for too long.
pub const TIMEOUT: Close = Close { code: 4408, reason: "timeout" };
/// A newer connection of the same participant was admitted.
pub const REPLACED: Close = Close { code: 4409, reason: "replaced" };
/// The participant does not read what it is sent.
pub const SLOW: Close = Close { code: 4413, reason: "too slow" };
/// Too many frames before admission.
pub const RATE_LIMITED: Close = Close { code: 4429, reason: "rate limited" };
/// The room is full.
pub const FULL: Close = Close { code: 4503, reason: "room is full" };
