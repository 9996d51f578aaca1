//! The protocol as both ends see it: no socket, no clock.

mod fixtures;
mod mesh;
mod properties;
mod room;
mod support;
