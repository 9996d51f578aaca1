//! Why a probe has no result.

use std::time::Duration;

use convoke_machine::exec::ExecError;
use convoke_sonde::agent::Failure;
use convoke_sonde::probe::{Status, code};

/// Longest text of a program that is repeated.
const MAX_WORDS: usize = 2_000;

/// What went wrong.
#[derive(Debug)]
pub(crate) enum ProbeError {
    /// It ran and failed, or cannot run here: in words for an operator.
    Failed(String),
    /// It took too long.
    TimedOut(Duration),
    /// This agent does not allow it.
    Forbidden(String),
}

impl ProbeError {
    /// A program failed: its own words.
    pub(crate) fn of_program(program: &str, exit_code: i32, stderr: &str, stdout: &str) -> Self {
        let words = [stderr, stdout].into_iter().map(str::trim).find(|t| !t.is_empty()).unwrap_or("no output");
        let words = &words[..words.floor_char_boundary(MAX_WORDS)];
        Self::Failed(format!("{program} failed ({exit_code}): {words}"))
    }

    /// A program's output is not what it should be.
    pub(crate) fn unreadable(program: &str, why: impl std::fmt::Display) -> Self {
        Self::Failed(format!("cannot read the output of {program}: {why}"))
    }
}

impl From<ExecError> for ProbeError {
    fn from(error: ExecError) -> Self {
        match error {
            ExecError::TimedOut { after, .. } => Self::TimedOut(after),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<ProbeError> for Failure {
    fn from(error: ProbeError) -> Self {
        match error {
            ProbeError::Failed(message) => Self { status: Status::Error, code: code::FAILED, message },
            ProbeError::TimedOut(after) => Self {
                status: Status::Timeout,
                code: code::TIMEOUT,
                message: format!("the probe took longer than {} ms", after.as_millis()),
            },
            ProbeError::Forbidden(message) => {
                Self { status: Status::Unauthorized, code: code::UNAUTHORIZED, message }
            }
        }
    }
}
