//! Polls a hub that may restart meanwhile. The token is sent only to that hub.

use std::time::{Duration, Instant};

use anyhow::Result;
use convoke_api::{Client, ClientError};

use super::Verb;
use crate::connect::{HubLocation, NoHub};

/// How long a hub may be away: a restart takes less, also where it drains calls and looks through a large journal.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Between two tries.
pub(super) const PAUSE: Duration = Duration::from_millis(500);

/// A hub, as long as it is there.
pub(super) struct Reach<'a> {
    verb: Verb<'a>,
    location: HubLocation,
    client: Client,
    patience: Duration,
    /// Since when it does not answer.
    away: Option<Instant>,
}

impl<'a> Reach<'a> {
    pub(super) fn new(verb: Verb<'a>, client: Client, patience: Duration) -> Result<Self> {
        Ok(Self { verb, location: HubLocation::of(verb.global)?, client, patience, away: None })
    }

    /// A client for one request: of the hub where it is now, which may be another port than before.
    pub(super) fn client(&mut self) -> Result<&Client> {
        if self.location.base()? != self.client.base() {
            self.client = self.verb.client()?;
        }
        Ok(&self.client)
    }

    /// The hub has answered.
    pub(super) const fn answered(&mut self) {
        self.away = None;
    }

    /// Waits before the next try. Gives back what failed if that is no absence, or a long one.
    pub(super) async fn outlast(&mut self, why: anyhow::Error) -> Result<()> {
        if !is_absence(&why) {
            return Err(why);
        }
        // From now on: what failed may have been a request that waited for long.
        let since = *self.away.get_or_insert_with(|| {
            self.verb.output.remark("the hub does not answer; trying again for a minute");
            Instant::now()
        });
        if since.elapsed() >= self.patience {
            return Err(why);
        }
        tokio::time::sleep(PAUSE.min(self.patience)).await;
        Ok(())
    }
}

/// Whether the hub may be there again in a moment: nobody answers, or what stands before it says that it is not there. For who
/// has heard of the hub already: what answers in its place is a proxy.
pub(super) fn is_absence(why: &anyhow::Error) -> bool {
    match why.downcast_ref() {
        Some(ClientError::Unreachable { .. } | ClientError::Lost { .. } | ClientError::NotAHub { .. }) => true,
        Some(ClientError::Refused { status, .. }) => matches!(status, 502..=504),
        _ => why.is::<NoHub>(),
    }
}
