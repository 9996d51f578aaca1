//! The fixtures that the official conformance suite asks for by name: tools, resources and prompts that do what its
//! scenarios describe. They stand behind the same door, token, origin and session checks as the hub's own; only a build
//! with the `conformance` feature has them, and only `convoke hub --conformance` mounts them.

mod inputs;
mod prompts;
mod resources;
mod tools;

use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::model::{JsonObject, ServerCapabilities};

use super::server::Server;

/// A 1×1 picture.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
/// An empty sound.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

static MOUNTED: AtomicBool = AtomicBool::new(false);

/// Mounts the fixtures in every hub of this process.
pub fn mount() {
    MOUNTED.store(true, Ordering::Release);
}

/// What a server with the fixtures can do besides.
pub(super) fn capabilities(server: &Server, mut capabilities: ServerCapabilities) -> ServerCapabilities {
    if server.fixtures().is_some() {
        capabilities.logging = Some(JsonObject::new());
    }
    capabilities
}

/// The suite's fixtures.
pub(super) struct Fixtures;

impl Server {
    /// The fixtures, where they are mounted.
    pub(super) fn fixtures(&self) -> Option<&'static Fixtures> {
        MOUNTED.load(Ordering::Acquire).then_some(&Fixtures)
    }
}
