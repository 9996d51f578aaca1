//! News about agents for whoever watches: an agent came, went, sent telemetry, or was changed by an operator. What
//! changed is looked up by the watcher; a watcher that is slow misses news, never blocks who has them.

use std::sync::Arc;

use convoke_core::id::PeerId;
use tokio::sync::broadcast;

/// Most news that wait for a slow watcher; past it, it is told that it missed some and looks at everything.
const MAX_WAITING: usize = 1024;

/// Something about an agent changed.
#[derive(Clone, Debug)]
pub struct News {
    /// Which.
    pub agent: PeerId,
    /// Its tags before, where it lost some: whoever saw it by those sees that it is gone.
    pub tags_before: Arc<[String]>,
}

/// Where news are told.
#[derive(Debug)]
pub struct Changes {
    agents: broadcast::Sender<News>,
}

impl Default for Changes {
    fn default() -> Self {
        Self { agents: broadcast::Sender::new(MAX_WAITING) }
    }
}

impl Changes {
    /// Something about this agent changed.
    pub fn agent(&self, id: &PeerId) {
        self.agent_left(id, &[]);
    }

    /// Something about this agent changed, and it may not have these tags any more.
    pub fn agent_left(&self, id: &PeerId, tags_before: &[String]) {
        if self.agents.receiver_count() > 0 {
            let _ = self.agents.send(News { agent: id.clone(), tags_before: tags_before.into() });
        }
    }

    /// Hears of agents from now on.
    pub fn watch(&self) -> broadcast::Receiver<News> {
        self.agents.subscribe()
    }
}
