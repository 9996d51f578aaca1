//! A hub that is away for a moment, as at a restart: whoever waits for something of it waits on.

use std::time::{Duration, Instant};

use anyhow::Result;
use convoke_api::{Client, ClientError};

use super::Verb;

/// How long a hub may be away: a restart takes less, also where it drains calls and looks through a large journal.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// Since when a hub does not answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Absence {
    patience: Duration,
    since: Option<Instant>,
}

impl Absence {
    pub(super) const fn new(patience: Duration) -> Self {
        Self { patience, since: None }
    }

    /// The hub has answered.
    pub(super) const fn over(&mut self) {
        self.since = None;
    }

    /// Waits before the next try, and finds the hub anew. Gives back what failed if that is no absence, or a long one.
    pub(super) async fn outlast(&mut self, verb: Verb<'_>, client: &mut Client, why: anyhow::Error) -> Result<()> {
        if !is_absence(&why) {
            return Err(why);
        }
        let since = *self.since.get_or_insert_with(|| {
            verb.output.remark("the hub does not answer; it is tried again for a while");
            Instant::now()
        });
        if since.elapsed() >= self.patience {
            return Err(why);
        }
        tokio::time::sleep(PAUSE.min(self.patience)).await;
        // One that is known by its data directory may be at another port now.
        if let Ok(found) = verb.client() {
            *client = found;
        }
        Ok(())
    }
}

/// Whether the hub may be there again in a moment: nobody answers, or what stands before it says that it is not there.
pub(super) fn is_absence(why: &anyhow::Error) -> bool {
    match why.downcast_ref() {
        Some(ClientError::Unreachable { .. }) => true,
        Some(ClientError::NotAHub { status, .. } | ClientError::Refused { status, .. }) => {
            matches!(status, 502..=504)
        }
        _ => false,
    }
}
