//! Mistakes in the settings, in words for the operator.

use std::fmt;
use std::path::PathBuf;

use super::nearest;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The TOML file.
    File(PathBuf),
    /// An environment variable.
    Env(String),
    /// The command line.
    Flag,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Env(name) => write!(f, "environment {name}"),
            Self::Flag => f.write_str("command line"),
        }
    }
}

/// One mistake in the settings, in words for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// No such setting.
    #[error("{from}: setting `{name}` does not exist{}", nearest::hint(.like))]
    Unknown {
        /// As given.
        name: String,
        /// Where.
        from: Source,
        /// The names that may be meant, as they are written there.
        like: Vec<String>,
    },
    /// A value that does not fit.
    #[error("{from}: `{name}` cannot be {value}; allowed: {allowed}")]
    Bad {
        /// The setting.
        name: &'static str,
        /// As given; hidden for secrets.
        value: String,
        /// What would fit.
        allowed: String,
        /// Where.
        from: Source,
    },
    /// `--set` without `=`.
    #[error("command line: `--set {0}` has no `=`; write --set name=value")]
    NoEquals(String),
    /// The file cannot be read.
    #[error("cannot read {}: {why}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Two settings that do not go together.
    #[error("{0}")]
    Conflict(String),
}

/// All mistakes, a line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingErrors(pub Vec<SettingError>);

impl fmt::Display for SettingErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SettingErrors {}
