//! The log of a running server, on standard error.

use std::io::IsTerminal as _;

use anyhow::Result;
use convoke_endpoint::logs::{Console, LastLines};
use convoke_hub::settings::LogLevel;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::exit::usage;
use crate::output::wants_colour;

/// Libraries that log whole messages, and the level they are held to: their details are arguments of calls, headers with
/// tokens, frames. The MCP library shows them in what it says at every level: what a caller sent, as often and as long as
/// it likes, and a line for each call of a session that ends.
const TALKATIVE: [(&str, LevelFilter); 10] = [
    ("axum", LevelFilter::INFO),
    ("h2", LevelFilter::INFO),
    ("hyper", LevelFilter::INFO),
    ("hyper_util", LevelFilter::INFO),
    ("reqwest", LevelFilter::INFO),
    ("rmcp", LevelFilter::OFF),
    ("rustls", LevelFilter::INFO),
    ("sse_stream", LevelFilter::INFO),
    ("tokio_tungstenite", LevelFilter::INFO),
    ("tungstenite", LevelFilter::INFO),
];

/// Begins to write what happens at `level` and above; `CONVOKE_LOG` (`warn,convoke_hub=debug`) says it in more detail.
/// What comes back writes the last lines when it is dropped.
pub(crate) fn start(level: LogLevel) -> Result<LastLines> {
    let (text, filter) = filter(level)?;
    let cap = cap(&text, &filter);
    let (stderr, last_lines) = Console::stderr();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(std::io::stderr().is_terminal() && wants_colour());
    tracing_subscriber::registry().with(filter).with(cap).with(lines).init();
    Ok(last_lines)
}

/// Whether a start could do so.
pub(crate) fn check(level: LogLevel) -> Result<()> {
    filter(level).map(drop)
}

fn filter(level: LogLevel) -> Result<(String, EnvFilter)> {
    let text = std::env::var("CONVOKE_LOG").ok().filter(|text| !text.is_empty());
    let text = text.unwrap_or_else(|| directives(level));
    let filter = EnvFilter::try_new(&text).map_err(|why| usage(format!("CONVOKE_LOG: {why}")))?;
    Ok((text, filter))
}

/// The level of the talkative libraries, whatever the filter asks for in general: `CONVOKE_LOG=debug` must not
/// put passwords into a log. What the filter names tells what it is asked to: who does that knows why.
fn cap(text: &str, filter: &EnvFilter) -> Targets {
    let named = text.split(',').map(|part| part.split(['=', '[']).next().unwrap_or_default().trim());
    // The filter's own most: this one must not make the others look as if more were wanted.
    let most = filter.max_level_hint().unwrap_or(LevelFilter::TRACE);
    // A name stands for all that begin with it, and the longest counts: what is named needs a word of its own, since it may
    // begin as another does (`hyper_util`).
    let named = named.filter(|name| !name.is_empty()).map(|name| (name, most));
    Targets::new().with_default(most).with_targets(TALKATIVE).with_targets(named)
}

