//! Tools and telemetry on Windows: a table of scripts, and parsers of what they print.
//!
//! A script asks WMI, the registry or a cmdlet and prints one line of JSON; it decides nothing. A parser makes the
//! answer of it. Both compile on every platform, and the parsers are tested with recorded outputs. Only [`run`] needs
//! Windows.
//!
//! Arguments never become part of a script: they are handed over in environment variables.

mod collect;
mod json;
#[cfg(windows)]
mod run;
mod scripts;
mod tools;
mod winget;

#[cfg(windows)]
pub(crate) use run::{COLLECTORS, TOOLS};
