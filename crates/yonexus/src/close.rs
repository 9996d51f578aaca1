//! WebSocket close codes. The contract names none; those from 4000 on are ours, each with a `disconnect_notice` or an
//! `error` before it that says more.

/// A close: the code and a reason that fits a close frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The code.
    pub code: u16,
    /// The reason, for whoever reads the peer's log.
    pub reason: &'static str,
}

/// The server stops; clients reconnect.
pub const SHUTTING_DOWN: Close = Close { code: 1001, reason: "hub is shutting down" };
/// A frame beyond the hard limit.
pub const TOO_LARGE: Close = Close { code: 1009, reason: "frame too large" };
/// Three malformed frames in a row.
pub const MALFORMED: Close = Close { code: 4400, reason: "malformed messages" };
/// Trust was revoked.
pub const REVOKED: Close = Close { code: 4401, reason: "revoked" };
/// The identifier, key or version is not welcome.
pub const REJECTED: Close = Close { code: 4403, reason: "rejected" };
/// No heartbeat for as long as the contract waits, or no proof in time.
pub const TIMEOUT: Close = Close { code: 4408, reason: "timeout" };
/// A newer connection of the same client has authenticated.
pub const REPLACED: Close = Close { code: 4409, reason: "replaced" };
/// Too many frames before authentication.
pub const RATE_LIMITED: Close = Close { code: 4429, reason: "rate limited" };
