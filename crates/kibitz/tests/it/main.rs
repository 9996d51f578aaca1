//! The protocol as both ends see it: no socket, no clock.

mod agents;
mod fixtures;
mod mesh;
mod properties;
mod room;
mod standing;
mod support;
