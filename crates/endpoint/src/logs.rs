//! What the agent logs: a fuller record in its own files, a shorter one to standard error, and the events that the hub
//! should see, kept in a bounded buffer until there is a tunnel.

mod console;
mod file;
mod forward;

use std::io::IsTerminal as _;
use std::str::FromStr as _;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

pub use console::{Console, LastLines};
pub use file::RotatingFile;
pub use forward::{Forward, Line};

use crate::settings::Settings;
use crate::state::StateDir;

/// Our own crates log at the chosen level; the libraries below only warnings.
const OURS: [&str; 3] = ["convoke", "convoke_endpoint", "convoke_machine"];

/// Begins to record, and returns the buffer that the tunnel drains, and what writes the last lines. `console` is the level for standard error; the
/// variables `CONVOKE_LOG` and `RUST_LOG` say it in more detail. A directory that cannot be written to costs the local
/// files, never the agent.
pub fn start(settings: &Settings, state: &StateDir, console: &str) -> (Forward, LastLines) {
    let forward = Forward::new(settings.text("log_forward_level"));
    let variable = ["CONVOKE_LOG", "RUST_LOG"].iter().find_map(|n| std::env::var(n).ok().filter(|v| !v.is_empty()));
    let console = variable.and_then(|text| Targets::from_str(&text).ok()).unwrap_or_else(|| targets(console));
    let (stderr, last_lines) = Console::stderr();
    let to_console = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_filter(console);
    let size = settings.number("log_file_bytes") as u64;
    let file = RotatingFile::new(state.log_file(), size, settings.number("log_files"));
    let to_file = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(file)
        .with_filter(targets(settings.text("log_level")));
    let to_hub = forward.layer().with_filter(targets(settings.text("log_forward_level")));
    // A second start in one process (a test) keeps the first one's record.
    let _ = tracing_subscriber::registry().with(to_console).with(to_file).with(to_hub).try_init();
    (forward, last_lines)
}

fn targets(level: &str) -> Targets {
    let level = LevelFilter::from_str(level).unwrap_or(LevelFilter::INFO);
    Targets::new().with_default(level.min(LevelFilter::WARN)).with_targets(OURS.map(|name| (name, level)))
}
