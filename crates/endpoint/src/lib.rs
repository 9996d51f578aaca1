//! The agent on a machine: its tunnel to a hub, and everything around it that a machine which is used every day needs.
//!
//! Outbound only: it listens on nothing. The hub must prove that it holds the pinned key before anything is signed for it
//! or done for it. What a request may do is decided here again, whatever the hub decided and whatever its protocol: see
//! [`policy`].
//!
//! | module | what it is |
//! | --- | --- |
//! | [`address`] | where a hub is |
//! | [`config`], [`settings`] | who the agent is, and how it behaves |
//! | [`state`] | the state directory: key, configuration, kill switch, lock |
//! | [`enrol`] | the first contact |
//! | [`policy`] | what every request passes: kill switch, guard, limits |
//! | [`run`] | the agent as it runs: tunnel after tunnel |
//! | [`sonde`] | the Sonde tunnel, beside or in place of the other |
//! | [`switch`] | the kill switch |
//! | [`logs`] | files, standard error, and what goes to the hub |
//! | [`status`] | what a running agent tells on its own machine |
//! | [`update`] | another version in place of this one, and back |
//! | [`service`] | systemd, launchd, Windows services |

pub mod address;
mod calls;
pub mod config;
pub mod enrol;
mod files;
mod fit;
mod guard;
mod link;
pub mod logs;
mod net;
mod paths;
pub mod policy;
mod probe;
pub mod run;
pub mod service;
pub mod settings;
pub mod sonde;
pub mod state;
pub mod status;
pub mod switch;
mod telemetry;
pub mod update;
mod workplace;

pub use convoke_kenny::frame::RemoteControl;
pub use convoke_machine::apart;
pub use convoke_machine::exec::MARK as COMMAND_MARK;
pub use net::{DialError, ProxyError, TlsError};

/// The runtime of an agent: one thread for everything that waits, threads that come and go for what blocks.
pub fn runtime(settings: &settings::Settings) -> std::io::Result<tokio::runtime::Runtime> {
    // Every call may hold one, and a snapshot some; a few for the checks before calls.
    let blocking = settings.number("max_calls").saturating_add(32);
    tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(blocking).build()
}
