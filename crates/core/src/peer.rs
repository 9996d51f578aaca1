//! A peer's two machines: whether it is trusted, and whether it is there. They are independent: a revoked peer may
//! still be shown as last seen a minute ago, and a trusted one may be gone for a year.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::LinkId;

/// Whether a peer's key is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Known by name only.
    Unpaired,
    /// Invited: a token or a code is out.
    Pending,
    /// Its key is bound.
    Trusted,
    /// Its key is refused until it is invited again.
    Revoked,
}

/// An event that changes trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustEvent {
    /// An operator invited it (minted a token, sent a code).
    Invited,
    /// It proved the invitation and its key was bound.
    Bound,
    /// The invitation ran out unused.
    Lapsed,
    /// An operator revoked it.
    Revoked,
}

impl Trust {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Unpaired, Self::Pending, Self::Trusted, Self::Revoked];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unpaired => "unpaired",
            Self::Pending => "pending",
            Self::Trusted => "trusted",
            Self::Revoked => "revoked",
        }
    }

    /// The state of that name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|t| t.name() == text)
    }

    /// The state after `event`. Only an invitation leads out of `revoked`, and only a proven one into `trusted`.
    #[must_use]
    pub const fn after(self, event: TrustEvent) -> Self {
        match (self, event) {
            (_, TrustEvent::Revoked) => Self::Revoked,
            // Inviting a trusted peer is a key rotation: the old key holds until the new one is bound.
            (Self::Trusted, TrustEvent::Invited) => Self::Trusted,
            (_, TrustEvent::Invited) => Self::Pending,
            (Self::Pending | Self::Trusted, TrustEvent::Bound) => Self::Trusted,
            (Self::Pending, TrustEvent::Lapsed) => Self::Unpaired,
            (state, TrustEvent::Bound | TrustEvent::Lapsed) => state,
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether a peer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Liveness {
    /// Linked and heard from.
    Online,
    /// Linked, but overdue.
    Unstable,
    /// Not linked.
    Offline,
}

impl Liveness {
    /// All of them, best first.
    pub const ALL: [Self; 3] = [Self::Online, Self::Unstable, Self::Offline];

    /// The name used on every surface.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Unstable => "unstable",
            Self::Offline => "offline",
        }
    }
}

impl fmt::Display for Liveness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which link speaks for a peer. A newer link replaces an older one once it has authenticated, and an older link's
/// events can never touch the newer one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Presence {
    link: Option<LinkId>,
    overdue: bool,
}

impl Presence {
    /// A peer without a link.
    pub const OFFLINE: Self = Self { link: None, overdue: false };

    /// A link has authenticated. Returns the one it replaces, which must be closed. A link older than the present
    /// one (its handshake lost the race) is refused with `Err`.
    pub fn linked(&mut self, link: LinkId) -> Result<Option<LinkId>, StaleLink> {
        match self.link {
            Some(current) if link <= current => Err(StaleLink),
            replaced => {
                *self = Self { link: Some(link), overdue: false };
                Ok(replaced)
            }
        }
    }

    /// A link has ended. True when it was the present one, so that the peer is offline now.
    pub fn ended(&mut self, link: LinkId) -> bool {
        let was_current = self.link == Some(link);
        if was_current {
            *self = Self::OFFLINE;
        }
        was_current
    }

    /// The present link is overdue, or was heard again. True when that changed what is shown.
    pub fn set_overdue(&mut self, link: LinkId, overdue: bool) -> bool {
        let changed = self.link == Some(link) && self.overdue != overdue;
        if changed {
            self.overdue = overdue;
        }
        changed
    }

    /// The present link.
    pub const fn link(&self) -> Option<LinkId> {
        self.link
    }

    /// The liveness to show.
    pub const fn liveness(&self) -> Liveness {
        match (self.link, self.overdue) {
            (None, _) => Liveness::Offline,
            (Some(_), true) => Liveness::Unstable,
            (Some(_), false) => Liveness::Online,
        }
    }
}

/// A newer link already speaks for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a newer link already speaks for this peer")]
pub struct StaleLink;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_newer_link_survives_the_end_of_the_older() {
        let mut presence = Presence::default();
        assert_eq!(presence.linked(LinkId(1)), Ok(None));
        assert_eq!(presence.linked(LinkId(2)), Ok(Some(LinkId(1))));
        assert!(!presence.ended(LinkId(1)));
        assert_eq!(presence.liveness(), Liveness::Online);
        assert!(presence.ended(LinkId(2)));
        assert_eq!(presence.liveness(), Liveness::Offline);
    }

    #[test]
    fn only_an_invitation_leads_out_of_revoked() {
        for event in [TrustEvent::Bound, TrustEvent::Lapsed, TrustEvent::Revoked] {
            assert_eq!(Trust::Revoked.after(event), Trust::Revoked);
        }
        assert_eq!(Trust::Revoked.after(TrustEvent::Invited), Trust::Pending);
    }

    fn event() -> impl Strategy<Value = TrustEvent> {
        prop_oneof![
            Just(TrustEvent::Invited),
            Just(TrustEvent::Bound),
            Just(TrustEvent::Lapsed),
            Just(TrustEvent::Revoked)
        ]
    }

    proptest! {
        /// Trust is only ever reached through an invitation and a proof, both after the last revocation.
        #[test]
        fn trusted_means_invited_and_bound_since_the_last_revocation(events in prop::collection::vec(event(), 0..30)) {
            let mut state = Trust::Unpaired;
            for event in &events {
                state = state.after(*event);
            }
            if state == Trust::Trusted {
                let since = events.iter().rposition(|e| *e == TrustEvent::Revoked).map_or(0, |i| i + 1);
                let invited = events[since..].iter().position(|e| *e == TrustEvent::Invited);
                let bound = events[since..].iter().rposition(|e| *e == TrustEvent::Bound);
                prop_assert!(matches!((invited, bound), (Some(i), Some(b)) if i < b));
            }
        }

        /// Against a plain model: the peer is shown online exactly while its newest link has not ended.
        #[test]
        fn presence_follows_the_newest_link(steps in prop::collection::vec((any::<bool>(), 0u64..6), 0..40)) {
            let mut presence = Presence::default();
            let mut newest: Option<u64> = None;
            for (link, id) in steps {
                if link {
                    let refused = presence.linked(LinkId(id)).is_err();
                    prop_assert_eq!(refused, newest.is_some_and(|n| id <= n));
                    if !refused { newest = Some(id); }
                } else if presence.ended(LinkId(id)) {
                    prop_assert_eq!(newest, Some(id));
                    newest = None;
                }
                prop_assert_eq!(presence.link(), newest.map(LinkId));
            }
        }
    }
}
