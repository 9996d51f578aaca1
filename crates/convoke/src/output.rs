//! Writes results to standard output, everything else to standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Result;
use convoke_api::{ClientError, ErrorBody, ErrorDetail};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::show::clean;
use crate::table::Grid;

/// Where results go, and for whom.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// For a program: the API's JSON.
    pub(crate) json: bool,
    /// Whether standard output is a terminal that wants colour.
    colour: bool,
}

impl Output {
    /// For a person, or with `json` for a program.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, colour: io::stdout().is_terminal() && wants_colour() }
    }

    /// One line or several, as they are.
    pub(crate) fn text(&self, text: &str) -> Result<()> {
        Ok(writeln!(io::stdout().lock(), "{text}")?)
    }

    /// Bytes as they are, without a line break of our own.
    pub(crate) fn raw(&self, text: &str) -> Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        Ok(out.flush()?)
    }

    /// The hub's own JSON, untouched.
    pub(crate) fn raw_json(&self, json: &RawValue) -> Result<()> {
        self.text(json.get())
    }

    /// A value as one line of JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<()> {
        self.text(&serde_json::to_string(value)?)
    }

    /// A table, or `empty` when it has no rows.
    pub(crate) fn table(&self, grid: &Grid, empty: &str) -> Result<()> {
        if grid.is_empty() {
            self.note(empty);
            return Ok(());
        }
        self.text(&grid.render(self.colour))
    }

    /// Something for the person beside the result.
    pub(crate) fn note(&self, text: impl Display) {
        // A closed standard error is no reason to fail.
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// The same where a program may read along: as JSON, like the error that may follow.
    pub(crate) fn remark(&self, text: impl Display) {
        if self.json {
            self.note(serde_json::json!({ "note": text.to_string() }));
        } else {
            self.note(text);
        }
    }

    /// What went wrong: for a person with its causes, for a program in the API's shape.
    pub(crate) fn error(&self, error: &anyhow::Error) {
        if self.json {
            let body = error_body(error);
            self.note(serde_json::to_string(&body).unwrap_or_default());
        } else {
            self.note(format_args!("error: {}", causes(error)));
        }
    }
}

/// Whether the person wants colour, as far as the environment says (<https://no-color.org>).
pub(crate) fn wants_colour() -> bool {
    let unset = |name| std::env::var_os(name).is_none_or(|value| value.is_empty());
    unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Whether the error is that nobody reads standard output any more.
pub(crate) fn is_closed_pipe(error: &anyhow::Error) -> bool {
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

fn error_body(error: &anyhow::Error) -> ErrorBody {
    if let Some(ClientError::Refused { body, .. }) = error.downcast_ref() {
        return (**body).clone();
    }
    let code = match error.downcast_ref() {
        Some(ClientError::Unreachable { .. }) => "unreachable",
        Some(ClientError::Lost { .. }) => "lost",
        Some(ClientError::Distrusted { .. }) => "distrusted",
        Some(ClientError::NotAHub { .. }) => "not_a_hub",
        _ if crate::exit::of(error) == crate::exit::Exit::Usage => "usage",
        _ => "failed",
    };
    ErrorBody {
        error: ErrorDetail { code: code.into(), message: causes(error), hint: None, request_id: String::new() },
    }
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
