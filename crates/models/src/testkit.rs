//! A provider from a script, for tests.
//!
//! [`ScriptedServer`] is a small HTTP server on a free port of this machine. It answers each request with the next
//! [`Answer`] of its script, or with the one that was set for a path, and remembers what it was asked. An answer is a
//! list of [`Step`]s, so it can pause until the test lets it go on, drip, hang or cut the connection in the middle of a
//! word. [`Reply`] writes what a model says in the stream format of either API.
//!
//! Only for tests: it panics where a test should fail.

mod reply;
mod server;

pub use reply::Reply;
pub use server::{Answer, Gate, Received, ScriptedServer, Step};
