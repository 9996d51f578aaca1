//! How the program ends: part of what scripts rely on (`docs/cli.md`).

use std::fmt;
use std::process::ExitCode;

/// The exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything went as asked.
    Done,
    /// It did not: the hub said no, the call failed, the journal does not hold.
    Failed,
    /// The command line or the configuration is wrong; nothing was tried.
    Usage,
    /// The call is not done: it waits for a person, or still runs.
    Pending,
    /// What a command on another machine ended with (`convoke exec`).
    Remote(u8),
}

impl Exit {
    /// The exit code of `convoke exec` for whatever is not the remote command's own, as ssh has it.
    pub const NOT_REMOTE: Self = Self::Remote(255);

    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Pending => 3,
            Self::Remote(code) => code,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// A mistake in the command line or the configuration, in words for who typed it.
#[derive(Debug)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A mistake in the command line, as the error that a command returns.
pub fn usage(text: impl Into<String>) -> anyhow::Error {
    Usage(text.into()).into()
}

/// The exit code of an error.
pub fn of(error: &anyhow::Error) -> Exit {
    if error.chain().any(|cause| cause.is::<Usage>()) { Exit::Usage } else { Exit::Failed }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_mistake_in_the_configuration_is_told_apart_through_its_context() {
        let error = Err::<(), _>(usage("`hub.listen` cannot be x")).context("the settings").expect_err("an error");
        assert_eq!(of(&error), Exit::Usage);
        assert_eq!(of(&anyhow::anyhow!("the disk is full")), Exit::Failed);
    }
}
