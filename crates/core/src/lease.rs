//! What hubs that share a database owe each other: leases, and the epochs of links. Decisions only; the time is passed in.
//!
//! A lease is counted from before it was asked for, on a clock that runs while the machine sleeps, and used for two thirds of
//! its length. The database counts the whole length from when it heard of it. So a hub has stopped by itself before anybody
//! else may take it for gone.

use std::time::Duration;

/// A hub's lease as the hub itself counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    asked_at: Duration,
    length: Duration,
}

impl Lease {
    /// A lease of this length that was granted, and asked for at this time of the hub's own clock.
    pub const fn granted(asked_at: Duration, length: Duration) -> Self {
        Self { asked_at, length }
    }

    /// Until when the hub takes calls and sends them.
    pub fn acts_until(&self) -> Duration {
        self.asked_at.saturating_add(self.length / 3 * 2)
    }

    /// Whether the hub may take and send now.
    pub fn may_act(&self, now: Duration) -> bool {
        now < self.acts_until()
    }

    /// How often it is renewed: some tries may fail before the hub has to stop.
    pub fn renew_every(length: Duration) -> Duration {
        length / 6
    }
}

/// Whether others may raise the epoch of a hub, by the database's time: the lease it wrote down is over.
pub const fn may_be_fenced(lease_until_ms: i64, now_ms: i64) -> bool {
    lease_until_ms <= now_ms
}

/// Whether a link may stand for a peer, beside the one that stands there now: only a newer one.
pub const fn link_wins(standing: Option<u64>, epoch: u64) -> bool {
    match standing {
        Some(standing) => epoch > standing,
        None => true,
    }
}

/// Whether a hub closes a link it holds, having read which stands for the peer: another does, or did and has ended.
pub fn link_is_replaced(held: u64, standing: Option<u64>) -> bool {
    standing != Some(held)
}

/// Where a call goes after nobody answered at the link it was sent to. It was not taken there, so it may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The peer is offline.
    Offline,
    /// To the link of this epoch.
    Resend(u64),
}

/// Decides on it by the link that stands there now, held by a hub whose lease lives.
pub fn after_no_responders(tried: u64, standing: Option<u64>) -> Next {
    match standing {
        Some(standing) if standing > tried => Next::Resend(standing),
        _ => Next::Offline,
    }
}

#[cfg(test)]
mod tests;
