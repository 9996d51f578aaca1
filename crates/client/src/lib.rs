//! A paired Yonexus client as a library: it keeps a connection to a hub, reconnects, keeps its key and secret in a file
//! of its own, and hands messages to rule processors.
//!
//! ```no_run
//! use convoke_client::{Client, Config, StateFile};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let state = StateFile::open("client-a.json".as_ref())?;
//! let mut client = Client::new(Config::new("ws://127.0.0.1:7410/yonexus", state));
//! client.on("chat_sync", |message| println!("{}", message.content))?;
//! let mut running = client.start()?;
//! running.handle.send("chat_sync", "hello").await?;
//! while let Some(event) = running.events.recv().await {
//!     eprintln!("{event:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The protocol itself is [`convoke_yonexus::client`]; here are the socket, the clock, the file and the task around it.
//! A crate of its own, so that a program that only wants to be a client carries neither the hub nor the agent.

mod clock;
mod config;
mod connect;
mod run;
mod state;

pub use config::{Client, Config, Event, Handle, Message, Pairing, Running, SendError};
pub use connect::{ConnectError, hub_url};
pub use convoke_yonexus::client::State;
pub use run::Ended;
pub use state::{Kept, Lock, StateError, StateFile, Status};
