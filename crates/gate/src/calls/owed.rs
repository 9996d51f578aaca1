//! Outcomes that could not be recorded when their calls ended: they are, once the store can be written again. Until then
//! nobody is told the outcome, but whoever reads the journal later finds that the call has ended, and how.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoke_core::journal::Draft;
use convoke_store::StoreError;
use serde_json::json;

use crate::hub::Hub;

/// Most records that are owed. What is more is lost and counted; where a call was announced, the next start ends it.
const MAX_OWED: usize = 1024;

/// The records that are owed, in the order of their calls' ends.
#[derive(Debug, Default)]
pub struct Owed(Mutex<VecDeque<Draft>>);

impl Owed {
    fn queue(&self) -> MutexGuard<'_, VecDeque<Draft>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps an outcome that the store did not take. False if there is no room.
    pub(super) fn keep(&self, record: Draft) -> bool {
        let mut owed = self.queue();
        let has_room = owed.len() < MAX_OWED;
        if has_room {
            let what = json!({ "what": "recorded late: the store could not be written when the call ended" });
            owed.push_back(if record.detail.is_some() { record } else { record.detail(&what) });
        }
        has_room
    }
}

/// Whether a record that failed like this is owed.
pub(super) const fn is_owed(why: &StoreError) -> bool {
    !matches!(why, StoreError::Closed)
}

/// Records what is owed, as far as the store can be written.
pub async fn settle(hub: &Hub) {
    let mut settled = 0;
    loop {
        let Some(record) = hub.calls.owed.queue().front().cloned() else { break };
        match hub.store.append(record).await {
            Err(why) if is_owed(&why) => break,
            Ok(_) | Err(_) => {
                settled += 1;
                hub.calls.owed.queue().pop_front();
            }
        }
    }
    if settled > 0 {
        tracing::info!(settled, "wrote outcomes to the journal that could not be written when their calls ended");
    }
}

#[cfg(test)]
mod tests {
    use convoke_core::journal::Kind;
    use convoke_core::time::Timestamp;

    use super::*;

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let owed = Owed::default();
        let record = || Draft::new(Timestamp::from_millis(0), Kind::Call);
        assert!((0..MAX_OWED).all(|_| owed.keep(record())));
        assert!(!owed.keep(record()));
        assert_eq!(owed.queue().len(), MAX_OWED);
    }
}
