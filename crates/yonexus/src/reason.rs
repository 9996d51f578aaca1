//! Every word with a fixed spelling on the wire: next actions, reasons, statuses, error codes.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// All of them, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// As it is spelled on the wire.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// The one of that spelling.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.name() == text)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

words!(
    /// The server's directed next step (contract, 5.1).
    NextAction {
        /// Pairing begins.
        PairRequired = "pair_required",
        /// Prove yourself.
        AuthRequired = "auth_required",
        /// Not here.
        Rejected = "rejected",
        /// A code is under way.
        WaitingPairConfirm = "waiting_pair_confirm",
    }
);
words!(
    /// Whether the administrator was told of a code (contract, 5.2).
    AdminNotification {
        /// They were.
        Sent = "sent",
        /// They could not be; the code cannot be used.
        Failed = "failed",
    }
);
words!(
    /// Why pairing failed (contract, 5.2, `pair_failed`).
    PairFailure {
        /// The code's time is over.
        Expired = "expired",
        /// Not this code.
        InvalidCode = "invalid_code",
        /// This identifier may not pair.
        IdentifierNotAllowed = "identifier_not_allowed",
        /// No administrator was notified of the code.
        AdminNotificationFailed = "admin_notification_failed",
        /// The server's own fault.
        InternalError = "internal_error",
    }
);
words!(
    /// Why authentication failed (contract, 5.3, `auth_failed`).
    AuthFailure {
        /// Not on the allow-list, or never heard of.
        UnknownIdentifier = "unknown_identifier",
        /// Never paired, or not any more.
        NotPaired = "not_paired",
        /// The signature does not verify under the bound key.
        InvalidSignature = "invalid_signature",
        /// Signed over a secret that was revoked.
        InvalidSecret = "invalid_secret",
        /// The client's clock is behind.
        StaleTimestamp = "stale_timestamp",
        /// The client's clock is ahead.
        FutureTimestamp = "future_timestamp",
        /// The nonce was used before.
        NonceCollision = "nonce_collision",
        /// Too many attempts.
        RateLimited = "rate_limited",
        /// Trust was reset.
        RePairRequired = "re_pair_required",
    }
);
words!(
    /// Why trust was reset (contract, 5.3 and 7).
    Unsafe {
        /// A nonce was used twice.
        NonceCollision = "nonce_collision",
        /// More handshake attempts than the window allows.
        RateLimited = "rate_limited",
    }
);
words!(
    /// A client's liveness (contract, 6.2).
    Status {
        /// It is there.
        Online = "online",
        /// Its heartbeat is overdue.
        Unstable = "unstable",
        /// It is gone.
        Offline = "offline",
    }
);
words!(
    /// Protocol-level errors (contract, 5.6).
    ErrorCode {
        /// A frame that cannot be read or does not belong here.
        MalformedMessage = "MALFORMED_MESSAGE",
        /// A version other than ours.
        UnsupportedProtocolVersion = "UNSUPPORTED_PROTOCOL_VERSION",
        /// Not on the allow-list.
        IdentifierNotAllowed = "IDENTIFIER_NOT_ALLOWED",
        /// Pair first.
        PairingRequired = "PAIRING_REQUIRED",
        /// The code's time is over.
        PairingExpired = "PAIRING_EXPIRED",
        /// No administrator could be notified of the code.
        AdminNotificationFailed = "ADMIN_NOTIFICATION_FAILED",
        /// Authenticate first.
        AuthFailed = "AUTH_FAILED",
        /// A nonce was used twice.
        NonceCollision = "NONCE_COLLISION",
        /// Too much at once.
        RateLimited = "RATE_LIMITED",
        /// Trust was reset.
        RePairRequired = "RE_PAIR_REQUIRED",
        /// The addressee is not connected.
        ClientOffline = "CLIENT_OFFLINE",
        /// The server's own fault.
        InternalError = "INTERNAL_ERROR",
    }
);
words!(
    /// The fifteen builtin types (contract, 16).
    Kind {
        /// The client declares itself.
        Hello = "hello",
        /// The server's next step.
        HelloAck = "hello_ack",
        /// Pairing has begun.
        PairRequest = "pair_request",
        /// The code that a person carried.
        PairConfirm = "pair_confirm",
        /// The secret.
        PairSuccess = "pair_success",
        /// No pairing.
        PairFailed = "pair_failed",
        /// A proof.
        AuthRequest = "auth_request",
        /// It holds.
        AuthSuccess = "auth_success",
        /// It does not.
        AuthFailed = "auth_failed",
        /// Trust is reset.
        RePairRequired = "re_pair_required",
        /// A sign of life.
        Heartbeat = "heartbeat",
        /// It was seen.
        HeartbeatAck = "heartbeat_ack",
        /// A client's liveness changed.
        StatusUpdate = "status_update",
        /// The server is about to close.
        DisconnectNotice = "disconnect_notice",
        /// Something was wrong.
        Error = "error",
    }
);
