//! What a machine can tell and do: the tools an endpoint answers calls with, the telemetry it sends, and the runner of
//! commands that both stand on.
//!
//! The crate knows nothing of tunnels, policy or the kill switch: whoever calls [`Machine::run`] has decided that the
//! call may run. It never trusts an argument: text of a caller never becomes an option of a program, a path may be
//! anything that the file system has, and everything it reads, keeps or waits for is bounded by [`Options`].
//!
//! | module | what it is |
//! | --- | --- |
//! | [`apart`] | a snapshot in a process of its own |
//! | [`exec`] | runs a command: own process group, whole tree killed at the deadline, output capped while it is read |
//! | [`open`] | opens what a caller named, under rules on real paths |
//! | `tools` | the tools that are the same everywhere: files, commands |
//! | `linux` | tools and sections on Linux, from `/proc`, `/sys`, D-Bus and the usual programs |
//! | `windows` | the same as a table of scripts and parsers, which compile and are tested everywhere |
//!
//! A collector or tool blocks a thread of its own, never one of the runtime's. One that hangs or panics costs its own
//! section or call and nothing else.

pub mod apart;
mod collect;
mod error;
pub mod exec;
mod facts;
#[cfg(target_os = "linux")]
mod linux;
mod machine;
pub mod open;
mod options;
#[cfg(not(any(target_os = "linux", windows)))]
mod other;
mod remembered;
mod section;
mod text;
mod tools;
#[cfg_attr(not(windows), allow(dead_code, reason = "the table and its parsers are tested everywhere"))]
mod windows;

#[cfg(target_os = "linux")]
use linux as platform;
#[cfg(not(any(target_os = "linux", windows)))]
use other as platform;
#[cfg(windows)]
use windows as platform;

pub use error::ToolError;
pub use machine::{Call, Machine};
pub use options::Options;
pub use section::Section;
