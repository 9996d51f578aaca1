//! What a server tells while it runs: lines on standard error.

use std::io::IsTerminal as _;

use anyhow::Result;
use tracing_subscriber::EnvFilter;

use crate::exit::usage;
use crate::output::wants_colour;

/// Begins to write what happens at `level` and above; `CONVOKE_LOG` (`warn,convoke_hub=debug`) says it in more detail.
pub(crate) fn start(level: &str) -> Result<()> {
    let filter = match std::env::var("CONVOKE_LOG").ok().filter(|text| !text.is_empty()) {
        Some(text) => EnvFilter::try_new(&text).map_err(|why| usage(format!("CONVOKE_LOG: {why}")))?,
        None => EnvFilter::new(directives(level)),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && wants_colour())
        .init();
    Ok(())
}

/// Details are told of our own crates only: those of the libraries below drown them. The MCP library tells three lines
/// for every call, which is what the journal is for.
fn directives(level: &str) -> String {
    match level {
        "info" => "info,rmcp=warn".to_owned(),
        "debug" | "trace" => format!("info,rmcp=warn,convoke={level}"),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_is_a_filter() {
        for level in ["error", "warn", "info", "debug", "trace"] {
            assert!(EnvFilter::try_new(directives(level)).is_ok(), "{level}");
        }
    }

    #[test]
    fn of_the_libraries_only_what_matters_is_told() {
        use tracing::{Level, enabled};
        let told = |level: &str| {
            let subscriber = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(directives(level))).finish();
            tracing::subscriber::with_default(subscriber, || {
                [
                    enabled!(target: "rmcp::service", Level::INFO),
                    enabled!(target: "rmcp::service", Level::WARN),
                    enabled!(target: "convoke_hub::http", Level::INFO),
                    enabled!(target: "convoke_hub::http", Level::DEBUG),
                ]
            })
        };
        assert_eq!(told("info"), [false, true, true, false]);
        assert_eq!(told("debug"), [false, true, true, true]);
        assert_eq!(told("error"), [false; 4]);
    }
}