/// Only our own crates log details: those of the libraries would drown them.
fn directives(level: LogLevel) -> String {
    match level {
        LogLevel::Debug | LogLevel::Trace => format!("info,convoke={level}"),
        LogLevel::Error | LogLevel::Warn | LogLevel::Info => level.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEVELS: [LogLevel; 5] = [LogLevel::Error, LogLevel::Warn, LogLevel::Info, LogLevel::Debug, LogLevel::Trace];

    #[test]
    fn every_level_is_a_filter() {
        for level in LEVELS {
            assert!(EnvFilter::try_new(directives(level)).is_ok(), "{level}");
        }
    }

    #[test]
    fn of_the_libraries_only_what_matters_is_told() {
        use tracing::{Level, enabled};
        let told = |level| {
            with(&directives(level), || {
                [
                    enabled!(target: "hyper::proto", Level::INFO),
                    enabled!(target: "hyper::proto", Level::DEBUG),
                    enabled!(target: "convoke_hub::http", Level::INFO),
                    enabled!(target: "convoke_hub::http", Level::DEBUG),
                ]
            })
        };
        assert_eq!(told(LogLevel::Info), [true, false, true, false]);
        assert_eq!(told(LogLevel::Debug), [true, false, true, true]);
        assert_eq!(told(LogLevel::Error), [false; 4]);
    }

    #[test]
    fn what_a_caller_sends_over_mcp_is_told_only_by_name() {
        use tracing::{Level, enabled};
        let told = |text: &str| {
            with(text, || {
                [
                    enabled!(target: "rmcp::service", Level::ERROR),
                    enabled!(target: "rmcp::service", Level::WARN),
                    enabled!(target: "rmcp::transport", Level::INFO),
                ]
            })
        };
        for level in LEVELS {
            assert_eq!(told(&directives(level)), [false; 3], "{level}");
            assert_eq!(told(&level.to_string()), [false; 3], "{level}");
        }
        assert_eq!(told("info,rmcp=warn"), [true, true, false]);
        assert_eq!(told("warn,rmcp::transport=info"), [false, false, true]);
    }

    /// Does it with a filter in force.
    fn with<T>(text: &str, work: impl FnOnce() -> T) -> T {
        let filter = EnvFilter::try_new(text).expect(text);
        let cap = cap(text, &filter);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(filter).with(cap), work)
    }

    /// Which of some events a filter lets through.
    fn through(text: &str) -> [bool; 6] {
        use tracing::{Level, enabled};
        with(text, || {
            [
                enabled!(target: "rmcp::service", Level::DEBUG),
                enabled!(target: "rmcp::service", Level::INFO),
                enabled!(target: "tungstenite::protocol", Level::TRACE),
                enabled!(target: "hyper::proto", Level::DEBUG),
                enabled!(target: "convoke_hub::http", Level::DEBUG),
                enabled!(target: "convoke_hub::http", Level::INFO),
            ]
        })
    }

    /// The same for some whose names begin alike.
    fn also(text: &str) -> [bool; 4] {
        use tracing::{Level, enabled};
        with(text, || {
            [
                enabled!(target: "hyper_util::client", Level::DEBUG),
                enabled!(target: "hyper_rustls::connector", Level::DEBUG),
                enabled!(target: "hyper::proto", Level::DEBUG),
                enabled!(target: "h2::codec", Level::DEBUG),
            ]
        })
    }

    #[test]
    fn libraries_that_show_whole_messages_do_so_only_by_name() {
        assert_eq!(through("debug"), [false, false, false, false, true, true]);
        assert_eq!(through("trace"), [false, false, false, false, true, true]);
        assert_eq!(through("trace,convoke_hub=info"), [false, false, false, false, false, true]);
        assert_eq!(through("info,rmcp=debug"), [true, true, false, false, false, true]);
        assert_eq!(through("debug,rmcp::service=trace"), [true, true, false, false, true, true]);
        assert_eq!(through("trace,hyper=trace"), [false, false, false, true, true, true]);
        // One library's name may begin as another's does, and a part of one is not the whole.
        assert_eq!(also("trace,hyper_util=trace"), [true, false, false, false]);
        assert_eq!(also("trace,hyper=trace"), [false, true, true, false]);
        assert_eq!(also("info,hyper_rustls=debug"), [false, true, false, false]);
        assert_eq!(also("debug,hyper::proto=trace"), [false, false, true, false]);
        assert_eq!(also("info,hyper::client[call]=debug"), [false; 4]);
        assert_eq!(also("trace"), [false; 4]);
        // Nobody is made to tell more than was asked for.
        assert_eq!(through("warn"), [false; 6]);
        assert_eq!(through("warn,convoke_hub=debug"), [false, false, false, false, true, true]);
        // Nor is a way around it a part of the filter that names no library.
        assert_eq!(through("info,[call]=trace"), [false, false, false, false, false, true]);
    }
}
