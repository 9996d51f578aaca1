//! Real processes and a small agent for the tests.

mod agent;
mod hub;
mod run;

pub(crate) use agent::Agent;
pub(crate) use hub::{Hub, Server};
pub(crate) use run::{Done, convoke};
