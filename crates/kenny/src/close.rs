//! WebSocket close codes, and what the hub says with them.

/// A close: the code and a reason that fits a close frame (at most 123 bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// The code.
    pub code: u16,
    /// The reason, for whoever reads the peer's log.
    pub reason: &'static str,
}

/// The end is going away: shutting down, or cutting a link that has gone quiet.
pub const GOING_AWAY: u16 = 1001;
/// A frame beyond the hard limit.
pub const TOO_LARGE: u16 = 1009;
/// The first frame was not a usable `register` (contract of the field; see protocols/kenny.md, "Transport").
pub const BAD_REGISTER: u16 = 4400;
/// Authentication failed or took too long (contract, "register" and "auth").
pub const UNAUTHORIZED: u16 = 4401;

/// The hub is stopping; agents reconnect.
pub const SHUTTING_DOWN: Close = Close { code: GOING_AWAY, reason: "hub is shutting down" };
/// A newer link of the same agent has authenticated.
pub const REPLACED: Close = Close { code: GOING_AWAY, reason: "replaced by a newer connection" };
/// The agent's trust was revoked while it was connected. The same code as a failed handshake: it will not get in again.
pub const REVOKED: Close = Close { code: UNAUTHORIZED, reason: "authentication failed" };
