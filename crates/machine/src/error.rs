//! Why a tool could not do what it was asked.

use std::fmt;
use std::io;

use convoke_kenny::frame::ErrorCode;

use crate::open::OpenError;

/// The outcome of a call that did not succeed: a code of the contract, and a sentence for whoever called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError {
    /// What kind of failure (contract, "response").
    pub code: ErrorCode,
    /// In words. Names what was asked for, never a secret: arguments that may hold one are not repeated.
    pub message: String,
}

impl ToolError {
    /// An error of that kind.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// The arguments do not fit the tool.
    pub fn bad_args(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::BadArgs, message)
    }

    /// What was asked for does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// The tool ran and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::ExecFailed, message)
    }

    /// This machine has no such capability.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Unsupported, message)
    }

    /// The agent itself failed.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Internal, message)
    }

    /// The tool took longer than it was given, in the field's words.
    pub fn timeout(after: std::time::Duration) -> Self {
        let secs = after.as_secs_f64();
        let secs = if secs.fract() == 0.0 { format!("{secs:.0}") } else { format!("{secs:.1}") };
        Self::new(ErrorCode::Timeout, format!("tool exceeded {secs}s"))
    }

    /// Why a path that the caller named was not opened.
    pub fn open(what: impl fmt::Display, error: &OpenError) -> Self {
        match error {
            OpenError::Io(error) => Self::io(what, error),
            OpenError::Refused(refused) => Self::new(ErrorCode::Blocked, refused.to_string()),
        }
    }

    /// What the system said about a path or program.
    pub fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let code = match error.kind() {
            io::ErrorKind::NotFound => ErrorCode::NotFound,
            io::ErrorKind::InvalidInput => ErrorCode::BadArgs,
            _ => ErrorCode::ExecFailed,
        };
        Self::new(code, format!("{what}: {error}"))
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolError {}
