//! The coding backend: what a user interface talks to over two pipes, in the Kward protocol.
//!
//! A request comes in as a frame ([`serve`]), waits in its lane for earlier requests of that lane, and ends in a method of
//! [`backend::Backend`]. Long work runs in tasks that report progress by notifications; every outgoing frame passes the
//! [`outbox`].
//!
//! What a caller can rely on:
//!
//! - **A cancel, a status or an answer never waits** for something slow.
//! - **A turn ends exactly once**, and its events come in the order of their numbers.
//! - **A session file is only ever appended to**, a whole line at a time, whoever else has it open.
//! - **Known secrets do not leave**: their values are removed from every outgoing frame and every file.
//!
//! Deliberately absent: the hub, its gate and its journal. This is a person's own program on their own machine.

mod auth;
mod backend;
mod clock;
mod config;
mod dispatch;
mod environment;
mod files;
mod instructions;
mod lanes;
mod logs;
mod memory;
mod models;
mod outbox;
mod plugins;
mod prompts;
mod providers;
mod redact;
mod resources;
mod runtime;
mod serve;
mod sessions;
mod settings;
mod turns;
mod workspace;

pub use environment::Environment;
pub use serve::{Ended, serve, spare_memory};
