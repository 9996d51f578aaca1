//! News about agents for whoever watches: an agent came, went or sent telemetry. What changed is looked up by the
//! watcher; a watcher that is slow misses news, never blocks who has them.

use convoke_core::id::PeerId;
use tokio::sync::broadcast;

/// Most news that wait for a slow watcher; past it, it is told that it missed some and looks at everything.
const MAX_WAITING: usize = 1024;

/// Where news are told.
#[derive(Debug)]
pub struct Changes {
    agents: broadcast::Sender<PeerId>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { agents: broadcast::Sender::new(MAX_WAITING) }
    }
}

impl Changes {
    /// Something about this agent changed.
    pub fn agent(&self, id: &PeerId) {
        if self.agents.receiver_count() > 0 {
            let _ = self.agents.send(id.clone());
        }
    }

    /// Hears of agents from now on.
    pub fn watch(&self) -> broadcast::Receiver<PeerId> {
        self.agents.subscribe()
    }
}
