//! The simulator against its own forwarder: no hub is needed to know that it measures what it says.

mod answers;
mod forwarder;
mod rules;
mod support;
mod swarm;
