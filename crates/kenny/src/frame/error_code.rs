//! Why an agent could not do what it was asked (contract, "response").

use std::borrow::Cow;
use std::fmt;

use super::{MAX_NAME, clip};

/// `error.code` of a `response`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// The tool took longer than it was given.
    Timeout,
    /// The requested thing does not exist.
    NotFound,
    /// The tool ran and failed.
    ExecFailed,
    /// This agent cannot do that on its platform, or does not know the tool.
    Unsupported,
    /// The arguments do not fit the tool.
    BadArgs,
    /// The agent failed.
    Internal,
    /// The person at the endpoint has switched remote control off.
    Disabled,
    /// The agent's guard refused the call.
    Blocked,
    /// The agent steps back for a while (since 0.12; not in the contract, so our agent never sends it).
    Paused,
    /// A code of a version that we do not know, cut to [`MAX_NAME`] characters.
    Other(String),
}

impl ErrorCode {
    /// The contract's codes.
    pub const CONTRACT: [Self; 8] = [
        Self::Timeout,
        Self::NotFound,
        Self::ExecFailed,
        Self::Unsupported,
        Self::BadArgs,
        Self::Internal,
        Self::Disabled,
        Self::Blocked,
    ];

    /// The code on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::ExecFailed => "exec_failed",
            Self::Unsupported => "unsupported",
            Self::BadArgs => "bad_args",
            Self::Internal => "internal",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Paused => "paused",
            Self::Other(code) => code,
        }
    }

    /// Reads any code.
    pub fn parse(text: &str) -> Self {
        Self::CONTRACT
            .into_iter()
            .chain([Self::Paused])
            .find(|code| code.as_str() == text)
            .unwrap_or_else(|| Self::Other(clip(text, MAX_NAME).to_owned()))
    }

    /// The code as an agent may send it. The field's v0.8 servers drop the tunnel over a code outside the contract's
    /// set, so anything else leaves as `internal`.
    pub fn in_contract(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::NotFound => "not_found",
            Self::ExecFailed => "exec_failed",
            Self::Unsupported => "unsupported",
            Self::BadArgs => "bad_args",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Internal | Self::Paused | Self::Other(_) => "internal",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `error` of a `response`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError<'a> {
    /// The kind of failure.
    pub code: ErrorCode,
    /// In words, cut to [`MAX_ERROR_MESSAGE`](super::MAX_ERROR_MESSAGE) characters.
    pub message: Cow<'a, str>,
}

impl WireError<'_> {
    /// The error of a failed response without a readable error.
    pub(super) const UNREADABLE: WireError<'static> = WireError {
        code: ErrorCode::Internal,
        message: Cow::Borrowed("the agent reported a failure but gave no readable error"),
    };
}
