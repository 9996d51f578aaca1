//! Writes results to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use crate::exit::{self, Exit};
use crate::show::clean;
use crate::table::Grid;

/// Where results go, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// For a program: the API's JSON.
    pub json: bool,
    /// Whether standard output is a terminal that wants colour.
    colour: bool,
}

impl Output {
    /// For a person, or with `json` for a program.
    pub fn new(json: bool) -> Self {
        Self { json, colour: io::stdout().is_terminal() && wants_colour() }
    }

    /// One line or several, as they are.
    pub fn text(&self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Bytes as they are, without a line break of our own.
    pub fn raw(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// The hub's own JSON, untouched.
    pub fn raw_json(&self, json: &RawValue) -> Result<()> {
        self.text(json.get())
    }

    /// A value as one line of JSON.
    pub fn json(&self, value: &impl Serialize) -> Result<()> {
        self.text(&serde_json::to_string(value)?)
    }

    /// A table, or `empty` when it has no rows.
    pub fn table(&self, grid: &Grid, empty: &str) -> Result<()> {
        if grid.is_empty() {
            self.note(empty);
            return Ok(());
        }
        self.text(&grid.render(self.colour))
    }

    /// Something for the person beside the result.
    pub fn note(&self, text: impl Display) {
        // A closed standard error is no reason to fail.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// The same where a program may read along: as JSON, like the error that may follow.
    pub fn remark(&self, text: impl Display) {
        if self.json {
            self.note(json!({ "note": text.to_string() }));
        } else {
            self.note(text);
        }
    }

    /// What went wrong: for a person with its causes, for a program in the API's shape.
    pub fn error(&self, error: &anyhow::Error) {
        let code = if exit::of(error) == Exit::Usage { "usage" } else { "failed" };
        self.error_as(code, error);
    }

    /// The same with a code of one's own for programs.
    pub fn error_as(&self, code: &str, error: &anyhow::Error) {
        if self.json {
            self.note(json!({ "error": { "code": code, "message": causes(error), "request_id": "" } }));
        } else {
            self.note(format_args!("error: {}", causes(error)));
        }
    }
}

/// Whether the person wants colour, as far as the environment says (<https://no-color.org>).
pub fn wants_colour() -> bool {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the error is that nobody reads standard output any more.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// The error and its causes, without those that an outer text already repeats.
fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    // A hub's or an agent's words may be among them; line breaks stay, for lists of mistakes and hints.
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn causes_are_told_once() {
        let inner: Result<()> = Err(anyhow::anyhow!("permission denied"));
        let error = inner.context("cannot read x").expect_err("an error");
        assert_eq!(causes(&error), "cannot read x: permission denied");
        let repeated = anyhow::anyhow!("permission denied").context("cannot read x: permission denied");
        assert_eq!(causes(&repeated), "cannot read x: permission denied");
    }
}
