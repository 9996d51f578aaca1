//! MCP as assistants meet it, in both eras: with a session (2025-11-25) and without (2026-07-28).

mod answers;
mod approvals;
pub mod client;
mod doors;
mod hostile;
mod limits;
mod pages;
mod resources;
mod resume;
mod rooms;
mod rules;
mod sonde;
mod tools;
